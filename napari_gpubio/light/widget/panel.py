"""The dock widget "Light transport": click a source on a segmented volume and watch its fluence build up."""

import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
from qtpy.QtWidgets import QFileDialog, QWidget

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.layers import carried
from napari_gpubio.core.steps import Step
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.io.mcx.cases import McxCase
from napari_gpubio.light.layers import result_of
from napari_gpubio.light.numbers import sensitivity_rows
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.settings import Settings
from napari_gpubio.light.source import Source
from napari_gpubio.light.widget.loaded_results import LoadedResults
from napari_gpubio.light.widget.montage import read_montage
from napari_gpubio.light.widget.optodes import Optodes
from napari_gpubio.light.widget.panel_inputs import LightInputs
from napari_gpubio.light.widget.quick_runs import QuickRuns
from napari_gpubio.light.widget.request import (
    Domains,
    Look,
    Picture,
    continued_steps,
    drawing_steps,
    light_steps,
    more_photons,
    needed_memory_steps,
)
from napari_gpubio.light.widget.sensitivity_run import Banana, sensitivity_steps, show_banana
from napari_gpubio.light.widget.source_desk import NO_LABELS
from napari_gpubio.viewer.jobs import LatestJob, Outcome

OUTDATED = "the picture is from before this change; press Run"
STILL_RUNNING = "The run under way is for the inputs as they were. Press Stop, then Run, for the new ones."


class LightPanel(LightInputs):
    """Simulate light in a labels layer.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: "napari.viewer.Viewer", parent: QWidget | None = None) -> None:  # noqa: F821
        super().__init__(viewer, parent)
        self._look = Look()
        self._domains = Domains()
        self._quick = QuickRuns(self._domains, lambda: self._look, self)
        self._redraw, self._need, self._load = LatestJob(self), LatestJob(self), LatestJob(self)
        self._loaded = LoadedResults(viewer, lambda: self._labels.domain, self)
        self._make = self._run_steps  # what the next run makes
        self._taking = False  # inputs over from a file, which are no change
        self._connect()
        parts = (self.label_box.view_box, self.source_box, self.desk, self.results, self.view, self._loaded)
        for part in (*parts, self.labels_box):
            self.own(part)

    def _connect(self) -> None:
        self.labels_box.currentIndexChanged.connect(lambda *_: self._labels.follow(self.labels_box.layer))
        self._labels.chosen.connect(self._on_labels)
        self._labels.counted.connect(self._on_counted)
        self._labels.painted.connect(self._on_painted)
        self._labels.recoloured.connect(lambda: self._show_labels(self.table.model.labels))
        self.table.label_selected.connect(self._labels.select)
        for signal in (self.desk.changed, self.desk.dragged):
            signal.connect(self._on_change)
        for signal in (self.table.changed, self.run_box.changed):
            signal.connect(lambda: self._on_change(quiet=True))
            signal.connect(self._find_need)
        self.detector_box.load_wanted.connect(self._on_load_optodes)
        self.display_box.strength_changed.connect(self._on_strength)
        self.display_box.changed.connect(self._follow_look)
        self.display_box.keep_wanted.connect(self.keep_picture)
        self.results.unit_changed.connect(lambda _: self._follow_look())
        self.results.continue_wanted.connect(self.go_on)
        self.detector_box.sensitivity_wanted.connect(self.find_sensitivity)
        self.run_finished.connect(self._tell_again)
        self._loaded.found.connect(self._on_loaded)
        self._load.finished.connect(self._on_read)
        for part in (self._quick, self.results):
            part.said.connect(self.say)
        for part in (self._labels, self.desk, self.results):
            part.complained.connect(self.show_error)
        self._quick.drawn.connect(self._show)
        self._quick.failed.connect(self._on_quick_failed)
        self._redraw.finished.connect(self._on_redrawn)
        self._need.finished.connect(lambda outcome: self.run_box.say_need(outcome.result or ""))

    # -- the labels -----------------------------------------------------------------------------------------------

    def _on_labels(self) -> None:
        """Take over the optical properties that come with a layer."""
        self.clear_message()
        self._quick.cancel()
        self.label_box.show_tissue(self._labels.tissue)
        domain = self._labels.domain
        if domain is not None:
            self._show_labels(domain.labels_present)
            self.table.set_media(domain.media)
        elif self._labels.layer is None:
            self._show_labels(())
        case = None if self._labels.layer is None else carried(self._labels.layer, "case")
        if isinstance(case, McxCase):
            self._take_case(case)
        self._loaded.look()
        notes = case.notes if isinstance(case, McxCase) else () if domain is None else domain.notes
        if notes:
            self.show_note(" ".join(notes))
        self.desk.show()

    def _take_case(self, case: McxCase) -> None:
        """Take over the source, the detectors and the settings of an input file of MCX."""
        self._take_inputs(case.source, case.detectors, case.settings)

    def _take_inputs(self, source: Source, detectors: tuple[Detector, ...], settings: Settings) -> None:
        """Show other inputs."""
        if source.pattern is not None:
            self.viewer.add_image(source.pattern, name="source pattern", visible=False)
        self.source_box.set_source(source)
        self.run_box.set_settings(settings)
        self.desk.load(Optodes.of(source, detectors))

    def _on_loaded(self, layer: Any) -> None:
        """Go on where a result was saved: its inputs, its picture, its numbers."""
        result = result_of(layer)
        self._quick.cancel()
        self.view.adopt(layer)
        self._taking = True
        try:
            self._take_inputs(result.source, result.detectors, result.settings)
        finally:
            self._taking = False
        look = self._look
        self._load.submit(lambda _stop: drawing_steps(result, look))

    def _on_read(self, outcome: Outcome) -> None:
        if outcome.error:
            self.show_error(outcome.error)
        elif not self.running:
            self._show(outcome.result)

    def _on_counted(self, labels: tuple[int, ...]) -> None:
        self._show_labels(labels)
        self._find_need()

    def _show_labels(self, labels: tuple[int, ...]) -> None:
        self.table.set_labels(labels, self._labels.colours(labels))

    def _on_painted(self) -> None:
        self.desk.show()
        self._on_change(quiet=True)

    # -- sources and detectors ------------------------------------------------------------------------------------

    def _on_load_optodes(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Load optodes", "", "SNIRF (*.snirf)")
        if path:
            self.load_optodes(path)

    def load_optodes(self, path: str | Path) -> None:
        """Take sources and detectors from a SNIRF file, snapped to the surface; problems are shown as a sentence."""
        try:
            if self._labels.tissue is None:
                raise InvalidInput(NO_LABELS)
            montage = read_montage(path, self._labels.tissue)
        except (GpuBioError, OSError) as error:
            self.show_error(f"The optodes could not be loaded: {error}")
            return
        self.desk.load(montage.optodes)
        self.show_note(montage.told)

    # -- quick runs -----------------------------------------------------------------------------------------------

    def _on_change(self, *, quiet: bool = False) -> None:
        """Follow a change of the inputs with a quick run; ``quiet``: what is missing yet is not complained of."""
        if self._taking:
            return
        if self.running:
            self.show_note(STILL_RUNNING)
            return
        if not self.run_box.live or self.desk.shown.source is None:
            self.say(OUTDATED if self.view.picture is not None else "")
            return
        try:
            request = self._request()
        except GpuBioError as error:
            self._quick.cancel()
            self._tell_again()
            if not quiet:
                self.show_error(str(error))
            return
        self.clear_message()
        self._quick.submit(request)

    def _on_quick_failed(self, sentence: str) -> None:
        if not (self.source_box.warning and self.source_box.warning in sentence):  # it is said there already
            self.show_error(sentence)
        self._tell_again()

    def _find_need(self) -> None:
        """Say how much memory a run needs, before it is started."""
        try:
            volume, settings, device = self._volume(), self.run_box.settings, self.device
        except GpuBioError:
            self._need.cancel()
            self.run_box.say_need("")
            return
        self._need.submit(lambda _stop: needed_memory_steps(volume, self._domains, settings, device))

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Picture | Banana]:
        """Read the inputs and return the simulation."""
        make, self._make = self._make, self._run_steps
        steps = make(stop)
        self._quick.cancel()
        return steps

    def go_on(self) -> None:
        """Trace more photons of the result on screen, with its own inputs."""
        self._run_as(self._more_steps)

    def find_sensitivity(self, detector: int) -> None:
        """Show where a change of absorption changes what a detector sees; see `napari_gpubio.light.sensitivity`."""
        self._run_as(lambda stop: self._sensitivity_steps(detector, stop))

    def _run_as(self, make: Callable[[threading.Event], Generator[Step, None, Any]]) -> None:
        if not self.running:
            self._make = make
            self.run()

    def _run_steps(self, stop: threading.Event) -> Generator[Step, None, Picture]:
        return light_steps(self._request(), self._domains, stop, lambda: self._look)

    def _more_steps(self, stop: threading.Event) -> Generator[Step, None, Picture]:
        result = self._needed_result()
        photons = more_photons(result, self.run_box.photons.value())
        return continued_steps(result, photons, self.device, stop, lambda: self._look)

    def _sensitivity_steps(self, index: int, stop: threading.Event) -> Generator[Step, None, Banana]:
        result, detector, source = self._needed_result(), self.desk.shown.detectors[index], self.desk.source()
        if not all(np.allclose(getattr(result.source, of), getattr(source, of)) for of in ("position_mm", "direction")):
            raise InvalidInput("the source was moved since the picture was made; press Run first")
        name = detector.name or f"detector {index + 1}"
        return sensitivity_steps(result, detector, name, self.device, stop, self._look)

    def _needed_result(self) -> LightResult:
        if self.results.result is None:
            raise InvalidInput("there is no result yet; place a source and press Run")
        return self.results.result

    def show_preview(self, preview: Picture) -> None:
        """Show what a run has so far."""
        self._show(preview)

    def show_result(self, result: Picture | Banana) -> None:
        """Show what a run gave."""
        if isinstance(result, Banana):
            self._show_banana(result)
            return
        self._show(result)
        if not result.result.complete:
            self.say(f"stopped after {result.result.launched:,} photons; Continue goes on")

    def _show_banana(self, banana: Banana) -> None:
        show_banana(self.viewer, banana)
        self.view.set_aside()
        self.desk.layers.bring_to_front()
        if self.results.result is banana.source_run:
            self.results.add_rows(sensitivity_rows(banana.found, banana.detector))

    def _show(self, picture: Picture) -> None:
        self._draw(picture)
        self._tell(picture)

    def _draw(self, picture: Picture) -> None:
        if self.view.show(picture):
            self.desk.layers.bring_to_front()

    def _tell(self, picture: Picture) -> None:
        """Let the result part speak of a picture's result."""
        strength, result = self.display_box.strength, picture.result
        self.results.show_result(
            result,
            power_mw=strength.power_mw,
            energy_j=strength.energy_j,
            colours=self._labels.colours(result.domain.labels_present),
            running=not result.complete and (self.running or self._quick.busy),
        )

    def _tell_again(self) -> None:
        """Say that a picture is not refined any more, where its run ended without a last one."""
        if self.view.picture is not None and not self.view.picture.result.complete:
            self._tell(self.view.picture)

    # -- the look of the picture ----------------------------------------------------------------------------------

    def keep_picture(self) -> None:
        """Leave the layers of the picture to the user; the next run makes new ones."""
        name = self.view.keep()
        self.say(f"{name} stays as it is; the next run makes a new layer" if name else "there is no picture yet")

    def _on_strength(self) -> None:
        strength = self.display_box.strength
        self.results.offer_units(power_mw=strength.power_mw, energy_j=strength.energy_j)
        if self.view.picture is not None:
            self._tell(self.view.picture)
        self._follow_look()

    def _follow_look(self) -> None:
        """Draw the picture as it is wanted now."""
        box = self.display_box
        wanted = Look(unit=self.results.unit, decades=box.decades, masks=box.masks, shows_error=box.shows_error)
        picture = self.view.picture
        if wanted == self._look:
            return
        self._look = wanted
        if picture is not None:
            self._redraw.submit(lambda _stop: drawing_steps(picture.result, wanted))

    def _on_redrawn(self, outcome: Outcome) -> None:
        if outcome.error:
            self.show_error(outcome.error)
        elif self.view.picture is not None and outcome.result.result is self.view.picture.result:
            self._draw(outcome.result)

    def teardown(self) -> None:
        """End runs, give the mouse back and let the layers go."""
        for job in (self._quick, self._redraw, self._need, self._load):
            job.abandon()
        super().teardown()
        self._labels.teardown()

    def revive(self) -> None:
        """Listen to the viewer again."""
        super().revive()
        self._labels.follow(self.labels_box.layer)
