"""The CUDA tensor fit against its CPU backend, bit for bit: the kernels through g++, and the host code with them."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core import kernels
from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import OutOfGpuMemory
from napari_gpubio.diffusion import FitSettings, fit_tensors
from napari_gpubio.diffusion.kernels.tensors import cpu, gpu
from napari_gpubio.diffusion.kernels.tensors.problem import fit_problem
from napari_gpubio.diffusion.phantom import load_brain_phantom
from napari_gpubio.diffusion.tensors.settings import OrdinaryLeastSquares, WeightedLeastSquares
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.structs import struct_in
from tests.diffusion.tensor_samples import six, turned
from tests.runs import check_same_methods

pytestmark = pytest.mark.daily

MIB = 2**20
ORDERS = [loader.NATURAL, loader.REVERSED, 5]
CHANGE = np.random.default_rng(7).normal(size=(3, 3))
SETTINGS = {
    "ols": FitSettings(estimator=OrdinaryLeastSquares()),
    "wls": FitSettings(estimator=WeightedLeastSquares(iterations=0)),
    "reweighted": FitSettings(estimator=WeightedLeastSquares(iterations=2)),
}
ALL_SETTINGS = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
BOTH_REALS = pytest.mark.parametrize("real", [np.float32, np.float64])


def kernel(cuda_on_cpu, name, real=np.float32):
    defines = (f"REAL={'double' if real == np.float64 else 'float'}",)
    return cuda_on_cpu(gpu.SOURCE, defines=defines).get_function(name)


def some_tensors(real):
    """Random tensors, some of them with equal, zero or negative eigenvalues, and one that is not finite."""
    turns = Rotation.random(300, random_state=3).as_matrix()
    eigenvalues = np.abs(np.random.default_rng(4).normal(size=(300, 3)))
    eigenvalues[:40, 1] = eigenvalues[:40, 0]
    eigenvalues[30:60, 2] = 0
    eigenvalues[50:80, 1] *= -1
    tensors = six(turned(eigenvalues, turns))
    tensors[100], tensors[101], tensors[102] = 0, [1, 2, 3, 0, 0, 0], np.nan
    return np.ascontiguousarray(tensors, real)


def problem(settings, voxels=700):
    """A part of the phantom, some of its signals at or below zero, and a voxel whose fit breaks down."""
    scan = load_brain_phantom()
    signals = scan.data[scan.data[..., 0] > 20][5000 : 5000 + voxels].astype(np.float32)
    signals[3, 4], signals[8, 0], signals[9] = 0, -7, 0
    signals[9, 2] = 1e30
    return fit_problem(signals, scan.bvals, scan.directions, settings)


def fitted(kernel_or_none, p, start, count):
    if kernel_or_none is None:
        run = cpu.Run(p)
        run.advance(start, count)
        return run.snapshot()
    out, raised = np.full((len(p.signals), 7), np.nan), np.zeros(len(p.signals), np.uint8)
    signals = np.ascontiguousarray(p.signals.T)
    arrays = kernels.struct(
        gpu.FIT_ARRAYS,
        signals=signals,
        design=p.design,
        solver=p.solver,
        out=out,
        raised=raised,
        voxels=len(p.signals),
        volumes=len(p.design),
        rounds=p.rounds,
    )
    kernel_or_none(((count + 127) // 128,), (128,), (arrays, np.int32(start), np.int32(count)))
    return out, raised


def test_the_struct_is_laid_out_as_the_kernel_reads_it():
    assert struct_in(kernels.source(gpu.SOURCE), "FitArrays") == gpu.FIT_ARRAYS


@ALL_SETTINGS
def test_the_fit_has_the_bits_of_its_backend(cuda_on_cpu, settings):
    p = problem(settings)
    expected, expected_raised = fitted(None, p, 0, len(p.signals))
    assert np.isfinite(expected).all(axis=1).sum() > 690
    assert expected_raised.sum() == 3
    for order in ORDERS:
        with loader.thread_order(order):
            out, raised = fitted(kernel(cuda_on_cpu, "fit_rows"), p, 0, len(p.signals))
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(raised, expected_raised)
    part, part_raised = fitted(kernel(cuda_on_cpu, "fit_rows"), p, 50, 301)
    np.testing.assert_array_equal(part[50:351], expected[50:351])
    np.testing.assert_array_equal(part_raised[50:351], expected_raised[50:351])
    for outside in (slice(0, 50), slice(351, None)):
        assert np.isnan(part[outside]).all()
        assert not part_raised[outside].any()


@BOTH_REALS
@pytest.mark.parametrize("order", ORDERS)
def test_eigenvalues_and_composition_have_the_bits_of_their_backend(cuda_on_cpu, real, order):
    tensors, out = some_tensors(real), np.empty((300, 6), real)
    values, vectors = np.empty((300, 3), real), np.empty((300, 3, 3), real)
    with loader.thread_order(order):
        kernel(cuda_on_cpu, "eigen_rows", real)((3,), (128,), (tensors, np.int32(300), values, vectors))
        kernel(cuda_on_cpu, "compose_rows", real)((3,), (128,), (values, vectors, CHANGE, np.int32(300), out))
    expected = cpu.eigen_decompose(tensors)
    np.testing.assert_array_equal(values, expected[0])
    np.testing.assert_array_equal(vectors, expected[1])
    np.testing.assert_array_equal(out, cpu.compose(*expected, CHANGE))


@pytest.mark.long  # another build of the kernels, whose bits are compared above
def test_the_kernels_have_no_undefined_behavior(cuda_on_cpu, capfd):
    module = cuda_on_cpu(gpu.SOURCE, sanitize=True)
    p = problem(FitSettings(), voxels=40)
    fitted(module.get_function("fit_rows"), p, 0, 40)
    values, vectors, tensors = np.empty((300, 3), np.float32), np.empty((300, 9), np.float32), some_tensors(np.float32)
    module.get_function("eigen_rows")((3,), (128,), (tensors, np.int32(300), values, vectors))
    composed = (values, vectors, np.eye(3), np.int32(300), tensors)
    module.get_function("compose_rows")((3,), (128,), composed)
    assert "runtime error" not in capfd.readouterr().err


# -- host code --------------------------------------------------------------------------------------------------------


def test_both_backends_have_the_same_methods():
    check_same_methods(cpu, gpu)


@BOTH_REALS
def test_device_arrays_give_the_bits_of_host_arrays(fake_gpu, real):
    cupy = fake_gpu().module
    tensors = some_tensors(real)[:299].reshape(13, 23, 6)
    values, vectors = gpu.eigen_decompose(cupy.asarray(tensors))
    expected = cpu.eigen_decompose(tensors)
    np.testing.assert_array_equal(cupy.asnumpy(values), expected[0])
    np.testing.assert_array_equal(cupy.asnumpy(vectors), expected[1])
    composed = gpu.compose(values, vectors, CHANGE)
    assert (composed.shape, composed.dtype) == ((13, 23, 6), real)
    np.testing.assert_array_equal(cupy.asnumpy(composed), cpu.compose(*expected, CHANGE))


def test_arrays_in_any_order_of_memory_are_understood(fake_gpu):
    cupy = fake_gpu().module
    tensors = np.asfortranarray(some_tensors(np.float64)[:99])
    values, _ = gpu.eigen_decompose(cupy.asarray(tensors))
    np.testing.assert_array_equal(cupy.asnumpy(values), cpu.eigen_decompose(tensors)[0])


@pytest.fixture(scope="module")
def small_scan():
    """A corner of the phantom with some broken signals."""
    scan = load_brain_phantom()
    data = scan.data[18:34, 20:44, 16:36].astype(np.float32)
    data[4, 4, 4, 3], data[5, 5, 5], data[6, 6, 6, 0] = 0, 0, np.nan
    return dataclasses.replace(scan, data=data)


def check_same_field(found, expected):
    for name in ("tensors", "mask", "repaired", "s0"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.notes == expected.notes


@ALL_SETTINGS
@pytest.mark.parametrize("device", ["cuda", "cuda:0,1,2"])
def test_a_fit_on_gpus_has_the_bits_of_a_fit_on_the_cpu(fake_gpu, in_chunks_of, small_scan, settings, device):
    mask = np.ones(small_scan.shape, bool)
    expected = fit_tensors(small_scan, mask, settings, device="cpu")
    pretended = fake_gpu(count=3)
    in_chunks_of(500)
    check_same_field(fit_tensors(small_scan, mask, settings, device=device), expected)
    assert {where for where, name, *_ in pretended.log if name == "fit_rows"} == {0} | set(range(device.count(",") + 1))


def test_a_fit_leaves_no_memory_taken_and_a_failing_kernel_is_not_silent(fake_gpu, small_scan):
    pretended, mask = fake_gpu(), np.ones(small_scan.shape, bool)
    fit_tensors(small_scan, mask, device="cuda")
    assert pretended.used_bytes[0] == 0
    pretended.kernel_error = RuntimeError("cudaErrorIllegalAddress")
    with pytest.raises(RuntimeError, match="cudaErrorIllegalAddress"):
        fit_tensors(small_scan, mask, device="cuda")


def test_a_scan_that_does_not_fit_on_the_gpu_is_an_error_with_numbers(fake_gpu, small_scan):
    fake_gpu(total_bytes=MIB // 2)
    with pytest.raises(OutOfGpuMemory, match="MB of GPU memory"):
        fit_tensors(small_scan, np.ones(small_scan.shape, bool), device="cuda")


# -- a real GPU -------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@ALL_SETTINGS
def test_a_real_gpu_fits_the_same_tensors(settings):
    p = problem(settings, voxels=3000)
    runs = [cpu.Run(p), gpu.Run(p, device=Device("cuda", (0,)))]
    for run in runs:
        run.advance(0, 1000)
        run.advance(1000, 2000)
    (expected, expected_raised), (out, raised) = (run.snapshot() for run in runs)
    sound = np.delete(np.arange(3000), [3, 8, 9])  # the broken voxels are badly conditioned
    np.testing.assert_array_equal(raised, expected_raised)
    np.testing.assert_allclose(out[sound], expected[sound], rtol=1e-9, atol=1e-10)


@pytest.mark.gpu
@pytest.mark.parametrize(("real", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-13)])
def test_a_real_gpu_finds_the_same_eigenvalues(real, tolerance):
    import cupy

    tensors = np.delete(some_tensors(real), 102, axis=0)
    values, vectors = gpu.eigen_decompose(cupy.asarray(tensors))
    np.testing.assert_allclose(cupy.asnumpy(values), cpu.eigen_decompose(tensors)[0], atol=tolerance)
    found = cupy.asnumpy(gpu.compose(values, vectors, CHANGE))
    np.testing.assert_allclose(found, cpu.compose(*cpu.eigen_decompose(tensors), CHANGE), atol=40 * tolerance)
