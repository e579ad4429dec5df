"""The CUDA kernels of FODs against their CPU backends: through g++ with their host code, and on a real GPU."""

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.drivers import Runs
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.fods import CsdSettings, PeakSettings
from napari_gpubio.diffusion.fods.harmonics import convolution_factors, half_sphere, harmonics, orders
from napari_gpubio.diffusion.kernels.csd import cpu as csd_cpu
from napari_gpubio.diffusion.kernels.csd import gpu as csd_gpu
from napari_gpubio.diffusion.kernels.csd.problem import csd_problem
from napari_gpubio.diffusion.kernels.multitissue import cpu as tissue_cpu
from napari_gpubio.diffusion.kernels.multitissue import gpu as tissue_gpu
from napari_gpubio.diffusion.kernels.multitissue.problem import constrained_problem
from napari_gpubio.diffusion.kernels.peaks import cpu as peaks_cpu
from napari_gpubio.diffusion.kernels.peaks import gpu as peaks_gpu
from napari_gpubio.diffusion.kernels.peaks.problem import PeakProblem
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.structs import struct_in
from tests.runs import check_same_methods

pytestmark = pytest.mark.daily

RESPONSE = 1000.0 * np.array([1.0, -0.35, 0.08, -0.012, 0.001])
ORDERS = [loader.NATURAL, 5]


def crossings(voxels, lmax=8, seed=0):
    """Coefficients of FODs of two fibers with random directions and shares, shape (voxels, N)."""
    random = np.random.default_rng(seed)
    directions = random.normal(size=(voxels, 2, 3))
    shares = random.dirichlet([2.0, 2.0], size=voxels)
    values = harmonics(directions.reshape(-1, 3), lmax).reshape(voxels, 2, -1)
    return np.einsum("vk,vkn->vn", shares, values)


def noisy_signals(voxels, directions, seed=0):
    """Signals of such FODs with noise, and of a voxel that is zero and one of noise alone."""
    factors = convolution_factors(RESPONSE)
    forward = harmonics(directions, 8) * factors[orders(8)[:, 0] // 2]
    signals = crossings(voxels, seed=seed) @ forward.T
    signals += np.random.default_rng(seed + 1).normal(size=signals.shape) * 0.05 * signals.mean()
    signals[3], signals[4] = 0.0, np.abs(signals[4] - signals[4].mean())
    return signals


BACKENDS = [
    (csd_cpu, csd_gpu, "CsdArrays", "CSD_ARRAYS"),
    (tissue_cpu, tissue_gpu, "ConstrainedArrays", "CONSTRAINED_ARRAYS"),
    (peaks_cpu, peaks_gpu, "PeakArrays", "PEAK_ARRAYS"),
]


def fill(problem, device, **rows):
    """Do all voxels of a problem, on all processors of a device."""
    with Runs(problem, device, **rows) as runs:
        assert list(runs.chunks())[-1] == problem.items


def deconvolved(device, settings, directions=32, voxels=16):
    """FODs of some voxels, and the iterations they took."""
    table = half_sphere(directions)
    problem = csd_problem(noisy_signals(voxels, table), table, RESPONSE, settings)
    out, took = np.full((voxels, problem.coefficients), 7.0, np.float32), np.full(voxels, 99, np.uint8)
    fill(problem, device, out=out, took=took)
    return out, took


def solved(device, voxels=5, constraints=100):
    """Solutions of constrained problems, and the constraints that were taken up."""
    table = half_sphere(45)
    forward = harmonics(table, 8) * convolution_factors(RESPONSE)[orders(8)[:, 0] // 2] / 1000.0
    problem = constrained_problem(
        noisy_signals(voxels, table) / 1000.0, forward, harmonics(half_sphere(constraints), 8)
    )
    out, took = np.full((voxels, 45), 7.0, np.float32), np.full(voxels, 999, np.uint16)
    fill(problem, device, out=out, took=took)
    return out, took


def peaks_of(device, lmax, settings, voxels=24):
    """Peaks of some FODs, those of no fiber and of the same amplitude everywhere among them, and their number."""
    fods = crossings(voxels, lmax).astype(np.float32)
    fods[5], fods[6], fods[6, 0], fods[7] = 0.0, 0.0, 1.0, np.nan
    out, counts = np.zeros((voxels, settings.most, 4)), np.full(voxels, 99, np.uint8)
    fill(PeakProblem(coefficients=fods, settings=settings), device, out=out, counts=counts)
    return out, counts


@pytest.mark.parametrize(("cpu", "gpu", "struct", "layout"), BACKENDS)
def test_backends_have_the_same_methods_and_kernels_read_what_they_are_given(cpu, gpu, struct, layout):
    check_same_methods(cpu, gpu)
    assert struct_in(kernels.source(gpu.SOURCE), struct) == getattr(gpu, layout)


@pytest.mark.parametrize(
    ("precision", "lmax", "order"), [("double", 8, loader.NATURAL), ("single", 4, 5), ("double", 10, 5)]
)
def test_a_deconvolution_by_cuda_has_the_bits_of_the_cpu(fake_gpu, precision, lmax, order):
    settings, directions = CsdSettings(precision=precision, lmax=lmax, constraint_directions=150), 40
    expected, expected_took = deconvolved(CPU, settings, directions)
    assert 2 <= expected_took.max() <= 50
    fake_gpu(count=2)
    with loader.thread_order(order):
        out, took = deconvolved(Device("cuda", (0, 1)), settings, directions)
    np.testing.assert_array_equal(took, expected_took)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("order", ORDERS)
def test_a_constrained_solution_by_cuda_has_the_bits_of_the_cpu(fake_gpu, order):
    expected, expected_took = solved(CPU)
    assert expected_took.max() > 20
    fake_gpu(count=2)
    with loader.thread_order(order):
        out, took = solved(Device("cuda", (0, 1)))
    np.testing.assert_array_equal(took, expected_took)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(("lmax", "order"), [(8, loader.NATURAL), (8, 5), (12, loader.NATURAL)])
def test_peaks_by_cuda_have_the_bits_of_the_cpu(fake_gpu, lmax, order):
    settings = PeakSettings(most=3)
    expected, expected_counts = peaks_of(CPU, lmax, settings)
    assert set(expected_counts) >= {0, 2, 3}
    fake_gpu(count=2)
    with loader.thread_order(order):
        out, counts = peaks_of(Device("cuda", (0, 1)), lmax, settings)
    np.testing.assert_array_equal(counts, expected_counts)
    np.testing.assert_array_equal(out, expected)


# -- a real GPU -------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_a_real_gpu_gives_the_same_fods_and_peaks():
    gpu = Device("cuda", (0,))
    for settings in (CsdSettings(lmax=8), CsdSettings(lmax=12), CsdSettings(lmax=8, precision="single")):
        fods = [deconvolved(device, settings, 60, voxels=2000) for device in (gpu, CPU)]
        np.testing.assert_array_equal(fods[0][1], fods[1][1])
        np.testing.assert_array_equal(fods[0][0], fods[1][0])
    (out, took), (expected, expected_took) = (solved(device, voxels=500, constraints=200) for device in (gpu, CPU))
    np.testing.assert_array_equal(took, expected_took)
    np.testing.assert_array_equal(out, expected)
    (out, counts), (expected, expected_counts) = (peaks_of(device, 8, PeakSettings(), 2000) for device in (gpu, CPU))
    np.testing.assert_array_equal(counts, expected_counts)
    np.testing.assert_allclose(out[..., 3], expected[..., 3], atol=1e-9)
    cosines = np.abs((out[..., :3] * expected[..., :3]).sum(axis=-1))  # an axis has no sign
    np.testing.assert_allclose(cosines[expected[..., 3] > 0], 1.0, atol=1e-9)


def test_a_gpu_with_too_little_shared_memory_is_refused_with_what_to_choose(fake_gpu, monkeypatch):
    fake_gpu()
    monkeypatch.setattr("napari_gpubio.core.device.shared_memory_bytes", lambda _: 40 * 1024)
    for precision, lmax, fits in (("double", 8, True), ("double", 10, False), ("single", 10, True)):
        settings = CsdSettings(precision=precision, lmax=lmax)
        if fits:
            deconvolved(Device("cuda", (0,)), settings, directions=60, voxels=5)
            continue
        with pytest.raises(
            InvalidInput, match=r"66 coefficients in double precision needs \d+ kB .* has 40 kB; choose"
        ):
            deconvolved(Device("cuda", (0,)), settings, directions=60, voxels=5)
    monkeypatch.setattr("napari_gpubio.core.device.shared_memory_bytes", lambda _: 8 * 1024)
    with pytest.raises(
        InvalidInput, match=r"several tissues with 45 coefficients needs .* smaller lmax, or device='cpu'"
    ):
        solved(Device("cuda", (0,)))
