"""A stack played as a camera: pace, ends, what is refused."""

import threading
from itertools import islice
from pathlib import Path

import dask.array as da
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live import StackSource
from napari_gpubio.speckle.live.sources.pacing import paced
from tests.speckle.live.fakes import FakeClock


def stack(n: int = 6, dtype: str = "uint16") -> np.ndarray:
    return np.arange(n * 12).reshape(n, 3, 4).astype(dtype)


def test_the_pace_does_not_drift() -> None:
    """Though every wait is too long by up to 5 ms, frame 5000 is due when it was at the start."""
    rng = np.random.default_rng(0)
    clock = FakeClock(oversleeps=lambda: float(rng.uniform(0.0, 5e-3)))
    late = [clock.now() - 1000.0 - number / 30.0 for number in islice(paced(30.0, clock, threading.Event()), 5000)]
    assert min(late) >= -1e-9
    assert max(late) < 5e-3 + 1e-9


def test_who_was_held_up_catches_up() -> None:
    clock = FakeClock()
    times = []
    for number in islice(paced(10.0, clock, threading.Event()), 20):
        times.append(clock.now() - 1000.0)
        clock.time_s += 0.55 if number == 3 else 0.0
    assert times[4] == pytest.approx(0.85)
    np.testing.assert_allclose(times[9:], np.arange(9, 20) / 10.0)


def test_after_a_long_sleep_no_burst_follows() -> None:
    clock = FakeClock()
    times = []
    for number in islice(paced(10.0, clock, threading.Event()), 10):
        times.append(clock.now() - 1000.0)
        clock.time_s += 60.0 if number == 3 else 0.0
    np.testing.assert_allclose(np.diff(times[4:]), 0.1)


def test_frames_numbers_and_times() -> None:
    clock = FakeClock()
    source = StackSource(stack(), 20.0, clock=clock, exposure_ms=5.0)
    frames = list(source.frames(threading.Event()))
    assert [f.number for f in frames] == list(range(6))
    np.testing.assert_allclose([f.timestamp_s for f in frames], np.arange(6) / 20.0)
    np.testing.assert_allclose([f.arrived_s - 1000.0 for f in frames], np.arange(6) / 20.0)
    np.testing.assert_array_equal([f.pixels for f in frames], stack())
    assert (source.shape, source.dtype, source.bits, source.exposure_ms) == ((3, 4), np.uint16, 16, 5.0)


def test_a_loop_begins_again() -> None:
    source = StackSource(stack(3), 20.0, loop=True, clock=FakeClock())
    frames = list(islice(source.frames(threading.Event()), 8))
    np.testing.assert_array_equal([f.pixels for f in frames], stack(3)[[0, 1, 2, 0, 1, 2, 0, 1]])
    assert frames[-1].number == 7


def test_stop_ends_a_wait() -> None:
    stop = threading.Event()
    clock = FakeClock(meanwhile=lambda now: stop.set() if now > 1000.45 else None)
    assert len(list(StackSource(stack(), 10.0, loop=True, clock=clock).frames(stop))) == 5


@pytest.mark.parametrize("kind", ["uint8", "uint16", "int32", "dask", "memmap"])
def test_arrays_of_all_kinds(kind: str, tmp_path: Path) -> None:
    whole = stack(dtype=kind if "int" in kind else "uint16")
    array = {"dask": lambda: da.from_array(whole, chunks=(2, 3, 4)), "memmap": lambda: on_disk(whole, tmp_path)}
    frames = list(StackSource(array.get(kind, lambda: whole)(), 1e3, clock=FakeClock()).frames(threading.Event()))
    assert {f.pixels.dtype for f in frames} == {np.dtype("uint8" if kind == "uint8" else "uint16")}
    np.testing.assert_array_equal([f.pixels for f in frames], whole)


def on_disk(array: np.ndarray, folder: Path) -> np.ndarray:
    np.save(folder / "stack.npy", array)
    return np.load(folder / "stack.npy", mmap_mode="r")


def test_dask_frames_are_computed_when_their_turn_comes() -> None:
    computed = []

    def block(block_info: dict) -> np.ndarray:
        computed.append(block_info[None]["chunk-location"][0])
        return np.zeros((1, 3, 4), np.uint8)

    lazy = da.map_blocks(block, dtype="u1", chunks=((1,) * 9, (3,), (4,)), meta=np.zeros((0, 0, 0), "u1"))
    computed.clear()
    next(iter(StackSource(lazy, clock=FakeClock()).frames(threading.Event())))
    assert computed == [0]


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (np.full((2, 3, 4), np.nan), "holds float64 values; live imaging needs raw integers of 8 to 16 bits"),
        (np.zeros((2, 3, 4), bool), "holds bool values"),
        (np.zeros((2, 30, 40, 3), "u1"), r"has shape \(2, 30, 40, 3\) and looks like color frames"),
        (np.zeros((30, 40), "u1"), r"has shape \(30, 40\); give an array of shape \(frames, height, width\)"),
        (np.zeros((0, 30, 40), "u1"), r"shape \(0, 30, 40\)"),
        ([[[1]]], "is a list; give an array"),
    ],
)
def test_what_is_no_stack_of_raw_frames_is_refused(array: object, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        StackSource(array)


@pytest.mark.parametrize("value", [-1, 65536])
def test_whole_numbers_beyond_16_bits_are_refused_when_they_come(value: int) -> None:
    array = np.zeros((2, 3, 4), np.int32)
    array[1, 0, 0] = value
    frames = StackSource(array, clock=FakeClock()).frames(threading.Event())
    next(frames)
    with pytest.raises(InvalidInput, match="frame 1 of the stack has values from"):
        next(frames)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_is_positive(rate: float) -> None:
    with pytest.raises(InvalidInput, match="frames/s; give a positive number"):
        StackSource(stack(), rate)
