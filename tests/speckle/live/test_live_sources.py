"""Sources without a camera: a played stack and the simulated camera."""

import threading
from itertools import islice
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.indices import expected_k2
from napari_gpubio.speckle.live import SimulatedCamera, StackSource
from napari_gpubio.speckle.live.frame import paced
from napari_gpubio.speckle.live.sources import (
    BACKGROUND_STEPS,
    CUTOFF,
    STEP_DECORRELATION,
    STEPS,
    VESSEL_STEPS,
    cover,
    running_sums,
)
from tests.speckle.live.fakes import FakeClock
from tests.speckle.reference import error_of_k2


def stack(n: int = 6, dtype: str = "uint16") -> np.ndarray:
    return np.arange(n * 12).reshape(n, 3, 4).astype(dtype)


def test_the_pace_does_not_drift() -> None:
    """Though every wait is too long by up to 5 ms, frame 5000 is due when it was at the start."""
    rng = np.random.default_rng(0)
    clock = FakeClock(oversleeps=lambda: float(rng.uniform(0.0, 5e-3)))
    late = [clock.now() - 1000.0 - number / 30.0 for number in islice(paced(30.0, clock, threading.Event()), 5000)]
    assert min(late) >= -1e-9
    assert max(late) < 5e-3 + 1e-9


def paced_with_a_pause(pause_s: float) -> list[float]:
    """Times of 20 numbers at 10 a second, with a pause after the fourth."""
    clock, times = FakeClock(), []
    for number in islice(paced(10.0, clock, threading.Event()), 20):
        times.append(clock.now() - 1000.0)
        clock.time_s += pause_s if number == 3 else 0.0
    return times


def test_a_short_pause_is_caught_up_and_after_a_long_one_no_burst_follows() -> None:
    times = paced_with_a_pause(0.55)
    assert times[4] == pytest.approx(0.85)
    np.testing.assert_allclose(times[9:], np.arange(9, 20) / 10.0)
    np.testing.assert_allclose(np.diff(paced_with_a_pause(60.0)[4:]), 0.1)


def test_frames_numbers_and_times() -> None:
    source = StackSource(stack(), 20.0, clock=FakeClock(), exposure_ms=5.0)
    frames = list(source.frames(threading.Event()))
    assert [f.number for f in frames] == list(range(6))
    np.testing.assert_allclose([f.timestamp_s for f in frames], np.arange(6) / 20.0)
    np.testing.assert_allclose([f.arrived_s - 1000.0 for f in frames], np.arange(6) / 20.0)
    np.testing.assert_array_equal([f.pixels for f in frames], stack())
    assert (source.shape, source.dtype, source.bits, source.exposure_ms) == ((3, 4), np.uint16, 16, 5.0)
    again = StackSource(stack(3), 20.0, loop=True, clock=FakeClock())
    frames = list(islice(again.frames(threading.Event()), 8))
    np.testing.assert_array_equal([f.pixels for f in frames], stack(3)[[0, 1, 2, 0, 1, 2, 0, 1]])
    assert frames[-1].number == 7


def test_stop_ends_a_wait() -> None:
    stop = threading.Event()
    clock = FakeClock(meanwhile=lambda now: stop.set() if now > 1000.45 else None)
    assert len(list(StackSource(stack(), 10.0, loop=True, clock=clock).frames(stop))) == 5


@pytest.mark.parametrize("kind", ["uint8", "uint16", "int32", "dask", "memmap"])
def test_arrays_of_all_kinds(kind: str, tmp_path: Path) -> None:
    array = whole = stack(dtype=kind if "int" in kind else "uint16")
    if kind == "dask":
        array = da.from_array(whole, chunks=(2, 3, 4))
    elif kind == "memmap":
        np.save(tmp_path / "stack.npy", whole)
        array = np.load(tmp_path / "stack.npy", mmap_mode="r")
    frames = list(StackSource(array, 1e3, clock=FakeClock()).frames(threading.Event()))
    assert {f.pixels.dtype for f in frames} == {np.dtype("uint8" if kind == "uint8" else "uint16")}
    np.testing.assert_array_equal([f.pixels for f in frames], whole)


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
    ("array", "message"),
    [
        (np.full((2, 3, 4), np.nan), "holds float64 values; live imaging needs raw integers of 8 to 16 bits"),
        (np.zeros((2, 3, 4), bool), "holds bool values"),
        (np.zeros((2, 30, 40, 3), "u1"), r"has shape \(2, 30, 40, 3\) and looks like color frames"),
        (np.zeros((30, 40), "u1"), r"has shape \(30, 40\); give an array of shape \(frames, height, width\)"),
        (np.zeros((0, 30, 40), "u1"), r"shape \(0, 30, 40\)"),
        ([[[1]]], "is a list; give an array"),
    ],
)
def test_what_is_no_stack_of_raw_frames_is_refused(array: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
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


TILES, EDGE = 24, 64


@pytest.fixture(scope="module")
def sums() -> np.ndarray:
    """Running sums of independent tiles, without their modulus."""
    steps = [np.diff(running_sums(EDGE, seed), axis=0) for seed in range(TILES)]  # differences are exact modulo 2^16
    return np.array(
        [np.concatenate([np.zeros((1, EDGE, EDGE)), step.cumsum(axis=0, dtype=np.int64)]) for step in steps]
    )


def exact_k2(steps: int) -> float:
    return float(expected_k2(STEP_DECORRELATION * steps, steps))


@pytest.mark.parametrize("steps", [1, BACKGROUND_STEPS, VESSEL_STEPS, STEPS - 1])
def test_the_speckle_has_the_contrast_that_is_stated(sums: np.ndarray, steps: int) -> None:
    """Second moment over independent tiles, against its own standard error, which is what speckle has."""
    exposed = (sums[:, steps] - sums[:, 0]) / steps
    mean = exposed.mean()
    moments = (exposed**2).mean(axis=(1, 2)) / mean**2
    k2 = moments - 2 * exposed.mean(axis=(1, 2)) / mean + 1  # the linearized estimate: its mean is K^2, its error known
    error = k2.std(ddof=1) / np.sqrt(TILES)
    exact = exact_k2(steps)
    assert abs(k2.mean() - exact) < 4 * error
    expected = exact * error_of_k2(exact, sums[:, 0].size, CUTOFF)
    assert error == pytest.approx(expected, rel=4 / np.sqrt(2 * (TILES - 1)))  # four of its own standard errors


def test_no_exposure_reaches_the_modulus(sums: np.ndarray) -> None:
    assert sums[:, -1].max() < 65536


def test_an_exposure_is_one_difference_of_the_wrapped_sums(sums: np.ndarray) -> None:
    wrapped = running_sums(EDGE, 3)
    np.testing.assert_array_equal(wrapped[40] - wrapped[9], sums[3, 40] - sums[3, 9])


def frames(camera: SimulatedCamera, n: int) -> np.ndarray:
    camera.open()
    return np.array([frame.pixels.copy() for frame in islice(camera.frames(threading.Event()), n)])


def test_flow_changes_the_vessel_and_nothing_else() -> None:
    """To four standard errors: a tile has so many pixels, and so many exposures that do not overlap in time."""
    camera = SimulatedCamera((128, 128), tile=128, clock=FakeClock())

    def close(steps: int) -> Any:
        k2 = float(expected_k2(STEP_DECORRELATION * steps, steps))
        return pytest.approx(k2, rel=4 * error_of_k2(k2, 128 * 128 * (STEPS // steps), CUTOFF))

    measured = {}
    for flow in (0.5, 1.0, 2.0):
        camera.flow = flow
        images = frames(camera, 60).astype(float)
        vessel, beside = images[:, camera.vessel_rows], images[:, :48]
        measured[flow] = vessel.var() / vessel.mean() ** 2
        assert measured[flow] == close(round(flow * VESSEL_STEPS))
        assert beside.var() / beside.mean() ** 2 == close(BACKGROUND_STEPS)
        assert vessel.mean() == pytest.approx(600.0, rel=0.05)
    assert measured[0.5] > measured[1.0] > measured[2.0]


def test_frames_are_12_bits_and_change_and_the_same_seed_gives_the_same_frames() -> None:
    def images(seed: int) -> np.ndarray:
        camera = SimulatedCamera((100, 90), tile=64, clock=FakeClock(), seed=seed)
        camera.flow = 0.05
        return frames(camera, 8)

    first = images(4)
    assert first.dtype == np.uint16
    assert first.max() == 4095  # one pattern of mean 600 saturates here and there
    assert len({image.tobytes() for image in first}) == 8
    np.testing.assert_array_equal(first, images(4))


def test_rate_number_and_end() -> None:
    camera = SimulatedCamera((8, 8), 50.0, n_frames=5, tile=16, clock=FakeClock())
    camera.open()
    came = list(camera.frames(threading.Event()))
    np.testing.assert_allclose([frame.arrived_s - 1000.0 for frame in came], np.arange(5) / 50.0)


@pytest.mark.parametrize(("given", "taken"), [(1.0, 1.0), (0.52, 0.5), (0.0, 0.05), (-3.0, 0.05), (99.0, 3.15)])
def test_flow_takes_the_nearest_possible_value(given: float, taken: float) -> None:
    camera = SimulatedCamera((8, 8))
    camera.flow = given
    assert camera.flow == pytest.approx(taken)
    with pytest.raises(InvalidInput, match="flow is nan"):
        camera.flow = float("nan")


def test_covering_is_periodic() -> None:
    tile = np.arange(15 * 15, dtype=np.uint16).reshape(15, 15)
    frame = np.zeros((47, 37), np.uint16)
    cover(frame[10:], tile, first_row=10)
    rows, columns = np.mgrid[10:47, 0:37]
    np.testing.assert_array_equal(frame[10:], tile[rows % 15, columns % 15])
    assert not frame[:10].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (0, 5)}, r"shape \(0, 5\)"),
        ({"rate_hz": 0.0}, "give a positive number"),
        ({"exposure_ms": 0.0}, "exposure_ms is 0.0; it must be positive"),
        ({"mean_level": float("inf")}, "mean_level is inf"),
    ],
)
def test_what_makes_no_camera(options: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        SimulatedCamera(**options)
