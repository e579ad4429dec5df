"""CUDA and its CPU backend, bit for bit, with g++ in place of a GPU."""

import functools

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput, OutOfGpuMemory
from napari_gpubio.denoise import DenoiseSettings, denoise, denoise_fluence, denoise_steps
from napari_gpubio.denoise.kernels.anlm import cpu, gpu, problem, tally
from napari_gpubio.denoise.kernels.fluence import cpu as fluence_cpu
from napari_gpubio.denoise.kernels.fluence import gpu as fluence_gpu
from napari_gpubio.denoise.settings import Large, Small
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.structs import struct_in
from tests.denoise.fluence import test_fluence_backends as fluence
from tests.denoise.fluence.samples import problem_of as fluence_problem_of
from tests.denoise.samples import problem_of, steps_and_noise
from tests.runs import check_closing_frees, check_same_methods

pytestmark = pytest.mark.daily

GPU = Device("cuda", (0,))
SHAPE = (5, 13, 29)  # not whole blocks of the kernel along any axis
OPTIONS = {
    "mixed": {},
    "small": {"patches": Small(), "search_radius": 2},
    "large": {"patches": Large(), "preselection": "itk", "center": "largest"},
    "coupe": {"patches": Small(), "preselection": "coupe", "skip_zeros": True},
    "cut-off": {"preselection": "none", "cutoff": 3.0, "center": "largest"},
    "rician": {"noise_model": "rician"},
    "rician-simple": {"noise_model": "rician-simple", "patches": Large()},
}


def check_backends(problem):
    runs = cpu.Run(problem), gpu.Run(problem, device=GPU)
    for run in runs:
        run.advance(0, problem.items)
    (expected, found), (whole, other) = ([run.snapshot() for run in runs], [run.finish() for run in runs])
    np.testing.assert_array_equal(found.sums, expected.sums)
    np.testing.assert_array_equal(found.estimates, expected.estimates)
    np.testing.assert_array_equal(other.values, whole.values)
    np.testing.assert_array_equal(other.noise, whole.noise)
    assert found.done == expected.done == [(0, problem.items)]
    assert np.isfinite(whole.values).all()
    assert (whole.values != problem.values).mean() > 0.5
    return whole


LONG = ("small", "rician-simple")  # whose code other options have, too


@pytest.mark.parametrize(
    "options",
    [pytest.param(one, id=name, marks=[pytest.mark.long] * (name in LONG)) for name, one in OPTIONS.items()],
)
def test_kernels_have_the_bits_of_their_backend(fake_gpu, options):
    fake_gpu()
    values = steps_and_noise(SHAPE, seed=1, empty=0.05) / 100
    check_backends(problem_of(values, DenoiseSettings(**{"search_radius": 1, **options})))


LEAN, *OTHERS = gpu.BUILDS[:0:-1]


@pytest.mark.parametrize("one", [LEAN, *(pytest.param(other, marks=pytest.mark.long) for other in OTHERS)])
def test_every_build_has_the_same_bits(fake_gpu, monkeypatch, one):
    fake_gpu()
    monkeypatch.setattr(gpu, "BUILDS", (one,))
    check_backends(problem_of(steps_and_noise(SHAPE, seed=1) / 100, DenoiseSettings(search_radius=1)))


@pytest.mark.parametrize("options", [{}, {"noise_model": "rician", "patches": Large()}], ids=["mixed", "large"])
def test_masks_known_noise_and_long_voxels_have_the_bits_of_their_backend(fake_gpu, options):
    fake_gpu()
    rng = np.random.default_rng(2)
    values = steps_and_noise((9, 5, 30), seed=2) / 100
    variance = rng.random(values.shape).astype(np.float32) * 0.01
    settings = DenoiseSettings(search_radius=2, **options)
    usable = rng.random(values.shape) < 0.8
    check_backends(problem_of(values, settings, usable, variance, (1, 2.5, 1.2)))


@pytest.mark.parametrize("variance", [None, 0.002])
@pytest.mark.parametrize("shape", [(1, 13, 29), (13, 29, 1)])
def test_planes_have_the_bits_of_their_backend(fake_gpu, shape, variance):
    fake_gpu()
    values = steps_and_noise(shape, seed=9) / 100
    known = None if variance is None else np.full(shape, variance, np.float32)
    check_backends(problem_of(values, DenoiseSettings(search_radius=2), None, known))


@pytest.mark.parametrize("options", [{}, {"noise_model": "rician"}], ids=["gaussian", "rician"])
def test_slabs_have_the_bits_of_the_whole(fake_gpu, monkeypatch, options):
    fake_gpu()
    monkeypatch.setattr(gpu, "CHOSEN_BYTES", 1)
    settings = DenoiseSettings(search_radius=1, **options)
    p = problem_of(steps_and_noise((71, 5, 30), seed=8) / 100, settings)
    run = cpu.Run(p)
    run.advance(0, p.items)
    whole = run.finish()
    assert len(list(tally.mixed_slabs(p.shape))) == 1
    monkeypatch.setattr(tally, "MIXED_VOXELS", 1)
    assert len(list(tally.mixed_slabs(p.shape))) == 3
    for slab in ((0, p.items), *((brick, 1) for brick in range(p.items))):
        run.advance(*slab)
        for found, expected in zip(run.finish(), whole, strict=True):
            np.testing.assert_array_equal(found, expected)
    check_backends(p)


def check_small_volume():
    check_backends(problem_of(steps_and_noise((5, 5, 5), seed=3) / 100, DenoiseSettings(search_radius=1)))


def check_small_fluence():
    fluence.check_backends(fluence_problem_of(tuple(half[:6, :7, :9] for half in fluence.HALVES)))


BOTH = pytest.mark.parametrize("check", [check_small_volume, check_small_fluence])


@BOTH
@pytest.mark.parametrize("order", [loader.REVERSED, 11])
def test_the_order_of_threads_changes_nothing(fake_gpu, order, check):
    fake_gpu()
    with loader.thread_order(order):
        check()


@BOTH
@pytest.mark.long
def test_the_kernels_have_no_undefined_behavior(fake_gpu, monkeypatch, capfd, check):
    fake_gpu()
    monkeypatch.setattr(loader, "compile_text", functools.partial(loader.compile_text, sanitize=True))
    check()
    assert "runtime error" not in capfd.readouterr().err


@pytest.mark.skipif(not loader.can_fuse(), reason="this processor has no fused multiply-add")
@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"noise_model": "rician", "center": "largest"}, marks=pytest.mark.long)],
    ids=["gaussian", "rician"],
)
def test_fused_products_change_hardly_anything(fake_gpu, monkeypatch, options):
    """As a GPU compiles it; only a voxel at the very edge of pre-selection may differ by more than rounding."""
    fake_gpu()
    monkeypatch.setattr(loader, "compile_text", functools.partial(loader.compile_text, fused=True))
    image, settings = steps_and_noise((9, 12, 28), seed=6), DenoiseSettings(search_radius=2, **options)
    expected, found = (denoise(image, settings, device=device).image for device in ("cpu", "cuda"))
    assert (np.abs(found - expected) <= 1e-5 * expected).mean() >= 0.9999
    assert (found != expected).any()


def test_several_gpus_give_the_bits_of_one_cpu(fake_gpu, in_chunks_of):
    fake_gpu(count=3)
    in_chunks_of(1)
    image = steps_and_noise((17, 13, 5), seed=5)
    settings = DenoiseSettings(search_radius=1, noise_model="rician")
    expected = denoise(image, settings, device="cpu")
    found = denoise(image, settings, device="cuda:all")
    np.testing.assert_array_equal(found.image, expected.image)
    np.testing.assert_array_equal(found.noise, expected.noise)
    assert found.parameters["device"].startswith("cuda:0 (Fake GPU 0), cuda:1")


def test_closing_frees_all_gpus(fake_gpu, in_chunks_of):
    pretended = fake_gpu(count=3)
    in_chunks_of(1)
    settings = DenoiseSettings(search_radius=1, patches=Small())
    check_closing_frees(pretended, denoise_steps(np.ones((17, 25, 5)), settings, device="cuda:all"))


@pytest.mark.parametrize(("run", "what"), [(denoise, "volume"), (denoise_fluence, "fluence")])
def test_too_little_gpu_memory_is_reported_with_numbers(fake_gpu, run, what):
    fake_gpu(total_bytes=100_000)
    with pytest.raises(OutOfGpuMemory, match=rf"denoising this {what} needs about \d+ MB"):
        run(np.ones((40, 40, 40)), device="cuda")


def test_the_widest_search_fits_in_shared_memory(fake_gpu):
    narrow = problem_of(np.ones((16, 16, 16)), DenoiseSettings(patches=Small(), search_radius=1))
    widest = problem.make_windows(DenoiseSettings(search_radius=15))
    wide = type(narrow)(**{**vars(narrow), "windows": widest, "calibration": (1.0, 1.0)})
    assert gpu.build_of(wide, 227 * 1024) == (2, 4)
    assert gpu.build_of(wide, 99 * 1024) == (1, 1)  # of smaller GPUs
    assert gpu.build_of(narrow, 64 * 1024) == (2, 4)
    with pytest.raises(InvalidInput, match=r"needs \d+ kB of a GPU's shared memory, and this one has 64 kB"):
        gpu.build_of(wide, 64 * 1024)


@pytest.mark.parametrize("start", [0, 1, 5, 11])
@pytest.mark.parametrize("count", [1, 2, 7, 12, 19, 25])
def test_a_range_of_bricks_is_a_few_boxes(start, count):
    shape = (33, 49, 57)  # 5 x 3 x 2 bricks, the last ones of one voxel
    found = np.zeros(shape, int)
    boxes = list(problem.range_boxes(shape, start, count))
    for box in boxes:
        found[box] += 1
    numbers = np.arange(30).reshape(5, 3, 2)
    for axis, size in enumerate(problem.BRICK):
        numbers = np.repeat(numbers, size, axis)
    numbers = numbers[:33, :49, :57]
    np.testing.assert_array_equal(found, (numbers >= start) & (numbers < start + count))
    assert len(boxes) <= 5
    planes = np.flatnonzero(found.any(axis=(1, 2)))
    assert problem.planes_of(shape, start, count) == (planes[0], planes[-1] + 1)


def test_bricks_are_whole_blocks_of_the_kernel():
    assert all(problem.BRICK[0] % one.column == 0 for one in gpu.BUILDS)
    assert problem.BRICK[1] % (gpu.ROWS - 2 * gpu.RADIUS) == 0
    assert problem.BRICK[2] % (gpu.SIMD_WIDTH - 2 * gpu.RADIUS) == 0


def test_both_backends_have_the_same_methods():
    check_same_methods(cpu, gpu)
    check_same_methods(fluence_cpu, fluence_gpu)


@pytest.mark.parametrize(("module", "name"), [(gpu, "Slab"), (fluence_gpu, "Comparison"), (fluence_gpu, "Update")])
def test_structs_are_laid_out_as_in_the_kernels(module, name):
    assert struct_in(kernels.source(module.SOURCE), name) == getattr(module, name.upper())


@pytest.mark.parametrize("n", [2, 4])
def test_borders_are_mirrored(n):
    """Also more than once, where a window reaches farther than the volume is long."""
    line = np.arange(n, dtype=np.float32)
    values = np.broadcast_to(line[:, None, None], (n, n, n))
    found = cpu.mirrored(values, (5, 0, 0))[:, 0, 0]
    period = np.concatenate([line, line[::-1]])
    np.testing.assert_array_equal(found, [period[i % (2 * n)] for i in range(-5, n + 5)])
