"""The engine's own reference cases: they pass, and wrong contrast or a slow process fails them."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from napari_gpubio.core.checks import run_check, run_speed
from napari_gpubio.core.device import choose_device
from napari_gpubio.speckle import checks, contrast
from napari_gpubio.speckle.checks import contrast_directly
from napari_gpubio.speckle.live.checks import SHORT_S, live_checks
from tests.speckle.reference import contrast_of

# live loops have tests of their own
CHECKS = {check.name: check for check in checks.CHECKS if not check.name.startswith("live")}


def rows_of(check, device="cpu"):
    return run_check(check, choose_device(device))


def failed(check, device="cpu"):
    return [row["quantity"] for row in rows_of(check, device) if not row["passed"]]


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_every_check_passes(check, device):
    assert failed(check, device) == []


@pytest.mark.parametrize("name", ["exact sums", "sums of patterns", "autoregressive flow"])
def test_contrast_without_the_unbiased_divisor_fails(monkeypatch, name):
    def biased(frames, settings=None, **options):
        maps = contrast(frames, settings, **options)
        factor = np.float32(np.sqrt(1 - 1 / settings.samples) if name == "exact sums" else 0.97)
        return dataclasses.replace(maps, signed=maps.signed * factor)

    monkeypatch.setattr(checks, "contrast", biased)
    assert failed(CHECKS[name])


def test_single_precision_sums_fail(monkeypatch):
    def rough(frame, settings, **options):
        maps = contrast(frame, settings, **options)
        means, squares = (
            np.lib.stride_tricks.sliding_window_view(a, (settings.width,) * 2).mean((2, 3), dtype=np.float32)
            for a in (frame.astype(np.float32), frame.astype(np.float32) ** 2)
        )
        n, r = settings.samples, settings.width // 2
        k = maps.contrast.copy()
        k[r:-r, r:-r] = np.sqrt(np.maximum((squares - means**2) * np.float32(n / (n - 1)), 0)) / means
        return dataclasses.replace(maps, signed=k)

    monkeypatch.setattr(checks, "contrast", rough)
    assert "K, K = 0.002 at 3500, 5 x 5" in failed(CHECKS["exact sums"])


def test_the_direct_form_is_that_of_the_tests():
    frames = np.random.default_rng(0).integers(1, 999, (5, 14, 15))
    np.testing.assert_allclose(
        contrast_directly(frames, 5, 2, 2), contrast_of(frames, 5, 2, 2)[:, 2:-2, 2:-2], rtol=1e-12
    )


def test_speeds_count_pixels(monkeypatch):
    monkeypatch.setattr(checks, "FRAME_SHAPE", (20, 24))
    monkeypatch.setattr(checks, "speckle_frames", lambda n: np.ones((n, 20, 24), np.uint16))
    amounts = [run_speed(speed, choose_device("cpu"), repeats=1)["amount"] for speed in checks.SPEEDS]
    assert amounts == [20 * 24, 20 * 24 * checks.STACK]


COUNTING = """
import json
from napari_gpubio.core import jit
from napari_gpubio.speckle.checks import WARMUPS
counts = []
for one in WARMUPS:
    before = jit.compiled_functions()
    one.run()
    counts.append(jit.compiled_functions() - before)
from napari_gpubio.speckle.kernels.contrast import windows
from napari_gpubio.speckle.kernels import mesi
kernels = windows.fill_rows, windows.sum_frames, windows.sum_samples, mesi.fit_pixels
print(json.dumps([counts, [len(kernel.signatures) for kernel in kernels]]))
"""


def warm_ups_in_a_new_process(**environment):
    """How many functions each compiles, and for how many types of arguments there is each kernel then."""
    environment = os.environ | environment
    done = subprocess.run([sys.executable, "-c", COUNTING], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_warm_ups_need_each_kernel_once_for_a_type_of_frames():
    _, signatures = warm_ups_in_a_new_process()
    assert signatures == [2, 1, 1, 1]  # frames of 16 and of 8 bits


@pytest.mark.long  # it compiles everything anew
def test_warm_ups_compile_what_they_list(tmp_path):
    counts, _ = warm_ups_in_a_new_process(NUMBA_CACHE_DIR=str(tmp_path))
    assert counts == [one.functions for one in checks.WARMUPS]


# -- live loops --------------------------------------------------------------------------------------------------------

TIMED = ("processed rate (frames/s)", "latency (ms), less than the time between frames")


def test_no_frame_is_dropped_at_a_cameras_pace_and_each_drop_of_a_sleeper_is_counted():
    rows = [row for check in live_checks(seconds=SHORT_S) for row in rows_of(check)]
    assert {row["quantity"] for row in rows} >= set(TIMED)
    for row in rows:
        assert row["passed"] or row["quantity"] in TIMED, row  # a busy machine may be late


def test_the_pace_fails_with_a_slow_process():
    def slow(_):
        return contextlib.nullcontext(lambda pixels: time.sleep(0.06))

    assert failed(live_checks(slow, seconds=0.5)[0]) == list(TIMED)


def test_the_process_is_the_callers():
    seen = []

    def seeing(device):
        return contextlib.nullcontext(lambda pixels: seen.append((device, np.shape(pixels))))

    rows = rows_of(live_checks(seeing, 0.3)[0])
    assert rows[1]["result"] == 9
    assert seen == [(choose_device("cpu"), (1040, 1392))] * 10  # nine frames and one before the clock runs


@pytest.mark.parametrize("breaks", [False, True])
def test_the_process_is_closed_whatever_comes(breaks):
    events = []

    @contextlib.contextmanager
    def closing(_):
        events.append("opened")
        try:
            yield fail if breaks else np.shape
        finally:
            events.append("closed")

    def fail(pixels):
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken") if breaks else contextlib.nullcontext():
        rows_of(live_checks(closing, 0.1)[0])
    assert events == ["opened", "closed"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("speckle")]
