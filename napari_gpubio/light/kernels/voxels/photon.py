"""Where a photon starts, where it enters the tissue, and how it gets from face to face. Counterpart: ``photon.cuh``.

Between two scattering events a packet goes straight; absorption is continuous along the path and is booked when a voxel
is left: the integral of the weight over the path (mm) goes to the tally, mu_a times it off the weight.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.fastmath import minus_log, turn, turned_by
from napari_gpubio.core.jit import helper, leaf
from napari_gpubio.core.xoshiro import next_bits, uniform
from napari_gpubio.light.kernels.physics import HALF, ONE, ZERO, fresnel
from napari_gpubio.light.kernels.voxels.problem import (
    ARRAY,
    COLLIMATED,
    CONE,
    COSINE,
    CYLINDER,
    DISK,
    EDGE,
    EMISSION_STEP,
    EVEN,
    FOCUSED,
    FOURIER,
    GAUSSIAN,
    LINE,
    MIRROR,
    NORMAL,
    OUTSIDE,
    PATTERN,
    POINT,
    RECTANGLE,
    WAIST,
    ZGAUSSIAN,
)

Floats = npt.NDArray[np.float32]
_F = np.float32


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
    faces
        Rules of the six faces, three bits each.
    refraction, specular
        Whether light is refracted at all, and partly reflected where it enters.
    threshold
        Weight below which packets play roulette.
    edges
        Edges of the time gates as optical path, mm.
    kind, source, pattern, columns
        The source; see `VoxelProblem`.
    detectors
        Shape (D, DETECTOR_NUMBERS).
    seed
        Of the random numbers, uint64.
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
    faces: int
    refraction: bool
    specular: bool
    threshold: np.float32
    edges: Floats
    kind: int
    source: Floats
    pattern: Floats
    columns: int
    detectors: Floats
    seed: np.uint64


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
def on_disk(source, u0, u1, cp, sp):
    """A point of a disk, a ring or a sector: x and y, mm."""
    r = source[12] * math.sqrt(u0 + (ONE - u0) * source[17])
    if source[19] > ZERO:
        cp, sp = turned_by(source[18] + u1 * source[19])
    return r * cp, r * sp


@leaf
def in_pattern(scene, u0, u1, u2):
    """A point of a pattern: x and y over width and height, from 0 to 1."""
    pattern, columns = scene.pattern, scene.columns
    low, high = 0, len(pattern) - 1
    while low < high:  # the first pixel whose running sum exceeds u2
        middle = (low + high) // 2
        if pattern[middle] > u2:
            high = middle
        else:
            low = middle + 1
    row = low // columns
    column = low - row * columns
    return (_F(column) + u0) / _F(columns), (_F(row) + u1) / _F(len(pattern) // columns)


@leaf
def spot(u, count):
    """One of some spots that are spread evenly from edge to edge, from 0 to 1; a single one lies in the middle."""
    if count <= ONE:
        return HALF
    return min(_F(math.floor(u * count)), count - ONE) / (count - ONE)


@helper
def modulated(source, u0, u1, u2, state):
    """A point of a rectangle with the irradiance 1 + m cos(...), from 0 to 1; drawn again until it is accepted."""
    while True:
        cosine, _ = turned_by(source[17] * u0 + source[18] * u1 + source[19])
        if u2 * (ONE + source[20]) <= ONE + source[20] * cosine:
            return u0, u1, state
        u0, state = uniform(state)
        u1, state = uniform(state)
        u2, state = uniform(state)


@leaf
def polar(source, emission, v, drawn):
    """Cosine and sine of the polar angle; ``drawn``: numbers of a point that it does not need for its place."""
    u0, u1, cp = drawn
    if emission == EVEN or emission == NORMAL or emission == ZGAUSSIAN:
        share = v
        if emission != EVEN:
            share = math.sqrt(_F(2.0) * minus_log(u0)) * (cp if emission == NORMAL else ONE - _F(2.0) * u1)
        return turned_by(source[15] * share)
    if emission == COSINE:
        ct = math.sqrt(v)
    elif emission == CONE:
        ct = ONE - source[14] * v
    else:
        ct = _F(2.0) * v - ONE
    return ct, math.sqrt(max(ZERO, ONE - ct * ct))


@leaf
def unit(x, y, z):
    """A vector of length 1."""
    scale = ONE / math.sqrt(x * x + y * y + z * z)
    return x * scale, y * scale, z * scale


@helper
def begin(scene, state):
    """Where a photon starts (grid mm), in which direction, and the state of the random numbers after that."""
    source = scene.source
    shape, emission = scene.kind % EMISSION_STEP, scene.kind // EMISSION_STEP
    if shape == POINT and emission == COLLIMATED:
        return source[0], source[1], source[2], source[9], source[10], source[11], state
    u0, state = uniform(state)
    u1, state = uniform(state)
    u2, state = uniform(state)
    bits, state = next_bits(state)
    cp, sp = turn(bits)
    size, other, focus = source[12], source[13], source[16]
    x, y, z = ZERO, ZERO, ZERO
    lx, ly, lz = ZERO, ZERO, ONE
    if shape == DISK:
        x, y = on_disk(source, u0, u1, cp, sp)
    elif shape == GAUSSIAN:
        r = size * math.sqrt(HALF * minus_log(u0))
        x, y = r * cp, r * sp
    elif shape == WAIST:
        r, behind = size * math.sqrt(HALF * minus_log(u0)), -focus / source[17]
        x, y = r * (cp - behind * sp), r * (sp + behind * cp)
        lx, ly, lz = unit(-r * sp, r * cp, source[17])
    elif shape == RECTANGLE or shape == PATTERN or shape == ARRAY or shape == FOURIER:
        if shape == PATTERN:
            u0, u1 = in_pattern(scene, u0, u1, u2)
        elif shape == ARRAY:
            u0, u1 = spot(u0, source[17]), spot(u1, source[18])
        elif shape == FOURIER:
            u0, u1, state = modulated(source, u0, u1, u2, state)
        x, y = (u0 - HALF) * size, (u1 - HALF) * other
    elif shape == LINE or shape == CYLINDER:
        z = (u0 - HALF) * other
        if shape == CYLINDER:
            x, y = size * cp, size * sp
    if emission == FOCUSED:
        ahead = ONE if focus > ZERO else -ONE
        lx, ly, lz = unit(-ahead * x, -ahead * y, ahead * focus)
    elif emission != COLLIMATED:
        v, state = uniform(state)
        bits, state = next_bits(state)
        ca, sa = turn(bits)
        ct, st = polar(source, emission, v, (u0, u1, cp))
        lx, ly, lz = st * ca, st * sa, ct
        if shape == CYLINDER:  # around the outward normal (cp, sp, 0)
            across, upward = lx, ly
            lx, ly, lz = ct * cp - across * sp, ct * sp + across * cp, upward
    return (
        source[0] + (x * source[3] + y * source[6] + z * source[9]),
        source[1] + (x * source[4] + y * source[7] + z * source[10]),
        source[2] + (x * source[5] + y * source[8] + z * source[11]),
        lx * source[3] + ly * source[6] + lz * source[9],
        lx * source[4] + ly * source[7] + lz * source[10],
        lx * source[5] + ly * source[8] + lz * source[11],
        state,
    )


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
def enter(scene, ax, ay, az, ux, uy, uz):
    """From a starting point to the first tissue: through the outside in a straight line, with the specular loss.

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
    n1, n2, lost = scene.media[OUTSIDE, 3], scene.media[row, 3], ZERO
    if scene.specular and entered >= 0 and n1 != n2:
        u = ux if entered == 0 else uy if entered == 1 else uz
        lost, ct = fresnel(abs(u), n1, n2)
        ux, uy, uz = refracted(ux, uy, uz, entered, ct, n1 / n2)
    return ONE - lost > ZERO, cell, row, px, py, pz, ux, uy, uz, lost
