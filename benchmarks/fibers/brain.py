"""The real brain that lies beside the repository, places in it, and what to run on it."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import speed
from common import ROOT, Array
from scipy import ndimage

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.philox import uniform
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.tensors.run import fit_tensors
from napari_gpubio.diffusion.tensors.scalar_maps import fa_map

BRAIN = ROOT.parent / "shared" / "data" / "dwi" / "whole_brain_b1000"


@dataclass(frozen=True, eq=False, slots=True)
class Brain:
    """The real brain: tensors, and the scan they come from."""

    field: TensorField
    scan: DiffusionScan


def load_brain(path: Path | None) -> Brain | str:
    """The brain from an ``.npz`` or from the shared data; a sentence where there is none."""
    if path is not None:
        return _unpacked_brain(path)
    if not BRAIN.is_dir():
        return f"{BRAIN} is absent and no --brain was given"
    if importlib.util.find_spec("nibabel") is None:
        return "nibabel is missing and no --brain was given"
    from napari_gpubio.diffusion.io.dwi import read_dwi, read_mask

    scan = read_dwi(BRAIN / "dwi.nii.gz")
    mask = read_mask(BRAIN / "nodif_brain_mask.nii.gz", scan.shape, scan.affine)
    return Brain(fit_tensors(scan, mask, device="cpu"), scan)


def _unpacked_brain(path: Path) -> Brain:
    with np.load(path) as z:
        mask = z["mask"]
        tensors = np.zeros((*mask.shape, 6))
        tensors[mask] = z["tensors"]
        data = np.zeros((*mask.shape, z["signals"].shape[1]), z["signals"].dtype)
        data[mask] = z["signals"]
        scan = DiffusionScan(data=data, bvals=z["bvals"], directions=z["directions"], affine=z["affine"])
        return Brain(TensorField(tensors=tensors, mask=mask, affine=z["affine"]), scan)


def export_brain(brain: Brain, path: Path) -> None:
    """Write what `load_brain` reads: tensors and signals of the mask's voxels."""
    field, scan = brain.field, brain.scan
    np.savez_compressed(
        path,
        tensors=field.tensors[field.mask],
        mask=field.mask,
        affine=field.affine,
        signals=scan.data[field.mask],
        bvals=scan.bvals,
        directions=scan.directions,
    )


def callosum_box(field: TensorField) -> tuple[Array, Array]:
    """First voxel and extent of the 22 x 4 region (y, z) of the mid-sagittal slice with the most left-right fibers."""
    middle = round(float(apply_affine(np.linalg.inv(field.affine), [[0.0, 0.0, 0.0]])[0][0]))
    values, vectors = field.eigen.values[middle], field.eigen.vectors[middle]
    left_right = (values[..., 0] - values[..., 1]) * np.abs(vectors[..., 0, 0])
    score = ndimage.uniform_filter(np.where(field.mask[middle], left_right, 0.0), (22, 4), mode="constant")
    center = np.unravel_index(score.argmax(), score.shape)
    return np.array([middle, center[0] - 11, center[1] - 2]), np.array([1, 22, 4])


def callosum_click(field: TensorField) -> Array:
    """The middle of the callosal region, world mm, shape (1, 3)."""
    first, extent = callosum_box(field)
    return apply_affine(field.affine, (first + extent // 2)[None].astype(float))


def white_matter_seeds(field: TensorField, count: int) -> Array:
    """Random points in voxels of FA above 0.3, world mm."""
    voxels = np.argwhere(fa_map(field) > 0.3)
    u = uniform(5, 0, count, 4).astype(np.float64)
    return apply_affine(field.affine, voxels[(u[:, 0] * len(voxels)).astype(int)] + u[:, 1:] - 0.5)


@dataclass(frozen=True, slots=True)
class Plan(speed.Plan):
    """What to run, and where."""

    brain: Brain | str = ""

    @property
    def repeats(self) -> int:
        """How often each thing is timed."""
        return 3 if self.quick else 5

    @property
    def devices(self) -> tuple[Device, ...]:
        """The chosen device, and the CPU beside a GPU."""
        return (self.device, CPU) if self.device.is_gpu else (CPU,)
