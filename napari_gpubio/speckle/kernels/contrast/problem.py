"""Frames, settings and maps as both backends use them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory
from napari_gpubio.speckle.model import EDGE, FrameStack, check_window
from napari_gpubio.speckle.settings import (
    DARK_STEPS_PER_ADU,
    EDGES,
    ContrastSettings,
    FlowIndex,
    Index,
    Inverse,
    InverseCorrelationTime,
    NoIndex,
    Noise,
    RelativeFlow,
    Squared,
    TimedIndex,
)

Array = npt.NDArray[Any]
NO_INDEX, RECIPROCAL, SQUARED, ICT, RELATIVE = range(5)
KINDS = {
    NoIndex: NO_INDEX,
    FlowIndex: RECIPROCAL,
    Inverse: RECIPROCAL,
    Squared: SQUARED,
    InverseCorrelationTime: ICT,
    RelativeFlow: RELATIVE,
}
_TOPS = {"inf": np.inf, "nan": np.nan, "clip": float(np.finfo(np.float32).max)}
_EXACT_IN_DOUBLE, _EXACT_IN_64_BITS = 2**53, 2**63 - 1
_FIRST_PIXELS = 4 << 20  # of the first chunk, whose duration sets the length of the others
BATCH_BYTES = 64 << 20  # of maps that are computed together, and their frames


class Rule(NamedTuple):
    """Numbers of the kernels that turn sums into maps.

    Parameters
    ----------
    radius, depth
        Size of the window, in pixels and frames.
    reach
        Radius of the windows that are summed from samples or from sums over frames: ``radius``, or 0 for floating-point
        frames, of which sums of whole windows are given.
    edges, kind
        Numbers of the edge mode and the index.
    whole
        Whether samples are integers, and squares are summed; for floating-point frames, deviations are.
    scale
        Factor of K² before the reciprocal (SFI: 2T), or of x (inverse correlation time: 1/T).
    beta
        β of the full model.
    top
        Index of windows whose samples are all equal.
    gain
        Variance of shot noise divided by the mean, in units of samples.
    low
        Mean of a window below which its signal is low, in units of samples.
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
class ContrastRecipe(drivers.Problem):
    """Settings, noise model and format of a camera's frames; ``baseline`` is K², one number or (Y, X)."""

    work = "contrast of such frames"
    run = "Live"

    settings: ContrastSettings
    noise: Noise
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    baseline: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        check_window(self.settings, self.shape)
        if not self.is_real:
            self._check_range()
        _ = self.baseline_plane  # raises an error if it is invalid

    @property
    def is_real(self) -> bool:
        """Whether frames are floating-point numbers, which are processed in double precision."""
        return self.dtype.kind == "f"

    @cached_property
    def dark(self) -> Array | None:
        """Dark level of each pixel, int32 in sixteenths of an ADU (for floating-point frames: in ADU), or None."""
        if not self.noise.has_dark:
            return None
        dark = self.noise.dark_of(self.shape)
        return dark if self.is_real else np.rint(DARK_STEPS_PER_ADU * dark).astype(np.int32)

    @property
    def unit(self) -> int:
        """Steps of a sample per ADU."""
        return 1 if self.is_real or not self.noise.has_dark else DARK_STEPS_PER_ADU

    @cached_property
    def largest(self) -> int:
        """Largest absolute value of a sample of integers."""
        top = self.unit * int(np.iinfo(self.dtype).max)
        return top if self.dark is None else max(top - int(self.dark.min()), int(self.dark.max()))

    @property
    def work_dtype(self) -> np.dtype[Any]:
        """Type of sums on the CPU: double if it holds every integer that can occur, else 64-bit integers."""
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
        """Variance of every pixel's window that is not due to light, in units of samples; or None."""
        if not self.noise.has_noise:
            return None
        floor = self.noise.floor_of(self.shape, self.settings.width) * self.unit**2
        with np.errstate(over="ignore"):  # infinite where no contrast can be above it
            return np.ascontiguousarray(floor, np.float32)

    @cached_property
    def baseline_plane(self) -> npt.NDArray[np.float32] | None:
        """K² of the baseline at every pixel, or None if the index needs none."""
        if not isinstance(self.settings.index, RelativeFlow):
            return None
        if self.baseline is None:
            raise InvalidInput("the index 'relative' needs a baseline; give its K², one number or a map (y, x)")
        plane = np.asarray(self.baseline, np.float64)
        if plane.shape not in ((), self.shape):
            raise InvalidInput(f"the baseline has shape {plane.shape} and a frame {self.shape}; give a map of its size")
        return np.ascontiguousarray(np.broadcast_to(plane, self.shape), np.float32)

    @property
    def saturated(self) -> int:
        """Level from which a pixel counts as saturated; 0 (unknown) for floating-point frames unless one is given."""
        level = self.settings.mask.saturation
        return level if level or self.is_real else int(np.iinfo(self.dtype).max)

    @property
    def rule(self) -> Rule:
        """Numbers for the kernels."""
        s = self.settings
        return Rule(
            radius=np.int64(s.width // 2),
            reach=np.int64(0 if self.is_real else s.width // 2),
            edges=np.int64(EDGES.index(s.mode.edges)),
            depth=np.int64(s.depth),
            kind=np.int64(KINDS[type(s.index)]),
            whole=np.bool_(not self.is_real),
            scale=np.float32(_scale(s.index)),
            beta=np.float32(s.index.beta if isinstance(s.index, InverseCorrelationTime) else 1.0),
            top=np.float32(_TOPS[getattr(s.index, "nonfinite", "inf")]),
            gain=np.float32(self.noise.gain * self.unit),
            low=np.float32(s.mask.low_signal * self.unit),
        )

    def memory(self, device: Device) -> Memory:
        """The frames of a window, and the maps of one."""
        window = self.settings.depth * int(np.prod(self.shape)) * self.dtype.itemsize
        return Memory(inputs=window, results=self.bytes_of_map)

    @property
    def bytes_of_map(self) -> int:
        """Bytes of K, index and mask of a map."""
        each = 4 + 4 * self.settings.has_index + self.settings.has_mask
        return int(np.prod(self.shape)) * each

    def empty_maps(self, count: int) -> "Maps":
        """Allocate maps."""
        shape = (count, *self.shape)
        index = np.empty(shape, np.float32) if self.settings.has_index else None
        mask = np.empty(shape, np.uint8) if self.settings.has_mask else None
        return Maps(np.empty(shape, np.float32), index, mask)


def _scale(index: Index) -> float:
    """What 1/K², or 1/x, is divided or multiplied by."""
    if not isinstance(index, TimedIndex):
        return 1.0
    seconds = 1e-3 * index.exposure_ms
    return 2.0 * seconds if isinstance(index, FlowIndex) else 1.0 / seconds


class Maps(NamedTuple):
    """K with the sign of K², index and mask, (maps, Y, X) each, on the host or on a GPU; None where not requested."""

    contrast: Any
    indices: Any
    mask: Any

    def part(self, start: int, end: int) -> "Maps":
        """Return views of some of the maps."""
        contrast, indices, mask = (None if array is None else array[start:end] for array in self)
        return Maps(contrast, indices, mask)

    def one(self, n: int) -> tuple[Any, Any, Any]:
        """Return contrast, index and mask of one map, (Y, X) each."""
        contrast, indices, mask = (None if array is None else array[n] for array in self)
        return contrast, indices, mask

    def clear(self, where: Array) -> None:
        """Set some of the maps to the values of no contrast."""
        for array, nothing in zip(self, (np.nan, np.nan, EDGE), strict=True):
            if array is not None:
                array[where] = nothing


@dataclass(frozen=True, eq=False, slots=True)
class Problem(drivers.Problem):
    """A stack and its maps, which are the items of a run; ``reached`` marks those that were computed.

    ``maps`` holds all of them (items, Y, X), or none where ``hand_on`` takes each batch with the number of its first.
    """

    work = "contrast of these frames"
    recipe: ContrastRecipe
    stack: FrameStack
    maps: Maps
    reached: npt.NDArray[np.bool_]
    hand_on: Callable[[int, Maps], None] | None = None

    @property
    def items(self) -> int:
        """Number of maps."""
        return self.recipe.settings.count(self.stack.count)

    def first_chunk(self, device: Device) -> int:
        """Maps of some megapixels."""
        return max(1, _FIRST_PIXELS // int(np.prod(self.stack.shape)))

    def load(self, start: int, count: int) -> Array:
        """Return the frames of the maps ``start`` to ``start + count - 1``."""
        s = self.recipe.settings
        return self.stack.load(start * s.step, (start + count - 1) * s.step + s.depth)

    def room(self, start: int, count: int) -> Maps:
        """Return memory for maps, where they stay if all are kept."""
        return self.maps.part(start, start + count) if self.hand_on is None else self.recipe.empty_maps(count)

    def put(self, start: int, made: Maps) -> None:
        """Take the maps from ``start`` on, which are computed; afterwards their memory may be used again."""
        count = len(made.contrast)
        if self.hand_on is not None:
            self.hand_on(start, made)
        else:
            for source, place in zip(made, self.maps.part(start, start + count), strict=True):
                if place is not None and not np.may_share_memory(source, place):
                    np.copyto(place, source)
        self.reached[start : start + count] = True


def batches(start: int, count: int, bytes_each: int) -> Iterator[tuple[int, int]]:
    """Yield first item and number of the batches of `BATCH_BYTES` that a chunk of items is computed in."""
    most = max(1, BATCH_BYTES // bytes_each)
    for first in range(start, start + count, most):
        yield first, min(most, start + count - first)


def make_problem(
    stack: FrameStack,
    settings: ContrastSettings,
    noise: Noise,
    baseline: npt.ArrayLike | None = None,
    hand_on: Callable[[int, Maps], None] | None = None,
) -> Problem:
    """Check a stack against the settings (InvalidInput), and allocate its maps, unless they are handed on."""
    check_window(settings, stack.shape, stack.count)
    recipe = ContrastRecipe(settings=settings, noise=noise, shape=stack.shape, dtype=stack.dtype, baseline=baseline)
    items = settings.count(stack.count)
    return Problem(
        recipe, stack, recipe.empty_maps(items if hand_on is None else 0), np.zeros(items, np.bool_), hand_on
    )
