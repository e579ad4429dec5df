"""Frames, maps of contrast with the bits of their mask, and where contrast may be trusted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import GriddedArray
from napari_gpubio.core.memory import forget_pages
from napari_gpubio.speckle.settings import ContrastSettings, Squared

EDGE = 1  # the window reaches over the border
ZERO_MEAN = 2  # its mean is not positive, so there is no contrast
ZERO_VARIANCE = 4  # all its samples are equal
SATURATED = 8  # a sample is saturated
LOW_SIGNAL = 16  # its mean is below the limit of the settings
BELOW_NOISE = 32  # its variance is less than that of the camera's noise
ALL = EDGE | ZERO_MEAN | ZERO_VARIANCE | SATURATED | LOW_SIGNAL | BELOW_NOISE
LEFT_OUT = EDGE | ZERO_MEAN | SATURATED | LOW_SIGNAL  # of means; K² below the noise is kept, or they would be too high
NAMES = {
    EDGE: "edge",
    ZERO_MEAN: "zero mean",
    ZERO_VARIANCE: "zero variance",
    SATURATED: "saturated",
    LOW_SIGNAL: "low signal",
    BELOW_NOISE: "below noise",
}


def is_valid(mask: npt.NDArray[np.uint8], skip: int = ALL) -> npt.NDArray[Any]:
    """Return where none of the bits in ``skip`` is set."""
    return np.asarray((mask & np.uint8(skip)) == 0)


Array = npt.NDArray[Any]
_LARGEST, _LEAST = 1e12, 1e-6  # of floating-point frames, so that squares of sums stay in single precision's range
_COLORS = (3, 4)
_SAMPLED = 16  # of so many rows and columns one is looked at first


def kernel_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return the type that the kernels use for frames of a type: uint8, uint16, float32 or float64.

    Raises
    ------
    InvalidInput
        If frames of this type are not numbers.
    """
    given = np.dtype(dtype)
    if given.kind not in "uif":
        raise InvalidInput(f"the frames hold {given} values; give whole or real numbers")
    if given.kind == "f":
        return np.dtype(np.float64 if given.itemsize > 4 else np.float32)
    return np.dtype(np.uint8 if given == np.uint8 else np.uint16)


@dataclass(frozen=True, eq=False)
class Recording:
    """Frames of a camera, as they are opened.

    Parameters
    ----------
    frames
        One frame (Y, X) or a stack (T, Y, X): an array, or stored frames.
    """

    frames: Any


class FrameStack:
    """A stack of frames, loaded a few at a time.

    Parameters
    ----------
    frames
        One frame (Y, X) or a stack (T, Y, X): NumPy, dask, zarr, a memory map, stored frames, a sequence of frames, or
        a `Recording`.

    Attributes
    ----------
    black
        Numbers of the loaded frames that are 0 everywhere, as programs show frames that a file lacks.
    """

    def __init__(self, frames: Any) -> None:
        array = as_array(frames)
        self.is_single = len(array.shape) == 2
        _check_shape(tuple(array.shape))
        self._array = array[None] if self.is_single else array
        self.count, *size = (int(n) for n in self._array.shape)
        self.shape: tuple[int, int] = (size[0], size[1])
        self.dtype = kernel_dtype(array.dtype)
        self.black: set[int] = set()
        self._largest: dict[int, tuple[float, int, int]] = {}  # by first frames: value, how many have it, of all

    @property
    def window_bytes(self) -> int:
        """Bytes of memory for a pixel of each frame of a window: those that are read, and copies as doubles."""
        is_there = isinstance(self._array, np.ndarray)  # or mapped
        return 2 * self.dtype.itemsize * (not is_there) + 17 * (self.dtype.kind == "f")

    def load(self, first: int, end: int) -> Array:
        """Return the frames ``first`` to ``end - 1``, shape (T, Y, X), C order, of `dtype`.

        Raises
        ------
        InvalidInput
            If the frames cannot be read, or have values that cannot be used.
        """
        forget_pages(self._array)  # those of the frames before
        try:
            frames = np.asarray(self._array[first:end])
        except (OSError, ValueError) as error:  # a network drive that was disconnected; chunks of different sizes
            raise InvalidInput(
                f"frames {first} to {end - 1} cannot be read ({error}); check the disk or server that holds them"
            ) from error
        if frames.shape != (end - first, *self.shape):
            raise InvalidInput(
                f"frames {first} to {end - 1} have shape {frames.shape} and those before them {self.shape}; crop them "
                "to one camera region"
            )
        some = frames[:, ::_SAMPLED, ::_SAMPLED]
        seem_black = ~some.any(axis=(1, 2))
        self.black |= {first + int(place) for place in np.flatnonzero(seem_black) if not frames[place].any()}
        if some.size:
            self._largest[first] = float(some.max()), int(np.count_nonzero(some == some.max())), some.size
        return checked_values(frames, self.dtype, first)

    @property
    def largest(self) -> tuple[float, float]:
        """The largest sample of the loaded frames, and which share of them has it; every few pixels are looked at."""
        top = max((value for value, *_ in self._largest.values()), default=0.0)
        counts = sum(count for value, count, _ in self._largest.values() if value == top)
        return top, counts / max(1, sum(size for *_, size in self._largest.values()))


def checked_values(frames: Array, dtype: np.dtype[Any], first: int = 0) -> Array:
    """Convert frames to the kernels' type, or raise InvalidInput if that would change values.

    Parameters
    ----------
    frames
        Shape (T, Y, X).
    dtype
        As returned by `kernel_dtype`.
    first
        Number of the first frame, for the message.
    """
    if frames.dtype.kind == "f":
        _check_real(frames, first)
    elif frames.dtype != dtype and frames.size:
        least, largest = int(frames.min()), int(frames.max())
        if least < 0 or largest > np.iinfo(dtype).max:
            raise InvalidInput(
                f"frames {first} to {first + len(frames) - 1} hold values from {least} to {largest}; integers "
                f"must be within 0 and {np.iinfo(dtype).max}, others may be given as float32"
            )
    return np.ascontiguousarray(frames, dtype).view(np.ndarray)


def check_window(settings: ContrastSettings, shape: tuple[int, int], count: int | None = None) -> None:
    """Raise InvalidInput unless a window fits in a frame, and in the frames if their number is given."""
    if settings.width > min(shape):
        raise InvalidInput(
            f"window is {settings.width} pixels and a frame {shape[1]} x {shape[0]}; choose a smaller window"
        )
    if count is not None and settings.depth > count:
        raise InvalidInput(
            f"frames is {settings.depth} and the stack has {count}; choose fewer, or a spatial window for single frames"
        )


def as_array(frames: Any) -> Any:
    """Return frames as an array, or what can be sliced like one; InvalidInput if their sizes differ."""
    if isinstance(frames, Recording):
        return frames.frames
    if isinstance(frames, Sequence):
        shapes = {np.shape(frame) for frame in frames}
        if len(shapes) > 1:
            sizes = " and ".join(map(str, sorted(shapes)[:2]))
            raise InvalidInput(f"the frames have different sizes, {sizes}; crop them to one camera region")
    if hasattr(frames, "shape") and hasattr(frames, "dtype") and hasattr(frames, "__getitem__"):
        return frames
    return np.asarray(frames)


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) >= 3 and shape[-1] in _COLORS and min(shape[-3:-1]) > max(_COLORS):
        raise InvalidInput(f"the frames have shape {shape}, like color images; give one channel, (frames, y, x)")
    if len(shape) not in (2, 3):
        raise InvalidInput(f"the frames have shape {shape}; give one frame (y, x) or a stack (frames, y, x)")
    if 0 in shape:
        raise InvalidInput(f"the frames have shape {shape} and no pixels; give at least one frame")


def _check_real(frames: Array, first: int) -> None:
    finite = np.isfinite(frames)
    if not finite.all():
        number = first + int(np.argmin(finite.all(axis=(1, 2))))
        bad = int(finite.size - np.count_nonzero(finite))
        raise InvalidInput(
            f"frame {number} holds values that are not finite ({bad} in what was read); leave that frame out, or "
            "replace the values (in Python: numpy.nan_to_num)"
        )
    largest = float(np.abs(frames).max(initial=0.0))
    if largest > _LARGEST or 0 < largest < _LEAST:
        raise InvalidInput(
            f"the largest value of the frames is {largest:g}; multiply them so that it lies between {_LEAST:g} and "
            f"{_LARGEST:g}, which changes no contrast"
        )


Float = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False, kw_only=True)
class ContrastMaps(GriddedArray, array="signed"):
    """Maps of speckle contrast, all of the same shape: (Y, X) of a single frame, else (maps, Y, X).

    Parameters
    ----------
    signed
        K, float32; NaN where there is none. Where the noise that was subtracted is more than the variance, K² is
        negative, and this is minus the root of its absolute value.
    index
        The index chosen in the settings, float32, in `unit`; None if none was requested.
    mask
        Bits as named in `NAMES`, uint8; None if none was requested.
    settings
        Settings that they were computed with.
    parameters
        Settings, noise model, device and software version, as JSON can hold them.
    notes
        Remarks for the user, in sentences.
    complete
        False if the run was stopped; maps that were not computed are NaN and marked as edges.
    noise_subtracted
        Whether the noise of the camera was subtracted.
    """

    signed: Float
    settings: ContrastSettings
    index: Float | None = None
    mask: npt.NDArray[np.uint8] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    complete: bool = True
    noise_subtracted: bool = False

    @cached_property
    def contrast(self) -> Float:
        """K; NaN where there is none, also where K² is negative."""
        return np.where(self.signed < 0, np.float32(np.nan), self.signed) if self.noise_subtracted else self.signed

    @property
    def unit(self) -> str:
        """Unit of the index; an empty text for a pure number."""
        return self.settings.unit

    @property
    def squared(self) -> Float:
        """K²; negative where the noise that was subtracted is more than the variance."""
        if self.index is not None and isinstance(self.settings.index, Squared):
            return self.index
        return self.signed * np.abs(self.signed)

    @property
    def valid(self) -> npt.NDArray[np.bool_]:
        """Where K is finite and no bit of the mask is set."""
        finite = self.signed >= 0
        return finite if self.mask is None else finite & is_valid(self.mask)

    def __len__(self) -> int:
        return 1 if self.signed.ndim == 2 else len(self.signed)

    def __getitem__(self, which: Any) -> "ContrastMaps":
        """Return some of the maps of a stack, or some of their pixels."""
        index, mask = (None if part is None else part[which] for part in (self.index, self.mask))
        return replace(self, signed=self.signed[which], index=index, mask=mask)


class MapTaker(Protocol):
    """Takes maps a few at a time as they are computed, such as a file; see `napari_gpubio.speckle.contrast_steps`."""

    def take(self, first: int, maps: ContrastMaps) -> None:
        """Take the maps (N, Y, X) from the one numbered ``first`` on, which are valid until this returns.

        They come once, but in any order from several GPUs, and again if a GPU had too little memory.
        """

    def finish(self, made: ContrastMaps, count: int) -> None:
        """Take what is said of the maps, of which there are ``count``: those before the stop if there was one."""


class MapMean:
    """The mean of the finite values of maps that come one after another, pixel by pixel."""

    def __init__(self) -> None:
        self.count = 0
        self._sum: Array = np.zeros(0)
        self._used: Array = np.zeros(0, np.int32)

    def add(self, values: Array) -> None:
        """Add a map (Y, X); one of another size than those before it starts over."""
        finite = np.isfinite(values)
        if self._sum.shape != values.shape:
            self._sum, self._used, self.count = np.zeros(values.shape), np.zeros(values.shape, np.int32), 0
        self._sum += np.where(finite, values, 0.0)
        self._used += finite
        self.count += 1

    def mean(self) -> npt.NDArray[np.float64]:
        """Return the mean so far; NaN where no map had a value."""
        return np.divide(self._sum, self._used, out=np.full(self._sum.shape, np.nan), where=self._used > 0)

    def take(self, first: int, maps: ContrastMaps) -> None:
        """Add K² of maps that come in order, those again that came already left out; see `MapTaker`."""
        for one in maps.squared[self.count - first :]:
            self.add(one)

    def finish(self, made: ContrastMaps, count: int) -> None:
        """Do nothing."""
