"""Runs in a worker thread: results, errors, stop, and what happens to a run that nobody wants any more."""

import gc
import logging
import threading
import weakref

import pytest
from qtpy.QtCore import QCoreApplication, QEvent, QObject

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.gui import jobs
from napari_gpubio.gui.jobs import Job, LatestJob

SECONDS = 10


class Work:
    """A generator of steps that a test holds the reins of: it goes on when ``go`` is set, and says when it ended."""

    def __init__(self, result="done", steps=3, error=None):
        self.result, self.steps, self.error = result, steps, error
        self.go, self.begun, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.thread = None

    def __call__(self, stop):
        try:
            self.thread = threading.current_thread()
            self.begun.set()
            done = 0
            for done in range(1, self.steps + 1):
                while not (self.go.wait(0.005) or stop.is_set()):
                    pass
                if stop.is_set():
                    return ("partial", done - 1)
                yield Step(done, self.steps, "working").showing(done)
            if self.error is not None:
                raise self.error
            return self.result
        finally:
            self.ended.set()


def free(*results):
    works = [Work(result) for result in results]
    for work in works:
        work.go.set()
    return works


def heard(signal):
    list_of = []
    signal.connect(list_of.append)
    return list_of


def outcome_of(qtbot, work, before_waiting=lambda job: None):
    job = Job(work)
    with qtbot.waitSignal(job.finished, timeout=1000 * SECONDS) as said:
        job.start()
        before_waiting(job)
    job.abandon()
    return said.args[0]


# ------------------------------------------------------------------------------------------------------------- Job


def test_steps_and_the_result_arrive_in_the_gui_thread_in_order(qtbot):
    (work,) = free("the result")
    job = Job(work)
    arrived = []
    job.stepped.connect(lambda step: arrived.append((step.done, threading.current_thread())))
    job.finished.connect(lambda outcome: arrived.append((outcome.result, threading.current_thread())))
    with qtbot.waitSignal(job.finished, timeout=1000 * SECONDS) as said:
        job.start()
    assert (said.args[0].result, said.args[0].error) == ("the result", "")
    here = threading.current_thread()
    assert arrived == [(1, here), (2, here), (3, here), ("the result", here)]
    assert work.thread is not here
    assert work.ended.is_set()


def test_an_error_of_ours_is_its_sentence(qtbot, caplog):
    work = Work(error=InvalidInput("the mask is empty; mark at least one voxel"))
    work.go.set()
    outcome = outcome_of(qtbot, work)
    assert outcome.error == "the mask is empty; mark at least one voxel"
    assert outcome.result is None
    assert not caplog.records


def test_an_error_while_the_generator_is_made_is_a_sentence_too(qtbot):
    def make(stop):
        raise InvalidInput("nothing to do")

    assert outcome_of(qtbot, make).error == "nothing to do"


def test_an_unexpected_error_is_a_sentence_and_its_traceback_is_in_the_log(qtbot, caplog):
    work = Work(error=ZeroDivisionError("by zero"))
    work.go.set()
    with caplog.at_level(logging.ERROR):
        outcome = outcome_of(qtbot, work)
    assert "ZeroDivisionError" in outcome.error
    assert "by zero" in outcome.error
    assert "log" in outcome.error
    assert [r.exc_info[0] for r in caplog.records] == [ZeroDivisionError]


def test_stop_lets_the_generator_return_what_it_has(qtbot):
    outcome = outcome_of(qtbot, Work(), before_waiting=lambda job: job.stop())
    assert outcome.result == ("partial", 0)
    assert outcome.error == ""


def test_the_generator_is_closed_in_the_worker_and_freed(qtbot):
    class Buffer:
        pass

    freed_in, buffers = [], []

    def make(stop):
        buffer = Buffer()
        buffers.append(weakref.ref(buffer))
        try:
            yield Step(1, 2)
            raise InvalidInput("broken")
        finally:
            freed_in.append(threading.current_thread().name)

    outcome_of(qtbot, make)
    assert freed_in == ["napari-gpubio job"]
    gc.collect()
    assert buffers[0]() is None


def test_an_abandoned_run_is_not_heard_of_and_has_freed_what_it_held(qtbot):
    work = Work()
    job = Job(work)
    steps, outcomes = heard(job.stepped), heard(job.finished)
    job.start()
    assert work.begun.wait(SECONDS)
    job.abandon()
    assert work.ended.is_set()
    assert not work.thread.is_alive()
    qtbot.wait(50)
    assert not steps
    assert not outcomes


def test_abandoning_a_run_that_has_ended_does_nothing(qtbot):
    (work,) = free("x")
    job = Job(work)
    with qtbot.waitSignal(job.finished, timeout=1000 * SECONDS):
        job.start()
    job.abandon()
    job.abandon()
    assert not work.thread.is_alive()


def test_abandoning_a_run_that_never_began():
    Job(Work()).abandon()


# ------------------------------------------------------------------------------------------------------- LatestJob


@pytest.fixture
def latest(qtbot):
    job = LatestJob()
    yield job
    job.abandon()
    qtbot.wait(1)


def test_only_the_newest_waiting_request_runs(qtbot, latest):
    first = Work("first")
    others = free("second", "third", "fourth")
    outcomes = heard(latest.finished)
    latest.submit(first)
    assert first.begun.wait(SECONDS)
    for work in others:
        latest.submit(work)
    first.go.set()
    qtbot.waitUntil(lambda: len(outcomes) == 2, timeout=1000 * SECONDS)
    qtbot.wait(50)
    assert [o.result for o in outcomes] == ["first", "fourth"]
    assert [work.begun.is_set() for work in others] == [False, False, True]


def test_an_error_does_not_hold_up_the_next_request(qtbot, latest):
    broken = Work(error=InvalidInput("broken"))
    (after,) = free("after")
    outcomes = heard(latest.finished)
    latest.submit(broken)
    latest.submit(after)
    broken.go.set()
    qtbot.waitUntil(lambda: len(outcomes) == 2, timeout=1000 * SECONDS)
    assert [(o.result, o.error) for o in outcomes] == [(None, "broken"), ("after", "")]


def test_what_is_submitted_from_the_answer_runs_next(qtbot, latest):
    first, second = free("first", "second")
    outcomes = heard(latest.finished)
    latest.finished.connect(lambda outcome: outcome.result == "first" and latest.submit(second))
    latest.submit(first)
    qtbot.waitUntil(lambda: len(outcomes) == 2, timeout=1000 * SECONDS)
    assert [o.result for o in outcomes] == ["first", "second"]


def test_cancelled_requests_are_not_heard_of(qtbot, latest):
    running = Work("running")
    (waiting,) = free("waiting")
    outcomes = heard(latest.finished)
    latest.submit(running)
    assert running.begun.wait(SECONDS)
    latest.submit(waiting)
    latest.cancel()
    assert running.ended.wait(SECONDS)
    qtbot.wait(50)
    assert not outcomes
    assert not waiting.begun.is_set()


def test_after_a_cancel_it_goes_on(qtbot, latest):
    (after,) = free("after")
    outcomes = heard(latest.finished)
    running = Work("running")
    latest.submit(running)
    assert running.begun.wait(SECONDS)
    latest.cancel()
    latest.submit(after)
    qtbot.waitUntil(lambda: bool(outcomes), timeout=1000 * SECONDS)
    assert [o.result for o in outcomes] == ["after"]


def test_an_answer_that_is_already_on_its_way_when_it_is_cancelled_is_not_heard(qtbot, latest):
    (old,) = free("old")
    new = Work("new")
    outcomes = heard(latest.finished)
    latest.submit(old)
    assert old.ended.wait(SECONDS)
    old.thread.join(SECONDS)  # its answer now waits in the event queue of this thread
    latest.cancel()
    latest.submit(new)
    qtbot.wait(50)
    assert not outcomes
    new.go.set()
    qtbot.waitUntil(lambda: bool(outcomes), timeout=1000 * SECONDS)
    assert [o.result for o in outcomes] == ["new"]


def test_who_waits_a_little_hears_at_once_what_is_soon_there(qtbot, latest):
    soon, after = free("soon", "after")
    outcomes = heard(latest.finished)
    latest.wait(0.0)
    latest.submit(soon)
    latest.submit(after)
    latest.wait(SECONDS)
    assert [o.result for o in outcomes] == ["soon"]
    qtbot.waitUntil(lambda: len(outcomes) == 2, timeout=1000 * SECONDS)
    qtbot.wait(50)
    assert [o.result for o in outcomes] == ["soon", "after"]


def test_what_takes_longer_is_heard_later(qtbot, latest):
    work = Work("later")
    outcomes = heard(latest.finished)
    latest.submit(work)
    latest.wait(0.01)
    assert not outcomes
    work.go.set()
    qtbot.waitUntil(lambda: bool(outcomes), timeout=1000 * SECONDS)
    assert [o.result for o in outcomes] == ["later"]


def test_who_waits_hears_nothing_of_a_cancelled_request(qtbot, latest):
    (cancelled,) = free("cancelled")
    outcomes = heard(latest.finished)
    latest.submit(cancelled)
    assert cancelled.ended.wait(SECONDS)
    latest.cancel()
    latest.wait(0.05)
    (after,) = free("after")
    latest.submit(after)
    latest.wait(SECONDS)
    qtbot.wait(50)
    assert [o.result for o in outcomes] == ["after"]


def test_an_answer_on_its_way_is_heard_once_by_who_waits(qtbot, latest):
    (work,) = free("done")
    outcomes = heard(latest.finished)
    latest.submit(work)
    assert work.ended.wait(SECONDS)
    work.thread.join(SECONDS)  # its answer is in the event queue of this thread
    latest.wait(0.0)
    assert [o.result for o in outcomes] == ["done"]
    qtbot.wait(50)
    assert len(outcomes) == 1


@pytest.mark.parametrize("end", ["cancel", "abandon"])
def test_an_answer_may_end_all_while_somebody_waits(qtbot, latest, end):
    work, waiting = free("done", "waiting")
    outcomes = heard(latest.finished)
    latest.finished.connect(lambda _: getattr(latest, end)())
    latest.submit(work)
    latest.submit(waiting)
    latest.wait(SECONDS)
    qtbot.wait(50)
    assert [o.result for o in outcomes] == ["done"]
    assert not latest.is_busy


def test_abandon_waits_for_the_running_request(latest):
    running = Work()
    latest.submit(running)
    assert running.begun.wait(SECONDS)
    latest.abandon()
    assert running.ended.is_set()
    assert not running.thread.is_alive()


def test_abandon_waits_for_a_request_that_was_cancelled_before(latest):
    held = threading.Event()

    def slow(stop):
        yield Step(1, 1)
        held.wait(0.2)

    alive_before = set(threading.enumerate())
    latest.submit(slow)
    latest.cancel()
    latest.abandon()
    still = [t for t in set(threading.enumerate()) - alive_before if t.name == "napari-gpubio job" and t.is_alive()]
    held.set()
    for thread in still:
        thread.join(SECONDS)
    assert not still


def test_cancelled_requests_do_not_pile_up(qtbot, latest):
    outcomes = heard(latest.finished)
    for _ in range(5):
        work = Work()
        latest.submit(work)
        assert work.begun.wait(SECONDS)
        latest.cancel()
        assert work.ended.wait(SECONDS)
    (last,) = free("last")
    latest.submit(last)
    qtbot.waitUntil(lambda: bool(outcomes), timeout=1000 * SECONDS)
    qtbot.wait(50)  # deleteLater is carried out by the event loop
    assert len(latest.findChildren(Job)) == 0


def test_previews_are_made_in_the_worker_before_the_next_step(qtbot):
    """The GUI hears of a step when the run has gone on; what it then shows must be what was there."""
    state, makers = [], []

    def work(stop):
        for done in range(1, 4):
            state.append(done)
            yield Step(done, 3, make_preview=lambda: makers.append(threading.current_thread()) or list(state))
        return None

    job = Job(work)
    shown = []
    job.stepped.connect(lambda step: shown.append(step.preview))
    with qtbot.waitSignal(job.finished, timeout=1000 * SECONDS):
        job.start()
    assert shown == [[1], [1, 2], [1, 2, 3]]
    assert threading.main_thread() not in makers


def test_a_job_may_outlive_what_is_left_of_it_in_qt(qtbot, errors, monkeypatch):
    """A worker that is in a long calculation ends when nobody hears it any more, and its panel is gone."""
    monkeypatch.setattr(jobs, "JOIN_SECONDS", 0.01)
    go_on, owner = threading.Event(), QObject()

    def make_steps(_stop):
        yield Step(0, 1)
        go_on.wait(10)
        yield Step(1, 1)

    job = Job(make_steps, owner)
    with qtbot.waitSignal(job.stepped):
        job.start()
    job.abandon()
    owner.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    with pytest.raises(RuntimeError, match="deleted"):
        job.objectName()
    go_on.set()
    job._thread.join(10)
    assert not job._thread.is_alive()
    assert errors() == []
