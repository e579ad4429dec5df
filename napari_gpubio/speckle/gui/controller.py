"""Live imaging in the panel: the loop with its timer, and what the parts of the panel do while frames come."""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from qtpy.QtCore import QObject, QTimer, Signal

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.jobs import LatestJob
from napari_gpubio.speckle.gui.display import NO_BASELINE, MapBox
from napari_gpubio.speckle.gui.inputs import ContrastBox
from napari_gpubio.speckle.gui.layers import LiveLayers
from napari_gpubio.speckle.gui.live import LatestMap, LiveMap, LiveProcess, prepare_steps
from napari_gpubio.speckle.gui.live_box import LiveBox
from napari_gpubio.speckle.gui.plots import LIVE, CourseBox
from napari_gpubio.speckle.gui.request import Recipe
from napari_gpubio.speckle.gui.sources import CameraPage, SourceBox, StackPage
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
NOT_LIVE_MESI = "a multi-exposure fit is made of a whole stack, with Run stack; choose another map for live imaging"
KEEPS_MAP = "A multi-exposure fit is made of a whole stack; live maps go on as they were."
DROPPED_BASELINE = "These settings change K², so the baseline was dropped; take it again."


class LiveRunner(QObject):
    """The live loop, with a timer that takes its newest map for the screen.

    ``map_ready`` carries a `LiveMap`, which is valid during the call only (the ``last`` one stays when the loop has
    ended); ``status_changed`` the `LiveStatus`, a few times a second; ``ended`` the last one, when both threads have
    ended.
    """

    map_ready = Signal(object)
    status_changed = Signal(object)
    ended = Signal(object)

    def __init__(self, recipe: Recipe, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.course = TimeCourse()
        self.latest = LatestMap(self.course)
        self.process = LiveProcess(recipe, self.latest.spare)
        self.loop: LiveLoop | None = None
        self.last: LiveMap | None = None
        self._compiling = LatestJob(self)
        self._compiling.finished.connect(self._on_compiled)
        self._is_compiling = False
        self._was_running = False
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
        """Begin; the time course goes on.

        Raises
        ------
        InvalidInput
            If the last run is still ending.
        """
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
        """Write raw frames to a new file from now on.

        Raises
        ------
        InvalidInput
            If nothing is live, or the file cannot be begun.
        """
        if self.loop is None or not self.is_live:
            raise InvalidInput(NOT_LIVE)
        self.loop.record(Recording(path, about=about))

    def end_recording(self) -> None:
        """Write the frames that wait, and close the file."""
        if self.loop is not None and self.loop.recording is not None:
            self.loop.recording.stop()

    def attach(self) -> None:
        """Nothing runs by itself."""

    def detach(self) -> None:
        """End everything, and wait for it."""
        self._timer.stop()
        self._is_compiling = False
        self._compiling.abandon()
        if self.loop is not None and self.loop.close():
            self.process.close()
        self._finish()

    def _on_compiled(self, *_: Any) -> None:
        """Begin, now that nothing has to be compiled any more; the loop itself reports what is wrong."""
        if self._is_compiling and self.loop is not None:
            self._is_compiling = False
            self.loop.start()
            self._timer.start()

    def _tick(self) -> None:
        loop = self.loop
        if loop is None or self._is_compiling:
            return
        is_over = not loop.is_running  # read first, so that the last result is not missed
        self._take_newest(loop)
        self._ticks += 1
        if is_over and self._was_running:
            self.process.close()
            self._finish()
        elif self._ticks % _STATUS_PERIODS == 0:
            self.status_changed.emit(loop.status())
            if is_over and not self.is_recording:
                self._timer.stop()

    def _take_newest(self, loop: LiveLoop) -> None:
        result = self.latest.take()
        if result is not None and result.value.is_ready:
            self.last = result.value
            self.map_ready.emit(result.value)
            loop.count_drawn()

    def _finish(self) -> None:
        if self._was_running and self.loop is not None:
            self._was_running = False
            self.ended.emit(self.loop.status())


class Boxes(NamedTuple):
    """The parts of the panel."""

    source: SourceBox
    contrast: ContrastBox
    live: LiveBox
    map: MapBox
    course: CourseBox


class LiveController(QObject):
    """Ties the live loop to the parts of the panel.

    ``status_changed`` carries a short text, ``note_added`` and ``error_occurred`` a sentence, ``message_cleared`` says
    that an old one is void; ``started`` carries the shape (Y, X) of the maps that will come, or None, and
    ``map_shown`` that of a map that came; ``map_moved`` is emitted when its layer is new or lies elsewhere.

    Parameters
    ----------
    viewer
        The napari viewer.
    boxes, runner, layers
        What is tied.
    recipe
        Returns how maps are made; raises InvalidInput.
    """

    status_changed = Signal(str)
    note_added = Signal(str)
    error_occurred = Signal(str)
    message_cleared = Signal()
    started = Signal(object)
    ended = Signal()
    map_shown = Signal(object)
    map_moved = Signal()

    def __init__(
        self,
        viewer: Any,
        boxes: Boxes,
        runner: LiveRunner,
        layers: LiveLayers,
        recipe: Callable[[], Recipe],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._boxes, self._runner = viewer, boxes, runner
        self._layers, self._recipe = layers, recipe
        self._source: tuple[str, str] = ("", "")  # that live maps come from
        self._recording_error = ""  # the last one that was shown
        self._is_placed = False
        self._plot_timer = QTimer(self)
        self._plot_timer.setInterval(_PLOT_MS)
        connect_all((
            (self._plot_timer.timeout, boxes.course.draw_curves),
            (boxes.live.start_requested, self.start),
            (boxes.live.stop_requested, self.stop),
            (boxes.live.record_requested, self.record),
            (boxes.live.recording_end_requested, runner.end_recording),
            (boxes.map.baseline_requested, self.take_baseline),
            (boxes.source.pixel_size_changed, self._set_place),
            (runner.map_ready, self.show_map),
            (runner.status_changed, self._on_status),
            (runner.ended, self._on_ended),
        ))  # fmt: skip

    def attach(self) -> None:
        """Nothing runs by itself."""

    def detach(self) -> None:
        """Draw no more curves."""
        self._plot_timer.stop()

    # -- settings -------------------------------------------------------------------------------------------------

    def apply_settings(self, *_: Any) -> None:
        """Make live maps with the settings as they stand; wrong ones are reported, and the old ones stay."""
        try:
            recipe = self._recipe()
        except GpuBioError as error:
            self.error_occurred.emit(str(error))
            return
        self.message_cleared.emit()
        if recipe.mesi is not None:
            if self._runner.is_live:
                self.note_added.emit(KEEPS_MAP)
            return
        recipe = self._with_true_exposure(recipe)
        self._boxes.course.exposure_ms = recipe.settings.exposure_ms
        if self._runner.process.set_recipe(recipe):
            self.note_added.emit(DROPPED_BASELINE)
        self._show_baseline()

    def _with_true_exposure(self, recipe: Recipe) -> Recipe:
        """The recipe with the exposure that a live camera really has; it is set when live imaging starts."""
        runner = self._runner
        source = runner.loop.source if runner.loop is not None and runner.is_live else None
        exposure_ms = source.exposure_ms if isinstance(source, CameraSource) else None
        if exposure_ms is None or exposure_ms == recipe.settings.exposure_ms:
            return recipe
        self.note_added.emit(
            f"The camera exposes for {exposure_ms:g} ms, and maps are made for that; stop and start to change it."
        )
        return dataclasses.replace(recipe, settings=dataclasses.replace(recipe.settings, exposure_ms=exposure_ms))

    # -- start and stop -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with the source and the settings as they stand."""
        self.message_cleared.emit()
        boxes = self._boxes
        page = boxes.source.page
        try:
            recipe = self._live_recipe()
            source = page.make_source(recipe.settings.exposure_ms)
            self._note_source((page.title, source.name))
            self._is_placed = False
            if not isinstance(page, CameraPage):  # whose pixel size is known once it is open
                self._set_place()
            self._runner.process.set_recipe(recipe)
            self._runner.start(source, boxes.live.mode.currentText())
        except GpuBioError as error:
            self.error_occurred.emit(str(error))
            return
        self._recording_error = ""
        self.started.emit(source.shape)
        boxes.live.set_live(is_live=True)
        boxes.source.kind.setEnabled(False)
        boxes.course.draw_curves(LIVE)
        self._layers.show_instead_of_results()
        if self._layers.map is not None:
            boxes.map.choose(self._layers.map)
        stack = page.layer if isinstance(page, StackPage) else None
        for layer in (stack, boxes.contrast.noise.layer):
            if layer is not None:
                layer.visible = False  # it would be seen where maps have no values, at their border
        self.status_changed.emit("starting… (the first maps on a machine take up to a minute)")
        self._plot_timer.start()

    def _live_recipe(self) -> Recipe:
        recipe = self._recipe()
        if recipe.mesi is not None:
            raise InvalidInput(NOT_LIVE_MESI)
        return recipe

    def stop(self) -> None:
        """End the loop; layers and curves stay."""
        self._boxes.live.set_ending()
        self._runner.stop()

    def _note_source(self, source: tuple[str, str]) -> None:
        """Drop the baseline of another source."""
        if source != self._source:
            self._source = source
            self._runner.process.drop_baseline()

    def _set_place(self) -> None:
        """Set where live maps lie; one that exists is moved."""
        self._is_placed = True
        self._layers.set_place(self._boxes.source.place())

    # -- recording and baseline -----------------------------------------------------------------------------------

    def record(self, path: Path) -> None:
        """Record the raw frames from now on."""
        settings, title = self._runner.process.recipe.settings, self._boxes.source.page.title
        about = {"software": "napari-gpubio", "exposure_ms": settings.exposure_ms, "source": title}
        try:
            self._runner.record(path, about)
        except GpuBioError as error:
            self.error_occurred.emit(str(error))
            return
        self._recording_error = ""
        self._boxes.live.show_recording(self._runner.recording)

    def take_baseline(self) -> None:
        """Let flow be 1 over the next maps, and show it relative to them."""
        boxes = self._boxes
        if self._runner.is_live:
            self._runner.process.take_baseline()
        elif not isinstance(boxes.source.page, StackPage):
            self.error_occurred.emit("nothing is live; press Start live first, then Take")
            return
        else:
            self.status_changed.emit(f"the first {boxes.map.baseline_maps.value()} maps of the stack count as flow 1")
        boxes.contrast.choose_index("relative")
        boxes.course.choose_quantity("relative")
        self._show_baseline()

    def _show_baseline(self) -> None:
        process = self._runner.process
        progress = process.baseline_progress
        text = NO_BASELINE if process.baseline is None else "taken: flow is 1 there"
        if progress is not None and self._runner.is_live:
            text = f"being taken: {progress[0]} of {progress[1]} maps"
        self._boxes.map.baseline_text.setText(text)

    # -- what comes from the loop ---------------------------------------------------------------------------------

    def show_map(self, live: LiveMap) -> None:
        """Show a live map, in its layer."""
        if not self._is_placed:
            self._set_place()
        if self._layers.show_map(live):
            self._boxes.map.choose(self._layers.map)
            self._viewer.reset_view()
            self.map_moved.emit()
        self.map_shown.emit(live.shown.shape)

    def _on_status(self, status: LiveStatus) -> None:
        runner, boxes = self._runner, self._boxes
        recording = runner.recording
        boxes.live.show_recording(recording)
        if recording is not None and recording.message and recording.message != self._recording_error:
            self._recording_error = recording.message
            self.error_occurred.emit(recording.message)
        if not runner.is_live:
            return  # the recording alone goes on
        boxes.live.readout.show_status(status)
        recipe = self._with_true_exposure(runner.process.recipe)
        if recipe is not runner.process.recipe:
            boxes.course.exposure_ms = recipe.settings.exposure_ms
            runner.process.set_recipe(recipe)
        self._show_baseline()
        if status.state is State.RUNNING:
            self.status_changed.emit(status.message or f"live: {status.processed:,} maps")

    def _on_ended(self, status: LiveStatus) -> None:
        boxes = self._boxes
        self._plot_timer.stop()
        if self._runner.last is not None:
            self._layers.show_last_frame(self._runner.last)
        boxes.live.readout.show_status(status)
        boxes.live.show_recording(self._runner.recording)
        boxes.live.set_live(is_live=False)
        boxes.source.kind.setEnabled(True)
        boxes.course.draw_curves()
        self._show_baseline()
        self.ended.emit()
        if status.state is State.FAILED:
            self.status_changed.emit("")
            self.error_occurred.emit(status.message)
            return
        ended = "the source has no more frames" if status.state is State.ENDED else "stopped"
        self.status_changed.emit(f"{ended}; {status.processed:,} maps were made")
