"""The dock widget "Laser speckle": frames in; maps of flow, curves and recordings out, live or of a whole stack."""

import threading
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.forms import SPACING, Folded, notes_text
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.gui.views import fit_slider_labels
from napari_gpubio.speckle.gui import results, script
from napari_gpubio.speckle.gui.controller import LiveController, LiveRunner
from napari_gpubio.speckle.gui.display import LiveBox, MapBox
from napari_gpubio.speckle.gui.inputs import ContrastBox
from napari_gpubio.speckle.gui.layers import LiveLayers, frames_of
from napari_gpubio.speckle.gui.plots import CourseBox
from napari_gpubio.speckle.gui.pulse import PulseBox
from napari_gpubio.speckle.gui.regions import RegionController
from napari_gpubio.speckle.gui.request import FitResult, Recipe, Request, StackResult, run_steps
from napari_gpubio.speckle.gui.sources import SourceBox, StackPage
from napari_gpubio.speckle.gui.video import Video, ask_video_path, video_of, write_steps

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

    warms = ("speckle",)

    def __init__(self, viewer: "napari.viewer.Viewer", parent: QWidget | None = None) -> None:
        super().__init__(viewer, run_text="Run stack", parent=parent)
        self.source_box, self.contrast_box = SourceBox(viewer, self), ContrastBox(viewer, self)
        self.live_box, self.map_box = LiveBox(self), MapBox(viewer, self)
        self.runner = LiveRunner(Recipe(settings=self.contrast_box.settings), self)
        self.course_box = CourseBox(viewer, self.runner.course, self)
        self.pulse_box = PulseBox(self)
        self.layers = LiveLayers(viewer)
        self.regions, self.controller = RegionController(self), LiveController(self)
        self.result: StackResult | FitResult | None = None
        self._inputs: list[Any] = []  # layers of the run, which may be renamed or removed while it lasts
        self._next: Callable[[threading.Event], Steps] | None = None  # what is to be run instead of the stack
        self.run_button.setToolTip("Compute the maps of all frames of the open image stack")
        self.inputs.setSpacing(SPACING)
        pulse = Folded("Pulsatility", self)
        pulse.fold(self.pulse_box)
        for part in (
            self.source_box, self.contrast_box, heading("Live", self), self.live_box, heading("Display", self),
            self.map_box, heading("Regions and time course", self), self.course_box,
            pulse,
        ):  # fmt: skip
            self.inputs.addWidget(part)
        connect_all((
            (self.source_box.changed, self._on_source),
            (self.source_box.files.error_occurred, self.show_error),
            (self.source_box.files.status_changed, self.show_status),
            (self.contrast_box.changed, self._on_settings),
            (self.map_box.video_requested, self.ask_video),
            (self.course_box.draw_requested, self.regions.start_drawing),
            (self.course_box.error_occurred, self.show_error),
            (self.course_box.status_changed, self.show_status),
            (self.pulse_box.measure_requested, self.regions.measure_pulse),
            (self.pulse_box.error_occurred, self.show_error),
            (self.pulse_box.status_changed, self.show_status),
        ))  # fmt: skip
        for owned in (
            self.source_box, self.contrast_box, self.map_box, self.course_box, self.pulse_box, self.layers,
            self.regions, self.controller,
        ):  # fmt: skip
            self.own(owned)
        self._on_source()

    # -- settings -------------------------------------------------------------------------------------------------

    def recipe(self) -> Recipe:
        """Return how maps are made, or raise InvalidInput if the settings make no sense."""
        box = self.contrast_box
        return Recipe(
            settings=box.settings, noise=box.noise.model, registers=box.registers.isChecked(),
            baseline_maps=self.map_box.baseline_maps.value(), device=self.device, mesi=box.mesi_recipe,
            dark="" if box.noise.layer is None else box.noise.layer.name, target=box.target,
            shows_errors=box.mesi.shows_errors.isChecked(),
        )  # fmt: skip

    def limit_baseline(self) -> None:
        """Offer no more maps for the baseline than the stack has; live imaging goes on without end."""
        stack, count = self._stack_layer(), None
        if stack is not None and not self.runner.is_live:
            try:
                settings = self.contrast_box.settings
            except GpuBioError:
                return  # reported where the settings are used
            shape = tuple(frames_of(stack).shape)
            count = 1 if len(shape) == 2 else (shape[0] - settings.depth) // settings.step + 1
        self.map_box.limit_baseline(count)

    def displayed_layer(self) -> Any | None:
        """Return the layer whose pixels regions mean: the displayed map, the live one, or the stack."""
        return self.map_box.layer or self.layers.map or self._stack_layer()

    def _stack_layer(self) -> Any | None:
        """Return the open stack, if that is the source."""
        page = self.source_box.page
        return page.layer_box.layer if isinstance(page, StackPage) else None

    def _on_source(self) -> None:
        self.clear_message()
        if (stack := self._stack_layer()) is not None:
            self.contrast_box.take_from(stack)
        self.limit_baseline()

    def _on_settings(self) -> None:
        self.limit_baseline()
        self.controller.apply_settings()

    # -- the whole stack ------------------------------------------------------------------------------------------

    def _request(self) -> Request:
        page, dark = self.source_box.stack, self.contrast_box.noise.layer
        layer = page.layer
        if dark is not None and dark is layer:
            raise InvalidInput(DARK_IS_STACK)
        place = {name: tuple(getattr(layer, name)) for name in ("scale", "translate", "units")}
        frames = frames_of(layer)
        return Request(frames=frames, name=layer.name, place=place, recipe=self.recipe(), rate_hz=page.rate_hz)

    def make_steps(self, stop: threading.Event) -> Steps:
        """Read the inputs and return the run of the whole stack, or of the video that is to be written."""
        if self._next is not None:
            make, self._next = self._next, None
            return make(stop)
        request, self._inputs = self._request(), self._frame_layers()
        return run_steps(request, stop)

    def show_result(self, result: Any) -> None:
        """Show the maps of a whole stack, and curves of the regions; or report what was written."""
        if isinstance(result, str):
            self.show_status(result)
            return
        if isinstance(result, FitResult) and not result.has_begun:
            self.show_status("stopped before the fit began; nothing was changed")
            return
        self.result = result
        if not self.runner.is_live:
            self.layers.hide_map()
        for layer in self._inputs:
            if layer in self.viewer.layers:
                layer.visible = False  # it would be seen where maps have no values, at their border
        results.hide_earlier(self.viewer, result.request.name)
        if isinstance(result, FitResult):
            self.map_box.layer_box.choose(results.add_fit(self.viewer, result))
            complete, places = result.fit.complete, "pixels"
        else:
            self.map_box.layer_box.choose(results.add_maps(self.viewer, result))
            complete, places = result.maps.complete, "maps"
            if result.request.recipe.settings.index == "relative":
                self.map_box.baseline_text.setText(f"of the stack: its first {result.request.baseline_frames} frames")
            self.regions.set_result(result)
        if not complete:
            self.show_status(f"stopped; {places} that were not reached are empty")
        if result.notes:
            self.show_note(notes_text(result.notes))
        self.regions.raise_regions()
        fit_slider_labels(self.window())

    # -- video ----------------------------------------------------------------------------------------------------

    def ask_video(self) -> None:
        """Ask for a file, and write the chosen map as a video."""
        try:
            video = self.video()
        except GpuBioError as error:
            self.show_error(str(error))
            return
        if (path := ask_video_path(self)) is not None:
            self.write_video(path, video)

    def video(self) -> Video:
        """Return the video of the chosen map as it is displayed; see `video_of`."""
        result = self.result if isinstance(self.result, StackResult) else None
        return video_of(self.map_box.layer, result, self.source_box.page.rate_hz)

    def write_video(self, path: Path, video: Video) -> None:
        """Write a video, with the progress and the Stop of a run."""
        if self.running:
            self.show_error("a run is under way; wait for its end, or stop it, then write the video")
            return
        self._next = lambda stop: write_steps(path, video, stop)
        self.run()

    # -- the script -----------------------------------------------------------------------------------------------

    def script(self, saved: Mapping[str, Path]) -> str:
        """Return a script that makes the maps of the whole stack, and writes them."""
        request = self._request()
        paths = {layer.name: saved.get(layer.name) or script.file_of(layer) for layer in self._script_layers()}
        known = {name: path for name, path in paths.items() if path is not None}
        if not self._script_regions():
            return script.script_text(request, known)
        regions = saved[self.regions.listener.layer.name]
        return script.script_text(request, known, regions=regions, pulsatility=self.pulse_box.form.value())

    def painted_layers(self) -> list[Any]:
        """Return what no file holds as it is of the layers that the script reads, and the regions if any."""
        frames = [layer for layer in self._script_layers() if script.file_of(layer) is None]
        return [*frames, self.regions.listener.layer] if self._script_regions() else frames

    def save_painted(self, layer: Any, folder: Path) -> Path:
        """Save frames, or the pixels of regions, as TIFF into a folder."""
        target = self.contrast_box.target
        if target is not None and target.region is not None and layer is self.contrast_box.mesi.region_box.layer:
            return script.save_regions({target.region_name: target.region}, target.region_name, folder)
        if layer is self.regions.listener.layer:
            return script.save_regions(self._script_regions(), layer.name, folder)
        return script.save(layer, folder)

    def _script_regions(self) -> dict[str, npt.NDArray[np.bool_]]:
        """Return the pixels of the regions that the script averages over; a fit has no time course."""
        stack = self.source_box.stack.layer
        if self.recipe().mesi is not None or len(frames_of(stack).shape) < 3:
            return {}
        height, width = frames_of(stack).shape[-2:]
        return self.regions.listener.masks(stack, (height, width))

    def _frame_layers(self) -> list[Any]:
        dark = self.contrast_box.noise.layer
        return [self.source_box.stack.layer, *([] if dark is None else [dark])]

    def _script_layers(self) -> list[Any]:
        """Return the layers that a script reads, each once."""
        frames = self._frame_layers()
        return [*frames, *(layer for layer in self.contrast_box.target_layers if layer not in frames)]
