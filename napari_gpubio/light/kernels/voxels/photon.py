"""Where a photon enters the tissue, and how it gets from face to face. Counterpart: ``photon.cuh``.

In flight, a position is mm to the face ahead along each axis: then to find that face takes a product for each axis, and
to cross it sets one number. Between two scattering events a packet goes straight; absorption is continuous along the
path and is booked when a voxel is left: the integral of the weight over the path (mm) goes to the tally, mu_a times it
off the weight.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import helper, leaf, pruned
from napari_gpubio.light.kernels.voxels.problem import EDGE, MIRROR, OUTSIDE
from napari_gpubio.light.kernels.voxels.source_table import SURFACE_NUMBERS
from napari_gpubio.optics.kernels.physics import ONE, ZERO, fresnel

Floats = npt.NDArray[np.float32]
_F = np.float32


class Several(NamedTuple):
    """What draws one of several sources: the last arrays of a `SourceTable`."""

    chances: Floats
    places: npt.NDArray[np.int32]


class Fibers(NamedTuple):
    """Scattering tensors: how light scatters where there is one, and `TensorTable`; see ``fibers.py``."""

    model: int
    places: npt.NDArray[np.int32]
    numbers: Floats


class Scene(NamedTuple):
    """What a photon meets: the padded grid of media, boundaries, time gates, the source and the detectors.

    Parameters
    ----------
    nx, ny, nz, stride_x, stride_y
        Size without the rim, and strides with it.
    hx, hy, hz
        Voxel edges, mm.
    rows, media, mua, mus
        Media row of each voxel, the table of media, and coefficients of each voxel (empty without continuous media).
    g, n, phase
        g and refractive index of each voxel, and the table of a phase function; None where there are none.
    faces
        Rules of the six faces, three bits each.
    refraction, specular
        Whether light is refracted at all, and partly reflected where it enters.
    threshold
        Weight below which packets play roulette.
    edges, gated
        Edges of the time gates as optical path, mm, and True where they are asked for, else None.
    kind, rare, source, pattern, columns, angles
        The source; see `VoxelProblem`. ``rare`` is True for a source of the rare ones, else None.
    several
        What draws one of several sources, which lie end to end in these arrays; None for a single one.
    shares
        Weights of a photon from each pixel for the patterns that share it, shape (P, K); None without.
    detectors
        Shape (D, DETECTOR_NUMBERS).
    seed
        Of the random numbers, uint64.
    fibers
        Scattering tensors, or None.
    surfaces
        Smoothed surfaces that light enters through; see `VoxelProblem`. Empty: all of it through faces of voxels.
    """

    nx: int
    ny: int
    nz: int
    stride_x: int
    stride_y: int
    hx: np.float32
    hy: np.float32
    hz: np.float32
    rows: npt.NDArray[Any]
    media: Floats
    mua: Floats
    mus: Floats
    g: Floats | None
    n: Floats | None
    phase: Floats | None
    faces: int
    refraction: bool
    specular: bool
    threshold: np.float32
    edges: Floats
    gated: bool | None
    kind: int
    rare: bool | None
    source: Floats
    pattern: Floats
    columns: int
    angles: Floats
    several: Several | None
    shares: Floats | None
    detectors: Floats
    seed: np.uint64
    fibers: Fibers | None
    surfaces: Floats


@leaf
def slowness(u):
    """1 / abs(u), large but finite for a component that is 0."""
    return ONE / max(abs(u), _F(1e-12))


@leaf
def within(value, high):
    """The value, kept between 0 and `high`."""
    return min(max(value, ZERO), high)


@leaf
def refracted(ux, uy, uz, axis, ct, ratio):
    """Direction behind a face, Snell's law."""
    vx, vy, vz = ux * ratio, uy * ratio, uz * ratio
    if axis == 0:
        vx = ct if ux > ZERO else -ct
    elif axis == 1:
        vy = ct if uy > ZERO else -ct
    else:
        vz = ct if uz > ZERO else -ct
    return vx, vy, vz


@leaf
def mirrored(p, u, h):
    """A coordinate in a voxel (mm from its low face) as mm to the face ahead, or back again."""
    return h - p if u > ZERO else p


@leaf
def turned_about(ahead, before, u, h):
    """Mm to the face ahead of a packet that went one way along an axis before, and now perhaps the other."""
    return h - ahead if (u > ZERO) != (before > ZERO) else ahead


@leaf
def to_face(scene, px, py, pz, ux, uy, uz):
    """Distance (mm) along the path to the voxel's face, and the axis of that face."""
    tx = (scene.hx - px if ux > ZERO else px) * slowness(ux)
    ty = (scene.hy - py if uy > ZERO else py) * slowness(uy)
    tz = (scene.hz - pz if uz > ZERO else pz) * slowness(uz)
    nearest, axis = tx, 0
    if ty < nearest:
        nearest, axis = ty, 1
    if tz < nearest:
        nearest, axis = tz, 2
    return nearest, axis


@leaf
def rule_of(faces, axis, forward):
    """Rule of the far or the near face of the grid across an axis."""
    return faces >> (3 * (2 * axis + (1 if forward else 0))) & 7


@leaf
def beside_face(a, u, h, count):
    """A coordinate that does not change along the ray, kept off the faces of voxels by a thousandth of an edge.

    A packet that runs in a face would be reflected there for ever.
    """
    if u != ZERO or a < _F(-1e-3) * h or a > (_F(count) + _F(1e-3)) * h:
        return a
    cell = min(max(_F(math.floor(a / h)), ZERO), _F(count) - ONE)
    return min(max(a, (cell + _F(1e-3)) * h), (cell + _F(0.999)) * h)


@leaf
def voxel_of(a, h, count):
    """Voxel that holds a coordinate, the first or the last for one beyond them."""
    i = np.int64(math.floor(a / h))
    return 0 if i < 0 else count - 1 if i > count - 1 else i


@pruned
def index_at(own, media, row, cell):
    """Refractive index of a voxel, or of the outside."""
    if own is None:
        return media[row, 3]
    return own[cell]


@leaf
def outer_face(scene, cell, px, py, pz, ux, uy, uz):
    """Axis of the outer face of the tissue that a photon starts on, which counts as coming from outside, or -1."""
    entered = -1
    for before in range(3):
        axis = 2 - before
        h = scene.hx if axis == 0 else scene.hy if axis == 1 else scene.hz
        p = px if axis == 0 else py if axis == 1 else pz
        u = ux if axis == 0 else uy if axis == 1 else uz
        stride = scene.stride_x if axis == 0 else scene.stride_y if axis == 1 else 1
        forward = u > ZERO
        depth = p if forward else h - p
        behind = np.int64(scene.rows[cell - stride if forward else cell + stride])
        is_open = behind == OUTSIDE or (behind == EDGE and rule_of(scene.faces, axis, not forward) < MIRROR)
        if is_open and u != ZERO and depth < _F(1e-3) * h:
            entered = axis
    return entered


@helper
def behind_surface(scene, surface, cell, where, direction, n1, n2):
    """Reflectance of a smoothed surface, and the direction behind it; 0 and no direction if it turns its back on light.

    Its normal changes linearly with the place. ``where``: position in the voxel, mm.
    """
    px, py, pz = where
    ux, uy, uz = direction
    of = scene.surfaces[surface : surface + SURFACE_NUMBERS]
    x = _F(cell // scene.stride_x - 1) * scene.hx + px - of[0]
    y = _F(cell // scene.stride_y % (scene.ny + 2) - 1) * scene.hy + py - of[1]
    z = _F(cell % scene.stride_y - 1) * scene.hz + pz - of[2]
    nx = of[3] + (of[6] * x + of[7] * y + of[8] * z)
    ny = of[4] + (of[9] * x + of[10] * y + of[11] * z)
    nz = of[5] + (of[12] * x + of[13] * y + of[14] * z)
    per_length = ONE / math.sqrt(nx * nx + ny * ny + nz * nz)
    ci = (ux * nx + uy * ny + uz * nz) * per_length
    if not ci > ZERO:
        return ZERO, ZERO, ZERO, ZERO
    lost, ct = fresnel(ci, n1, n2)
    ratio = n1 / n2
    along = (ct - ratio * ci) * per_length
    return lost, ratio * ux + along * nx, ratio * uy + along * ny, ratio * uz + along * nz


@helper
def enter(scene, surface, ax, ay, az, ux, uy, uz):
    """From a starting point to the first tissue: through the outside in a straight line, with the specular loss.

    ``surface`` is where the numbers of the smoothed surface begin that light enters through, or -1 for the face.

    Returns
    -------
    inside, cell, row, px, py, pz, ux, uy, uz, lost
        Whether there is tissue on the way, where it begins, the direction in it, and what the surface reflected.
    """
    nx, ny, nz, hx, hy, hz = scene.nx, scene.ny, scene.nz, scene.hx, scene.hy, scene.hz
    rows, stride_x, stride_y = scene.rows, scene.stride_x, scene.stride_y
    ax, ay, az = beside_face(ax, ux, hx, nx), beside_face(ay, uy, hy, ny), beside_face(az, uz, hz, nz)
    sx, sy, sz = slowness(ux), slowness(uy), slowness(uz)
    ex, ey, ez = _F(nx) * hx, _F(ny) * hy, _F(nz) * hz
    nearx, farx = (-ax if ux > ZERO else ax - ex) * sx, (ex - ax if ux > ZERO else ax) * sx
    neary, fary = (-ay if uy > ZERO else ay - ey) * sy, (ey - ay if uy > ZERO else ay) * sy
    nearz, farz = (-az if uz > ZERO else az - ez) * sz, (ez - az if uz > ZERO else az) * sz
    first, last = max(nearx, max(neary, nearz)), min(farx, min(fary, farz))
    if first > last or last < ZERO:
        return False, 0, 0, ax, ay, az, ux, uy, uz, ZERO
    entered = -1
    if first > ZERO:  # from beyond the grid to its face
        entered = 0 if first == nearx else 1 if first == neary else 2
        ax, ay, az = ax + first * ux, ay + first * uy, az + first * uz
    i, j, k = voxel_of(ax, hx, nx), voxel_of(ay, hy, ny), voxel_of(az, hz, nz)
    px, py, pz = within(ax - _F(i) * hx, hx), within(ay - _F(j) * hy, hy), within(az - _F(k) * hz, hz)
    cell = (i + 1) * stride_x + (j + 1) * stride_y + k + 1
    row = np.int64(rows[cell])
    while row == OUTSIDE:
        d, axis = to_face(scene, px, py, pz, ux, uy, uz)
        px, py, pz = within(px + d * ux, hx), within(py + d * uy, hy), within(pz + d * uz, hz)
        if axis == 0:
            px = ZERO if ux > ZERO else hx
            cell += stride_x if ux > ZERO else -stride_x
        elif axis == 1:
            py = ZERO if uy > ZERO else hy
            cell += stride_y if uy > ZERO else -stride_y
        else:
            pz = ZERO if uz > ZERO else hz
            cell += 1 if uz > ZERO else -1
        row = np.int64(rows[cell])
        entered = axis
    if row == EDGE:
        return False, 0, 0, px, py, pz, ux, uy, uz, ZERO
    if entered < 0:
        entered = outer_face(scene, cell, px, py, pz, ux, uy, uz)
    n1, n2, lost = scene.media[OUTSIDE, 3], index_at(scene.n, scene.media, row, cell), ZERO
    if scene.specular and entered >= 0 and n1 != n2:
        if surface >= 0:
            lost, vx, vy, vz = behind_surface(scene, surface, cell, (px, py, pz), (ux, uy, uz), n1, n2)
            if vx != ZERO or vy != ZERO or vz != ZERO:
                return ONE - lost > ZERO, cell, row, px, py, pz, vx, vy, vz, lost
        u = ux if entered == 0 else uy if entered == 1 else uz
        lost, ct = fresnel(abs(u), n1, n2)
        ux, uy, uz = refracted(ux, uy, uz, entered, ct, n1 / n2)
    return ONE - lost > ZERO, cell, row, px, py, pz, ux, uy, uz, lost
