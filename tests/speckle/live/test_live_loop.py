"""The loop: from a source to the newest result, with everything counted and every error message."""

import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live import FrameMode, Latest, LiveLoop, LiveResult, SourceFailed, StackSource, State
from napari_gpubio.speckle.live.loop import LevelMeter, RateMeter
from tests.speckle.live.fakes import FakeClock, ListSource, frame


def finished(loop: LiveLoop) -> LiveLoop:
    loop.start()
    assert loop.wait(10.0)
    return loop


def test_every_frame_is_processed_in_order_and_the_newest_result_is_there() -> None:
    seen: list[int] = []
    source = ListSource([frame(n) for n in range(10)], can_wait=True)
    loop = finished(LiveLoop(source, lambda pixels: seen.append(int(pixels[0, 0])) or len(seen)))
    assert seen == list(range(10))
    result = loop.latest.take()
    assert result is not None
    assert (result.value, result.number, result.timestamp_s) == (10, 9, pytest.approx(0.9))
    status = loop.status()
    assert (status.state, status.received, status.processed, status.dropped) == (State.ENDED, 10, 10, 0)
    assert (source.opened, source.closed) == (1, 1)
    assert status.message == ""


@pytest.mark.parametrize(
    ("mode", "processed", "dropped", "skipped"),
    [(FrameMode.EVERY_FRAME, [0, 36, 37, 38, 39], 35, 0), (FrameMode.MAX_RECENT, [0, 39], 0, 38)],
)
def test_drops_and_skips_are_counted_exactly_when_the_process_sleeps(
    mode: FrameMode, processed: list[int], dropped: int, skipped: int
) -> None:
    """In its first frame, until the source has ended."""
    seen: list[int] = []
    begun = threading.Event()

    def sleep(pixels: np.ndarray) -> None:
        seen.append(int(pixels[0, 0]))
        begun.set()
        source.ended.wait(5.0)

    source = ListSource([frame(0), lambda: begun.wait(5.0), *(frame(number) for number in range(1, 40))])
    status = finished(LiveLoop(source, sleep, mode=mode, slots=5)).status()
    assert seen == processed
    assert (status.received, status.processed) == (40, len(processed))
    assert (status.dropped, status.skipped) == (dropped, skipped)


def failing(error: BaseException) -> Any:
    def fail(*_: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InvalidInput("the window is too large"), "the window is too large"),
        (ZeroDivisionError("by zero"), "the processing failed: ZeroDivisionError: by zero"),
        (MemoryError("no 3 GiB"), "the processing ran out of memory (no 3 GiB); use fewer slots or smaller frames"),
    ],
)
def test_an_error_of_the_process_is_reported_and_ends_both_threads(error: Exception, message: str) -> None:
    source = StackSource(np.zeros((5, 3, 4), np.uint8), 500.0, loop=True)
    status = finished(LiveLoop(source, failing(error))).status()
    assert (status.state, status.message, status.processed) == (State.FAILED, message, 0)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (failing(SourceFailed("the camera stopped")), "the camera stopped"),
        (failing(KeyError("x")), "the list failed: KeyError: 'x'"),
        (frame(2, shape=(9, 9)), "the frames changed from 5 x 4 uint16 to 9 x 9 uint16; stop and start again"),
    ],
)
def test_an_error_of_the_source_is_reported_after_its_frames_were_processed(last: Any, message: str) -> None:
    source = ListSource([frame(0), frame(1), last], can_wait=True)
    status = finished(LiveLoop(source, np.mean)).status()
    assert (status.state, status.processed, source.closed) == (State.FAILED, 2, 1)
    assert status.message.startswith(message)


def test_a_source_that_cannot_be_opened() -> None:
    source = ListSource([])
    source.open = failing(InvalidInput("there is no camera"))  # type: ignore[method-assign]
    status = finished(LiveLoop(source, np.mean)).status()
    assert (status.state, status.message) == (State.FAILED, "there is no camera")


def test_stop_returns_at_once_and_start_begins_anew() -> None:
    begun = threading.Event()
    source = StackSource(np.ones((5, 3, 4), np.uint8), 1000.0, loop=True)
    loop = LiveLoop(source, lambda _: begun.set())
    for _ in range(2):
        begun.clear()
        loop.start()
        assert begun.wait(5.0)
        with pytest.raises(InvalidInput, match="the stack runs already; stop it first"):
            loop.start()
        loop.stop()
        assert loop.wait(5.0)
        assert loop.status().state is State.STOPPED
    assert loop.close()
    assert loop.latest.take() is None


def test_stop_wakes_a_patient_source_and_leaves_what_waits() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def sleep(_: np.ndarray) -> None:
        begun.set()
        go_on.wait(5.0)

    loop = LiveLoop(ListSource([frame(n) for n in range(50)], can_wait=True), sleep, slots=3)
    loop.start()
    assert begun.wait(5.0)
    loop.stop()
    go_on.set()
    assert loop.wait(5.0)
    status = loop.status()
    assert status.processed == 1
    assert status.received == status.processed + status.waiting
    assert status.dropped == 0


def test_close_before_start() -> None:
    loop = LiveLoop(ListSource([]), np.mean)
    assert loop.status().state is State.STOPPED
    assert loop.close()


def test_rates_latency_and_levels() -> None:
    clock = FakeClock()
    seen: list[float] = []
    go_on = threading.Event()

    def process(pixels: np.ndarray) -> None:
        clock.time_s += 0.004
        loop.count_drawn()
        seen.append(clock.time_s)
        go_on.set()

    def wait() -> None:  # until the frame before is processed
        assert go_on.wait(5.0)
        go_on.clear()
        while loop.status().processed < len(seen):
            time.sleep(1e-4)
        clock.time_s += 0.021

    class Timed(ListSource):
        def frames(self, stop: threading.Event) -> Any:
            for number in range(30):
                yield frame(4095 if number % 2 else 100, arrived_s=clock.now())
                wait()

    loop = LiveLoop(Timed([]), process, clock=clock)
    status = finished(loop).status()
    assert status.camera_hz == pytest.approx(40.0, rel=1e-6)
    assert status.processed_hz == pytest.approx(40.0, rel=0.02)
    assert status.drawn_hz == pytest.approx(40.0, rel=0.02)
    assert (status.drawn, status.processed) == (30, 30)
    assert status.latency_ms == pytest.approx(4.0)
    assert status.saturated_percent in (0.0, 100.0)
    assert status.mean_level in (100.0, 4095.0)
    assert (status.waiting, status.slots) == (0, 16)
    assert status.ring_megabytes == 16 * 40 / 2**20


def test_a_process_may_fill_spare_results_again() -> None:
    latest: Latest[LiveResult] = Latest()
    made = []

    def process(pixels: np.ndarray) -> np.ndarray:
        spare = latest.spare()
        if spare is None:
            made.append(np.empty(pixels.shape, np.float32))
            return made[-1]
        np.sqrt(pixels, out=spare.value)
        return spare.value

    finished(LiveLoop(ListSource([frame(n) for n in range(50)], can_wait=True), process, latest=latest))
    assert len(made) <= 3


def test_the_loop_needs_no_window() -> None:
    """Nor a package that is an extra: a fresh interpreter loads none of them."""
    text = (
        "import sys, napari_gpubio.speckle.live, napari_gpubio.speckle.live.checks;"
        "assert not {'napari', 'qtpy', 'cupy', 'vispy', 'pymmcore_plus', 'dask', 'zarr'} & set(sys.modules),"
        "sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)


def test_the_rate_of_regular_events_falls_when_no_more_come() -> None:
    clock = FakeClock()
    meter = RateMeter(clock)
    assert meter.rate_hz == 0.0
    assert np.isnan(meter.mean)
    for number in range(500):
        meter.add(number)
        clock.time_s += 1 / 30
        if number:
            assert meter.rate_hz == pytest.approx(30.0)  # also at the moment when the next is due
    assert meter.mean == pytest.approx(499 - 63 / 2)
    clock.time_s += 100.0
    assert meter.rate_hz < 1.0


def test_mean_and_saturation() -> None:
    meter = LevelMeter(FakeClock())
    pixels = np.zeros((10, 20), np.uint16)
    pixels[0, :3], pixels[1, 0], pixels[2, 0] = 4095, 5000, 4094
    meter.measure(pixels, bits=12)
    assert meter.saturated_percent == 100.0 * 4 / 200
    assert meter.mean_level == (3 * 4095 + 5000 + 4094) / 200


def test_levels_are_measured_ten_times_a_second() -> None:
    clock = FakeClock()
    meter = LevelMeter(clock)
    levels = []
    for number in range(300):
        meter.measure(np.full((2, 2), number, np.uint16), bits=16)
        levels.append(meter.mean_level)
        clock.wait(threading.Event(), 1 / 30)
    assert 70 <= len(set(levels)) <= 101
