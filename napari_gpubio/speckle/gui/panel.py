"""The dock widget "Laser speckle": frames in; maps of flow, curves and recordings out, live or of a whole stack."""

import threading
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.speckle.gui import mesi, offline, result_layers, script
from napari_gpubio.speckle.gui.contrast_box import ContrastBox
from napari_gpubio.speckle.gui.course_box import CourseBox
from napari_gpubio.speckle.gui.film import ask_for_path, film_of
from napari_gpubio.speckle.gui.live_box import LiveBox
from napari_gpubio.speckle.gui.live_control import Boxes, LiveControl
from napari_gpubio.speckle.gui.live_controller import LiveController
from napari_gpubio.speckle.gui.live_layers import LiveLayers
from napari_gpubio.speckle.gui.map_box import MapBox
from napari_gpubio.speckle.gui.recipe import Recipe
from napari_gpubio.speckle.gui.region_controller import RegionController
from napari_gpubio.speckle.gui.source_box import SourceBox
from napari_gpubio.speckle.gui.source_pages import StackPage
from napari_gpubio.speckle.gui.video import Film, write_steps

if TYPE_CHECKING:
    import napari.viewer

Steps = Generator[Step, None, Any]
DARK_IS_STACK = "the dark frames are the stack itself; choose frames that were taken with the light off"


class SpecklePanel(EnginePanel):
    """Laser speckle imaging of a camera, a folder or a stack.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: "napari.viewer.Viewer", parent: QWidget | None = None) -> None:
        super().__init__(viewer, run_text="Run stack", parent=parent)
        self.source_box, self.contrast_box = SourceBox(viewer, self), ContrastBox(viewer, self)
        self.live_box, self.map_box = LiveBox(self), MapBox(viewer, self)
        self.controller = LiveController(Recipe(settings=self.contrast_box.settings), self)
        self.course_box = CourseBox(viewer, self.controller.course, self)
        self.layers = LiveLayers(viewer)
        self.region_controller = RegionController(
            viewer, self.course_box, self.layers, self.controller.process, self._pictured, parent=self
        )
        self.regions = self.region_controller.listener
        boxes = Boxes(self.source_box, self.contrast_box, self.live_box, self.map_box, self.course_box)
        self.live = LiveControl(viewer, boxes, self.controller, self.layers, self.recipe, self)
        self.done: offline.Done | mesi.MesiDone | None = None
        self._next: Callable[[threading.Event], Steps] | None = None  # what is to be run instead of the stack
        self._fill()
        self._connect()
        for part in (
            *boxes[:2],
            self.map_box,
            self.course_box,
            self.layers,
            self.region_controller,
            self.live,
            self.controller,
        ):
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
        live, follow = self.live, lambda *_: self.live.follow_settings()
        self.source_box.changed.connect(self._on_source)
        for signal in (self.contrast_box.changed, self.map_box.maps.valueChanged, self._device.currentIndexChanged):
            signal.connect(follow)
        self.map_box.video_wanted.connect(self._on_video)
        self.course_box.draw_wanted.connect(self.draw_regions)
        self.course_box.failed.connect(self.show_error)
        self.course_box.status_changed.connect(self.say)
        live.status_changed.connect(self.say)
        live.noted.connect(self.show_note)
        live.failed.connect(self.show_error)
        live.cleared.connect(self.clear_message)
        live.begun.connect(self.region_controller.begin_live)
        live.sized.connect(self.region_controller.set_live_shape)
        live.added.connect(self.region_controller.come_up)

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
            baseline_maps=self.map_box.maps.value(), device=self.device, mesi=box.mesi_recipe,
            dark="" if box.noise.layer is None else box.noise.layer.name,
        )  # fmt: skip

    def _on_source(self) -> None:
        self.clear_message()
        page = self.source_box.page
        if isinstance(page, StackPage) and page.layer_box.layer is not None:
            self.contrast_box.take_from(page.layer_box.layer)

    # -- regions --------------------------------------------------------------------------------------------------

    def _pictured(self) -> Any | None:
        """The layer whose pixels regions mean: the map that is shown, the live one, or the stack."""
        page = self.source_box.page
        stack = page.layer_box.layer if isinstance(page, StackPage) else None
        return self.map_box.layer or self.layers.map or stack

    def draw_regions(self) -> None:
        """Add a layer to draw regions in, over the map that is shown."""
        self.region_controller.draw()
        self.say("click around a region; a double click, or Enter, ends it")

    # -- the whole stack ------------------------------------------------------------------------------------------

    def _request(self) -> offline.Request:
        page, box = self.source_box.stack, self.contrast_box
        if box.noise.layer is not None and box.noise.layer is page.layer:
            raise InvalidInput(DARK_IS_STACK)
        return offline.request_of(page.layer, self.recipe(), page.rate_hz)

    def make_steps(self, stop: threading.Event) -> Steps:
        """Read the inputs and return the run of the whole stack, or what was put in its place."""
        if self._next is not None:
            make, self._next = self._next, None
            return make(stop)
        request = self._request()
        return offline.run_steps(request, stop) if request.recipe.mesi is None else mesi.mesi_steps(request, stop)

    def show_result(self, result: Any) -> None:
        """Show the maps of a whole stack, and curves of the regions; or say what was written."""
        if isinstance(result, str):
            self.say(result)
            return
        if isinstance(result, mesi.MesiDone) and not result.has_begun:
            self.say("stopped before the fit began; nothing was changed")
            return
        self.done = result
        if not self.controller.is_live:
            self.layers.step_back()
        for name in (result.request.name, result.request.recipe.dark):
            if name in self.viewer.layers:
                self.viewer.layers[name].visible = False  # it would be seen where maps have no values, at their border
        result_layers.step_back(self.viewer, result.request.name)
        if isinstance(result, mesi.MesiDone):
            self._show_fit(result)
        else:
            self._show_maps(result)
        self.region_controller.come_up()

    def _show_fit(self, done: mesi.MesiDone) -> None:
        self.map_box.choose(mesi.show(self.viewer, done))
        if not done.fit.complete:
            self.say("stopped; pixels that were not reached are empty")
        self._show_notes(mesi.notes(done))

    def _show_maps(self, done: offline.Done) -> None:
        self.map_box.choose(result_layers.show(self.viewer, done))
        if done.request.recipe.settings.index == "relative":
            self.map_box.baseline_text.setText(f"of the stack: its first {done.request.baseline_frames} frames")
        self.region_controller.set_done(done, self.map_box.maps.value())
        if not done.maps.complete:
            self.say("stopped; maps that were not reached are empty")
        self._show_notes(done.notes)

    def _show_notes(self, notes: tuple[str, ...]) -> None:
        if notes:
            self.show_note(" ".join(f"{note[:1].upper()}{note[1:]}." for note in notes))

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
        done = self.done if isinstance(self.done, offline.Done) else None
        return film_of(self.map_box.layer, done, self.source_box.page.rate_hz)

    def write_video(self, path: Path, film: Film) -> None:
        """Write a video, with the progress and the Stop of a run."""
        if self.running:
            self.show_error("a run is under way; wait for its end, or stop it, then write the video")
            return
        self._next = lambda stop: write_steps(path, film, stop)
        self.run()

    # -- the script -----------------------------------------------------------------------------------------------

    def script(self, saved: Mapping[str, Path]) -> str:
        """Return a script that makes the maps of the whole stack, and writes them."""
        request = self._request()
        if request.recipe.mesi is not None:
            mesi.check(request, request.recipe.mesi)
        paths = {layer.name: saved.get(layer.name) or script.file_of(layer) for layer in self._frame_layers()}
        return script.script_text(request, {name: path for name, path in paths.items() if path is not None})

    def painted_layers(self) -> list[Any]:
        """The stack and the dark frames, as far as no file holds them as they are."""
        return [layer for layer in self._frame_layers() if script.file_of(layer) is None]

    def save_painted(self, layer: Any, folder: Path) -> Path:
        """Save frames as TIFF into a folder."""
        return script.save(layer, folder)

    def _frame_layers(self) -> list[Any]:
        dark = self.contrast_box.noise.layer
        return [self.source_box.stack.layer, *([] if dark is None else [dark])]
