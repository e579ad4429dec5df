"""Quick runs that follow every change of the inputs; the newest wins, and each shows at least one preview."""

from collections.abc import Callable, Generator
from threading import Event
from typing import Any

from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.steps import Step
from napari_gpubio.gui.jobs import LatestJob, MakeSteps, Outcome
from napari_gpubio.light.gui.request import Displayed

Run = Callable[[Any, Event, Callable[[], bool]], Generator[Step, None, Displayed[Any]]]
_STARTING = "starting … (the first run on a machine compiles, up to a minute)"


class QuickRuns(QObject):
    """Runs few photons for the newest request.

    ``run`` gets the request, the event that ends the run, and a function that tells whether a newer request waits.
    """

    displayed = Signal(object)
    status_changed = Signal(str)
    failed = Signal(str)
    _stepped = Signal(object)  # from the worker: number of the run, step

    def __init__(self, run: Run, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.busy = False
        self._run = run
        self._newest = 0
        self._rest = ""  # what the last quick run left to do
        self._warm = False
        self._job = LatestJob(self)
        self._job.finished.connect(self._on_finished)
        self._stepped.connect(self._on_step)

    def submit(self, request: Any) -> None:
        """Run this; one that is under way ends as soon as it has something to show."""
        self._newest += 1
        self.busy = True
        quick = request.quick()
        self._rest = "; press Run for all of them" if quick.settings != request.settings else ", which is all"
        self._job.submit(self._steps(quick, self._newest))

    def cancel(self) -> None:
        """End what runs and show nothing more of it."""
        self._newest += 1
        self.busy = False
        self._job.cancel()

    def abandon(self) -> None:
        """As `cancel`, and wait for the worker."""
        self.cancel()
        self._job.abandon()

    def _steps(self, request: Any, number: int) -> MakeSteps:
        def steps(stop: Event) -> Generator[Step, None, tuple[int, Displayed[Any]]]:
            inner = self._run(request, stop, lambda: self._newest != number)
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
            far = f"{step.done:,} of {step.total:,} photons" if step.done or self._warm else _STARTING
            self.status_changed.emit(f"quick run: {far}")
            if step.preview is not None:
                self.displayed.emit(step.preview)

    def _on_finished(self, outcome: Outcome) -> None:
        self._warm |= outcome.result is not None
        number, displayed = outcome.result or (self._newest, None)
        self.busy = number != self._newest
        if displayed is None:
            self.status_changed.emit("")
            self.failed.emit(outcome.error)
        else:
            self.displayed.emit(displayed)
            self.status_changed.emit(f"quick run with {displayed.traced.launched:,} photons{self._rest}")
