"""Bricks in cache (Numba): where they lie, squared differences to a displaced brick, and their sums over patches.

A brick lies in cache as planes of one x, each of them a flat array of rows of one y, with a halo of search radius +
patch radius; so a displacement is one offset, and every loop is long and without branches. What is computed in the
halo columns at the ends of rows is never read. Sums are always c + (a1 + b1) + (a2 + b2) with the neighbors a and b at
distances 1 and 2, never running: fluence spans ten decades.
"""

from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.denoise.kernels.anlm.windows import BRICK

Array = npt.NDArray[Any]
_jit = nb.njit(cache=True, nogil=True, error_model="numpy")
_ZERO = np.float32(0.0)


class Radii(NamedTuple):
    """Radii of the windows along the axes, in voxels: patches of shape (patches, 3), search of shape (3,)."""

    patches: Array
    search: Array


class Layout(NamedTuple):
    """Where a brick lies in the volume and in the flat planes of its tiles."""

    first: tuple[int, int, int]  # voxel of the volume that is the brick's first
    size: tuple[int, int, int]
    halo: tuple[int, int, int]
    reach: tuple[int, int, int]  # largest patch radius
    margin: int  # unused numbers before and behind each plane, since an offset may point there
    pitch: int  # numbers in a row


@_jit
def mirrored(i: int, n: int) -> int:
    """Index inside 0 ... n - 1 of a voxel beyond the border: -1 is 0, n is n - 1, and so on."""
    i = i % (2 * n)
    return i if i < n else 2 * n - 1 - i


@_jit
def layout_of(shape: tuple[int, int, int], item: int, radii: Radii) -> Layout:
    """Where a brick lies, by its number; the last ones of each axis may be smaller."""
    (nx, ny, nz), (bx, by, bz) = shape, BRICK
    across, along = (ny + by - 1) // by, (nz + bz - 1) // bz
    x, y, z = item // (across * along) * bx, item // along % across * by, item % along * bz
    px, py, pz = radii.patches[-1]
    sx, sy, sz = radii.search
    size = (min(bx, nx - x), min(by, ny - y), min(bz, nz - z))
    halo = (sx + px, sy + py, sz + pz)
    return Layout((x, y, z), size, halo, (px, py, pz), sz, size[2] + 2 * halo[2])


@_jit
def load_tile(source: Array, layout: Layout, outside: np.float32) -> Array:
    """Planes of a brick with its halo, mirrored at the volume's borders, or filled if ``outside`` is not 0."""
    (nx, ny, nz), (hx, hy, hz) = source.shape, layout.halo
    planes, rows = layout.size[0] + 2 * hx, layout.size[1] + 2 * hy
    tile = np.zeros((planes, 2 * layout.margin + rows * layout.pitch), np.float32)
    for i in range(planes):
        for j in range(rows):
            x, y = layout.first[0] - hx + i, layout.first[1] - hy + j
            line = source[mirrored(x, nx), mirrored(y, ny)]
            within = 0 <= x < nx and 0 <= y < ny
            start = layout.margin + j * layout.pitch
            for k in range(layout.pitch):
                z = layout.first[2] - hz + k
                is_filled = outside != _ZERO and not (within and 0 <= z < nz)
                tile[i, start + k] = outside if is_filled else line[mirrored(z, nz)]
    return tile


@_jit
def squared_differences(tile: Array, layout: Layout, dx: int, offset: int, out: Array) -> None:
    """(a - b)^2 of a tile and the displaced tile, in the brick and a patch radius around it."""
    start = layout.margin + (layout.halo[1] - layout.reach[1]) * layout.pitch
    plane = layout.halo[0] - layout.reach[0]
    n = out.shape[1]
    for x in range(len(out)):
        here, there = tile[plane + x, start : start + n], tile[plane + x + dx, start + offset : start + offset + n]
        line = out[x]
        for k in range(n):
            difference = here[k] - there[k]
            line[k] = difference * difference


@_jit
def _window_sum(source: Array, start: int, step: int, radius: int, out: Array) -> None:
    """Sums over 2 radius + 1 numbers of a flat array, ``step`` apart, around ``start`` and what follows it."""
    n = len(out)
    c = source[start : start + n]
    if radius == 0:
        for k in range(n):
            out[k] = c[k]
        return
    a1, b1 = source[start - step : start - step + n], source[start + step : start + step + n]
    if radius == 1:
        for k in range(n):
            out[k] = c[k] + (a1[k] + b1[k])
        return
    a2, b2 = source[start - 2 * step : start - 2 * step + n], source[start + 2 * step : start + 2 * step + n]
    for k in range(n):
        out[k] = c[k] + (a1[k] + b1[k]) + (a2[k] + b2[k])


@_jit
def patch_sums(squares: Array, layout: Layout, x: int, radii: Array, rows: Array) -> None:
    """Sums over the patch around each voxel of the brick's plane x; they begin at ``rows[2, 2]``."""
    width = squares.shape[1]
    _window_sum(squares.ravel(), (x + layout.reach[0]) * width, width, radii[0], rows[0, :width])
    n = layout.size[1] * layout.pitch
    _window_sum(rows[0], layout.reach[1] * layout.pitch, layout.pitch, radii[1], rows[1, 2 : 2 + n])
    _window_sum(rows[1], 2, 1, radii[2], rows[2, :n])


@_jit
def buffers(layout: Layout) -> tuple[Array, Array, Array]:
    """Room for squared differences, for the passes of the window sums, and for the pre-selection of one plane."""
    width = (layout.size[1] + 2 * layout.reach[1]) * layout.pitch
    squares = np.empty((layout.size[0] + 2 * layout.reach[0], width), np.float32)
    return squares, np.zeros((3, width + 4), np.float32), np.empty(layout.size[1] * layout.pitch, np.float32)
