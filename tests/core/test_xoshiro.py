"""xoshiro128++ begun by Philox: published answers, backends bit for bit, independence of neighbors."""

import numpy as np
import pytest
from scipy import stats

from napari_gpubio.core import kernels, philox, xoshiro
from napari_gpubio.core.jit import kernel

CU = kernels._CORE / "xoshiro.cu"
# The reference implementation (Blackman & Vigna), begun with the state 1, 2, 3, 4.
KNOWN = (641, 1573767, 3222811527, 3517856514, 836907274, 4247214768, 3867114732, 1355841295, 495546011, 621204420)
STREAMS = [(0, 0), (1, 0), (12345678901234567890, 2**32 - 50), (2**64 - 1, 2**40 + 3), (42, 2**63)]


@kernel
def state_of(seed, item):
    return xoshiro.stream(seed, item)


@kernel
def philox_words(k0, k1, c0, c1, c2, c3):
    return philox.philox4x32(k0, k1, c0, c1, c2, c3)


@kernel
def words_after(state, count):
    out = np.empty(count, np.uint32)
    for i in range(count):
        out[i], state = xoshiro.next_bits(state)
    return out


@kernel
def words(seed, first, items, count):
    out = np.empty((items, count), np.uint32)
    for i in range(items):
        state = xoshiro.stream(np.uint64(seed), np.uint64(first) + np.uint64(i))
        for q in range(count):
            out[i, q], state = xoshiro.next_bits(state)
    return out


def backend(seed, first, items, count):
    return words(np.uint64(seed), np.uint64(first), items, count)


def test_known_answers():
    assert tuple(words_after(tuple(map(np.uint32, (1, 2, 3, 4))), 10).tolist()) == KNOWN


def test_philox_begins_the_state():
    assert state_of(np.uint64(7), np.uint64(2**40 + 1)) == philox_words(*map(np.uint32, (7, 0, 0, 1, 256, 0)))


def run_kernel(kernel, seed, first, items, count):
    out = np.zeros((items, count), np.uint32)
    kernel((3,), (64,), (np.uint64(seed), np.uint64(first), np.int32(items), np.int32(count), out))
    return out


@pytest.mark.parametrize(("seed", "first"), STREAMS)
def test_the_kernel_gives_the_bits_of_its_backend(cuda_on_cpu, seed, first):
    kernel = cuda_on_cpu(CU).get_function("fill_words")
    np.testing.assert_array_equal(run_kernel(kernel, seed, first, 300, 7), backend(seed, first, 300, 7))


def test_no_undefined_behavior(cuda_on_cpu, capfd):
    run_kernel(cuda_on_cpu(CU, sanitize=True).get_function("fill_words"), 2**64 - 1, 2**64 - 200, 100, 9)
    assert "runtime error" not in capfd.readouterr().err


@pytest.mark.gpu
def test_a_gpu_gives_the_bits_of_the_backend():
    import cupy

    kernel, out = kernels.kernel(CU, "fill_words"), cupy.zeros((1000, 5), np.uint32)
    kernel((4,), (128,), (np.uint64(9), np.uint64(2**33), np.int32(1000), np.int32(5), out))
    np.testing.assert_array_equal(cupy.asnumpy(out), backend(9, 2**33, 1000, 5))


def test_numbers_are_uniform_in_every_place():
    """Of many items, the first number, the second, ... : what photons do first hangs on the first ones."""
    sample = (backend(3, 0, 40_000, 12) >> 9).astype(float) / 2**23
    assert min(stats.kstest(column, "uniform").pvalue for column in sample.T) > 1e-4


@pytest.mark.parametrize("axis", [0, 1], ids=["neighboring items", "neighboring draws"])
@pytest.mark.parametrize("apart", [1, 2, 3, 4])
def test_neighbors_are_not_correlated(axis, apart):
    numbers = backend(5, 0, 20_000, 20).astype(float)
    length = numbers.shape[axis]
    first, second = np.take(numbers, range(length - apart), axis), np.take(numbers, range(apart, length), axis)
    correlation = np.corrcoef(first.ravel(), second.ravel())[0, 1]
    assert abs(correlation) * np.sqrt(first.size) < 3.9  # standard error 1/sqrt(n)
