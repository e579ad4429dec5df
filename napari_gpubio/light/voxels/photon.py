"""One photon packet on its way through voxels, in Numba. Twin: ``photon.cuh`` and ``voxels.cu``.

A position is a voxel (`cell`, an index into the grid padded by one voxel) and mm from its low corner (x, y, z). Between
two scattering events the packet goes straight; absorption is continuous along the path and is booked when a voxel is
left: the integral of the weight over the path (mm) goes to the tally, mu_a times it off the weight.
"""

import math

import numba as nb
import numpy as np

from napari_gpubio.core.atomics import atomic_add
from napari_gpubio.core.fastmath import mean_decay, minus_log, turn
from napari_gpubio.core.xoshiro import next_bits, stream, uniform
from napari_gpubio.light.physics import (
    GAIN,
    HALF,
    ONE,
    SURVIVAL,
    ZERO,
    fresnel,
    quanta,
    rounded,
    scattering_cosine,
    turned,
)

_F, _I, _U, _L = np.float32, np.int32, np.uint32, np.uint64

# Rows of the media table that are no tissue: label 0, and the rim of the grid.
OUTSIDE, EDGE = 0, 1
DEFAULT, ESCAPE, FRESNEL, MIRROR, CYCLIC = range(5)
PENCIL, ISOTROPIC, CONE, FIBRE, GAUSSIAN, DISK, PLANAR, PATTERN, LINE, CYLINDER, LAMBERTIAN = range(11)
SPECULAR, MISSED, BEFORE, ESCAPED, TRUNCATED, ROULETTE = range(6)
LEDGER = 6
MEDIUM_NUMBERS, SOURCE_NUMBERS, DETECTOR_NUMBERS, DETECTED_NUMBERS = 8, 16, 8, 10
NEVER = _F(1e30)


@nb.njit(inline="always")
def slowness(u):
    """1 / abs(u), large but finite for a component that is 0."""
    return ONE / max(abs(u), _F(1e-12))


@nb.njit(inline="always")
def within(value, high):
    """The value, kept between 0 and `high`."""
    return min(max(value, ZERO), high)


@nb.njit(inline="always")
def refracted(ux, uy, uz, axis, ct, ratio):
    """Direction behind a face, Snell's law."""
    vx, vy, vz = ux * ratio, uy * ratio, uz * ratio
    if axis == 0:
        vx = ct if ux > ZERO else -ct
    elif axis == 1:
        vy = ct if uy > ZERO else -ct
    else:
        vz = ct if uz > ZERO else -ct
    return vx, vy, vz


@nb.njit(inline="always")
def to_face(hx, hy, hz, px, py, pz, ux, uy, uz):
    """Distance (mm) along the path to the voxel's face, and the axis of that face."""
    tx = (hx - px if ux > ZERO else px) * slowness(ux)
    ty = (hy - py if uy > ZERO else py) * slowness(uy)
    tz = (hz - pz if uz > ZERO else pz) * slowness(uz)
    nearest, axis = tx, 0
    if ty < nearest:
        nearest, axis = ty, 1
    if tz < nearest:
        nearest, axis = tz, 2
    return nearest, axis


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
    if kind in (FIBRE, DISK, LAMBERTIAN, GAUSSIAN):
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
    if kind in (ISOTROPIC, LINE, CONE, FIBRE, LAMBERTIAN, CYLINDER):
        v, state = uniform(state)
        bits, state = next_bits(state)
        ca, sa = turn(bits)
        if kind in (LAMBERTIAN, CYLINDER):
            ct = math.sqrt(v)
        elif kind in (CONE, FIBRE):
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


@nb.njit
def detector_at(detectors, x, y, z):
    """Which detector an escaping photon hits, or -1.

    A detector: centre, radius^2, normal (0 for a sphere), half thickness.
    """
    for d in range(len(detectors)):
        one = detectors[d]
        dx, dy, dz = x - one[0], y - one[1], z - one[2]
        axial = dx * one[4] + dy * one[5] + dz * one[6]
        if dx * dx + dy * dy + dz * dz - axial * axial <= one[3] and abs(axial) <= one[7]:
            return d
    return -1


@nb.njit(inline="always")
def medium_at(media, mua, mus, row, cell):
    """Medium of a voxel, the first seven numbers of its row; `mua` and `mus` are empty without continuous media."""
    m = media[row]
    if len(mua) == 0:
        return m[0], m[1], m[2], m[3], m[4], m[5], m[6]
    free_path = ONE / max(mus[cell], _F(1e-20))
    reach = _F(2.0) * (ONE / max(mua[cell], _F(1e-20)))
    return mua[cell], mus[cell], m[2], m[3], free_path, m[5], reach


@nb.njit(nogil=True)
def trace(
    item, seed, grid, rows, media, mua, mus, faces, refraction, specular, threshold, edges, kind, source, pattern,
    columns, tally, base, gate_stride, scale, ledger, ledger_scale, exits, detectors, paths, caught, caught_photons,
    caught_numbers,
):  # fmt: skip
    """Trace one photon from its start to its end; tallies are added to, a detected photon is listed.

    Parameters
    ----------
    item, seed
        Global index of the photon, and the seed (uint64).
    grid
        Size without the rim (3 int) and voxel edges (3 float32, mm).
    base
        Where in ``tally`` this photon's half begins; gates follow in steps of ``gate_stride``.
    paths
        Scratch for the path in each medium, float32; empty where there are no detectors.
    """
    nx, ny, nz, hx, hy, hz = grid
    stride_x, stride_y = (ny + 2) * (nz + 2), nz + 2
    gates = len(edges) - 1
    begin, end = edges[0], edges[gates]
    ax, ay, az, ux, uy, uz, state = start(kind, source, pattern, columns, stream(seed, item))
    inside, cell, own_row, px, py, pz, ux, uy, uz, lost = enter(
        grid, rows, media, faces, ax, ay, az, ux, uy, uz, specular
    )
    if lost > ZERO:
        atomic_add(ledger, SPECULAR, rounded(lost * ledger_scale))
    if not inside:
        if lost < ONE:
            atomic_add(ledger, MISSED, rounded((ONE - lost) * ledger_scale))
        return
    w = ONE - lost
    mua_here, mus_here, g, n, free_path, per_n, reach = medium_at(media, mua, mus, own_row, cell)
    chance, state = uniform(state)
    s = minus_log(chance)
    dither, state = next_bits(state)
    path, optical, gate, scatterings = ZERO, ZERO, -1, 0
    limit = min(end * per_n, reach)
    detecting = len(paths) > 0
    if detecting:
        paths[:] = ZERO
    while True:
        length = s * free_path
        qx, qy, qz = px + length * ux, py + length * uy, pz + length * uz
        leaves = not (ZERO <= qx <= hx and ZERO <= qy <= hy and ZERO <= qz <= hz)
        axis = 0
        if leaves:
            d, axis = to_face(hx, hy, hz, px, py, pz, ux, uy, uz)
            length = min(max(d, ZERO), length)
            px, py, pz = px + length * ux, py + length * uy, pz + length * uz
            path += length
            s = max(s - length * mus_here, ZERO)
        else:
            px, py, pz = qx, qy, qz
            path += length
            chance, state = uniform(state)
            bits, state = next_bits(state)
            cp, sp = turn(bits)
            ux, uy, uz = turned(ux, uy, uz, scattering_cosine(g, chance), cp, sp)
            chance, state = uniform(state)
            s = minus_log(chance)
            scatterings += 1
            if path < limit:
                continue

        # Book what the path in this voxel has absorbed.
        booked = w * path * mean_decay(mua_here * path)
        absorbed = min(mua_here * booked, w)
        w -= absorbed
        optical += n * path
        if detecting:
            paths[own_row] += path
        path = ZERO
        if optical >= begin and gate < 0:
            gate = 0
        while gate >= 0 and gate < gates - 1 and optical >= edges[gate + 1]:
            gate += 1
        if gate >= 0:
            amount, dither = quanta(booked * scale, dither)
            if amount:
                atomic_add(tally, base + gate * gate_stride + cell, _L(amount))
        else:
            atomic_add(ledger, BEFORE, rounded(absorbed * ledger_scale))
        if optical >= end:
            atomic_add(ledger, TRUNCATED, rounded(w * ledger_scale))
            return
        if w < threshold:
            chance, state = uniform(state)
            if chance < SURVIVAL:
                gained = w * GAIN
                atomic_add(ledger, ROULETTE, _L(0) - rounded(gained * ledger_scale))
                w += gained
            else:
                atomic_add(ledger, ROULETTE, rounded(w * ledger_scale))
                return
        limit = min((end - optical) * per_n, reach)
        if not leaves:
            continue

        # Cross the face; whatever happens there, the next path begins at it.
        forward = (ux if axis == 0 else uy if axis == 1 else uz) > ZERO
        h = hx if axis == 0 else hy if axis == 1 else hz
        stride = stride_x if axis == 0 else stride_y if axis == 1 else 1
        stride = stride if forward else -stride
        following = cell + stride
        row, rule = int(rows[following]), DEFAULT
        if row == EDGE:
            rule = faces >> (3 * (2 * axis + (1 if forward else 0))) & 7
            if rule == CYCLIC:
                following -= (nx if axis == 0 else ny if axis == 1 else nz) * stride
                row = int(rows[following])
            else:
                row = OUTSIDE
        reflected = rule == MIRROR
        if not reflected and row != own_row and (rule == FRESNEL or (refraction and rule != ESCAPE)):
            n2 = media[row, 3]
            if n2 != n:
                r, ct = fresnel(abs(ux if axis == 0 else uy if axis == 1 else uz), n, n2)
                chance, state = uniform(state)
                reflected = chance < r
                if not reflected:
                    ux, uy, uz = refracted(ux, uy, uz, axis, ct, n / n2)
        at_face = reflected or row == OUTSIDE  # on this side of the face
        low = (h if forward else ZERO) if at_face else (ZERO if forward else h)
        if axis == 0:
            px, ux = low, -ux if reflected else ux
        elif axis == 1:
            py, uy = low, -uy if reflected else uy
        else:
            pz, uz = low, -uz if reflected else uz
        if reflected:
            continue
        if row == OUTSIDE:
            atomic_add(ledger, ESCAPED, rounded(w * ledger_scale))
            if len(exits):
                atomic_add(exits, cell, rounded(w * ledger_scale))
            if detecting:
                i, j, k = cell // stride_x - 1, cell // stride_y % (ny + 2) - 1, cell % stride_y - 1
                x, y, z = _F(i) * hx + px, _F(j) * hy + py, _F(k) * hz + pz
                detector = detector_at(detectors, x, y, z)
                if detector >= 0:
                    place = atomic_add(caught, 0, 1)
                    if place < len(caught_photons):
                        caught_photons[place] = item
                        line = caught_numbers[place]
                        line[0], line[1], line[2] = _F(detector), w, _F(scatterings)
                        line[3], line[4], line[5] = x, y, z
                        line[6], line[7], line[8], line[9] = ux, uy, uz, optical
                        line[DETECTED_NUMBERS:] = paths
            return
        cell = following
        if row != own_row or len(mua):
            own_row = row
            mua_here, mus_here, g, n, free_path, per_n, reach = medium_at(media, mua, mus, row, cell)
            limit = min((end - optical) * per_n, reach)


@nb.njit(parallel=True, nogil=True, cache=True)
def trace_range(
    first, count, blocks, seed, grid, rows, media, mua, mus, faces, refraction, specular, threshold, edges, kind,
    source, pattern, columns, tally, half_stride, gate_stride, scale, ledger, ledger_scale, exits, detectors, caught,
    caught_photons, caught_numbers,
):  # fmt: skip
    """Trace the photons ``first`` to ``first + count - 1`` on all cores; see `trace`."""
    for b in nb.prange(blocks):
        paths = np.empty(len(media) if len(detectors) else 0, np.float32)
        for i in range(b * count // blocks, (b + 1) * count // blocks):
            item = _L(first + _L(i))
            trace(
                item, seed, grid, rows, media, mua, mus, faces, refraction, specular, threshold, edges, kind, source,
                pattern, columns, tally, int(item & _L(1)) * half_stride, gate_stride, scale, ledger, ledger_scale,
                exits, detectors, paths, caught, caught_photons, caught_numbers,
            )  # fmt: skip
