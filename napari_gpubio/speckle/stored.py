"""Stacks of frames that stay in their files: what is read of them is let go of again."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.memory import forget_pages, map_of

Array = npt.NDArray[Any]


class StoredFrames:
    """A stack (T, Y, X) of which only those frames are read that are asked for, by a number or a slice.

    Parameters
    ----------
    shape
        Frames, rows and columns; further axes are samples of a pixel.
    dtype
        Type of the frames.
    read
        Returns the frames from a number up to another.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.speckle.stored import StoredFrames
    >>> stack = StoredFrames((9, 4, 5), np.uint8, lambda first, end: np.ones((end - first, 4, 5), np.uint8))
    >>> stack[2:4].shape, stack[-1].shape
    ((2, 4, 5), (4, 5))
    """

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike, read: Callable[[int, int], Array]) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._read, self._lock = read, threading.Lock()
        self._kept: tuple[int, Array] = 0, np.empty((0, *shape[1:]), dtype)  # the last frames, and the first's number

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all frames."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: int | slice) -> Array:
        if isinstance(which, slice):
            first, end, step = which.indices(len(self))
            if step < 1:
                raise IndexError(f"the frames are read forwards, not in steps of {step}")
            return self._block(first, max(first, end))[::step]
        if not -len(self) <= which < len(self):
            raise IndexError(f"there is no frame {which}: there are {len(self)}")
        return self._block(which % len(self), which % len(self) + 1)[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:  # noqa: FBT001 - NumPy's
        with self._lock:
            return np.asarray(self._read(0, len(self)), dtype)

    def part(self, first: int, end: int) -> "StoredFrames":
        """Return some of the frames, which are not read yet."""
        return StoredFrames((end - first, *self.shape[1:]), self.dtype, lambda a, b: self[first + a : first + b])

    def _block(self, first: int, end: int) -> Array:
        """Read frames, but for those that the last block has, too: windows overlap, and videos only go forwards."""
        with self._lock:
            begin, kept = self._kept
            here = kept[max(first - begin, 0) : end - begin] if begin <= first else kept[:0]
            block = here if len(here) == end - first else self._read(first + len(here), end)
            if 0 < len(here) < end - first:
                block = np.concatenate([here, block])
            self._kept = first, block
        return block


Frames = Array | StoredFrames


def part_of(frames: Any, first: int, end: int) -> Any:
    """Return some frames of a stack, which are not read yet where it is stored."""
    return frames.part(first, end) if isinstance(frames, StoredFrames) else frames[first:end]


def each_frame(frames: Frames) -> Iterator[Array]:
    """Yield one frame after another, and keep none of them in memory that are in a file."""
    for n in range(len(frames)):
        yield np.asarray(frames[n])
        forget_pages(frames)


def turned(frames: Frames, turn: Callable[[Array], Array], *, copies: bool = False) -> Frames:
    """Return what a function makes of frames, (T, ...) to (T, ...): when they are read where they are in a file.

    ``copies``: the function does not return a view, so that of a mapped file it must be called when they are read.
    """
    if not isinstance(frames, StoredFrames) and not (copies and map_of(frames) is not None):
        return turn(frames)
    some = turn(np.empty((1, *frames.shape[1:]), frames.dtype))

    def read(first: int, end: int) -> Array:
        forget_pages(frames)
        return turn(frames[first:end])

    return StoredFrames((len(frames), *some.shape[1:]), some.dtype, read)
