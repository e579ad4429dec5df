"""Work in the GUI thread that is long in all, done over turns of the event loop."""

import math
import time
from collections.abc import Callable, Generator
from typing import Any

from qtpy.QtCore import QObject, QTimer

_TURN_S = 0.02  # until the event loop has its turn
_OVER = object()


class Turns(QObject):
    """Does pieces of work, as many in a turn of the event loop as take a moment, and at least one.

    The first turn is the call of `begin`, so that what takes no longer is done when that returns. An error ends the
    work; ``then`` is called at the end of all pieces, and not after an error or `end`.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pieces: Generator[Any, None, Any] | None = None
        self._then: Callable[[], Any] = _nothing
        self._is_inside = False  # a piece
        self._next = QTimer(self, singleShot=True)
        self._next.timeout.connect(self._on_turn)

    @property
    def is_under_way(self) -> bool:
        """Whether there are pieces left to do."""
        return self._pieces is not None

    def begin(self, pieces: Generator[Any, None, Any], then: Callable[[], Any]) -> None:
        """Begin to do pieces, each of which ends with a yield; call ``then`` after the last one."""
        self.end()
        self._pieces, self._then = pieces, then
        self._go_on(_TURN_S)

    def end(self) -> None:
        """Leave what is not done yet."""
        self._next.stop()
        pieces, self._pieces, self._then = self._pieces, None, _nothing
        if pieces is not None and not self._is_inside:
            pieces.close()

    def finish(self) -> None:
        """Do what is left at once."""
        self._go_on(math.inf)

    def _on_turn(self) -> None:
        self._go_on(_TURN_S)

    def _go_on(self, seconds: float) -> None:
        pieces, until = self._pieces, time.perf_counter() + seconds
        if pieces is None:
            return
        self._is_inside, is_over = True, False
        try:
            while True:
                is_over = next(pieces, _OVER) is _OVER
                if is_over or self._pieces is not pieces or time.perf_counter() >= until:
                    break
        except Exception:
            self.end()
            raise
        finally:
            self._is_inside = False
        if self._pieces is not pieces:  # what was done has ended this
            pieces.close()
        elif is_over:
            then = self._then
            self.end()
            then()
        else:
            self._next.start()


def _nothing() -> None:
    """Stand for what is done after nothing."""
