"""The one protocol for long work, a generator of steps that returns its result; and run times without compilation.

An engine's ``steps(...)`` yields a `Step` after every piece of work and returns its result. A script drives it to
the end with `drive`; a dock widget drives it in a worker and shows what comes. To stop early the caller sets the
`threading.Event` that it handed over as ``stop``: the generator then returns a result whose ``complete`` is false
and which keeps what was done. ``close()`` on the generator is for teardown only, and never while it is executing.
"""

import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Step:
    """How far the work has come.

    Parameters
    ----------
    done, total
        Work items finished and work items in all.
    message
        What is being done, for a status line.
    make_preview
        Makes a partial result to show, or None.
    """

    done: int
    total: int
    message: str = ""
    make_preview: Callable[[], Any] | None = None

    @functools.cached_property
    def preview(self) -> Any:
        """A partial result to show, or None; made when it is first used, which is before the next step is taken.

        So a script that shows no preview does not wait for it either.
        """
        return None if self.make_preview is None else self.make_preview()

    def showing(self, preview: Any) -> "Step":
        """Return the same step with another preview, or with None."""
        return dataclasses.replace(self, make_preview=lambda: preview)

    @property
    def fraction(self) -> float:
        """Share of the work that is done, 0 to 1."""
        return self.done / self.total if self.total else 1.0


def drive(steps: Generator[Step, None, Result], progress: Callable[[Step], object] | None = None) -> Result:
    """Run a generator of steps to its end and return its result.

    Parameters
    ----------
    steps
        What an engine's ``steps(...)`` gave.
    progress
        Called with every `Step`, for instance to draw a progress bar.
    """
    try:
        while True:
            step = next(steps)
            if progress is not None:
                progress(step)
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        steps.close()


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
