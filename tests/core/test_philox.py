"""Philox4x32-10: published answers, backends bit for bit, uniformity."""

import numpy as np
import pytest
from scipy import stats

from napari_gpubio.core import kernels, philox
from napari_gpubio.core.jit import kernel as compiled
from tests.cuda_on_cpu import loader

CU = kernels._CORE / "philox.cu"
# Random123's kat_vectors: counter, key, result.
KNOWN = {
    "zeros": ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    "ones": ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    "pi": ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
}
STREAMS = [(0, 0), (1, 0), (12345678901234567890, 2**32 - 50), (2**64 - 1, 2**40 + 3), (42, 2**63)]


def words(text: str) -> list[np.uint32]:
    return [np.uint32(int(word, 16)) for word in text.split()]


@compiled
def philox_words(key, counter):
    return philox.philox4x32(key[0], key[1], counter[0], counter[1], counter[2], counter[3])


@compiled
def unit_float(bits):
    return philox.unit_float(bits)


@pytest.mark.parametrize("case", KNOWN)
def test_known_answers(case):
    counter, key, expected = map(words, KNOWN[case])
    assert list(philox_words(np.array(key), np.array(counter))) == expected


@pytest.mark.parametrize("case", KNOWN)
def test_known_answers_without_the_compiler(case):
    counter, key, expected = map(words, KNOWN[case])
    bare = getattr(philox.philox4x32, "py_func", philox.philox4x32)  # with NUMBA_DISABLE_JIT=1 it is bare already
    with np.errstate(over="ignore"):
        assert list(bare(*key, *counter)) == expected


def test_the_first_four_draws_are_the_known_answer():
    expected = [((int(word) >> 9) + 0.5) * 2.0**-23 for word in words(KNOWN["zeros"][2])]
    assert philox.uniform(0, 0, 1, 4)[0].tolist() == expected


def test_uniform_stays_inside_the_open_interval():
    assert 0.0 < unit_float(np.uint32(0)) < 1e-7
    assert 1.0 - 1e-7 < unit_float(np.uint32(0xFFFFFFFF)) < 1.0


def run_kernel(kernel, seed, first, items, draws, *, grid=4, block=64):
    out = np.full((items, draws), np.nan, np.float32)
    kernel((grid,), (block,), (np.uint64(seed), np.uint64(first), np.int32(items), np.int32(draws), out))
    return out


@pytest.mark.parametrize(("seed", "first"), STREAMS)
def test_the_kernel_gives_the_bits_of_its_backend(cuda_on_cpu, seed, first):
    kernel = cuda_on_cpu(CU).get_function("fill_uniform")
    np.testing.assert_array_equal(run_kernel(kernel, seed, first, 300, 7), philox.uniform(seed, first, 300, 7))


@pytest.mark.parametrize("order", [loader.NATURAL, loader.REVERSED, 7])
@pytest.mark.parametrize(("grid", "block"), [(1, 32), (3, 96), (40, 256)])
def test_launch_shape_and_order_change_nothing(cuda_on_cpu, order, grid, block):
    kernel = cuda_on_cpu(CU).get_function("fill_uniform")
    with loader.thread_order(order):
        got = run_kernel(kernel, 9, 2**33, 1000, 5, grid=grid, block=block)
    np.testing.assert_array_equal(got, philox.uniform(9, 2**33, 1000, 5))


def test_no_undefined_behavior(cuda_on_cpu, capfd):
    run_kernel(cuda_on_cpu(CU, sanitize=True).get_function("fill_uniform"), 2**64 - 1, 2**64 - 200, 100, 9)
    assert "runtime error" not in capfd.readouterr().err


@pytest.mark.gpu
def test_a_gpu_gives_the_bits_of_the_backend():
    import cupy

    kernel, out = kernels.kernel(CU, "fill_uniform"), cupy.empty((1000, 5), np.float32)
    kernel((4,), (128,), (np.uint64(9), np.uint64(2**33), np.int32(1000), np.int32(5), out))
    np.testing.assert_array_equal(cupy.asnumpy(out), philox.uniform(9, 2**33, 1000, 5))


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


@pytest.mark.parametrize("axis", [0, 1], ids=["neighboring items", "neighboring draws"])
def test_neighbors_are_not_correlated(axis):
    numbers = philox.uniform(5, 0, 20_000, 20).astype(float)
    length = numbers.shape[axis]
    first, second = np.take(numbers, range(length - 1), axis), np.take(numbers, range(1, length), axis)
    correlation = np.corrcoef(first.ravel(), second.ravel())[0, 1]
    assert abs(correlation) * np.sqrt(first.size) < 3.9  # standard error 1/sqrt(n)
