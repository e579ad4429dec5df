"""What the panel does while frames come: start and stop, the map and the read-outs, recording, the baseline."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from qtpy.QtCore import QObject, QTimer, Signal

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.speckle.gui.contrast_box import ContrastBox
from napari_gpubio.speckle.gui.course_box import LIVE, CourseBox
from napari_gpubio.speckle.gui.live_box import LiveBox
from napari_gpubio.speckle.gui.live_controller import LiveController
from napari_gpubio.speckle.gui.live_layers import LiveLayers
from napari_gpubio.speckle.gui.map_box import NO_BASELINE, MapBox
from napari_gpubio.speckle.gui.recipe import LiveMap, Recipe
from napari_gpubio.speckle.gui.source_box import SourceBox
from napari_gpubio.speckle.gui.source_pages import CameraPage, StackPage
from napari_gpubio.speckle.live import CameraSource, LiveStatus, State

_PLOT_MS = 100
NOT_LIVE_MESI = "a multi-exposure fit is made of a whole stack, with Run stack; choose another map for live imaging"
KEEPS_MAP = "A multi-exposure fit is made of a whole stack; live maps go on as they were."
LOST_BASELINE = "These settings change K², so the baseline was let go; take it again."


class Boxes(NamedTuple):
    """The parts of the panel."""

    source: SourceBox
    contrast: ContrastBox
    live: LiveBox
    map: MapBox
    course: CourseBox


class LiveControl(QObject):
    """Ties the live loop to the parts of the panel.

    ``status_changed`` carries a short text, ``noted`` and ``failed`` a sentence, ``cleared`` says that an old one is
    void;
    ``begun`` carries the shape (Y, X) of the maps that will come, or None, and ``sized`` that of a map that came;
    ``added`` says that its layer is new or lies elsewhere.

    Parameters
    ----------
    viewer
        The napari viewer.
    boxes, controller, layers
        What is tied.
    recipe
        Takes down how maps are made; raises InvalidInput.
    """

    status_changed = Signal(str)
    noted = Signal(str)
    failed = Signal(str)
    cleared = Signal()
    begun = Signal(object)
    sized = Signal(object)
    added = Signal()

    def __init__(
        self,
        viewer: Any,
        boxes: Boxes,
        controller: LiveController,
        layers: LiveLayers,
        recipe: Callable[[], Recipe],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._boxes, self._controller, self._layers, self._recipe = (
            viewer,
            boxes,
            controller,
            layers,
            recipe,
        )
        self._source: tuple[str, str] = ("", "")  # that live maps come from
        self._told_of_recording = ""
        self._is_placed = False
        self._plot_timer = QTimer(self)
        self._plot_timer.setInterval(_PLOT_MS)
        self._plot_timer.timeout.connect(boxes.course.show_course)
        boxes.live.started.connect(self.start)
        boxes.live.stopped.connect(self.stop)
        boxes.live.record_wanted.connect(self.record)
        boxes.live.record_ended.connect(controller.end_recording)
        boxes.map.baseline_wanted.connect(self.take_baseline)
        boxes.source.placed.connect(self._place)
        controller.shown.connect(self.show_map)
        controller.told.connect(self._on_told)
        controller.ended.connect(self._on_ended)

    def attach(self) -> None:
        """Nothing runs by itself."""

    def detach(self) -> None:
        """Draw no more curves."""
        self._plot_timer.stop()

    # -- settings -------------------------------------------------------------------------------------------------

    def follow_settings(self) -> None:
        """Make live maps by the settings as they stand; wrong ones are told, and the old ones stay."""
        try:
            recipe = self._recipe()
        except GpuBioError as error:
            self.failed.emit(str(error))
            return
        self.cleared.emit()
        if recipe.mesi is not None:
            if self._controller.is_live:
                self.noted.emit(KEEPS_MAP)
            return
        recipe = self._as_exposed(recipe)
        self._boxes.course.exposure_ms = recipe.settings.exposure_ms
        if self._controller.process.set_recipe(recipe):
            self.noted.emit(LOST_BASELINE)
        self._show_baseline()

    def _as_exposed(self, recipe: Recipe) -> Recipe:
        """The recipe with the exposure that a live camera really has; it is set when live imaging starts."""
        controller = self._controller
        source = controller.loop.source if controller.loop is not None and controller.is_live else None
        told = source.exposure_ms if isinstance(source, CameraSource) else None
        if told is None or told == recipe.settings.exposure_ms:
            return recipe
        self.noted.emit(f"The camera exposes for {told:g} ms, and maps are made for that; stop and start to change it.")
        return dataclasses.replace(recipe, settings=dataclasses.replace(recipe.settings, exposure_ms=told))

    # -- start and stop -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with the source and the settings as they stand."""
        self.cleared.emit()
        boxes = self._boxes
        page = boxes.source.page
        try:
            recipe = self._live_recipe()
            source = page.make(recipe.settings.exposure_ms)
            self._note_source((page.title, source.name))
            self._is_placed = False
            if not isinstance(page, CameraPage):  # whose pixel size is known once it is open
                self._place()
            self._controller.process.set_recipe(recipe)
            self.begun.emit(source.shape)
            self._controller.start(source, boxes.live.mode.currentText())
        except GpuBioError as error:
            self.failed.emit(str(error))
            return
        self._told_of_recording = ""
        boxes.live.show_live(True)
        boxes.source.kind.setEnabled(False)
        boxes.course.show_course(LIVE)
        self._layers.come_forward()
        if self._layers.map is not None:
            boxes.map.choose(self._layers.map)
        stack = page.layer if isinstance(page, StackPage) else None
        for layer in (stack, boxes.contrast.noise.layer):
            if layer is not None:
                layer.visible = False  # it would be seen where maps have no values, at their border
        self.status_changed.emit("starting … (the first maps on a machine take up to a minute)")
        self._plot_timer.start()

    def _live_recipe(self) -> Recipe:
        recipe = self._recipe()
        if recipe.mesi is not None:
            raise InvalidInput(NOT_LIVE_MESI)
        return recipe

    def stop(self) -> None:
        """Ask the loop to end; layers and curves stay."""
        self._boxes.live.show_ending()
        self._controller.stop()

    def _note_source(self, source: tuple[str, str]) -> None:
        """A baseline is that of its source."""
        if source != self._source:
            self._source = source
            self._controller.process.forget_baseline()

    def _place(self) -> None:
        """Say where live maps lie; one that is there is moved."""
        self._is_placed = True
        self._layers.place_at(self._boxes.source.place())

    # -- recording and baseline -----------------------------------------------------------------------------------

    def record(self, path: Path) -> None:
        """Record the raw frames from now on."""
        settings, title = self._controller.process.recipe.settings, self._boxes.source.page.title
        about = {"software": "napari-gpubio", "exposure_ms": settings.exposure_ms, "source": title}
        try:
            self._controller.record(path, about)
        except GpuBioError as error:
            self.failed.emit(str(error))
            return
        self._told_of_recording = ""
        self._boxes.live.show_recording(self._controller.recording)

    def take_baseline(self) -> None:
        """Let flow be 1 over the next maps, and show it relative to them."""
        boxes = self._boxes
        if self._controller.is_live:
            self._controller.process.take_baseline()
        elif not isinstance(boxes.source.page, StackPage):
            self.failed.emit("nothing is live; press Start live first, then Take")
            return
        else:
            self.status_changed.emit(f"the first {boxes.map.maps.value()} maps of the stack count as flow 1")
        boxes.contrast.choose_index("relative")
        boxes.course.show_relative()
        self._show_baseline()

    def _show_baseline(self) -> None:
        process = self._controller.process
        progress = process.baseline_progress
        text = "taken: flow is 1 there" if process.has_baseline else NO_BASELINE
        if progress is not None and self._controller.is_live:
            text = f"being taken: {progress[0]} of {progress[1]} maps"
        self._boxes.map.baseline_text.setText(text)

    # -- what comes from the loop ---------------------------------------------------------------------------------

    def show_map(self, live: LiveMap) -> None:
        """Show a live map, in its layer."""
        if not self._is_placed:
            self._place()
        if self._layers.show(live):
            self._boxes.map.choose(self._layers.map)
            self._viewer.reset_view()
            self.added.emit()
        self.sized.emit(live.shown.shape)

    def _on_told(self, status: LiveStatus) -> None:
        controller, boxes = self._controller, self._boxes
        recording = controller.recording
        boxes.live.show_recording(recording)
        if recording is not None and recording.message and recording.message != self._told_of_recording:
            self._told_of_recording = recording.message
            self.failed.emit(recording.message)
        if not controller.is_live:
            return  # the recording alone goes on
        boxes.live.readout.show_status(status)
        recipe = self._as_exposed(controller.process.recipe)
        if recipe is not controller.process.recipe:
            boxes.course.exposure_ms = recipe.settings.exposure_ms
            controller.process.set_recipe(recipe)
        self._show_baseline()
        if status.state is State.RUNNING:
            self.status_changed.emit(status.message or f"live: {status.processed:,} maps")

    def _on_ended(self, status: LiveStatus) -> None:
        boxes = self._boxes
        self._plot_timer.stop()
        if self._controller.last is not None:
            self._layers.settle(self._controller.last)
        boxes.live.show_status(status, self._controller.recording)
        boxes.live.show_live(False)
        boxes.source.kind.setEnabled(True)
        boxes.course.show_course()
        self._show_baseline()
        if status.state is State.FAILED:
            self.status_changed.emit("")
            self.failed.emit(status.message)
            return
        ended = "the source has no more frames" if status.state is State.ENDED else "stopped"
        self.status_changed.emit(f"{ended}; {status.processed:,} maps were made")
