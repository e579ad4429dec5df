"""One photon packet traced from its start to its end, in Numba. Counterpart: ``trace_photons`` in ``voxels.cu``."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.fastmath import mean_decay, minus_log, turn
from napari_gpubio.core.intrinsics import atomic_add
from napari_gpubio.core.jit import helper, kernel, leaf
from napari_gpubio.core.xoshiro import next_bits, stream, uniform
from napari_gpubio.light.batches import Words
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
from napari_gpubio.light.kernels.voxels.fibers import along_fibers, beside_fibers, place_of, turning_point
from napari_gpubio.light.kernels.voxels.photon import Floats, enter, refracted, rule_of, to_face
from napari_gpubio.light.kernels.voxels.problem import (
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
)
from napari_gpubio.light.kernels.voxels.start import begin

_F, _L = np.float32, np.uint64


class Tallies(NamedTuple):
    """Where photons add up.

    Parameters
    ----------
    path, half_stride, gate_stride, scale
        Weight times path of each voxel in quanta of 1 / scale mm, for each half and each gate.
    energy, energy_scale
        The energy tally, shape (ENERGY_PARTS,), in quanta of 1 / energy_scale.
    exits
        Escaped weight of each voxel in the same quanta, or empty.
    detected, photons, numbers
        Number of photons detected, and their list: indices, shape (N,), and what `list_photon` notes of each, shape
        (N, DETECTED_NUMBERS + rows).
    """

    path: Words
    half_stride: int
    gate_stride: int
    scale: np.float32
    energy: Words
    energy_scale: np.float32
    exits: Words
    detected: npt.NDArray[np.int64]
    photons: Words
    numbers: Floats


@leaf
def medium_at(media, mua, mus, row, cell):
    """Medium of a voxel.

    Coefficients (1/mm), anisotropy and index; mean free path (mm), path per optical path, and the path (mm) after which
    absorption is booked at the latest.
    """
    if len(mua) == 0:
        return (
            media[row, 0], media[row, 1], media[row, 2], media[row, 3], media[row, 4], media[row, 5], media[row, 6],
        )  # fmt: skip
    free_path = ONE / max(mus[cell], _F(1e-20))
    reach = _F(2.0) * (ONE / max(mua[cell], _F(1e-20)))
    return mua[cell], mus[cell], media[row, 2], media[row, 3], free_path, media[row, 5], reach


@leaf
def gate_after(edges, gate, optical):
    """Time gate of an optical path, given that of a shorter one; -1 before the first gate."""
    if optical >= edges[0] and gate < 0:
        gate = 0
    while gate >= 0 and gate < len(edges) - 2 and optical >= edges[gate + 1]:
        gate += 1
    return gate


@leaf
def behind_face(scene, cell, axis, forward):
    """Voxel and media row behind a face, and the face's rule; beyond the rim there is the outside, or the far side."""
    stride = scene.stride_x if axis == 0 else scene.stride_y if axis == 1 else 1
    stride = stride if forward else -stride
    following = cell + stride
    row, rule = np.int64(scene.rows[following]), DEFAULT
    if row == EDGE:
        rule = rule_of(scene.faces, axis, forward)
        if rule == CYCLIC:
            following -= (scene.nx if axis == 0 else scene.ny if axis == 1 else scene.nz) * stride
            row = np.int64(scene.rows[following])
        else:
            row = OUTSIDE
    return following, row, rule


@helper
def detector_at(detectors, x, y, z):
    """Which detector an escaping photon hits, or -1.

    A detector: center, radius^2, normal (0 for a sphere), half thickness.
    """
    for d in range(len(detectors)):
        dx, dy, dz = x - detectors[d, 0], y - detectors[d, 1], z - detectors[d, 2]
        axial = dx * detectors[d, 4] + dy * detectors[d, 5] + dz * detectors[d, 6]
        if dx * dx + dy * dy + dz * dz - axial * axial <= detectors[d, 3] and abs(axial) <= detectors[d, 7]:
            return d
    return -1


@helper
def list_photon(scene, tallies, paths, item, cell, where, direction, state):
    """Add an escaping photon to the list if it hits a detector; ``state``: weight, optical path, scattering events."""
    i, j, k = cell // scene.stride_x - 1, cell // scene.stride_y % (scene.ny + 2) - 1, cell % scene.stride_y - 1
    px, py, pz = where
    weight, optical, scatterings = state
    x, y, z = _F(i) * scene.hx + px, _F(j) * scene.hy + py, _F(k) * scene.hz + pz
    detector = detector_at(scene.detectors, x, y, z)
    if detector < 0:
        return
    place = atomic_add(tallies.detected, 0, 1)
    if place >= len(tallies.photons):
        return
    tallies.photons[place] = item
    numbers = tallies.numbers
    numbers[place, 0], numbers[place, 1], numbers[place, 2] = _F(detector), weight, _F(scatterings)
    numbers[place, 3], numbers[place, 4], numbers[place, 5] = x, y, z
    numbers[place, 6], numbers[place, 7], numbers[place, 8] = direction
    numbers[place, 9] = optical
    for row in range(len(paths)):
        numbers[place, DETECTED_NUMBERS + row] = paths[row]


@kernel
def trace_photons(start, stop, first, scene, tallies):
    """Trace the photons ``first + start`` to ``first + stop - 1`` from their starts to their ends.

    Parameters
    ----------
    first
        Global index of a photon (uint64).
    scene, tallies
        See `Scene` and `Tallies`; tallies are added to, a detected photon is listed.
    """
    hx, hy, hz, fibers = scene.hx, scene.hy, scene.hz, scene.fibers
    energy, energy_scale = tallies.energy, tallies.energy_scale
    end = scene.edges[len(scene.edges) - 1]
    paths = np.empty(len(scene.media) if len(scene.detectors) else 0, np.float32)
    detecting = len(paths) > 0
    for i in range(start, stop):
        item = _L(first + _L(i))
        base = np.int64(item & _L(1)) * tallies.half_stride
        ax, ay, az, ux, uy, uz, state = begin(scene, scene.rare, stream(scene.seed, item))
        inside, cell, own_row, px, py, pz, ux, uy, uz, lost = enter(scene, ax, ay, az, ux, uy, uz)
        if lost > ZERO:
            atomic_add(energy, SPECULAR, rounded(lost * energy_scale))
        if not inside:
            if lost < ONE:
                atomic_add(energy, MISSED, rounded((ONE - lost) * energy_scale))
            continue
        w = ONE - lost
        mua, mus, g, n, free_path, per_n, reach = medium_at(scene.media, scene.mua, scene.mus, own_row, cell)
        place = place_of(fibers, cell)
        mus, free_path = along_fibers(fibers, place, (ux, uy, uz), g, mus, free_path)
        chance, state = uniform(state)
        s = minus_log(chance)
        dither, state = next_bits(state)
        path, optical, gate, scatterings = ZERO, ZERO, np.int64(-1), 0
        limit = min(end * per_n, reach)
        for row in range(len(paths)):
            paths[row] = ZERO
        while True:
            length = s * free_path
            qx, qy, qz = px + length * ux, py + length * uy, pz + length * uz
            leaves = not (ZERO <= qx <= hx and ZERO <= qy <= hy and ZERO <= qz <= hz)
            axis = 0
            if leaves:
                d, axis = to_face(scene, px, py, pz, ux, uy, uz)
                length = min(max(d, ZERO), length)
                px, py, pz = px + length * ux, py + length * uy, pz + length * uz
                path += length
                s = max(s - length * mus, ZERO)
            else:
                px, py, pz = qx, qy, qz
                path += length
                chance, state = uniform(state)
                bits, state = next_bits(state)
                cp, sp = turn(bits)
                vx, vy, vz, cosine, state = turning_point(
                    fibers, place, (ux, uy, uz), scattering_cosine(g, chance), chance, state
                )
                after = turned(vx, vy, vz, cosine, cp, sp)
                ux, uy, uz, mus, free_path, state = beside_fibers(
                    fibers, place, (ux, uy, uz), after, g, mus, free_path, state
                )
                chance, state = uniform(state)
                s = minus_log(chance)
                scatterings += 1
                if path < limit:
                    continue

            # Book what the path in this voxel has absorbed.
            booked = w * path * mean_decay(mua * path)
            absorbed = min(mua * booked, w)
            w -= absorbed
            optical += n * path
            if detecting:
                paths[own_row] += path
            path = ZERO
            gate = gate_after(scene.edges, gate, optical)
            if gate >= 0:
                amount, dither = quanta(booked * tallies.scale, dither)
                if amount:
                    atomic_add(tallies.path, base + gate * tallies.gate_stride + cell, _L(amount))
            else:
                atomic_add(energy, BEFORE, rounded(absorbed * energy_scale))
            if optical >= end:
                atomic_add(energy, TRUNCATED, rounded(w * energy_scale))
                break
            if w < scene.threshold:
                chance, state = uniform(state)
                if chance < SURVIVAL:
                    gained = w * GAIN
                    atomic_add(energy, ROULETTE, _L(0) - rounded(gained * energy_scale))
                    w += gained
                else:
                    atomic_add(energy, ROULETTE, rounded(w * energy_scale))
                    break
            limit = min((end - optical) * per_n, reach)
            if not leaves:
                continue

            # Cross the face; whatever happens there, the next path begins at it.
            along = ux if axis == 0 else uy if axis == 1 else uz
            forward = along > ZERO
            following, row, rule = behind_face(scene, cell, axis, forward)
            reflected = rule == MIRROR
            if not reflected and row != own_row and (rule == FRESNEL or (scene.refraction and rule != ESCAPE)):
                n2 = scene.media[row, 3]
                if n2 != n:
                    r, ct = fresnel(abs(along), n, n2)
                    chance, state = uniform(state)
                    reflected = chance < r
                    if not reflected:
                        ux, uy, uz = refracted(ux, uy, uz, axis, ct, n / n2)
            h = hx if axis == 0 else hy if axis == 1 else hz
            at_face = reflected or row == OUTSIDE  # on this side of the face
            low = (h if forward else ZERO) if at_face else (ZERO if forward else h)
            if axis == 0:
                px, ux = low, -ux if reflected else ux
            elif axis == 1:
                py, uy = low, -uy if reflected else uy
            else:
                pz, uz = low, -uz if reflected else uz
            if reflected:
                mus, free_path = along_fibers(fibers, place, (ux, uy, uz), g, mus, free_path)
                continue
            if row == OUTSIDE:
                atomic_add(energy, ESCAPED, rounded(w * energy_scale))
                if len(tallies.exits):
                    atomic_add(tallies.exits, cell, rounded(w * energy_scale))
                if detecting:
                    list_photon(
                        scene, tallies, paths, item, cell, (px, py, pz), (ux, uy, uz), (w, optical, scatterings)
                    )
                break
            cell = following
            if row != own_row or len(scene.mua) or fibers is not None:
                own_row = row
                mua, mus, g, n, free_path, per_n, reach = medium_at(scene.media, scene.mua, scene.mus, row, cell)
                place = place_of(fibers, cell)
                mus, free_path = along_fibers(fibers, place, (ux, uy, uz), g, mus, free_path)
                limit = min((end - optical) * per_n, reach)
