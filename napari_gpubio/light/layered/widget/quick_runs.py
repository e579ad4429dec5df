"""Quick runs that follow every change of the layers; the newest wins."""

from collections.abc import Callable, Generator
from threading import Event

from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.steps import Step
from napari_gpubio.light.layered.widget.request import Look, Picture, Request, request_steps
from napari_gpubio.viewer.jobs import LatestJob, MakeSteps, Outcome


class QuickRuns(QObject):
    """Runs few photons for the newest request.

    Parameters
    ----------
    look
        Says how pictures are to be drawn.
    """

    drawn = Signal(object)  # a picture
    said = Signal(str)
    failed = Signal(str)

    def __init__(self, look: Callable[[], Look], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._look = look
        self._newest = 0
        self.busy = False
        self._job = LatestJob(self)
        self._job.finished.connect(self._on_finished)

    def submit(self, request: Request) -> None:
        """Run this; one that is under way ends as soon as it has something to show."""
        self._newest += 1
        self.busy = True
        self.said.emit("quick look …")
        self._job.submit(self._steps(request.quick(), self._newest))

    def cancel(self) -> None:
        """End what runs and show nothing of it."""
        self._newest += 1
        self.busy = False
        self._job.cancel()

    def abandon(self) -> None:
        """As `cancel`, and wait for the worker."""
        self.cancel()
        self._job.abandon()

    def _steps(self, request: Request, number: int) -> MakeSteps:
        def steps(stop: Event) -> Generator[Step, None, tuple[int, Picture]]:
            picture = yield from request_steps(request, stop, self._look, outdated=lambda: self._newest != number)
            return number, picture

        return steps

    def _on_finished(self, outcome: Outcome) -> None:
        number, picture = outcome.result or (self._newest, None)
        self.busy = number != self._newest
        if picture is None:
            self.said.emit("")
            self.failed.emit(outcome.error)
        else:
            self.drawn.emit(picture)
            self.said.emit(f"quick look with {picture.result.launched:,} photons; press Run for all of them")
