"""Folding batches: exact integers against Python's own, however large; backends bit for bit."""

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.jit import kernel, run_blocks
from napari_gpubio.light.kernels.voxels import gpu
from napari_gpubio.light.kernels.voxels.fold import Absorbers, Fold, add_absorbed, add_square, fold_batch
from napari_gpubio.light.kernels.voxels.problem import MEDIUM_NUMBERS
from napari_gpubio.optics.kernels import physics
from tests.cuda_on_cpu import loader

WORD = 2**64
LARGE = [0, 1, 2**32 - 1, 2**32, 2**32 + 1, 2**53 + 1, 2**63 - 1, 2**64 - 1]
SHAPES = [(1, 1), (2, 1), (1, 3), (2, 2)]  # halves and gates
BOTH_MEDIA = pytest.mark.parametrize("continuous", [False, True])
ALL_SHAPES = pytest.mark.parametrize(("halves", "gates"), SHAPES)


@kernel
def square_many(squares, values):
    for i in range(len(values)):
        add_square(squares, i, values[i])


def as_int(words):
    """Python's integer of the low and the high word."""
    return int(words[0]) + int(words[1]) * WORD


def test_squares_have_128_bits():
    random = np.random.default_rng(3)
    numbers = LARGE + [int(n) >> int(k) for n, k in zip(*random.integers(0, [[2**63], [64]], (2, 500)), strict=True)]
    before = [(int(a) << 63) % 2**127 + int(b) for a, b in random.integers(0, 2**62, (len(numbers), 2))]
    before[: len(LARGE)] = [2**64 - 1] * len(LARGE)  # the low word overflows
    squares = np.array([(n % WORD, n // WORD) for n in before], np.uint64)
    square_many(squares, np.array(numbers, np.uint64))
    expected = [(n + value**2) % 2**128 for n, value in zip(before, numbers, strict=True)]
    assert [as_int(row) for row in squares] == expected


class Batch:
    """A tally with zeros, small and very large numbers, over sums of earlier batches."""

    def __init__(self, halves, gates, continuous, *, cells=40_000, seed=1):
        random = np.random.default_rng(seed)
        self.cells, self.gates, self.halves = cells, gates, halves
        size = halves * gates * cells
        bits = random.integers(0, 50, size)
        self.tally = (random.integers(0, 2**62, size, np.uint64) >> (62 - bits).astype(np.uint64)).astype(np.uint64)
        self.tally[random.random(size) < 0.5] = 0
        self.tally[:8] = [0, 1, 2**52, 2**55, 2**60, 2**60 + 1, 3, 2**61]
        self.sums = random.integers(0, 2**61, size, np.uint64)
        square_gates = gates + (gates > 1)
        self.squares = random.integers(0, 2**62, (square_gates * cells, 2), np.uint64)
        self.rows = random.integers(0, 5, cells).astype(np.uint8)
        self.media = random.random((5, MEDIUM_NUMBERS)).astype(np.float32)
        self.mua = random.random(cells).astype(np.float32) if continuous else np.zeros(0, np.float32)
        self.energy = random.integers(0, 100, 5).astype(np.uint64)
        self.energy_scale = 2.0**-12

    def absorbers(self):
        return Absorbers(self.rows, self.media, self.mua, self.energy_scale)

    def by_backend(self):
        """Tally, sums, squares and energy after folding."""
        arrays = [a.copy() for a in (self.tally, self.sums, self.squares, self.energy)]
        tally, sums, squares, energy = arrays
        batch = Fold(tally, sums, squares, self.cells, self.gates, self.halves, self.absorbers(), energy)
        run_blocks(fold_batch, self.cells, batch, least=1000)
        return arrays

    def by_kernel(self, compiled, threads=128):
        arrays = [a.copy() for a in (self.tally, self.sums, self.squares, self.energy)]
        tally, sums, squares, energy = arrays
        define = f"CONTINUOUS={int(self.mua.size > 0)}"
        kernel = compiled(gpu._SOURCE, defines=("LABEL=unsigned char", define)).get_function("fold_batches")
        fold = kernels.struct(
            gpu.FOLD, path=tally, batches=1, copies=1, copy_stride=tally.size, cells=self.cells, gates=self.gates,
            halves=self.halves, sums=sums, squares=squares, rows=self.rows, media_rows=len(self.media),
            media=self.media, mua=self.mua, absorbed_scale=self.energy_scale, absorbed=energy,
        )  # fmt: skip
        kernel((-(-self.cells // (threads * gpu.FOLD_CELLS)),), (threads,), (fold,))
        return arrays

    def values(self):
        return self.tally.reshape(self.halves, self.gates, self.cells)


@ALL_SHAPES
def test_a_batch_is_added_and_cleared(halves, gates):
    batch = Batch(halves, gates, continuous=False)
    tally, sums, squares, _ = batch.by_backend()
    assert not tally.any()
    np.testing.assert_array_equal(sums, batch.sums + batch.tally)
    before = batch.squares.reshape(-1, batch.cells, 2)
    after = squares.reshape(-1, batch.cells, 2)
    for cell in range(0, batch.cells, 397):  # some, since Python is slow; and all the large ones
        check_squares(before, after, batch.values(), cell)
    for cell in range(8):
        check_squares(before, after, batch.values(), cell)


def check_squares(before, after, values, cell):
    by_gate = [sum(int(v) for v in values[:, g, cell]) for g in range(values.shape[1])]
    numbers = by_gate + ([sum(by_gate)] if len(by_gate) > 1 else [])
    for part, number in enumerate(numbers):
        assert as_int(after[part, cell]) == (as_int(before[part, cell]) + number**2) % 2**128


@ALL_SHAPES
@BOTH_MEDIA
def test_energy_of_rows(halves, gates, continuous):
    """mu_a times the tally, rounded voxel by voxel, so that no order of voxels can change it."""
    batch = Batch(halves, gates, continuous)
    whole = batch.values().sum(axis=(0, 1))
    absorption = batch.mua if continuous else batch.media[batch.rows, 0]
    each = np.floor(whole.astype(np.float64) * absorption.astype(np.float64) * batch.energy_scale + 0.5)
    expected = [int(batch.energy[r]) + sum(int(e) for e in each[batch.rows == r]) for r in range(5)]
    assert [int(e) for e in batch.by_backend()[3]] == expected
    energy = batch.energy.copy()
    run_blocks(
        add_absorbed, batch.cells, batch.tally, batch.cells, halves * gates, batch.absorbers(), energy, least=1000
    )
    assert [int(e) for e in energy] == expected


@ALL_SHAPES
@BOTH_MEDIA
def test_the_kernel_gives_the_bits_of_its_backend(cuda_on_cpu, halves, gates, continuous):
    batch = Batch(halves, gates, continuous, cells=10_007)
    expected = batch.by_backend()
    for threads in (128, 32):
        for found, array in zip(batch.by_kernel(cuda_on_cpu, threads), expected, strict=True):
            np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("order", [loader.REVERSED, 5])
def test_the_order_of_threads_changes_nothing(cuda_on_cpu, order):
    batch = Batch(2, 2, continuous=False, cells=10_007)
    with loader.thread_order(order):
        found = batch.by_kernel(cuda_on_cpu)
    for a, b in zip(found, batch.by_backend(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_kernel_has_no_undefined_behavior(cuda_on_cpu, capfd):
    def sanitized(*args, **how):
        return cuda_on_cpu(*args, sanitize=True, **how)

    Batch(2, 3, continuous=True, cells=500).by_kernel(sanitized)
    assert "runtime error" not in capfd.readouterr().err


# -- rounding to whole quanta -----------------------------------------------------------------------------------------


@kernel
def dithered(value, count, dither):
    total = 0
    low, high = np.uint32(2**32 - 1), np.uint32(0)
    for _ in range(count):
        amount, dither = physics.quanta(value, dither)
        total += np.int64(amount)
        low, high = min(low, amount), max(high, amount)
    return total / count, low, high


@pytest.mark.parametrize("value", [0.0, 1e-3, 0.3, 0.5, 17.25, 1000.75, 2.0**24, 4.2e9])
def test_quanta_are_right_in_the_mean(value):
    """Rounded up as often as the fraction says: |z| < 4 over 400 000 draws of a chain."""
    value, count = float(np.float32(value)), 400_000
    mean, low, high = dithered(np.float32(value), count, np.uint32(12345))
    fraction = value - np.floor(value)
    assert (low, high) == (int(np.floor(value)), int(np.ceil(value)))
    error = np.sqrt(fraction * (1 - fraction) / count)
    assert abs(mean - value) <= 4 * error


def test_what_does_not_fit_is_capped():
    """No float wraps round to a small number of quanta."""
    mean, low, high = dithered(np.float32(1e12), 10, np.uint32(1))
    assert (mean, low, high) == (4294967040, 4294967040, 4294967040)
