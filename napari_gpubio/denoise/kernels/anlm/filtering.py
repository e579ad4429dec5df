"""Adaptive non-local means on bricks (Numba), the counterpart of ``anlm.cu``: same windows, same order of operations.

For every displacement d of the search window, the squared differences of the volume and the displaced volume are
summed over patches by three passes of short window sums (along x, y, z), for all voxels of a brick at once: see
``bricks.py``. The residual's sums give the local noise, the volume's own the weights.
"""

from typing import Any, Literal, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.core.fastmath import decay
from napari_gpubio.denoise.kernels.anlm.bricks import (
    Layout,
    Radii,
    buffers,
    layout_of,
    load_tile,
    patch_sums,
    squared_differences,
)
from napari_gpubio.denoise.kernels.anlm.problem import NOTHING, TINY

Array = npt.NDArray[Any]
_jit = nb.njit(cache=True, nogil=True, error_model="numpy")
_jit_parallel = nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)
_F = np.float32
_NOTHING, _TINY, _ZERO, _ONE, _OUT = _F(NOTHING), _F(TINY), _F(0.0), _F(1.0), _F(np.inf)
_CLOSE, _ALIKE = _F(0.95), _F(0.5)  # Coupe et al. 2008: least ratio of two means, of two variances


class Volume(NamedTuple):
    """What a filter reads: all of shape (X, Y, Z), float32."""

    values: Array
    mean: Array
    variance: Array  # -1 where a voxel is not usable


Largest = Literal[True] | None  # whether the largest weight is asked for: None takes it out of the compiled loop


class Rule(NamedTuple):
    """Pre-selection and weights; see `Problem`."""

    a_suffices: bool
    b_with_c_suffices: bool
    anything: bool
    maximum: np.float32
    floor: np.float32
    cutoff: np.float32
    squares: bool


@_jit_parallel
def local_moments(padded: Array, usable: Array, moments: tuple[Array, Array]) -> None:
    """Mean and unbiased variance in a box around each voxel; variance -1 where not usable.

    Parameters
    ----------
    padded
        The volume and around it, mirrored, as much as the box reaches.
    usable
        Shape (X, Y, Z).
    moments
        Where mean and variance go, of the same shape.
    """
    mean, variance = moments
    nx, ny, nz = usable.shape
    box = padded.shape[0] - nx + 1, padded.shape[1] - ny + 1, padded.shape[2] - nz + 1
    count = box[0] * box[1] * box[2]
    for row in nb.prange(nx * ny):
        x, y = row // ny, row % ny
        middle, squares = np.zeros(nz, np.float32), np.zeros(nz, np.float32)
        for d in range(count):
            shifted = padded[x + d // (box[1] * box[2]), y + d // box[2] % box[1]][d % box[2] :]
            for z in range(nz):
                middle[z] += shifted[z]
        for z in range(nz):
            middle[z] /= _F(count)
        for d in range(count):
            shifted = padded[x + d // (box[1] * box[2]), y + d // box[2] % box[1]][d % box[2] :]
            for z in range(nz):
                deviation = shifted[z] - middle[z]
                squares[z] += deviation * deviation
        for z in range(nz):
            mean[x, y, z] = middle[z]
            variance[x, y, z] = squares[z] / _F(count - 1) if usable[x, y, z] else -_ONE


@_jit
def _preselect(
    tiles: tuple[Array, Array], layout: Layout, place: tuple[int, int, int], rule: Rule, gate: Array
) -> None:
    """0 where a voxel of the brick's plane x may be compared with the displaced one, else infinite.

    Added to a distance, that takes the voxel out. ``place`` is x, dx and the offset.
    """
    x, dx, offset = place
    start = layout.margin + layout.halo[1] * layout.pitch
    x += layout.halo[0]
    n = len(gate)
    mean_i, mean_j = tiles[0][x, start : start + n], tiles[0][x + dx, start + offset : start + offset + n]
    variance_i, variance_j = tiles[1][x, start : start + n], tiles[1][x + dx, start + offset : start + offset + n]
    for k in range(n):
        mi, mj, vi, vj = mean_i[k], mean_j[k], variance_i[k], variance_j[k]
        a = (mi > _CLOSE * mj) & (mj > _CLOSE * mi)
        ri, rj = rule.maximum - mi, rule.maximum - mj
        b = (ri > _CLOSE * rj) & (rj > _CLOSE * ri)
        c = (vi > _ALIKE * vj) & (vj > _ALIKE * vi)
        ok = (a & (c | rule.a_suffices)) | (b & c & rule.b_with_c_suffices) | rule.anything
        gate[k] = _ZERO if ok & (vj >= _ZERO) else _OUT


@_jit
def _leave_out(displaced: Array, floor: np.float32, gate: Array) -> None:
    """Take out the displaced voxels that have no more than the least value."""
    for k in range(len(gate)):
        gate[k] = gate[k] if displaced[k] > floor else _OUT


@_jit
def _lower(sums: Array, gate: Array, least: Array) -> None:
    for k in range(len(gate)):
        candidate = sums[k] if gate[k] == _ZERO else _NOTHING  # a sum of both is not vectorized
        least[k] = min(least[k], candidate)


@_jit
def _add(
    sums: Array,
    gate: Array,
    inverse: Array,
    cutoff: np.float32,
    values: tuple[Array, Array],
    totals: Array,
    keeps_largest: Largest,
) -> None:
    """Add displaced voxels to ``totals``: weighted differences to the own value, weights, the largest weight if needed.

    Differences keep a constant volume constant to the last bit. ``values`` are the own and the displaced ones.
    """
    own, displaced = values
    differences, weights, largest = totals[0], totals[1], totals[2]
    for k in range(len(gate)):
        distance = sums[k] * inverse[k] + gate[k]
        weight = decay(distance) if distance <= cutoff else _ZERO
        differences[k] += weight * (displaced[k] - own[k])
        weights[k] += weight
        if keeps_largest is not None:
            largest[k] = max(largest[k], weight)


@_jit
def _find_least(volume: Volume, layout: Layout, radii: Radii, rule: Rule, least: Array) -> None:
    """For each patch, the least sum of squared differences of residual patches among a voxel's candidates."""
    mean, variance = load_tile(volume.mean, layout, _ZERO), load_tile(volume.variance, layout, -_ONE)
    residual = load_tile(volume.values, layout, _ZERO) - mean
    squares, rows, gate = buffers(layout)
    sx, sy, sz = radii.search
    for dx in range(-sx, sx + 1):
        for dy in range(-sy, sy + 1):
            for dz in range(-sz, sz + 1):
                if dx == 0 and dy == 0 and dz == 0:
                    continue
                offset = dy * layout.pitch + dz
                squared_differences(residual, layout, dx, offset, squares)
                for x in range(layout.size[0]):
                    _preselect((mean, variance), layout, (x, dx, offset), rule, gate)
                    for p in range(len(radii.patches)):
                        patch_sums(squares, layout, x, radii.patches[p], rows)
                        _lower(rows[2], gate, least[p, x])


@_jit
def _average(volume: Volume, layout: Layout, radii: Radii, rule: Rule, least: Array, keeps_largest: Largest) -> Array:
    """Sums over a voxel's candidates, for each patch: shape (patches, x, 3, flat plane); see `_add`."""
    mean, variance = load_tile(volume.mean, layout, _ZERO), load_tile(volume.variance, layout, -_ONE)
    values = load_tile(volume.values, layout, _ZERO)
    averaged = values * values if rule.squares else values
    squares, rows, gate = buffers(layout)
    start, n = layout.margin + layout.halo[1] * layout.pitch, len(gate)
    inverse = np.where(least < _NOTHING, _ONE / np.maximum(least, _TINY), _ZERO)  # 1 / 3e38 is denormal, hence slow
    totals = np.zeros((len(radii.patches), layout.size[0], 3, n), np.float32)
    sx, sy, sz = radii.search
    for dx in range(-sx, sx + 1):
        for dy in range(-sy, sy + 1):
            for dz in range(-sz, sz + 1):
                if dx == 0 and dy == 0 and dz == 0:
                    continue
                offset = dy * layout.pitch + dz
                squared_differences(values, layout, dx, offset, squares)
                for x in range(layout.size[0]):
                    _preselect((mean, variance), layout, (x, dx, offset), rule, gate)
                    here, there = layout.halo[0] + x, layout.halo[0] + x + dx
                    if rule.floor > -_NOTHING:
                        _leave_out(values[there, start + offset :][:n], rule.floor, gate)
                    own, displaced = averaged[here, start : start + n], averaged[there, start + offset :][:n]
                    for p in range(len(radii.patches)):
                        patch_sums(squares, layout, x, radii.patches[p], rows)
                        _add(rows[2], gate, inverse[p, x], rule.cutoff, (own, displaced), totals[p, x], keeps_largest)
    return totals


@_jit
def _estimate(value: np.float32, totals: tuple[np.float32, np.float32, np.float32], rule: Rule) -> np.float32:
    """Weighted mean of a voxel's candidates and itself (or of squares); 0 where nothing counts."""
    differences, weights, largest = totals
    own_weight = largest if largest > _ZERO else _ONE
    if not value > rule.floor:
        own_weight = _ZERO
    weights += own_weight
    own = value * value if rule.squares else value
    return own + differences / weights if weights > _ZERO else _ZERO


@_jit_parallel
def filter_bricks(
    volume: Volume,
    radii: Radii,
    rule: Rule,
    work: tuple[int, int, int],
    out: tuple[Array, Array],
    keeps_largest: Largest,
) -> None:
    """Filter some bricks.

    Parameters
    ----------
    volume, radii, rule
        What is filtered and how.
    work
        First brick, number of bricks, and 1 if the noise is known, else 0.
    out
        Least sums and estimates, both of shape (patches, X, Y, Z). Where the noise is known, sums are what they are at
        least.
    keeps_largest
        Whether a voxel's own weight is the largest of its candidates' instead of 1; None if not.
    """
    start, count, knows_noise = work
    for item in nb.prange(count):
        layout = layout_of(volume.values.shape, start + item, radii)
        _filter_brick(volume, layout, radii, rule, knows_noise, out, keeps_largest)


@_jit
def _filter_brick(
    volume: Volume,
    layout: Layout,
    radii: Radii,
    rule: Rule,
    knows_noise: int,
    out: tuple[Array, Array],
    keeps_largest: Largest,
) -> None:
    (x0, y0, z0), (bx, by, bz), pitch, hz = layout.first, layout.size, layout.pitch, layout.halo[2]
    sums, estimates = out
    least = np.full((len(radii.patches), bx, by * pitch), _NOTHING, np.float32)
    _find_least(volume, layout, radii, rule, least)
    for p, x, y in np.ndindex((len(least), bx, by)):
        found, kept = least[p, x, y * pitch + hz : y * pitch + hz + bz], sums[p, x0 + x, y0 + y, z0 : z0 + bz]
        for z in range(bz):
            if knows_noise:
                found[z] = max(found[z], kept[z])
            kept[z] = found[z]
    totals = _average(volume, layout, radii, rule, least, keeps_largest)
    for p, x, y in np.ndindex((len(least), bx, by)):
        for z in range(bz):
            value, k = volume.values[x0 + x, y0 + y, z0 + z], y * pitch + hz + z
            gathered = totals[p, x, 0, k], totals[p, x, 1, k], totals[p, x, 2, k]
            if volume.variance[x0 + x, y0 + y, z0 + z] < _ZERO:
                estimates[p, x0 + x, y0 + y, z0 + z] = value * value if rule.squares else value
            else:
                estimates[p, x0 + x, y0 + y, z0 + z] = _estimate(value, gathered, rule)


@_jit
def _filter_line(source: Array, taps: Array, out: Array) -> None:
    """Filter a line with taps of shape (distances, voxels)."""
    n, reach = len(source), len(taps) // 2
    out[:] = _ZERO
    for d in range(-min(reach, n - 1), min(reach, n - 1) + 1):
        first, last = max(0, -d), min(n, n - d)
        to, tap, other = out[first:last], taps[d + reach, first:last], source[first + d : last + d]
        for i in range(len(to)):
            to[i] += tap[i] * other[i]


@_jit_parallel
def filter_lines(source: Array, taps: Array, out: Array) -> None:
    """Filter along the middle axis of (before, line, behind); taps of even and odd positions, zero beyond the ends."""
    before, n, behind = source.shape
    reach = taps.shape[1] // 2
    if behind == 1:  # lines lie in one piece: side by side are then voxels, not lines
        own = np.empty((taps.shape[1], n), taps.dtype)  # taps of each voxel
        own[:, ::2] = taps[0].reshape(-1, 1)
        own[:, 1::2] = taps[1].reshape(-1, 1)
        for plane in nb.prange(before):
            _filter_line(source[plane, :, 0], own, out[plane, :, 0])
        return
    for plane in nb.prange(before):
        for i in range(n):
            line = out[plane, i]
            line[:] = _ZERO
            for d in range(max(-reach, -i), min(reach, n - 1 - i) + 1):
                tap, other = taps[i % 2, d + reach], source[plane, i + d]
                for k in range(behind):
                    line[k] += tap * other[k]
