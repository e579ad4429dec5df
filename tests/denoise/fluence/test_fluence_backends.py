"""CUDA and its CPU backend, bit for bit, with g++ in place of a GPU."""

import numpy as np
import pytest

from napari_gpubio.core.device import Device
from napari_gpubio.denoise.fluence import FluenceSettings, denoise_fluence
from napari_gpubio.denoise.kernels.fluence import cpu, gpu
from tests.denoise.fluence.samples import SHORT, diffuse, poisson_halves, problem_of

pytestmark = pytest.mark.daily

GPU = Device("cuda", (0,))
SHAPE = (9, 21, 37)  # not whole blocks of the kernel along any axis
HALVES = poisson_halves(diffuse(SHAPE), 200)
X, Y, Z = np.indices(SHAPE)
OPTIONS = {
    "plain": {},
    "labels": {"labels": (X + Z > 20).astype(np.int64)},
    "mask": {"mask": (Y > 2) & (Z < 30)},
    "cap": {"mueff_per_mm": 0.3 + 0.1 * X},
    "guide": {"guide": diffuse(SHAPE, k=0.3) * (1 + (X > 4)), "tissues": (X > 4).astype(np.int64)},
    "guide, mask": {"guide": diffuse(SHAPE), "mask": Y > 2, "labels": (X + Z > 20).astype(np.int64)},
    "long voxels": {"voxel_size_mm": (1.0, 2.0, 1.2)},
    "flat voxels": {"voxel_size_mm": (1.0, 9.0, 1.0)},  # nothing is done along y
}


def check_same_bits(found, expected, names, least=0.0):
    """Equal bits; what is below ``least`` counts as nothing."""
    for name in names:
        a, b = getattr(found, name), getattr(expected, name)
        assert np.isfinite(a).all(), name
        np.testing.assert_array_equal(np.where(abs(a) < least, 0, a), np.where(abs(b) < least, 0, b), err_msg=name)


def run_backends(problem, least=0.0):
    runs = cpu.Run(problem), gpu.Run(problem, device=GPU)
    for run in runs:
        run.advance(0, len(problem.candidates))
    expected, found = (run.snapshot() for run in runs)
    check_same_bits(found, expected, expected._fields, least)
    return expected


def check_backends(problem, least=0.0):
    expected = run_backends(problem, least)
    raw = (problem.halves[0] / problem.scale).astype(np.float32)
    assert (expected.values != raw)[raw > 0].mean() > 0.9


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_kernels_have_the_bits_of_their_backend(fake_gpu, options):
    fake_gpu()
    check_backends(problem_of(HALVES, **options))


def test_a_few_counts_in_the_dark_have_the_bits_of_their_backend(fake_gpu):
    """Where the reference is next to nothing, errors are too large for a number."""
    fake_gpu()
    halves = np.zeros((2, 30, 30, 50), np.float32)
    halves[:, 15, 15, 2], halves[0, 3, 4, 40], halves[1, 25, 20, 30] = 1.0, 1.0, 1.0
    expected = run_backends(problem_of(tuple(halves), FluenceSettings()))
    assert (expected.values != halves.mean(axis=0)).any()


def test_a_gpu_rounds_as_the_cpu_does(fake_gpu, monkeypatch):
    """A fused product could tip the choice between two windows that are as good, for a whole neighborhood."""
    fake = fake_gpu()
    compiled, whole = [], fake.module.RawModule
    monkeypatch.setattr(fake.module, "RawModule", lambda **how: compiled.append(how["options"]) or whole(**how))
    denoise_fluence(*HALVES, SHORT, device="cuda")
    assert ("-std=c++17", "--fmad=false") in compiled
    assert all("--fmad=false" in options for options in compiled if options)


def test_of_several_gpus_the_first_is_used(fake_gpu):
    fake = fake_gpu(count=2)
    expected = denoise_fluence(*HALVES, SHORT, device="cpu")
    found = denoise_fluence(*HALVES, SHORT, device="cuda:all")
    np.testing.assert_array_equal(found.image, expected.image)
    assert {device for device, *_ in fake.log} == {0}


def test_closing_frees_the_gpu(fake_gpu):
    fake = fake_gpu()
    run = gpu.Run(problem_of(HALVES), device=GPU)
    run.advance(0, 1)
    assert fake.used_bytes[0] > 10 * HALVES[0].size * 4
    run.close()
    assert fake.used_bytes[0] == 0


def test_memory_is_foreseen(fake_gpu):
    fake = fake_gpu()
    problem = problem_of(HALVES, mueff_per_mm=0.2)
    run = gpu.Run(problem, device=GPU)
    run.advance(0, 4)
    assert fake.used_bytes[0] <= 1.2 * problem.memory(run.device).total


def test_both_backends_have_the_same_passes(cuda_on_cpu):
    names = {name.removesuffix("_across").removesuffix("_along") for name in cuda_on_cpu(gpu.SOURCE).kernels}
    assert names - {"keep", "count_equal"} == set(cpu.PASSES)
