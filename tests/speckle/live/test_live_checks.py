"""The checks of the live loop, in their short form, and that they can fail."""

import contextlib
import threading
import time
from typing import Any

import numpy as np
import pytest

from napari_gpubio.core.checks import run_check
from napari_gpubio.core.device import CPU
from napari_gpubio.speckle.live.checks import SHORT_S, live_checks

TIMED = ("processed rate (frames/s)", "latency (ms), less than the time between frames")


def test_no_frame_is_dropped_at_a_cameras_pace_and_each_drop_of_a_sleeper_is_counted() -> None:
    rows = [row for check in live_checks(seconds=SHORT_S) for row in run_check(check, CPU)]
    assert {row["quantity"] for row in rows} >= set(TIMED)
    for row in rows:
        assert row["passed"] or row["quantity"] in TIMED, row  # a busy machine may be late


def test_the_pace_fails_with_a_slow_process() -> None:
    def slow(_: object) -> Any:
        return contextlib.nullcontext(lambda pixels: time.sleep(0.06))

    rows = run_check(live_checks(slow, seconds=0.5)[0], CPU)
    assert [row["quantity"] for row in rows if not row["passed"]] == list(TIMED)


def test_the_process_is_the_callers() -> None:
    seen = []

    def seeing(device: object) -> Any:
        return contextlib.nullcontext(lambda pixels: seen.append((device, np.shape(pixels))))

    rows = run_check(live_checks(seeing, 0.3)[0], CPU)
    assert rows[1]["result"] == 9
    assert seen == [(CPU, (1040, 1392))] * 10  # nine frames and one before the clock runs


@pytest.mark.parametrize("breaks", [False, True])
def test_the_process_is_closed_whatever_comes(breaks: bool) -> None:
    events: list[str] = []

    class Closing:
        def __enter__(self) -> Any:
            events.append("opened")
            return self

        def __call__(self, pixels: Any) -> None:
            if breaks:
                raise ValueError("broken")

        def __exit__(self, *_: object) -> None:
            events.append("closed")

    check = live_checks(lambda _: Closing(), 0.1)[0]
    with pytest.raises(ValueError, match="broken") if breaks else contextlib.nullcontext():
        run_check(check, CPU)
    assert events == ["opened", "closed"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("speckle")]
