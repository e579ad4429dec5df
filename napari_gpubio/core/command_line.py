"""What verbs of the command line share: options made from settings, a progress line, and Ctrl-C."""

import argparse
import dataclasses
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from napari_gpubio.core.parameters import param_info
from napari_gpubio.core.steps import Step

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Settings = TypeVar("Settings", bound="DataclassInstance")


def add_settings(parser: argparse.ArgumentParser, settings: Any, title: str) -> None:
    """Add an option for each parameter of a settings instance, whose values are the defaults."""
    group = parser.add_argument_group(title)
    for field in dataclasses.fields(settings):
        info = param_info(field)
        if info is None:
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
    """Return settings with the values of the arguments.

    Raises
    ------
    InvalidInput
        If a value is out of range.
    """
    names = [f.name for f in dataclasses.fields(settings) if param_info(f) is not None]
    return dataclasses.replace(settings, **{name: getattr(namespace, name) for name in names})


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
