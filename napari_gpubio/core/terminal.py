"""What a verb of the command line shows while it works, and how it is stopped."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from napari_gpubio.core.steps import Step

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

    def ask(*_: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, usual)
        sys.stderr.write("\nstopping; what was done is kept\n")

    if threading.current_thread() is not threading.main_thread():  # only there may signals be handled
        yield stop
        return
    signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, usual)
