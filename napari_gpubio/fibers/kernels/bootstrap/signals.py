"""Signals of residual-bootstrap repeats in Numba: what is drawn from, and the draws.

They are made on the host also where a GPU deconvolves them: that takes much longer than to draw them.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import kernel, run_blocks
from napari_gpubio.core.philox import philox4x32
from napari_gpubio.fibers.kernels.bootstrap.problem import SignalDraws

Array = npt.NDArray[Any]
_U32, _U64, _F32 = np.uint32, np.uint64, np.float32
_STREAM = 1  # last word of the counter; the signs of tensors have 0 there
_EACH = 256  # voxels worth a thread


@kernel
def fit_rows(
    start: int, stop: int, signals: Array, hat: Array, factors: Array, fitted: Array, residuals: Array
) -> None:
    """Fitted signals (M, V) and residuals (M, V), each times its factor, less their mean; sums are in order."""
    count = len(factors)
    for n in range(start, stop):
        mean = 0.0
        for v in range(count):
            value = 0.0
            for k in range(count):
                value += hat[v, k] * signals[n, k]
            fitted[n, v] = value
            residual = (signals[n, v] - value) * factors[v]
            residuals[n, v] = residual
            mean += residual
        mean /= count
        for v in range(count):
            residuals[n, v] -= mean


@kernel
def draw_rows(start: int, stop: int, draws: SignalDraws, repeat: int, out: Array) -> None:
    """Signals (M, V) of one repeat: to the fit of each direction a residual of the same voxel is added.

    Its index is ``w V / 2^32`` with the word w of the Philox counter (v / 4, voxel, repeat, 1) for direction v.
    """
    key0, key1 = _U32(draws.seed & _U64(0xFFFFFFFF)), _U32(draws.seed >> _U64(32))
    count = draws.fitted.shape[1]
    for n in range(start, stop):
        for first in range(0, count, 4):
            words = philox4x32(key0, key1, _U32(first // 4), draws.voxels[n], _U32(repeat), _U32(_STREAM))
            for v in range(first, min(first + 4, count)):
                which = (_U64(words[v - first]) * _U64(count)) >> _U64(32)
                value = draws.fitted[n, v] + draws.residuals[n, which]
                out[n, v] = max(value, _F32(0.0))


def fit_signals(signals: Array, hat: Array, factors: Array) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Fitted signals and what is drawn from them, each of shape (M, V); see `fit_rows`."""
    fitted, residuals = np.empty(signals.shape, np.float32), np.empty(signals.shape, np.float32)
    run_blocks(fit_rows, len(signals), signals, hat, factors, fitted, residuals, least=_EACH)
    return fitted, residuals


def draw_signals(draws: SignalDraws, repeat: int) -> npt.NDArray[np.float32]:
    """Signals of a repeat, shape (M, V); those of a voxel depend on its number, the repeat and the seed only."""
    out = np.empty(draws.fitted.shape, np.float32)
    run_blocks(draw_rows, len(out), draws, repeat, out, least=_EACH)
    return out
