"""The compiled loop over all candidates of a brick (Numba), the counterpart of ``displacements.cuh``.

The same windows and the same order of operations. A brick lies in cache as planes of one x, each of them a flat array
of rows of one y, with a halo of search radius + patch radius. A displacement is then one offset, and every loop is long
and without branches; what is computed in the halo columns at the ends of rows is never read. Sums over a patch are
c + w1 (a1 + b1) + w2 (a2 + b2) along each axis, with the neighbors a and b at distances 1 and 2, and never running
sums: fluence spans ten decades.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.fastmath import decay
from napari_gpubio.core.jit import kernel, leaf
from napari_gpubio.denoise.kernels.anlm.problem import NOTHING, Triple

Array = npt.NDArray[Any]
_F = np.float32
_NOTHING, _ZERO, _OUT = _F(NOTHING), _F(0.0), _F(np.inf)
_CLOSE, _ALIKE = _F(0.95), _F(0.5)  # Coupe et al. 2008: least ratio of two means, of two variances


class Layout(NamedTuple):
    """Where a brick lies in the flat planes of its tiles, in voxels."""

    size: Triple
    search: Triple
    reach: Triple  # largest patch radii
    halo: Triple  # search radii + patch radii
    margin: int  # unused numbers before and behind each plane, since an offset may point there
    pitch: int  # numbers in a row


class Rule(NamedTuple):
    """Pre-selection and weights; see `Problem`."""

    a_suffices: bool
    b_with_c_suffices: bool
    anything: bool
    keeps_largest: bool
    maximum: np.float32
    floor: np.float32
    cutoff: np.float32
    offsets: Array  # of each patch


class Tiles(NamedTuple):
    """A brick with its halo, each of shape (planes, flat plane), float32."""

    values: Array
    averaged: Array  # values or their squares
    mean: Array
    variance: Array  # -1 where a voxel is not usable


class Scratch(NamedTuple):
    """Room for squared differences, the passes of window sums, and the pre-selection of one plane."""

    squares: Array
    rows: Array
    gate: Array


@leaf
def _square_differences(tile: Array, layout: Layout, dx: int, offset: int, out: Array) -> None:
    """(a - b)^2 of a tile and the displaced tile, in the brick and a patch radius around it."""
    start = layout.margin + (layout.halo[1] - layout.reach[1]) * layout.pitch
    plane = layout.halo[0] - layout.reach[0]
    n = out.shape[1]
    for x in range(out.shape[0]):
        here, there = tile[plane + x, start : start + n], tile[plane + x + dx, start + offset : start + offset + n]
        line = out[x]
        for k in range(n):
            difference = here[k] - there[k]
            line[k] = difference * difference


@leaf
def _preselect(tiles: Tiles, layout: Layout, x: int, dx: int, offset: int, rule: Rule, gate: Array) -> None:
    """0 where a voxel of the brick's plane x may be compared with the displaced one, else infinite.

    Added to a distance, that takes the voxel out.
    """
    start, n = layout.margin + layout.halo[1] * layout.pitch, len(gate)
    here, there = layout.halo[0] + x, layout.halo[0] + x + dx
    mean_i, mean_j = tiles.mean[here, start : start + n], tiles.mean[there, start + offset : start + offset + n]
    variance_i = tiles.variance[here, start : start + n]
    variance_j = tiles.variance[there, start + offset : start + offset + n]
    for k in range(n):
        mi, mj, vi, vj = mean_i[k], mean_j[k], variance_i[k], variance_j[k]
        a = (mi > _CLOSE * mj) & (mj > _CLOSE * mi)
        ri, rj = rule.maximum - mi, rule.maximum - mj
        b = (ri > _CLOSE * rj) & (rj > _CLOSE * ri)
        c = (vi > _ALIKE * vj) & (vj > _ALIKE * vi)
        ok = (a & (c | rule.a_suffices)) | (b & c & rule.b_with_c_suffices) | rule.anything
        gate[k] = _ZERO if ok & (vj >= _ZERO) else _OUT


@leaf
def _window_sum(source: Array, start: int, step: int, weights: Array, out: Array) -> None:
    """Sums over up to 5 numbers of a flat array, ``step`` apart, around ``start`` and what follows it.

    ``weights`` are those of the numbers at the distances 1 and 2.
    """
    n, one, two = len(out), weights[0], weights[1]
    c = source[start : start + n]
    if one == _ZERO:
        for k in range(n):
            out[k] = c[k]
        return
    a1, b1 = source[start - step : start - step + n], source[start + step : start + step + n]
    if two == _ZERO:
        for k in range(n):
            out[k] = c[k] + one * (a1[k] + b1[k])
        return
    a2, b2 = source[start - 2 * step : start - 2 * step + n], source[start + 2 * step : start + 2 * step + n]
    for k in range(n):
        out[k] = c[k] + one * (a1[k] + b1[k]) + two * (a2[k] + b2[k])


@leaf
def _lower(sums: Array, gate: Array, least: Array) -> None:
    for k in range(len(gate)):
        candidate = sums[k] if gate[k] == _ZERO else _NOTHING  # a sum of both is not vectorized
        least[k] = min(least[k], candidate)


@leaf
def _add(
    sums: Array, gate: Array, inverse: Array, own: Array, displaced: Array, totals: Array, rule: Rule, patch: int
) -> None:
    """Add displaced voxels to ``totals``: weighted differences to the own value, weights, the largest weight if needed.

    Differences keep a constant volume constant to the last bit.
    """
    differences, weights, largest = totals[0], totals[1], totals[2]
    offset = rule.offsets[patch]
    for k in range(len(gate)):
        distance = max(sums[k] * inverse[k] - offset, _ZERO) + gate[k]
        weight = decay(distance) if distance <= rule.cutoff else _ZERO
        differences[k] += weight * (displaced[k] - own[k])
        weights[k] += weight
        if rule.keeps_largest:
            largest[k] = max(largest[k], weight)


@kernel
def visit_candidates(
    compared: Array,
    tiles: Tiles,
    layout: Layout,
    weights: Array,
    rule: Rule,
    scratch: Scratch,
    out: tuple[Array, Array],
) -> None:
    """Visit all candidates of a brick's voxels: find the least sums of squares, or average by what they are.

    Patches of ``weights`` (patches, axes, distances 1 and 2) are ``compared`` by residuals, whose sums give the local
    noise, or by values. ``out`` holds sums of squared differences over patches, shape (patches, x, flat plane), and
    totals, shape (patches, x, 3, flat plane). Without totals (no patches), the sums become the least of a voxel's
    candidates. With totals, the sums are the inverse of the noise's measure, and the candidates are added to the
    totals, see `_add`.
    """
    sums, totals = out
    squares, rows, gate = scratch
    start, n, width = layout.margin + layout.halo[1] * layout.pitch, len(gate), squares.shape[1]
    averages, middle = len(totals) > 0, layout.reach[1] * layout.pitch
    sx, sy, sz = layout.search
    flat = squares.reshape(squares.size)
    for dx in range(-sx, sx + 1):
        for dy in range(-sy, sy + 1):
            for dz in range(-sz, sz + 1):
                if dx == 0 and dy == 0 and dz == 0:
                    continue
                offset = dy * layout.pitch + dz
                _square_differences(compared, layout, dx, offset, squares)
                for x in range(layout.size[0]):
                    _preselect(tiles, layout, x, dx, offset, rule, gate)
                    here, there = layout.halo[0] + x, layout.halo[0] + x + dx
                    if averages and rule.floor > -_NOTHING:
                        displaced = tiles.values[there, start + offset : start + offset + n]
                        for k in range(n):
                            gate[k] = gate[k] if displaced[k] > rule.floor else _OUT
                    for p in range(len(weights)):
                        _window_sum(flat, (x + layout.reach[0]) * width, width, weights[p, 0], rows[0, :width])
                        _window_sum(rows[0], middle, layout.pitch, weights[p, 1], rows[1, 2 : 2 + n])
                        _window_sum(rows[1], 2, 1, weights[p, 2], rows[2, :n])
                        if averages:
                            own = tiles.averaged[here, start : start + n]
                            other = tiles.averaged[there, start + offset : start + offset + n]
                            _add(rows[2], gate, sums[p, x], own, other, totals[p, x], rule, p)
                        else:
                            _lower(rows[2], gate, sums[p, x])
