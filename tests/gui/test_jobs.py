"""Runs in a worker thread: results, errors, stop, and runs that are abandoned or replaced by newer ones."""

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
    """Steps that go on when ``go`` is set; the worker sets ``begun`` and ``ended``."""

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


def free(*results, **how):
    """Work that does not wait for ``go``."""
    works = [Work(result, **how) for result in results]
    for work in works:
        work.go.set()
    return works


def outcome_of(qtbot, work, connect=lambda job: None, *, stop=False):
    job = Job(work)
    connect(job)
    with qtbot.waitSignal(job.finished, timeout=1000 * SECONDS) as emitted:
        job.start()
        if stop:
            job.stop()
    job.abandon()
    return emitted.args[0]


# ------------------------------------------------------------------------------------------------------------- Job


def test_steps_and_the_result_arrive_in_the_gui_thread_in_order(qtbot):
    (work,) = free("the result")
    arrived = []

    def connect(job):
        job.stepped.connect(lambda step: arrived.append((step.done, threading.current_thread())))
        job.finished.connect(lambda outcome: arrived.append((outcome.result, threading.current_thread())))

    assert outcome_of(qtbot, work, connect).error == ""
    here = threading.current_thread()
    assert arrived == [(1, here), (2, here), (3, here), ("the result", here)]
    assert work.thread is not here
    assert work.ended.is_set()


def refuse(_stop):
    raise InvalidInput("the mask is empty; mark at least one voxel")


@pytest.mark.parametrize(
    ("work", "words", "logged"),
    [
        (free(None, error=InvalidInput("the mask is empty"))[0], ["the mask is empty"], []),
        (refuse, ["mark at least one voxel"], []),
        (free(None, error=MemoryError())[0], ["memory does not suffice", "close other programs"], []),
        (
            free(None, error=ZeroDivisionError("by zero"))[0],
            ["ZeroDivisionError", "by zero", "log"],
            [ZeroDivisionError],
        ),
    ],
    ids=["ours", "while the generator is made", "memory", "unexpected"],
)
def test_an_error_is_a_sentence_and_in_the_log_if_it_is_unexpected(qtbot, caplog, work, words, logged):
    with caplog.at_level(logging.ERROR):
        outcome = outcome_of(qtbot, work)
    assert outcome.result is None
    assert all(word in outcome.error for word in words)
    assert [record.exc_info[0] for record in caplog.records] == logged


def test_stop_lets_the_generator_return_what_it_has(qtbot):
    outcome = outcome_of(qtbot, Work(), stop=True)
    assert (outcome.result, outcome.error) == (("partial", 0), "")


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


def test_an_abandoned_run_emits_nothing_and_has_freed_what_it_held(qtbot):
    work, emitted = Work(), []
    job = Job(work)
    job.stepped.connect(emitted.append)
    job.finished.connect(emitted.append)
    job.start()
    assert work.begun.wait(SECONDS)
    for _ in range(2):
        job.abandon()
        assert work.ended.is_set()
        assert not work.thread.is_alive()
    qtbot.wait(50)
    assert not emitted


def test_abandoning_a_run_that_never_began():
    Job(Work()).abandon()


def test_previews_are_made_in_the_worker_before_the_next_step(qtbot):
    """The GUI thread gets a step when the run has gone on; what it then shows must be what was there."""
    state, makers, shown = [], [], []

    def work(stop):
        for done in range(1, 4):
            state.append(done)
            yield Step(done, 3, make_preview=lambda: makers.append(threading.current_thread()) or list(state))
        return None

    outcome_of(qtbot, work, lambda job: job.stepped.connect(lambda step: shown.append(step.preview)))
    assert shown == [[1], [1, 2], [1, 2, 3]]
    assert threading.main_thread() not in makers


def test_a_job_may_outlive_what_is_left_of_it_in_qt(qtbot, errors, monkeypatch):
    """A worker that is in a long calculation ends although its panel is gone."""
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
    qtbot.waitUntil(lambda: all(thread.name != "napari-gpubio job" for thread in threading.enumerate()))
    assert errors() == []


# ------------------------------------------------------------------------------------------------------- LatestJob


@pytest.fixture
def latest(qtbot):
    """A `LatestJob` that keeps what it has emitted: results, and the messages of errors."""
    job = LatestJob()
    job.emitted = []
    job.finished.connect(lambda outcome: job.emitted.append(outcome.error or outcome.result))
    yield job
    job.abandon()
    qtbot.wait(1)


@pytest.fixture
def check_emitted(qtbot, latest):
    """A function that waits for these results, and for more that should not come."""

    def check(*results):
        qtbot.waitUntil(lambda: len(latest.emitted) >= len(results), timeout=1000 * SECONDS)
        qtbot.wait(50)
        assert latest.emitted == list(results)

    return check


def submit_and_begin(latest, *results):
    """Submit work that is then under way, and waits for ``go``."""
    work = Work(*results)
    latest.submit(work)
    assert work.begun.wait(SECONDS)
    return work


def submit_and_end(latest, result):
    """Submit work that has then ended: its result is in the event queue of this thread."""
    (work,) = free(result)
    latest.submit(work)
    assert work.ended.wait(SECONDS)
    work.thread.join(SECONDS)


def test_only_the_newest_waiting_request_runs(latest, check_emitted):
    first, others = submit_and_begin(latest, "first"), free("second", "third", "fourth")
    for work in others:
        latest.submit(work)
    first.go.set()
    check_emitted("first", "fourth")
    assert [work.begun.is_set() for work in others] == [False, False, True]


def test_an_error_does_not_hold_up_the_next_request(latest, check_emitted):
    for work in (*free(None, error=InvalidInput("broken")), *free("after")):
        latest.submit(work)
    check_emitted("broken", "after")


def test_a_request_made_while_a_result_is_handled_runs_next(latest, check_emitted):
    first, second = free("first", "second")
    latest.finished.connect(lambda outcome: outcome.result == "first" and latest.submit(second))
    latest.submit(first)
    check_emitted("first", "second")


def test_a_cancelled_request_emits_nothing_and_the_next_one_runs(latest, check_emitted):
    running, (waiting, after) = submit_and_begin(latest), free("waiting", "after")
    latest.submit(waiting)
    latest.cancel()
    assert running.ended.wait(SECONDS)
    check_emitted()
    assert not waiting.begun.is_set()
    submit_and_begin(latest)
    latest.cancel()
    latest.submit(after)
    check_emitted("after")


@pytest.mark.parametrize("wait", [False, True])
def test_a_result_that_is_on_its_way_when_it_is_cancelled_is_not_emitted(latest, check_emitted, wait):
    submit_and_end(latest, "old")
    latest.cancel()
    if wait:
        latest.wait(0.05)
    new = submit_and_begin(latest, "new")
    check_emitted()
    new.go.set()
    check_emitted("new")


def test_waiting_emits_what_is_soon_there(latest, check_emitted):
    latest.wait(0.0)
    for work in free("soon", "after"):
        latest.submit(work)
    latest.wait(SECONDS)
    assert latest.emitted == ["soon"]
    check_emitted("soon", "after")


def test_what_takes_longer_than_one_waits_is_emitted_later(latest, check_emitted):
    work = submit_and_begin(latest, "later")
    latest.wait(0.01)
    assert not latest.emitted
    work.go.set()
    check_emitted("later")


def test_waiting_emits_a_result_on_its_way_once(latest, check_emitted):
    submit_and_end(latest, "done")
    latest.wait(0.0)
    assert latest.emitted == ["done"]
    check_emitted("done")


@pytest.mark.parametrize("end", ["cancel", "abandon"])
def test_handling_a_result_may_end_all_while_somebody_waits(latest, check_emitted, end):
    latest.finished.connect(lambda _: getattr(latest, end)())
    for work in free("done", "waiting"):
        latest.submit(work)
    latest.wait(SECONDS)
    check_emitted("done")
    assert not latest.is_busy


def test_abandon_waits_for_the_running_request_and_for_cancelled_ones(latest):
    def slow(stop):
        yield Step(1, 1)
        threading.Event().wait(0.2)

    before = set(threading.enumerate())
    latest.submit(slow)
    latest.cancel()
    submit_and_begin(latest)
    assert latest.is_busy
    latest.abandon()
    assert not [t for t in set(threading.enumerate()) - before if t.name == "napari-gpubio job"]


def test_cancelled_requests_do_not_pile_up(latest, check_emitted):
    for _ in range(5):
        work = submit_and_begin(latest)
        latest.cancel()
        assert work.ended.wait(SECONDS)
    latest.submit(*free("last"))
    check_emitted("last")
    assert len(latest.findChildren(Job)) == 0  # deleteLater was carried out by the event loop
