"""Random numbers, Philox4x32-10 and sfc32: published answers, backends bit for bit, uniformity."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from napari_gpubio.core import kernels, philox, sfc
from napari_gpubio.core.jit import kernel as compiled
from tests.cuda_on_cpu import loader

# Random123's kat_vectors: counter, key, result.
PHILOX = {
    "zeros": ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    "ones": ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    "pi": ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
}
# Of the Rust crate sfc-prng: what comes after so many numbers of the state 0, 0, 0 with the counter at 1.
SFC = {12: 0x514676C3, 15: 0xFB52C520}
STREAMS = [(0, 0), (1, 0), (12345678901234567890, 2**32 - 50), (2**64 - 1, 2**40 + 3), (42, 2**63)]


def words(text: str) -> list[np.uint32]:
    return [np.uint32(int(word, 16)) for word in text.split()]


@compiled
def philox_words(k0, k1, c0, c1, c2, c3):
    return philox.philox4x32(k0, k1, c0, c1, c2, c3)


@compiled
def unit_float(bits):
    return philox.unit_float(bits)


@compiled
def state_of(seed, item):
    return sfc.stream(seed, item)


@compiled
def words_after(state, count):
    out = np.empty(count, np.uint32)
    for i in range(count):
        out[i], state = sfc.next_bits(state)
    return out


@compiled
def fill_words(seed, first, items, count):
    out = np.empty((items, count), np.uint32)
    for i in range(items):
        state = sfc.stream(np.uint64(seed), np.uint64(first) + np.uint64(i))
        for q in range(count):
            out[i, q], state = sfc.next_bits(state)
    return out


def sfc_words(seed, first, items, count):
    return fill_words(np.uint64(seed), np.uint64(first), items, count)


GENERATORS = {
    "philox": SimpleNamespace(kernel="fill_uniform", numbers=philox.uniform, dtype=np.float32),
    "sfc": SimpleNamespace(kernel="fill_words", numbers=sfc_words, dtype=np.uint32),
}
for _name, _generator in GENERATORS.items():
    _generator.cu = kernels._CORE / f"{_name}.cu"


@pytest.fixture(params=GENERATORS)
def generator(request):
    return GENERATORS[request.param]


# -- published answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", PHILOX)
@pytest.mark.parametrize("is_compiled", [True, False])
def test_known_answers_of_philox(case, is_compiled):
    counter, key, expected = map(words, PHILOX[case])
    bare = getattr(philox.philox4x32, "py_func", philox.philox4x32)  # with NUMBA_DISABLE_JIT=1 it is bare already
    with np.errstate(over="ignore"):
        assert list((philox_words if is_compiled else bare)(*key, *counter)) == expected


def test_known_answers_of_sfc():
    numbers = words_after(tuple(map(np.uint32, (0, 0, 0, 1))), 16)
    assert {after: int(numbers[after]) for after in SFC} == SFC


def test_philox_begins_the_state_of_sfc():
    assert state_of(np.uint64(7), np.uint64(2**40 + 1)) == philox_words(*map(np.uint32, (7, 0, 0, 1, 256, 0)))


def test_the_first_four_draws_are_the_known_answer():
    expected = [((int(word) >> 9) + 0.5) * 2.0**-23 for word in words(PHILOX["zeros"][2])]
    assert philox.uniform(0, 0, 1, 4)[0].tolist() == expected


# -- the other backend ------------------------------------------------------------------------------------------------


def run_kernel(kernel, generator, seed, first, items, draws, *, grid=4, block=64):
    out = np.full((items, draws), np.nan if generator.dtype == np.float32 else 0, generator.dtype)
    kernel((grid,), (block,), (np.uint64(seed), np.uint64(first), np.int32(items), np.int32(draws), out))
    return out


@pytest.mark.parametrize(("seed", "first"), STREAMS)
def test_the_kernel_gives_the_bits_of_its_backend(cuda_on_cpu, generator, seed, first):
    kernel = cuda_on_cpu(generator.cu).get_function(generator.kernel)
    found = run_kernel(kernel, generator, seed, first, 300, 7, grid=3)
    np.testing.assert_array_equal(found, generator.numbers(seed, first, 300, 7))


@pytest.mark.parametrize("order", [loader.NATURAL, loader.REVERSED, 7])
@pytest.mark.parametrize(("grid", "block"), [(1, 32), (3, 96), (40, 256)])
def test_launch_shape_and_order_change_nothing(cuda_on_cpu, order, grid, block):
    philox_numbers = GENERATORS["philox"]
    kernel = cuda_on_cpu(philox_numbers.cu).get_function("fill_uniform")
    with loader.thread_order(order):
        found = run_kernel(kernel, philox_numbers, 9, 2**33, 1000, 5, grid=grid, block=block)
    np.testing.assert_array_equal(found, philox.uniform(9, 2**33, 1000, 5))


def test_no_undefined_behavior(cuda_on_cpu, generator, capfd):
    kernel = cuda_on_cpu(generator.cu, sanitize=True).get_function(generator.kernel)
    run_kernel(kernel, generator, 2**64 - 1, 2**64 - 200, 100, 9)
    assert "runtime error" not in capfd.readouterr().err


@pytest.mark.gpu
def test_a_gpu_gives_the_bits_of_the_backend(generator):
    import cupy

    kernel, out = kernels.kernel(generator.cu, generator.kernel), cupy.empty((1000, 5), generator.dtype)
    kernel((4,), (128,), (np.uint64(9), np.uint64(2**33), np.int32(1000), np.int32(5), out))
    np.testing.assert_array_equal(cupy.asnumpy(out), generator.numbers(9, 2**33, 1000, 5))


# -- statistics -------------------------------------------------------------------------------------------------------


def test_uniform_stays_inside_the_open_interval():
    assert 0.0 < unit_float(np.uint32(0)) < 1e-7
    assert 1.0 - 1e-7 < unit_float(np.uint32(0xFFFFFFFF)) < 1.0


def test_a_run_of_items_is_a_part_of_a_longer_run():
    whole = philox.uniform(3, 100, 50, 6)
    np.testing.assert_array_equal(philox.uniform(3, 120, 10, 6), whole[20:30])
    np.testing.assert_array_equal(philox.uniform(3, 100, 50, 3), whole[:, :3])


@pytest.mark.parametrize("seed", [0, 1, 2**63 + 11])
def test_numbers_are_uniform(seed):
    n = 400_000
    sample = philox.uniform(seed, 2**32 - n // 8, n // 4, 4).astype(float).ravel()
    mean_error = 1 / np.sqrt(12 * n)
    square_error = np.sqrt(4 / 45 / n)  # standard error of the mean of u^2
    assert abs(sample.mean() - 1 / 2) < 3.9 * mean_error  # |z| < 3.9: one chance in 10 000
    assert abs((sample**2).mean() - 1 / 3) < 3.9 * square_error
    assert stats.kstest(sample, "uniform").pvalue > 1e-4


def test_numbers_are_uniform_in_every_place():
    """Of many items, the first number, the second, ...: what photons do first depends on the first ones."""
    sample = (sfc_words(3, 0, 40_000, 12) >> 9).astype(float) / 2**23
    assert min(stats.kstest(column, "uniform").pvalue for column in sample.T) > 1e-4


@pytest.mark.parametrize("axis", [0, 1], ids=["neighboring items", "neighboring draws"])
@pytest.mark.parametrize("apart", [1, 2, 3, 4])
def test_neighbors_are_not_correlated(generator, axis, apart):
    numbers = generator.numbers(5, 0, 20_000, 20).astype(float)
    length = numbers.shape[axis]
    first, second = np.take(numbers, range(length - apart), axis), np.take(numbers, range(apart, length), axis)
    correlation = np.corrcoef(first.ravel(), second.ravel())[0, 1]
    assert abs(correlation) * np.sqrt(first.size) < 3.9  # standard error 1/sqrt(n)
