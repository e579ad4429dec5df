"""The brain phantom: make it, write it to ``sample_data``, read it."""

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, sample_path
from napari_gpubio.tracts.model import DiffusionScan
from napari_gpubio.tracts.phantom.atlas import brain_atlas
from napari_gpubio.tracts.phantom.brain import (
    B_VALUE,
    S0_WHITE,
    Array,
    Floats,
    brain_anatomy,
    clean_signals,
    grid,
    rician,
    spread_directions,
)
from napari_gpubio.tracts.phantom.bundles import Bundle, brain_bundles, rasterize
from napari_gpubio.tracts.regions import Atlas


class SampleSettings(TypedDict):
    """The choices of `brain_phantom` that keep the packaged files small."""

    voxel_mm: float
    n_directions: int


FOLDER = "brain_phantom"
SAMPLE = SampleSettings(voxel_mm=2.75, n_directions=24)  # what the files in sample_data were made with
LABEL_SHARE = 0.2  # a voxel belongs to the bundle with the largest share if that is above this
FULL_SHARE = 0.92  # of the white matter of a voxel, at most, is in bundles


@dataclass(frozen=True, eq=False, slots=True)
class CenterLine:
    """One curve of a bundle: its label, and its points in world mm, shape (n, 3)."""

    label: int
    points: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class BrainPhantom:
    """A synthetic diffusion scan with its ground truth.

    Parameters
    ----------
    scan
        One b = 0 volume and the weighted ones, int16, zero outside the brain.
    labels
        Bundle with the largest share of each voxel, 0 for none, shape (X, Y, Z).
    names
        Name of each label.
    center_lines
        A few curves of each bundle.
    """

    scan: DiffusionScan
    labels: npt.NDArray[np.uint8]
    names: dict[int, str]
    center_lines: tuple[CenterLine, ...]


def brain_phantom(*, snr: float = 28.0, seed: int = 1, voxel_mm: float = 2.5, n_directions: int = 30) -> BrainPhantom:
    """Simulate a brain-like diffusion scan with bundles of known course.

    Parameters
    ----------
    snr
        Signal of white matter at b = 0 over the standard deviation of the noise; ``inf`` for none.
    seed
        Seed of the noise.
    voxel_mm
        Edge of the cubic voxels.
    n_directions
        Gradient directions at b = 1000 s/mm^2, at least 6.

    Raises
    ------
    InvalidInput
        If a number is out of range.
    """
    if not (snr > 0 and 1.0 <= voxel_mm <= 10.0 and n_directions >= 6):
        raise InvalidInput(
            f"snr = {snr}, voxel_mm = {voxel_mm}, n_directions = {n_directions}: the phantom needs snr > 0, "
            "voxels of 1 to 10 mm and at least 6 directions"
        )
    affine, shape = grid(voxel_mm)
    directions = np.concatenate([np.zeros((1, 3)), spread_directions(n_directions)])
    b = np.concatenate([[0.0], np.full(n_directions, B_VALUE)])
    anatomy, bundles = brain_anatomy(affine, shape), brain_bundles()
    fibers = _limited_shares([rasterize(bundle, affine, shape) for bundle in bundles])
    mask = anatomy.inside > 0.5
    signals = clean_signals(anatomy, fibers, directions, b, mask)
    data = np.zeros((*shape, len(b)), np.int16)
    data[mask] = np.clip(np.rint(rician(signals, S0_WHITE / snr, seed)), 1, 32767)
    return BrainPhantom(
        scan=DiffusionScan(data=data, bvals=b, directions=directions, affine=affine),
        labels=_labels(fibers, mask & (anatomy.white + anatomy.nuclei > 0.5)),
        names={n: bundle.name for n, bundle in enumerate(bundles, 1)},
        center_lines=_center_lines(bundles),
    )


def write_brain_phantom(folder: str | Path, phantom: BrainPhantom | None = None) -> None:
    """Write the scan (``dwi``), its bundles and its regions (``atlas``) to a folder, as NIfTI, text and trk files.

    The gradient table follows FSL: directions in image axes, the first one reversed for a right-handed affine.
    """
    from napari_gpubio.tracts.io.gradients import world_to_fsl

    phantom = brain_phantom(**SAMPLE) if phantom is None else phantom
    folder, scan = Path(folder), phantom.scan
    folder.mkdir(parents=True, exist_ok=True)
    _write_nifti(folder / "dwi.nii.gz", scan.data, scan.affine)
    _write_nifti(folder / "bundles.nii.gz", phantom.labels, scan.affine)
    bvecs = world_to_fsl(scan.directions, scan.affine).T + 0.0
    for name, rows, form in (("dwi.bval", scan.bvals[None], "%.0f"), ("dwi.bvec", bvecs, "%.6f")):
        with atomic_write(folder / name) as part:
            np.savetxt(part, rows, form)
    _write_lines(folder / "bundles.trk", phantom)
    _write_atlas(folder, brain_atlas(scan.affine, scan.shape))


def load_brain_phantom() -> DiffusionScan:
    """Read the phantom that comes with the package."""
    from napari_gpubio.tracts.io.dwi import read_dwi

    return read_dwi(sample_path(f"{FOLDER}/dwi.nii.gz"))


def load_brain_atlas() -> Atlas:
    """Read the phantom's regions that come with the package: lobes, deep nuclei, cerebellum, brain stem."""
    from napari_gpubio.tracts.io.atlases import read_atlas

    return read_atlas(sample_path(f"{FOLDER}/atlas.nii.gz"), sample_path(f"{FOLDER}/atlas.tsv"))


def _limited_shares(fibers: list[tuple[Floats, Floats]]) -> list[tuple[Floats, Floats]]:
    """Scale down the shares of voxels that the bundles would overfill."""
    total = np.sum([share for share, _ in fibers], axis=0)
    scale = FULL_SHARE / np.maximum(total, FULL_SHARE)
    return [(share * scale, direction) for share, direction in fibers]


def _labels(fibers: list[tuple[Floats, Floats]], where: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    shares = np.stack([share for share, _ in fibers])
    return np.where(where & (shares.max(axis=0) > LABEL_SHARE), shares.argmax(axis=0) + 1, 0).astype(np.uint8)


def _center_lines(bundles: tuple[Bundle, ...]) -> tuple[CenterLine, ...]:
    """A few curves of each bundle (more of the callosum), thinned to 32 points."""
    lines = []
    for label, bundle in enumerate(bundles, 1):
        count = 48 if label == 1 else 8
        which = np.unique(np.linspace(0, len(bundle.curves) - 1, count).astype(int))
        at = np.linspace(0, bundle.curves.shape[1] - 1, 32).astype(int)
        lines += [CenterLine(label, bundle.curves[f][at]) for f in which]
    return tuple(lines)


def _write_nifti(path: Path, data: Array, affine: Floats) -> None:
    """Write gzipped NIfTI with no name and no time in the gzip header, so that equal volumes give equal bytes."""
    import nibabel as nib

    image = nib.Nifti1Image(data, affine)
    image.header.set_xyzt_units("mm")
    with (
        atomic_write(path) as part,
        part.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=raw, mtime=0) as packed,
    ):
        packed.write(image.to_bytes())


def _write_atlas(folder: Path, atlas: Atlas) -> None:
    _write_nifti(folder / "atlas.nii.gz", atlas.labels, atlas.affine)
    rows = ["index\tname", *(f"{label}\t{name}" for label, name in atlas.names.items())]
    with atomic_write(folder / "atlas.tsv") as part:
        part.write_text("\n".join(rows) + "\n", encoding="utf-8")


def _write_lines(path: Path, phantom: BrainPhantom) -> None:
    import nibabel as nib

    labels = np.array([[line.label] for line in phantom.center_lines], np.float32)
    tractogram = nib.streamlines.Tractogram(
        [line.points.astype(np.float32) for line in phantom.center_lines],
        data_per_streamline={"bundle": labels},
        affine_to_rasmm=np.eye(4),
    )
    header = {
        "voxel_to_rasmm": phantom.scan.affine.astype(np.float32),
        "dimensions": np.array(phantom.scan.shape, np.int16),
        "voxel_sizes": np.abs(np.diag(phantom.scan.affine)[:3]).astype(np.float32),
        "voxel_order": "LAS",
    }
    with atomic_write(path) as part:
        nib.streamlines.TrkFile(tractogram, header).save(str(part))
