"""Drives the live loop: start, stop, recording, and a timer that picks up the newest result for the screen."""

import time
from pathlib import Path
from typing import Any

from qtpy.QtCore import QObject, QTimer, Signal

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.jobs import LatestJob
from napari_gpubio.speckle.gui.course_latest import CourseLatest
from napari_gpubio.speckle.gui.live_process import LiveProcess, prepare_steps
from napari_gpubio.speckle.gui.recipe import LiveMap, Recipe
from napari_gpubio.speckle.live import LiveLoop, LiveStatus, Recording, RecordingStatus, Source, TimeCourse

PERIOD_MS = 33
_EVERY = 5  # periods from one read-out to the next: six a second can be read
NOT_LIVE = "nothing is live; press Start live first, then Record"


class LiveController(QObject):
    """The live loop as the panel has it.

    ``shown`` carries a `LiveMap`, which is valid during the call only (the ``last`` one stays when the loop has ended);
    ``told`` the `LiveStatus`, a few times a second; ``ended`` the last one, when both threads have ended.
    """

    shown = Signal(object)
    told = Signal(object)
    ended = Signal(object)

    def __init__(self, recipe: Recipe, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.course = TimeCourse()
        self.latest = CourseLatest(self.course)
        self.process = LiveProcess(recipe, self.latest.spare)
        self.loop: LiveLoop | None = None
        self.last: LiveMap | None = None
        self._prepare = LatestJob(self)
        self._prepare.finished.connect(self._on_prepared)
        self._is_preparing = False
        self._was_running = False
        self._first_s: float | None = None
        self._ticks = 0
        self._timer = QTimer(self)
        self._timer.setInterval(PERIOD_MS)
        self._timer.timeout.connect(self._tick)

    @property
    def is_live(self) -> bool:
        """Whether the loop runs, or is still ending."""
        return self._is_preparing or (self.loop is not None and self.loop.is_running)

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
        self._was_running = True
        self._is_preparing = True
        self._prepare.submit(lambda _: prepare_steps(self.process.recipe, source.dtype))

    def stop(self) -> None:
        """Ask the loop to end; returns at once, ``ended`` follows."""
        self._is_preparing = False
        self._prepare.cancel()
        if self.loop is not None:
            self.loop.stop()
            self._timer.start()

    def record(self, path: Path, about: dict[str, Any]) -> None:
        """Send raw frames to a new file from now on.

        Raises
        ------
        InvalidInput
            If nothing is live, or the file cannot be begun.
        """
        if self.loop is None or not self.is_live:
            raise InvalidInput(NOT_LIVE)
        self.loop.record(Recording(path, about=about))

    def end_recording(self) -> None:
        """Write what waits, and close the file."""
        if self.loop is not None and self.loop.recording is not None:
            self.loop.recording.stop()

    def attach(self) -> None:
        """Nothing runs by itself."""

    def detach(self) -> None:
        """End everything, and wait for it."""
        self._timer.stop()
        self._is_preparing = False
        self._prepare.abandon()
        if self.loop is not None and self.loop.close():
            self.process.close()
        self._finish()

    def _on_prepared(self, *_: Any) -> None:
        """Begin, now that nothing has to be compiled any more; what is wrong is told by the loop."""
        if self._is_preparing and self.loop is not None:
            self._is_preparing = False
            self.loop.start()
            self._timer.start()

    # -- the timer ------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        loop = self.loop
        if loop is None or self._is_preparing:
            return
        is_over = not loop.is_running  # asked first, so that the last result is not missed
        self._draw(loop)
        self._ticks += 1
        if is_over and self._was_running:
            self.process.close()
            self._finish()
        elif self._ticks % _EVERY == 0:
            self.told.emit(loop.status())
            if is_over and not self.is_recording:
                self._timer.stop()

    def _draw(self, loop: LiveLoop) -> None:
        result = self.latest.take()
        if result is not None and result.value.is_there:
            self.last = result.value
            self.shown.emit(result.value)
            loop.count_drawn()

    def _finish(self) -> None:
        if self._was_running and self.loop is not None:
            self._was_running = False
            status: LiveStatus = self.loop.status()
            self.ended.emit(status)
