"""What photons that are traced again leave behind: derivatives, or the way they went. Counterpart: ``record.cuh``.

A photon is known by its number: traced again on the same kind of device with the same build, it goes the same way to
the last bit. `Scores` adds up, voxel by voxel, derivatives of what detectors measure; `Trails` notes vertices. Where
they are None, Numba leaves them out.

The weight w of a detected photon depends on the coefficients that it met: with the path L and n scattering events in a
voxel, ::

    d ln w / d mu_a = -L,    d ln p / d mu_s = n / mu_s - L

where p is the probability density of its way (collisions are sampled with mu_s, absorption reduces the weight). Each
measurement has a factor for every photon, so its derivative is a sum over photons of the factor times these scores.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.fastmath import mean_decay
from napari_gpubio.core.intrinsics import atomic_add
from napari_gpubio.core.jit import leaf, pruned
from napari_gpubio.light.kernels.voxels.photon import mirrored
from napari_gpubio.optics.batches import Words
from napari_gpubio.optics.kernels.physics import ZERO

_D, _F, _L = np.float64, np.float32, np.uint64

# Kinds of vertices; the counterparts are in ``record.cuh``.
START, SCATTERED, CROSSED, BENT, REFLECTED, LEFT, JUMPED, ESCAPED_AT, TRUNCATED_AT, ROULETTE_AT = range(10)


class Scores(NamedTuple):
    """Where derivatives add up.

    Parameters
    ----------
    factors
        Of each photon for each measurement, in quanta per mm, shape (N, M).
    slots
        Which of the tallies a photon adds to, shape (N,).
    by_mua, by_mus
        Whether there are derivatives by mu_a, and by mu_s, which stand behind them.
    cells
        Voxels of one derivative.
    tally
        Two's complement integers, shape (slots * M * coefficients * cells,).
    """

    factors: npt.NDArray[np.float64]
    slots: npt.NDArray[np.int64]
    by_mua: bool
    by_mus: bool
    cells: int
    tally: Words


class Trails(NamedTuple):
    """Where the paths of photons are noted.

    Parameters
    ----------
    counts
        Vertices that each photon has had, shape (N,); those beyond the room are not noted.
    crossings
        Whether faces that do not change the direction are vertices, too.
    kinds, numbers
        Of each vertex, shapes (N, room) and (N, room, 5): x, y, z (grid mm), weight, optical path (mm).
    """

    counts: npt.NDArray[np.int64]
    crossings: bool
    kinds: npt.NDArray[np.uint8]
    numbers: npt.NDArray[np.float32]


@pruned
def item_of(items, first, line):
    """Global index of the photon of a line: from a list, or counted from the first."""
    if items is not None:
        return items[line]
    return _L(first + _L(line))


@leaf
def quanta_of_score(factor, score):
    """Nearest integer, negative ones in two's complement."""
    return _L(np.int64(np.rint(factor * score)))


@pruned
def add_scores(scores, line, cell, mus, path, scatterings, seen):
    """Add the derivatives of a path in a voxel with the scattering events since ``seen``; returns their number now."""
    if scores is not None:
        factors, tally, cells = scores.factors, scores.tally, scores.cells
        count, coefficients = scatterings - seen, (1 if scores.by_mua else 0) + (1 if scores.by_mus else 0)
        lost = -_D(path)
        gained = _D(count) / _D(mus) + lost if count else lost
        place = scores.slots[line] * (factors.shape[1] * coefficients * cells) + cell
        for m in range(factors.shape[1]):
            factor = factors[line, m]
            if factor != 0.0:
                if scores.by_mua:
                    atomic_add(tally, place, quanta_of_score(factor, lost))
                if scores.by_mus:
                    atomic_add(tally, place + (coefficients - 1) * cells, quanta_of_score(factor, gained))
            place += coefficients * cells
    return scatterings


@leaf
def note(trails, scene, line, kind, cell, where, numbers):
    """Note a vertex."""
    place = trails.counts[line]
    trails.counts[line] = place + 1
    if place >= trails.kinds.shape[1]:
        return
    i, j, k = cell // scene.stride_x - 1, cell // scene.stride_y % (scene.ny + 2) - 1, cell % scene.stride_y - 1
    trails.kinds[line, place] = kind
    one = trails.numbers[line, place]
    one[0] = _F(i) * scene.hx + where[0]
    one[1] = _F(j) * scene.hy + where[1]
    one[2] = _F(k) * scene.hz + where[2]
    one[3], one[4] = numbers


@leaf
def position_in_voxel(scene, ahead, direction):
    """Position in the voxel (mm from its low corner) of a packet that has so far to the faces ahead."""
    return (
        mirrored(ahead[0], direction[0], scene.hx),
        mirrored(ahead[1], direction[1], scene.hy),
        mirrored(ahead[2], direction[2], scene.hz),
    )


@pruned
def note_vertex(trails, scene, line, kind, cell, ahead, direction, state):
    """Note a vertex inside a voxel; ``state``: weight, mu_a, index, path that is not booked yet, optical path."""
    if trails is not None:
        where = position_in_voxel(scene, ahead, direction)
        w, mua, n, path, optical = state
        absorbed = min(mua * (w * path * mean_decay(mua * path)), w)
        note(trails, scene, line, kind, cell, where, (w - absorbed, optical + n * path))


@pruned
def note_face(trails, scene, line, face, ahead, direction, happened, state):
    """Note what happens at a face, on this side of it, and behind it where the grid is cyclic.

    ``face``: voxel, voxel behind, axis, whether forward; ``ahead`` and ``direction`` of the next path; ``happened``:
    whether it is reflected, escapes, is bent, or goes on at the far side; ``state``: weight, optical path.
    """
    if trails is not None:
        cell, following, axis, forward = face
        reflected, escapes, bent, wrapped = happened
        where = position_in_voxel(scene, ahead, direction)
        x, y, z = where
        if axis == 0:
            x = scene.hx if forward else ZERO
        elif axis == 1:
            y = scene.hy if forward else ZERO
        else:
            z = scene.hz if forward else ZERO
        kind = REFLECTED if reflected else ESCAPED_AT if escapes else LEFT if wrapped else BENT if bent else CROSSED
        if kind != CROSSED or trails.crossings:
            note(trails, scene, line, kind, cell, (x, y, z), state)
        if kind == LEFT:
            note(trails, scene, line, JUMPED, following, where, state)
