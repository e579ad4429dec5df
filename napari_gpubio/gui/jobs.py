"""Run a generator of steps in a worker thread and report to the GUI thread.

A `Job` never closes a generator from outside: Stop sets the event that the generator watches, the generator returns
what it has, and the worker thread itself closes it, so that GPU memory is freed where it was taken.
"""

import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.errors import GpuBioError, memory_in_words
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.connections import is_held_up, single_shot
from napari_gpubio.gui.progress import PreviewPacer

logger = logging.getLogger(__name__)
MakeSteps = Callable[[threading.Event], Generator[Step, None, Any]]
JOIN_SECONDS = 5.0
_QUIET_SECONDS = 0.02  # between two steps with the same message


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: with a result, or with an error and a sentence for the user."""

    result: Any = None
    error: str = ""


def one_step(message: str, act: Callable[[], Any]) -> MakeSteps:
    """Return what makes steps of a function that has none."""

    def steps(_: threading.Event) -> Generator[Step, None, Any]:
        yield Step(0, 1, message)
        return act()

    return steps


class Job(QObject):
    """One run of a generator of steps, which ``make_steps`` returns in the worker thread.

    ``pacer`` says when a preview is made, and steps that show none are announced every `_QUIET_SECONDS` only, since
    some work takes a thousand a second; without it each step comes with the preview that it offers.
    """

    stepped = Signal(object)
    finished = Signal(object)

    def __init__(
        self, make_steps: MakeSteps, parent: QObject | None = None, *, pacer: PreviewPacer | None = None
    ) -> None:
        super().__init__(parent)
        self.stop_event = threading.Event()
        self._pacer = pacer
        self._is_observed = True  # Qt's own object may be gone before the worker has ended
        self._make_steps = make_steps
        self._result: Outcome | None = None
        self._thread = threading.Thread(target=self._work, name="napari-gpubio job", daemon=True)

    def start(self) -> None:
        """Start the worker."""
        self._thread.start()

    def stop(self) -> None:
        """Let the generator return what it has; returns at once."""
        self.stop_event.set()

    def wait(self, seconds: float) -> Outcome | None:
        """Wait for the worker for at most some seconds; returns the outcome that ``finished`` carries, or None."""
        self._thread.join(seconds)
        return None if self._thread.is_alive() else self._result

    def abandon(self) -> Outcome | None:
        """Stop, emit nothing more, and wait until the worker has freed its resources; returns what `wait` does."""
        self.stop_event.set()
        self._is_observed = False
        self.blockSignals(True)
        return self.wait(JOIN_SECONDS) if self._thread.ident is not None else None

    def _work(self) -> None:
        outcome = self._result = self._outcome()
        if self._is_observed:
            self.finished.emit(outcome)

    def _outcome(self) -> Outcome:
        try:
            with memory_in_words():
                steps = self._make_steps(self.stop_event)
                try:
                    return Outcome(result=self._exhaust(steps))
                finally:
                    steps.close()
        except GpuBioError as error:
            return Outcome(error=str(error))
        except Exception as error:  # a worker's errors must reach the user
            logger.exception("a run failed")
            return Outcome(error=f"Something unexpected went wrong ({type(error).__name__}: {error}); see the log.")

    def _exhaust(self, steps: Generator[Step, None, Any]) -> Any:
        announced, message = -math.inf, ""
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                return end.value
            if not self._is_observed:
                continue
            preview, now = self._preview_of(step), time.perf_counter()
            is_news = self._pacer is None or preview is not None or step.message != message
            if is_news or now - announced >= _QUIET_SECONDS:
                announced, message = now, step.message
                self.stepped.emit(step.showing(preview))

    def _preview_of(self, step: Step) -> Any:
        """Make the preview of a step, if it is due, before the next step changes what it shows."""
        if self._pacer is None:
            return step.preview
        if step.make_preview is None or not self._pacer.is_due():
            return None
        begun = time.perf_counter()
        if (preview := step.preview) is not None:
            self._pacer.count_made(time.perf_counter() - begun)
        return preview


class LatestJob(QObject):
    """Runs the newest of many requests: while one runs, only the last one that came waits.

    This is what a seed that is being dragged needs: the picture follows as fast as the machine can and never lags
    behind a queue. ``finished`` carries the outcome of each that was not cancelled, and goes to ``on_finished``;
    ``stepped`` carries its steps.
    """

    stepped = Signal(object)
    finished = Signal(object)

    def __init__(self, parent: QObject | None = None, on_finished: Callable[[Outcome], Any] | None = None) -> None:
        super().__init__(parent)
        if on_finished is not None:
            self.finished.connect(on_finished)
        self._running: Job | None = None
        self._waiting: MakeSteps | None = None
        self._held: list[tuple[Job, Outcome]] = []  # that have ended while results are held up
        self._later = single_shot(0, self._end_held, self)
        self._alive: set[Job] = set()  # the running one, and cancelled ones that have not ended yet

    @property
    def is_busy(self) -> bool:
        """Whether a worker is running, including one whose result no longer matters."""
        return bool(self._alive)

    def submit(self, make_steps: MakeSteps) -> None:
        """Run this as soon as the current request is done, instead of any that waits."""
        self._waiting = make_steps
        if self._running is None:
            self._next()

    def wait(self, seconds: float) -> None:
        """Wait for the current request for some seconds at most; ``finished`` is emitted before this returns, or later.

        What the window shows of it is then drawn together with whatever else has just changed.
        """
        job = self._running
        if job is not None and (outcome := job.wait(seconds)) is not None:
            self._ended(job, outcome)

    def cancel(self) -> None:
        """Drop the waiting request and ignore the running one's result."""
        self._waiting = None
        if self._running is not None:
            self._running.stop()
            self._running = None

    def abandon(self) -> None:
        """As `cancel`, and wait for the workers."""
        self.cancel()
        for job in self._alive:
            job.abandon()
        self._alive.clear()

    def _next(self) -> None:
        make_steps, self._waiting = self._waiting, None
        if make_steps is None:
            return
        job = self._running = Job(make_steps, self)
        self._alive.add(job)
        job.stepped.connect(functools.partial(self._went_on, job))
        job.finished.connect(functools.partial(self._ended, job))
        job.start()

    def _went_on(self, job: Job, step: Step) -> None:
        if job is self._running:
            self.stepped.emit(step)

    def _ended(self, job: Job, outcome: Outcome) -> None:
        if job not in self._alive:
            return  # its signal was still queued when everything was abandoned
        if is_held_up():
            self._held.append((job, outcome))
            self._later.start()
            return
        self._alive.discard(job)
        job.deleteLater()
        if job is not self._running:
            return  # it was cancelled
        self._running = None
        self.finished.emit(outcome)
        if self._running is None:
            self._next()

    def _end_held(self) -> None:
        held, self._held = self._held, []
        for job, outcome in held:
            self._ended(job, outcome)
