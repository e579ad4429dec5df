"""Sub-band mixing: fine detail from the large patch, everything else from the small one (Coupe et al. 2008).

One level of the separable, orthonormal, nearly symmetric bank of Abdelnour and Selesnick. The bands with at least two
high-pass axes come from the estimate of the large patch, the other four from that of the small one. With L the
projection on the low-pass space of one axis and d the difference of the estimates, the kept-out part of d is

    P_low d = C + L_z (A + B - 2 C),   A = L_x d,  B = L_y d,  C = L_y A,

so four passes along lines do it all. Beyond the volume d is zero, as in a bank with zero padding.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
FilterAxis = Callable[[Any, int, Array], Any]  # (array, axis, taps of even and odd positions) -> array

_A, _B, _C = 0.08838834764832, 0.695879989034, 0.01122679215254
LOW_PASS = np.array([0.0, 0.0, -_A, _A, _B, _B, _A, -_A, _C, _C])
HIGH_PASS = np.array([-_C, _C, _A, _A, -_B, _B, -_A, -_A, 0.0, 0.0])
_LEAD = 5  # coefficient n of a line x is the sum over k of h[k] x[2 n + 5 - k]


def projection_taps(bank: Array = LOW_PASS) -> npt.NDArray[np.float32]:
    """Weights of x[i - 9 ... i + 9] in the projection of a line x on one half of the bank, for even and for odd i.

    Returns
    -------
    Shape (2, 19), float32.
    """
    reach = len(bank) - 1
    taps = np.zeros((2, 2 * reach + 1))
    for parity in (0, 1):
        for n in range(-reach, reach + 1):  # every coefficient that position i = parity takes part in
            k = 2 * n + _LEAD - parity
            if 0 <= k <= reach:
                for other in range(reach + 1):  # x[2 n + 5 - other] is at the distance k - other from x[i]
                    taps[parity, k - other + reach] += bank[k] * bank[other]
    return taps.astype(np.float32)


_LOW_TAPS = projection_taps()


def mix(small: Any, large: Any, filter_axis: FilterAxis, xp: Any = np) -> Any:
    """Put the estimates of both patches together.

    Parameters
    ----------
    small, large
        Estimates with patch radius 1 and 2, shape (X, Y, Z), float32, on the host or a GPU.
    filter_axis
        Filters along lines of one axis, where the arrays are.
    xp
        NumPy or CuPy.

    Returns
    -------
    The mixed estimate. Where it would be negative and the small patch's is not, the latter is kept.
    """
    difference = large - small
    a = filter_axis(difference, 0, _LOW_TAPS)
    b = filter_axis(difference, 1, _LOW_TAPS)
    c = filter_axis(a, 1, _LOW_TAPS)
    low = c + filter_axis(a + b - (c + c), 2, _LOW_TAPS)
    mixed = small + (difference - low)
    return xp.where((mixed < 0) & (small >= 0), small, mixed)
