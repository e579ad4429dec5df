"""What both modes of the panel do: quick runs, runs, display options, results, and what is kept."""

import dataclasses
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QVBoxLayout, QWidget

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.jobs import LatestJob, MakeSteps, Outcome
from napari_gpubio.gui.panel import EnginePanel, RunDisplay, RunForm, heading
from napari_gpubio.light.gui.display import DisplayBox
from napari_gpubio.light.gui.plots import PlotController
from napari_gpubio.light.gui.request import Displayed, DisplayOptions, display_steps
from napari_gpubio.light.gui.results import LightResultBox
from napari_gpubio.light.gui.run_box import RunBox
from napari_gpubio.light.gui.views import LayerView, VoxelView
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.result import LightResult

OUTDATED = "the displayed result predates this change; press Run"
STILL_RUNNING = "The current run still uses the earlier inputs. Press Stop, then Run, to use the new ones."
NOTHING_KEPT = "there is no result yet"
Result = TypeVar("Result", bound=LightResult | LayeredResult)
MakeRun = Callable[[threading.Event], Generator[Step, None, Any]]
RunQuickly = Callable[[Any, threading.Event, Callable[[], bool]], Generator[Step, None, Displayed[Any]]]


class QuickRuns(QObject):
    """Runs few photons for the newest request.

    ``run`` takes the request, the event that ends the run, and a function that returns whether a newer request waits.
    While ``must_wait`` returns True (the CPU backend is being compiled), a run is put off until `resume`.
    """

    displayed = Signal(object)
    status_changed = Signal(str)
    failed = Signal(str)
    _stepped = Signal(object)  # from the worker: number of the run, step

    def __init__(self, run: RunQuickly, must_wait: Callable[[], bool], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.busy = False
        self._run, self._must_wait = run, must_wait
        self._put_off: Any = None
        self._newest = 0
        self._rest = ""  # what the last quick run left to do
        self._job = LatestJob(self)
        self._job.finished.connect(self._on_finished)
        self._stepped.connect(self._on_step)

    def submit(self, request: Any) -> None:
        """Run this; one that is under way ends as soon as it has something to show."""
        if self._must_wait():
            self._put_off = request
            return
        self._put_off = None
        self._newest += 1
        self.busy = True
        quick = request.quick()
        self._rest = (
            "; press Run for all of them" if quick.settings != request.settings else ", all that Photons asks for"
        )
        self._job.submit(self._steps(quick, self._newest))

    def resume(self) -> None:
        """Run what was put off."""
        if self._put_off is not None:
            self.submit(self._put_off)

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

    def _steps(self, request: Any, number: int) -> MakeSteps:
        def steps(stop: threading.Event) -> Generator[Step, None, tuple[int, Displayed[Any]]]:
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


class Mode(QWidget, RunForm, RunDisplay, Generic[Result]):
    """Inputs and results of one mode.

    A subclass makes ``run_box``, ``display_box``, ``results``, ``view`` and further inputs, and calls `_connect_parts`.
    """

    run_box: RunBox
    display_box: DisplayBox
    results: LightResultBox[Result]
    view: VoxelView | LayerView
    make_layers: Callable[[Any, DisplayOptions, Operation | None], Displayed[Any]]  # of a result, in a worker

    def __init__(self, panel: EnginePanel, plots: PlotController) -> None:
        super().__init__(panel)
        self.panel, self.viewer, self.plots = panel, panel.viewer, plots
        self.options = DisplayOptions()
        self._quick = QuickRuns(self.steps, panel.must_warm_up, self)
        self._redraw = LatestJob(self)
        self._make_run: MakeRun | None = None  # what the next run does instead of simulating the inputs
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)

    # -- what a mode gives ----------------------------------------------------------------------------------------

    def request(self) -> Any:
        """Return the inputs; `InvalidInput` with the first problem."""
        raise NotImplementedError

    def steps(
        self, request: Any, stop: threading.Event, outdated: Callable[[], bool] | None = None
    ) -> Generator[Step, None, Displayed[Result]]:
        """Return the run of the inputs; a quick one ends with its first preview if it is outdated."""
        raise NotImplementedError

    def continue_steps(
        self, shown: Displayed[Result], stop: threading.Event
    ) -> Generator[Step, None, Displayed[Result]]:
        """Return a run that continues a result with its own inputs."""
        raise NotImplementedError

    def requested_options(self) -> DisplayOptions:
        """Return the display options as they stand; `InvalidInput` if one is wrong."""
        return self.display_box.options(self.results.unit)

    def colors(self, result: Result) -> Mapping[int, Any]:
        """Colors of the rows of a result."""
        raise NotImplementedError

    def on_result_read(self, path: Path, result: Any) -> None:
        """Continue where a result was saved."""
        raise NotImplementedError

    def parts(self) -> Sequence[Any]:
        """Parts that follow the viewer: with ``attach`` and ``detach``."""
        return (self.results, self.view)

    def jobs(self) -> Sequence[Any]:
        """What may run in the background: with ``abandon``."""
        return (self._quick, self._redraw)

    def enter(self) -> None:
        """The mode comes on screen."""
        self.view.unhide()

    def leave(self) -> None:
        """The other mode comes on screen."""
        self.view.hide()

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Any]:
        """Read the inputs and return the run; that of the inputs, unless another one was requested."""
        make, self._make_run = self._make_run, None
        self.options = self.requested_options()
        steps = self.steps(self.request(), stop) if make is None else make(stop)
        self._quick.cancel()
        return steps

    def continue_run(self) -> None:
        """Trace more photons of the displayed result, whatever the inputs are now."""
        self.run_as(lambda stop: self.continue_steps(self.needed_result(), stop))

    def run_as(self, make: MakeRun) -> None:
        """Run something else than the inputs."""
        if not self.panel.running:
            self._make_run = make
            self.panel.run()

    def needed_result(self) -> Displayed[Result]:
        """The displayed result; `InvalidInput` if there is none."""
        if self.results.displayed is None:
            raise InvalidInput("there is no result yet; press Run first")
        return self.results.displayed

    # -- displaying -----------------------------------------------------------------------------------------------

    def show_result(self, result: Any) -> None:
        """Show what a run gave."""
        self.show_preview(result)

    def show_preview(self, preview: Displayed[Result]) -> None:
        """Show the layers and the numbers of a result, or of what a run has so far."""
        self.view.display(preview)  # type: ignore[arg-type] # the view of this mode's results
        self._show_numbers(preview)
        if preview.problem:
            self.panel.show_error(f"This is {preview.problem}.")
        if preview.options != self.options:
            self._redraw_as(self.options)

    def update_numbers(self) -> None:
        """Show the numbers of the displayed result again."""
        if self.results.displayed is not None:
            self._show_numbers(self.results.displayed)

    def update_options(self) -> None:
        """Draw the displayed result with the options as they stand; nothing is traced again."""
        try:
            wanted = self.requested_options()
        except GpuBioError as error:
            self.panel.show_error(str(error))
            return
        if wanted != self.options:
            self.options = wanted
            self._redraw_as(wanted)

    def keep_layers(self) -> None:
        """Leave the layers of the result to the user; the next run adds new ones."""
        name = self.view.keep()
        self.panel.show_status(f"{name} stays as it is; the next run adds a new layer" if name else NOTHING_KEPT)

    # -- the inside -----------------------------------------------------------------------------------------------

    def _add_sections(self, sections: Sequence[tuple[str, Sequence[QWidget]]]) -> None:
        """Put parts below each other, under titles."""
        for title, parts in sections:
            for part in ([heading(title, self)] if title else []) + list(parts):
                self._layout.addWidget(part)

    def _connect_parts(self) -> None:
        box, results, panel = self.display_box, self.results, self.panel
        connect_all(
            (
                (box.strength_changed, self._on_strength),
                (box.changed, self.update_options),
                (box.keep_requested, self.keep_layers),
                (results.unit_changed, lambda _: self.update_options()),
                (results.continue_requested, self.continue_run),
                (results.result_read, self.on_result_read),
                (results.error_occurred, panel.show_error),
                (results.files.status_changed, panel.show_status),
                (results.files.error_occurred, panel.show_error),
                (panel.warmed, self._quick.resume),
                (self._quick.displayed, self.show_preview),
                (self._quick.status_changed, panel.show_status),
                (self._quick.failed, self.on_quick_failed),
                (self._redraw.finished, self._on_redrawn),
                (panel.run_finished, self._on_run_finished),
            )
        )

    def on_quick_failed(self, sentence: str) -> None:
        """A quick run failed."""
        self.panel.show_error(sentence)
        self.update_numbers()

    def _redraw_as(self, options: DisplayOptions) -> None:
        if (displayed := self.view.displayed) is not None:
            traced, made, later = displayed.traced, displayed.operation, displayed.later
            self._redraw.submit(
                lambda _stop: display_steps(
                    lambda: dataclasses.replace(self.make_layers(traced, options, made), later=later)
                )
            )

    def _on_redrawn(self, outcome: Outcome) -> None:
        if outcome.error:
            self.panel.show_error(outcome.error)
        elif self.view.displayed is not None and outcome.result.traced is self.view.displayed.traced:
            self.show_preview(outcome.result)

    def _show_numbers(self, displayed: Displayed[Result]) -> None:
        self.results.display(
            displayed,
            strength=self.display_box.strength,
            colors=self.colors(displayed.result),
            running=not displayed.traced.complete and (self.panel.running or self._quick.busy),
        )

    def _on_run_finished(self) -> None:
        """A run that ended without a last result is not running any more."""
        if self.results.displayed is not None and not self.results.displayed.traced.complete:
            self.update_numbers()

    def _on_strength(self) -> None:
        self.results.offer_units(self.display_box.strength)
        self.update_numbers()
        self.update_options()
