"""Run times without compilation."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_running: dict[int, int] = {}  # by thread: compilations that are under way, one inside another
_seconds, _begun = 0.0, 0.0  # of those that are over; when the first of those under way began


def compile_seconds() -> float:
    """Seconds in which this process has compiled, or loaded what was compiled, on the CPU's and the GPU's behalf.

    Where several threads do so at once, such as one for each GPU, a second counts once.
    """
    with _lock:
        return _seconds + (time.perf_counter() - _begun if _running else 0.0)


@contextmanager
def compiling() -> Iterator[None]:
    """Enclose a compilation, or the loading of what was compiled; of those inside one another the outermost counts."""
    begin_compiling()
    try:
        yield
    finally:
        end_compiling()


def begin_compiling() -> None:
    """Note that this thread begins to compile."""
    global _begun
    me = threading.get_ident()
    with _lock:
        if not _running:
            _begun = time.perf_counter()
        _running[me] = _running.get(me, 0) + 1


def end_compiling() -> None:
    """Note that this thread has compiled."""
    global _seconds
    me = threading.get_ident()
    with _lock:
        _running[me] -= 1
        if not _running[me]:
            del _running[me]
        if not _running:
            _seconds += time.perf_counter() - _begun


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
