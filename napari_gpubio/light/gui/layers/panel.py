"""The dock widget "Light in layers": describe layers, press Run, and see where the light goes."""

import dataclasses
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.light.gui.beam_and_grid import BeamBox, GridBox
from napari_gpubio.light.gui.layer_files import McmlFiles, PresetBox, runs_text
from napari_gpubio.light.gui.layer_table import LayerTable
from napari_gpubio.light.gui.layers.picture_box import PictureBox
from napari_gpubio.light.gui.layers.picture_view import PictureView
from napari_gpubio.light.gui.layers.request import Look, Picture, Request, drawing_steps, picture_of, request_steps
from napari_gpubio.light.gui.layers.results import ResultBox
from napari_gpubio.light.gui.layers.run_box import RunBox
from napari_gpubio.light.gui.layers.script import layered_script
from napari_gpubio.light.gui.phantom import PhantomBox, PhantomController, PhantomRequest
from napari_gpubio.light.gui.picture_inputs import kept_text
from napari_gpubio.light.gui.quick_runs import OUTDATED, STILL_RUNNING, QuickRuns
from napari_gpubio.light.io.mci import MciRun
from napari_gpubio.light.layers.model import LayeredMedium
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.layers.settings import LayeredSettings

if TYPE_CHECKING:
    import napari.viewer

Value = TypeVar("Value")


class LayeredPanel(EnginePanel):
    """Simulate light in planar layers.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: "napari.viewer.Viewer", parent: QWidget | None = None) -> None:
        super().__init__(viewer, run_text="Run", parent=parent)
        self._look = Look()
        self._going_on: LayeredResult | None = None
        self._quick = QuickRuns(self._quick_steps, self)
        self._redraw = LatestJob(self)
        self._fill()
        self.view = PictureView(viewer, self.picture_box.show_legend)
        self.files = McmlFiles(self._request, self)
        self.phantoms = PhantomController(viewer, self._phantom_request, self.view.hide, self)
        self._connect()
        self.own(self.view)
        self.own(self.results)
        self.presets.begin()

    # -- the inside of the panel ----------------------------------------------------------------------------------

    def _fill(self) -> None:
        self.presets, self.table = PresetBox(self), LayerTable(self)
        self.beam_box, self.grid_box, self.run_box = BeamBox(self), GridBox(self), RunBox(self)
        self.picture_box, self.results = PictureBox(self), ResultBox(self.viewer, self)
        self.phantom_box = PhantomBox(self)
        for title, part in (
            ("", self.presets),
            ("Layers", self.table),
            ("Beam", self.beam_box),
            ("Grid", self.grid_box),
            ("Run", self.run_box),
            ("Picture", self.picture_box),
            ("Result", self.results),
            ("Voxel phantom", self.phantom_box),
        ):
            if title:
                self.inputs.addWidget(heading(title, self))
            self.inputs.addWidget(part)

    def _connect(self) -> None:
        self.presets.chosen.connect(self._on_chosen)
        self.presets.open_wanted.connect(self.files.ask_to_open)
        self.presets.save_wanted.connect(self.files.ask_to_save)
        self.files.runs_read.connect(self._on_runs)
        self.files.result_read.connect(self._on_result)
        self.table.changed.connect(self._on_layers)
        self.grid_box.changed.connect(self._on_layers)
        self.run_box.changed.connect(self._on_change)
        for signal in (self.beam_box.changed, self.picture_box.changed):
            signal.connect(self._follow_look)
        self.picture_box.borders_changed.connect(lambda: self.view.show_borders(self.picture_box.borders))
        self.picture_box.keep_wanted.connect(self.keep_picture)
        self.phantom_box.wanted.connect(lambda simulate: self.phantoms.make(simulate=simulate))
        self.phantoms.noted.connect(self.show_note)
        for part in (self._quick, self.results, self.files):
            part.status_changed.connect(self.say)
        for part in (self.results, self.files, self.phantoms):
            part.error_occurred.connect(self.show_error)
        self.results.continue_wanted.connect(self.continue_run)
        self.results.result_read.connect(self._on_saved_result)
        self._quick.drawn.connect(self._show)
        self._quick.failed.connect(self.show_error)
        self._redraw.finished.connect(self._on_redrawn)

    # -- what is simulated ----------------------------------------------------------------------------------------

    def _on_chosen(self, medium: LayeredMedium, settings: LayeredSettings) -> None:
        """Take over layers, grid and photons of a preset or a file."""
        self.clear_message()
        self.grid_box.set_settings(settings)
        self.run_box.set_settings(settings)
        first = self.table.model.rowCount() == 0 and not self.table.model.can_undo
        self.table.set_medium(medium, undoable=not first)

    def _on_layers(self) -> None:
        """Let every part speak of the layers and the grid as they are now."""
        medium = _or_none(self.table.medium)
        self.presets.show_medium(medium)
        self.grid_box.show_medium(medium)
        self.phantom_box.show_inputs(medium, _or_none(lambda: self.grid_box.applied_to(LayeredSettings())))
        self.table.drawing.show_grid(self.grid_box.depth_mm)
        self._on_change()

    def _on_change(self) -> None:
        """Follow a change of the inputs with a quick run, or say that the picture is older."""
        if self.running:
            self.show_note(STILL_RUNNING)
            return
        self.clear_message()
        try:
            request = self._request()
        except GpuBioError:
            self._quick.cancel()  # what is wrong is said where it is
            return
        if self.run_box.live:
            self.say("quick look …")
            self._quick.submit(request)
        else:
            self.say(OUTDATED if self._is_older(request) else "")

    def _quick_steps(
        self, request: Request, stop: threading.Event, outdated: Callable[[], bool]
    ) -> Generator[Step, None, Picture]:
        return request_steps(request, stop, lambda: self._look, outdated=outdated)

    def _is_older(self, request: Request) -> bool:
        """Whether the picture is of other inputs than these, be it of fewer or more photons."""
        if self.view.picture is None:
            return False
        traced = self.view.picture.traced
        photons = request.settings.photons
        return (traced.medium, dataclasses.replace(traced.settings, photons=photons)) != (
            request.medium,
            request.settings,
        )

    def _request(self) -> Request:
        settings = self.grid_box.applied_to(self.run_box.settings)
        return Request(medium=self.table.medium(), settings=settings, device=self.device)

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Picture]:
        """Read the inputs and return the simulation, or go on with the result that is shown."""
        going_on, self._going_on = self._going_on, None
        request = self._request() if going_on is None else self._going_on_request(going_on)
        self._look = self._wanted_look()
        self._quick.cancel()
        return request_steps(request, stop, lambda: self._look)

    def _going_on_request(self, result: LayeredResult) -> Request:
        return Request.going_on(result, self.run_box.photons.value(), self.device)

    def continue_run(self) -> None:
        """Go on with the result that is shown, whatever the inputs say now."""
        if self.results.picture is not None and not self.running:
            self._going_on = self.results.picture.traced
            self.run()

    def show_preview(self, preview: Picture) -> None:
        """Show what a run has so far."""
        self._show(preview)

    def show_result(self, result: Picture) -> None:
        """Show what a run gave."""
        self._show(result)

    def _show(self, picture: Picture) -> None:
        self.view.show(picture, borders=self.picture_box.borders)
        self.results.show_picture(picture, running=self.running)
        if picture.problem:
            self.show_error(f"This is {picture.problem}.")
        if picture.look != self._look:
            self._redraw.submit(lambda _stop: drawing_steps(picture, self._look))

    # -- the look of the picture ----------------------------------------------------------------------------------

    def _wanted_look(self) -> Look:
        box = self.picture_box
        return Look(
            beam=self.beam_box.beam,
            unit=self.beam_box.unit,
            quantity=box.quantity,
            decades=box.decades,
            masks=box.masks,
        )

    def _follow_look(self) -> None:
        """Draw the picture as it is wanted now; nothing is traced again."""
        try:
            self._look = wanted = self._wanted_look()
        except GpuBioError as error:
            self.show_error(str(error))
            return
        if not self.running:
            self.clear_message()
        picture = self.view.picture
        if picture is not None and picture.look != wanted:
            self._redraw.submit(lambda _stop: drawing_steps(picture, wanted))

    def _on_redrawn(self, outcome: Outcome) -> None:
        if outcome.error:
            self.show_error(outcome.error)
        elif self.view.picture is not None and outcome.result.traced is self.view.picture.traced:
            self._show(outcome.result)

    def keep_picture(self) -> None:
        """Leave the picture's layer to the user; the next run makes a new one."""
        self.say(kept_text(self.view.keep()))

    # -- files and phantoms ---------------------------------------------------------------------------------------

    def _on_runs(self, path: Path, runs: Sequence[MciRun]) -> None:
        """Offer the runs of a file."""
        self.table.set_unit("1/cm")  # as in the file
        self.presets.offer_runs(path, runs)
        if told := runs_text(path, runs):
            self.show_note(told)

    def _on_result(self, result: LayeredResult) -> None:
        """Show a result that was read from a file."""
        self._quick.cancel()
        self._show(picture_of(result, self._look))
        self.say("")

    def _on_saved_result(self, path: Path, result: LayeredResult) -> None:
        """Go on where a result was saved: its layers, its grid, its picture, its numbers."""
        if self.running:
            self.show_note(f"Press Stop, then open {path.name} again; the run under way goes on.")
            return
        output = result.medium.name or path.stem
        self.presets.offer_runs(path, (MciRun(medium=result.medium, settings=result.settings, output=output),))
        self._on_result(result)

    def _phantom_request(self) -> PhantomRequest:
        settings = self.run_box.settings
        return PhantomRequest(
            medium=self.table.medium(),
            sizes=self.phantom_box.sizes,
            source=self.presets.citation,
            beam=self.beam_box.beam,
            photons=settings.photons,
            seed=settings.seed,
            cyclic=self.phantom_box.cyclic,
        )

    # -- the script -----------------------------------------------------------------------------------------------

    def script(self, saved: Mapping[str, Path]) -> str:  # noqa: ARG002 - no layer is an input
        """Return a script that simulates what the panel shows."""
        return layered_script(self._request(), self._wanted_look())

    def teardown(self) -> None:
        """End runs and let the layers go."""
        for job in (self._quick, self._redraw, self.phantoms):
            job.abandon()
        super().teardown()


def _or_none(read: Callable[[], Value]) -> Value | None:
    """What a part of the panel gives, or None while something is wrong with it."""
    try:
        return read()
    except GpuBioError:
        return None
