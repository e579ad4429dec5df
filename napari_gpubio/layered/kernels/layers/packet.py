"""One photon packet in planar layers, in Numba, by the rules of MCML (Wang et al. 1995). Counterpart: ``layers.cu``.

A position is a layer and a depth in it (mm), and x, y. A step that would cross the layer's face ends there, and what is
left of it goes on behind; at the end of a whole step a share mu_a / (mu_a + mu_s) of the weight is absorbed there.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import math

import numpy as np

from napari_gpubio.core.fastmath import minus_log, turn
from napari_gpubio.core.jit import helper, kernel, leaf
from napari_gpubio.core.philox import unit_float
from napari_gpubio.core.sfc import next_bits, stream, uniform
from napari_gpubio.optics.kernels.physics import (
    GAIN,
    ONE,
    SURVIVAL,
    ZERO,
    fresnel,
    left_over_bits,
    quanta,
    redithered,
    scattering_cosine,
    turned,
)

_F, _U, _L = np.float32, np.uint32, np.uint64


@leaf
def angle_bin(cosines, cosine):
    """Bin of an angle by its cosine; `cosines` are those of the bins' edges, falling from 1 to 0."""
    low, high = 0, len(cosines) - 2
    while low < high:
        middle = (low + high + 1) // 2
        if cosines[middle] >= cosine:
            low = middle
        else:
            high = middle - 1
    return low


@leaf
def radial_bin(x, y, per_mm, bins):
    """Bin of a radius; the last one holds everything beyond."""
    return np.int64(min(math.sqrt(x * x + y * y) * per_mm, _F(bins - 1)))


@leaf
def layer_at(layers, depth_per_mm, index):
    """One row of the table: mu_a / mu_t, 1 / mu_t, mu_t, g, n, thickness, depth of the top (in bins), reach."""
    return (
        layers[index, 0], layers[index, 1], layers[index, 2], layers[index, 3], layers[index, 4], layers[index, 5],
        layers[index, 6] * depth_per_mm, layers[index, 7],
    )  # fmt: skip


@helper
def trace(item, scene, tally):
    """Trace one photon, by its global index (uint64), to its end; the order of the tally is `LayeredProblem`'s."""
    layers, scale, radial, depth = scene.layers, scene.scale, scene.radial, scene.depth
    angles = len(scene.cosines) - 1
    reflected_at = radial * depth if scene.absorption else 0
    transmitted_at = reflected_at + radial * angles
    layers_at = transmitted_at + radial * angles
    roulette_at = layers_at + len(layers)
    x, y, z = ZERO, ZERO, ZERO
    ux, uy, uz = ZERO, ZERO, ONE
    w, booked, layer = scene.weight, scene.weight, scene.first_layer
    share, per_mut, mut, g, n, thickness, top, reach = layer_at(layers, scene.depth_per_mm, layer)
    chance, state = uniform(stream(scene.seed, item))
    s = minus_log(chance)
    dither, state = next_bits(state)
    while True:
        if w < scene.threshold:
            amount, dither = quanta((booked - w) * scale, dither)
            tally[layers_at + layer] += _L(amount)
            chance, state = uniform(state)
            if chance >= SURVIVAL:
                amount, dither = quanta(w * scale, dither)
                tally[roulette_at] += _L(amount)
                return
            gained = w * GAIN
            amount, dither = quanta(gained * scale, dither)
            tally[roulette_at] -= _L(amount)
            w += gained
            booked = w
            continue
        down = uz > ZERO
        length = s * per_mut
        end = z + length * uz
        if ZERO <= end < reach:
            x, y, z = x + length * ux, y + length * uy, end
            absorbed = w * share
            w -= absorbed
            if scene.absorption:
                r = math.sqrt(x * x + y * y) * scene.radial_per_mm
                t = z * scene.depth_per_mm + top
                amount, dither = quanta(absorbed * scale, dither)
                if scene.collect or (r < _F(radial) and t < _F(depth)):
                    cell = np.int64(min(r, _F(radial - 1))) * depth + np.int64(min(t, _F(depth - 1)))
                    tally[cell] += _L(amount)
            else:  # so that the rest is the same with and without the map
                dither = redithered(dither)
            one, state = next_bits(state)
            other, state = next_bits(state)
            cp, sp = turn(left_over_bits(one, other))
            ux, uy, uz = turned(ux, uy, uz, scattering_cosine(g, unit_float(one)), cp, sp)
            s = minus_log(unit_float(other))
            continue

        # Cross the face, or be reflected at it.
        room = thickness - z if down else z  # depth to the face
        to_face = room / abs(uz) if uz != ZERO else ZERO
        x, y = x + to_face * ux, y + to_face * uy
        z = thickness if down else ZERO
        s = max(s - to_face * mut, ZERO)
        behind = layer + 1 if down else layer - 1
        outside = behind < 0 or behind >= len(layers)
        n2 = (scene.n_below if down else scene.n_above) if outside else layers[behind, 4]
        ct = abs(uz)
        if n2 != n:
            reflectance, ct = fresnel(abs(uz), n, n2)
            chance, state = uniform(state)
            if chance < reflectance:
                uz = -uz
                continue
            ratio = n / n2
            ux, uy, uz = ux * ratio, uy * ratio, ct if down else -ct
        amount, dither = quanta((booked - w) * scale, dither)
        tally[layers_at + layer] += _L(amount)
        booked = w
        if outside:
            amount, dither = quanta(w * scale, dither)
            place = radial_bin(x, y, scene.radial_per_mm, radial) * angles + angle_bin(scene.cosines, ct)
            tally[(transmitted_at if down else reflected_at) + place] += _L(amount)
            return
        layer = behind
        share, per_mut, mut, g, n, thickness, top, reach = layer_at(layers, scene.depth_per_mm, layer)
        z = ZERO if down else thickness


@kernel
def trace_range(start, stop, first, count, scene, tallies):
    """Trace what the rows ``start`` to ``stop - 1`` of ``tallies`` get of ``count`` photons from ``first`` on."""
    for b in range(start, stop):
        for i in range(b * count // len(tallies), (b + 1) * count // len(tallies)):
            trace(_L(first + _L(i)), scene, tallies[b])
