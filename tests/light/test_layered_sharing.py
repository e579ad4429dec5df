"""Photons through layers, cut into chunks and shared among GPUs; memory, and kernels that fail."""

import threading

import pytest

from napari_gpubio.core.device import choose_device
from napari_gpubio.core.errors import OutOfGpuMemory
from napari_gpubio.light import batches as work
from napari_gpubio.light.kernels.layers import cpu, gpu
from napari_gpubio.light.kernels.layers.gpu import Variant
from napari_gpubio.light.kernels.layers.problem import LayeredProblem
from tests.light.layered_backend_samples import (
    GPU,
    MEDIA,
    by_cpu,
    check_same_arrays,
    on,
    settings,
    tallies,
)
from tests.light.layered_samples import check_same_bits
from tests.runs import check_same_methods, check_threads_change_nothing


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
    pretended, advance, asked = fake_gpu(), gpu.Run.advance, []

    def failing_once(self, start, count):
        if not asked:
            pretended.fail_allocations(which)
        asked.append(count)
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


def test_a_failing_kernel_is_not_silent(fake_gpu):
    pretended = fake_gpu()
    pretended.kernel_error = RuntimeError("cudaErrorLaunchFailure")
    with pytest.raises(RuntimeError, match="cudaErrorLaunchFailure"):
        on("cuda", 10)


def test_memory_is_given_back(fake_gpu, short_pilot):
    pretended = fake_gpu(count=2)
    on("cuda:0,1")
    assert not any(pretended.used_bytes.values())
