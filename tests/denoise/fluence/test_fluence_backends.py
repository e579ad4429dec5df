"""CUDA and its CPU backend, bit for bit, with g++ in place of a GPU."""

import functools

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import OutOfGpuMemory
from napari_gpubio.denoise.fluence import FluenceSettings, denoise_fluence
from napari_gpubio.denoise.kernels.fluence import cpu, gpu
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.structs import struct_in
from tests.denoise.fluence.samples import SHORT, diffuse, poisson_halves, problem_of
from tests.runs import check_same_methods

GPU = Device("cuda", (0,))
SHAPE = (9, 21, 37)  # not whole blocks of the kernel along any axis
HALVES = poisson_halves(diffuse(SHAPE), 200)
X, Y, Z = np.indices(SHAPE)
OPTIONS = {
    "plain": {},
    "labels": {"labels": (X + Z > 20).astype(np.int64)},
    "mask": {"mask": (Y > 2) & (Z < 30)},
    "cap": {"mueff_per_mm": 0.3 + 0.1 * X},
    "long voxels": {"voxel_size_mm": (1.0, 2.0, 1.2)},
    "flat voxels": {"voxel_size_mm": (1.0, 9.0, 1.0)},  # nothing is done along y
}


def check_same_bits(found, expected, names, least=0.0):
    """Equal bits; what is below ``least`` counts as nothing."""
    for name in names:
        a, b = getattr(found, name), getattr(expected, name)
        assert np.isfinite(a).all(), name
        np.testing.assert_array_equal(np.where(abs(a) < least, 0, a), np.where(abs(b) < least, 0, b), err_msg=name)


def check_backends(problem, least=0.0):
    runs = cpu.Run(problem), gpu.Run(problem, device=GPU)
    for run in runs:
        run.advance(0, len(problem.candidates))
    expected, found = (run.snapshot() for run in runs)
    check_same_bits(found, expected, expected._fields, least)
    lit = problem.halves[0] > 0
    assert (expected.values != problem.halves[0])[lit].mean() > 0.9
    return expected


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_kernels_have_the_bits_of_their_backend(fake_gpu, options):
    fake_gpu()
    check_backends(problem_of(HALVES, **options))


def test_a_few_counts_in_the_dark_have_the_bits_of_their_backend(fake_gpu):
    """Where the reference is next to nothing, errors are too large for a number."""
    fake_gpu()
    halves = np.zeros((2, 30, 30, 50), np.float32)
    halves[:, 15, 15, 2], halves[0, 3, 4, 40], halves[1, 25, 20, 30] = 1.0, 1.0, 1.0
    runs = [backend.Run(problem_of(tuple(halves), FluenceSettings()), device=GPU) for backend in (cpu, gpu)]
    for run in runs:
        run.advance(0, len(run.problem.candidates))
    expected, found = (run.snapshot() for run in runs)
    check_same_bits(found, expected, expected._fields)
    assert (expected.values != halves.mean(axis=0)).any()


@pytest.mark.parametrize("order", [loader.REVERSED, 11])
def test_the_order_of_threads_changes_nothing(fake_gpu, order):
    fake_gpu()
    with loader.thread_order(order):
        check_backends(problem_of(tuple(half[:6, :7, :9] for half in HALVES)))


@pytest.mark.validate
def test_the_kernels_have_no_undefined_behavior(fake_gpu, monkeypatch, capfd):
    fake_gpu()
    monkeypatch.setattr(loader, "compile_text", functools.partial(loader.compile_text, sanitize=True))
    check_backends(problem_of(tuple(half[:6, :7, :9] for half in HALVES)))
    assert "runtime error" not in capfd.readouterr().err


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


def test_too_little_gpu_memory_is_told_with_numbers(fake_gpu):
    fake_gpu(total_bytes=100_000)
    with pytest.raises(OutOfGpuMemory, match=r"denoising this fluence needs about \d+ MB"):
        denoise_fluence(*HALVES, device="cuda")


def test_memory_is_foreseen(fake_gpu):
    fake = fake_gpu()
    problem = problem_of(HALVES, mueff_per_mm=0.2)
    run = gpu.Run(problem, device=GPU)
    run.advance(0, 4)
    assert fake.used_bytes[0] <= 1.2 * problem.resident_bytes


def test_both_backends_have_the_same_methods_and_passes(cuda_on_cpu):
    check_same_methods(cpu, gpu)
    names = {name.removesuffix("_across").removesuffix("_along") for name in cuda_on_cpu(gpu.SOURCE).kernels}
    assert names - {"keep"} == set(cpu.PASSES)


@pytest.mark.parametrize("name", ["Comparison", "Update"])
def test_structs_are_laid_out_as_in_the_kernels(name):
    assert struct_in(kernels.source(gpu.SOURCE), name) == getattr(gpu, name.upper())
