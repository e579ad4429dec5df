"""What goes wrong in a window besides its layers: errors, notifications, Qt's warnings, and a GUI thread that waits."""

import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from types import FrameType
from typing import Any

from napari.utils.notifications import NotificationSeverity, notification_manager
from qtpy.QtCore import QObject, QTimer, QtMsgType, qInstallMessageHandler

BEAT_MS, SAMPLE_S = 5, 0.005
BLOCKED_S = 0.05
_DRAWING = ("vispy", "OpenGL", "napari/_vispy")  # frames of software drawing
_OURS = "/napari_gpubio/"
_ASKED = "_answer"  # the function of `person.Answers` that looks at the window for the walk


@dataclass(frozen=True)
class Blocked:
    """The GUI thread did not come back to its event loop for a while.

    ``seconds`` by the clock, and ``ours`` of them in functions of this package without drawing; ``cpu_seconds`` that
    the thread computed meanwhile, which a busy machine leaves alone. ``where`` is the function at fault.
    """

    seconds: float
    ours: float
    cpu_seconds: float
    where: str


class Watch(QObject):
    """Gathers what is wrong, from the time it is made until `end`."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []  # since they were taken last
        self.blocked: list[Blocked] = []
        self._main = threading.main_thread().ident or 0
        self._clock = time.pthread_getcpuclockid(self._main)
        self._beat = time.perf_counter()
        self._ended = threading.Event()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._on_beat)
        self._timer.start(BEAT_MS)
        sys.excepthook = self._on_error
        threading.excepthook = lambda of: self._on_error(of.exc_type, of.exc_value, of.exc_traceback)
        notification_manager.notification_ready.connect(self._on_notification)
        qInstallMessageHandler(self._on_qt)
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def take(self) -> list[str]:
        """Return the problems since this was called last."""
        taken, self.problems = self.problems, []
        return taken

    def end(self) -> None:
        """Stop sampling."""
        self._ended.set()
        self._timer.stop()
        qInstallMessageHandler(None)

    def _on_beat(self) -> None:
        self._beat = time.perf_counter()

    def _on_error(self, kind: Any, error: Any, trace: Any) -> None:
        self.problems.append("".join(traceback.format_exception(kind, error, trace)))

    def _on_notification(self, note: Any) -> None:
        if note.severity >= NotificationSeverity.WARNING:
            error = getattr(note, "exception", None)
            more = "" if error is None else "".join(traceback.format_exception(error))
            self.problems.append(f"notification {note.severity}: {note.message}\n{more}")

    def _on_qt(self, kind: Any, _context: Any, message: str) -> None:
        if kind != QtMsgType.QtDebugMsg and kind != QtMsgType.QtInfoMsg:
            stack = "".join(traceback.format_stack(sys._getframe(1), limit=8))
            self.problems.append(f"{stack}Qt: {message}")

    # -- the thread that looks at the GUI thread --------------------------------------------------------------------

    def _sample(self) -> None:
        """Look at the stack of the GUI thread whenever its event loop is late."""
        seen: list[list[FrameType]] = []
        at, cpu_then, last = self._beat, 0.0, time.perf_counter()
        while not self._ended.wait(SAMPLE_S):
            now = time.perf_counter()
            if self._beat != at:
                if seen and (late := self._beat - at) > BLOCKED_S:
                    self._note(seen, late, time.clock_gettime(self._clock) - cpu_then)
                at, seen, cpu_then = self._beat, [], time.clock_gettime(self._clock)
            elif now - at > BEAT_MS / 1000 + SAMPLE_S:
                frame = sys._current_frames().get(self._main)
                seen.append(_names(frame, now - last))
            last = now

    def _note(self, seen: list[Any], late: float, cpu_seconds: float) -> None:
        ours, at_fault = 0.0, Counter[str]()
        for seconds, name in seen:
            if name:
                ours += seconds
                at_fault[name] += seconds
        if at_fault:
            where = at_fault.most_common(1)[0][0]
            self.blocked.append(Blocked(late, ours, cpu_seconds, where))


def _names(frame: FrameType | None, seconds: float) -> tuple[float, str]:
    """Which function of ours the GUI thread is in, innermost first; "" in drawing, in none, and in the walk's own."""
    names = []
    while frame is not None:
        path = frame.f_code.co_filename
        if any(part in path for part in _DRAWING) or frame.f_code.co_name in (_ASKED, "paintEvent"):
            return seconds, ""
        if _OURS in path:
            names.append(f"{path.split(_OURS)[-1]}:{frame.f_code.co_name}")
        frame = frame.f_back
    return seconds, " < ".join(names[:3])
