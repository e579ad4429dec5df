"""Verbs that end at a step as by SIGKILL: nothing that they do about errors is done; what was kept by time is left."""

import contextlib
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from napari_gpubio.core import keeping
from napari_gpubio.core.steps import Step


class Killed(BaseException):
    """The end of a run."""


@contextlib.contextmanager
def killed(
    monkeypatch: pytest.MonkeyPatch, verb: ModuleType, after: int = 0, when: Callable[[], bool] = lambda: True
) -> Iterator[None]:
    """A verb that is run inside is killed after so many steps, and keeps what is done at each of them.

    ``when`` tells whether it is time, from then on.
    """
    steps = []

    def show(step: Step) -> None:
        steps.append(step)
        if len(steps) > after and when():
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(keeping, "EVERY_SECONDS", 0.0)
        patch.setattr(keeping, "_REST", 0.0)
        patch.setattr(verb, "draw_progress", show)
        with pytest.raises(Killed):
            yield
