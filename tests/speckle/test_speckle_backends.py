"""CUDA and the CPU backend, with g++ in place of a GPU and on real ones: the same sums, and maps within 2 ulp."""

import functools
import itertools
from pathlib import Path

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import OutOfGpuMemory
from napari_gpubio.speckle import ContrastSettings, ContrastStream, NoiseModel, contrast, contrast_steps
from napari_gpubio.speckle.kernels.contrast import cpu, gpu
from napari_gpubio.speckle.kernels.contrast.problem import make_problem
from napari_gpubio.speckle.model import FrameStack
from napari_gpubio.speckle.settings import EDGES, NoMask, Spatial, SpatioTemporal, Temporal
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.structs import struct_in
from tests.runs import check_closing_frees, check_same_methods
from tests.speckle.choices import settings_with
from tests.speckle.reference import ulps

pytestmark = pytest.mark.daily

GPU = Device("cuda", (0,))
MAX_ULPS = 2
SHAPES = {"aligned": (5, 33, 140), "odd": (5, 21, 39)}  # more than a warp's columns; rows that no vector fits
NOISE = NoiseModel(dark_adu=20.3, gain=0.5, read_noise_adu=1.0)
OPTIONS = {
    "plain": ({"mask": False}, NoiseModel()),
    "masked": ({"window": 7}, NoiseModel()),
    "noise": ({"window": 9, "index": "squared"}, NOISE),
    "model": ({"window": 3, "index": "ict", "nonfinite": "clip", "low_signal": 50.0}, NoiseModel(gain=0.5)),
    "relative": ({"window": 13, "index": "relative", "nonfinite": "nan"}, NoiseModel(dark_adu=3.0)),
    "wide": ({"window": 21, "index": "none"}, NoiseModel()),
}


def hard_frames(dtype, shape, seed=0):
    """Noise with a constant, a dark and a saturated patch."""
    top = {"u1": 256, "u2": 65536, "f4": 3000, "f8": 3000}[dtype]
    frames = (np.random.default_rng(seed).random(shape) * top).astype(dtype)
    frames[:, 3:12, 5:14], frames[:, 12:19, 20:30] = frames[0, 0, 0], 0
    if dtype[0] == "u":
        frames[:, :3, 30:] = np.iinfo(dtype).max
    return frames


def check_backends(frames, settings, noise=None):
    found = []
    for run in (cpu.Run, functools.partial(gpu.Run, device=GPU)):
        problem = make_problem(FrameStack(frames), settings, noise or NoiseModel(), 0.1)
        made = run(problem)
        made.advance(0, problem.items)
        assert problem.reached.all()
        found.append(problem.maps)
        made.close()
    expected, other = found
    assert ulps(other.contrast, expected.contrast) <= MAX_ULPS
    if expected.indices is not None:
        assert ulps(other.indices, expected.indices) <= MAX_ULPS
    if expected.mask is not None:
        np.testing.assert_array_equal(other.mask, expected.mask)
    assert np.isfinite(expected.contrast).any()


def cases(shown, *others):
    """Combinations of parameters: those that are always run, and all others for --all."""
    for case in itertools.product(*others):
        yield pytest.param(*case, marks=() if case in shown else pytest.mark.long, id="-".join(map(str, case)))


@pytest.mark.parametrize(
    ("dtype", "shape", "options"),
    cases(
        {*zip(["u2"] * 6, itertools.cycle(SHAPES), OPTIONS), ("u1", "odd", "masked"), ("u1", "aligned", "noise")},
        ("u1", "u2"), SHAPES, OPTIONS,
    ),
)  # fmt: skip
def test_spatial(fake_gpu, dtype, shape, options):
    fake_gpu()
    chosen, noise = OPTIONS[options]
    edges = EDGES[list(OPTIONS).index(options) % len(EDGES)]
    check_backends(hard_frames(dtype, SHAPES[shape])[:2], settings_with(edges=edges, **chosen), noise)


@pytest.mark.parametrize(("edges", "shape"), cases({(edges, "odd") for edges in EDGES}, EDGES, SHAPES))
def test_edges(fake_gpu, edges, shape):
    fake_gpu()
    check_backends(hard_frames("u2", SHAPES[shape])[:2], ContrastSettings(mode=Spatial(edges=edges, window=5)))


@pytest.mark.parametrize(
    ("shape", "edges", "extra"), [("aligned", "valid", "masked"), ("odd", "shrink", "noise")], ids=SHAPES
)
@pytest.mark.parametrize(
    ("dtype", "mode", "blocks"),
    cases(
        {("u2", "temporal", False), ("u2", "spatio-temporal", True), ("u1", "spatio-temporal", False)},
        ("u1", "u2"), ("temporal", "spatio-temporal"), (False, True),
    ),
)  # fmt: skip
def test_over_time(fake_gpu, dtype, mode, blocks, shape, edges, extra):
    fake_gpu()
    options, noise = OPTIONS[extra]
    settings = settings_with(mode=mode, frames=2, blocks=blocks, edges=edges, **options)
    check_backends(hard_frames(dtype, SHAPES[shape]), settings, noise)


@pytest.mark.parametrize(
    ("dtype", "edges"), cases({("f8", "valid"), *(("f4", edges) for edges in EDGES)}, ("f4", "f8"), EDGES)
)
def test_floating_point_frames(fake_gpu, dtype, edges):
    fake_gpu()
    for mode in ("spatial", "spatio-temporal"):
        settings = settings_with(edges=edges, saturation=2900, mode=mode, frames=2)
        check_backends(hard_frames(dtype, SHAPES["odd"]), settings, NOISE if dtype == "f8" else None)


def test_64_bit_sums(fake_gpu):
    """Windows whose sums doubles do not hold."""
    fake_gpu()
    frames = hard_frames("u2", (3000, 2, 4))
    settings = ContrastSettings(mode=Temporal(frames=2998))
    problem = make_problem(FrameStack(frames), settings, NoiseModel(), None)
    assert problem.recipe.work_dtype == np.int64
    check_backends(frames, settings)
    check_backends(frames[:2800], ContrastSettings(mode=Temporal(frames=2798)), NoiseModel(dark_adu=7.0))


def test_small_batches_and_both_streams_change_nothing(fake_gpu, monkeypatch):
    fake_gpu()
    monkeypatch.setattr(gpu, "BATCH_BYTES", 1)
    check_backends(hard_frames("u2", SHAPES["odd"]), ContrastSettings(mode=Temporal(frames=2)))


@pytest.mark.parametrize("order", [loader.REVERSED, 11])
def test_the_order_of_threads_changes_nothing(fake_gpu, order):
    fake_gpu()
    with loader.thread_order(order):
        check_backends(hard_frames("u2", SHAPES["aligned"])[:2], ContrastSettings(mode=Spatial(window=7)))


def test_the_kernels_have_no_undefined_behavior(fake_gpu, monkeypatch, capfd):
    fake_gpu()
    monkeypatch.setattr(loader, "compile_text", functools.partial(loader.compile_text, sanitize=True))
    for mode, dtype, shape in (
        ("spatial", "u1", "aligned"),
        ("spatio-temporal", "u2", "odd"),
        ("spatial", "f4", "odd"),
    ):
        settings = settings_with(window=7, edges="reflect", mode=mode, frames=2)
        check_backends(hard_frames(dtype, SHAPES[shape])[:3], settings, NOISE)
    assert "runtime error" not in capfd.readouterr().err


def check_ieee_bits(frames, monkeypatch):
    monkeypatch.setattr(gpu, "IEEE", 1)
    ours, theirs = (contrast(frames, device=device) for device in ("cuda", "cpu"))
    np.testing.assert_array_equal(ours.contrast, theirs.contrast)
    np.testing.assert_array_equal(ours.index, theirs.index)


def test_ieee_divisions_have_the_bits_of_the_cpu(fake_gpu, monkeypatch):
    fake_gpu()
    check_ieee_bits(hard_frames("u2", SHAPES["aligned"])[:1], monkeypatch)


def test_several_gpus_give_the_maps_of_one_cpu(fake_gpu, in_chunks_of):
    fake_gpu(count=3)
    in_chunks_of(1)
    frames = hard_frames("u2", (7, 21, 40))
    settings = ContrastSettings(mode=Temporal(frames=2), mask=NoMask())
    ours, theirs = (contrast(frames, settings, device=device) for device in ("cuda:all", "cpu"))
    assert ulps(ours.contrast, theirs.contrast) <= MAX_ULPS
    assert ours.parameters["device"].startswith("cuda:0 (Fake GPU 0), cuda:1")


@pytest.mark.parametrize("mode", ["spatial", "temporal", "spatio-temporal"])
@pytest.mark.parametrize("dtype", ["u2", "f4"])
def test_several_gpus_give_the_bits_of_one(fake_gpu, in_chunks_of, dtype, mode):
    fake_gpu(count=4)
    in_chunks_of(1)
    frames = hard_frames(dtype, (9, 21, 40))
    settings = settings_with(mode=mode, frames=3)
    one, *others = (contrast(frames, settings, device=device) for device in ("cuda:0", "cuda:0,1", "cuda:all"))
    for several in others:
        assert several.complete
        for name in ("contrast", "index", "mask"):
            np.testing.assert_array_equal(getattr(several, name).view(np.uint8), getattr(one, name).view(np.uint8))


def test_closing_frees_all_gpus(fake_gpu, in_chunks_of):
    pretended = fake_gpu(count=3)
    in_chunks_of(1)
    check_closing_frees(pretended, contrast_steps(np.ones((20, 21, 40), np.uint16), device="cuda:all"))


def test_too_little_gpu_memory_is_reported_with_numbers(fake_gpu):
    fake_gpu(total_bytes=100_000)
    with pytest.raises(OutOfGpuMemory, match=r"contrast of these frames needs about \d+ MB"):
        contrast(np.ones((4, 400, 400), np.uint16), device="cuda")


@pytest.mark.parametrize("mode", ["spatial", "temporal", "spatio-temporal"])
@pytest.mark.parametrize("dtype", ["u2", "f4"])
def test_streams_give_the_maps_of_the_cpu(fake_gpu, mode, dtype):
    fake_gpu()
    frames = hard_frames(dtype, (6, 21, 40))
    settings = settings_with(mode=mode, frames=3)
    expected = contrast(frames, settings, device="cpu")
    with ContrastStream(settings, (21, 40), dtype, device="cuda") as stream:
        made = []
        for frame in frames:
            slot = stream.slot()
            slot[...] = frame
            maps = stream.push(slot if len(made) % 2 else frame)
            if maps is not None:
                made.append((maps.contrast.copy(), maps.index.copy(), maps.mask.copy()))
    assert len(made) == len(expected)
    for (k, index, mask), one in zip(made, (expected[n] for n in range(len(expected))), strict=True):
        assert ulps(k, one.contrast) <= MAX_ULPS
        assert ulps(index, one.index) <= MAX_ULPS
        np.testing.assert_array_equal(mask, one.mask)


@pytest.mark.parametrize(
    ("file", "names"),
    {
        "windows": ["Stack", "Grid", "SumPlanes", "Finishing"],
        "sequences": ["Stack", "Series", "SumPlanes", "Finishing"],
        "direct": ["RealStack", "Finishing"],
    }.items(),
)
def test_structs_have_the_layouts_of_the_source(file, names):
    text = kernels.source(Path(gpu.__file__).with_name(f"{file}.cu"))
    for name in names:
        assert struct_in(text, name) == gpu.STRUCTS[name]


def test_both_backends_have_the_same_methods():
    check_same_methods(cpu, gpu)


# -- on a real GPU ----------------------------------------------------------------------------------------------------

GPU_SHAPES = [(4, 260, 348), (4, 261, 347)]


def check_on_gpu(frames, settings, noise=None, device="cuda"):
    ours, theirs = (contrast(frames, settings, noise=noise, baseline=0.1, device=d) for d in (device, "cpu"))
    assert ulps(ours.contrast, theirs.contrast) <= MAX_ULPS
    if theirs.index is not None:
        assert ulps(ours.index, theirs.index) <= (MAX_ULPS if settings.index != "ict" else 16)
    if theirs.mask is not None:
        np.testing.assert_array_equal(ours.mask, theirs.mask)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", GPU_SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8"])
@pytest.mark.parametrize("options", OPTIONS)
def test_every_option_follows_the_cpu(options, dtype, shape):
    chosen, noise = OPTIONS[options]
    for mode in ("spatial", "temporal", "spatio-temporal"):
        edges = EDGES[list(OPTIONS).index(options) % len(EDGES)]
        settings = settings_with(mode=mode, frames=3, edges=edges, **chosen)
        check_on_gpu(hard_frames(dtype, shape), settings, noise)


@pytest.mark.gpu
@pytest.mark.parametrize("window", range(3, 32, 2))
def test_every_window_follows_the_cpu(window):
    check_on_gpu(hard_frames("u2", GPU_SHAPES[0]), ContrastSettings(mode=Spatial(window=window)))


@pytest.mark.gpu
def test_large_batches_follow_the_cpu():
    frames = np.random.default_rng(1).integers(0, 4096, (40, 520, 696), np.uint16)
    check_on_gpu(frames, ContrastSettings(mode=Spatial(window=7), mask=NoMask()))
    check_on_gpu(frames, ContrastSettings(mode=Temporal(frames=25), mask=NoMask()))


@pytest.mark.gpu
def test_ieee_divisions_on_a_gpu_have_the_bits_of_the_cpu(monkeypatch):
    check_ieee_bits(hard_frames("u2", GPU_SHAPES[0]), monkeypatch)


@pytest.mark.gpu
def test_all_gpus_together_have_the_bits_of_one():
    frames = hard_frames("u2", (30, 260, 348))
    one, together = (contrast(frames, device=device) for device in ("cuda:0", "cuda:all"))
    assert np.array_equal(one.contrast, together.contrast, equal_nan=True)


@pytest.mark.gpu
def test_streams_have_the_bits_of_a_stack():
    frames = hard_frames("u2", (30, 260, 348))
    settings = ContrastSettings(mode=SpatioTemporal(frames=5))
    expected = contrast(frames, settings, device="cuda")
    with ContrastStream(settings, frames.shape[1:], "u2", device="cuda") as stream:
        made = [maps.contrast.copy() for maps in map(stream.push, frames) if maps is not None]
    assert np.array_equal(made, expected.contrast, equal_nan=True)
