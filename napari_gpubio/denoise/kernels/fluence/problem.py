"""Two half-buffers to be denoised, scaled and laid out, the same for both backends."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.ndimage import maximum_filter

from napari_gpubio.denoise.fluence.settings import FluenceSettings
from napari_gpubio.denoise.kernels.fluence.scales import Challenger, Float, make_challengers
from napari_gpubio.denoise.kernels.fluence.segments import Bytes, measure_segments

_LEAST = 1e-30  # of the largest value, which errors are relative to at least: there is no fluence


class Smoothed(NamedTuple):
    """What came of a tournament, all of shape (X, Y, Z); values and errors are scaled as the problem's halves are."""

    values: Float
    scale: Float
    error: Float
    raw_error: Float


@dataclass(frozen=True, eq=False, kw_only=True)
class FluenceProblem:
    """Scaled half-buffers and everything that a backend needs to know to denoise them.

    Parameters
    ----------
    halves
        Fluence of even and of odd photons, shape (X, Y, Z), float32, divided by a power of two so that the largest
        value is near 1.
    segments
        See `measure_segments`; None where all of a line is one segment.
    is_masked
        Whether there are voxels that nothing is known of.
    limit
        The largest scale in mm that is allowed in each voxel, shape (X, Y, Z), or None.
    voxel_size_mm
        Edge lengths of a voxel.
    settings
        What the user chose.
    """

    halves: tuple[Float, Float]
    segments: Bytes | None
    is_masked: bool
    limit: Float | None
    voxel_size_mm: tuple[float, ...]
    settings: FluenceSettings

    @property
    def shape(self) -> tuple[int, int, int]:
        """Dimensions of the volume."""
        x, y, z = self.halves[0].shape
        return x, y, z

    @property
    def steps(self) -> list[float]:
        """Voxel size in units of the finest axis."""
        return [size / min(self.voxel_size_mm) for size in self.voxel_size_mm]

    @functools.cached_property
    def challengers(self) -> list[Challenger]:
        """All that try, from fine to coarse; the items of a run."""
        return make_challengers(self.settings, self.voxel_size_mm)

    @property
    def least(self) -> np.float32:
        """What errors are relative to at least."""
        return np.float32(_LEAST * max(float(half.max()) for half in self.halves))

    @property
    def resident_bytes(self) -> int:
        """About what a GPU keeps: halves, holder, three pairs and one to work in, reference, scale, segments, limit."""
        return self.halves[0].size * (4 * (13 + (self.limit is not None)) + 6 * (self.segments is not None))


def scale_of(first: npt.NDArray[np.floating], second: npt.NDArray[np.floating]) -> float:
    """Power of two that both halves are divided by, so that scaling costs no precision."""
    return float(2.0 ** np.round(np.log2(max(float(first.max()), float(second.max())))))


def segments_of(
    shape: tuple[int, ...], labels: npt.NDArray[np.int64] | None, mask: npt.NDArray[np.bool_] | None
) -> Bytes | None:
    """Segments of equal label inside the mask; None if there is but one label and no mask."""
    where = np.zeros(shape, np.int64) if labels is None else np.unique(labels, return_inverse=True)[1].reshape(shape)
    if mask is not None:
        where = np.where(mask, where, -1)
    return measure_segments(where) if where.min() != where.max() else None


def limit_of(
    mueff_per_mm: npt.NDArray[np.floating] | None, settings: FluenceSettings, shape: Sequence[int]
) -> Float | None:
    """The largest scale in mm in each voxel: so many penetration depths of its worst neighbor."""
    if mueff_per_mm is None or not settings.cap:
        return None
    worst = maximum_filter(np.broadcast_to(mueff_per_mm, tuple(shape)).astype(np.float32), 3)
    return np.asarray(np.float32(settings.cap) / worst, np.float32)
