"""Quick runs of few photons: of the newest inputs alone, put off while the backend is being compiled."""

import threading
from collections.abc import Callable, Generator
from typing import Any

from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.steps import Step
from napari_gpubio.gui.jobs import LatestJob, MakeSteps, Outcome
from napari_gpubio.light.gui.displayed import Displayed

MakeQuickly = Callable[[threading.Event, Callable[[], bool]], Generator[Step, None, Displayed[Any]]]


class QuickRuns(QObject):
    """Runs few photons of the newest inputs.

    While ``must_wait`` returns True (the CPU backend is being compiled), a run is put off until `resume`.
    """

    displayed = Signal(object)
    status_changed = Signal(str)
    failed = Signal(str)
    _stepped = Signal(object)  # from the worker: number of the run, step

    def __init__(self, must_wait: Callable[[], bool], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.busy = False
        self._must_wait = must_wait
        self._put_off: tuple[MakeQuickly, bool] | None = None
        self._newest = 0
        self._rest = ""  # what the last quick run left to do
        self._job = LatestJob(self, self._on_finished)
        self._stepped.connect(self._on_step)

    def submit(self, make: MakeQuickly, *, is_whole: bool) -> None:
        """Run this; one that is under way ends as soon as it has something to show.

        ``make`` takes the event that ends the run, and a function that returns whether a newer run waits; ``is_whole``:
        it has all photons.
        """
        if self._must_wait():
            self._put_off = make, is_whole
            return
        self._put_off = None
        self._newest += 1
        self.busy = True
        self._rest = ", all that Photons asks for" if is_whole else "; press Run for all of them"
        self._job.submit(self._steps(make, self._newest))

    def resume(self) -> None:
        """Run what was put off."""
        if self._put_off is not None:
            make, is_whole = self._put_off
            self.submit(make, is_whole=is_whole)

    def cancel(self) -> None:
        """End what runs and show nothing more of it."""
        self._newest += 1
        self._put_off = None
        self.busy = False
        self._job.cancel()

    def abandon(self) -> None:
        """As `cancel`, and wait for the worker."""
        self.cancel()
        self._job.abandon()

    def _steps(self, make: MakeQuickly, number: int) -> MakeSteps:
        def steps(stop: threading.Event) -> Generator[Step, None, tuple[int, Displayed[Any]]]:
            inner = make(stop, lambda: self._newest != number)
            while True:
                try:
                    step = next(inner)
                except StopIteration as end:
                    return number, end.value
                self._stepped.emit((number, step))
                yield step

        return steps

    def _on_step(self, numbered: tuple[int, Step]) -> None:
        number, step = numbered
        if number == self._newest and self.busy:
            self.status_changed.emit(f"quick run: {step.done:,} of {step.total:,} photons")
            if step.preview is not None:
                self.displayed.emit(step.preview)

    def _on_finished(self, outcome: Outcome) -> None:
        number, displayed = outcome.result or (self._newest, None)
        self.busy = number != self._newest
        if displayed is None:
            self.status_changed.emit("")
            self.failed.emit(outcome.error)
        else:
            self.displayed.emit(displayed)
            self.status_changed.emit(f"quick run with {displayed.traced.launched:,} photons{self._rest}")
