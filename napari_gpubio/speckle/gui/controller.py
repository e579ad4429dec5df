"""Live imaging in the panel: the loop with its timer, and what the parts of the panel do while frames come."""

import time
from pathlib import Path
from typing import Any

from qtpy.QtCore import QObject, QTimer, Signal

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.gui.connections import Follower, connect_all
from napari_gpubio.gui.history import history_of
from napari_gpubio.gui.jobs import LatestJob
from napari_gpubio.gui.layers import set_visible
from napari_gpubio.speckle.gui.display import NO_BASELINE
from napari_gpubio.speckle.gui.live import LatestMap, LiveMap, LiveProcess, LiveRecipe, prepare_steps
from napari_gpubio.speckle.gui.plots import LIVE
from napari_gpubio.speckle.gui.sources import CameraPage, StackPage
from napari_gpubio.speckle.live import (
    CameraSource,
    LiveLoop,
    LiveStatus,
    Recording,
    RecordingStatus,
    Source,
    State,
    TimeCourse,
)

PERIOD_MS = 33
_PLOT_MS = 100
_STATUS_PERIODS = 5  # from one readout to the next: six a second can be read
NOT_LIVE = "nothing is live; press Start live first, then Record"
NO_FRAMES = "nothing is live; press Start live first, then Take"
NOT_LIVE_MESI = "a multi-exposure fit is made of a whole stack, with Run stack; choose another map for live imaging"
KEEPS_MAP = "A multi-exposure fit needs a whole stack; live maps continue unchanged."
DROPPED_BASELINE = "These settings change K², so the baseline was dropped; take it again."
OTHER_EXPOSURE = "The camera's exposure time is {:g} ms, and maps use it; stop and restart to change it."


class LiveRunner(QObject):
    """The live loop, with a timer that takes its newest map for the screen.

    ``map_ready`` carries a `LiveMap`, valid during the call only (``last`` stays when the loop has ended);
    ``status_changed`` the `LiveStatus`, a few times a second; ``ended`` the last one, when both threads have ended.
    """

    map_ready = Signal(object)
    status_changed = Signal(object)
    ended = Signal(object)

    def __init__(self, recipe: LiveRecipe, parent: QObject) -> None:
        super().__init__(parent)
        self.course = TimeCourse()
        self.latest = LatestMap(self.course)
        self.process = LiveProcess(recipe, self.latest.spare)
        self.loop: LiveLoop | None = None
        self.last: LiveMap | None = None
        self._compiling = LatestJob(self, self._on_compiled)
        self._is_compiling = self._was_running = False
        self._first_s: float | None = None
        self._ticks = 0
        self._timer = QTimer(self)
        self._timer.setInterval(PERIOD_MS)
        self._timer.timeout.connect(self._tick)

    @property
    def is_live(self) -> bool:
        """Whether the loop runs, or is still ending."""
        return self._is_compiling or (self.loop is not None and self.loop.is_running)

    @property
    def recording(self) -> RecordingStatus | None:
        """The present recording or the last one."""
        recording = None if self.loop is None else self.loop.recording
        return None if recording is None else recording.status

    @property
    def is_recording(self) -> bool:
        """Whether frames go to a recording."""
        return self.recording is not None and self.recording.running

    def start(self, source: Source, mode: str) -> None:
        """Start, or raise InvalidInput if the last run is still ending; the time course goes on."""
        if self.is_live:
            raise InvalidInput("live imaging is still ending; start again in a moment")
        now = time.monotonic()
        self._first_s = now if self._first_s is None or not len(self.course) else self._first_s
        self.latest.begin(now - self._first_s)
        self.loop = LiveLoop(source, self.process, mode=mode, latest=self.latest)
        self._was_running = self._is_compiling = True
        self._compiling.submit(lambda _: prepare_steps(self.process.recipe, source.dtype))

    def stop(self) -> None:
        """End the loop; returns at once, ``ended`` follows."""
        self._is_compiling = False
        self._compiling.cancel()
        if self.loop is not None:
            self.loop.stop()
            self._timer.start()

    def record(self, path: Path, about: dict[str, Any]) -> None:
        """Write raw frames to a new file from now on, or raise InvalidInput if nothing is live or there can be none."""
        if self.loop is None or not self.is_live:
            raise InvalidInput(NOT_LIVE)
        self.loop.record(Recording(path, about=about))

    def end_recording(self) -> None:
        """Write the frames that wait, and close the file."""
        if self.loop is not None and self.loop.recording is not None:
            self.loop.recording.stop()

    def close(self) -> None:
        """End everything, and wait for it."""
        self._timer.stop()
        self._is_compiling = False
        self._compiling.abandon()
        if self.loop is not None and self.loop.close():
            self.process.close()
        self._finish()

    def _on_compiled(self, *_: Any) -> None:
        """Start the loop, now that nothing has to be compiled; it reports its own errors."""
        if self._is_compiling and self.loop is not None:
            self._is_compiling = False
            self.loop.start()
            self._timer.start()

    def _tick(self) -> None:
        loop = self.loop
        if loop is None or self._is_compiling:
            return
        is_over = not loop.is_running  # read first, so that the last result is not missed
        result = self.latest.take()
        if result is not None and result.value.is_ready:
            self.last = result.value
            self.map_ready.emit(result.value)
            loop.count_drawn()
        self._ticks += 1
        if is_over and self._was_running:
            self.process.close()
            self._finish()
        elif self._ticks % _STATUS_PERIODS == 0:
            self.status_changed.emit(loop.status())
            if is_over and not self.is_recording:
                self._timer.stop()

    def _finish(self) -> None:
        if self._was_running and self.loop is not None:
            self._was_running = False
            self.ended.emit(self.loop.status())


class LiveController(QObject, Follower):
    """Ties the live loop to the parts of a panel."""

    def __init__(self, panel: Any) -> None:
        super().__init__(panel)
        self._panel, self.runner = panel, panel.runner
        self._source: tuple[str, str] = ("", "")  # that live maps come from
        self._recording_error = ""  # the last one that was shown
        self._is_placed = self._has_shown = False
        self._plot_timer = QTimer(self)
        self._plot_timer.setInterval(_PLOT_MS)
        connect_all((
            (self._plot_timer.timeout, panel.course_box.draw_curves),
            (panel.live_box.start_requested, self.start),
            (panel.live_box.stop_requested, self.stop),
            (panel.live_box.record_requested, self.record),
            (panel.live_box.recording_end_requested, self.runner.end_recording),
            (panel.map_box.baseline_requested, self.take_baseline),
            (panel.map_box.baseline_changed, self.apply_settings),
            (panel.device_changed, self.apply_settings),
            (panel.source_box.pixel_size_changed, self._set_place),
            (self.runner.map_ready, self.show_map),
            (self.runner.status_changed, self._on_status),
            (self.runner.ended, self._on_ended),
        ))  # fmt: skip

    def detach(self) -> None:
        """End everything, and wait for it."""
        self.runner.close()
        self._plot_timer.stop()

    # -- settings -------------------------------------------------------------------------------------------------

    def apply_settings(self, *_: Any) -> None:
        """Make live maps with the settings as they stand; wrong ones are reported, and the old ones stay."""
        panel = self._panel
        try:
            recipe = panel.recipe()
        except GpuBioError as error:
            panel.show_error(str(error))
            return
        panel.clear_message()
        if recipe is None:
            if self.runner.is_live:
                panel.show_note(KEEPS_MAP)
            return
        recipe = self._with_true_exposure(recipe)
        panel.course_box.exposure_ms = recipe.exposure_ms
        if self.runner.process.set_recipe(recipe):
            panel.show_note(DROPPED_BASELINE)
        self._show_baseline()

    def _with_true_exposure(self, recipe: LiveRecipe) -> LiveRecipe:
        """Return the recipe with the exposure that a live camera really has; it is set when live imaging starts."""
        source = self.runner.loop.source if self.runner.loop is not None and self.runner.is_live else None
        exposure_ms = source.exposure_ms if isinstance(source, CameraSource) else None
        if exposure_ms is None or exposure_ms == recipe.exposure_ms:
            return recipe
        self._panel.show_note(OTHER_EXPOSURE.format(exposure_ms))
        return recipe.exposed(exposure_ms)

    # -- start and stop -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start with the source and the settings as they stand."""
        panel = self._panel
        panel.clear_message()
        page = panel.source_box.page
        try:
            recipe = panel.recipe()
            if recipe is None:
                raise InvalidInput(NOT_LIVE_MESI)
            source = page.make_source(recipe.exposure_ms)
            if (page.title, source.name) != self._source:  # a baseline is that of its source
                self._source = (page.title, source.name)
                self.runner.process.drop_baseline()
            self._is_placed = self._has_shown = False
            if not isinstance(page, CameraPage):  # whose pixel size is known once it is open
                self._set_place()
            self.runner.process.set_recipe(recipe)
            self.runner.start(source, panel.live_box.mode.currentText())
        except GpuBioError as error:
            panel.show_error(str(error))
            return
        self._recording_error = ""
        panel.regions.start_live(source.shape)
        panel.limit_baseline()
        panel.live_box.set_live(is_live=True)
        panel.source_box.kind.setEnabled(False)
        panel.course_box.draw_curves(LIVE)
        panel.layers.show_instead_of_results()
        if panel.layers.map is not None:
            panel.map_box.layer_box.choose(panel.layers.map)
        stack = page.layer if isinstance(page, StackPage) else None
        for layer in (stack, panel.contrast_box.noise.layer):
            if layer is not None:
                set_visible(layer, False)  # it would be seen where maps have no values, at their border
        panel.show_progress("starting… (the first maps on a machine take up to a minute)")
        self._plot_timer.start()

    def stop(self) -> None:
        """End the loop; layers and curves stay."""
        self._panel.live_box.set_ending()
        self.runner.stop()

    def _set_place(self) -> None:
        """Set where live maps lie; one that exists is moved."""
        self._is_placed = True
        self._panel.layers.set_place(self._panel.source_box.place())

    # -- recording and baseline -----------------------------------------------------------------------------------

    def record(self, path: Path) -> None:
        """Record the raw frames from now on."""
        panel, exposure_ms = self._panel, self.runner.process.recipe.exposure_ms
        about = {"software": "napari-gpubio", "exposure_ms": exposure_ms, "source": panel.source_box.page.title}
        try:
            self.runner.record(path, about)
        except GpuBioError as error:
            panel.show_error(str(error))
            return
        self._recording_error = ""
        panel.live_box.show_recording(self.runner.recording)

    def take_baseline(self) -> None:
        """Let flow be 1 over the next maps, and show it relative to them."""
        panel = self._panel
        if self.runner.is_live:
            self.runner.process.take_baseline()
        elif isinstance(panel.source_box.page, StackPage):
            panel.show_status(f"the first {panel.map_box.baseline_maps.value()} maps of the stack count as flow 1")
        else:
            panel.show_error(NO_FRAMES)
            return
        panel.contrast_box.choose_index("relative")
        panel.course_box.choose_quantity("relative")
        self._show_baseline()

    def _show_baseline(self) -> None:
        process = self.runner.process
        text = NO_BASELINE if process.baseline is None else "taken: flow is 1 there"
        if self.runner.is_live and (progress := process.baseline_progress) is not None:
            text = f"being taken: {progress[0]} of {progress[1]} maps"
        self._panel.map_box.baseline_text.setText(text)

    # -- what comes from the loop ---------------------------------------------------------------------------------

    def show_map(self, live: LiveMap) -> None:
        """Show a live map, in its layer; if undo has just taken that away, live imaging ends with it."""
        panel = self._panel
        if self._has_shown and panel.layers.map is None and history_of(panel.viewer).is_quiet:
            self.stop()
            return
        if not self._is_placed:
            self._set_place()
        self._has_shown = True
        if panel.layers.show_map(live):
            panel.map_box.layer_box.choose(panel.layers.map)
            panel.viewer.reset_view()
            panel.regions.raise_regions()
        panel.regions.set_live_shape(live.shown.shape)

    def _on_status(self, status: LiveStatus) -> None:
        panel, recording = self._panel, self.runner.recording
        panel.live_box.show_recording(recording)
        if recording is not None and recording.message and recording.message != self._recording_error:
            self._recording_error = recording.message
            panel.show_error(recording.message)
        if not self.runner.is_live:
            return  # the recording alone goes on
        panel.live_box.readout.show_status(status)
        process = self.runner.process
        recipe = self._with_true_exposure(process.recipe)
        if recipe is not process.recipe:
            panel.course_box.exposure_ms = recipe.exposure_ms
            process.set_recipe(recipe)
        self._show_baseline()
        if status.state is State.RUNNING:
            panel.show_progress(status.message or f"live: {status.processed:,} maps")

    def _on_ended(self, status: LiveStatus) -> None:
        panel = self._panel
        self._plot_timer.stop()
        if self.runner.last is not None:
            panel.layers.show_last_frame(self.runner.last)
        panel.live_box.readout.show_status(status)
        panel.live_box.show_recording(self.runner.recording)
        panel.live_box.set_live(is_live=False)
        panel.source_box.kind.setEnabled(True)
        panel.course_box.draw_curves()
        panel.limit_baseline()
        self._show_baseline()
        if status.state is State.FAILED:
            panel.show_status("")
            panel.show_error(status.message)
            return
        reason = "the source has no more frames" if status.state is State.ENDED else "stopped"
        panel.show_status(f"{reason}; {status.processed:,} maps were made")
