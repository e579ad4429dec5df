"""Previews of a run cost a small share of its time: what making and drawing them takes puts off the next one."""

import threading
import time
from collections.abc import Callable

from qtpy.QtCore import QObject, QTimer

SHARE = 0.1  # of a run that its previews may take, as far as that is seen here: workers count and plot, too
_TICK_MS, _LATE_S, _QUIET_S, _MAX_S = 10, 0.05, 0.1, 0.4  # the run itself makes ticks late, too
_UNKNOWN_S = 0.1  # what a preview is taken to cost as long as none has been drawn
_MEMORY = 0.5  # how much a measured cost counts against those before


class PreviewPacer(QObject):
    """Decides when a run makes its next preview.

    The worker asks `is_due` and reports what it took to make one; the GUI thread calls `show`, and measures until the
    window has drawn it. Previews of a run take `SHARE` of its time at most, as far as the cost of the next one can be
    known from those before, also of earlier runs.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._lock = threading.Lock()
        self._cost, self._spent, self._begun = _UNKNOWN_S, 0.0, time.perf_counter()
        self._made = 0.0  # seconds that the worker took for the one on its way
        self._is_on_its_way = False
        self._show_begun = 0.0
        self._last_tick = self._busy_until = self._shown = 0.0
        self._ticks = QTimer(self)  # one that is late tells that the window was drawn meanwhile
        self._ticks.setInterval(_TICK_MS)
        self._ticks.timeout.connect(self._on_tick)

    def begin_run(self) -> None:
        """Begin to count: a run begins."""
        with self._lock:
            self._spent, self._begun, self._is_on_its_way = 0.0, time.perf_counter(), False

    def is_due(self) -> bool:
        """Whether the share of the run is enough for another preview, and the last one has been drawn; any thread."""
        with self._lock:
            elapsed = time.perf_counter() - self._begun
            return not self._is_on_its_way and self._spent + self._cost <= SHARE * elapsed

    def count_made(self, seconds: float) -> None:
        """Count what it took to make a preview, which is now on its way to the window; any thread."""
        with self._lock:
            self._made, self._is_on_its_way = seconds, True

    def show(self, show: Callable[[], object]) -> None:
        """Show a preview in the GUI thread, and count what that and the drawing after it take."""
        self._show_begun = time.perf_counter()
        show()
        self._last_tick = self._busy_until = self._shown = time.perf_counter()
        self._ticks.start()

    def _on_tick(self) -> None:
        """Count until nothing has kept the window busy for a while; it may be drawn some time after it was changed."""
        now = time.perf_counter()
        if now - self._last_tick > _LATE_S:
            self._busy_until = now
        self._last_tick = now
        if now - self._busy_until > _QUIET_S or now - self._shown > _MAX_S:
            self._ticks.stop()
            self._count_drawn(self._busy_until - self._show_begun)

    def _count_drawn(self, seconds: float) -> None:
        with self._lock:
            took = self._made + seconds
            self._spent += took
            self._cost = max(took, _MEMORY * self._cost + (1 - _MEMORY) * took)
            self._is_on_its_way = False
