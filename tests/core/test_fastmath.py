"""Float32 functions of the kernels: how far from the truth, backends bit for bit, a GPU's own units."""

import numpy as np
import pytest

from napari_gpubio.core import fastmath, kernels
from napari_gpubio.core.jit import kernel
from tests.cuda_on_cpu import loader

CU = kernels._CORE / "fastmath.cu"
QUARTER = np.pi / 2


@kernel
def fill(bits, u, x, out):
    for i in range(len(u)):
        out[i, 0] = fastmath.minus_log(u[i])
        out[i, 1] = fastmath.decay(x[i])
        out[i, 2] = fastmath.mean_decay(x[i])
        out[i, 3], out[i, 4] = fastmath.turn(bits[i])


def by_backend(bits=None, u=None, x=None):
    """Columns: minus_log, decay, mean_decay, cosine, sine."""
    count = len(next(given for given in (bits, u, x) if given is not None))
    out = np.full((count, 5), np.nan, np.float32)
    fill(
        np.zeros(count, np.uint32) if bits is None else bits,
        np.ones(count, np.float32) if u is None else u,
        np.zeros(count, np.float32) if x is None else x,
        out,
    )
    return out


def sample(count=200_000):
    """Random bits, u in (0, 1] as the generator makes them and down to 1e-37, x in [0, 200], with the special ones."""
    random = np.random.default_rng(5)
    bits = random.integers(0, 2**32, count, np.uint32)
    bits[:9] = [0, 1, 2**30 - 1, 2**30, 2**31, 3 * 2**30, 2**32 - 1, 2**29, 5 * 2**29]
    u = ((random.integers(0, 2**23, count) + 0.5) * 2.0**-23).astype(np.float32)
    u[::5] = 10.0 ** -random.uniform(0, 37, len(u[::5])).astype(np.float32)
    u[:4] = [1.0, 1.0 - 2**-24, 2.0**-24, np.sqrt(0.5)]
    x = random.uniform(0, 3, count).astype(np.float32)
    x[::3] = 10.0 ** random.uniform(-30, 2.3, len(x[::3])).astype(np.float32)
    x[:6] = [0.0, 0.5, np.nextafter(np.float32(0.5), np.float32(0)), 86.6, 87.0, 200.0]
    return bits, u, x


def angles(bits):
    """The angle that the backends mean by 32 bits: a quarter turn, and where in it, from -45 to 45 degrees."""
    quarter, rest = bits >> np.uint32(30), bits & np.uint32(0x3FFFFFFF)
    return QUARTER * (quarter + rest / 2.0**30 - 0.5)


def relative(found, expected):
    return np.abs(found / expected - 1.0).max()


def check_minus_log(u):
    found, expected = by_backend(u=u)[:, 0], -np.log(u.astype(np.float64))
    assert (np.abs(found - expected) / np.maximum(1.0, expected)).max() < 1.2e-7
    assert found.min() >= 0.0  # a free path is never negative
    return found, expected


def test_minus_log():
    """Of all 2^23 numbers that the generator can give, and of numbers down to the smallest one."""
    check_minus_log(((np.arange(2**23) + 0.5) * 2.0**-23).astype(np.float32))
    found, expected = check_minus_log(sample()[1])
    assert expected.max() > 80
    assert found[0] == 0.0


def test_decay():
    x = sample()[2]
    found = by_backend(x=x)[:, 1]
    expected = np.exp(-x.astype(np.float64))
    near, far, beyond = x < 2.0, (x >= 2.0) & (x <= 80.0), x > 87.0
    assert relative(found[near], expected[near]) < 2e-7
    assert relative(found[far], expected[far]) < 4e-6
    assert (found[beyond] == 0.0).all()
    assert (found[0], found.max()) == (1.0, 1.0)


def test_mean_decay():
    x = sample()[2]
    found = by_backend(x=x)[:, 2]
    wide = x.astype(np.float64)
    expected = -np.expm1(-wide) / np.where(wide == 0, 1, wide)
    expected[wide == 0] = 1.0
    assert relative(found, expected) < 2e-7
    assert found[0] == 1.0


def test_turn():
    bits = sample()[0]
    cosine, sine = by_backend(bits)[:, 3:].T
    assert np.abs(cosine - np.cos(angles(bits))).max() < 1.3e-7
    assert np.abs(sine - np.sin(angles(bits))).max() < 1.3e-7


def test_turns_are_uniform():
    """Evenly spaced bits are evenly spaced angles, so the first moments vanish and the second ones are 1/2."""
    bits = (np.arange(2**16, dtype=np.uint32) << np.uint32(16)) + np.uint32(2**15)
    cosine, sine = by_backend(bits)[:, 3:].T.astype(float)
    moments = [cosine.mean(), sine.mean(), (cosine * sine).mean(), (cosine**2).mean() - 0.5, (sine**2).mean() - 0.5]
    np.testing.assert_allclose(moments, 0.0, atol=1e-7)


@kernel
def fill_turns(turns, out):
    for i in range(len(turns)):
        out[i, 0], out[i, 1] = fastmath.turned_by(turns[i])


def test_turned_by():
    """Any angle, also negative, large, or a whole number of turns."""
    turns = np.concatenate([np.linspace(-3, 3, 100_001), [0.0, 1.0, -1.0, 0.25, -0.125, 1e-9, -1e-9, 0.99999997]])
    turns = turns.astype(np.float32)
    out = np.empty((len(turns), 2), np.float32)
    fill_turns(turns, out)
    angles = 2 * np.pi * (turns - np.floor(turns)).astype(float)
    np.testing.assert_allclose(out, np.column_stack([np.cos(angles), np.sin(angles)]), atol=5e-7)


# -- the other backend ------------------------------------------------------------------------------------------------


def by_kernel(kernel, bits, u, x, as_array=np.asarray, empty=np.empty):
    out = empty((len(u), 5), np.float32)
    arguments = (as_array(bits), as_array(u), as_array(x), np.int32(len(u)), out)
    kernel(((len(u) + 127) // 128,), (128,), arguments)
    return out


@pytest.mark.parametrize(
    ("defines", "order"),
    [((), loader.NATURAL), ((), loader.REVERSED), (("FAST_MATH",), loader.NATURAL)],
    ids=["as it is", "reversed launch order", "production build"],
)
def test_the_kernel_gives_the_bits_of_its_backend(cuda_on_cpu, defines, order):
    """g++ knows no special function unit, so FAST_MATH must leave it the polynomials."""
    inputs = sample()
    with loader.thread_order(order):
        found = by_kernel(cuda_on_cpu(CU, defines=defines).get_function("fill_fastmath"), *inputs)
    np.testing.assert_array_equal(found, by_backend(*inputs))


def test_no_undefined_behavior(cuda_on_cpu, capfd):
    by_kernel(cuda_on_cpu(CU, sanitize=True).get_function("fill_fastmath"), *sample(2000))
    assert "runtime error" not in capfd.readouterr().err


def on_the_gpu(**build):
    import cupy

    inputs = sample()
    out = by_kernel(kernels.kernel(CU, "fill_fastmath", **build), *inputs, cupy.asarray, cupy.empty)
    return inputs, cupy.asnumpy(out)


@pytest.mark.gpu
def test_a_strict_build_on_a_gpu_gives_the_bits_of_the_backend():
    inputs, found = on_the_gpu(strict=True)
    np.testing.assert_array_equal(found, by_backend(*inputs))


@pytest.mark.gpu
def test_the_special_function_unit_is_near_enough():
    """Bounds of the CUDA programming guide for the intrinsic functions, which hold for the build of the engine."""
    (_, u, x), found = on_the_gpu(fast=True)
    u, x, found = u.astype(np.float64), x.astype(np.float64), found.astype(np.float64)
    inner = (u > 0.5) & (u < 2.0)
    assert np.abs(found[inner, 0] + np.log(u[inner])).max() < 5e-7
    assert relative(found[~inner, 0], -np.log(u[~inner])) < 1e-6
    usual = x < 80.0
    assert (np.abs(found[usual, 1] / np.exp(-x[usual]) - 1.0) < (2 + 1.2 * x[usual]) * 1.2e-7).all()
    some = (x > 1e-20) & usual
    assert relative(found[some, 2], -np.expm1(-x[some]) / x[some]) < 2e-6
    length = np.hypot(found[:, 3], found[:, 4])
    assert np.abs(length - 1.0).max() < 2e-6
    assert np.abs(found[:, 3:].mean(axis=0)).max() < 3.9 * np.sqrt(0.5 / len(u))
