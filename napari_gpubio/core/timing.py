"""Run times without compilation."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_running: dict[int, int] = {}  # by thread: compilations that are under way, one inside another
_begun: dict[int, float] = {}
_seconds = 0.0


def compile_seconds() -> float:
    """Seconds that this process has spent compiling, on the CPU's and the GPU's behalf."""
    with _lock:
        return _seconds


@contextmanager
def compiling() -> Iterator[None]:
    """Enclose a compilation; of those inside one another only the outermost counts."""
    begin_compiling()
    try:
        yield
    finally:
        end_compiling()


def begin_compiling() -> None:
    """Note that this thread begins to compile."""
    me = threading.get_ident()
    with _lock:
        _running[me] = _running.get(me, 0) + 1
        if _running[me] == 1:
            _begun[me] = time.perf_counter()


def end_compiling() -> None:
    """Note that this thread has compiled."""
    global _seconds
    me = threading.get_ident()
    with _lock:
        _running[me] -= 1
        if not _running[me]:
            del _running[me]
            _seconds += time.perf_counter() - _begun.pop(me)


class RunClock:
    """Time since it was made, without compilation.

    Parameters
    ----------
    already
        Seconds to begin with: those of the run that is resumed.
    """

    def __init__(self, already: float = 0.0) -> None:
        self._already, self._begun, self._compiled = already, time.perf_counter(), compile_seconds()

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return self._already + time.perf_counter() - self._begun - (compile_seconds() - self._compiled)
