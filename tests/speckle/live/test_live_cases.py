"""The checks of the live loop, in their short form, and that they can fail."""

import time

import numpy as np

from napari_gpubio.core.cases import run_check
from napari_gpubio.core.device import CPU
from napari_gpubio.speckle.live.cases import LIVE_CHECKS, SHORT_S, live_checks

TIMED = ("processed rate (frames/s)", "latency (ms), less than the time between frames")


def test_no_frame_is_dropped_at_a_cameras_pace_and_each_drop_of_a_sleeper_is_counted() -> None:
    rows = [row for check in live_checks(seconds=SHORT_S) for row in run_check(check, CPU)]
    assert {row["quantity"] for row in rows} >= set(TIMED)
    for row in rows:
        assert row["passed"] or row["quantity"] in TIMED, row  # a busy machine may be late


def test_the_pace_fails_with_a_slow_process() -> None:
    def slow(_: object) -> object:
        return lambda pixels: time.sleep(0.06)

    rows = run_check(live_checks(slow, seconds=0.5)[0], CPU)
    assert [row["quantity"] for row in rows if not row["passed"]] == list(TIMED)


def test_the_process_is_the_callers() -> None:
    seen = []
    rows = run_check(live_checks(lambda device: lambda pixels: seen.append((device, np.shape(pixels))), 0.3)[0], CPU)
    assert rows[1]["result"] == 9
    assert seen == [(CPU, (1040, 1392))] * 10  # nine frames and one before the clock runs


def test_the_long_form_is_ten_seconds() -> None:
    assert [check.name for check in LIVE_CHECKS] == [
        "live, 30 frames/s of 1392 x 1040 for 10 s",
        "live, a consumer that sleeps",
    ]
