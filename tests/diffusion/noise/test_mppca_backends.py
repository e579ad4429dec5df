"""Marchenko-Pastur PCA in CUDA beside its CPU backend, with g++ in place of a GPU."""

import functools

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import OutOfGpuMemory
from napari_gpubio.diffusion.io.dwi import read_dwi
from napari_gpubio.diffusion.kernels.mppca import cpu, gpu, projection
from napari_gpubio.diffusion.kernels.mppca.problem import Denoised, pca_problem
from napari_gpubio.diffusion.noise import NoiseSettings, denoise_scan, denoise_scan_steps
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.structs import struct_in
from tests.diffusion.noise.samples import noisy, scan_of
from tests.runs import check_closing_frees, check_same_methods

pytestmark = pytest.mark.daily

GPU = Device("cuda", (0,))
CASES = {  # shape, volumes, window
    "more voxels": ((5, 4, 6), 20, (3, 3, 3)),
    "more volumes": ((4, 4, 5), 45, (3, 3, 3)),
    "as many": ((4, 4, 4), 27, (3, 3, 3)),
    "thin": ((6, 5, 2), 14, (5, 5, 2)),
    "several warps": ((5, 5, 5), 70, (5, 5, 5)),
}


def problem(case="more voxels", *, double=True, exact=True, every=3, data=None):
    shape, volumes, window = CASES[case]
    data = noisy(shape, volumes, 3)[1] if data is None else data
    mask = np.arange(np.prod(data.shape[:3])).reshape(data.shape[:3]) % every == 0
    return pca_problem(data, mask, window, exact=exact, double=double)


def done(run):
    """Everything that a run makes, voxel by voxel, in two chunks."""
    count = len(run._problem.voxels)
    run.advance(0, count // 3)
    run.advance(count // 3, count - count // 3)
    parts = run.take()
    assert not run.take()
    run.close()
    assert [part.start for part in parts] == list(np.cumsum([0] + [len(part.sigma) for part in parts[:-1]]))
    return Denoised(0, *(np.concatenate([part[i] for part in parts]) for i in (1, 2, 3)))


def check_backends(one, signals=1e-6):
    expected, found = done(cpu.Run(one)), done(gpu.Run(one, device=GPU))
    scale = np.abs(one.data).max()
    double = one.real == np.float64
    same = found.rank == expected.rank
    assert same.mean() >= (1.0 if double else 0.98)  # an eigenvalue at the edge of the noise falls on either side
    np.testing.assert_allclose(found.sigma[same], expected.sigma[same], rtol=1e-6 if double else 2e-3)
    atol = scale * (signals if double else 1e-4)
    np.testing.assert_allclose(found.signals[same], expected.signals[same], rtol=0, atol=atol)
    assert [a.dtype for a in found[1:]] == [a.dtype for a in expected[1:]] == [np.float32, np.float32, np.uint16]
    return found


@pytest.mark.parametrize("double", [True, False], ids=["double", "single"])
@pytest.mark.parametrize("case", CASES)
def test_the_kernel_agrees_with_its_backend(fake_gpu, case, double):
    fake_gpu()
    found = check_backends(problem(case, double=double, every=60 if case == "several warps" else 5))
    assert (found.rank >= 3).all()


def test_the_first_estimator_agrees(fake_gpu):
    fake_gpu()
    check_backends(problem(exact=False))


@pytest.mark.parametrize("case", ["more voxels", "several warps"])
@pytest.mark.parametrize("double", [True, pytest.param(False, marks=pytest.mark.long)])
def test_matrices_in_global_memory_agree(fake_gpu, monkeypatch, case, double):
    fake_gpu()
    one = problem(case, double=double, every=60 if case == "several warps" else 15)
    shared = done(gpu.Run(one, device=GPU))
    monkeypatch.setattr(gpu, "MIN_BLOCKS", 1000)
    assert not gpu.Plan(one, GPU).in_shared
    elsewhere = done(gpu.Run(one, device=GPU))
    for a, b in zip(shared, elsewhere, strict=True):
        np.testing.assert_array_equal(a, b)


def test_slabs_agree_with_the_whole(fake_gpu, monkeypatch):
    """Planes of one window at a time, where the series does not fit."""
    pretended = fake_gpu()
    mask = np.zeros((12, 4, 3), bool)
    mask[:, ::2, 1] = True
    one = pca_problem(noisy((12, 4, 3), 14, 3)[1], mask, (3, 3, 3), exact=True, double=True)
    whole = done(gpu.Run(one, device=GPU))
    before = len(pretended.log)
    monkeypatch.setattr(gpu, "RESIDENT_SHARE", 0.0)
    slabs = done(gpu.Run(one, device=GPU))
    assert len(pretended.log) - before >= 10
    for a, b in zip(whole, slabs, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("order", [loader.REVERSED, 11])
@pytest.mark.parametrize("case", ["more volumes", "several warps"])
def test_the_order_of_threads_changes_nothing(fake_gpu, order, case):
    fake_gpu()
    one = problem(case, every=60 if case == "several warps" else 25)
    natural = done(gpu.Run(one, device=GPU))
    with loader.thread_order(order):
        other = done(gpu.Run(one, device=GPU))
    for a, b in zip(natural, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_eigenvalues_that_are_not_found_are_reported_by_both(fake_gpu, monkeypatch):
    fake_gpu()
    for module in (projection, gpu):
        monkeypatch.setattr(module, "sweep_room", lambda _: 35)
    one = problem("more voxels", every=4)
    expected, found = done(cpu.Run(one)), done(gpu.Run(one, device=GPU))
    lost = np.isnan(expected.sigma)
    assert 0 < lost.mean() < 1
    np.testing.assert_array_equal(np.isnan(found.sigma), lost)
    for part in (expected, found):
        assert not part.rank[lost].any()
        np.testing.assert_array_equal(part.signals[lost], one.data[tuple(one.voxels[lost].T)])


def test_noiseless_and_empty_windows_agree(fake_gpu):
    fake_gpu()
    data = np.zeros((5, 4, 6, 20), np.float32)
    data[..., 4:, :] = 7
    found = check_backends(problem(data=data))
    assert np.isfinite(found.signals).all()


@pytest.mark.long
def test_the_kernel_has_no_undefined_behavior(fake_gpu, monkeypatch, capfd):
    fake_gpu()
    monkeypatch.setattr(loader, "compile_text", functools.partial(loader.compile_text, sanitize=True))
    for case in ("more voxels", "more volumes"):
        check_backends(problem(case, every=10))
    assert "runtime error" not in capfd.readouterr().err


def test_several_gpus_agree_with_one_cpu(fake_gpu, in_chunks_of):
    fake_gpu(count=3)
    in_chunks_of(7)
    scan, settings = scan_of(noisy((5, 4, 3), 14, 3)[1]), NoiseSettings(precision="double")
    expected = denoise_scan(scan, settings=settings, device="cpu")
    found = denoise_scan(scan, settings=settings, device="cuda:all")
    np.testing.assert_array_equal(found.rank, expected.rank)
    np.testing.assert_array_equal(found.mask, expected.mask)
    np.testing.assert_allclose(found.scan.data, expected.scan.data, rtol=1e-5)
    assert found.parameters["device"].startswith("cuda:0 (Fake GPU 0), cuda:1")


def test_memory_that_runs_out_for_a_while_changes_nothing(fake_gpu):
    pretended = fake_gpu()
    scan, mask = scan_of(noisy((6, 4, 3), 14, 3)[1]), np.arange(72).reshape(6, 4, 3) % 7 == 0
    expected = denoise_scan(scan, mask, device="cuda")
    used = pretended.allocations
    for which in range(1, used + 1, 2):
        pretended.fail_allocations(which)
        found = denoise_scan(scan, mask, device="cuda")
        np.testing.assert_array_equal(found.scan.data, expected.scan.data)
        assert found.complete


def test_closing_frees_all_gpus(fake_gpu, in_chunks_of):
    pretended = fake_gpu(count=3)
    in_chunks_of(3)
    check_closing_frees(pretended, denoise_scan_steps(scan_of(noisy((5, 4, 3), 14, 3)[1]), device="cuda:all"))


def test_too_little_gpu_memory_is_reported_with_numbers(fake_gpu):
    fake_gpu(total_bytes=15_000)
    with pytest.raises(OutOfGpuMemory, match=r"denoising the scan needs about \d+ MB"):
        denoise_scan(scan_of(noisy((9, 9, 9), 20, 3)[1]), device="cuda")


@pytest.mark.parametrize("double", [True, False])
def test_the_struct_is_laid_out_as_the_kernel_reads_it(double):
    real = np.float64 if double else np.float32
    assert struct_in(kernels.source(gpu.SOURCE), "PcaArrays", real=real) == gpu.layout_of(real)


def test_both_backends_have_the_same_methods():
    check_same_methods(cpu, gpu)


def test_a_real_brain_agrees(fake_gpu, shared_data):
    fake_gpu()
    scan = read_dwi(shared_data / "dwi" / "whole_brain_b1000" / "dwi.nii.gz")
    data = np.ascontiguousarray(scan.data[24:32, 33:41, 25:33], np.float32)
    mask = np.arange(8**3).reshape(8, 8, 8) % 25 == 0
    check_backends(pca_problem(data, mask, (5, 5, 5), exact=True, double=True))


@pytest.mark.gpu
@pytest.mark.parametrize(("volumes", "window"), [(33, (5, 5, 5)), (80, (5, 5, 5)), (200, (5, 5, 5)), (300, (7, 7, 7))])
@pytest.mark.parametrize("double", [True, False])
def test_a_gpu_agrees_with_the_cpu(volumes, window, double):
    data = noisy((12, 12, 12), volumes, 4)[1]
    mask = np.arange(12**3).reshape(12, 12, 12) % 9 == 0
    check_backends(pca_problem(data, mask, window, exact=True, double=double))
