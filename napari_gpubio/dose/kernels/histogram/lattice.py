"""Places of samples inside their cells (Numba), the counterpart of ``lattice.cuh``.

Whole multiples of an irrational number, modulo 1, fill the unit interval evenly (Weyl), and several of them the square
or the cube: samples so placed never line up with a gradient of dose. As 32-bit integers they are the same everywhere.
From sample to sample the numbers are g^-1, g^-2, g^-3 with g^4 = g + 1 (Roberts 2018, "The unreasonable effectiveness
of quasirandom sequences"), from row to row the golden section, sqrt 2 - 1 and sqrt 3 - 1; all times 2^32.
"""

import numba as nb
import numpy as np

_jit = nb.njit(inline="always")
SAMPLE_X, SAMPLE_Y, SAMPLE_Z = np.uint32(3518319155), np.uint32(2882110345), np.uint32(2360945575)
ROW_X, ROW_Y, ROW_Z = np.uint32(2654435769), np.uint32(1779033703), np.uint32(3144134277)
_PER_STEP = np.float32(2.0**-24)


@_jit
def multiple(number: int, step: np.uint32) -> np.uint32:
    """``number`` times ``step``, modulo 2^32."""
    return np.uint32((np.uint64(number) * np.uint64(step)) & np.uint64(0xFFFFFFFF))


@_jit
def fraction(word: np.uint32) -> np.float32:
    """The leading 24 bits as a number in [0, 1)."""
    return np.float32(word >> np.uint32(8)) * _PER_STEP
