"""Counting of neighbors whose principal directions agree, for the check of the gradient table."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import kernel

Array = npt.NDArray[Any]


class Directions(NamedTuple):
    """Principal directions (X, Y, Z, 3) and FA (X, Y, Z); neighbors and blocks.

    Steps to neighbors, (13, 3); lines to them for each change of the table, (24, 13, 3); edges of a block, (3,).
    """

    v: Array
    fa: Array
    offsets: Array
    lines: Array
    edges: Array
    cos_cone: np.float32
    fa_limit: np.float32


@kernel
def count_pairs(start: int, stop: int, directions: Directions, agree: Array, possible: Array) -> None:
    """Count agreeing pairs; each slab of blocks has its own sums, so that threads cannot change the result."""
    v, fa, offsets, lines, edges, cos_cone, fa_limit = directions
    nx, ny, nz = fa.shape
    ex, ey, ez = edges[0], edges[1], edges[2]
    for slab in range(start, stop):
        for x in range(slab * ex, min(nx, slab * ex + ex)):
            for y in range(ny):
                for z in range(nz):
                    if not fa[x, y, z] > fa_limit:
                        continue
                    v0, v1, v2 = v[x, y, z, 0], v[x, y, z, 1], v[x, y, z, 2]
                    for o in range(len(offsets)):
                        a, b, c = x + offsets[o, 0], y + offsets[o, 1], z + offsets[o, 2]
                        if a < 0 or b < 0 or c < 0 or a >= nx or b >= ny or c >= nz or not fa[a, b, c] > fa_limit:
                            continue
                        weight = fa[x, y, z] * fa[a, b, c]
                        possible[slab] += weight
                        w0, w1, w2 = v[a, b, c, 0], v[a, b, c, 1], v[a, b, c, 2]
                        for k in range(len(lines)):
                            lx, ly, lz = lines[k, o, 0], lines[k, o, 1], lines[k, o, 2]
                            if abs(v0 * lx + v1 * ly + v2 * lz) < cos_cone:
                                continue
                            if abs(w0 * lx + w1 * ly + w2 * lz) >= cos_cone:
                                agree[slab, y // ey, z // ez, k] += weight
