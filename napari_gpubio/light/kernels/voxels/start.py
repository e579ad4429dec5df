"""Where a photon starts and in which direction. Counterpart: ``start.cuh``.

Most sources need little: a point, a disk, a Gaussian, a rectangle or a line, and light along the axis or by a simple
law of the cosine. What the others need, which takes seconds, is compiled for those runs only that have such a source.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import math
from typing import NamedTuple

import numpy as np

from napari_gpubio.core.fastmath import minus_log, turn, turned_by
from napari_gpubio.core.jit import helper, leaf, pruned
from napari_gpubio.core.sfc import next_bits, stream, uniform
from napari_gpubio.light.kernels.voxels.photon import Floats
from napari_gpubio.light.kernels.voxels.source_table import (
    ANGLES,
    AROUND,
    ARRAY,
    COLLIMATED,
    CONE,
    COSINE,
    CYLINDER,
    DISK,
    EMISSION_STEP,
    FOCUSED,
    FOURIER,
    FOURIER_2D,
    GAUSSIAN,
    LINE,
    NORMAL,
    PATTERN,
    POINT,
    RECTANGLE,
    SOURCE_NUMBERS,
    SPREAD,
    SURFACE_NUMBERS,
    VOLUME,
    WAIST,
    ZGAUSSIAN,
)
from napari_gpubio.optics.kernels.physics import HALF, ONE, ZERO

_F = np.float32


class Origin(NamedTuple):
    """One of several sources; the fields are as in `Scene`."""

    kind: int
    source: Floats
    pattern: Floats
    columns: int
    angles: Floats


@leaf
def first_above(sums, u):
    """Which of some increasing numbers is the first that exceeds another; the last one if none does."""
    low, high = 0, len(sums) - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@leaf
def in_pattern(scene, u0, u1, u2):
    """A point of a pattern: x and y over width and height, from 0 to 1."""
    pattern, columns = scene.pattern, scene.columns
    low = first_above(pattern, u2)
    row = low // columns
    column = low - row * columns
    return (_F(column) + u0) / _F(columns), (_F(row) + u1) / _F(len(pattern) // columns)


@leaf
def in_volume(scene, drawn, state):
    """A point of a cell of a volume, from its center, mm; two numbers of 24 bits choose the cell."""
    pattern, source = scene.pattern, scene.source
    upper, state = next_bits(state)
    lower, state = next_bits(state)
    a, b = _F(upper >> np.uint32(8)), _F(lower >> np.uint32(8))
    columns, layers = np.int64(source[18]), np.int64(source[19])
    low, high = 0, np.int64(source[17]) * columns * layers - 1
    while low < high:  # the first cell whose running sum exceeds the number
        middle = (low + high) // 2
        if pattern[2 * middle] > a or (pattern[2 * middle] == a and pattern[2 * middle + 1] > b):
            high = middle
        else:
            low = middle + 1
    row = low // layers
    i, k = row // columns, low - row * layers
    j = row - i * columns
    x = ((_F(i) + drawn[0]) / source[17] - HALF) * source[12]
    y = ((_F(j) + drawn[1]) / source[18] - HALF) * source[13]
    z = ((_F(k) + drawn[2]) / source[19] - HALF) * source[20]
    return x, y, z, state


@leaf
def cosine_of(source, emission, v):
    """Cosine of the polar angle that a number from 0 to 1 stands for."""
    if emission == COSINE:
        return math.sqrt(v)
    if emission == CONE:
        return ONE - source[14] * v
    return _F(2.0) * v - ONE


@leaf
def spot(u, count):
    """One of some spots that are spread evenly from edge to edge, from 0 to 1; a single one lies in the middle."""
    if count <= ONE:
        return HALF
    return min(_F(math.floor(u * count)), count - ONE) / (count - ONE)


@leaf
def unit(x, y, z):
    """A vector of length 1."""
    scale = ONE / math.sqrt(x * x + y * y + z * z)
    return x * scale, y * scale, z * scale


@leaf
def fringes(source, shape, u0, u1):
    """Modulation of a rectangle's irradiance, from -1 to 1, at a point from 0 to 1 along both edges."""
    if shape == FOURIER:
        cosine, _ = turned_by(source[17] * u0 + source[18] * u1 + source[19])
        return cosine
    _, across = turned_by(source[17] * u0 + source[19])
    _, up = turned_by(source[18] * u1 + source[21])
    return across * up


@helper
def rare_place(source, shape, drawn, x, y, state):
    """A point of a ring or sector, an array, fringes or a beam that narrows, mm; that of another shape stays."""
    u0, u1, u2, cp, sp = drawn
    if shape == DISK:
        r = source[12] * math.sqrt(u0 + (ONE - u0) * source[17])
        if source[19] > ZERO:
            cp, sp = turned_by(source[18] + u1 * source[19])
        return r * cp, r * sp, state
    if shape == WAIST:
        r, behind = source[12] * math.sqrt(HALF * minus_log(u0)), -source[16] / source[17]
        return r * (cp - behind * sp), r * (sp + behind * cp), state
    if shape == ARRAY:
        u0, u1 = spot(u0, source[17]), spot(u1, source[18])
    elif shape == FOURIER or shape == FOURIER_2D:
        fringe = fringes(source, shape, u0, u1)
        while u2 * (ONE + source[20]) > ONE + source[20] * fringe:  # drawn again until it is accepted
            u0, state = uniform(state)
            u1, state = uniform(state)
            u2, state = uniform(state)
            fringe = fringes(source, shape, u0, u1)
    else:
        return x, y, state
    return (u0 - HALF) * source[12], (u1 - HALF) * source[13], state


@leaf
def angle_of(angles, first, count, v):
    """The launch angle (turns) of a table that a number from 0 to 1 stands for; a negative count: no other angles."""
    if count < 0:
        return angles[first + min(np.int64(v * _F(-count)), -count - 1)]
    place = v * _F(count - 1)
    step = min(np.int64(place), count - 2)
    share = place - _F(step)
    return angles[first + step] * (ONE - share) + angles[first + step + 1] * share


@helper
def rare_direction(origin, shape, emission, drawn, x, y, given):
    """Direction towards a focus, in a beam that narrows, or by a law of the angle; else the given one.

    ``drawn`` begins with numbers that the place of a point does not need; the last three are its own: one from 0 to 1,
    and cosine and sine of the azimuth.
    """
    u0, u1, cp, sp, v, ca, sa = drawn
    source = origin.source
    focus = source[16]
    if shape == WAIST:
        r = source[12] * math.sqrt(HALF * minus_log(u0))
        return unit(-r * sp, r * cp, source[17])
    if emission == FOCUSED:
        ahead = ONE if focus > ZERO else -ONE
        return -ahead * x, -ahead * y, ahead * focus  # of any length, since the frame may be oblique
    if emission <= COSINE:
        return given
    if emission == SPREAD:
        r = math.sqrt(_F(2.0) * minus_log(v))
        return unit(source[17] * (r * ca), source[18] * (r * sa), ONE)
    if emission == AROUND:
        if source[19] > ZERO:
            ca, sa = turned_by(source[18] + v * source[19])
        return ca, sa, ZERO
    share = v
    if emission == NORMAL or emission == ZGAUSSIAN:
        share = math.sqrt(_F(2.0) * minus_log(u0)) * (cp if emission == NORMAL else ONE - _F(2.0) * u1)
    turns = source[15] * share
    if emission == ANGLES:
        turns = angle_of(origin.angles, np.int64(source[22]), np.int64(source[23]), v)
    ct, st = turned_by(turns)
    return st * ca, st * sa, ct


@pruned
def begin(scene, rare, state):
    """Where a photon starts (grid mm), in which direction, and the state of the random numbers after that.

    ``rare`` is that of the scene (or `Origin`): None, for which Numba leaves out the branches of the rare sources, or
    True.
    """
    source = scene.source
    shape, emission = scene.kind % EMISSION_STEP, scene.kind // EMISSION_STEP
    if shape == POINT and emission == COLLIMATED:
        return source[0], source[1], source[2], source[9], source[10], source[11], state
    u0, state = uniform(state)
    u1, state = uniform(state)
    u2, state = uniform(state)
    bits, state = next_bits(state)
    cp, sp = turn(bits)
    size, other = source[12], source[13]
    x, y, z = ZERO, ZERO, ZERO
    if shape == DISK or shape == GAUSSIAN:
        r = size * math.sqrt(u0 if shape == DISK else HALF * minus_log(u0))
        x, y = r * cp, r * sp
    elif shape == RECTANGLE or shape == PATTERN:
        if shape == PATTERN:
            u0, u1 = in_pattern(scene, u0, u1, u2)
        x, y = (u0 - HALF) * size, (u1 - HALF) * other
    elif shape == LINE or shape == CYLINDER:
        z = (u0 - HALF) * other
        if shape == CYLINDER:
            x, y = size * cp, size * sp
    if rare is not None:
        x, y, state = rare_place(source, shape, (u0, u1, u2, cp, sp), x, y, state)
        if shape == VOLUME:
            x, y, z, state = in_volume(scene, (u0, u1, u2), state)

    lx, ly, lz = ZERO, ZERO, ONE
    v, ca, sa = ZERO, ZERO, ZERO
    if emission > FOCUSED:
        v, state = uniform(state)
        bits, state = next_bits(state)
        ca, sa = turn(bits)
        ct = cosine_of(source, emission, v)
        st = math.sqrt(max(ZERO, ONE - ct * ct))
        lx, ly, lz = st * ca, st * sa, ct
        if shape == CYLINDER:  # around the outward normal (cp, sp, 0)
            across, upward = lx, ly
            lx, ly, lz = ct * cp - across * sp, ct * sp + across * cp, upward
    if rare is not None:
        lx, ly, lz = rare_direction(scene, shape, emission, (u0, u1, cp, sp, v, ca, sa), x, y, (lx, ly, lz))
    ux = lx * source[3] + ly * source[6] + lz * source[9]
    uy = lx * source[4] + ly * source[7] + lz * source[10]
    uz = lx * source[5] + ly * source[8] + lz * source[11]
    if rare is not None and emission == FOCUSED:
        ux, uy, uz = unit(ux, uy, uz)
    return (
        source[0] + (x * source[3] + y * source[6] + z * source[9]),
        source[1] + (x * source[4] + y * source[7] + z * source[10]),
        source[2] + (x * source[5] + y * source[8] + z * source[11]),
        ux,
        uy,
        uz,
        state,
    )


@pruned
def begin_somewhere(scene, rare, several, state):
    """As `begin`, at one of several sources, which the first random number draws; None: there is but one."""
    if several is None:
        return begin(scene, rare, state)
    u, state = uniform(state)
    which = first_above(several.chances, u)
    first, places = which * SOURCE_NUMBERS, several.places
    origin = Origin(
        np.int64(places[which, 0]),
        scene.source[first : first + SOURCE_NUMBERS],
        scene.pattern[places[which, 2] : places[which, 3]],
        np.int64(places[which, 1]),
        scene.angles,
    )
    return begin(origin, rare, state)


@pruned
def surface_of(scene, several, item):
    """Where the surface begins that light of a photon's source enters through, drawn as above; -1 for faces of voxels.

    A source without one has zeros in place of the normal.
    """
    surfaces, first = scene.surfaces, 0
    if len(surfaces) == 0:
        return -1
    if several is not None:
        u, _ = uniform(stream(scene.seed, item))
        first = first_above(several.chances, u) * SURFACE_NUMBERS
    if surfaces[first + 3] == ZERO and surfaces[first + 4] == ZERO and surfaces[first + 5] == ZERO:
        return -1
    return first


@pruned
def pixel_of(scene, shares, item):
    """Pixel of a pattern that a photon starts from, where its weights depend on it; as `begin` draws it."""
    if shares is None:
        return 0
    _, state = uniform(stream(scene.seed, item))
    _, state = uniform(state)
    u2, _ = uniform(state)
    return first_above(scene.pattern, u2)
