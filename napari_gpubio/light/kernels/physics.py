"""Physics of one photon packet in both engines: scattering, reflection, quanta. Counterpart: ``physics.cuh``."""

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
    """The next random number that decides about rounding: a linear congruential generator, nothing hangs on it."""
    return _U(dither * _U(747796405) + _U(2891336453))


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
    """Cosine of the scattering angle of Henyey and Greenstein (1941); to first order in g where g is tiny."""
    v = _F(2.0) * u - ONE
    if abs(g) < _F(1e-3):
        return v + _F(1.5) * g * (ONE - v * v)
    t = (ONE - g * g) * (ONE / (ONE + g * v))
    return (ONE + g * g - t * t) * (ONE / (g + g))


@leaf
def turned(ux, uy, uz, ct, cp, sp):
    """Turn a direction by the scattering angle (cosine ct) and the azimuth (cp, sp).

    In an orthonormal basis around it (Duff et al. 2017); the length is brought back to 1 with one Newton step, since
    float32 would let it drift.
    """
    st = math.sqrt(max(ZERO, ONE - ct * ct))
    sign = np.copysign(ONE, uz)
    a = -(ONE / (sign + uz))
    b = ux * uy * a
    p, q = st * cp, st * sp
    x = p * (ONE + sign * ux * ux * a) + q * b + ct * ux
    y = p * (sign * b) + q * (sign + uy * uy * a) + ct * uy
    z = p * (-sign * ux) - q * uy + ct * uz
    scale = _F(1.5) - HALF * (x * x + y * y + z * z)
    return x * scale, y * scale, z * scale
