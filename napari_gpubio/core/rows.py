"""Rows of large arrays, summed, checked and copied by all cores."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_LEAST_ROWS = 4096  # that are worth a thread


def row_sums(values: Array) -> Array:
    """Sum of each row, from shape (M, N) to (M,)."""
    from napari_gpubio.core.jit import run_blocks

    sums = np.empty(len(values), values.dtype)

    def add(start: int, stop: int) -> None:  # no matrix product: threads of BLAS would go on spinning beside a run
        np.einsum("mn->m", values[start:stop], out=sums[start:stop])

    run_blocks(add, len(values), least=_LEAST_ROWS)
    return sums


def finite_rows(values: Array) -> npt.NDArray[np.bool_]:
    """Whether all numbers of a row are finite; from shape (M, N) to (M,)."""
    finite = np.asarray(np.isfinite(row_sums(values)))  # so all of them are
    if not finite.all():  # or their sum is too large
        finite[~finite] = np.isfinite(values[~finite]).all(axis=-1)
    return finite


def copy_rows(values: Array, to: Array, at: Array | None = None) -> None:
    """Copy rows to an array, or to its rows ``at``, on all cores."""
    from napari_gpubio.core.jit import run_blocks

    def copy(start: int, stop: int) -> None:
        to[slice(start, stop) if at is None else at[start:stop]] = values[start:stop]

    run_blocks(copy, len(values), least=_LEAST_ROWS)


def stacked_rows(arrays: Sequence[Array]) -> Array:
    """The rows of arrays one behind the other, copied by all cores."""
    from napari_gpubio.core.jit import run_blocks

    first = np.cumsum([0, *map(len, arrays)])
    stack = np.empty((first[-1], *arrays[0].shape[1:]), np.result_type(*arrays))

    def copy(start: int, stop: int) -> None:
        for n in range(start, stop):
            stack[first[n] : first[n + 1]] = arrays[n]

    run_blocks(copy, len(arrays))
    return stack
