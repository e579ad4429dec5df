"""Ctrl-C that keeps what was done."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STOPPED = 130  # the exit status of a program that was interrupted


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
