"""The one protocol for long work: a generator of steps that returns its result.

An engine's ``x_steps(...)`` yields a `Step` after every piece of work and returns its result. ``x = driven(x_steps)``
is what scripts call; a dock widget drives the steps in a worker and shows what comes. To stop early the caller sets the
`threading.Event` that it handed over as ``stop``: the generator then returns a result whose ``complete`` is false
and which keeps what was done. ``close()`` on the generator is for teardown only, and never while it is executing.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from napari_gpubio.core.errors import memory_in_words

Result = TypeVar("Result")
Returned = TypeVar("Returned", covariant=True)
P = ParamSpec("P")


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
        Makes a partial result to show, or None; it may be a generator, which yields after every part of the work.
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
        return drive(self.preview_steps())

    def preview_steps(self) -> Generator["Step", None, Any]:
        """Make the preview, unless it was made before, with a step after every part but the last, and return it."""
        if "preview" not in self.__dict__:
            made = None if self.make_preview is None else self.make_preview()
            if isinstance(made, Generator):
                made = yield from with_step(made, dataclasses.replace(self, make_preview=None))
            self.__dict__["preview"] = made
        return self.__dict__["preview"]

    def showing(self, preview: Any) -> "Step":
        """Return the same step with another preview, or with None."""
        return dataclasses.replace(self, make_preview=lambda: preview)

    @property
    def fraction(self) -> float:
        """Share of the work that is done, 0 to 1."""
        return self.done / self.total if self.total else 1.0


def with_step(parts: Generator[Any, None, Result], step: Step | Callable[[Any], Step]) -> Generator[Step, None, Result]:
    """Yield a step after each part of some work but the last, or one made of what it yields; returns what it does."""
    while True:
        try:
            found = next(parts)
        except StopIteration as end:
            result: Result = end.value
            return result
        yield step if isinstance(step, Step) else step(found)
        del found  # with what it would preview, before the next part is made


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
                del step  # and its preview, which may be large
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        steps.close()


def silent(steps: Generator[Step, None, Result]) -> Generator[Step, None, Result]:
    """Return the same steps without previews; they are closed at the end."""
    with closing(steps):
        while True:
            try:
                yield dataclasses.replace(next(steps), make_preview=None)
            except StopIteration as end:
                found: Result = end.value
                return found


class Driven(Protocol[P, Returned]):
    """A function that runs steps to their end: it takes what they take, and ``progress``."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Returned: ...

    @overload
    def __call__(self, *args: Any, progress: Callable[[Step], object] | None, **kwargs: Any) -> Returned: ...


def driven(steps: Callable[P, Generator[Step, None, Returned]]) -> Driven[P, Returned]:
    """Return the function ``x`` that runs ``x_steps`` to their end and returns their result; see `drive`.

    Examples
    --------
    >>> def count_steps(last):
    ...     for n in range(last):
    ...         yield Step(n + 1, last)
    ...     return last
    >>> count = driven(count_steps)
    >>> count(2, progress=lambda step: print(step.done))
    1
    2
    2
    """
    about: Any = steps
    name = about.__name__.removesuffix("_steps")

    def function(*args: Any, progress: Callable[[Step], object] | None = None, **kwargs: Any) -> Any:
        return drive(about(*args, **kwargs), progress)

    own = inspect.signature(about)
    takes = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    rest = [one for one in own.parameters.values() if one.kind is inspect.Parameter.VAR_KEYWORD]
    shows = inspect.Parameter("progress", inspect.Parameter.KEYWORD_ONLY, default=None)
    made: Any = function
    made.__signature__ = own.replace(parameters=[*takes, shows, *rest], return_annotation=inspect.Signature.empty)
    made.__name__, made.__qualname__, made.__module__ = name, name, about.__module__
    made.__doc__ = f"Run `{about.__name__}` to its end and return its result.\n\n{inspect.getdoc(about)}"
    result: Driven[P, Returned] = made
    return result
