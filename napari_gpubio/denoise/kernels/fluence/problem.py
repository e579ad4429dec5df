"""Two half-buffers to be denoised, scaled and laid out, and the Gaussian windows that are tried on them.

A window is a Gaussian along each axis, cut at `REACH` standard deviations and at the ends of the segment of its line
that has one label. There its taps are made to sum to 1 again, and for narrow windows also to have no first moment, so
that a slope is not bent at faces:  w(d) = g(d) (gain + slope d).  For wide windows such taps would be large and
negative, and fluence, which falls by decades over them, would not stay positive.
"""

import functools
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.by_planes import extremes
from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Problem
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.denoise.fluence.model import FluenceSettings

Float = npt.NDArray[np.float32]
Real = npt.NDArray[np.floating]
Bytes = npt.NDArray[np.uint8]
_LEAST = 1e-30  # of the largest value, which errors are relative to at least: there is no fluence
_FARTHEST_VOXELS = 255
REACH = 3.5  # standard deviations
WIDEST_SLOPED = 2.5  # voxels: the widest window without a first moment at faces
FINEST = 0.8  # voxels: the finest scale
RATIO = 1.6  # of one scale to the next, about; finer steps gain a tenth of a decibel
_NARROWEST = 0.25  # voxels: narrower Gaussians are one voxel
_EVIDENCE = 1.5  # voxels: the narrowest window over which errors are compared
_EDGE = 1.2  # voxels: the narrowest scale over which updates are blended
_EDGE_SHARE = 0.75  # of a candidate's scale, if that is more and blending ends at tissues, where fewer errors are seen


class Taps(NamedTuple):
    """A window along one axis."""

    weights: Float  # g(0) to g(reach), shape (reach + 1,)
    # What makes a window whole again that ends after a voxels below and b voxels above, shape (reach + 1,) * 2
    gains: Float
    slopes: Float
    is_sloped: bool  # whether slopes matter at all

    @property
    def reach(self) -> int:
        """Voxels to either side."""
        return len(self.weights) - 1


_ONE = np.ones((1, 1), np.float32)
ONE_VOXEL = Taps(_ONE[0], _ONE, 0 * _ONE, is_sloped=False)
Window = tuple[Taps | None, Taps | None, Taps | None]  # None: nothing is done along that axis


class Candidate(NamedTuple):
    """An estimate that may replace the current best."""

    scale_mm: float  # its standard deviation
    window: Window  # what it smooths with, twice
    evidence: Window  # what errors are compared over
    edge: Window  # what updates are blended over
    is_flat: bool  # whether it leaves an axis alone
    is_within: bool = False  # whether it smooths once, within tissues, instead of twice (with a guide only)


@functools.lru_cache(maxsize=256)
def make_taps(scale: float, *, is_sloped: bool, is_sum: bool = False) -> Taps | None:
    """The window of a Gaussian of ``scale`` voxels, or None where that is one voxel; made once.

    As a sum it is not made whole where a segment ends: what lies beyond adds nothing.
    """
    if scale < _NARROWEST:
        return None
    reach = max(1, int(np.ceil(REACH * scale)))
    d = np.arange(-reach, reach + 1)
    g = np.exp(-0.5 * np.square(d / scale))
    g /= g.sum()
    # moments[m, a, b]: sum of g(d) d^m over -a <= d <= b
    partial = np.cumsum([np.append(0.0, g * d**m) for m in range(3)], axis=1)
    a, b = np.mgrid[: reach + 1, : reach + 1]
    m0, m1, m2 = partial[:, reach + b + 1] - partial[:, reach - a]
    determinant = m0 * m2 - m1 * m1
    solvable = is_sloped & (a + b >= 2) & (a != b)
    safe = np.where(solvable, determinant, 1.0)
    gains = np.ones_like(m0) if is_sum else np.where(solvable, m2 / safe, 1.0 / m0)
    slopes = np.where(solvable, -m1 / safe, 0.0)
    weights, gains, slopes = (np.ascontiguousarray(x, np.float32) for x in (g[reach:], gains, slopes))
    return Taps(weights, gains, slopes, is_sloped=bool(slopes.any()))


def make_window(
    scale: float,
    steps: Sequence[float],
    *,
    is_sloped: bool = False,
    is_sum: bool = False,
    flat_along: int | None = None,
) -> Window:
    """A window of ``scale`` voxels of the finest axis, in units of which ``steps`` are the voxel's edges.

    If it is sloped, it has no first moment at faces; as a sum it does not make up for what lies beyond; along the axis
    that it is flat along, nothing is done.
    """
    x, y, z = (
        None if axis == flat_along else make_taps(scale / step, is_sloped=is_sloped, is_sum=is_sum)
        for axis, step in enumerate(steps)
    )
    return x, y, z


def scales_of(settings: FluenceSettings) -> list[float]:
    """Scales in voxels of the finest axis, from the finest to the largest, in equal ratios."""
    steps = max(1, round(np.log(settings.largest_scale / FINEST) / np.log(RATIO)))
    return [float(s) for s in np.geomspace(FINEST, max(FINEST, settings.largest_scale), steps + 1)]


def make_candidates(
    settings: FluenceSettings, voxel_size_mm: Sequence[float], *, with_tissues: bool = False
) -> list[Candidate]:
    """All candidates in the order of trial, from fine to coarse."""
    finest = min(voxel_size_mm)
    steps = [size / finest for size in voxel_size_mm]
    scales, found = scales_of(settings), []
    for scale in scales:
        evidence = make_window(max(_EVIDENCE, scale), steps)
        edge = make_window(max(_EDGE, _EDGE_SHARE * scale) if with_tissues else _EDGE, steps)
        # the widest window is for what is homogeneous, and the finest is too small to be worth flattening
        for axis in (None, 0, 1, 2) if settings.flat and scales[0] < scale < scales[-1] else (None,):
            window = make_window(scale, steps, is_sloped=scale <= WIDEST_SLOPED, flat_along=axis)
            found.append(Candidate(scale * finest, window, evidence, edge, axis is not None))
        if with_tissues:
            once = make_window(scale, steps)
            found.append(Candidate(scale * finest, once, evidence, edge, is_flat=False, is_within=True))
    return found


class Smoothed(NamedTuple):
    """The result of a scale selection, shape (X, Y, Z); values and errors are in units of the problem's scale."""

    values: Real
    scale: Float
    error: Real
    raw_error: Real


class Guide(NamedTuple):
    """Fluence without noise."""

    values: npt.NDArray[Any]  # shape (X, Y, Z), integers or floats, not negative
    peak: float  # what they are divided by


@dataclass(frozen=True, eq=False)
class Regions(ShortRepr):
    """Regions of equal label, at whose borders windows end."""

    labels: npt.NDArray[Any]  # shape (X, Y, Z), integers or floats

    @functools.cached_property
    def segments(self) -> Bytes:
        """Where the regions end along each line, see `measure_segments`."""
        return measure_segments(self.labels)


@dataclass(frozen=True, eq=False, kw_only=True)
class FluenceProblem(Problem):
    """Half-buffers and everything that a backend needs to know to denoise them; items are candidates."""

    work = "denoising this fluence"
    at_first = 1

    halves: tuple[Real, Real]  # fluence of even and of odd photons, shape (X, Y, Z), float32 or float64
    regions: Regions | None  # within which is smoothed; None where there is but one
    is_masked: bool  # whether there are voxels that nothing is known of
    limit: Float | None  # the largest scale in mm that is allowed in each voxel, shape (X, Y, Z), or None
    voxel_size_mm: tuple[float, ...]
    settings: FluenceSettings
    guide: Guide | None = None  # what fluence is smoothed relative to; None: it is smoothed itself
    tissues: Regions | None = None  # within which errors are compared, if there is a guide

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
    def candidates(self) -> list[Candidate]:
        """All candidates, from fine to coarse; the items of a run."""
        with_tissues = self.guide is not None and self.tissues is not None
        return make_candidates(self.settings, self.voxel_size_mm, with_tissues=with_tissues)

    @functools.cached_property
    def largest(self) -> float:
        """The largest value of both halves."""
        return max(float(extremes(half)[1]) for half in self.halves)

    @property
    def scale(self) -> float:
        """What a run divides the halves by: the power of two at their largest value, so that precision is kept."""
        return float(2.0 ** np.round(np.log2(self.largest)))

    @property
    def least(self) -> np.float32:
        """What errors are relative to at least, in units of the scale."""
        return np.float32(_LEAST * self.largest / self.scale)

    @property
    def items(self) -> int:
        """Number of candidates."""
        return len(self.candidates)

    def memory(self, device: Device) -> Memory:
        """About that of halves, best, reference, scale, what errors are measured with, and optional ones."""
        volumes = 28 + (self.limit is not None) + 2 * (self.guide is not None)
        sides = (self.regions is not None) + (self.tissues is not None)
        return Memory(tallies=self.halves[0].size * (4 * volumes + 6 * sides))


def regions_of(labels: npt.NDArray[Any] | None, mask: npt.NDArray[np.bool_] | None) -> Regions | None:
    """Regions of equal label inside the mask; None if there is but one label and no mask."""
    if mask is not None:
        labels = np.zeros(mask.shape, np.int16) if labels is None else labels
        signed = labels.astype(np.result_type(labels.dtype, np.int16), copy=False)
        labels = np.where(mask, signed, extremes(signed)[0] - 1)
    if labels is None:
        return None
    least, most = extremes(labels)
    return Regions(labels) if least != most else None


def measure_segments(labels: npt.NDArray[Any]) -> Bytes:
    """Count the voxels of the same label below and above each voxel along each axis: shape (3, 2, X, Y, Z).

    They are counted without a gap, up to 255.
    """
    reach = np.zeros((3, 2, *labels.shape), np.uint8)
    sides = list(itertools.product(range(3), (0, 1)))

    def count(axis: int, side: int) -> None:
        step = 1 if side == 0 else -1
        _count_equal(*(np.moveaxis(array, axis, 0)[::step] for array in (labels, reach[axis, side])))

    with ThreadPoolExecutor(len(sides)) as pool:  # NumPy's loops run side by side
        list(pool.map(count, *zip(*sides, strict=True)))
    return reach


def _count_equal(labels: npt.NDArray[Any], below: Bytes) -> None:
    """Count the equal labels before each place of the first axis."""
    for i in range(1, len(labels)):
        more = np.minimum(below[i - 1], _FARTHEST_VOXELS - 1) + np.uint8(1)
        below[i] = np.where(labels[i] == labels[i - 1], more, 0)


def limit_of(
    mueff_per_mm: npt.NDArray[np.floating] | None, settings: FluenceSettings, shape: Sequence[int]
) -> Float | None:
    """The largest scale in mm in each voxel: so many penetration depths of its worst neighbor."""
    if mueff_per_mm is None or not settings.cap:
        return None
    from scipy.ndimage import maximum_filter

    worst = maximum_filter(np.broadcast_to(mueff_per_mm, tuple(shape)).astype(np.float32), 3)
    return np.asarray(np.float32(settings.cap) / worst, np.float32)
