"""Quick runs that follow every change of the inputs; the newest wins, and each shows at least a first picture."""

import threading
from collections.abc import Callable, Generator

from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.steps import Step
from napari_gpubio.light.widget.request import Domains, Look, Picture, Request, light_steps
from napari_gpubio.viewer.jobs import LatestJob, MakeSteps, Outcome

_STARTING = "starting … (the first run on a machine compiles, up to a minute)"


class QuickRuns(QObject):
    """Runs few photons for the newest request.

    Parameters
    ----------
    domains
        Where the domain is kept for the next run.
    look
        Says how pictures are to be drawn.
    """

    drawn = Signal(object)  # a picture
    said = Signal(str)
    failed = Signal(str)
    _stepped = Signal(object)  # from the worker: number of the run, step

    def __init__(self, domains: Domains, look: Callable[[], Look], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._domains, self._look = domains, look
        self._newest = 0
        self._job = LatestJob(self)
        self._job.finished.connect(self._on_finished)
        self._stepped.connect(self._on_step)
        self.busy = False
        self._warm = False
        self._rest = ""  # what the last look left to do

    def submit(self, request: Request) -> None:
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

    def _steps(self, request: Request, number: int) -> MakeSteps:
        def outdated() -> bool:
            return self._newest != number

        def steps(stop: threading.Event) -> Generator[Step, None, tuple[int, Picture]]:
            inner = light_steps(request, self._domains, stop, self._look, outdated=outdated)
            while True:
                try:
                    step = next(inner)
                except StopIteration as end:
                    return number, end.value
                self._stepped.emit((number, step))
                yield step

        return steps

    def _on_step(self, told: tuple[int, Step]) -> None:
        number, step = told
        if number == self._newest and self.busy:
            far = f"{step.done:,} of {step.total:,} photons" if step.done or self._warm else _STARTING
            self.said.emit(f"quick look: {far}")
            if step.preview is not None:
                self.drawn.emit(step.preview)

    def _on_finished(self, outcome: Outcome) -> None:
        number, picture = outcome.result or (self._newest, None)
        if number == self._newest:
            self.busy = False
        if outcome.error:
            self.said.emit("")
            self.failed.emit(outcome.error)
        elif picture is not None:
            self._warm = True
            self.drawn.emit(picture)
            self.said.emit(f"quick look with {picture.result.launched:,} photons{self._rest}")
