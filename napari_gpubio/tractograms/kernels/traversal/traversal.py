"""Exact walks of fibers through voxels (Amanatides and Woo 1987) on the CPU; the counterpart of traversal.cu.

Voxel centers lie at whole numbers; a point on the plane between two voxels belongs to the upper one. A segment leads
from the voxel of its first point to that of its last one in as many steps as their indices differ, so no rounding can
make it miss the end. Where it crosses an edge or a corner it passes one of the voxels there.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import math

import numpy as np

from napari_gpubio.core.intrinsics import atomic_add
from napari_gpubio.core.jit import helper, kernel, leaf
from napari_gpubio.tractograms.kernels.traversal.problem import LARGEST, QUANTUM_MM, SPHERE

NEVER = 1e300  # beyond every parameter of a segment
_FREE = -1
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@leaf
def mapped(m, x, y, z):
    """A place through a matrix, its twelve numbers row by row."""
    return (
        m[0] * x + m[1] * y + m[2] * z + m[3],
        m[4] * x + m[5] * y + m[6] * z + m[7],
        m[8] * x + m[9] * y + m[10] * z + m[11],
    )


@leaf
def index_of(x):
    """Index of the voxel of a coordinate."""
    return int(math.floor(x + 0.5))


@leaf
def inside(n, i, j, k):
    """Whether there is such a voxel."""
    return i >= 0 and j >= 0 and k >= 0 and i < n[0] and j < n[1] and k < n[2]


@leaf
def crossing(x, d, i, last):
    """Where along a segment from x by d the walk leaves voxel i for the last one; never where it stays."""
    if i == last:
        return NEVER
    return (i + (0.5 if last > i else -0.5) - x) / d


@leaf
def bordered(words, i, j, k):
    """The word of a voxel in a volume with a border, which everything outside belongs to."""
    a, b, c = words.shape
    return words[min(max(i + 1, 0), a - 1), min(max(j + 1, 0), b - 1), min(max(k + 1, 0), c - 1)]


@helper
def bits_between(words, a, b, bits):
    """Add the bits of all voxels on the way from a to b, without that of a."""
    i, j, k = index_of(a[0]), index_of(a[1]), index_of(a[2])
    li, lj, lk = index_of(b[0]), index_of(b[1]), index_of(b[2])
    dx, dy, dz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    tx, ty, tz = crossing(a[0], dx, i, li), crossing(a[1], dy, j, lj), crossing(a[2], dz, k, lk)
    for _ in range(abs(li - i) + abs(lj - j) + abs(lk - k)):
        if tx <= ty and tx <= tz:
            i += 1 if li > i else -1
            tx = crossing(a[0], dx, i, li)
        elif ty <= tz:
            j += 1 if lj > j else -1
            ty = crossing(a[1], dy, j, lj)
        else:
            k += 1 if lk > k else -1
            tz = crossing(a[2], dz, k, lk)
        bits |= bordered(words, i, j, k)
    return bits


@kernel
def find_words(start, stop, lines, grid, words, answers):
    """Which regions of a grid fibers pass, begin in and end in."""
    points, offsets = lines
    m, _ = grid
    here, near = words
    passed, first, last = answers
    for f in range(start, stop):
        p, end = offsets[f], offsets[f + 1]
        bits = np.uint64(0)
        first[f] = last[f] = passed[f] = bits
        if p == end:
            continue
        x, y, z = mapped(m, points[p, 0], points[p, 1], points[p, 2])
        i, j, k = index_of(x), index_of(y), index_of(z)
        bits |= bordered(here, i, j, k)
        first[f] = bits
        for q in range(p + 1, end):
            u, v, w = mapped(m, points[q, 0], points[q, 1], points[q, 2])
            a, b, c = index_of(u), index_of(v), index_of(w)
            if a != i or b != j or c != k:
                is_neighbor = abs(a - i) <= 1 and abs(b - j) <= 1 and abs(c - k) <= 1
                if not is_neighbor or bordered(near, i, j, k) & ~bits:
                    bits = bits_between(here, (x, y, z), (u, v, w), bits)
            x, y, z, i, j, k = u, v, w, a, b, c
        last[f] = bordered(here, i, j, k)
        passed[f] = bits


# -- spheres and boxes ------------------------------------------------------------------------------------------------


@kernel
def find_boxes(start, stop, lines, boxes):
    """Bounding boxes of fibers: lowest and highest x, y, z (F, 6); of one without points nothing can be inside."""
    points, offsets = lines
    for f in range(start, stop):
        for a in range(3):
            low, high = LARGEST, -LARGEST
            for p in range(offsets[f], offsets[f + 1]):
                low, high = min(low, points[p, a]), max(high, points[p, a])
            boxes[f, a], boxes[f, 3 + a] = low, high


@leaf
def square_to_segment(s, ax, ay, az, bx, by, bz):
    """Squared distance of a sphere's center from a segment."""
    dx, dy, dz = bx - ax, by - ay, bz - az
    cx, cy, cz = s[0] - ax, s[1] - ay, s[2] - az
    long = dx * dx + dy * dy + dz * dz
    t = (cx * dx + cy * dy + cz * dz) / long if long > 0.0 else 0.0
    t = min(max(t, 0.0), 1.0)
    ex, ey, ez = cx - t * dx, cy - t * dy, cz - t * dz
    return ex * ex + ey * ey + ez * ez


@leaf
def enters(a, b, low, high, t0, t1):
    """Part of a segment's parameters [t0, t1] that lies between two planes across one axis."""
    d = b - a
    if d == 0.0:
        return (t0, t1) if low <= a <= high else (1.0, 0.0)
    s, e = (low - a) / d, (high - a) / d
    return max(t0, min(s, e)), min(t1, max(s, e))


@helper
def meets(kind, s, ax, ay, az, bx, by, bz):
    """Whether a segment meets a sphere (center, radius) or a box (two corners)."""
    if kind == SPHERE:
        return square_to_segment(s, ax, ay, az, bx, by, bz) <= s[3] * s[3]
    t0, t1 = enters(ax, bx, s[0], s[3], 0.0, 1.0)
    t0, t1 = enters(ay, by, s[1], s[4], t0, t1)
    t0, t1 = enters(az, bz, s[2], s[5], t0, t1)
    return t0 <= t1


@kernel
def find_solid(start, stop, lines, boxes, kind, solid, answers):
    """Which fibers pass a sphere or box, begin in it and end in it: 0 or 1."""
    points, offsets = lines
    passed, first, last = answers
    radius = solid[3]
    for f in range(start, stop):
        passed[f] = first[f] = last[f] = 0
        p, end = offsets[f], offsets[f + 1]
        may = p < end
        for a in range(3):
            low = solid[a] - radius if kind == SPHERE else solid[a]
            high = solid[a] + radius if kind == SPHERE else solid[3 + a]
            may = may and boxes[f, a] <= high and boxes[f, 3 + a] >= low
        if not may:
            continue
        x, y, z = np.float64(points[p, 0]), np.float64(points[p, 1]), np.float64(points[p, 2])
        first[f] = meets(kind, solid, x, y, z, x, y, z)
        found = first[f] != 0
        for q in range(p + 1, end):
            if found:
                break
            u, v, w = np.float64(points[q, 0]), np.float64(points[q, 1]), np.float64(points[q, 2])
            found = meets(kind, solid, x, y, z, u, v, w)
            x, y, z = u, v, w
        passed[f] = found
        x, y, z = np.float64(points[end - 1, 0]), np.float64(points[end - 1, 1]), np.float64(points[end - 1, 2])
        last[f] = meets(kind, solid, x, y, z, x, y, z)


# -- density ----------------------------------------------------------------------------------------------------------


@leaf
def is_new(table, voxel, fiber):
    """Note that a fiber has been in a voxel, in a hash table of voxels and fibers; whether it had not been before."""
    mask = len(table) - 1
    at = int((np.uint64(voxel) * _SPREAD) >> np.uint64(32)) & mask
    while table[at, 1] == fiber:
        if table[at, 0] == voxel:
            return False
        at = (at + 1) & mask
    table[at, 0], table[at, 1] = voxel, fiber
    return True


@helper
def add_visit(grid_shape, voxel, mm, fiber, value, table, maps):
    """Add a fiber's stay in a voxel, of some length."""
    counts, lengths, sums = maps
    i, j, k = voxel
    if not inside(grid_shape, i, j, k):
        return
    at = (i * grid_shape[1] + j) * grid_shape[2] + k
    atomic_add(lengths, at, np.int64(math.floor(mm / QUANTUM_MM + 0.5)))
    if is_new(table, at, fiber):
        atomic_add(counts, at, np.int64(1))
        atomic_add(sums, at, value)


@helper
def add_segment(grid_shape, a, b, mm, fiber, value, table, maps):
    """Add one segment of a fiber, from a to b in voxels."""
    i, j, k = index_of(a[0]), index_of(a[1]), index_of(a[2])
    li, lj, lk = index_of(b[0]), index_of(b[1]), index_of(b[2])
    dx, dy, dz = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    tx, ty, tz = crossing(a[0], dx, i, li), crossing(a[1], dy, j, lj), crossing(a[2], dz, k, lk)
    before = 0.0
    for _ in range(abs(li - i) + abs(lj - j) + abs(lk - k)):
        now = min(max(min(tx, ty, tz), before), 1.0)
        add_visit(grid_shape, (i, j, k), (now - before) * mm, fiber, value, table, maps)
        before = now
        if tx <= ty and tx <= tz:
            i += 1 if li > i else -1
            tx = crossing(a[0], dx, i, li)
        elif ty <= tz:
            j += 1 if lj > j else -1
            ty = crossing(a[1], dy, j, lj)
        else:
            k += 1 if lk > k else -1
            tz = crossing(a[2], dz, k, lk)
    add_visit(grid_shape, (i, j, k), (1.0 - before) * mm, fiber, value, table, maps)


@kernel
def add_density(start, stop, lines, grid, values, maps, slots):
    """Add fibers to maps: how many are in a voxel, their length in it (in quanta), the sum of their values.

    ``slots``: of a hash table that holds the voxels of the longest fiber twice, a power of two.
    """
    points, offsets = lines
    m, shape = grid
    table = np.full((slots, 2), _FREE, np.int64)
    for f in range(start, stop):
        p, end = offsets[f], offsets[f + 1]
        for q in range(p, end):
            o = max(q - 1, p)  # the first point is a segment of no length, for fibers of one point
            ax, ay, az = np.float64(points[o, 0]), np.float64(points[o, 1]), np.float64(points[o, 2])
            bx, by, bz = np.float64(points[q, 0]), np.float64(points[q, 1]), np.float64(points[q, 2])
            mm = math.sqrt((bx - ax) * (bx - ax) + (by - ay) * (by - ay) + (bz - az) * (bz - az))
            add_segment(shape, mapped(m, ax, ay, az), mapped(m, bx, by, bz), mm, f, values[f], table, maps)


@kernel
def most_visits(start, stop, lines, grid, found):
    """Most voxels that a fiber can pass: steps of its walks, and its points, (F,)."""
    points, offsets = lines
    m, _ = grid
    for f in range(start, stop):
        p, end = offsets[f], offsets[f + 1]
        count, i, j, k = 0, 0, 0, 0
        for q in range(p, end):
            x, y, z = mapped(m, points[q, 0], points[q, 1], points[q, 2])
            a, b, c = index_of(x), index_of(y), index_of(z)
            count += 1 if q == p else abs(a - i) + abs(b - j) + abs(c - k)
            i, j, k = a, b, c
        found[f] = count
