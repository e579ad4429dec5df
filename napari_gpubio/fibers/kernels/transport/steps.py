"""Transport of mass along fixels in Numba, as ``transport.cu`` has it: same names, same order of operations."""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import helper, kernel, leaf
from napari_gpubio.fibers.flow.nodes import ANGLE, EDGE, WALL
from napari_gpubio.fibers.kernels.transport.problem import FULL, LEAST_SHARE

Array = npt.NDArray[Any]
BLOCK = 64  # nodes that share a mark


class FixelArrays(NamedTuple):
    """What steps read; see `FixelNodes`, `Walls` and `TransportProblem.scalars`; where none is closed, no marks."""

    first: Array
    voxels: Array
    directions: Array
    strengths: Array
    marks: Array
    to_voxel: tuple[float, ...]
    substep_mm: float
    least_cosine: float
    spread: float
    shape: tuple[int, int, int]
    substeps: int
    closed: int


@leaf
def voxel_at(shape, i, j, k):
    """Flat index of a voxel, -1 outside of the volume."""
    if i < 0 or j < 0 or k < 0 or i >= shape[0] or j >= shape[1] or k >= shape[2]:
        return -1
    return (i * shape[1] + j) * shape[2] + k


@leaf
def moved(arrays, place, t):
    """A place (voxels), one sub-step along a world direction."""
    x, y, z = place
    t0, t1, t2 = t
    m, h = arrays.to_voxel, arrays.substep_mm
    return (
        x + h * (m[0] * t0 + m[1] * t1 + m[2] * t2),
        y + h * (m[3] * t0 + m[4] * t1 + m[5] * t2),
        z + h * (m[6] * t0 + m[7] * t1 + m[8] * t2),
    )


@leaf
def nearest_voxel(shape, place):
    """The voxel of the volume that is nearest to a place."""
    x, y, z = place
    return (
        min(max(int(math.floor(x + 0.5)), 0), shape[0] - 1),
        min(max(int(math.floor(y + 0.5)), 0), shape[1] - 1),
        min(max(int(math.floor(z + 0.5)), 0), shape[2] - 1),
    )


@helper
def marks_between(arrays, one, other):
    """Marks of all voxels of the box between two: what parts voxels that share a face is not passed at corners."""
    found = 0
    for i in range(min(one[0], other[0]), max(one[0], other[0]) + 1):
        for j in range(min(one[1], other[1]), max(one[1], other[1]) + 1):
            for k in range(min(one[2], other[2]), max(one[2], other[2]) + 1):
                found |= int(arrays.marks[(i * arrays.shape[1] + j) * arrays.shape[2] + k])
    return found


@helper
def mean_direction(arrays, place, t):
    """Mean of the fixels nearest to a direction in the eight voxels around, and the share of the weight that has one.

    A share of 0 stands for none.
    """
    x, y, z = place
    t0, t1, t2 = t
    i, j, k = int(math.floor(x)), int(math.floor(y)), int(math.floor(z))
    fx, fy, fz = x - i, y - j, z - k
    s0, s1, s2, share = 0.0, 0.0, 0.0, 0.0
    for corner in range(8):
        a, b, c = corner >> 2, corner >> 1 & 1, corner & 1
        voxel = voxel_at(arrays.shape, i + a, j + b, k + c)
        if voxel < 0:
            continue
        weight = (fx if a else 1.0 - fx) * (fy if b else 1.0 - fy) * (fz if c else 1.0 - fz)
        largest, nearest, sign = arrays.least_cosine, -1, 1.0
        for f in range(arrays.first[voxel], arrays.first[voxel + 1]):
            d = arrays.directions[f]
            cosine = t0 * d[0] + t1 * d[1] + t2 * d[2]
            if abs(cosine) > largest:
                largest, nearest, sign = abs(cosine), f, 1.0 if cosine > 0.0 else -1.0
        if nearest >= 0:
            share += weight
            signed, d = weight * sign, arrays.directions[nearest]
            s0, s1, s2 = s0 + signed * d[0], s1 + signed * d[1], s2 + signed * d[2]
    size = math.sqrt(s0 * s0 + s1 * s1 + s2 * s2)
    if size < 1e-9:
        return (t0, t1, t2), 0.0
    return (s0 / size, s1 / size, s2 / size), share


@helper
def step_from(arrays, node):
    """Place (voxels) and direction after a step from the center of a node's voxel, and if fibers end before its end.

    The last number has the marks of the voxels on the way.
    """
    d, sign = arrays.directions[node >> 1], 1.0 - 2.0 * (node & 1)
    t = sign * d[0], sign * d[1], sign * d[2]
    voxel, ny, nz = arrays.voxels[node >> 1], arrays.shape[1], arrays.shape[2]
    place, met, ended = (float(voxel // (ny * nz)), float(voxel // nz % ny), float(voxel % nz)), 0, False
    for substep in range(arrays.substeps):
        further, mean, share = moved(arrays, place, t), t, 1.0
        if substep < arrays.substeps - 1:
            mean, share = mean_direction(arrays, further, t)
        ended = share < 0.5
        if ended and substep >= 2:
            break
        if arrays.closed:
            met |= marks_between(arrays, nearest_voxel(arrays.shape, place), nearest_voxel(arrays.shape, further))
        place = further
        if ended:
            break
        t = mean
    return place, t, ended, met


@helper
def share_out(arrays, node, columns, values):
    """Where the mass of a node goes, in ``columns`` and ``values`` unless they are empty.

    Returns the number of entries, those that lead into walls, too; the share of the mass that ends, and why; the marks
    on the way, and the voxel at its end (-1 without walls).
    """
    fills = len(columns) > 0
    (x, y, z), (t0, t1, t2), cut_short, met = step_from(arrays, node)
    own, reached, nearest = arrays.voxels[node >> 1], -1, nearest_voxel(arrays.shape, (x, y, z))
    if arrays.closed:
        reached = voxel_at(arrays.shape, nearest[0], nearest[1], nearest[2])
    i, j, k = int(math.floor(x)), int(math.floor(y)), int(math.floor(z))
    fx, fy, fz = x - i, y - j, z - k
    count, share, held, passed, stayed, walled = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    for corner in range(8):
        a, b, c = corner >> 2, corner >> 1 & 1, corner & 1
        voxel = voxel_at(arrays.shape, i + a, j + b, k + c)
        if voxel < 0 or arrays.first[voxel] == arrays.first[voxel + 1]:
            continue
        weight = (fx if a else 1.0 - fx) * (fy if b else 1.0 - fy) * (fz if c else 1.0 - fz)
        held += weight
        if cut_short and voxel == own:  # what would stay there for ever ends
            share += weight
            stayed += weight
            continue
        total, begin = 0.0, count
        for f in range(arrays.first[voxel], arrays.first[voxel + 1]):
            d = arrays.directions[f]
            cosine = t0 * d[0] + t1 * d[1] + t2 * d[2]
            if abs(cosine) < arrays.least_cosine:
                continue
            angle = math.acos(min(1.0, abs(cosine))) / arrays.spread
            strength = arrays.strengths[f] * math.exp(-0.5 * angle * angle)
            if not strength > 0.0:
                continue
            total += strength
            if fills:
                columns[count], values[count] = 2 * f + (0 if cosine > 0.0 else 1), strength
            count += 1
        if total > 0.0:
            given = weight * min(1.0, total / FULL)
            share += weight
            passed += given
            if fills:
                for n in range(begin, count):
                    values[n] *= given / total
            if arrays.closed and arrays.closed & (met | marks_between(arrays, nearest, (i + a, j + b, k + c))):
                walled += given
    if share < LEAST_SHARE:
        return 0, 1.0, EDGE if held < LEAST_SHARE else ANGLE, met, reached
    if fills:
        for n in range(count):
            values[n] /= share
    ended = 1.0 - (passed - walled) / share
    if ended < 1e-6:
        return count, 0.0, 0, met, reached
    if walled > 0.5 * ended * share:
        return count, ended, WALL, met, reached
    return count, ended, EDGE if stayed > 0.5 * (share - passed) else ANGLE, met, reached


@kernel
def count_rows(start, stop, arrays, nothing, counts, shares, why):
    """Number of entries of each node's row, the share of its mass that ends, and why; ``nothing``: empty arrays."""
    columns, values = nothing
    for node in range(start, stop):
        counts[node], shares[node], why[node], _, _ = share_out(arrays, node, columns, values)


@kernel
def fill_rows(start, stop, arrays, row, memory, columns, values):
    """Entries of each node's row; ``memory``: room for one row."""
    own_columns, own_values = memory
    for node in range(start, stop):
        count, _, _, _, _ = share_out(arrays, node, own_columns, own_values)
        first = row[node]
        for n in range(count):
            columns[first + n], values[first + n] = own_columns[n], own_values[n]


@kernel
def meet_walls(start, stop, arrays, nodes, nothing, steps, ended):
    """Where steps from some nodes lead, and what of their mass ends, with walls.

    ``steps``: the marks on the way of each node's step, and the voxel nearest to its end; ``ended``: the share of its
    mass that does, and why; ``nothing``: empty arrays.
    """
    columns, values = nothing
    met, reached = steps
    shares, why = ended
    for n in range(start, stop):
        node = nodes[n]
        _, shares[node], why[node], met[node], reached[node] = share_out(arrays, node, columns, values)


@helper
def is_closed(arrays, met, reached, fixel):
    """Whether a wall lies on the way of a step, or between its end and the voxel of a fixel."""
    if reached < 0:
        return False
    voxel, ny, nz = arrays.voxels[fixel], arrays.shape[1], arrays.shape[2]
    one = reached // (ny * nz), reached // nz % ny, reached % nz
    other = voxel // (ny * nz), voxel // nz % ny, voxel % nz
    return (arrays.closed & (met | marks_between(arrays, one, other))) != 0


@kernel
def close_rows(start, stop, arrays, nodes, matrix, steps, values):
    """Entries of the rows of some nodes with walls; ``steps``: see `meet_walls`."""
    row, columns, all_values = matrix
    met, reached = steps
    for n in range(start, stop):
        node = nodes[n]
        for entry in range(row[node], row[node + 1]):
            closed = is_closed(arrays, met[node], reached[node], columns[entry] >> 1)
            values[entry] = 0.0 if closed else all_values[entry]


@kernel
def spread(matrix, steps, least, mass, following, marks, following_marks, visits):
    """Move the mass of one region on until none is left; returns what had gone all steps.

    ``matrix``: row, columns, values. ``mass`` (N,) at the start, in blocks of nodes that ``marks`` tells; it and
    ``following`` are zero at the end, and so are the marks. ``visits``: mass that went on from each node is added.
    """
    row, columns, values = matrix
    for _ in range(steps):
        found = False
        for block in range(len(marks)):
            if not marks[block]:
                continue
            marks[block] = 0
            for node in range(block * BLOCK, min((block + 1) * BLOCK, len(mass))):
                own = mass[node]
                mass[node] = 0.0
                if not (own >= least and own > 0.0):
                    continue
                visits[node] += own
                for n in range(row[node], row[node + 1]):
                    following[columns[n]] += own * values[n]
                    following_marks[columns[n] // BLOCK] = 1
                found = True
        if not found:
            return 0.0
        mass, following = following, mass
        marks, following_marks = following_marks, marks
    rest = 0.0
    for block in range(len(marks)):
        if marks[block]:
            marks[block] = 0
            for node in range(block * BLOCK, min((block + 1) * BLOCK, len(mass))):
                if mass[node] >= least:
                    rest += mass[node]
                mass[node] = 0.0
    return rest


@kernel
def arrive(matrix, nodes, masses, first_region, regions, arrivals):
    """Mass that enters each region from outside, added to ``arrivals`` (R,), of what went on from some nodes."""
    row, columns, values = matrix
    for n in range(len(nodes)):
        node, own = nodes[n], np.float64(masses[n])
        left = node >> 1
        for entry in range(row[node], row[node + 1]):
            reached = columns[entry] >> 1
            for place in range(first_region[reached], first_region[reached + 1]):
                region, is_inside = regions[place], False
                for other in range(first_region[left], first_region[left + 1]):
                    is_inside = is_inside or regions[other] == region
                if not is_inside:
                    arrivals[region] += own * values[entry]


@kernel
def list_by_node(offsets, nodes, masses, first, owners, roots):
    """Visits of regions, listed by region, as lists by node: the regions, and the roots of their masses.

    ``first``, (N,): the first place of each node in the lists; at the end, that of the next one.
    """
    for region in range(len(offsets) - 1):
        for n in range(offsets[region], offsets[region + 1]):
            place = first[nodes[n]]
            first[nodes[n]] = place + 1
            owners[place], roots[place] = region, math.sqrt(masses[n])


@kernel
def gated_overlap_rows(start, stop, visits, lists, ways, strengths, overlaps):
    """Overlaps of some regions with all by routes through gates: q times the root of the signed sum of the products.

    ``lists``: where those of each node end, and of each visit by node its region and number; ``ways``: signs (K,),
    masses (K, E), the first those of all that moves, and the least share of that which counts.
    """
    offsets, nodes = visits
    ends, owners, numbers = lists
    signs, masses, least = ways
    for region in range(start, stop):
        own = overlaps[region]
        for n in range(offsets[region], offsets[region + 1]):
            reverse = nodes[n] ^ 1
            for place in range(ends[reverse], ends[reverse + 1]):
                other, flow = numbers[place], 0.0
                for way in range(len(signs)):
                    flow += signs[way] * np.float64(masses[way, n]) * np.float64(masses[way, other])
                if flow > least * np.float64(masses[0, n]) * np.float64(masses[0, other]):
                    own[owners[place]] += strengths[nodes[n] >> 1] * math.sqrt(flow)


@kernel
def overlap_rows(start, stop, visits, lists, strengths, overlaps):
    """Overlaps of some regions with all: the sum over nodes of q sqrt(visits of A, visits of B the other way)."""
    offsets, nodes, masses = visits
    ends, owners, roots = lists
    for region in range(start, stop):
        own = overlaps[region]
        for n in range(offsets[region], offsets[region + 1]):
            reverse = nodes[n] ^ 1
            weight = strengths[nodes[n] >> 1] * np.float64(math.sqrt(masses[n]))
            for place in range(ends[reverse], ends[reverse + 1]):
                own[owners[place]] += weight * np.float64(roots[place])
