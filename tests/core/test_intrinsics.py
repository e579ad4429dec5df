"""Atomic addition among Numba's threads: nothing is lost, places are handed out once, and only integers go."""

import numpy as np
import pytest
from numba.core.errors import TypingError

from napari_gpubio.core.intrinsics import atomic_add
from napari_gpubio.core.jit import kernel, run_blocks

MANY = 400_000


@kernel
def add_many(start, stop, tally, value):
    for i in range(start, stop):
        atomic_add(tally, i % len(tally), value)


@kernel
def take_places(start, stop, counter, taken):
    for _ in range(start, stop):
        taken[atomic_add(counter, 0, 1)] += 1


@pytest.mark.parametrize("dtype", [np.uint64, np.int64])
@pytest.mark.parametrize("cells", [1, 3])
def test_no_addition_is_lost(dtype, cells):
    tally = np.zeros(cells, dtype)
    run_blocks(add_many, MANY, tally, dtype(3), threads=2)
    assert tally.sum() == 3 * MANY
    assert tally.max() - tally.min() <= 3


def test_sums_wrap_round_as_on_a_gpu():
    """What is negative is added as its complement."""
    tally = np.array([5], np.uint64)
    run_blocks(add_many, 7, tally, np.uint64(2**64 - 1))
    assert tally.astype(np.int64)[0] == -2


def test_sums_beyond_the_reach_of_a_double():
    tally = np.array([2**62], np.uint64)
    run_blocks(add_many, 1000, tally, np.uint64(1))
    assert int(tally[0]) == 2**62 + 1000


def test_every_place_is_handed_out_once():
    counter, taken = np.zeros(1, np.int64), np.zeros(MANY, np.int64)
    run_blocks(take_places, MANY, counter, taken, threads=2)
    assert counter[0] == MANY
    assert (taken == 1).all()


@pytest.mark.parametrize(
    "array", [np.zeros(3, np.float64), np.zeros(3, np.uint32), np.zeros((2, 2), np.uint64), np.zeros(6, np.uint64)[::2]]
)
def test_other_arrays_are_refused(array):
    with pytest.raises(TypingError, match="atomic_add wants a one-dimensional contiguous array of 64-bit integers"):
        add_many(0, 2, array, np.uint64(1))
