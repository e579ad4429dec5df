"""CUDA photons through layers against their CPU backend: bit for bit with g++, and within errors on a real GPU.

However they are tallied: cache, history, neither.
"""

import functools
import threading

import numpy as np
import pytest

from napari_gpubio.core import kernels
from napari_gpubio.core.device import choose_device
from napari_gpubio.core.errors import OutOfGpuMemory
from napari_gpubio.layered.kernels.layers import cpu, gpu
from napari_gpubio.layered.kernels.layers.gpu import Variant, hot_corner
from napari_gpubio.layered.kernels.layers.problem import LayeredProblem
from napari_gpubio.layered.run import assemble, simulate
from napari_gpubio.layered.settings import ring_area_mm2
from napari_gpubio.optics import batches as work
from tests.cuda_on_cpu import loader
from tests.layered.samples import (
    ALL_MEDIA,
    GPU,
    MEDIA,
    SKIN,
    VARIANTS,
    at,
    by_cpu,
    check_backends,
    check_same_arrays,
    check_same_bits,
    medium,
    on,
    settings,
    tallies,
)
from tests.runs import check_same_methods, check_threads_change_nothing

pytestmark = pytest.mark.daily

# -- kernels through g++ ----------------------------------------------------------------------------------------------


@ALL_MEDIA
@pytest.mark.parametrize("absorption", ["collect", "drop", "off"])
def test_layers_have_the_bits_of_their_backend(fake_gpu, short_pilot, name, absorption):
    fake_gpu()
    result = check_backends(MEDIA[name], settings(absorption=absorption))
    assert result.absorbed.value > 0.01
    assert result.diffuse_reflectance.value > 0.01
    assert (result.A_rz is None) == (absorption == "off")


@pytest.mark.parametrize(
    ("variant", "changes"),
    [
        *((variant, {"absorption": edge}) for variant in VARIANTS.values() for edge in ("collect", "drop")),
        *((Variant(history=history), {"absorption": "off"}) for history in (True, False)),
        # more than 48 KiB are requested; the pretended GPU refuses it otherwise, as a real one does
        (Variant(cache=True, shape=(100, 80), cache_bytes=64_000), {"radial_bins": 100, "depth_bins": 100}),
    ],
    ids=str,
)
def test_every_variant_has_the_bits_of_the_backend(fake_gpu, short_pilot, variant, changes):
    fake_gpu()
    problem = LayeredProblem(MEDIA["many kinds"], settings(**changes))
    expected = tallies(problem, [(batch * 150, 150) for batch in range(4)])
    check_same_arrays(tallies(problem, [(0, 600)], variant), expected)
    assert expected["numbers_0"].any()


@pytest.mark.parametrize("order", [loader.REVERSED, 11, 12])
def test_the_order_of_threads_changes_nothing(fake_gpu, short_pilot, order):
    fake_gpu()
    with loader.thread_order(order):
        check_same_bits(on("cuda"), by_cpu())


@pytest.mark.parametrize("variant", ["default", "cache"])
def test_packets_that_many_launches_finish_have_the_bits_of_the_backend(fake_gpu, short_pilot, monkeypatch, variant):
    fake_gpu()
    monkeypatch.setattr(gpu, "FEWEST_CYCLES", 1)
    launches, launch = [], gpu.Run._launch

    def counted(run, *args, photons, **more):
        launches.append(photons)
        launch(run, *args, photons=photons, **more)

    monkeypatch.setattr(gpu.Run, "_launch", counted)
    problem = LayeredProblem(MEDIA["many kinds"], settings())
    chosen = Variant(cache=variant == "cache", shape=(4, 5) if variant == "cache" else None)
    expected = tallies(problem, [(batch * 150, 150) for batch in range(4)])
    check_same_arrays(tallies(problem, [(0, 250), (250, 350)], chosen), expected)
    assert launches[:2] == [250, 350]
    assert len(launches) > 4


@pytest.mark.parametrize(
    "changes",
    [
        {"radial_bins": 1, "depth_bins": 1, "angle_bins": 1},
        {"radial_bins": 1, "depth_bins": 500, "angle_bins": 2},
        {"radial_bins": 300, "depth_bins": 1, "angle_bins": 90},
        {"dr_mm": 1e-4, "dz_mm": 1e-4, "absorption": "drop"},
        {"dr_mm": 1e6, "dz_mm": 1e6},
        *({"seed": seed, "photons": 100} for seed in (0, 2**32 + 5, 2**63 + 1, 2**64 - 1)),
        *({"roulette_threshold": threshold} for threshold in (0.0, 1e-4, 0.1)),
    ],
    ids=str,
)
def test_settings_have_the_bits_of_their_backend(fake_gpu, short_pilot, changes):
    fake_gpu()
    layers = medium((1.4, 0.4, 2.0, 0.0, 6.0)) if "roulette_threshold" in changes else MEDIA["many kinds"]
    result = check_backends(layers, settings(**changes))
    if "roulette_threshold" in changes:
        assert (result.roulette.value != 0) == (changes["roulette_threshold"] > 0)


def test_the_last_of_all_possible_photons_has_the_bits_of_its_backend(fake_gpu):
    fake_gpu()
    problem = LayeredProblem(MEDIA["one layer"], settings(2**32, batches=2))
    pieces = [(2**31 - 60, 60), (2**32 - 70, 70)]
    check_same_arrays(tallies(problem, pieces, Variant()), tallies(problem, pieces))


def test_the_kernel_has_no_undefined_behavior(fake_gpu, short_pilot, monkeypatch, capfd):
    fake_gpu()
    monkeypatch.setattr(loader, "compile_text", functools.partial(loader.compile_text, sanitize=True))
    for layers in MEDIA.values():
        check_backends(layers, settings(120))
    assert "runtime error" not in capfd.readouterr().err


# -- the hot corner ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (7, 9), (3, 30), (30, 3)])
@pytest.mark.parametrize("cells", [1, 5, 12, 60, 1000])
def test_the_hot_corner_is_the_best_of_all(shape, cells):
    every = [(r, z) for r in range(1, shape[0] + 1) for z in range(1, shape[1] + 1) if r * z <= cells]
    for seed in range(5):
        random = np.random.default_rng(seed)
        absorbed = random.integers(0, 2**62, shape, np.uint64)
        absorbed[random.random(shape) < 0.2 * seed] = 0
        radial, depth = hot_corner(absorbed, cells)
        most = max(absorbed[:r, :z].astype(float).sum() for r, z in every)
        assert (radial, depth) in every
        assert absorbed[:radial, :depth].astype(float).sum() == pytest.approx(most, rel=1e-12)


def test_the_shape_of_the_cache_follows_the_light(fake_gpu, monkeypatch):
    """Deep and narrow where light goes straight on, flat and wide where it spreads in a thin layer."""
    fake_gpu()
    monkeypatch.setattr(gpu, "PILOT_PHOTONS", 400)
    shapes = []
    for layers in (medium((1.4, 0.3, 3.0, 0.95, 2.0)), medium((1.4, 0.005, 3.0, 0.0, 0.06))):
        problem = LayeredProblem(layers, settings(500, radial_bins=60, depth_bins=60))
        run = gpu.Run(problem, device=GPU, variant=Variant(cache=True, cache_bytes=8 * 64))
        run.advance(0, 500)
        shapes.append(run.shape)
    (narrow, deep), (wide, flat) = shapes
    assert deep > 3 * narrow
    assert wide > 3 * flat
    assert max(narrow * deep, wide * flat) <= 64


@pytest.mark.parametrize(
    ("mua", "bin_mm", "cells", "pays"),
    [
        (1.0, 0.1, 600, True),  # steps of a bin
        (1.0, 1.0, 600, False),  # of a tenth, which the history gathers
        (1.0, 0.1, 2, False),  # most deposits are elsewhere
        (0.0, 0.1, 600, False),  # there are none
    ],
)
def test_a_cache_is_taken_where_it_pays(fake_gpu, monkeypatch, mua, bin_mm, cells, pays):
    fake_gpu()
    monkeypatch.setattr(gpu, "PILOT_PHOTONS", 400)
    bins = {"dr_mm": bin_mm, "dz_mm": bin_mm, "radial_bins": 60, "depth_bins": 60}
    problem = LayeredProblem(medium((1.4, mua, 9.0, 0.0, 3.0)), settings(500, **bins))
    run = gpu.Run(problem, device=GPU, variant=Variant(cache_bytes=8 * cells))
    run.advance(0, 500)
    assert (run.shape is not None) == pays


def test_a_cache_leaves_room_for_as_many_blocks(fake_gpu, monkeypatch):
    fake_gpu()
    run = gpu.Run(LayeredProblem(MEDIA["one layer"], settings(500)), device=GPU)
    assert run._cache_bytes() == 48 << 10
    monkeypatch.setattr(gpu, "shared_memory_of_processor", lambda device: 64 << 10)
    assert run._cache_bytes() == 14 << 10


# -- a real GPU -------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@ALL_MEDIA
def test_a_real_gpu_agrees_within_errors(name):
    """The production build rounds differently, so photons part; what they leave behind must not."""
    mine, theirs = (
        simulate(MEDIA[name], settings(n, seed=n, batches=64), device=device)
        for n, device in ((100_000, "cpu"), (5_000_000, "cuda"))
    )
    for quantity in ("diffuse_reflectance", "transmittance", "absorbed"):
        if (reference := getattr(mine, quantity)).error > 0:
            assert abs(getattr(theirs, quantity).z_score(*reference)) < 4, quantity
    for layer in range(min(len(MEDIA[name].layers), 6)):
        if (reference := at(mine.A_l, layer)).error > 0:
            assert abs(at(theirs.A_l, layer).z_score(*reference)) < 4
    spread = np.hypot(mine.A_rz.error, theirs.A_rz.error)
    z = (theirs.A_rz.value - mine.A_rz.value)[mine.A_rz.value > 0] / spread[mine.A_rz.value > 0]
    assert (np.abs(z) < 3).mean() > 0.98


@pytest.mark.gpu
def test_a_strict_build_on_a_real_gpu_follows_the_photons_of_the_cpu(monkeypatch):
    """Sums, products, quotients and roots are rounded as on the CPU; those of ``fastmath`` are made of them."""

    def strict(path, name, *, defines=(), fast=False):
        return kernels.kernel(path, name, defines=defines, strict=True)

    monkeypatch.setattr(gpu, "kernel", strict)
    expected, found = (on(device, 20_000, layers=SKIN) for device in ("cpu", "cuda"))
    for quantity in ("diffuse_reflectance", "transmittance", "absorbed"):
        mine, theirs = getattr(expected, quantity), getattr(found, quantity)
        assert abs(mine.value - theirs.value) < 0.1 * mine.error


@pytest.mark.gpu
@pytest.mark.parametrize("chunk", [100, 7919])
def test_chunks_change_nothing_on_a_real_gpu(in_chunks_of, chunk):
    """Every bit is the same for one build on one kind of GPU."""
    expected = on("cuda", 20_000)
    in_chunks_of(chunk)
    check_same_bits(on("cuda", 20_000), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_every_variant_on_a_real_gpu_agrees_within_errors(variant):
    problem = LayeredProblem(SKIN, settings(400_000, batches=32))
    run = gpu.Run(problem, device=GPU, variant=variant)
    run.advance(0, 400_000)
    found = assemble(problem, run.snapshot(), {})
    expected = on("cuda", 400_000, layers=SKIN, seed=12, batches=32)
    for quantity in ("diffuse_reflectance", "transmittance", "absorbed"):
        assert abs(getattr(found, quantity).z_score(*getattr(expected, quantity))) < 4
    s = problem.settings
    in_grid = (found.A_rz.value * ring_area_mm2(s)[:, None] * s.dz_mm).sum()
    assert in_grid == pytest.approx(found.absorbed.value, rel=1e-6)


def test_both_backends_have_the_same_methods():
    check_same_methods(cpu, gpu)


def test_numba_threads_change_nothing(request):
    check_threads_change_nothing(request, lambda: on("cpu"), check_same_bits)


@pytest.mark.parametrize("chunk", [1, 7, 125, 10**6])
def test_chunks_change_nothing_on_the_cpu(in_chunks_of, chunk):
    in_chunks_of(chunk)
    check_same_bits(on("cpu", 200), by_cpu(200))


@pytest.mark.parametrize("photons", [1, 7, 1003])
def test_any_number_of_photons(fake_gpu, short_pilot, photons):
    """Also fewer than batches, and a last batch that lacks some."""
    fake_gpu()
    check_same_bits(on("cuda", photons), by_cpu(photons))


@pytest.mark.parametrize("device", ["cuda:0", "cuda:0,1,2", "cuda:2,0"])
@pytest.mark.parametrize(("chunk", "first"), [(1, 1), (17, 300), (170, 40), (10**6, 10**6)])
def test_gpus_and_chunks_change_nothing(fake_gpu, short_pilot, monkeypatch, in_chunks_of, device, chunk, first):
    pretended = fake_gpu(count=3)
    in_chunks_of(chunk)
    monkeypatch.setitem(work.FIRST_CHUNK, "cuda", first)
    photons = 60 if chunk == 1 else 1000
    check_same_bits(on(device, photons), by_cpu(photons))
    assert {where for where, *_ in pretended.log} == set(choose_device(device).indices)


@pytest.mark.parametrize(
    "variant", [Variant(), Variant(simple=True), Variant(cache=True), Variant(cache=True, shape=(3, 4))], ids=str
)
def test_chunks_that_span_batches_change_nothing(fake_gpu, short_pilot, variant):
    """From the middle of one batch to the middle of another, in any order; the pilot run ends within a batch, too."""
    fake_gpu()
    problem = LayeredProblem(MEDIA["many kinds"], settings(650, batches=6))  # 108 photons each, and 2 more
    expected = tallies(problem, [(0, 108), (108, 108), (216, 108), (324, 108), (432, 108), (540, 108), (648, 2)])
    found = tallies(problem, [(130, 300), (0, 7), (7, 123), (431, 219), (430, 1)], variant)
    check_same_arrays(found, expected)


@pytest.mark.parametrize("which", range(1, 8))
def test_a_failed_allocation_is_tried_again_with_half_as_many(fake_gpu, short_pilot, monkeypatch, caplog, which):
    """Wherever it fails: in the pilot run, when the corner is chosen, or in the rest of the chunk."""
    pretended, advance, counts = fake_gpu(), gpu.Run.advance, []

    def failing_once(self, start, count):
        if not counts:
            pretended.fail_allocations(which)
        counts.append(count)
        advance(self, start, count)

    monkeypatch.setattr(gpu.Run, "advance", failing_once)
    monkeypatch.setitem(work.FIRST_CHUNK, "cuda", 170)
    check_same_bits(on("cuda"), by_cpu())
    assert "out of GPU memory with" in caplog.text


def test_a_snapshot_while_the_run_is_at_work_holds_whole_photons(fake_gpu, monkeypatch):
    """As a preview's, while another GPU has just ended: what a kernel has done must be there and noted, or neither."""
    pretended = fake_gpu()
    problem = LayeredProblem(MEDIA["one layer"], settings(400))
    run = gpu.Run(problem, device=GPU, variant=Variant())
    run.advance(0, 50)
    launched, looked = threading.Event(), threading.Event()

    def synchronize():
        launched.set()
        looked.wait(0.3)  # a snapshot that waits for the run is not ready by then

    monkeypatch.setattr(pretended.module.cuda.Stream.null, "synchronize", synchronize)
    tracing = threading.Thread(target=run.advance, args=(50, 50))
    tracing.start()
    assert launched.wait(10)
    part = run.snapshot()
    looked.set()
    tracing.join()
    assert part.photons in (50, 100)
    check_same_arrays(part.to_arrays(), tallies(problem, [(0, part.photons)]))


def test_layers_that_do_not_fit_are_an_error_with_numbers(fake_gpu):
    fake_gpu(total_bytes=1 << 20)
    with pytest.raises(OutOfGpuMemory, match=r"MB are free.*or choose device='cpu'") as caught:
        on("cuda", radial_bins=300, depth_bins=300)
    assert caught.value.needed_mb > 5 > 1 >= caught.value.free_mb


def test_memory_is_given_back_and_a_failing_kernel_is_not_silent(fake_gpu, short_pilot):
    pretended = fake_gpu(count=2)
    on("cuda:0,1")
    assert not any(pretended.used_bytes.values())
    pretended.kernel_error = RuntimeError("cudaErrorLaunchFailure")
    with pytest.raises(RuntimeError, match="cudaErrorLaunchFailure"):
        on("cuda", 10)
