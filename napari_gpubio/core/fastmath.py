"""Logarithm, exponential, sine and cosine in float32 from additions and multiplications only.

The counterpart of ``fastmath.cuh``. The C library's functions differ from one machine to the next, these do not, and
the compiler can inline them. Coefficients are minimax fits; the errors stated are those of the float32 functions.
"""

import math

import numpy as np

from napari_gpubio.core.jit import leaf

_F, _I, _U = np.float32, np.int32, np.uint32
_ONE, _HALF = _F(1.0), _F(0.5)
_EIGHTH, _WORD = np.int64(1 << 29), np.int64(0xFFFFFFFF)  # `turn` begins an eighth of a turn earlier
_LN2, _LOG2E, _SQRT2 = _F(0.693147181), _F(1.44269504), _F(1.41421356)


@leaf
def bits_of(x: np.float32) -> np.int32:
    """The 32 bits of a float32."""
    return np.float32(x).view(np.int32)


@leaf
def float_of(bits: np.int32) -> np.float32:
    """The float32 of 32 bits."""
    return np.int32(bits).view(np.float32)


@leaf
def minus_log(u: np.float32) -> np.float32:
    """-log(u) of a normal number 0 < u <= 1; error below 1.2e-7 max(1, -log(u))."""
    bits = bits_of(u)
    exponent = _I(_I(bits >> 23) - _I(127))
    m = float_of(_I(_I(bits & _I(0x007FFFFF)) | _I(0x3F800000)))
    if m > _SQRT2:
        m = m * _HALF
        exponent = _I(exponent + _I(1))
    f = m - _ONE
    p = _F(0.0892735042)
    p = p * f - _F(0.143447577)
    p = p * f + _F(0.148710846)
    p = p * f - _F(0.16566227)
    p = p * f + _F(0.199660708)
    p = p * f - _F(0.25001732)
    p = p * f + _F(0.333338379)
    log_m = f - f * f * (_HALF - f * p)
    return -(_F(exponent) * _LN2 + log_m)


@leaf
def decay(x: np.float32) -> np.float32:
    """exp(-x) for x >= 0, 0 beyond 87; relative error 2e-7 for x < 2, 4e-6 at 80."""
    t = x * _LOG2E
    if t > _F(125.0):
        return _F(0.0)
    k = _I(t + _HALF)
    f = _F(k) - t
    p = _F(0.000154780207)
    p = p * f + _F(0.00134004317)
    p = p * f + _F(0.00961799452)
    p = p * f + _F(0.0555032722)
    p = p * f + _F(0.240226515)
    p = p * f + _F(0.693147207)
    p = p * f + _ONE
    return p * float_of(_I(_I(_I(127) - k) << 23))


@leaf
def mean_decay(x: np.float32) -> np.float32:
    """(1 - exp(-x)) / x for x >= 0, 1 at 0: the mean of exp over a path of optical depth x; relative error 2e-7."""
    if x < _HALF:
        p = _F(-0.00112402599)
        p = p * x + _F(0.00819039131)
        p = p * x - _F(0.0416304133)
        p = p * x + _F(0.16666248)
        p = p * x - _F(0.499999823)
        return p * x + _ONE
    return (_ONE - decay(x)) / x


@leaf
def turn(bits: np.uint32) -> tuple[np.float32, np.float32]:
    """Cosine and sine of a uniformly random angle made of 32 random bits; error below 1.3e-7."""
    f = _F(_I(bits & _U(0x3FFFFFFF))) * _F(9.31322575e-10) - _HALF
    z = f * f
    s = _F(-0.00460217699)
    s = s * z + _F(0.0796802281)
    s = s * z - _F(0.645963479)
    s = (s * z + _F(1.57079632)) * f
    c = _F(0.000903631702)
    c = c * z - _F(0.0208600713)
    c = c * z + _F(0.253669204)
    c = c * z - _F(1.23370054)
    c = c * z + _ONE
    quarter = _I(bits >> _U(30))
    if quarter == 0:
        return c, s
    if quarter == 1:
        return -s, c
    if quarter == 2:
        return -c, -s
    return s, -c


@leaf
def turned_by(turns: np.float32) -> tuple[np.float32, np.float32]:
    """Cosine and sine of an angle in turns; error below 5e-7, and that of the angle's fraction of a turn."""
    part = turns - _F(math.floor(turns))
    return turn(np.uint32((np.int64(part * _F(4294967296.0)) + _EIGHTH) & _WORD))
