"""The dock widget "Laser speckle": frames in; maps of flow, curves and recordings out, live or of a whole stack."""

import dataclasses
import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.steps import Step
from napari_gpubio.speckle.live import CameraSource, LiveStatus, State
from napari_gpubio.speckle.widget import offline, script
from napari_gpubio.speckle.widget.contrast_box import ContrastBox
from napari_gpubio.speckle.widget.course_box import LIVE, CourseBox
from napari_gpubio.speckle.widget.film import ask_for_path, film_of
from napari_gpubio.speckle.widget.live_box import LiveBox
from napari_gpubio.speckle.widget.live_desk import LiveDesk
from napari_gpubio.speckle.widget.live_layers import LiveLayers
from napari_gpubio.speckle.widget.map_box import NO_BASELINE, MapBox
from napari_gpubio.speckle.widget.recipe import LiveMap, Recipe
from napari_gpubio.speckle.widget.region_desk import RegionDesk
from napari_gpubio.speckle.widget.source_box import SourceBox
from napari_gpubio.speckle.widget.source_pages import StackPage
from napari_gpubio.speckle.widget.video import Film, write_steps
from napari_gpubio.viewer.panel import EnginePanel, heading

if TYPE_CHECKING:
    import napari.viewer

_PLOT_MS = 100


class SpecklePanel(EnginePanel):
    """Laser speckle imaging of a camera, a folder or a stack.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: "napari.viewer.Viewer", parent: QWidget | None = None) -> None:
        super().__init__(viewer, run_text="Run stack", parent=parent)
        self.source_box, self.contrast_box, self.live_box = SourceBox(viewer, self), ContrastBox(self), LiveBox(self)
        self.map_box = MapBox(viewer, self)
        self.desk = LiveDesk(Recipe(settings=self.contrast_box.settings), self)
        self.course_box = CourseBox(viewer, self.desk.course, self)
        self.layers = LiveLayers(viewer)
        self.region_desk = RegionDesk(
            viewer, self.course_box, self.layers, self.desk.process, self._pictured, parent=self
        )
        self.regions = self.region_desk.follower
        self.done: offline.Done | None = None
        self._film: tuple[Path, Film] | None = None  # that is to be written next
        self._source: tuple[str, str] = ("", "")  # that live maps come from
        self._place: Mapping[str, Any] = {}
        self._plot_timer = QTimer(self)
        self._plot_timer.setInterval(_PLOT_MS)
        self._fill()
        self._connect()
        for part in (self.source_box, self.map_box, self.course_box, self.region_desk, self.desk):
            self.own(part)
        self._on_source()

    # -- the inside of the panel ----------------------------------------------------------------------------------

    def _fill(self) -> None:
        self.run_button.setToolTip("Make the maps of all frames of the open image stack")
        parts: tuple[QWidget, ...] = (
            self.source_box, self.contrast_box, heading("Live", self), self.live_box, heading("Picture", self),
            self.map_box, heading("Regions and time course", self), self.course_box,
        )  # fmt: skip
        for part in parts:
            self.inputs.addWidget(part)

    def _connect(self) -> None:
        self.source_box.changed.connect(self._on_source)
        self.contrast_box.changed.connect(self._on_settings)
        self.map_box.maps.valueChanged.connect(lambda *_: self._on_settings())
        self._device.currentIndexChanged.connect(lambda *_: self._on_settings())
        self.live_box.started.connect(self.start_live)
        self.live_box.stopped.connect(self.stop_live)
        self.live_box.record_wanted.connect(self.record)
        self.live_box.record_ended.connect(self.desk.end_recording)
        self.desk.shown.connect(self._on_map)
        self.desk.told.connect(self._on_told)
        self.desk.ended.connect(self._on_ended)
        self.map_box.baseline_wanted.connect(self.take_baseline)
        self.map_box.video_wanted.connect(self._on_video)
        self.course_box.draw_wanted.connect(self.draw_regions)
        self.course_box.failed.connect(self.show_error)
        self.course_box.said.connect(self.say)
        self._plot_timer.timeout.connect(self.course_box.show_course)

    # -- settings -------------------------------------------------------------------------------------------------

    def recipe(self) -> Recipe:
        """Take down how maps are made.

        Raises
        ------
        InvalidInput
            If the settings make no sense.
        """
        box = self.contrast_box
        return Recipe(
            settings=box.settings, noise=box.noise_model, registers=box.registers.isChecked(),
            baseline_maps=self.map_box.maps.value(), device=self.device,
        )  # fmt: skip

    def _on_source(self) -> None:
        self.clear_message()
        page = self.source_box.page
        if isinstance(page, StackPage) and page.layer_box.layer is not None:
            self.contrast_box.take_from(page.layer_box.layer)

    def _on_settings(self) -> None:
        """Live maps follow the settings; wrong ones are told, and the old ones stay."""
        try:
            recipe = self.recipe()
        except GpuBioError as error:
            self.show_error(str(error))
            return
        self.clear_message()
        recipe = self._as_exposed(recipe)
        self.course_box.exposure_ms = recipe.settings.exposure_ms
        if self.desk.process.set_recipe(recipe):
            self.show_note("These settings change K², so the baseline was let go; take it again.")
        self._show_baseline()

    def _as_exposed(self, recipe: Recipe) -> Recipe:
        """The recipe with the exposure that a live camera really has; it is set when live imaging starts."""
        source = self.desk.loop.source if self.desk.loop is not None and self.desk.is_live else None
        told = source.exposure_ms if isinstance(source, CameraSource) else None
        if told is None or told == recipe.settings.exposure_ms:
            return recipe
        self.show_note(f"The camera exposes for {told:g} ms, and maps are made for that; stop and start to change it.")
        return dataclasses.replace(recipe, settings=dataclasses.replace(recipe.settings, exposure_ms=told))

    # -- live -----------------------------------------------------------------------------------------------------

    def start_live(self) -> None:
        """Begin with the source and the settings as they stand."""
        self.clear_message()
        try:
            recipe = self.recipe()
            page = self.source_box.page
            source = page.make(recipe.settings.exposure_ms)
            self._note_source((page.title, source.name))
            self._place = {} if page.title.startswith("camera") else page.place()
            self.desk.process.set_recipe(recipe)
            self.desk.start(source, self.live_box.mode.currentText())
        except GpuBioError as error:
            self.show_error(str(error))
            return
        self.live_box.show_live(True)
        self.source_box.kind.setEnabled(False)
        self.course_box.show_course(LIVE)
        self.layers.come_forward()
        if isinstance(page, StackPage):
            self._hide_frames(page.layer.name)
        self.say("starting … (the first maps on a machine take up to a minute)")
        self._plot_timer.start()

    def _note_source(self, source: tuple[str, str]) -> None:
        """A baseline is that of its source."""
        if source != self._source:
            self._source = source
            self.desk.process.forget_baseline()

    def stop_live(self) -> None:
        """Ask the loop to end; layers and curves stay."""
        self.live_box.show_ending()
        self.desk.stop()

    def record(self, path: Path) -> None:
        """Record the raw frames from now on."""
        settings = self.desk.process.recipe.settings
        about = {"software": "napari-gpubio", "exposure_ms": settings.exposure_ms, "source": self.source_box.page.title}
        try:
            self.desk.record(path, about)
        except GpuBioError as error:
            self.show_error(str(error))
            return
        self.live_box.show_recording(self.desk.recording)

    def take_baseline(self) -> None:
        """Let flow be 1 over the next maps, and show it relative to them."""
        if self.desk.is_live:
            self.desk.process.take_baseline()
        elif self.source_box.page.title != StackPage.title:
            self.show_error("nothing is live; press Start live first, then Take")
            return
        else:
            self.say(f"the first {self.map_box.maps.value()} maps of the stack count as flow 1")
        self.contrast_box.choose_index("relative")
        self.course_box.show_relative()
        self._show_baseline()

    def _on_map(self, live: LiveMap) -> None:
        if self.layers.map is None and self.source_box.page.title.startswith("camera"):
            self._place = self.source_box.page.place()  # known once the camera is open
        if self.layers.show(live, self._place):
            self.map_box.choose(self.layers.map)
            self.viewer.reset_view()
        self.region_desk.set_live_shape(live.shown.shape)

    def _on_told(self, status: LiveStatus) -> None:
        recording = self.desk.recording
        self.live_box.show_recording(recording)
        if recording is not None and recording.message and recording.message != self.message:
            self.show_error(recording.message)
        if not self.desk.is_live:
            return  # the recording alone goes on
        self.live_box.readout.show_status(status)
        recipe = self._as_exposed(self.desk.process.recipe)
        if recipe is not self.desk.process.recipe:
            self.course_box.exposure_ms = recipe.settings.exposure_ms
            self.desk.process.set_recipe(recipe)
        self._show_baseline()
        if status.state is State.RUNNING:
            self.say(status.message or f"live: {status.processed:,} maps")

    def _on_ended(self, status: LiveStatus) -> None:
        self._plot_timer.stop()
        if self.desk.last is not None:
            self.layers.settle(self.desk.last)
        self.live_box.show_status(status, self.desk.recording)
        self.live_box.show_live(False)
        self.source_box.kind.setEnabled(True)
        self.course_box.show_course()
        self._show_baseline()
        if status.state is State.FAILED:
            self.say("")
            self.show_error(status.message)
            return
        ended = "the source has no more frames" if status.state is State.ENDED else "stopped"
        self.say(f"{ended}; {status.processed:,} maps were made")

    def _show_baseline(self) -> None:
        process = self.desk.process
        progress = process.baseline_progress
        text = "taken: flow is 1 there" if process.has_baseline else NO_BASELINE
        if progress is not None and self.desk.is_live:
            text = f"being taken: {progress[0]} of {progress[1]} maps"
        self.map_box.baseline_text.setText(text)

    def _pictured(self) -> Any | None:
        """The layer whose pixels regions mean: the map that is shown, the live one, or the stack."""
        page = self.source_box.page
        stack = page.layer_box.layer if isinstance(page, StackPage) else None
        return self.map_box.layer or self.layers.map or stack

    def draw_regions(self) -> None:
        """Add a layer to draw regions in, over the map that is shown."""
        self.region_desk.draw()
        self.say("click around a region; a double click, or Enter, ends it")

    def _hide_frames(self, name: str) -> None:
        """Hide a stack that is played or was run: it would be seen where its maps have no values, at their border."""
        if name in self.viewer.layers:
            self.viewer.layers[name].visible = False

    # -- the whole stack ------------------------------------------------------------------------------------------

    def _request(self) -> offline.Request:
        page = self.source_box.stack
        return offline.request_of(page.layer, self.recipe(), page.rate_hz)

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Any]:
        """Read the inputs and return the run of the whole stack."""
        if self._film is not None:
            (path, film), self._film = self._film, None
            return write_steps(path, film, stop)
        return offline.run_steps(self._request(), stop)

    def show_result(self, result: Any) -> None:
        """Show the maps of a whole stack, and curves of the regions; or say what was written."""
        if isinstance(result, str):
            self.say(result)
            return
        self.done = result
        if not self.desk.is_live:
            self.layers.step_back()
        self._hide_frames(result.request.name)
        self.map_box.choose(offline.show(self.viewer, result))
        if result.request.recipe.settings.index == "relative":
            self.map_box.baseline_text.setText(f"of the stack: its first {result.request.baseline_frames} frames")
        self.region_desk.set_done(result, self.map_box.maps.value())
        if not result.maps.complete:
            self.say("stopped; maps that were not reached are empty")
        if result.maps.notes:
            self.show_note(" ".join(f"{note[:1].upper()}{note[1:]}." for note in result.maps.notes))

    # -- video ----------------------------------------------------------------------------------------------------

    def _on_video(self) -> None:
        try:
            film = self.film()
        except GpuBioError as error:
            self.show_error(str(error))
            return
        if (path := ask_for_path(self)) is not None:
            self.write_video(path, film)

    def film(self) -> Film:
        """Take down the video of the chosen map as it looks; see `film_of`."""
        return film_of(self.map_box.layer, self.done, self.source_box.page.rate_hz)

    def write_video(self, path: Path, film: Film) -> None:
        """Write a video, with the progress and the Stop of a run."""
        if self.running:
            self.show_error("a run is under way; wait for its end, or stop it, then write the video")
            return
        self._film = path, film
        self.run()

    # -- the script -----------------------------------------------------------------------------------------------

    def script(self, saved: Mapping[str, Path]) -> str:
        """Return a script that makes the maps of the whole stack, and writes them."""
        request = self._request()
        path = saved.get(request.name) or script.file_of(self.source_box.stack.layer)
        assert path is not None, "painted_layers tells of a stack without a file"
        return script.script_text(request, path)

    def painted_layers(self) -> list[Any]:
        """The stack, if no file holds it as it is."""
        layer = self.source_box.stack.layer
        return [layer] if script.file_of(layer) is None else []

    def save_painted(self, layer: Any, folder: Path) -> Path:
        """Save the stack as TIFF into a folder."""
        return script.save(layer, folder)

    # -- the end --------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """End everything that runs, live imaging too."""
        self._plot_timer.stop()
        super().teardown()
