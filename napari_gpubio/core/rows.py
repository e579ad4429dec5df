"""Rows of large arrays, summed, checked and copied by all cores."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_MIN_ROWS_FOR_THREAD = 4096
_MIN_STACK_BYTES_FOR_THREAD = 1 << 20


def row_sums(values: Array) -> Array:
    """Sum of each row, of floating-point numbers, in their type; from shape (M, N) to (M,)."""
    from napari_gpubio.core.jit import run_blocks

    sums = np.empty(len(values), values.dtype)

    def add(start: int, stop: int) -> None:  # no matrix product: threads of BLAS would go on spinning beside a run
        np.einsum("mn->m", values[start:stop], out=sums[start:stop])

    run_blocks(add, len(values), least=_MIN_ROWS_FOR_THREAD)
    return sums


def finite_rows(values: Array) -> npt.NDArray[np.bool_]:
    """Whether all floating-point numbers of a row are finite; from shape (M, N) to (M,)."""
    finite = np.asarray(np.isfinite(row_sums(values)))  # so all of them are
    if not finite.all():  # or their sum is too large
        finite[~finite] = np.isfinite(values[~finite]).all(axis=-1)
    return finite


def copy_rows(source: Array, target: Array, rows: npt.NDArray[np.int64] | None = None) -> None:
    """Copy rows to the rows of another array.

    Parameters
    ----------
    source
        Shape (M, ...).
    target
        Shape (M, ...), or (T, ...) with ``rows``, of any numbers.
    rows
        To which row of the target each goes, shape (M,), every row once at most.
    """
    from napari_gpubio.core.jit import run_blocks

    def copy(start: int, stop: int) -> None:
        target[slice(start, stop) if rows is None else rows[start:stop]] = source[start:stop]

    run_blocks(copy, len(source), least=_MIN_ROWS_FOR_THREAD)


def stacked_rows(parts: Sequence[npt.ArrayLike]) -> Array:
    """Put the rows of arrays one behind the other, as `numpy.concatenate` does.

    Parameters
    ----------
    parts
        One at least, of shapes (M, ...) that differ in M only.

    Returns
    -------
    ndarray
        In the type that holds all of them.

    Raises
    ------
    ValueError
        If other dimensions differ, too.
    """
    from napari_gpubio.core.jit import run_blocks

    arrays = [np.asarray(part) for part in parts]
    bytes_each = sum(array.nbytes for array in arrays) // len(arrays)
    if len({array.shape[1:] for array in arrays}) > 1 or not bytes_each:
        return np.concatenate(arrays)  # whose error says what is wrong
    first = np.cumsum([0, *map(len, arrays)])
    stack = np.empty((first[-1], *arrays[0].shape[1:]), np.result_type(*arrays))

    def copy(start: int, stop: int) -> None:
        for n in range(start, stop):
            stack[first[n] : first[n + 1]] = arrays[n]

    run_blocks(copy, len(arrays), least=max(1, _MIN_STACK_BYTES_FOR_THREAD // bytes_each))
    return stack
