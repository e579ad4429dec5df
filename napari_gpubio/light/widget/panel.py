"""The dock widget "Light transport": click a source on a segmented volume and watch its fluence build up."""

import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Labels
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QFileDialog, QLabel, QWidget

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.layers import save_layer, saved_path
from napari_gpubio.core.steps import Step
from napari_gpubio.light.widget.detector_box import DetectorBox
from napari_gpubio.light.widget.display_box import DisplayBox
from napari_gpubio.light.widget.fluence_view import FluenceView
from napari_gpubio.light.widget.label_source import LabelSource
from napari_gpubio.light.widget.light_script import light_script
from napari_gpubio.light.widget.montage import read_montage
from napari_gpubio.light.widget.number_row import aligned_form, row_label
from napari_gpubio.light.widget.place_bar import PlaceBar
from napari_gpubio.light.widget.property_table import PropertyTable
from napari_gpubio.light.widget.request import (
    Domains,
    Look,
    Picture,
    Request,
    Volume,
    light_steps,
    needed_memory_steps,
    picture_of,
)
from napari_gpubio.light.widget.results import ResultBox
from napari_gpubio.light.widget.run_box import RunBox
from napari_gpubio.light.widget.source_box import SourceBox
from napari_gpubio.light.widget.source_desk import NO_LABELS, SourceDesk
from napari_gpubio.viewer.forms import LABEL_WIDTH
from napari_gpubio.viewer.jobs import LatestJob, MakeSteps, Outcome
from napari_gpubio.viewer.layer_box import LayerBox
from napari_gpubio.viewer.panel import EnginePanel, heading
from napari_gpubio.viewer.script import file_name
from napari_gpubio.viewer.view_box import ViewBox

STILL_RUNNING = "The run under way is for the inputs as they were. Press Stop, then Run, for the new ones."


class LightPanel(EnginePanel):
    """Simulate light in a labels layer.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    quick_stepped = Signal(object)  # from the worker of a quick run

    def __init__(self, viewer: "napari.viewer.Viewer", parent: QWidget | None = None) -> None:  # noqa: F821
        super().__init__(viewer, run_text="Run", parent=parent)
        self._domains = Domains()
        self._look = Look()
        self._quick, self._redraw, self._need = LatestJob(self), LatestJob(self), LatestJob(self)
        self._quick_number = 0
        self._labels = LabelSource(self)
        self.view = FluenceView(viewer)
        self._fill()
        self.desk = SourceDesk(
            viewer, self.place_bar, self.source_box, self.detector_box, lambda: self._labels.tissue, self
        )
        self._connect()
        for part in (self.view_box, self.source_box, self.desk, self.results, self.labels_box):
            self.own(part)

    # -- the inside of the panel ----------------------------------------------------------------------------------

    def _fill(self) -> None:
        self.labels_box = LayerBox(self.viewer, _is_labels, empty="open labels, or File › Open Sample", parent=self)
        self.view_box = ViewBox(self.viewer, self)
        self.table = PropertyTable(self)
        self.place_bar, self.source_box = PlaceBar(self), SourceBox(self.viewer, self)
        self.detector_box = DetectorBox(self)
        self.run_box, self.display_box = RunBox(self), DisplayBox(self)
        self.results = ResultBox(self.viewer, self)
        top = QWidget(self)
        aligned_form(top).addRow(row_label("Labels", "The segmented volume; 0 is outside.", self), self.labels_box)
        self.inputs.addWidget(top)
        self.inputs.addWidget(self.view_box)
        for label in self.view_box.findChildren(QLabel):
            label.setMinimumWidth(LABEL_WIDTH)
        for title, parts in (
            ("Optical properties", (self.table,)),
            ("Source", (self.place_bar, self.source_box)),
            ("Detectors", (self.detector_box,)),
            ("Run", (self.run_box,)),
            ("Picture", (self.display_box,)),
            ("Result", (self.results,)),
        ):
            self.inputs.addWidget(heading(title, self))
            for part in parts:
                self.inputs.addWidget(part)

    def _connect(self) -> None:
        self.labels_box.currentIndexChanged.connect(lambda *_: self._labels.follow(self.labels_box.layer))
        self._labels.chosen.connect(self._on_labels)
        self._labels.counted.connect(self._show_labels)
        self._labels.painted.connect(self._on_change)
        self.table.changed.connect(lambda: self._on_change(quiet=True))
        self.table.label_selected.connect(self._on_label)
        self.desk.changed.connect(self._on_change)
        self.desk.dragged.connect(self._on_change)
        self.detector_box.load_wanted.connect(self._on_load_optodes)
        self.run_box.changed.connect(lambda: self._on_change(quiet=True))
        self.display_box.strength_changed.connect(self._on_strength)
        self.display_box.changed.connect(self._follow_look)
        self.display_box.keep_wanted.connect(self.keep_picture)
        self.results.unit_changed.connect(lambda _: self._follow_look())
        self.results.said.connect(self.say)
        for part in (self._labels, self.desk, self.results):
            part.complained.connect(self.show_error)
        self.quick_stepped.connect(self._on_quick_step)
        self._quick.finished.connect(self._on_quick)
        self._redraw.finished.connect(self._on_redrawn)
        self._need.finished.connect(lambda outcome: self.run_box.say_need(outcome.result or ""))
        for signal in (self.table.changed, self.run_box.changed, self._labels.counted):
            signal.connect(lambda *_: self._find_need())

    # -- the labels -----------------------------------------------------------------------------------------------

    def _on_labels(self) -> None:
        """Take over the optical properties that come with a layer."""
        self.clear_message()
        domain = self._labels.domain
        if domain is not None:
            self._show_labels(domain.labels_present)
            self.table.set_media(domain.media)
            if domain.notes:
                self.show_note(" ".join(domain.notes))
        elif self._labels.layer is None:
            self._show_labels(())
        self.desk.show()

    def _show_labels(self, labels: tuple[int, ...]) -> None:
        self.table.set_labels(labels, self._labels.colours(labels))

    def _on_label(self, label: int) -> None:
        if self._labels.layer is not None:
            self._labels.layer.selected_label = label

    # -- sources and detectors ------------------------------------------------------------------------------------

    def place_source(self, position_mm: Any, *, snap: bool = True) -> None:
        """Put the source at a world position, mm: at the surface point nearest to it, or exactly there."""
        self.desk.place_source(position_mm, snap=snap)

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
        if self.running:
            self.show_note(STILL_RUNNING)
            return
        if not self.run_box.live or self.desk.shown.source is None:
            return
        try:
            request = self._request().quick()
        except GpuBioError as error:
            self._quick.cancel()
            if not quiet:
                self.show_error(str(error))
            return
        self.clear_message()
        self._quick_number += 1
        self._quick.submit(self._quick_steps(request, self._quick_number))

    def _quick_steps(self, request: Request, number: int) -> MakeSteps:
        def steps(stop: threading.Event) -> Generator[Step, None, Picture]:
            outdated = lambda: self._quick_number != number  # noqa: E731
            inner = light_steps(request, self._domains, stop, lambda: self._look, outdated=outdated)
            while True:
                try:
                    step = next(inner)
                except StopIteration as end:
                    return end.value
                self.quick_stepped.emit((number, step))
                yield step

        return steps

    def _on_quick_step(self, told: tuple[int, Step]) -> None:
        number, step = told
        if self.running or number != self._quick_number:
            return
        self.say(f"quick look: {step.message} {step.done:,} of {step.total:,} photons".replace("  ", " "))
        if step.preview is not None:
            self._show(step.preview)

    def _on_quick(self, outcome: Outcome) -> None:
        if self.running:
            return
        if outcome.error:
            self.show_error(outcome.error)
        elif outcome.result is not None:
            self._show(outcome.result)
            self.say(f"quick look of {outcome.result.result.launched:,} photons; press Run for all of them")

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

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Picture]:
        """Read the inputs and return the simulation."""
        request = self._request()
        self._quick.cancel()
        self._quick_number += 1
        return light_steps(request, self._domains, stop, lambda: self._look)

    def _request(self) -> Request:
        return Request(
            volume=self._volume(),
            source=self.desk.source(),
            detectors=self.desk.shown.detectors,
            settings=self.run_box.settings,
            device=self.device,
        )

    def _volume(self) -> Volume:
        tissue, layer = self._labels.tissue, self._labels.layer
        if tissue is None or layer is None:
            raise InvalidInput(NO_LABELS)
        return Volume(study=layer.name, tissue=tissue, media=self.table.media(), carried=self._labels.domain)

    def show_preview(self, preview: Picture) -> None:
        """Show what a run has so far."""
        self._show(preview)

    def show_result(self, result: Picture) -> None:
        """Show what a run gave."""
        self._show(result)

    def _show(self, picture: Picture) -> None:
        self._draw(picture)
        self._tell(picture)

    def _draw(self, picture: Picture) -> None:
        if self.view.show(picture):
            self.desk.layers.bring_to_front()
        self._show_legend()

    def _show_legend(self, *_: Any) -> None:
        """Say what the colours stand for, and which time gate is on screen."""
        picture, gate = self.view.picture, ""
        if picture is not None and picture.result.settings.gate_count > 1 and self.viewer.dims.ndim > 3:
            edges = picture.result.settings.time_gates_ns
            index = min(max(round(self.viewer.dims.point[-4]), 0), len(edges) - 2)
            gate = f"gate {index + 1}: {edges[index]:g} to {edges[index + 1]:g} ns"
        self.display_box.show_legend(self.view.layer(), gate)

    def _tell(self, picture: Picture) -> None:
        """Let the result part speak of a picture's result."""
        strength = self.display_box.strength
        self.results.show_result(
            picture.result,
            power_mw=strength.power_mw,
            energy_j=strength.energy_j,
            colours=self._labels.colours(picture.result.domain.labels_present),
        )

    # -- the look of the picture ----------------------------------------------------------------------------------

    def keep_picture(self) -> None:
        """Leave the layers of the picture to the user; the next run makes new ones."""
        name = self.view.keep()
        self.say(f"{name!r} stays as it is; the next run makes a new layer" if name else "there is no picture yet")

    def _on_strength(self) -> None:
        if self.view.picture is not None:
            self._tell(self.view.picture)
        self._follow_look()

    def _follow_look(self) -> None:
        """Draw the picture as it is wanted now."""
        box = self.display_box
        wanted = Look(unit=self.results.unit, decades=box.decades, masks=box.masks, shows_error=box.shows_error)
        if wanted == self._look:
            return
        self._look = wanted
        if self.view.picture is not None:
            self._redraw.submit(_drawing(self.view.picture, wanted, self.view.study))

    def _on_redrawn(self, outcome: Outcome) -> None:
        if outcome.error:
            self.show_error(outcome.error)
        elif self.view.picture is not None and outcome.result.result is self.view.picture.result:
            self._draw(outcome.result)

    # -- the script -----------------------------------------------------------------------------------------------

    def script(self, saved: Mapping[str, Path]) -> str:
        """Return a script that simulates what the panel shows."""
        request, layer = self._request(), self._labels.layer
        labels_path = saved.get(layer.name) or saved_path(layer)
        if labels_path is None:
            raise InvalidInput(f"the labels {layer.name!r} are in no file; save them first")
        pattern = self.source_box.pattern_layer
        return light_script(request, self.results.unit, labels_path, None if pattern is None else saved[pattern.name])

    def painted_layers(self) -> list[Any]:
        """The labels, if no file holds them as they are, and the image of a source's pattern."""
        layer, pattern = self._labels.layer, self.source_box.pattern_layer
        painted = [layer] if layer is not None and saved_path(layer) is None else []
        return painted if pattern is None else [*painted, pattern]

    def save_painted(self, layer: Any, folder: Path) -> Path:
        """Save labels as NIfTI, or the image of a pattern as ``.npy``, into a folder."""
        if isinstance(layer, Labels):
            return save_layer(layer, folder)
        path = folder / f"{file_name(layer.name)}.npy"
        with atomic_write(path) as part:
            np.save(part, np.asarray(layer.data))
        return path

    def teardown(self) -> None:
        """End runs, give the mouse back and let the layers go."""
        self._quick_number += 1
        for job in (self._quick, self._redraw, self._need):
            job.abandon()
        self.display_box.show_legend(None)
        super().teardown()
        self._labels.teardown()

    def revive(self) -> None:
        """Listen to the viewer again."""
        super().revive()
        self._labels.follow(self.labels_box.layer)
        self._show_legend()


def _drawing(picture: Picture, look: Look, study: str) -> MakeSteps:
    def steps(_stop: threading.Event) -> Generator[Step, None, Picture]:
        yield Step(0, 1, "drawing")
        return picture_of(picture.result, study, look, quick=picture.quick)

    return steps


def _is_labels(layer: Any) -> bool:
    return isinstance(layer, Labels) and layer.ndim >= 3
