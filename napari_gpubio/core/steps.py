"""The one protocol for long work: a generator of steps that returns its result.

An engine's ``steps(...)`` yields a `Step` after every piece of work and returns its result. A script drives it to
the end with `drive`; a dock widget drives it in a worker and shows what comes. To stop early the caller sets the
`threading.Event` that it handed over as ``stop``: the generator then returns a result whose ``complete`` is false
and which keeps what was done. ``close()`` on the generator is for teardown only, and never while it is executing.
"""

import dataclasses
import functools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from napari_gpubio.core.errors import memory_in_words

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


def with_step(parts: Generator[Any, None, Result], step: Step) -> Generator[Step, None, Result]:
    """Yield a step after each part of some work but the last; returns what the work does."""
    while True:
        try:
            next(parts)
        except StopIteration as end:
            result: Result = end.value
            return result
        yield step


def drive(steps: Generator[Step, None, Result], progress: Callable[[Step], object] | None = None) -> Result:
    """Run a generator of steps to its end and return its result.

    Parameters
    ----------
    steps
        What an engine's ``steps(...)`` gave.
    progress
        Called with every `Step`, for instance to draw a progress bar.

    Raises
    ------
    OutOfMemory
        If the memory does not suffice, in a sentence.
    """
    try:
        with memory_in_words():
            while True:
                step = next(steps)
                if progress is not None:
                    progress(step)
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        steps.close()
