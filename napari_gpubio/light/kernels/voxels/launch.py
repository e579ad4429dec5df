"""Where a photon starts, and where it enters the tissue, in Numba. Counterpart: ``launch.cuh``."""

import math

import numba as nb
import numpy as np

from napari_gpubio.core.fastmath import minus_log, turn
from napari_gpubio.core.xoshiro import next_bits, uniform
from napari_gpubio.light.kernels.physics import HALF, ONE, ZERO, fresnel
from napari_gpubio.light.kernels.voxels.photon import (
    CONE,
    CYLINDER,
    DISK,
    EDGE,
    FIBER,
    GAUSSIAN,
    ISOTROPIC,
    LAMBERTIAN,
    LINE,
    MIRROR,
    OUTSIDE,
    PATTERN,
    PENCIL,
    PLANAR,
    refracted,
    slowness,
    to_face,
    within,
)

_F, _I, _U, _L = np.float32, np.int32, np.uint32, np.uint64


@nb.njit
def start(kind, source, pattern, columns, state):
    """Where a photon starts (grid mm), in which direction, and the state of the random numbers after that."""
    if kind == PENCIL:
        return source[0], source[1], source[2], source[9], source[10], source[11], state
    u0, state = uniform(state)
    u1, state = uniform(state)
    u2, state = uniform(state)
    bits, state = next_bits(state)
    cp, sp = turn(bits)
    size, other = source[12], source[13]
    x, y, z = ZERO, ZERO, ZERO
    if kind in (FIBER, DISK, LAMBERTIAN, GAUSSIAN):
        r = size * math.sqrt(HALF * minus_log(u0)) if kind == GAUSSIAN else size * math.sqrt(u0)
        x, y = r * cp, r * sp
    elif kind == PLANAR:
        x, y = (u0 - HALF) * size, (u1 - HALF) * other
    elif kind == PATTERN:
        low, high = 0, len(pattern) - 1
        while low < high:  # the first pixel whose running sum exceeds u2
            middle = (low + high) // 2
            if pattern[middle] > u2:
                high = middle
            else:
                low = middle + 1
        row = low // columns
        column = low - row * columns
        x = ((_F(column) + u0) / _F(columns) - HALF) * size
        y = ((_F(row) + u1) / _F(len(pattern) // columns) - HALF) * other
    elif kind in (LINE, CYLINDER):
        z = (u0 - HALF) * other
    lx, ly, lz = ZERO, ZERO, ONE
    if kind == CYLINDER:
        x, y = size * cp, size * sp
    if kind in (ISOTROPIC, LINE, CONE, FIBER, LAMBERTIAN, CYLINDER):
        v, state = uniform(state)
        bits, state = next_bits(state)
        ca, sa = turn(bits)
        if kind in (LAMBERTIAN, CYLINDER):
            ct = math.sqrt(v)
        elif kind in (CONE, FIBER):
            ct = ONE - source[14] * v
        else:
            ct = _F(2.0) * v - ONE
        st = math.sqrt(max(ZERO, ONE - ct * ct))
        lx, ly, lz = st * ca, st * sa, ct
        if kind == CYLINDER:  # around the outward normal (cp, sp, 0)
            across, upward = lx, ly
            lx, ly, lz = ct * cp - across * sp, ct * sp + across * cp, upward
    f = source[3:12]
    return (
        source[0] + (x * f[0] + y * f[3] + z * f[6]),
        source[1] + (x * f[1] + y * f[4] + z * f[7]),
        source[2] + (x * f[2] + y * f[5] + z * f[8]),
        lx * f[0] + ly * f[3] + lz * f[6],
        lx * f[1] + ly * f[4] + lz * f[7],
        lx * f[2] + ly * f[5] + lz * f[8],
        state,
    )


@nb.njit(inline="always")
def beside_face(a, u, h, count):
    """A coordinate that does not change along the ray, kept off the faces of voxels by a thousandth of an edge.

    A packet that runs in a face would be reflected there for ever.
    """
    if u != ZERO or a < _F(-1e-3) * h or a > (_F(count) + _F(1e-3)) * h:
        return a
    cell = min(max(_F(math.floor(a / h)), ZERO), _F(count) - ONE)
    return min(max(a, (cell + _F(1e-3)) * h), (cell + _F(0.999)) * h)


@nb.njit
def enter(grid, rows, media, faces, ax, ay, az, ux, uy, uz, specular):
    """From a starting point to the first tissue: through the outside in a straight line, with the specular loss.

    Returns
    -------
    inside, cell, row, px, py, pz, ux, uy, uz, lost
        Whether there is tissue on the way, where it begins, the direction in it, and what the surface reflected.
    """
    nx, ny, nz, hx, hy, hz = grid
    stride_x, stride_y = (ny + 2) * (nz + 2), nz + 2
    ax, ay, az = beside_face(ax, ux, hx, nx), beside_face(ay, uy, hy, ny), beside_face(az, uz, hz, nz)
    sx, sy, sz = slowness(ux), slowness(uy), slowness(uz)
    ex, ey, ez = _F(nx) * hx, _F(ny) * hy, _F(nz) * hz
    nearx, farx = (-ax if ux > ZERO else ax - ex) * sx, (ex - ax if ux > ZERO else ax) * sx
    neary, fary = (-ay if uy > ZERO else ay - ey) * sy, (ey - ay if uy > ZERO else ay) * sy
    nearz, farz = (-az if uz > ZERO else az - ez) * sz, (ez - az if uz > ZERO else az) * sz
    first, last = max(nearx, max(neary, nearz)), min(farx, min(fary, farz))
    if first > last or last < ZERO:
        return False, 0, 0, ax, ay, az, ux, uy, uz, ZERO
    entered = -1
    if first > ZERO:  # from beyond the grid to its face
        entered = 0 if first == nearx else 1 if first == neary else 2
        ax, ay, az = ax + first * ux, ay + first * uy, az + first * uz
    i = min(max(int(math.floor(ax / hx)), 0), nx - 1)
    j = min(max(int(math.floor(ay / hy)), 0), ny - 1)
    k = min(max(int(math.floor(az / hz)), 0), nz - 1)
    px, py, pz = within(ax - _F(i) * hx, hx), within(ay - _F(j) * hy, hy), within(az - _F(k) * hz, hz)
    cell = (i + 1) * stride_x + (j + 1) * stride_y + k + 1
    row = int(rows[cell])
    while row == OUTSIDE:
        d, axis = to_face(hx, hy, hz, px, py, pz, ux, uy, uz)
        px, py, pz = within(px + d * ux, hx), within(py + d * uy, hy), within(pz + d * uz, hz)
        if axis == 0:
            px = ZERO if ux > ZERO else hx
            cell += stride_x if ux > ZERO else -stride_x
        elif axis == 1:
            py = ZERO if uy > ZERO else hy
            cell += stride_y if uy > ZERO else -stride_y
        else:
            pz = ZERO if uz > ZERO else hz
            cell += 1 if uz > ZERO else -1
        row = int(rows[cell])
        entered = axis
    if row == EDGE:
        return False, 0, 0, px, py, pz, ux, uy, uz, ZERO
    if entered < 0:  # a start on the outer face of the tissue counts as coming from outside
        for axis in (2, 1, 0):
            h = hx if axis == 0 else hy if axis == 1 else hz
            p = px if axis == 0 else py if axis == 1 else pz
            u = ux if axis == 0 else uy if axis == 1 else uz
            stride = stride_x if axis == 0 else stride_y if axis == 1 else 1
            forward = u > ZERO
            depth = p if forward else h - p
            behind = int(rows[cell - stride if forward else cell + stride])
            rule = faces >> (3 * (2 * axis + (0 if forward else 1))) & 7
            is_open = behind == OUTSIDE or (behind == EDGE and rule < MIRROR)
            if is_open and u != ZERO and depth < _F(1e-3) * h:
                entered = axis
    n1, n2, lost = media[OUTSIDE, 3], media[row, 3], ZERO
    if specular and entered >= 0 and n1 != n2:
        u = ux if entered == 0 else uy if entered == 1 else uz
        lost, ct = fresnel(abs(u), n1, n2)
        ux, uy, uz = refracted(ux, uy, uz, entered, ct, n1 / n2)
    return ONE - lost > ZERO, cell, row, px, py, pz, ux, uy, uz, lost
