"""Physics of one photon packet in both engines: scattering, reflection, quanta. Counterpart: ``physics.cuh``."""

# mypy: allow-untyped-defs, allow-incomplete-defs, no-check-untyped-defs

import math

import numpy as np

from napari_gpubio.core.fastmath import float_of
from napari_gpubio.core.jit import leaf

_F, _I, _U, _L = np.float32, np.int32, np.uint32, np.uint64
ZERO, ONE, HALF = _F(0.0), _F(1.0), _F(0.5)
SURVIVAL = _F(0.1)
GAIN = _F(ONE / SURVIVAL - ONE)  # what a survivor of Russian roulette gains, in units of its weight


@leaf
def redithered(dither):
    """The next random number that decides about rounding: as random as the first, and a row of them is even."""
    return _U(dither + _U(0x9E3779B9))


@leaf
def quanta(value, dither):
    """Number of quanta for a real number of them, rounded up or down by chance, so that the mean is right."""
    dither = redithered(dither)
    chance = float_of(_I(_U(_U(dither >> _U(9)) | _U(0x3F800000)))) - ONE
    return _U(np.float64(min(value, _F(4294967040.0))) + np.float64(chance)), dither


@leaf
def rounded(value):
    """Nearest integer."""
    return _L(np.rint(value))


@leaf
def fresnel(ci, n1, n2):
    """Fresnel reflectance of unpolarized light that meets a face with the cosine `ci`, and the cosine behind it."""
    ratio = n1 / n2
    squared = ratio * ratio * (ONE - ci * ci)
    if squared >= ONE:
        return ONE, ZERO
    ct = math.sqrt(ONE - squared)
    s = (n1 * ci - n2 * ct) / (n1 * ci + n2 * ct)
    p = (n1 * ct - n2 * ci) / (n1 * ct + n2 * ci)
    return HALF * (s * s + p * p), ct


@leaf
def scattering_cosine(g, u):
    """Cosine of the scattering angle of Henyey and Greenstein (1941).

    Theirs is (1 + g^2 - t^2) / 2g with t = (1 - g^2) / (1 - g + 2g u) = 1 - g h, which is this; no digits are lost
    where g is small.
    """
    h = (_F(2.0) * u - (ONE - g)) / (ONE - g + _F(2.0) * g * u)
    return h + HALF * g * (ONE - h * h)


@leaf
def left_over_bits(one, other):
    """A third random number of 18 bits from those that `unit_float` leaves of two; it depends on neither float."""
    return _U(_U(other << _U(23)) + _U(one << _U(14)))


@leaf
def turned(ux, uy, uz, ct, cp, sp):
    """Turn a direction by the scattering angle (cosine ct) and the azimuth (cp, sp).

    The azimuth is counted from the meridian of the z axis, as in MCML, but the sine of the polar angle comes from x and
    y, so that it is right near the poles, too; a pole itself is left by a hair. What goes across the meridian has the
    right length whatever came in, so an error of the length shrinks with every event.
    """
    ux += np.copysign(_F(1e-12), ux)
    across = ux * ux + uy * uy
    share = math.sqrt(abs(ONE - ct * ct) / across)  # sines: of the scattering angle, of the polar angle
    p, q = share * cp, share * sp
    t = ct + uz * p
    return ux * t - uy * q, uy * t + ux * q, uz * ct - across * p
