"""Rates and levels."""

import threading

import numpy as np
import pytest

from napari_gpubio.speckle.live.meters import LevelMeter, RateMeter
from tests.speckle.live.fakes import FakeClock


def test_the_rate_of_regular_events() -> None:
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


def test_the_rate_falls_when_no_more_events_come() -> None:
    clock = FakeClock()
    meter = RateMeter(clock)
    for _ in range(64):
        meter.add()
        clock.time_s += 1 / 30
    clock.time_s += 100.0
    assert meter.rate_hz < 1.0


def test_mean_and_saturation() -> None:
    meter = LevelMeter(FakeClock())
    pixels = np.zeros((10, 20), np.uint16)
    pixels[0, :3], pixels[1, 0], pixels[2, 0] = 4095, 5000, 4094
    meter.look(pixels, bits=12)
    assert meter.saturated_percent == 100.0 * 4 / 200
    assert meter.mean_level == (3 * 4095 + 5000 + 4094) / 200


def test_levels_are_looked_at_ten_times_a_second() -> None:
    clock = FakeClock()
    meter = LevelMeter(clock)
    looks = []
    for number in range(300):
        meter.look(np.full((2, 2), number, np.uint16), bits=16)
        looks.append(meter.mean_level)
        clock.wait(threading.Event(), 1 / 30)
    assert 70 <= len(set(looks)) <= 101
