"""Small inputs of verbs of the command line, and the words that run each."""

from pathlib import Path

import nibabel as nib
import numpy as np
import tifffile
from nibabel.affines import apply_affine
from pydicom import dcmread

from napari_gpubio.core.files import sample_path
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion.io import read_atlas
from napari_gpubio.optics.io import write_table
from napari_gpubio.tractograms import Tractogram
from napari_gpubio.tractograms.io import write_tractogram
from tests.dose.dicom_files import save_dose, save_structures
from tests.dose.samples import at, circle
from tests.light.result_samples import layered_domain

ATLAS = sample_path("brain_phantom/atlas.nii.gz")
PROSTATE = "\u524d\u7acb\u817a"
LIGHT = ("light", "head.nii.gz", "--media", "head.csv", "--position-mm", 0, 0, 1, "--photons", 400, "--batches", 4)


def dose_files(folder: Path) -> tuple[str, ...]:
    """A dose of 2 Gy in a grid of 2 mm, and a structure of 5 x 2 mm in it; returns the words of a run."""
    save_dose(folder / "d.dcm", np.full((10, 12, 14), 100, np.uint16), spacing=(2.0, 2.0, 2.0), first=(0.0, 0.0, 0.0),
              scale=0.02)  # fmt: skip
    contours = [("CLOSED_PLANAR", at(circle(6.0, 64, (13, 11)), z)) for z in (4.0, 6.0, 8.0, 10.0, 12.0)]
    structures = dcmread(save_structures(folder / "s.dcm", [("PTV", contours)]))
    structures.SpecificCharacterSet, structures.StructureSetROISequence[0].ROIName = "ISO_IR 192", PROSTATE
    structures.save_as(folder / "s.dcm")
    return "dvh", "d.dcm", "--structures", "s.dcm", "--metrics", "mean"


def image(folder: Path) -> tuple[str, ...]:
    """A noisy volume; returns the words of a run."""
    values = np.random.default_rng(0).normal(100, 5, (12, 12, 12)).astype(np.float32)
    nib.save(nib.Nifti1Image(values, np.eye(4)), folder / "in.nii")
    return "denoise", "in.nii", "--sigma", "5", "--patches", "small"


def in_micrometers(folder: Path) -> tuple[str, ...]:
    """The volume of `image` with its affine in micrometers; returns the words of a run."""
    words, header = image(folder), nib.load(folder / "in.nii").header
    header.set_xyzt_units("micron")
    volume = nib.Nifti1Image(nib.load(folder / "in.nii").get_fdata(dtype=np.float32), 1000 * np.eye(4), header)
    nib.save(volume, folder / "um.nii")
    return words[0], "um.nii", *words[2:]


def frames(folder: Path) -> tuple[str, ...]:
    """Six frames and two regions, of the contrast 1/2 and 1/4; returns the words of a run."""
    level = np.random.default_rng(0).choice((-1.0, 1.0), (6, 24, 24))
    contrast = np.where(np.arange(24) < 12, 0.5, 0.25)
    tifffile.imwrite(folder / "f.tif", (1000 * (1 + contrast * level)).astype(np.uint16), photometric="minisblack")
    labels = np.zeros((24, 24), np.uint8)
    labels[4:20, 2:8], labels[4:20, 16:22] = 1, 2
    tifffile.imwrite(folder / "l.tif", labels)
    return "speckle", "f.tif", "--window", "5", "--device", "cpu"


def fibers(folder: Path) -> tuple[str, ...]:
    """Three fibers along x of 16 mm; returns the words of a run."""
    points = [[(2, y, 6), (10, y, 6), (18, y, 6)] for y in (4, 8, 12)]
    lines = Tractogram(
        points=np.concatenate(points), offsets=[0, 3, 6, 9], affine=np.diag([2.0, 2, 2, 1]), shape=(12, 12, 6)
    )
    write_tractogram(folder / "in.trx", lines)
    return "dissect", "in.trx", "--include", "sphere:10,8,6,2", "--device", "cpu"


def head(folder: Path) -> tuple[object, ...]:
    """Labels and their optical properties; returns the words of a run."""
    domain = layered_domain((8, 9, 10), 2.0)
    write_volume(folder / "head.nii.gz", domain.labels, domain.affine)
    write_table(folder / "head.csv", domain.media)
    return *LIGHT, "--device", "cpu"


def crossing(folder: Path) -> tuple[str, ...]:
    """Three fibers from region 1 of an atlas to region 2; returns the words of a run."""
    atlas = read_atlas(ATLAS)
    voxels = [np.argwhere(atlas.labels == label)[9] for label in (1, 2)]
    lines = Tractogram(
        points=np.concatenate([apply_affine(atlas.affine, voxels)] * 3), offsets=[0, 2, 4, 6],
        affine=atlas.affine, shape=atlas.labels.shape,
    )  # fmt: skip
    write_tractogram(folder / "in.tck", lines)
    return "connectome", "in.tck", "--atlas", str(ATLAS)
