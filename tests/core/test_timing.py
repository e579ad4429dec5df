"""Run times without compilation."""

import threading
import time

import pytest

from napari_gpubio.core import timing


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when a test says so."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_a_run_without_compilation(clock):
    run = timing.RunClock()
    clock[0] += 2.5
    assert run.seconds == pytest.approx(2.5)


def test_compilation_does_not_count(clock):
    run = timing.RunClock(already=10.0)
    clock[0] += 1.0
    with timing.compiling():
        clock[0] += 20.0
        with timing.compiling():
            clock[0] += 3.0
    clock[0] += 0.5
    assert run.seconds == pytest.approx(11.5)
    assert timing.RunClock().seconds == 0.0


def fail(clock):
    clock[0] += 4.0
    raise KeyError


def test_compilation_that_fails_counts_as_one(clock):
    run = timing.RunClock()
    with pytest.raises(KeyError), timing.compiling():
        fail(clock)
    assert run.seconds == pytest.approx(0.0)


def test_threads_count_each_for_itself(clock):
    before = timing.compile_seconds()
    with timing.compiling():
        clock[0] += 1.0
        other = threading.Thread(target=timing.begin_compiling)
        other.start()
        other.join()
        assert timing.compile_seconds() == before
    assert timing.compile_seconds() == pytest.approx(before + 1.0)
