"""Sums over the windows of floating-point frames, sample by sample (Numba), the counterpart of ``direct.cu``.

Nothing slides here, because differences of rounded sums would drift. Each window is summed as differences from one of
its own samples, so that D is accurate, and exactly zero where all samples are equal.
"""

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.speckle.kernels.contrast.finishing import SHRINK, Outputs, Planes, finish_row, jit, make_sums
from napari_gpubio.speckle.kernels.contrast.problem import Rule

Array = npt.NDArray[Any]


@nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)
def fill_directly(frames: Array, saturated: Array, planes: Planes, rule: Rule, step: int, out: Outputs) -> None:
    """Fill maps.

    Parameters
    ----------
    frames
        Double precision, dark level subtracted, with margins as wide as the window's radius, (T, Y + 2 R, X + 2 R);
        the margins hold NaN where a window has no samples.
    saturated
        Which samples are, of the same shape, uint8; no frame at all where no level is known.
    step
        Frames from one map to the next.
    """
    maps, rows, _ = out.contrast.shape
    for job in nb.prange(maps * rows):
        n, y = job // rows, job % rows
        window = slice(n * step, n * step + rule.depth)
        _fill_row(frames[window], saturated[window], planes, rule, (n, y), rows, out)


@jit
def _fill_row(frames: Array, saturated: Array, planes: Planes, rule: Rule, place: Any, rows: int, out: Outputs) -> None:
    width, edge, y = out.contrast.shape[2], 2 * rule.radius + 1, place[1]
    sums = make_sums(width, np.empty(0, np.float64))
    middle = frames[0, y + rule.radius, rule.radius : rule.radius + width]
    for n in range(rule.depth):
        for dy in range(edge):
            for dx in range(edge):
                _add(frames[n, y + dy, dx : dx + width], middle, sums.s, sums.q)
                if n < len(saturated):
                    _mark(saturated[n, y + dy, dx : dx + width], sums.saturated)
    high = min(y + rule.radius, rows - 1) - max(y - rule.radius, 0) + 1
    for x in range(width):
        wide = min(x + rule.radius, width - 1) - max(x - rule.radius, 0) + 1
        count = np.float64((high * wide if rule.edges == SHRINK else edge * edge) * rule.depth)
        sums.q[x] = count * sums.q[x] - sums.s[x] * sums.s[x]
        sums.s[x] = sums.s[x] + count * middle[x]
    finish_row(sums, planes, rule, place, rows, out)


@jit
def _add(samples: Array, middle: Array, s: Array, q: Array) -> None:
    """Add a sample of every window of a row."""
    for x in range(s.size):
        difference = samples[x] - middle[x]
        known = difference if difference == difference else 0.0  # NaN: no sample
        s[x] += known
        q[x] += known * known


@jit
def _mark(samples: Array, windows: Array) -> None:
    """Mark the windows of a row that a saturated sample is in."""
    for x in range(windows.size):
        windows[x] |= samples[x]
