"""A stack of frames and how its contrast is taken, laid out for the kernels, the same for both backends."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.model import EDGE, FrameStack, check_window
from napari_gpubio.speckle.noise import DARK_STEPS, NoiseModel
from napari_gpubio.speckle.settings import EDGES, ContrastSettings

Array = npt.NDArray[Any]
NO_INDEX, RECIPROCAL, SQUARED, ICT, RELATIVE = range(5)
KINDS = {
    "none": NO_INDEX,
    "sfi": RECIPROCAL,
    "inverse": RECIPROCAL,
    "squared": SQUARED,
    "ict": ICT,
    "relative": RELATIVE,
}
_TOPS = {"inf": np.inf, "nan": np.nan, "clip": float(np.finfo(np.float32).max)}
_EXACT_IN_DOUBLE, _EXACT_IN_64_BITS = 2**53, 2**63 - 1


class Rule(NamedTuple):
    """Numbers of the kernels that turn sums into maps.

    Parameters
    ----------
    radius, depth
        Of the window, in pixels and frames.
    reach
        Pixels by which windows reach beyond their own row and column in what is summed: the radius, or 0 of sums of
        whole windows, which floating-point frames have.
    edges, kind
        Numbers of the edge mode and of the index.
    whole
        Whether squares are summed; else their deviations, of floating-point frames.
    scale
        What K² is multiplied by before the reciprocal (SFI: 2T), or x is multiplied by (inverse correlation time: 1/T).
    beta
        Of the full model.
    top
        Index of a window whose samples are all equal.
    gain
        Variance of shot noise over the mean, in units of the samples.
    low
        Least mean of a window that has signal enough, in the same units.
    """

    radius: np.int64
    reach: np.int64
    edges: np.int64
    depth: np.int64
    kind: np.int64
    whole: np.bool_
    scale: np.float32
    beta: np.float32
    top: np.float32
    gain: np.float32
    low: np.float32


@dataclass(frozen=True, eq=False, kw_only=True)
class Recipe:
    """What is done to every frame of a camera.

    Parameters
    ----------
    settings, noise
        As the user gave them.
    shape, dtype
        Of a frame.
    baseline
        K² of the baseline, one number or shape (Y, X); for the relative index.
    """

    settings: ContrastSettings
    noise: NoiseModel
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    baseline: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        check_window(self.settings, self.shape)
        if not self.is_real:
            self._check_range()
        _ = self.baseline_plane  # what is wrong with it is told now

    @property
    def is_real(self) -> bool:
        """Whether frames are floating-point numbers, which are worked on in double precision."""
        return self.dtype.kind == "f"

    @cached_property
    def dark(self) -> Array | None:
        """Dark level of each pixel, in sixteenths of an ADU as int32 (of floating-point frames: in ADU), or None."""
        if not self.noise.has_dark:
            return None
        dark = self.noise.dark_of(self.shape)
        return dark if self.is_real else np.rint(DARK_STEPS * dark).astype(np.int32)

    @property
    def unit(self) -> int:
        """Steps of a sample per ADU."""
        return 1 if self.is_real or not self.noise.has_dark else DARK_STEPS

    @cached_property
    def largest(self) -> int:
        """Largest size that a sample of integers can have."""
        top = self.unit * int(np.iinfo(self.dtype).max)
        return top if self.dark is None else max(top - int(self.dark.min()), int(self.dark.max()))

    @property
    def work_dtype(self) -> np.dtype[Any]:
        """Type of sums on the CPU: double where it holds every integer that can come, else 64-bit integers."""
        exact = self.is_real or self.settings.samples**2 * self.largest**2 <= _EXACT_IN_DOUBLE
        return np.dtype(np.float64 if exact else np.int64)

    def _check_range(self) -> None:
        most = int(_EXACT_IN_64_BITS**0.5 / self.largest)
        if self.settings.samples > most:
            raise InvalidInput(
                f"the window has {self.settings.samples:,} samples; sums of {8 * self.dtype.itemsize}-bit frames are "
                f"exact up to {most:,}{' with a dark level' if self.dark is not None else ''}; choose fewer frames or "
                "a smaller window, or give the frames as float32"
            )

    @cached_property
    def floor(self) -> npt.NDArray[np.float32] | None:
        """Variance of every pixel's window that does not come from light, in units of the samples; or None."""
        if not self.noise.has_noise:
            return None
        floor = self.noise.floor_of(self.shape, self.settings.width) * self.unit**2
        return np.ascontiguousarray(floor, np.float32)

    @cached_property
    def baseline_plane(self) -> npt.NDArray[np.float32] | None:
        """K² of the baseline at every pixel, or None where the index needs none."""
        if self.settings.index != "relative":
            return None
        if self.baseline is None:
            raise InvalidInput("the index 'relative' needs a baseline; give its K², one number or a map (y, x)")
        plane = np.asarray(self.baseline, np.float64)
        if plane.shape not in ((), self.shape):
            raise InvalidInput(f"the baseline has shape {plane.shape} and a frame {self.shape}; give a map of its size")
        return np.ascontiguousarray(np.broadcast_to(plane, self.shape), np.float32)

    @property
    def saturated(self) -> int:
        """Level from which a pixel counts as saturated; none does in floating-point frames unless a level is given."""
        level = self.settings.saturation
        return level if level or self.is_real else int(np.iinfo(self.dtype).max)

    @property
    def rule(self) -> Rule:
        """The numbers of the kernels."""
        s = self.settings
        seconds = 1e-3 * s.exposure_ms
        return Rule(
            radius=np.int64(s.width // 2),
            reach=np.int64(0 if self.is_real else s.width // 2),
            edges=np.int64(EDGES.index(s.edges)),
            depth=np.int64(s.depth),
            kind=np.int64(KINDS[s.index]),
            whole=np.bool_(not self.is_real),
            scale=np.float32({"sfi": 2.0 * seconds, "ict": 1.0 / seconds}.get(s.index, 1.0)),
            beta=np.float32(s.beta),
            top=np.float32(_TOPS[s.nonfinite]),
            gain=np.float32(self.noise.gain * self.unit),
            low=np.float32(s.low_signal * self.unit),
        )

    def empty_maps(self, count: int) -> "Maps":
        """Room for so many maps."""
        shape = (count, *self.shape)
        index = None if self.settings.index == "none" else np.empty(shape, np.float32)
        mask = np.empty(shape, np.uint8) if self.settings.mask else None
        return Maps(np.empty(shape, np.float32), index, mask)


class Maps(NamedTuple):
    """Contrast, index and mask, each (maps, Y, X); None for what was not asked for. On the host or on a GPU."""

    contrast: Any
    indices: Any
    mask: Any

    def part(self, start: int, end: int) -> "Maps":
        """Views of some of the maps."""
        contrast, indices, mask = (None if array is None else array[start:end] for array in self)
        return Maps(contrast, indices, mask)

    def one(self, n: int) -> tuple[Any, Any, Any]:
        """Return contrast, index and mask of a map, (Y, X) each."""
        contrast, indices, mask = (None if array is None else array[n] for array in self)
        return contrast, indices, mask

    def clear(self, where: Array) -> None:
        """Make some of the maps what they are where there is no contrast."""
        for array, nothing in zip(self, (np.nan, np.nan, EDGE), strict=True):
            if array is not None:
                array[where] = nothing


@dataclass(frozen=True, eq=False, slots=True)
class Problem:
    """A stack and what is done to it; items are maps.

    Parameters
    ----------
    recipe
        For its frames.
    stack
        The frames.
    maps
        Where the maps go, (items, Y, X).
    reached
        Which of them are there.
    """

    recipe: Recipe
    stack: FrameStack
    maps: Maps
    reached: npt.NDArray[np.bool_]

    @property
    def items(self) -> int:
        """Number of maps."""
        return self.recipe.settings.count(self.stack.count)

    def load(self, start: int, count: int) -> Array:
        """Return the frames that the maps ``start`` to ``start + count - 1`` are made of."""
        s = self.recipe.settings
        return self.stack.load(start * s.step, (start + count - 1) * s.step + s.depth)


def make_problem(
    stack: FrameStack, settings: ContrastSettings, noise: NoiseModel, baseline: npt.ArrayLike | None = None
) -> Problem:
    """Check a stack against the settings, and make room for its maps.

    Raises
    ------
    InvalidInput
        If the window does not fit, or its sums would not be exact.
    """
    check_window(settings, stack.shape, stack.count)
    recipe = Recipe(settings=settings, noise=noise, shape=stack.shape, dtype=stack.dtype, baseline=baseline)
    items = settings.count(stack.count)
    return Problem(recipe, stack, recipe.empty_maps(items), np.zeros(items, np.bool_))
