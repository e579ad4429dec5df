"""The host's part of runs of photons: chunks, GPUs, slots, memory, and lists that are full."""

import numpy as np
import pytest

from napari_gpubio.core.chunks import advance_in_pieces
from napari_gpubio.core.device import choose_device
from napari_gpubio.core.errors import OutOfGpuMemory
from napari_gpubio.light.kernels.voxels import cpu, gpu
from napari_gpubio.light.kernels.voxels import problem as problems
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.run import simulate
from napari_gpubio.optics import batches as work
from napari_gpubio.optics.sources import Pencil
from tests.light.test_photon_backends import DETECTORS, EVERYTHING, GPU, MIB, PENCIL, by_cpu, on, scene, settings
from tests.light.voxel_samples import check_same_bits, make_domain
from tests.runs import check_same_methods, check_threads_change_nothing


def test_both_backends_have_the_same_methods():
    check_same_methods(cpu, gpu)


@pytest.mark.parametrize("photons", [80, 93])  # whole batches, and one that lacks some
def test_paths_of_a_run_are_those_of_its_tallies(one_gpu, photons):
    problem = VoxelProblem(scene(), PENCIL, settings(photons, batches=8, **EVERYTHING), batch_size=10)
    as_numpy = one_gpu.module.asnumpy
    for run, read in ((cpu.Run(problem), np.asarray), (gpu.Run(problem, device=GPU), as_numpy)):
        list(advance_in_pieces([run], problem.pieces(run.span)))
        tallies = run.snapshot()
        expected = sum((part.path for part in tallies.open.values()), start=tallies.sums)
        assert tallies.photons == photons
        volumes = expected.reshape(-1, *problem.padded)[:, 1:-1, 1:-1, 1:-1]
        for planes in (slice(0, problem.size[0]), slice(3, 5)):
            np.testing.assert_array_equal(read(run.paths(planes)), volumes[:, planes])


def test_numba_threads_change_nothing(request):
    check_threads_change_nothing(request, lambda: on("cpu"), check_same_bits)


@pytest.mark.parametrize("chunk", [1, 7, 125, 10**6])
def test_chunks_change_nothing_on_the_cpu(in_chunks_of, chunk):
    in_chunks_of(chunk)
    check_same_bits(on("cpu", 200), by_cpu(200))


@pytest.mark.parametrize("photons", [1, 7, 1003])
def test_any_number_of_photons(one_gpu, photons):
    """Also fewer than batches, and a last batch that lacks some."""
    check_same_bits(on("cuda", photons), by_cpu(photons))


@pytest.mark.parametrize("device", ["cuda:0", "cuda:0,1,2", "cuda:2,0"])
@pytest.mark.parametrize(("slots", "chunk", "first"), [(1, 40, 40), (3, 17, 300), (100, 10**6, 10**6), (2, 10**6, 90)])
def test_gpus_slots_and_chunks_change_nothing(
    fake_gpu, few_builds, monkeypatch, in_chunks_of, device, slots, chunk, first
):
    """Batches that are traced together, chunks that cut them, and GPUs that share them."""
    pretended = fake_gpu(count=3)
    tally_bytes = 8 * VoxelProblem(scene(), PENCIL, settings(**EVERYTHING)).tally_size
    monkeypatch.setattr(problems, "SLOT_BYTES", slots * tally_bytes)
    in_chunks_of(chunk)
    monkeypatch.setitem(work.FIRST_CHUNK, "cuda", first)
    check_same_bits(on(device), by_cpu())
    launches = [where for where, name, *_ in pretended.log if name == "trace_photons"]
    assert set(launches) <= set(choose_device(device).indices)
    if slots == 1:  # as many pieces as batches: every GPU has found some
        assert set(launches) == set(choose_device(device).indices)
    folds = [where for where, name, *_ in pretended.log if name == "fold_batches"]
    assert len(folds) == 8 if slots == 1 else 0 < len(folds) <= 8


@pytest.mark.parametrize("full", [0, 1])
def test_a_gpu_with_less_memory_than_the_other_traces_fewer_batches_together(fake_gpu, few_builds, full):
    problem = VoxelProblem(scene(), PENCIL, settings(1000, batches=8, **EVERYTHING), DETECTORS)
    pretended = fake_gpu(count=2, total_bytes=4 * MIB)
    cupy = pretended.module
    with cupy.cuda.Device(full):
        taken = cupy.empty(4 * MIB - problem.resident_bytes() - 300_000, np.uint8)
    check_same_bits(on("cuda:0,1"), by_cpu())
    assert {where for where, name, *_ in pretended.log if name == "trace_photons"} == {0, 1}
    del taken


@pytest.mark.parametrize("which", range(1, 5))
def test_a_failed_allocation_is_tried_again_with_half_as_many(fake_gpu, few_builds, monkeypatch, caplog, which):
    pretended, advance, failed = fake_gpu(), gpu.Run.advance, []

    def failing_once(self, start, count):
        if start and not failed:
            failed.append(count)
            pretended.fail_allocations(which)
        advance(self, start, count)

    monkeypatch.setattr(gpu.Run, "advance", failing_once)
    monkeypatch.setitem(work.FIRST_CHUNK, "cuda", 170)
    check_same_bits(on("cuda"), by_cpu())
    assert f"out of GPU memory with {failed[0]} items; trying again with {(failed[0] + 1) // 2}" in caplog.text


def test_a_small_gpu_lists_detected_photons_in_small_pieces(fake_gpu, few_builds, monkeypatch):
    monkeypatch.setattr(problems, "SLOT_BYTES", 0)
    problem = VoxelProblem(scene(), PENCIL, settings(batches=8, **EVERYTHING), DETECTORS)
    pretended = fake_gpu(total_bytes=problem.resident_bytes() + 40_000)
    check_same_bits(on("cuda"), by_cpu())
    assert sum(name == "trace_photons" for _, name, *_ in pretended.log) > 1


def test_a_volume_that_does_not_fit_is_an_error_with_numbers(fake_gpu):
    fake_gpu(total_bytes=MIB)
    with pytest.raises(OutOfGpuMemory, match=r"MB are free.*or choose device='cpu'") as caught:
        simulate(make_domain((60, 60, 60)), Pencil(position_mm=(30, 30, 0)), settings(), device="cuda")
    assert caught.value.needed_mb > 5 > 1 >= caught.value.free_mb


def test_a_failing_kernel_is_not_silent(fake_gpu, few_builds):
    pretended = fake_gpu()
    on("cuda", 10)
    pretended.kernel_error = RuntimeError("cudaErrorLaunchFailure")
    with pytest.raises(RuntimeError, match="cudaErrorLaunchFailure"):
        on("cuda", 10)


def test_memory_is_given_back(fake_gpu, few_builds):
    pretended = fake_gpu(count=2)
    on("cuda:0,1")
    assert not any(pretended.used_bytes.values())


def test_lists_of_detected_photons_that_are_full_have_the_bits_of_their_backend(fake_gpu, few_builds):
    fake_gpu(count=2)
    chosen = settings(1000, batches=8, max_detected=20)
    expected = simulate(scene(), PENCIL, chosen, detectors=DETECTORS, device="cpu")
    whole = simulate(scene(), PENCIL, settings(1000, batches=8), detectors=DETECTORS, device="cpu").detected
    assert (len(expected.detected), expected.detected.dropped) == (20, len(whole) - 20)
    np.testing.assert_array_equal(expected.detected.photon, whole.photon[:20])
    check_same_bits(simulate(scene(), PENCIL, chosen, detectors=DETECTORS, device="cuda:0,1"), expected)
