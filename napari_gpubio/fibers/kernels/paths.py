"""Best paths along fixels in Numba: Dijkstra's search, whose labels keep the exact position of the path.

A node is a fixel followed one way, as in the transport of mass. A path that went from center to center of voxels would
be bent by the grid: 6 to 8 % too long off its axes, and three times as costly. Here an edge begins where the path is,
runs along the chord of the arc between both tangents to the place nearest to the next voxel's center, and only what
is more than a tolerance beside that center is made up for, at a cost.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import math
from typing import Any, NamedTuple

import numpy.typing as npt

from napari_gpubio.core.jit import helper, kernel, leaf

Array = npt.NDArray[Any]
NEW, DONE = -1, -2  # places of nodes that are not in the heap
LEAST_AHEAD = 0.4  # voxels


class PathArrays(NamedTuple):
    """What the search reads.

    ``first`` (V + 1,), ``voxels`` (F,), ``directions`` (F, 3): see `FixelNodes`. ``resistances``: 1 / q of each fixel.
    ``penalties``: factor of the cost of an edge, less 1, by fixel. ``goals``: 1 for the fixels where the search ends.
    ``to_world``: twelve numbers, row by row. ``turn_scale`` (rad/mm) and ``skew_scale`` (rad): where the rate doubles.
    ``widest``: whether the largest rate on the way counts, not the sum.
    """

    first: Array
    voxels: Array
    directions: Array
    resistances: Array
    penalties: Array
    goals: Array
    to_world: tuple[float, ...]
    shape: tuple[int, int, int]
    size_mm: float
    tolerance_mm: float
    turn_scale: float
    skew_scale: float
    least_cosine: float
    largest_skew: float
    widest: bool


class PathState(NamedTuple):
    """Of each node: cost (infinite at first), the node before it (-1), position in mm, place in the heap; the heap."""

    costs: Array
    parents: Array
    positions: Array
    places: Array
    heap: Array


@leaf
def comes_first(costs, a, b):
    """Whether a node has the lower cost; the lower number decides where costs are equal."""
    return costs[a] < costs[b] or (costs[a] == costs[b] and a < b)


@helper
def sift_up(state, place):
    """Move a node towards the top of the heap to where it belongs."""
    costs, heap, places = state.costs, state.heap, state.places
    node = heap[place]
    while place > 0:
        above = (place - 1) // 2
        if not comes_first(costs, node, heap[above]):
            break
        heap[place] = heap[above]
        places[heap[place]] = place
        place = above
    heap[place] = node
    places[node] = place


@helper
def take_first(state, count):
    """Take the first node out of a heap of ``count``."""
    costs, heap, places = state.costs, state.heap, state.places
    taken, node = heap[0], heap[count - 1]
    places[taken] = DONE
    count -= 1
    place = 0
    while 2 * place + 1 < count:
        below = 2 * place + 1
        if below + 1 < count and comes_first(costs, heap[below + 1], heap[below]):
            below += 1
        if not comes_first(costs, heap[below], node):
            break
        heap[place] = heap[below]
        places[heap[place]] = place
        place = below
    if count > 0:
        heap[place] = node
        places[node] = place
    return taken


@leaf
def center_of(arrays, i, j, k):
    """World position of a voxel's center."""
    m = arrays.to_world
    return (
        m[0] * i + m[1] * j + m[2] * k + m[3],
        m[4] * i + m[5] * j + m[6] * k + m[7],
        m[8] * i + m[9] * j + m[10] * k + m[11],
    )


@helper
def edge_to(arrays, f, t, away, g):
    """The edge to a fixel g whose voxel's center is ``away`` from where the path is.

    Returns its sense (-1: there is none), length, rate, and what is left to the center at its end.
    """
    t0, t1, t2 = t
    d0, d1, d2 = away
    u = arrays.directions[g]
    cosine = t0 * u[0] + t1 * u[1] + t2 * u[2]
    sense, sign = (0, 1.0) if cosine > 0.0 else (1, -1.0)
    cosine = abs(cosine)
    none = -1, 0.0, 0.0, (0.0, 0.0, 0.0)
    if cosine < arrays.least_cosine:
        return none
    m0, m1, m2 = t0 + sign * u[0], t1 + sign * u[1], t2 + sign * u[2]
    size = math.sqrt(m0 * m0 + m1 * m1 + m2 * m2)
    m0, m1, m2 = m0 / size, m1 / size, m2 / size
    ahead = d0 * m0 + d1 * m1 + d2 * m2
    if ahead < LEAST_AHEAD * arrays.size_mm:
        return none
    r0, r1, r2 = d0 - ahead * m0, d1 - ahead * m1, d2 - ahead * m2
    beside = math.sqrt(r0 * r0 + r1 * r1 + r2 * r2)
    kept = 1.0 if beside <= arrays.tolerance_mm else arrays.tolerance_mm / beside
    pulled = beside * (1.0 - kept)
    if pulled > arrays.largest_skew * ahead:
        return none
    length = math.sqrt(ahead * ahead + pulled * pulled)
    turn = math.acos(min(1.0, cosine)) / (length * arrays.turn_scale)
    skew = math.atan(pulled / ahead) / arrays.skew_scale
    rate = (1.0 + turn * turn + skew * skew) * 0.5 * (arrays.resistances[f] + arrays.resistances[g])
    return sense, length, rate, (kept * r0, kept * r1, kept * r2)


@kernel
def search(starts, arrays, state):
    """Find the best paths from some nodes until one reaches a goal: that node, or -1 if none can."""
    shape, count = arrays.shape, 0
    for node in starts:
        voxel = arrays.voxels[node >> 1]
        i, j, k = voxel // (shape[1] * shape[2]), voxel // shape[2] % shape[1], voxel % shape[2]
        x, y, z = center_of(arrays, i, j, k)
        state.positions[node, 0], state.positions[node, 1], state.positions[node, 2] = x, y, z
        state.costs[node], state.heap[count], state.places[node] = 0.0, node, count
        count += 1
        sift_up(state, count - 1)
    while count > 0:
        node = take_first(state, count)
        count -= 1
        f = node >> 1
        if arrays.goals[f]:
            return node
        voxel, sign = arrays.voxels[f], 1.0 - 2.0 * (node & 1)
        i, j, k = voxel // (shape[1] * shape[2]), voxel // shape[2] % shape[1], voxel % shape[2]
        d = arrays.directions[f]
        t = sign * d[0], sign * d[1], sign * d[2]
        x0, x1, x2 = state.positions[node, 0], state.positions[node, 1], state.positions[node, 2]
        for corner in range(27):
            a, b, c = i + corner // 9 - 1, j + corner // 3 % 3 - 1, k + corner % 3 - 1
            if corner == 13 or a < 0 or b < 0 or c < 0 or a >= shape[0] or b >= shape[1] or c >= shape[2]:
                continue
            other = (a * shape[1] + b) * shape[2] + c
            c0, c1, c2 = center_of(arrays, a, b, c)
            away = c0 - x0, c1 - x1, c2 - x2
            for g in range(arrays.first[other], arrays.first[other + 1]):
                sense, length, rate, left = edge_to(arrays, f, t, away, g)
                if sense < 0:
                    continue
                reached = 2 * g + sense
                if state.places[reached] == DONE:
                    continue
                rate *= 1.0 + 0.5 * (arrays.penalties[f] + arrays.penalties[g])
                # the small term for length keeps the widest paths from wandering
                cost = (
                    max(state.costs[node], rate) + 1e-6 * length if arrays.widest else state.costs[node] + length * rate
                )
                if cost < state.costs[reached]:
                    l0, l1, l2 = left
                    state.costs[reached], state.parents[reached] = cost, node
                    p = state.positions[reached]
                    p[0], p[1], p[2] = c0 - l0, c1 - l1, c2 - l2
                    if state.places[reached] == NEW:
                        state.heap[count], state.places[reached] = reached, count
                        count += 1
                    sift_up(state, state.places[reached])
    return -1
