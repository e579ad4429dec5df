"""Signals and slots that are connected from one list, debounced requests, and file dialogs that return paths."""

from pathlib import Path

import pytest
from napari.layers import Points
from psygnal import Signal as PsygnalSignal
from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QFileDialog

from napari_gpubio.gui.connections import Connections, Debouncer, connect_all
from napari_gpubio.gui.file_dialogs import folder_path, open_path, save_path


class QtSource(QObject):
    """Emits one of Qt's signals."""

    changed = Signal(int)


class PsygnalSource:
    """Emits one of psygnal's signals."""

    changed = PsygnalSignal(int)


@pytest.fixture(params=[QtSource, PsygnalSource])
def source(request, qtbot):
    return request.param()


def test_slots_are_called_once_while_attached(source):
    received = []
    connections = Connections(lambda: [(source.changed, received.append)])
    source.changed.emit(1)
    connections.attach()
    connections.attach()
    source.changed.emit(2)
    connections.detach()
    connections.detach()
    source.changed.emit(3)
    connect_all([(source.changed, received.append)])
    source.changed.emit(4)
    assert received == [2, 4]


def test_the_pairs_are_those_of_the_moment_and_the_state_is_read_after_them(source):
    other, received, read = type(source)(), [], []
    sources = [source]
    connections = Connections(
        lambda: [(one.changed, received.append) for one in sources], lambda: read.append(len(received))
    )
    connections.attach()
    sources[:] = [other]
    connections.attach()
    source.changed.emit(1)
    other.changed.emit(2)
    assert received == [2]
    assert read == [0, 0]


def test_what_stays_is_not_connected_anew():
    class Counting:
        def __init__(self):
            self.calls = []

        def connect(self, slot):
            self.calls.append("connect")

        def disconnect(self, slot):
            self.calls.append("disconnect")

    one, other, listed = Counting(), Counting(), []
    connections = Connections(lambda: [(signal, print) for signal in listed])
    for now in ([one], [one, other, one], [other], []):
        listed[:] = now
        connections.attach()
    assert one.calls == other.calls == ["connect", "disconnect"]


def test_events_of_napari():
    layer, received = Points(), []
    connections = Connections(lambda: [(layer.events.name, lambda event: received.append(layer.name))])
    connections.attach()
    layer.name = "seeds"
    connections.detach()
    layer.name = "targets"
    assert received == ["seeds"]


def test_many_requests_are_one_action_in_the_event_loop(qtbot):
    calls = []
    debouncer = Debouncer(lambda: calls.append(debouncer.is_due))
    for requests in (3, 1):
        for _ in range(requests):
            debouncer.request()
        assert debouncer.is_due
        qtbot.wait(5)
    assert calls == [False, False]
    debouncer.request()
    debouncer.cancel()
    qtbot.wait(5)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("chosen", "kind", "path"),
    [
        ("", "", None),
        ("/data/map", "NIfTI (*.nii.gz *.nii)", Path("/data/map.nii.gz")),
        ("/data/map.nii", "NIfTI (*.nii.gz *.nii)", Path("/data/map.nii")),
        ("/data/map", "All files (*)", Path("/data/map")),
        ("/data/map", "All files (*.*)", Path("/data/map")),
    ],
)
def test_a_path_to_save_to_has_an_extension(monkeypatch, chosen, kind, path):
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (chosen, kind))
    assert save_path(None, "Save", "NIfTI (*.nii.gz *.nii)") == path


@pytest.mark.parametrize(("chosen", "path"), [("", None), ("/data/a", Path("/data/a"))])
def test_chosen_files_and_folders(monkeypatch, chosen, path):
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (chosen, ""))
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: chosen)
    assert open_path(None, "Open", "All files (*)") == path
    assert folder_path(None, "Choose") == path
