"""Runs that are kept while they last, so that one that was killed goes on where it was, with its own inputs only.

A verb drives its run with a `Keeper`, which saves what is done in the run's own file; the same command finds it there
(`left_by`) and goes on, unless the run was begun with something else (`check_inputs`).
"""

import dataclasses
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import fingerprint
from napari_gpubio.core.report import tell, warn
from napari_gpubio.core.settings import Settings, kind_of
from napari_gpubio.core.steps import Step

Inputs = Mapping[str, tuple[str, str]]  # of all that a run is made of: name and fingerprint, by what it is
Kept = TypeVar("Kept")
EVERY_SECONDS = 8.0  # from one saving to the next
_REST = 4.0  # of saving, after each: at most a fifth of the time goes into it
_SHOWN, _DIGITS = 60, 8  # characters of a value, and of a fingerprint, in a sentence


class Keeper:
    """Shows the steps of a run, and saves what is done in a file every 8 s: call it with each step.

    Where a file takes longer than 2 s to save, it is saved less often. A disk that is full does not end the run.

    Parameters
    ----------
    path
        The file; None saves nothing.
    save
        Writes a step's preview, which is what is done so far, to a path, where an older file stays until that is whole.
        If it returns steps, these are shown, too.
    show
        Shows the step.
    goes_on
        Whether the run goes on with what there is in the file, which is then announced at the first step.

    Examples
    --------
    >>> from napari_gpubio.core.steps import Step
    >>> keep = Keeper(None, print, lambda step: print(step.done))
    >>> keep(Step(3, 4))
    3
    """

    def __init__(
        self,
        path: Path | None,
        save: Callable[[Path, Any], Iterator[Step] | None],
        show: Callable[[Step], object],
        *,
        goes_on: bool = False,
    ) -> None:
        self.path, self.has_saved = path, False
        self._save, self._show, self._is_new = save, show, not goes_on
        self._due = time.monotonic() + EVERY_SECONDS

    def __call__(self, step: Step) -> None:
        """Show a step, and save its preview if it is time."""
        if not self._is_new and self.path is not None:
            tell([f"goes on with {self.path.name}, whose run did not come to its end"])
        self._is_new = True
        self._show(step)
        if self.path is not None and step.make_preview is not None and time.monotonic() >= self._due:
            begun = time.monotonic()
            try:
                for part in step.preview_steps():
                    self._show(part)
                for part in self._save(self.path, step.preview) or ():
                    self._show(part)
                self.has_saved = True
            except InvalidInput as error:  # the run may have hours of work in its memory
                warn(f"{error}. The run goes on")
            ended = time.monotonic()
            self._due = ended + max(EVERY_SECONDS, _REST * (ended - begun))


def left_by(path: Path | None, load: Callable[[Path], Kept | None]) -> Kept | None:
    """Return what a run that did not come to its end has left in a file; None if there is no file, or all is done.

    Parameters
    ----------
    path
        The file; it may be missing, or None.
    load
        Reads it; None is of no such run.
    """
    return load(path) if path is not None and path.is_file() else None


# -- inputs -----------------------------------------------------------------------------------------------------------


def inputs_of(value: Any, name: str = "", *, without: Collection[str] = ()) -> Inputs:
    """Return a value as inputs: each field of a dataclass by its name, and so within it and in tuples of them.

    Parameters
    ----------
    value
        A dataclass, a tuple of them, or a value of another kind.
    name
        Begins the name of each input.
    without
        Names of fields that are left out.

    Examples
    --------
    >>> from napari_gpubio.light import LightSettings
    >>> inputs_of(LightSettings(seed=5))["seed"][0]
    '5'
    """
    return dict(_parts(value, name, without))


def _parts(value: Any, name: str, without: Collection[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    if isinstance(value, Settings) and name:  # one of several alternatives, perhaps
        yield name, (kind_of(value), fingerprint(kind_of(value)))
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name not in without:
                yield from _parts(getattr(value, field.name), f"{name} {field.name}".strip(), without)
    elif isinstance(value, tuple) and all(map(dataclasses.is_dataclass, value)):
        for number, one in enumerate(value, 1):
            yield from _parts(one, f"{name} {number}".strip(), without)
    else:
        yield name, ("" if isinstance(value, np.ndarray) else str(value)[:_SHOWN], fingerprint(value))


def difference(before: Mapping[str, Any], now: Inputs) -> str:
    """Return the first input that differs, as part of a sentence with the names of both; nothing if they are the same.

    Examples
    --------
    >>> difference({"seed": ("1", "1")}, {"seed": ("2", "2")})
    'other seed: 1, and this run has 2'
    """
    for what in dict.fromkeys((*now, *before)):
        (was, old), (name, new) = (_pair(inputs.get(what)) for inputs in (before, now))
        if old != new:
            same = was == name
            was, name = (
                (one or "no file") + (f" (checksum {print_[:_DIGITS]})" if same else "")
                for one, print_ in ((was, old), (name, new))
            )
            return f"other {what}: {was}, and this run has {name}"
    return ""


def _pair(value: Any) -> tuple[str, str]:
    """Name and fingerprint, also as a file has them."""
    if isinstance(value, tuple | list) and len(value) == 2:
        return str(value[0]), str(value[1])
    return "none", ""


def check_inputs(what: str, before: Any, now: Inputs) -> None:
    """Check that what a run goes on with was begun with the same inputs.

    Parameters
    ----------
    what
        What it goes on with, such as ``"connectome"``.
    before
        The inputs it was begun with, as its file has them.
    now
        Those of this run.

    Raises
    ------
    InvalidInput
        If an input differs, which is named with that of this run, or ``before`` are no inputs.
    """
    if not isinstance(before, Mapping) or not before:
        raise InvalidInput(f"the {what} to go on with does not say what it was made of; remove it to begin anew")
    if other := difference(before, now):
        raise InvalidInput(
            f"the {what} to go on with was begun with {other}; remove it, or choose another name, to begin anew"
        )
