"""The dock widget "Light transport": click a source on a segmented volume and watch its fluence build up."""

import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.gui.loaded_results import LoadedResults
from napari_gpubio.light.gui.optodes import Optodes
from napari_gpubio.light.gui.panel_inputs import LightInputs
from napari_gpubio.light.gui.picture_controller import PictureController
from napari_gpubio.light.gui.quick_runs import OUTDATED, STILL_RUNNING, FollowedQuickRuns
from napari_gpubio.light.gui.request import (
    Domains,
    Look,
    Picture,
    Request,
    continued_steps,
    drawing_steps,
    light_steps,
    more_photons,
    needed_memory_steps,
)
from napari_gpubio.light.gui.sensitivity import Banana, sensitivity_steps, show_banana
from napari_gpubio.light.io.mcx.cases import McxCase
from napari_gpubio.light.napari_io import result_of
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.settings import Settings
from napari_gpubio.light.source import Source
from napari_gpubio.light.summary import sensitivity_rows

if TYPE_CHECKING:
    import napari.viewer


class LightPanel(LightInputs):
    """Simulate light in a labels layer.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: "napari.viewer.Viewer", parent: QWidget | None = None) -> None:
        super().__init__(viewer, parent)
        self._domains = Domains()
        self._quick = FollowedQuickRuns(self._quick_steps, self)
        self.pictures = PictureController(
            self.view,
            self.display_box,
            self.results,
            self._labels.colors,
            refining=lambda: self.running or self._quick.busy,
            parent=self,
        )
        self._need, self._load = LatestJob(self), LatestJob(self)
        self._loaded = LoadedResults(viewer, lambda: self._labels.domain, self)
        self._make = self._run_steps  # what the next run makes
        self._taking = False  # inputs over from a file, which are no change
        self._connect()
        parts = (self.label_box.view_box, self.source_box, self.controller, self.results, self.view, self._loaded)
        for part in (*parts, self.labels_box):
            self.own(part)

    def _connect(self) -> None:
        self.labels_box.currentIndexChanged.connect(lambda *_: self._labels.follow(self.labels_box.layer))
        self._labels.chosen.connect(self._on_labels)
        self._labels.counted.connect(self._on_counted)
        self._labels.painted.connect(self._on_painted)
        self._labels.recolored.connect(lambda: self._show_labels(self.table.model.labels))
        self.table.label_selected.connect(self._labels.select)
        for signal in (self.controller.changed, self.controller.dragged):
            signal.connect(self._on_change)
        for signal in (self.table.changed, self.run_box.changed):
            signal.connect(lambda: self._on_change(quiet=True))
            signal.connect(self._find_need)
        self.pictures.renewed.connect(self.controller.layers.bring_to_front)
        self.results.continue_wanted.connect(self.go_on)
        self.detector_box.sensitivity_wanted.connect(self.find_sensitivity)
        self.run_finished.connect(self.pictures.tell_again)
        self._loaded.found.connect(self._on_loaded)
        self._load.finished.connect(self._on_read)
        for part in (self._quick, self.results, self.pictures):
            part.status_changed.connect(self.say)
        for part in (self._labels, self.controller, self.results, self.pictures):
            part.error_occurred.connect(self.show_error)
        self._quick.drawn.connect(self.pictures.show)
        self._quick.failed.connect(self._on_quick_failed)
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
        self.controller.show()

    def _take_case(self, case: McxCase) -> None:
        """Take over the source, the detectors and the settings of an input file of MCX."""
        self._take_inputs(case.source, case.detectors, case.settings)

    def _take_inputs(self, source: Source, detectors: tuple[Detector, ...], settings: Settings) -> None:
        """Show other inputs."""
        if source.pattern is not None:
            self.viewer.add_image(source.pattern, name="source pattern", visible=False)
        self.source_box.set_source(source)
        self.run_box.set_settings(settings)
        self.controller.load(Optodes.of(source, detectors))

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
        look = self.pictures.look
        self._load.submit(lambda _stop: drawing_steps(result, look))

    def _on_read(self, outcome: Outcome) -> None:
        if outcome.error:
            self.show_error(outcome.error)
        elif not self.running:
            self.pictures.show(outcome.result)

    def _on_counted(self, labels: tuple[int, ...]) -> None:
        self._show_labels(labels)
        self._find_need()

    def _show_labels(self, labels: tuple[int, ...]) -> None:
        self.table.set_labels(labels, self._labels.colors(labels))

    def _on_painted(self) -> None:
        self.controller.show()
        self._on_change(quiet=True)

    # -- quick runs -----------------------------------------------------------------------------------------------

    def _on_change(self, *, quiet: bool = False) -> None:
        """Follow a change of the inputs with a quick run; ``quiet``: what is missing yet is not complained of."""
        if self._taking:
            return
        if self.running:
            self.show_note(STILL_RUNNING)
            return
        if not self.run_box.live or self.controller.shown.source is None:
            self.say(OUTDATED if self.view.picture is not None else "")
            return
        try:
            request = self._request()
        except GpuBioError as error:
            self._quick.cancel()
            self.pictures.tell_again()
            if not quiet:
                self.show_error(str(error))
            return
        self.clear_message()
        self._quick.submit(request)

    def _quick_steps(
        self, request: Request, stop: threading.Event, outdated: Callable[[], bool]
    ) -> Generator[Step, None, Picture]:
        return light_steps(request, self._domains, stop, self._wanted_look, outdated=outdated)

    def _on_quick_failed(self, sentence: str) -> None:
        if not (self.source_box.warning and self.source_box.warning in sentence):  # it is said there already
            self.show_error(sentence)
        self.pictures.tell_again()

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
        return light_steps(self._request(), self._domains, stop, self._wanted_look)

    def _more_steps(self, stop: threading.Event) -> Generator[Step, None, Picture]:
        result = self._needed_result()
        photons = more_photons(result, self.run_box.photons.value())
        return continued_steps(result, photons, self.device, stop, self._wanted_look)

    def _sensitivity_steps(self, index: int, stop: threading.Event) -> Generator[Step, None, Banana]:
        result, detector, source = (
            self._needed_result(),
            self.controller.shown.detectors[index],
            self.controller.source(),
        )
        if not all(np.allclose(getattr(result.source, of), getattr(source, of)) for of in ("position_mm", "direction")):
            raise InvalidInput("the source was moved since the picture was made; press Run first")
        name = detector.name or f"detector {index + 1}"
        return sensitivity_steps(result, detector, name, self.device, stop, self.pictures.look)

    def _wanted_look(self) -> Look:
        return self.pictures.look

    def _needed_result(self) -> LightResult:
        if self.results.result is None:
            raise InvalidInput("there is no result yet; place a source and press Run")
        return self.results.result

    def show_preview(self, preview: Picture) -> None:
        """Show what a run has so far."""
        self.pictures.show(preview)

    def show_result(self, result: Picture | Banana) -> None:
        """Show what a run gave."""
        if isinstance(result, Banana):
            self._show_banana(result)
            return
        self.pictures.show(result)
        if not result.result.complete:
            self.say(f"stopped after {result.result.launched:,} photons; Continue goes on")

    def _show_banana(self, banana: Banana) -> None:
        show_banana(self.viewer, banana)
        self.view.set_aside()
        self.controller.layers.bring_to_front()
        if self.results.result is banana.source_run:
            self.results.add_rows(sensitivity_rows(banana.found, banana.detector))

    def teardown(self) -> None:
        """End runs, give the mouse back and let the layers go."""
        for job in (self._quick, self.pictures, self._need, self._load):
            job.abandon()
        super().teardown()
        self._labels.teardown()

    def revive(self) -> None:
        """Listen to the viewer again."""
        super().revive()
        self._labels.follow(self.labels_box.layer)
