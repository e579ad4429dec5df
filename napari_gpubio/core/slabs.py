"""NumPy on all cores: slabs of large arrays, side by side in threads.

NumPy lets other threads run while it computes, and one core does not use the memory of a machine fully.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_LEAST_VALUES = 1 << 18  # worth a thread: a tenth of a millisecond


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
    run_blocks(one, len(first), least=max(1, _LEAST_VALUES * len(first) // max(1, first.size)))
    return [found[start] for start in sorted(found)]


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
