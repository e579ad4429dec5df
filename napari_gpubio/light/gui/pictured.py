"""Pictures of a run, as often as they can be looked at: what both light panels do with the steps of their engine."""

import math
import time
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from napari_gpubio.core.steps import Step

Drawn = TypeVar("Drawn")
LOOK_SECONDS = 0.2  # between two pictures of a run
_LOOK_SHARE = 4.0  # and at least so many times as long as it takes to make one


def pictured(
    steps: Generator[Step, None, Any], draw: Callable[[Any], Drawn], outdated: Callable[[], bool] | None = None
) -> Generator[Step, None, Drawn]:
    """Go through the steps of a simulation with pictures in place of results.

    Parameters
    ----------
    steps
        What the engine gives; it is closed at the end.
    draw
        Makes the picture of a result, which takes a moment.
    outdated
        Says whether a newer request waits; the run then ends with its first picture.
    """
    looked, cost = -math.inf, 0.0
    try:
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                return draw(end.value)
            picture, begun = None, time.monotonic()
            if begun - looked > max(LOOK_SECONDS, _LOOK_SHARE * cost) and step.preview is not None:
                picture = draw(step.preview)
                looked = time.monotonic()
                cost = looked - begun
            yield step.showing(picture)
            if picture is not None and outdated is not None and outdated():
                return picture
    finally:
        steps.close()
