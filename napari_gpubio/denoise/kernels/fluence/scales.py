"""Gaussian windows: their taps, and the challengers that a tournament tries one after another.

A window is a Gaussian along each axis, cut at `REACH` standard deviations and at the ends of the segment of its line
that has one label. There its taps are made to sum to 1 again, and for narrow windows also to have no first moment, so
that a slope is not bent at faces:  w(d) = g(d) (gain + slope d).  For wide windows such taps would be large and
negative, and fluence, which falls by decades over them, would not stay positive.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.denoise.fluence.settings import FluenceSettings

Float = npt.NDArray[np.float32]
REACH = 3.5  # standard deviations
WIDEST_SLOPED = 2.5  # voxels: the widest window without a first moment at faces
FINEST = 0.8  # voxels: the finest scale
RATIO = 1.6  # of one scale to the next, about; finer steps gain a tenth of a decibel
_NARROWEST = 0.25  # voxels: narrower Gaussians are one voxel
_EVIDENCE = 1.5  # voxels: the narrowest window over which errors are compared


class Taps(NamedTuple):
    """A window along one axis.

    Parameters
    ----------
    weights
        g(0) to g(reach), shape (reach + 1,).
    gains, slopes
        What makes a window whole again that ends after a voxels below and b voxels above, shape (reach + 1,) * 2.
    is_sloped
        Whether slopes matter at all.
    """

    weights: Float
    gains: Float
    slopes: Float
    is_sloped: bool

    @property
    def reach(self) -> int:
        """Voxels to either side."""
        return len(self.weights) - 1


_ONE = np.ones((1, 1), np.float32)
ONE_VOXEL = Taps(_ONE[0], _ONE, 0 * _ONE, is_sloped=False)
Window = tuple[Taps | None, Taps | None, Taps | None]  # None: nothing is done along that axis


class Challenger(NamedTuple):
    """An estimate that challenges what has won so far.

    Parameters
    ----------
    scale_mm
        Its standard deviation.
    window
        What it smooths with, twice.
    evidence
        What errors are compared over.
    is_flat
        Whether it leaves an axis alone.
    """

    scale_mm: float
    window: Window
    evidence: Window
    is_flat: bool


@functools.lru_cache(maxsize=256)
def make_taps(scale: float, *, is_sloped: bool) -> Taps | None:
    """The window of a Gaussian of ``scale`` voxels, or None where that is one voxel; made once."""
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
    gains = np.where(solvable, m2 / safe, 1.0 / m0)
    slopes = np.where(solvable, -m1 / safe, 0.0)
    weights, gains, slopes = (np.ascontiguousarray(x, np.float32) for x in (g[reach:], gains, slopes))
    return Taps(weights, gains, slopes, is_sloped=bool(slopes.any()))


def make_window(
    scale: float, steps: Sequence[float], *, is_sloped: bool = False, flat_along: int | None = None
) -> Window:
    """A window of ``scale`` voxels of the finest axis.

    Parameters
    ----------
    steps
        Voxel size along each axis, in units of the finest.
    is_sloped
        Whether it has no first moment at faces.
    flat_along
        An axis along which nothing is done.
    """
    x, y, z = (
        None if axis == flat_along else make_taps(scale / step, is_sloped=is_sloped) for axis, step in enumerate(steps)
    )
    return x, y, z


def scales_of(settings: FluenceSettings) -> list[float]:
    """Scales in voxels of the finest axis, from the finest to the largest, in equal ratios."""
    steps = max(1, round(np.log(settings.largest_scale / FINEST) / np.log(RATIO)))
    return [float(s) for s in np.geomspace(FINEST, max(FINEST, settings.largest_scale), steps + 1)]


def make_challengers(settings: FluenceSettings, voxel_size_mm: Sequence[float]) -> list[Challenger]:
    """All challengers in the order of the tournament, from fine to coarse."""
    return list(_challengers(settings, voxel_size_mm))


def _challengers(settings: FluenceSettings, voxel_size_mm: Sequence[float]) -> Iterator[Challenger]:
    finest = min(voxel_size_mm)
    steps = [size / finest for size in voxel_size_mm]
    scales = scales_of(settings)
    for scale in scales:
        evidence = make_window(max(_EVIDENCE, scale), steps)
        # the widest window is for what is homogeneous, and the finest is too small to be worth flattening
        for axis in (None, 0, 1, 2) if settings.flat and scales[0] < scale < scales[-1] else (None,):
            window = make_window(scale, steps, is_sloped=scale <= WIDEST_SLOPED, flat_along=axis)
            yield Challenger(scale * finest, window, evidence, axis is not None)
