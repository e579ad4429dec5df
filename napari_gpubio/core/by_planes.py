"""NumPy on all cores: slabs of large arrays, side by side in threads.

NumPy lets other threads run while it computes, and one core does not use the memory of a machine fully.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_MIN_VALUES = 1 << 18  # worth a thread: a tenth of a millisecond
_TILE_VOXELS = 8
SLAB = 1 << 22  # values between two steps: a few tenths of a second


def in_slabs(do: Callable[..., Any], *arrays: Array) -> list[Any]:
    """Call ``do`` with the slabs of arrays along their first axis, of equal length; returns what it returns, in order.

    Examples
    --------
    >>> in_slabs(lambda slab: float(slab.sum()), np.ones((2, 3)))
    [6.0]
    """
    from napari_gpubio.core.jit import run_blocks

    found: dict[int, Any] = {}

    def one(start: int, stop: int) -> None:
        found[start] = do(*(array[start:stop] for array in arrays))

    first = arrays[0]
    run_blocks(one, len(first), least=max(1, _MIN_VALUES * len(first) // max(1, first.size)))
    return [found[start] for start in sorted(found)]


def slabs_of(shape: Sequence[int], each: int = 1) -> Iterator[slice]:
    """Give the parts of the first axis of an array that have `SLAB` values, or one plane if that has more.

    ``each``: values that each of them stands for.

    Examples
    --------
    >>> list(slabs_of((5, 2048, 1024)))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    planes = max(1, SLAB * shape[0] // max(1, each * math.prod(shape)))
    for start in range(0, shape[0], planes):
        yield slice(start, min(start + planes, shape[0]))


def in_c_order(volume: Array) -> Array:
    """Return a volume (X, Y, Z) in C order, by tiles: five times as fast as NumPy, which is at odds with the cache.

    Examples
    --------
    >>> in_c_order(np.ones((2, 3, 4), order="F")).flags.c_contiguous
    True
    """
    if volume.flags.c_contiguous:
        return volume
    found = np.empty(volume.shape, volume.dtype)
    for x in range(0, len(volume), _TILE_VOXELS):
        for z in range(0, volume.shape[2], _TILE_VOXELS):
            tile = slice(x, x + _TILE_VOXELS), slice(None), slice(z, z + _TILE_VOXELS)
            found[tile] = volume[tile]
    return found


def blocks_of(
    array: Array, order: Literal["C", "F"], values: int, kind: npt.DTypeLike | None = None
) -> Iterator[bytes]:
    """Give the numbers of an array in an order, at most so many at a time; ``kind``: their type in another byte order.

    Examples
    --------
    >>> [list(block) for block in blocks_of(np.array([[1, 2, 3], [4, 5, 6]], np.uint8), "F", 4)]
    [[1, 4, 2, 5], [3, 6]]
    """
    flags: Any = ["external_loop", "buffered", "zerosize_ok"]
    blocks: Any = np.nditer(array, flags, op_dtypes=[kind], casting="equiv", order=order, buffersize=max(1, values))
    for block in blocks:
        yield block.tobytes()


def looked_up(table: Array, indices: Array, out: Array | None = None) -> Array:
    """Return ``table[indices]``, plane by plane: NumPy makes indices of 8 bytes of all that it is given at once.

    Examples
    --------
    >>> looked_up(np.array([5, 7]), np.array([[0, 1]], np.uint8))
    array([[5, 7]])
    """
    out = np.empty(indices.shape, table.dtype) if out is None else out
    for room, plane in zip(out, indices, strict=True):
        room[...] = np.take(table, plane)  # faster than indexing
    return out


def extremes(values: Array) -> tuple[Any, Any]:
    """Return the least and the largest value; both are NaN where one value is.

    Examples
    --------
    >>> extremes(np.array([3, 1, 2]))
    (np.int64(1), np.int64(3))
    """
    least, most = zip(*in_slabs(lambda slab: (slab.min(), slab.max()), values), strict=True)
    return np.min(least), np.max(most)
