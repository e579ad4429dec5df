"""Long work: the protocol of steps, run times without compilation, and Ctrl-C."""

import argparse
import signal
import threading
import time
import weakref

import numpy as np
import pytest

from napari_gpubio.core import command_line, timing
from napari_gpubio.core.command_line import stop_at_interrupt
from napari_gpubio.core.errors import OutOfMemory
from napari_gpubio.core.report import reporting
from napari_gpubio.core.steps import Step, drive, with_step
from napari_gpubio.core.timing import RunClock, compiling


def work(total, closed):
    try:
        for done in range(1, total + 1):
            yield Step(done, total)
        return "result"
    finally:
        closed.append(True)


def test_a_step_after_each_part_but_the_last():
    def parts():
        yield
        yield
        return "result"

    seen, step = [], Step(3, 3, "making")
    assert drive(with_step(parts(), step), seen.append) == "result"
    assert seen == [step, step]


def test_a_preview_may_be_made_in_steps_once():
    def parts():
        made.append("begun")
        yield
        yield
        return "preview"

    made, seen, step = [], [], Step(3, 9, "photons", make_preview=parts)
    assert drive(step.preview_steps(), seen.append) == step.preview == drive(step.preview_steps()) == "preview"
    assert made == ["begun"]
    assert seen == [Step(3, 9, "photons")] * 2
    assert Step(3, 9, make_preview=parts).preview == "preview"
    assert drive(Step(3, 9).preview_steps()) is None


def test_a_preview_that_nobody_holds_is_gone_before_the_next_step():
    def steps():
        yield Step(1, 2, make_preview=lambda: np.zeros(3))
        alive.append(shown[0]() is not None)
        yield Step(2, 2)

    shown, alive = [], []
    drive(steps(), lambda step: step.done == 1 and shown.append(weakref.ref(step.preview)))
    assert alive == [False]


def test_drive_returns_the_result_and_shows_every_step():
    seen, closed = [], []
    assert drive(work(3, closed), seen.append) == drive(work(3, closed)) == "result"
    assert [step.done for step in seen] == [1, 2, 3]
    assert [step.fraction for step in (*seen, Step(0, 0))] == [1 / 3, 2 / 3, 1.0, 1.0]
    assert closed == [True, True]


def test_memory_that_does_not_suffice_is_a_sentence():
    def too_much():
        yield Step(0, 1)
        return np.empty((1 << 20, 1 << 20, 1 << 10))

    with pytest.raises(OutOfMemory, match=r"does not suffice \(Unable to allocate 8.00 PiB.*close other programs"):
        drive(too_much())


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


def test_progress_is_a_line_every_ten_seconds_in_a_pipe(monkeypatch, capsys):
    clock = Clock()
    monkeypatch.setattr(command_line, "time", clock)
    show = command_line.Progress()
    for done in range(0, 100, 3):
        show(Step(done, 200, "tracing"))
        clock.now += 3.0
    assert capsys.readouterr().err.splitlines()[:2] == ["tracing: 6 %, 12 of 200", "tracing: 12 %, 24 of 200"]
    quiet = argparse.Namespace(json=False, quiet=True, verbose=False)
    with reporting(quiet):
        clock.now += 20.0
        show(Step(1, 2, "tracing"))
    assert capsys.readouterr().err == ""


def test_an_error_in_progress_closes_the_work_and_one_of_the_work_comes_out():
    closed = []

    def fail(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(work(3, closed), fail)
    assert closed == [True]

    def broken():
        yield Step(1, 2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        drive(broken())


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless a test sets it."""
    monkeypatch.setattr(timing, "_over", [])  # what was compiled at true times
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_compilation_does_not_count(clock):
    run = RunClock(already=10.0)
    clock[0] += 1.0
    with compiling():
        clock[0] += 20.0
        with compiling():
            clock[0] += 3.0
    clock[0] += 0.5
    assert run.seconds == pytest.approx(11.5)
    assert RunClock().seconds == 0.0


def fail(clock):
    clock[0] += 4.0
    raise KeyError


def test_compilation_that_fails_counts_as_one(clock):
    run = RunClock()
    with pytest.raises(KeyError), compiling():
        fail(clock)
    assert run.seconds == pytest.approx(0.0)


@pytest.fixture
def raising():
    """Python's own handler of Ctrl-C, which is not there where tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("raising")
def test_the_first_interrupt_asks_and_the_second_ends(capsys):
    usual = signal.getsignal(signal.SIGINT)
    with stop_at_interrupt() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        assert "stopping; what was done is kept" in capsys.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is usual


def test_other_threads_handle_no_signals():
    found = []

    def work():
        with stop_at_interrupt() as stop:
            found.append((stop.is_set(), signal.getsignal(signal.SIGINT)))

    usual = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, usual)]
