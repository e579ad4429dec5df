"""The labels that ends of fibers belong to, on the CPU (Numba); conventions of MRtrix's tck2connectome.

A position in the middle between voxels belongs to the upper one. The volume holds the number of each voxel's node, from
1 on, and 0 for background and outside.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import math

from napari_gpubio.core.jit import kernel, leaf
from napari_gpubio.tractograms.kernels.traversal.traversal import index_of, mapped


@leaf
def node_at(nodes, i, j, k):
    """Node of a voxel; none outside the volume."""
    nx, ny, nz = nodes.shape
    if i < 0 or j < 0 or k < 0 or i >= nx or j >= ny or k >= nz:
        return 0
    return nodes[i, j, k]


@leaf
def voxel_of(m, x, y, z):
    """Voxel of a world position."""
    a, b, c = mapped(m, x, y, z)
    return index_of(a), index_of(b), index_of(c)


@kernel
def find_at_points(start, stop, points, nodes, to_voxel, found):
    """The node of each point's voxel."""
    for n in range(start, stop):
        i, j, k = voxel_of(to_voxel, points[n, 0], points[n, 1], points[n, 2])
        found[n] = node_at(nodes, i, j, k)


@kernel
def find_nearest(start, stop, points, nodes, transforms, around, limits, found):
    """The node whose voxel center is nearest to each point, and nearer than the radius.

    ``transforms``: world to voxel, voxel to world; ``around``: shifts and distances; ``limits``: radius and reach.
    Shifts (S, 3) lead from the point's voxel to all others that may be near enough, in the order of the
    distances of their centers, mm; a point is at most ``reach`` mm from the center of its own.
    """
    (to_voxel, m), (shifts, distances), (radius, reach) = transforms, around, limits
    for n in range(start, stop):
        x, y, z = float(points[n, 0]), float(points[n, 1]), float(points[n, 2])
        i, j, k = voxel_of(to_voxel, x, y, z)
        best, nearest = 0, radius
        for s in range(len(shifts)):
            if distances[s] - reach >= nearest:
                break
            a, b, c = i + shifts[s, 0], j + shifts[s, 1], k + shifts[s, 2]
            node = node_at(nodes, a, b, c)
            if node == 0:
                continue
            at_x, at_y, at_z = mapped(m, a, b, c)
            dx, dy, dz = at_x - x, at_y - y, at_z - z
            distance = math.sqrt(dx * dx + dy * dy + dz * dz)
            if distance < nearest:
                best, nearest = node, distance
        found[n] = best


@kernel
def find_backwards(start, stop, points, offsets, nodes, to_voxel, longest, found):
    """The first nodes on the way from each end of a fiber towards its middle, within a length (0: any), (F, 2).

    As MRtrix does it, the middle of an odd number of points belongs to the first end, and point n / 2 of an even
    number n to neither.
    """
    for f in range(start, stop):
        first, last = offsets[f], offsets[f + 1] - 1
        for end in range(2):
            if end == 0:
                p, towards, step = first, first + (last - first) // 2 + 1, 1
            else:
                p, towards, step = last, first + (last - first + 1) // 2, -1
            way, node = 0.0, 0
            while p != towards and node == 0:
                i, j, k = voxel_of(to_voxel, points[p, 0], points[p, 1], points[p, 2])
                node = node_at(nodes, i, j, k)
                if p == towards - step:
                    break
                dx = points[p, 0] - points[p + step, 0]
                dy = points[p, 1] - points[p + step, 1]
                dz = points[p, 2] - points[p + step, 2]
                way += math.sqrt(dx * dx + dy * dy + dz * dz)
                p += step
                if longest > 0.0 and way > longest:
                    break
            found[f, end] = node
