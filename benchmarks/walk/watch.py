"""What goes wrong in a window besides its layers: errors, notifications, Qt's warnings, and a GUI thread that waits."""

import signal
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

_UNITS = "Inconsistent units"
BEAT_MS, SAMPLE_S = 5, 0.005
BLOCKED_S = 0.05
_DRAWING = ("paintEvent", "paintGL", "_draw_scene")  # functions that draw, in software here
_OURS = "/napari_gpubio/"
_ASKED = "_answer"  # the function of `person.Answers` that looks at the window for the walk
_INSTALLED = "/site-packages/"


@dataclass(frozen=True)
class Blocked:
    """The GUI thread did not come back to its event loop for a while.

    ``seconds`` by the clock, and ``ours`` of them in functions of this package, or in what they called, without
    drawing; ``cpu_seconds`` of these that the thread computed, which a busy machine leaves alone. ``where`` is the
    function at fault. ``packages``: computed seconds by the package whose function was the innermost one.
    """

    seconds: float
    ours: float
    cpu_seconds: float
    where: str
    packages: dict[str, float]


class Watch(QObject):
    """Gathers what is wrong, from the time it is made until `end`."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []  # since they were taken last
        self.blocked: list[Blocked] = []
        self.units_differ = True  # in the viewer before an event (samples do): napari's warning comes with every change
        self._main = threading.main_thread().ident or 0
        self._beat, self._cpu = time.perf_counter(), time.thread_time()
        self._seen: list[tuple[float, float, str, str]] = []  # when, computed, in which function of ours, and in whose
        self._ended = threading.Event()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._on_beat)
        self._timer.start(BEAT_MS)
        sys.excepthook = self._on_error
        threading.excepthook = lambda of: self._on_error(of.exc_type, of.exc_value, of.exc_traceback)
        notification_manager.notification_ready.connect(self._on_notification)
        qInstallMessageHandler(self._on_qt)
        signal.set_wakeup_fd(-1)  # napari's, which nobody reads
        signal.signal(signal.SIGUSR2, self._on_signal)
        threading.Thread(target=self._ask_when_late, daemon=True).start()

    def take(self) -> list[str]:
        """Return the problems since this was called last."""
        taken, self.problems = self.problems, []
        return taken

    def end(self) -> None:
        """Stop sampling."""
        self._ended.set()
        self._timer.stop()
        qInstallMessageHandler(None)

    def _on_error(self, kind: Any, error: Any, trace: Any) -> None:
        self.problems.append("".join(traceback.format_exception(kind, error, trace)))

    def _on_notification(self, note: Any) -> None:
        if _UNITS in str(note.message) and self.units_differ:
            return
        if note.severity >= NotificationSeverity.WARNING:
            error = getattr(note, "exception", None)
            more = "" if error is None else "".join(traceback.format_exception(error))
            self.problems.append(f"notification {note.severity}: {note.message}\n{more}")

    def _on_qt(self, kind: Any, _context: Any, message: str) -> None:
        if kind not in (QtMsgType.QtDebugMsg, QtMsgType.QtInfoMsg):
            stack = "".join(traceback.format_stack(sys._getframe(1), limit=8))
            self.problems.append(f"{stack}Qt: {message}")

    # -- the GUI thread --------------------------------------------------------------------------------------------

    def _on_beat(self) -> None:
        now, cpu_now = time.perf_counter(), time.thread_time()
        late = now - self._beat
        seen, self._seen = self._seen, []
        if seen and late > BLOCKED_S:
            self._note(seen, late)
        self._beat, self._cpu = now, cpu_now

    def _on_signal(self, _number: int, frame: FrameType | None) -> None:
        """Look at the stack, since the event loop is late; in the GUI thread, where no frame outlives its function."""
        self._seen.append((time.perf_counter(), time.thread_time(), _function_of_ours(frame), _package_of(frame)))

    def _ask_when_late(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            if time.perf_counter() - self._beat > 2 * BEAT_MS / 1000 + SAMPLE_S:
                signal.pthread_kill(self._main, signal.SIGUSR2)

    def _note(self, seen: list[tuple[float, float, str, str]], late: float) -> None:
        spent, packages, then, cpu_then = Counter[str](), Counter[str](), self._beat, self._cpu
        for at, cpu, name, package in seen:
            if name:
                spent[name] += at - then
                packages[package] += cpu - cpu_then
            then, cpu_then = at, cpu
        if spent:
            where = spent.most_common(1)[0][0]
            self.blocked.append(Blocked(late, spent.total(), packages.total(), where, dict(packages.most_common())))


def _package_of(frame: FrameType | None) -> str:
    """Whose function the GUI thread is in; the standard library counts as who called it."""
    while frame is not None:
        path = frame.f_code.co_filename
        if _OURS in path:
            return "own"
        if _INSTALLED in path:
            return path.split(_INSTALLED)[-1].split("/")[0]
        frame = frame.f_back
    return ""


def _function_of_ours(frame: FrameType | None) -> str:
    """Which functions of ours the GUI thread is in, innermost first; "" in drawing, in none, and for the walk."""
    names = []
    while frame is not None:
        path = frame.f_code.co_filename
        if frame.f_code.co_name in (_ASKED, *_DRAWING):
            return ""
        if _OURS in path:
            names.append(f"{path.split(_OURS)[-1]}:{frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(names[:3])
