"""The brain phantom: make it, write it to ``sample_data``, read it."""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.phantom.brain import (
    B_VALUE,
    S0_WHITE,
    Floats,
    brain_anatomy,
    clean_signals,
    grid,
    rician,
    spread_directions,
)
from napari_gpubio.diffusion.phantom.bundles import Bundle, brain_bundles, rasterize


class SampleSettings(TypedDict):
    """The choices of `brain_phantom` that keep the packaged files small."""

    voxel_mm: float
    n_directions: int


FOLDER = "brain_phantom"
SAMPLE = SampleSettings(voxel_mm=2.75, n_directions=24)  # what the files in sample_data were made with
LABEL_SHARE = 0.2  # a voxel belongs to the bundle with the largest share if that is above this
FULL_SHARE = 0.92  # of the white matter of a voxel, at most, is in bundles


@dataclass(frozen=True, eq=False, slots=True)
class CenterLine(ShortRepr):
    """One curve of a bundle: its label, and its points in world mm, shape (n, 3)."""

    label: int
    points: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class BrainPhantom(ShortRepr):
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


def load_brain_phantom() -> DiffusionScan:
    """Read the phantom that comes with the package."""
    from napari_gpubio.diffusion.io.dwi import read_dwi

    return read_dwi(sample_path(f"{FOLDER}/dwi.nii.gz"))


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
