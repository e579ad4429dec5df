"""Run times without compilation."""

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_running: dict[int, int] = {}  # by thread: compilations that are under way, one inside another
_begun: dict[int, float] = {}
_over: list[tuple[float, float]] = []  # when some thread has compiled, in order and apart from each other


def compiled_between(begun: float, ended: float) -> float:
    """Seconds between two times in which this process compiled, or loaded what was compiled, for the CPU and the GPU.

    Where several threads did so at once, such as one for each GPU, a second counts once. What is under way does not
    count yet.
    """
    with _lock:
        since = itertools.takewhile(lambda one: one[1] > begun, reversed(_over))  # not all, which may be thousands
        return sum(max(0.0, min(stop, ended) - max(start, begun)) for start, stop in since)


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
    me = threading.get_ident()
    with _lock:
        _running[me] = _running.get(me, 0) + 1
        if _running[me] == 1:
            _begun[me] = time.perf_counter()


def end_compiling() -> None:
    """Note that this thread has compiled."""
    me = threading.get_ident()
    with _lock:
        _running[me] -= 1
        if _running[me]:
            return
        del _running[me]
        start = _begun.pop(me)
        while _over and _over[-1][1] >= start:  # of other threads, at the same time
            start = min(start, _over.pop()[0])
        _over.append((start, time.perf_counter()))


class RunClock:
    """Time since it was made, without compilation.

    Parameters
    ----------
    already
        Seconds to begin with: those of the run that is resumed.
    """

    def __init__(self, already: float = 0.0) -> None:
        self._already, self._begun = already, time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        now = time.perf_counter()
        return self._already + now - self._begun - compiled_between(self._begun, now)
