"""One photon packet traced from its start to its end, in Numba. Counterpart: ``trace_photons`` of ``voxels.cu``."""

import numba as nb
import numpy as np

from napari_gpubio.core.fastmath import mean_decay, minus_log, turn
from napari_gpubio.core.intrinsics import atomic_add
from napari_gpubio.core.xoshiro import next_bits, stream, uniform
from napari_gpubio.light.kernels.physics import (
    GAIN,
    ONE,
    SURVIVAL,
    ZERO,
    fresnel,
    quanta,
    rounded,
    scattering_cosine,
    turned,
)
from napari_gpubio.light.kernels.voxels.launch import enter, start
from napari_gpubio.light.kernels.voxels.photon import (
    BEFORE,
    CYCLIC,
    DEFAULT,
    DETECTED_NUMBERS,
    EDGE,
    ESCAPE,
    ESCAPED,
    FRESNEL,
    MIRROR,
    MISSED,
    OUTSIDE,
    ROULETTE,
    SPECULAR,
    TRUNCATED,
    refracted,
    to_face,
)

_F, _I, _U, _L = np.float32, np.int32, np.uint32, np.uint64


@nb.njit
def detector_at(detectors, x, y, z):
    """Which detector an escaping photon hits, or -1.

    A detector: center, radius^2, normal (0 for a sphere), half thickness.
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
