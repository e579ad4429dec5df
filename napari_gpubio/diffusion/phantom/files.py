"""The files of the brain phantom: scan, bundles and regions."""

import gzip
from pathlib import Path

import numpy as np

from napari_gpubio.core.files import atomic_write, write_text
from napari_gpubio.diffusion.phantom.atlas import brain_atlas
from napari_gpubio.diffusion.phantom.brain import Array, Floats
from napari_gpubio.diffusion.phantom.sample import SAMPLE, BrainPhantom, brain_phantom
from napari_gpubio.diffusion.regions import Atlas


def write_brain_phantom(folder: str | Path, phantom: BrainPhantom | None = None) -> None:
    """Write the scan (``dwi``), its bundles and its regions (``atlas``) to a folder, as NIfTI, text and trk files.

    The gradient table follows FSL: directions in image axes, the first one reversed for a right-handed affine.
    """
    from napari_gpubio.diffusion.io.gradients import world_to_fsl

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
    write_text(folder / "atlas.tsv", "\n".join(rows) + "\n")


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
