"""One photon packet traced from its start to its end, in Numba. Counterpart: ``trace_photons`` in ``voxels.cu``."""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.fastmath import mean_decay, minus_log, turn
from napari_gpubio.core.intrinsics import atomic_add
from napari_gpubio.core.jit import helper, kernel, leaf, pruned
from napari_gpubio.core.philox import unit_float
from napari_gpubio.core.sfc import next_bits, stream, uniform
from napari_gpubio.light.kernels.voxels.fibers import along_fibers, beside_fibers, tensor_row, turning_point
from napari_gpubio.light.kernels.voxels.photon import (
    Floats,
    enter,
    index_at,
    mirrored,
    refracted,
    rule_of,
    slowness,
    turned_about,
)
from napari_gpubio.light.kernels.voxels.problem import (
    BEFORE,
    CYCLIC,
    DEFAULT,
    DETECTED_NUMBERS,
    EDGE,
    ESCAPE,
    ESCAPED,
    FRESNEL,
    LAUNCHED,
    MIRROR,
    MISSED,
    OUTSIDE,
    ROULETTE,
    SPECULAR,
    TRUNCATED,
)
from napari_gpubio.light.kernels.voxels.record import (
    ROULETTE_AT,
    SCATTERED,
    START,
    TRUNCATED_AT,
    Scores,
    Trails,
    add_scores,
    item_of,
    note_face,
    note_vertex,
)
from napari_gpubio.light.kernels.voxels.start import begin_somewhere, pixel_of, surface_of
from napari_gpubio.optics.batches import Words
from napari_gpubio.optics.kernels.physics import (
    GAIN,
    ONE,
    SURVIVAL,
    ZERO,
    fresnel,
    left_over_bits,
    quanta,
    rounded,
    scattering_cosine,
    turned,
)

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
        Escaped weight of each voxel in the same quanta, or empty. Where patterns share photons, each place of these
        three has a number for every pattern, side by side.
    detected, photons, numbers
        Number of photons detected, and their list: indices, shape (N,), and what `list_photon` notes of each, shape
        (N, DETECTED_NUMBERS + rows).
    items, scores, trails
        Indices of the photons to trace again, and what they leave behind; see ``record.py``.
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
    items: Words | None = None
    scores: Scores | None = None
    trails: Trails | None = None


@pruned
def add_weight(tally, scale, shares, pixel, place, weight):
    """Add weight to a place of a tally, for all patterns where there are some."""
    if shares is None:
        atomic_add(tally, place, rounded(weight * scale))
    else:
        patterns = shares.shape[1]
        for k in range(patterns):
            if shares[pixel, k] > ZERO:
                atomic_add(tally, place * patterns + k, rounded(weight * shares[pixel, k] * scale))


@leaf
def add_energy(tallies, shares, pixel, part, weight):
    """Add weight to a part of the energy tally."""
    add_weight(tallies.energy, tallies.energy_scale, shares, pixel, part, weight)


@pruned
def add_launched(tallies, shares, pixel):
    """Add the weights that a photon starts with, where patterns share it."""
    if shares is not None:
        add_energy(tallies, shares, pixel, LAUNCHED, ONE)


@pruned
def take_energy(tallies, shares, pixel, part, weight):
    """Take weight off a part of the energy tally."""
    if shares is None:
        atomic_add(tallies.energy, part, _L(0) - rounded(weight * tallies.energy_scale))
    else:
        patterns = shares.shape[1]
        for k in range(patterns):
            amount = rounded(weight * shares[pixel, k] * tallies.energy_scale)
            atomic_add(tallies.energy, part * patterns + k, _L(0) - amount)


@pruned
def add_path(tallies, shares, pixel, place, cell, booked, dither):
    """Add weight times path to a voxel's tally, which begins at ``place``; returns the next dither."""
    if shares is None:
        amount, dither = quanta(booked * tallies.scale, dither)
        if amount:
            atomic_add(tallies.path, place + cell, _L(amount))
    else:
        patterns = shares.shape[1]
        for k in range(patterns):
            if shares[pixel, k] > ZERO:
                amount, dither = quanta(booked * shares[pixel, k] * tallies.scale, dither)
                if amount:
                    atomic_add(tallies.path, place + cell * patterns + k, _L(amount))
    return dither


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


@pruned
def own_g_and_n(gs, ns, cell, g, n, per_n):
    """g, refractive index and its inverse where they are given voxel by voxel; else those of the label."""
    if gs is None:
        return g, n, per_n
    return gs[cell], ns[cell], ONE / ns[cell]


@pruned
def deflection(table, g, u):
    """Cosine of the scattering angle at a random number, from a table of it where there is one."""
    if table is None:
        return scattering_cosine(g, u)
    place = u * _F(len(table) - 1)
    low = min(np.int64(place), len(table) - 2)
    part = place - _F(low)
    return table[low] + part * (table[low + 1] - table[low])


@pruned
def book_in_gates(scene, tallies, shares, place, path, medium, flight):
    """Book what a path in a voxel absorbs, each piece of it in the time gate in which it happens.

    ``place``: pixel, beginning of the tally, voxel; ``medium``: mu_a, n, 1 / n; ``flight``: weight, optical path, gate
    (-1 before the first), dither. Returns the new ones and the path that is left after the last gate.
    """
    pixel, base, cell = place
    mua, n, per_n = medium
    w, optical, gate, dither = flight
    while True:
        edge = scene.edges[gate + 1]
        reached = optical + n * path
        ends = reached >= edge
        piece = min(max((edge - optical) * per_n, ZERO), path) if ends else path
        booked = w * piece * mean_decay(mua * piece)
        absorbed = min(mua * booked, w)
        w -= absorbed
        path -= piece
        optical = edge if ends else reached
        if gate < 0:
            add_energy(tallies, shares, pixel, BEFORE, absorbed)
        else:
            dither = add_path(tallies, shares, pixel, base + gate * tallies.gate_stride, cell, booked, dither)
        if not ends or gate + 2 == len(scene.edges):
            return w, optical, gate, dither, path
        gate += 1


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


@leaf
def face_of(scene, cell, following):
    """Face of the grid between a voxel and the one that follows on the path, or -1 inside the grid."""
    if scene.rows[following] != EDGE:
        return -1
    step = following - cell
    axis = 2 if abs(step) == 1 else 1 if abs(step) == scene.stride_y else 0
    return 2 * axis + (1 if step > 0 else 0)


@helper
def detector_at(detectors, face, x, y, z):
    """Which detector a photon hits that escapes, through a face of the grid or inside it (-1); -1 for none.

    A detector: center, radius^2, normal (0 for a sphere), half thickness. A whole face has -1 - its number as radius^2.
    """
    for d in range(len(detectors)):
        if detectors[d, 3] < ZERO:
            if _F(face) == -ONE - detectors[d, 3]:
                return d
            continue
        dx, dy, dz = x - detectors[d, 0], y - detectors[d, 1], z - detectors[d, 2]
        axial = dx * detectors[d, 4] + dy * detectors[d, 5] + dz * detectors[d, 6]
        if dx * dx + dy * dy + dz * dz - axial * axial <= detectors[d, 3] and abs(axial) <= detectors[d, 7]:
            return d
    return -1


@helper
def list_photon(scene, tallies, paths, item, cells, where, direction, state):
    """Add a photon to the list that escapes from one cell to another, if it hits a detector.

    ``state``: weight, optical path, scattering events.
    """
    cell, following = cells
    i, j, k = cell // scene.stride_x - 1, cell // scene.stride_y % (scene.ny + 2) - 1, cell % scene.stride_y - 1
    px, py, pz = where
    weight, optical, scatterings = state
    x, y, z = _F(i) * scene.hx + px, _F(j) * scene.hy + py, _F(k) * scene.hz + pz
    detector = detector_at(scene.detectors, face_of(scene, cell, following), x, y, z)
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
    hx, hy, hz, fibers, shares = scene.hx, scene.hy, scene.hz, scene.fibers, scene.shares
    end = scene.edges[len(scene.edges) - 1]
    paths = np.empty(len(scene.media) if len(scene.detectors) else 0, np.float32)
    detecting = len(paths) > 0
    for i in range(start, stop):
        item = item_of(tallies.items, first, i)
        base = np.int64(item & _L(1)) * tallies.half_stride
        pixel = pixel_of(scene, shares, item)
        add_launched(tallies, shares, pixel)
        ax, ay, az, ux, uy, uz, state = begin_somewhere(scene, scene.rare, scene.several, stream(scene.seed, item))
        surface = surface_of(scene, scene.several, item)
        inside, cell, own_row, px, py, pz, ux, uy, uz, lost = enter(scene, surface, ax, ay, az, ux, uy, uz)
        if lost > ZERO:
            add_energy(tallies, shares, pixel, SPECULAR, lost)
        if not inside:
            if lost < ONE:
                add_energy(tallies, shares, pixel, MISSED, ONE - lost)
            continue
        w = ONE - lost
        mua, mus, g, n, free_path, per_n, reach = medium_at(scene.media, scene.mua, scene.mus, own_row, cell)
        g, n, per_n = own_g_and_n(scene.g, scene.n, cell, g, n, per_n)
        place = tensor_row(fibers, cell)
        mus, free_path = along_fibers(fibers, place, (ux, uy, uz), g, mus, free_path)
        ax, ay, az = mirrored(px, ux, hx), mirrored(py, uy, hy), mirrored(pz, uz, hz)  # mm to the faces ahead
        sx, sy, sz = slowness(ux), slowness(uy), slowness(uz)
        chance, state = uniform(state)
        s = minus_log(chance)
        dither, state = next_bits(state)
        path, optical, gate, scatterings, seen = ZERO, ZERO, np.int64(-1), 0, 0
        limit = min(end * per_n, reach)
        for row in range(len(paths)):
            paths[row] = ZERO
        note_vertex(tallies.trails, scene, i, START, cell, (ax, ay, az), (ux, uy, uz), (w, mua, n, path, optical))
        while True:
            way_x, way_y, way_z = ax * sx, ay * sy, az * sz
            nearest = min(way_x, way_y)
            to_face = max(min(nearest, way_z), ZERO)
            length = s * free_path
            leaves = length >= to_face
            axis, forward, following, row, rule = 0, False, cell, own_row, DEFAULT
            if leaves:
                axis = 1 if way_y < way_x else 0
                if way_z < nearest:
                    axis = 2
                forward = (ux if axis == 0 else uy if axis == 1 else uz) > ZERO
                following, row, rule = behind_face(scene, cell, axis, forward)  # read long before it is needed
                ax, ay, az = ax - to_face * abs(ux), ay - to_face * abs(uy), az - to_face * abs(uz)
                path += to_face
                s = max(s - to_face * mus, ZERO)
            else:
                ax, ay, az = ax - length * abs(ux), ay - length * abs(uy), az - length * abs(uz)
                path += length
                note_vertex(
                    tallies.trails, scene, i, SCATTERED, cell, (ax, ay, az), (ux, uy, uz), (w, mua, n, path, optical)
                )
                one, state = next_bits(state)
                other, state = next_bits(state)
                chance = unit_float(one)
                cp, sp = turn(left_over_bits(one, other))
                vx, vy, vz, cosine, state = turning_point(
                    fibers, place, (ux, uy, uz), deflection(scene.phase, g, chance), chance, state
                )
                after = turned(vx, vy, vz, cosine, cp, sp)
                vx, vy, vz, mus, free_path, state = beside_fibers(
                    fibers, place, (ux, uy, uz), after, g, mus, free_path, state
                )
                ax, ay, az = turned_about(ax, ux, vx, hx), turned_about(ay, uy, vy, hy), turned_about(az, uz, vz, hz)
                ux, uy, uz = vx, vy, vz
                sx, sy, sz = slowness(ux), slowness(uy), slowness(uz)
                s = minus_log(unit_float(other))
                scatterings += 1
                if path < limit:
                    continue

            seen = add_scores(tallies.scores, i, cell, mus, path, scatterings, seen)
            # Book what the path in this voxel has absorbed.
            beyond = ZERO
            if scene.gated is None:
                booked = w * path * mean_decay(mua * path)
                absorbed = min(mua * booked, w)
                w -= absorbed
                optical += n * path
                dither = add_path(tallies, shares, pixel, base, cell, booked, dither)
            else:
                w, optical, gate, dither, beyond = book_in_gates(
                    scene, tallies, shares, (pixel, base, cell), path, (mua, n, per_n), (w, optical, gate, dither)
                )
            if detecting:
                paths[own_row] += path - beyond
            path = ZERO
            if optical >= end:
                add_energy(tallies, shares, pixel, TRUNCATED, w)
                ax, ay, az = ax + beyond * abs(ux), ay + beyond * abs(uy), az + beyond * abs(uz)
                note_vertex(
                    tallies.trails, scene, i, TRUNCATED_AT, cell, (ax, ay, az), (ux, uy, uz), (w, mua, n, path, optical)
                )
                break
            if w < scene.threshold:
                chance, state = uniform(state)
                if chance < SURVIVAL:
                    gained = w * GAIN
                    take_energy(tallies, shares, pixel, ROULETTE, gained)
                    w += gained
                else:
                    add_energy(tallies, shares, pixel, ROULETTE, w)
                    note_vertex(
                        tallies.trails,
                        scene,
                        i,
                        ROULETTE_AT,
                        cell,
                        (ax, ay, az),
                        (ux, uy, uz),
                        (w, mua, n, path, optical),
                    )
                    break
            limit = min((end - optical) * per_n, reach)
            if not leaves:
                continue

            # Cross the face; whatever happens there, the next path begins at it.
            along = ux if axis == 0 else uy if axis == 1 else uz
            reflected, bent = rule == MIRROR, False
            can_differ = row != own_row or scene.n is not None
            if not reflected and can_differ and (rule == FRESNEL or (scene.refraction and rule != ESCAPE)):
                n2 = index_at(scene.n, scene.media, row, following)
                if n2 != n:
                    r, ct = fresnel(abs(along), n, n2)
                    chance, state = uniform(state)
                    reflected = chance < r
                    if not reflected:
                        bx, by, bz = ux, uy, uz
                        ux, uy, uz = refracted(ux, uy, uz, axis, ct, n / n2)
                        sx, sy, sz = slowness(ux), slowness(uy), slowness(uz)
                        bent = ux != bx or uy != by or uz != bz
            # Before a packet that stays lies the whole edge of a voxel; one that escapes is at the face.
            escapes = row == OUTSIDE and not reflected
            if axis == 0:
                ax, ux = ZERO if escapes else hx, -ux if reflected else ux
            elif axis == 1:
                ay, uy = ZERO if escapes else hy, -uy if reflected else uy
            else:
                az, uz = ZERO if escapes else hz, -uz if reflected else uz
            note_face(
                tallies.trails, scene, i, (cell, following, axis, forward), (ax, ay, az), (ux, uy, uz),
                (reflected, row == OUTSIDE, bent, rule == CYCLIC), (w, optical),
            )  # fmt: skip
            if reflected:
                mus, free_path = along_fibers(fibers, place, (ux, uy, uz), g, mus, free_path)
                continue
            if escapes:
                add_energy(tallies, shares, pixel, ESCAPED, w)
                if len(tallies.exits):
                    add_weight(tallies.exits, tallies.energy_scale, shares, pixel, cell, w)
                if detecting:
                    where = mirrored(ax, ux, hx), mirrored(ay, uy, hy), mirrored(az, uz, hz)
                    list_photon(
                        scene, tallies, paths, item, (cell, following), where, (ux, uy, uz), (w, optical, scatterings)
                    )
                break
            cell = following
            if row != own_row or len(scene.mua) or fibers is not None:
                own_row = row
                mua, mus, g, n, free_path, per_n, reach = medium_at(scene.media, scene.mua, scene.mus, row, cell)
                g, n, per_n = own_g_and_n(scene.g, scene.n, cell, g, n, per_n)
                place = tensor_row(fibers, cell)
                mus, free_path = along_fibers(fibers, place, (ux, uy, uz), g, mus, free_path)
                limit = min((end - optical) * per_n, reach)
