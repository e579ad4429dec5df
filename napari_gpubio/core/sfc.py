"""sfc32 (C. Doty-Humphrey, PractRand, 2013), begun by Philox: many random numbers in a row of one work item.

The counterpart of ``sfc.cuh``. Philox makes the state of each item, so the numbers depend on (seed, item) and on how
many were drawn before, and on nothing else; drawing one costs a sixth of Philox's price. The counter in the state makes
every cycle at least 2^32 long; on average one is 2^127.

A state is a tuple of four uint32. Functions take and return it, since Numba's functions cannot keep one.
"""

import numpy as np

from napari_gpubio.core.jit import leaf
from napari_gpubio.core.philox import philox4x32, unit_float

_U, _L = np.uint32, np.uint64
State = tuple[np.uint32, np.uint32, np.uint32, np.uint32]


@leaf
def stream(seed: np.uint64, item: np.uint64) -> State:
    """State of an item before its first draw."""
    low = _L(0xFFFFFFFF)
    return philox4x32(_U(seed & low), _U(seed >> _L(32)), _U(0), _U(item & low), _U(item >> _L(32)), _U(0))


@leaf
def next_bits(state: State) -> tuple[np.uint32, State]:
    """Return 32 random bits and the state after them."""
    a, b, c, counter = state
    bits = _U(_U(a + b) + counter)
    turned = _U(_U(c << _U(21)) | _U(c >> _U(11)))
    return bits, (_U(b ^ _U(b >> _U(9))), _U(c + _U(c << _U(3))), _U(turned + bits), _U(counter + _U(1)))


@leaf
def uniform(state: State) -> tuple[np.float32, State]:
    """Return a random number in (0, 1) and the state after it."""
    bits, state = next_bits(state)
    return unit_float(bits), state
