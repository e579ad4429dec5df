"""Ctrl-C asks first and ends the program only when it comes again."""

import signal
import threading

import pytest

from napari_gpubio.core.command_line import stop_at_interrupt


def test_the_first_interrupt_asks_and_the_second_ends(capsys):
    usual = signal.getsignal(signal.SIGINT)
    with stop_at_interrupt() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        assert "stopping; what was done is kept" in capsys.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is usual


def test_other_threads_handle_no_signals():
    found = []

    def work():
        with stop_at_interrupt() as stop:
            found.append((stop.is_set(), signal.getsignal(signal.SIGINT)))

    usual = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, usual)]
