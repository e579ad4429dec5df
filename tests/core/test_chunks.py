"""Chunks: every item once, whatever the cut, the stops, the failures and the number of devices."""

import threading
import time
from itertools import pairwise

import numpy as np
import pytest

from napari_gpubio.core import philox, timing
from napari_gpubio.core.chunks import advance_in_chunks, advance_in_pieces
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.errors import OutOfGpuMemory
from tests.runs import workers as package_threads

MIB = 2**20
GPU = Device("cuda", (0,))


class Recorder:
    """A run that records its chunks."""

    def __init__(self, *, device=CPU, seconds_per_item=0.0, item_bytes=8):
        self.device = device
        self.done: list[tuple[int, int]] = []
        self._seconds, self._bytes = seconds_per_item, item_bytes

    def advance(self, start, count):
        time.sleep(self._seconds * count)
        self.done.append((start, count))

    def bytes_per_item(self):
        return self._bytes


def covered(*runs):
    """The items that were done, sorted."""
    return sorted(item for run in runs for start, count in run.done for item in range(start, start + count))


class Numbers(Recorder):
    """A run whose result is one row of random numbers for each item."""

    def __init__(self, out, **facts):
        super().__init__(**facts)
        self.out = out

    def advance(self, start, count):
        self.out[start : start + count] = philox.uniform(7, start, count, 3)
        super().advance(start, count)


class Racing(Recorder):
    """A run that keeps, for each item that it begins, how far the oldest one that is not finished is behind."""

    def __init__(self, unfinished, **facts):
        super().__init__(**facts)
        self.unfinished, self.behind = unfinished, []

    def advance(self, start, count):
        self.unfinished.add(start)
        self.behind.append(start - min(self.unfinished))
        super().advance(start, count)
        self.unfinished.discard(start)


class Broken(Recorder):
    """A run that fails."""

    def __init__(self, error):
        super().__init__()
        self._error = error

    def advance(self, start, count):
        raise self._error


@pytest.mark.parametrize("first_chunk", [1, 7, 999, 10**6])
def test_any_cut_gives_the_same_items(first_chunk):
    out = np.zeros((5000, 3), np.float32)
    run = Numbers(out)
    steps = list(advance_in_chunks([run], 5000, first_chunk=first_chunk))
    np.testing.assert_array_equal(out, philox.uniform(7, 0, 5000, 3))
    assert covered(run) == list(range(5000))
    assert run.done[0] == (0, min(first_chunk, 5000))
    assert steps == np.cumsum([count for _, count in run.done]).tolist()


def lengths_by_clock(monkeypatch, total, first_chunk, fixed, per_item):
    """Lengths of chunks that take ``fixed`` seconds, and some more for each item."""
    now, run = 0.0, Recorder()

    def advance(start, count):
        nonlocal now
        now += fixed + per_item * count
        run.done.append((start, count))

    monkeypatch.setattr(run, "advance", advance)
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now)
    list(advance_in_chunks([run], total, first_chunk=first_chunk))
    return [count for _, count in run.done]


def test_chunks_are_fitted_to_a_tenth_of_a_second(monkeypatch):
    lengths = lengths_by_clock(monkeypatch, 3000, 4, 0.0, 0.001)
    assert lengths[:3] == [4, 16, 64]  # at most four times longer at once
    assert set(lengths[3:-1]) <= {99, 100}


@pytest.mark.parametrize(("fixed", "least", "most"), [(0.0, 0.05, 0.11), (0.25, 0.6, 0.8), (0.9, 1.2, 1.5)])
def test_chunks_grow_where_short_ones_take_as_long(monkeypatch, fixed, least, most):
    """A few photons live long, however short the chunk: it is not cut to nothing, nor made endless."""
    lengths = lengths_by_clock(monkeypatch, 4_000_000, 1 << 18, fixed, 1e-6)
    assert least < fixed + 1e-6 * max(lengths[-3:-1]) < most


@pytest.mark.parametrize("workers", [1, 3])
def test_stop_begins_no_further_chunk(workers):
    stop, runs = threading.Event(), [Recorder(seconds_per_item=1e-4) for _ in range(workers)]
    steps = advance_in_chunks(runs, 10**6, stop=stop, first_chunk=10)
    assert next(steps) == 10
    stop.set()
    begun_before = sum(len(run.done) for run in runs)
    last = [10, *steps][-1]
    assert covered(*runs) == list(range(last))  # what was begun is kept, and there is no hole
    assert sum(len(run.done) for run in runs) <= begun_before + 2 * workers


class Hungry(Numbers):
    """A run that needs device memory for its items, from (pretended) CuPy."""

    def __init__(self, gpu, out, *, device=GPU, item_bytes=MIB, claimed_bytes=8):
        super().__init__(out, device=device, item_bytes=claimed_bytes)
        self._cupy, self._need = gpu.module, item_bytes

    def advance(self, start, count):
        with self._cupy.cuda.Device(self.device.indices[0]):
            self._cupy.empty(count * self._need, np.uint8)
        super().advance(start, count)


def test_out_of_memory_halves_the_chunk_and_loses_nothing(fake_gpu, caplog):
    out = np.zeros((100, 3), np.float32)
    run = Hungry(fake_gpu(total_bytes=10 * MIB), out)
    assert list(advance_in_chunks([run], 100, first_chunk=64))[-1] == 100
    np.testing.assert_array_equal(out, philox.uniform(7, 0, 100, 3))
    assert covered(run) == list(range(100))
    assert max(count for _, count in run.done) <= 10
    assert "out of GPU memory with 64 items; trying again with 32" in caplog.text
    assert len(caplog.records) == 1 + 2 + 4  # chunks of 64, 32 and 16 items, which are not tried again


def test_one_failed_allocation_is_tried_again(fake_gpu):
    gpu, out = fake_gpu(), np.zeros((64, 3), np.float32)
    run = Hungry(gpu, out, item_bytes=8)
    gpu.fail_allocations(1)
    list(advance_in_chunks([run], 64, first_chunk=64))
    assert run.done == [(0, 32), (32, 32)]


def test_an_item_that_does_not_fit_is_an_error_with_numbers(fake_gpu):
    gpu = fake_gpu(total_bytes=10 * MIB)
    run = Hungry(gpu, np.zeros((4, 3), np.float32), item_bytes=12 * MIB, claimed_bytes=12 * MIB)
    with pytest.raises(OutOfGpuMemory, match="needs about 12 MB of GPU memory and 10 MB are free") as caught:
        list(advance_in_chunks([run], 4))
    assert (caught.value.needed_mb, caught.value.free_mb) == (12, 10)
    assert run.done == []


def test_chunks_stay_within_free_memory(fake_gpu):
    fake_gpu(total_bytes=100 * MIB)
    run = Recorder(device=GPU, item_bytes=MIB)
    list(advance_in_chunks([run], 300, first_chunk=1000))
    assert {count for _, count in run.done} == {60}  # 60 % of what is free


def test_a_memory_error_of_the_host_is_not_retried():
    with pytest.raises(MemoryError, match="host"):
        list(advance_in_chunks([Broken(MemoryError("host"))], 10))


def test_several_runs_do_each_item_once():
    runs = [Recorder(seconds_per_item=s) for s in (1e-5, 3e-5, 1e-4)]
    steps = list(advance_in_chunks(runs, 5000, first_chunk=16))
    assert covered(*runs) == list(range(5000))
    assert all(run.done for run in runs)
    assert all(a < b for a, b in pairwise(steps))
    assert steps[-1] == 5000


def test_several_gpus_give_the_numbers_of_one(fake_gpu):
    gpu, out = fake_gpu(count=2, total_bytes=10 * MIB), np.zeros((200, 3), np.float32)
    runs = [Hungry(gpu, out, device=Device("cuda", (i,))) for i in range(2)]
    list(advance_in_chunks(runs, 200, first_chunk=16))
    np.testing.assert_array_equal(out, philox.uniform(7, 0, 200, 3))
    assert covered(*runs) == list(range(200))


def test_closing_early_leaves_no_thread():
    steps = advance_in_chunks([Recorder(seconds_per_item=1e-5) for _ in range(3)], 10**7, first_chunk=10)
    next(steps)
    steps.close()
    assert not package_threads()


# -- pieces -----------------------------------------------------------------------------------------------------------

PIECES = [(0, 700), (700, 1400), (1500, 1503), (1503, 1503), (2000, 2900)]
IN_PIECES = [item for start, stop in PIECES for item in range(start, stop)]


def pieces_of(run):
    """Index of the piece of each chunk, which must lie within it."""
    found = [
        [i for i, (first, last) in enumerate(PIECES) if first <= start and start + count <= last]
        for start, count in run.done
    ]
    assert all(len(places) == 1 for places in found), run.done
    return [places[0] for places in found]


@pytest.mark.parametrize("first_chunk", [1, 7, 300, 10**6])
def test_pieces_are_done_once_and_in_order(first_chunk):
    run = Recorder()
    steps = list(advance_in_pieces([run], PIECES, first_chunk=first_chunk))
    assert [item for start, count in run.done for item in range(start, start + count)] == IN_PIECES
    assert pieces_of(run) == sorted(pieces_of(run))
    assert steps == np.cumsum([count for _, count in run.done]).tolist()


@pytest.mark.parametrize("seconds", [(1e-6, 1e-6, 1e-6), (1e-5, 3e-5, 1e-4)])
def test_several_runs_share_pieces_and_finish_what_they_began(seconds):
    runs = [Recorder(seconds_per_item=s) for s in seconds]
    steps = list(advance_in_pieces(runs, PIECES, first_chunk=16))
    assert covered(*runs) == IN_PIECES
    assert (steps[-1], all(a < b for a, b in pairwise(steps))) == (len(IN_PIECES), True)
    owners = [(piece, n) for n, run in enumerate(runs) for piece in set(pieces_of(run))]
    assert len(owners) == len({piece for piece, _ in owners}) == 4  # one run for each piece that is not empty
    for run in runs:
        assert pieces_of(run) == sorted(pieces_of(run))
        assert run.done == sorted(run.done)


def test_a_run_too_many_stays_idle():
    runs = [Recorder() for _ in range(5)]
    assert list(advance_in_pieces(runs, [(3, 10)], first_chunk=100)) == [7]
    assert sorted(len(run.done) for run in runs) == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("workers", [1, 3])
def test_stop_in_the_middle_of_pieces(workers):
    stop, runs = threading.Event(), [Recorder(seconds_per_item=1e-4) for _ in range(workers)]
    pieces = [(i * 10**5, (i + 1) * 10**5) for i in range(5)]
    steps = advance_in_pieces(runs, pieces, stop=stop, first_chunk=10)
    assert next(steps) == 10
    stop.set()
    begun_before = sum(len(run.done) for run in runs)
    last = [10, *steps][-1]
    assert len(covered(*runs)) == len(set(covered(*runs))) == last
    assert sum(len(run.done) for run in runs) <= begun_before + 2 * workers
    for run in runs:  # each has the beginning of its piece, without a hole
        assert covered(run) == list(range(run.done[0][0], run.done[0][0] + len(covered(run))))


def test_out_of_memory_stays_within_the_piece(fake_gpu):
    out = np.zeros((2900, 3), np.float32)
    run = Hungry(fake_gpu(total_bytes=10 * MIB), out)
    assert list(advance_in_pieces([run], PIECES, first_chunk=64))[-1] == len(IN_PIECES)
    assert covered(run) == IN_PIECES
    assert set(pieces_of(run)) == {0, 1, 2, 4}
    np.testing.assert_array_equal(out[IN_PIECES], philox.uniform(7, 0, 2900, 3)[IN_PIECES])


# -- both -------------------------------------------------------------------------------------------------------------


def in_short_pieces(runs, total, **how):
    return advance_in_pieces(runs, [(start, min(start + 1000, total)) for start in range(0, total, 1000)], **how)


BOTH_WAYS = pytest.mark.parametrize("advance", [advance_in_chunks, in_short_pieces])


@BOTH_WAYS
@pytest.mark.parametrize(("total", "stopped"), [(0, False), (100, True)])
def test_nothing_is_done_without_items_or_after_a_stop(advance, total, stopped):
    stop, run = threading.Event(), Recorder()
    if stopped:
        stop.set()
    assert list(advance([run], total, stop=stop)) == []
    assert run.done == []


@BOTH_WAYS
@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_in_one_run_comes_out(advance, workers):
    runs = [Recorder(seconds_per_item=1e-5) for _ in range(workers - 1)] + [Broken(ZeroDivisionError("broken"))]
    with pytest.raises(ZeroDivisionError, match="broken"):
        list(advance(runs, 10**6, first_chunk=10))
    assert not package_threads()


def test_no_run_gets_further_ahead_than_it_may(in_chunks_of):
    in_chunks_of(1)
    unfinished = set()
    slow, quick = runs = Racing(unfinished, seconds_per_item=0.1), Racing(unfinished)
    assert list(advance_in_chunks(runs, 20, most_ahead=2))[-1] == 20
    assert covered(slow, quick) == list(range(20))
    assert max(quick.behind) < 2 * len(runs)
