"""What verbs of the command line share: options made from settings, a progress line, Ctrl-C, and files to write."""

import argparse
import dataclasses
import signal
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.files import check_folder
from napari_gpubio.core.parameters import param_info
from napari_gpubio.core.steps import Step

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Settings = TypeVar("Settings", bound="DataclassInstance")


def add_settings(parser: argparse.ArgumentParser, settings: Any, title: str, *, without: Collection[str] = ()) -> None:
    """Add an option for each parameter of a settings instance, whose values are the defaults, but for some names."""
    group = parser.add_argument_group(title)
    for field in dataclasses.fields(settings):
        info = param_info(field)
        if info is None or field.name in without:
            continue
        option, default = "--" + field.name.replace("_", "-"), getattr(settings, field.name)
        unit = f" [{info.unit}]" if info.unit else ""
        text = f"{info.help.replace('%', '%%')}{unit.replace('%', '%%')} (default: {default})"
        if isinstance(default, bool):
            group.add_argument(
                option, dest=field.name, action=argparse.BooleanOptionalAction, default=default, help=text
            )
        else:
            group.add_argument(
                option, dest=field.name, type=type(default), default=default, choices=info.choices, help=text
            )


def read_settings(namespace: argparse.Namespace, settings: Settings) -> Settings:
    """Return settings with the values of the arguments; those that are None were not given, and nothing changes.

    Raises
    ------
    InvalidInput
        If a value is out of range.
    """
    names = [f.name for f in dataclasses.fields(settings) if param_info(f) is not None]
    given = {name: getattr(namespace, name) for name in names}
    return dataclasses.replace(settings, **{name: value for name, value in given.items() if value is not None})


def given_options(namespace: argparse.Namespace, usual: Mapping[str, Any]) -> list[str]:
    """Options whose values are not the usual ones, as they are written: ``--time-gates-ns``."""
    names = [name for name, value in usual.items() if getattr(namespace, name) != value]
    return ["--" + name.replace("_", "-") for name in names]


STOPPED = 130  # the exit status of a program that was interrupted
_WIDTH = 30


def draw_progress(step: Step) -> None:
    """Draw a progress bar on a terminal; nothing where the errors go to a file."""
    if sys.stderr.isatty():
        filled = int(_WIDTH * step.fraction)
        bar = "#" * filled + "." * (_WIDTH - filled)
        end = "\n" if step.done >= step.total else ""
        sys.stderr.write(f"\r{step.message} [{bar}] {step.done}/{step.total}{end}")
        sys.stderr.flush()


@contextmanager
def stop_at_interrupt() -> Iterator[threading.Event]:
    """Give an event that the first Ctrl-C sets; the second one ends the program as always."""
    stop, usual = threading.Event(), signal.getsignal(signal.SIGINT)

    def request_stop(*_: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, usual)
        sys.stderr.write("\nstopping; what was done is kept\n")

    if threading.current_thread() is not threading.main_thread():  # only there may signals be handled
        yield stop
        return
    signal.signal(signal.SIGINT, request_stop)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, usual)


class Writing:
    """The writing of several files: one that cannot be written does not keep the others from being written."""

    def __init__(self) -> None:
        self._problems: list[str] = []

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Keep what goes wrong inside, for `finish`."""
        try:
            yield
        except (GpuBioError, OSError) as error:
            self._problems.append(str(error))

    def finish(self) -> None:
        """Raise InvalidInput if something went wrong."""
        if self._problems:
            raise InvalidInput("\n".join(self._problems))


def check_outputs(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Check before a run that its files can be written without replacing each other, or what they are made from.

    Parameters
    ----------
    outputs, inputs
        Files by what they are, as a sentence names them; None for those that are not wanted.

    Raises
    ------
    InvalidInput
        If two of them are the same file, or the folder of an output is missing.
    """
    taken = {path.resolve(): name for name, path in inputs.items() if path is not None}
    for name, path in outputs.items():
        if path is None:
            continue
        check_folder(path)
        if (other := taken.setdefault(path.resolve(), name)) != name:
            raise InvalidInput(f"{name} and {other} are the same file, {path}; choose another name for {name}")
