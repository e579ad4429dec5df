"""What both modes of the panel do: quick runs, runs, display options, results, and what is kept."""

import dataclasses
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from qtpy.QtWidgets import QWidget

from napari_gpubio.core.device import choose_device
from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.operations.runs import run_steps
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.forms import fill_column
from napari_gpubio.gui.jobs import LatestJob, Outcome, one_step
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.gui.run_parts import RunDisplay, RunForm
from napari_gpubio.layered.operations import AddLayerPhotons
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.light.gui.display import DisplayBox
from napari_gpubio.light.gui.displayed import Displayed, DisplayOptions, MadeBy, with_previews
from napari_gpubio.light.gui.plots import PlotController
from napari_gpubio.light.gui.quick_runs import QuickRuns
from napari_gpubio.light.gui.results import LightResultBox
from napari_gpubio.light.gui.run_box import RunBox
from napari_gpubio.light.gui.views import LayerView, VoxelView
from napari_gpubio.light.operations import AddPhotons
from napari_gpubio.light.result import LightResult

if TYPE_CHECKING:
    from napari_gpubio.gui.stale_line import MakeOperation

OUTDATED = "the displayed result predates this change; press Run"
OLDER = (
    "the displayed result, with {:,} photons, predates this change; press Run, or “Keep these layers” for quick runs "
    "beside them"
)
STILL_RUNNING = "The current run still uses the earlier inputs. Press Stop, then Run, to use the new ones."
NOTHING_KEPT = "there is no result yet"
Result = TypeVar("Result", bound=LightResult | LayeredResult)


def _can_add(shown: Displayed[Any]) -> bool:
    """Whether photons can be added to a result: not if it came from a file without what that needs."""
    return shown.traced.state is not None


def _is_anew(shown: Displayed[Any], photons: int) -> bool:
    """Whether Run makes a result anew although it is of the inputs: a quick one, for more photons than it has."""
    return shown.is_quick and photons > shown.traced.launched


def _total(traced: Any, photons: int) -> int:
    """How many photons a result of the same inputs has after Run: those wanted, or so many more if it has them."""
    total = photons if photons > traced.launched else traced.launched + photons
    return int(max(total, traced.state.photons_up_to))


def _added_text(shown: Displayed[Any], photons: int) -> str:
    """What Run does with a result that is of the inputs; an empty text if the number of photons is as it was."""
    if shown.inputs is None or photons == shown.inputs.settings.photons or not _can_add(shown):
        return ""
    launched = shown.traced.launched
    if _is_anew(shown, photons):
        return f"quick run with {launched:,} photons; press Run for all {photons:,}"
    return f"the result has {launched:,} photons; Run adds {_total(shown.traced, photons) - launched:,}"


class LightMode(QWidget, RunForm, RunDisplay, Generic[Result]):
    """Inputs and results of one mode.

    A subclass makes ``run_box``, ``display_box``, ``results``, ``view`` and further inputs, and calls `_connect_parts`.
    """

    run_box: RunBox
    display_box: DisplayBox
    results: LightResultBox[Result]
    view: VoxelView | LayerView
    quick_photons: ClassVar[int]
    adds: ClassVar[type[AddPhotons] | type[AddLayerPhotons]]
    kept = ("kept_result",)
    make_layers: Callable[[Any, DisplayOptions, MadeBy], Displayed[Any]]  # of a result, in a worker

    def __init__(self, panel: EnginePanel, plots: PlotController) -> None:
        super().__init__(panel)
        self.panel, self.viewer, self.plots = panel, panel.viewer, plots
        self.options = DisplayOptions()
        self.made_with: MakeOperation | None = None  # its result, while another mode is on screen
        self._quick = QuickRuns(panel.must_warm_up, self)
        self._redraw = LatestJob(self)
        self._taking = False  # inputs over from a file or a session, which are no change
        self._submitted: Any = None  # inputs of the last quick run
        self._fewest = 0  # photons that a run must have to be shown, since the result on show has them
        self._had = 0  # photons of the result that a run adds to

    # -- what a mode gives ----------------------------------------------------------------------------------------

    def draft(self) -> Any:
        """Return the inputs, a record with settings; `InvalidInput` with the first problem."""
        raise NotImplementedError

    def operation_finder(self, draft: Any) -> Callable[[], Operation]:
        """Return what makes an operation of inputs."""
        raise NotImplementedError

    def is_made_of(self, shown: Displayed[Result], draft: Any) -> bool:
        """Whether a result was made of these inputs, be it with fewer or more photons."""
        raise NotImplementedError

    def take_draft(self) -> Callable[[], Operation]:
        """Read the inputs, and return what makes an operation of them."""
        return self.operation_finder(self.draft())

    def show_draft(self, operation: Operation) -> bool:
        """Show an operation of the mode as the inputs, without a quick run; returns whether layers show all of it."""
        self._quick.cancel()
        self._taking = True
        try:
            is_shown = self.take_over(operation)
        except GpuBioError as error:
            self.panel.show_error(str(error))
            return False
        finally:
            self._taking = False
        self.panel.show_status(OUTDATED if self.view.displayed is not None else "")
        return is_shown

    def take_over(self, operation: Any) -> bool:
        """Show an operation in the boxes; returns whether layers show all of it."""
        raise NotImplementedError

    def quick_steps(
        self, draft: Any, device: str, stop: threading.Event, outdated: Callable[[], bool]
    ) -> Generator[Step, None, Displayed[Result]]:
        """Return a run of inputs that ends with its first preview if it is outdated, and is kept nowhere."""
        raise NotImplementedError

    def operation_of(self, traced: Result) -> Operation:
        """Return the operation of a result of which nothing else is known."""
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
        self.results.head.setVisible(self.results.displayed is not None)

    def leave(self) -> None:
        """The other mode comes on screen."""
        self.view.hide()
        self.results.head.hide()

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Any]:
        """Read the inputs and return the run; where the result on show is of the same ones, it gets more photons.

        A quick one of fewer photons is made anew, since its batches are small, and stays on show until there are more.
        """
        self.options = self.requested_options()
        draft, device = self.draft(), self.panel.device
        shown, photons = self._shown_of(draft), draft.settings.photons
        self.begin_run(fewest=0 if shown is None else shown.traced.launched)
        if shown is None or not _can_add(shown) or _is_anew(shown, photons):
            steps = self._run_steps(draft, device, stop)
        else:
            steps = self._added_steps(shown, _total(shown.traced, photons), draft, device, stop)
        self._quick.cancel()
        return steps

    def begin_run(self, fewest: int = 0) -> None:
        """A run begins, of which nothing is shown that has fewer photons than there were."""
        self._fewest, self._had = fewest, 0

    def _shown_of(self, draft: Any) -> Displayed[Result] | None:
        """The displayed result if it was made of these inputs, be it with another number of photons."""
        shown = self.view.displayed
        return shown if shown is not None and self.is_made_of(shown, draft) else None  # type: ignore[arg-type, return-value]

    def _run_steps(self, draft: Any, device: str, stop: threading.Event) -> Generator[Step, None, Displayed[Result]]:
        yield Step(0, 1, "reading the inputs …")
        operation = self.operation_finder(draft)()
        return (yield from self._shown(run_steps(operation, device=device, stop=stop), operation, draft))

    def _shown(
        self,
        steps: Generator[Step, None, Any],
        made_by: MadeBy,
        inputs: Any,
        outdated: Callable[[], bool] | None = None,
    ) -> Generator[Step, None, Any]:
        """The steps of a run (with ``outdated``, of a quick one), whose results are displayed as wanted by then."""
        how: dict[str, Any] = {"inputs": inputs, "is_quick": outdated is not None}

        def display(result: Any) -> Displayed[Result] | None:
            if result is None:
                return None
            return dataclasses.replace(self.make_layers(result, self.options, made_by), **how)

        return with_previews(steps, display, outdated)

    def run_quickly(self, draft: Any) -> None:
        """Run few photons of inputs, unless the result on show is of the same ones: then say what Run adds to it.

        Nor does a quick run take the place of a result that the user ran with more photons.
        """
        if (shown := self._shown_of(draft)) is not None and self._stays(shown):
            self._show_added(shown, draft)
            return
        if not self.panel.may_follow():
            return
        settings = dataclasses.replace(draft.settings, photons=min(self.quick_photons, draft.settings.photons))
        before = self.view.displayed
        if before is not None and not before.is_quick and before.traced.launched > settings.photons:
            self._quick.cancel()
            self.panel.show_status(OLDER.format(before.traced.launched))
            self.panel.stale_line.compare_soon()
            return
        self.begin_run()
        self._submitted = dataclasses.replace(draft, settings=settings)
        self.panel.stale_line.begin(with_inputs=True)
        make = partial(self.quick_steps, self._submitted, self.panel.device)
        self._quick.submit(make, is_whole=settings == draft.settings)

    def _stays(self, shown: Displayed[Result]) -> bool:
        """Whether a result of the inputs is all that a quick run would give, which then need not go on for others."""
        if self._quick.busy and shown.inputs is self._submitted:
            return True
        if shown.is_quick and not shown.traced.complete:  # it was ended for inputs that are gone
            return False
        self._quick.cancel()
        return True

    def show_outdated(self, draft: Any) -> None:
        """Say that the result on show is of other inputs, or else what Run adds to it."""
        if draft is not None and (shown := self._shown_of(draft)) is not None:
            self._show_added(shown, draft)
            return
        self.panel.show_status("" if self.view.displayed is None else OUTDATED)
        self.panel.stale_line.compare_soon()

    def _show_added(self, shown: Displayed[Result], draft: Any) -> None:
        """Say what Run adds to a result of the inputs, which no other line then says to be of other ones."""
        self.panel.show_status(_added_text(shown, draft.settings.photons))
        self.panel.stale_line.begin(with_inputs=True)
        self.panel.stale_line.end()

    def continue_run(self) -> None:
        """Trace more photons of the displayed result, whatever the inputs are now."""
        self.panel.run_other(self._continue, self.show_result, preview=self.show_preview)

    def _continue(self, stop: threading.Event) -> Generator[Step, None, Displayed[Result]]:
        """The run that continues a result: to its end if it was stopped, else with so many photons more."""
        shown, photons = self.needed_result(), self.run_box.photons.value()
        self.options = self.requested_options()
        self._quick.cancel()
        photons = shown.traced.launched + photons if shown.traced.complete else shown.traced.settings.photons
        self.begin_run()
        return self._added_steps(shown, photons, shown.inputs, self.panel.device, stop)

    def _added_steps(
        self, shown: Displayed[Result], photons: int, inputs: Any, device: str, stop: threading.Event
    ) -> Generator[Step, None, Displayed[Result]]:
        self._had, traced = shown.traced.launched, shown.traced
        yield Step(traced.launched, photons, "photons")
        made = shown.operation or self.operation_of(traced)
        more = self.adds(run=made, photons=photons)
        steps = more.steps(SimpleNamespace(run=traced), device=choose_device(device), stop=stop)
        goes_on = not traced.complete and photons == traced.settings.photons
        return (yield from self._shown(steps, made if goes_on else more, inputs))

    def needed_result(self) -> Displayed[Result]:
        """The displayed result; `InvalidInput` if there is none."""
        if self.results.displayed is None:
            raise InvalidInput("there is no result yet; press Run first")
        return self.results.displayed

    # -- displaying -----------------------------------------------------------------------------------------------

    def show_result(self, result: Any) -> None:
        """Show what a run gave."""
        if result is None:
            self.panel.show_status("stopped")
            return
        self.show_preview(result)
        launched = result.traced.launched
        if launched < self._fewest:
            self.panel.show_status(f"stopped after {launched:,} photons; the result with {self._fewest:,} stays")
        elif not result.traced.complete:
            self.panel.show_status(f"stopped after {launched:,} photons; Continue adds photons")
        elif self._had:
            self.panel.show_status(f"{self.panel.status}: {launched - self._had:,} photons added")

    def show_preview(self, preview: Displayed[Result]) -> None:
        """Show the layers and the numbers of a result, or of what a run has so far, if it has no fewer photons."""
        if preview.traced.launched < self._fewest:
            return
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

    @property
    def kept_result(self) -> tuple[Any, ...]:
        """The result on show and what was added to its numbers, as undo keeps it."""
        return self.view.displayed, self.results.displayed, self.results.added_rows

    @kept_result.setter
    def kept_result(self, kept: tuple[Any, ...]) -> None:
        self.view.displayed, shown, added = kept
        self.options = self.options if shown is None else shown.options
        if shown is None:
            self.results.display(None)
        else:
            self._show_numbers(shown)
        self.results.add_rows(added)

    def show_kept(self) -> None:
        """Show nothing more of what was under way."""
        self._quick.cancel()
        self._redraw.cancel()

    # -- the script -----------------------------------------------------------------------------------------------

    def operation(self) -> Operation:
        """Return the operation of the result that is shown, or of a run with the inputs as they stand."""
        shown = self.results.displayed
        return (None if shown is None else shown.operation) or self.take_draft()()

    @property
    def is_at_hand(self) -> bool:
        """Whether a result is shown whose operation can be known."""
        return self.results.displayed is not None and self.results.displayed.made_by is not None

    # -- the inside -----------------------------------------------------------------------------------------------

    def _add_sections(self, sections: Sequence[tuple[str, Sequence[QWidget]]]) -> None:
        """Put parts below each other, under titles; the head of the result stays in sight."""
        self.panel.result_head.addWidget(self.results.head)
        titled = [[*([heading(title, self)] if title else []), *parts] for title, parts in sections]
        fill_column(self, *(part for parts in titled for part in parts))

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
                (self._quick.displayed, self._show_quick),
                (self._quick.status_changed, panel.show_status),
                (self._quick.failed, self.on_quick_failed),
                (self._redraw.finished, self._on_redrawn),
                (panel.run_finished, self._on_run_finished),
            )
        )

    def _show_quick(self, displayed: Displayed[Result]) -> None:
        """Show what a quick run has; the inputs are those that it was made with."""
        self.show_preview(displayed)
        self.panel.stale_line.end()

    def on_quick_failed(self, sentence: str) -> None:
        """A quick run failed."""
        self.panel.show_error(sentence)
        self.update_numbers()

    def _redraw_as(self, options: DisplayOptions) -> None:
        if (displayed := self.view.displayed) is not None:
            how = {"inputs": displayed.inputs, "is_quick": displayed.is_quick}

            def redrawn() -> Displayed[Any]:
                made = self.make_layers(displayed.traced, options, displayed.made_by)
                return dataclasses.replace(made, **how)

            self._redraw.submit(one_step("drawing", redrawn))

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
        self.begin_run()
        if self.results.displayed is not None and not self.results.displayed.traced.complete:
            self.update_numbers()

    def _on_strength(self) -> None:
        self.results.offer_units(self.display_box.strength)
        self.update_numbers()
        self.update_options()
