"""The dock widget "Laser speckle": frames in; maps of flow, curves and recordings out, live or of a whole stack."""

import dataclasses
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.reading import NOTES
from napari_gpubio.core.settings import kind_of
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import file_name
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.forms import SPACING, Folded, notes_text
from napari_gpubio.gui.layers import set_visible
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.gui.run_parts import Pieces
from napari_gpubio.gui.views import fit_slider_labels
from napari_gpubio.speckle.gui import results
from napari_gpubio.speckle.gui.controller import LiveController, LiveRunner
from napari_gpubio.speckle.gui.display import LiveBox, MapBox
from napari_gpubio.speckle.gui.inputs import ContrastBox
from napari_gpubio.speckle.gui.live import LiveRecipe
from napari_gpubio.speckle.gui.panel_layers import LiveLayers, frames_of, pixel_note, whole_place_of
from napari_gpubio.speckle.gui.plots import CourseBox
from napari_gpubio.speckle.gui.pulse import PulseBox
from napari_gpubio.speckle.gui.regions import RegionController, flow_index, layer_of_region
from napari_gpubio.speckle.gui.run import FramesSource, StackResult, StackRun, layer_of_frames, run_steps
from napari_gpubio.speckle.gui.sources import SourceBox, StackPage
from napari_gpubio.speckle.gui.video import Video, ask_video_path, video_of, write_steps
from napari_gpubio.speckle.mesi.recording import NOT_SPATIAL
from napari_gpubio.speckle.opening import HeldRegions
from napari_gpubio.speckle.operations import Contrast, MeasureDark, Mesi, Pulsatility, Register
from napari_gpubio.speckle.settings import ContrastSettings, RelativeFlow, Spatial, WindowSettings

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
    kept = ("result",)

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer, run_text="Run stack")
        self.source_box, self.contrast_box = SourceBox(viewer, self), ContrastBox(viewer, self)
        self.live_box, self.map_box = LiveBox(self), MapBox(viewer, self)
        self.runner = LiveRunner(LiveRecipe(settings=self.contrast_box.settings), self)
        self.course_box = CourseBox(viewer, self.runner.course, self)
        self.pulse_box = PulseBox(self)
        self.layers = LiveLayers(viewer)
        self.regions, self.controller = RegionController(self), LiveController(self)
        self.result: StackResult | None = None
        self._inputs: list[Any] = []  # layers of the run, which may be renamed or removed while it lasts
        self.run_button.setToolTip("Compute the maps of all frames of the open image stack")
        self.inputs.setSpacing(SPACING)
        self.header.addRow("Source", self.source_box.kind)
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
            self.source_box, self.contrast_box, self.map_box, self.course_box, self.pulse_box,
            self.regions, self.controller,
        ):  # fmt: skip
            self.own(owned)
        self._on_source()

    # -- settings -------------------------------------------------------------------------------------------------

    def recipe(self) -> LiveRecipe | None:
        """Return how live maps are made, None if a fit is chosen; InvalidInput if the settings make no sense."""
        box = self.contrast_box
        if box.mesi_recipe is not None:
            return None
        return LiveRecipe(
            settings=box.settings, noise=box.noise.model, exposure_ms=box.exposure_ms,
            registers=box.registers.isChecked(), baseline_maps=self.map_box.baseline_maps.value(), device=self.device,
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

    def input_notes(self) -> tuple[str, ...]:
        """What the readers of frames assumed or left out, and that frames without a pixel size stay in pixels."""
        notes = [note for layer in self.chosen_layers() for note in carried(layer, NOTES) or ()]
        page = self.source_box.page
        layer = page.layer_box.layer if isinstance(page, StackPage) else None
        if layer is not None and (note := pixel_note(layer)):
            notes.append(note)
        return tuple(notes)

    # -- the whole stack ------------------------------------------------------------------------------------------

    def _read(self) -> StackRun:
        """Take down everything that a run needs, in the GUI thread."""
        box, page = self.contrast_box, self.source_box.stack
        layer, dark, frames = page.layer, box.noise.layer, frames_of(page.layer)
        if dark is not None and dark is layer:
            raise InvalidInput(DARK_IS_STACK)
        sources = {"recording": FramesSource.of(layer), **({} if dark is None else {"dark": FramesSource.of(dark)})}
        settings, count = box.settings, int(frames.shape[0]) if len(frames.shape) > 2 else 1
        fields: dict[str, Any] = {"noise": box.noise.numbers}
        within, verb = dict[str, Any](), Contrast if (fit := box.mesi_recipe) is None else Mesi
        if fit is None:
            if isinstance(settings.index, RelativeFlow):
                last = min(count, (self.map_box.baseline_maps.value() - 1) * settings.step + settings.depth) - 1
                settings = dataclasses.replace(settings, index=dataclasses.replace(settings.index, baseline=(0, last)))
            fields["settings"] = settings
        else:
            if not isinstance(settings.mode, Spatial):
                raise InvalidInput(NOT_SPATIAL)
            fields |= {"recipe": fit, "mode": settings.mode, "mask": settings.mask}
            if (target := box.mesi.target) is not None:
                sources["static_target"], within = target
        return StackRun(
            verb=verb, fields=fields, sources=sources, within=within, registers=box.registers.isChecked(),
            place=whole_place_of(layer),
            rate_hz=page.rate_hz, exposure_ms=box.exposure_ms, baseline_maps=self.map_box.baseline_maps.value(),
            device=self.device, shows_errors=box.mesi.shows_errors.isChecked(),
        )  # fmt: skip

    def make_steps(self, stop: threading.Event) -> Steps:
        """Read the inputs and return the run of the whole stack."""
        run, dark = self._read(), self.contrast_box.noise.layer
        self._inputs = [self.source_box.stack.layer, *([] if dark is None else [dark])]
        return run_steps(run, stop)

    def show_result(self, result: Any) -> Pieces:
        """Show the maps of a whole stack, and curves of the regions."""
        if result is None or (result.fit is not None and not result.fit.has_begun):
            self.show_status("stopped before there was anything to show; nothing was changed")
            return
        self.result = result
        if not self.runner.is_live:
            self.layers.hide_map()
        for layer in self._inputs:
            if layer in self.viewer.layers:
                set_visible(layer, False)  # it would be seen where maps have no values, at their border
        results.hide_earlier(self.viewer, result.run.name)
        if result.fit is not None:
            self.map_box.layer_box.choose((yield from results.add_fit(self.viewer, result, result.fit)))
        else:
            self.map_box.layer_box.choose((yield from results.add_maps(self.viewer, result)))
            index = result.maps.settings.index
            if isinstance(index, RelativeFlow) and index.baseline is not None:
                self.map_box.baseline_text.setText(f"of the stack: its first {index.baseline[1] + 1} frames")
            self.regions.set_result(result)
        if not result.made.complete:
            places = "maps" if result.fit is None else "pixels"
            self.show_status(f"stopped; {places} that were not reached are empty")
        if result.made.notes:
            self.show_note(notes_text(result.made.notes))
        self.regions.raise_regions()
        fit_slider_labels(self.window())

    def show_kept(self) -> None:
        """Show curves of a stack that undo has brought back, or none."""
        self.regions.set_result(None if self.result is None or self.result.fit is not None else self.result)

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
        return video_of(self.map_box.layer, self.result, self.source_box.page.rate_hz)

    def write_video(self, path: Path, video: Video) -> None:
        """Write a video, with the progress and the Stop of a run."""
        self.run_other(lambda stop: write_steps(path, video, stop), self.show_status)

    # -- the draft ------------------------------------------------------------------------------------------------

    def take_draft(self) -> Callable[[], Operation]:
        """Read the inputs, and return what makes an operation of them."""
        return self._read().operation

    def show_draft(self, operation: Operation) -> bool:
        """Show an operation of maps, or of a fit; returns whether layers show all its inputs."""
        if not isinstance(operation, (Contrast, Mesi)):
            return False
        inputs = dict(operation.inputs())
        registers = isinstance(inputs["recording"].of, Register)
        for name, maker in (("recording", Register), ("dark", MeasureDark)):
            if name in inputs and isinstance(inputs[name].of, maker):
                ((_, inputs[name]),) = inputs[name].of.inputs()
        layers = {name: layer_of_frames(self.viewer, one) for name, one in inputs.items() if name != "within"}
        if "within" in inputs:
            layers["within"] = layer_of_region(self.viewer, inputs["within"], layers["static_target"])
        self.source_box.choose(StackPage)
        if layers["recording"] is not None:
            self.source_box.stack.layer_box.choose(layers["recording"])
        self.contrast_box.show_draft(operation, layers)
        self.contrast_box.registers.setChecked(registers)
        if isinstance(operation, Contrast) and isinstance(index := operation.settings.index, RelativeFlow):
            chosen, (_, last) = operation.settings, index.baseline or (0, 0)
            self.map_box.baseline_maps.setValue(max(1, (last + 1 - chosen.depth) // chosen.step + 1))
        return None not in layers.values()

    # -- the script -----------------------------------------------------------------------------------------------

    def operation(self) -> Operation:
        """Return the operation of the result that is shown, or of a run as the panel stands.

        Where curves of regions are shown, too, it is that of their beat.
        """
        return self._pulses() or (self._read().operation() if self.result is None else self.result.operation)

    @property
    def is_at_hand(self) -> bool:
        """Whether a result is shown, whose operation is known."""
        return self.result is not None

    def script_files(self) -> dict[Any, str]:
        """Files that a script writes."""
        result = self.result
        run = self._read() if result is None else result.run
        name = file_name(run.name)
        if run.verb is Mesi:
            return {"fit": f"mesi of {name}.tif"}
        chosen: ContrastSettings = run.fields["settings"]
        titles = {"contrast": "contrast"} | ({"index": kind_of(chosen.index)} if chosen.has_index else {})
        titles |= {"mask": "mask"} if chosen.has_mask else {}
        files = {part: f"{title} of {name}.tif" for part, title in titles.items()}
        if result is None or not self.regions.masks_of_result():
            return files
        tables = {one: f"{one} of {name}.csv" for one in ("curves", "pulsatility")}
        return {result.operation.output(part): path for part, path in files.items()} | tables

    def _pulses(self) -> Pulsatility | None:
        """The beat in the regions of the maps that are shown, as the rows of the panel look for it."""
        result, masks = self.result, self.regions.masks_of_result()
        if result is None or not masks or not isinstance(result.operation, Contrast):
            return None
        maps, rows = result.operation, self.pulse_box.form.value()
        return Pulsatility(
            recording=maps.recording, dark=maps.dark, noise=maps.noise, regions=HeldRegions.of(masks),
            windows=WindowSettings(mode=maps.settings.mode, mask=maps.settings.mask), rate_hz=result.run.rate_hz,
            flow=flow_index(rows.flow, result.run.exposure_ms, maps.settings), settings=rows.band,
        )  # fmt: skip
