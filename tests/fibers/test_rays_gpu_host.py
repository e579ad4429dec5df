"""What surrounds the CUDA kernels of ray tracing, on pretended GPUs: memory, pieces, order, textures."""

import dataclasses
import threading
import time
import weakref

import numpy as np
import pytest

from napari_gpubio.core.device import choose_device
from napari_gpubio.core.errors import InvalidInput, OutOfGpuMemory
from napari_gpubio.fibers import run, track
from napari_gpubio.fibers.kernels.rays import gpu
from napari_gpubio.fibers.metrics import Adjugate
from napari_gpubio.fibers.run import track_to_file
from napari_gpubio.tractograms.io.tractograms import read_tractogram
from tests.fibers.ray_samples import (
    BOTH_KINDS,
    FAN,
    SEEDS,
    TRACK,
    brain,
    fresh,
    settings_of,
    tracked_on_the_cpu,
    waves,
)
from tests.tractograms.tractogram_samples import check_same_fibers

MIB = 2**20


@pytest.mark.parametrize("device", ["cuda:0", "cuda:0,1", "cuda:2,0,1"])
def test_gpus_give_the_fibers_of_the_cpu(fake_gpu, in_chunks_of, device):
    pretended = fake_gpu(count=3)
    in_chunks_of(17)
    fibers = track(fresh(brain()), SEEDS, FAN, TRACK, device=device)
    assert len(fibers) > 100
    check_same_fibers(fibers, tracked_on_the_cpu())
    used = {where for where, name, *_ in pretended.log if name == "trace_cubic"}
    assert used == set(choose_device(device).indices)
    assert fibers.parameters["device"].startswith("cuda:")


def test_blocks_of_several_gpus_do_not_pile_up(fake_gpu, in_chunks_of, monkeypatch, tmp_path):
    """The first GPU is slow, and what others have finished waits for it: few blocks, whatever there is to do."""
    fake_gpu(count=3)
    in_chunks_of(5)
    expected = tracked_on_the_cpu()
    held, most, finish, advance = [], [], run._piece, gpu.Run.advance

    def slow(self, start, count):
        time.sleep(0.1 if self.device.indices == (0,) else 0.0)
        advance(self, start, count)

    def piece(problem, part):
        made = finish(problem, part)
        held.append(weakref.ref(made.fibers))
        most.append(sum(one() is not None for one in held))
        return made

    monkeypatch.setattr(gpu.Run, "advance", slow)
    monkeypatch.setattr(run, "_piece", piece)
    path = tmp_path / "fibers.trx"
    track_to_file(str(path), fresh(brain()), SEEDS, FAN, TRACK, device="cuda:0,1,2")
    check_same_fibers(read_tractogram(path), expected)
    assert len(held) > 6 * run.MAX_AHEAD
    assert max(most) <= 3 * run.MAX_AHEAD + 3


def test_a_second_run_finds_its_volumes_ready(fake_gpu):
    pretended, field = fake_gpu(), fresh(brain())
    track(field, SEEDS, FAN, TRACK, device="cuda")
    pretended.log.clear()
    check_same_fibers(track(field, SEEDS, FAN, TRACK, device="cuda"), tracked_on_the_cpu())
    assert {name for _, name, *_ in pretended.log} == {"trace_cubic", "pack"}
    pretended.log.clear()
    pretended.total_bytes = pretended.used_bytes[0] + MIB // 4  # a small GPU does it in small pieces
    check_same_fibers(track(field, SEEDS, FAN, TRACK, device="cuda"), tracked_on_the_cpu())
    assert sum(name == "trace_cubic" for _, name, *_ in pretended.log) > 3
    pretended.total_bytes *= 100
    track(field, SEEDS, FAN, dataclasses.replace(TRACK, metric=Adjugate()), device="cuda")
    assert "compose_rows" in {name for _, name, *_ in pretended.log}
    pretended.kernel_error = RuntimeError("cudaErrorLaunchFailure")
    with pytest.raises(RuntimeError, match="cudaErrorLaunchFailure"):
        track(field, SEEDS, FAN, TRACK, device="cuda")
    pretended.kernel_error = None
    assert pretended.used_bytes[0] > 0
    field.cache.clear()  # which holds all memory that stays taken
    assert pretended.used_bytes[0] == 0


@pytest.mark.parametrize("which", range(1, 9))
def test_a_failed_allocation_is_tried_again_with_half_as_many(fake_gpu, monkeypatch, caplog, which):
    pretended, advance, failed = fake_gpu(), gpu.Run.advance, []

    def failing_once(self, start, count):
        if not failed:
            failed.append(count)
            pretended.fail_allocations(which)
        advance(self, start, count)

    monkeypatch.setattr(gpu.Run, "advance", failing_once)
    fibers = track(fresh(brain()), SEEDS, FAN, TRACK, device="cuda")
    check_same_fibers(fibers, tracked_on_the_cpu())
    assert f"out of GPU memory with {failed[0]} items; trying again with {(failed[0] + 1) // 2}" in caplog.text


def test_a_fiber_that_does_not_fit_is_an_error_with_numbers(fake_gpu):
    fake_gpu(total_bytes=16 * MIB)
    endless = dataclasses.replace(TRACK, step_mm=0.1, max_length_mm=100_000.0, max_steps=1_000_000)
    with pytest.raises(OutOfGpuMemory, match="MB of GPU memory") as caught:
        track(fresh(waves()), [(0, 0, 0)], FAN, endless, device="cuda")
    assert caught.value.needed_mb > 30 > 16 > caught.value.free_mb > 5


@BOTH_KINDS
def test_a_volume_that_does_not_fit_is_an_error_with_numbers(fake_gpu, kind):
    fake_gpu(total_bytes=MIB // 8)
    with pytest.raises(OutOfGpuMemory, match=r"MB are free.*or choose device='cpu'") as caught:
        track(fresh(waves()), [(0, 0, 0)], None, settings_of(kind), device="cuda")
    assert caught.value.needed_mb > caught.value.free_mb


def test_fibers_reach_a_file_in_order_from_several_gpus(fake_gpu, monkeypatch, in_chunks_of, tmp_path):
    """The first chunk is made to wait until another one is done."""
    fake_gpu(count=2)
    advance, other_done = gpu.Run.advance, threading.Event()

    def first_last(self, start, count):
        if start == 0:
            assert other_done.wait(20)
        advance(self, start, count)
        if start:
            other_done.set()

    monkeypatch.setattr(gpu.Run, "advance", first_last)
    in_chunks_of(17)
    track_to_file(str(tmp_path / "fibers.trx"), fresh(brain()), SEEDS, FAN, TRACK, device="cuda:0,1")
    found, expected = read_tractogram(tmp_path / "fibers.trx"), tracked_on_the_cpu()
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.points, expected.points)


@BOTH_KINDS
def test_textures_are_used_by_one_method_on_a_gpu_only(fake_gpu, kind):
    fake_gpu()
    if kind != "vanaart2011":
        with pytest.raises(TypeError, match="texture"):
            dataclasses.replace(settings_of(kind), texture=True)
        return
    wished = settings_of(kind, texture=True)
    with pytest.raises(InvalidInput, match="texture is True, which has no effect: a CPU has no texture unit"):
        track(brain(), SEEDS, FAN, wished, device="cpu")
    with pytest.raises((ImportError, AttributeError)):  # the pretended GPU has none; nothing is taken in their place
        track(fresh(brain()), SEEDS, FAN, wished, device="cuda")
    with pytest.raises(InvalidInput, match="textures hold single precision only"):
        settings_of(kind, "double", texture=True)


PROCESSORS = 132


@pytest.mark.parametrize(("rays", "expected"), [(1, 1), (528, 1), (2048, 4), (16_384, 32), (1_000_000, 32)])
def test_few_rays_are_spread_over_all_processors(rays, expected):
    assert gpu.rays_per_block(rays, PROCESSORS) == expected


def test_the_size_of_the_blocks_changes_no_bit(fake_gpu, monkeypatch):
    pretended, sizes = fake_gpu(), set()
    for processors in (1, 10, PROCESSORS):
        monkeypatch.setattr(gpu, "processor_count", lambda _, n=processors: n)
        pretended.log.clear()
        check_same_fibers(track(fresh(brain()), SEEDS, FAN, TRACK, device="cuda"), tracked_on_the_cpu())
        sizes |= {block for _, name, _, block in pretended.log if name == "trace_cubic"}
    assert len(sizes) == 3
