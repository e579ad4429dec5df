"""Signals and slots that are connected from one list, and file dialogs that return paths."""

from pathlib import Path

import pytest
from psygnal import Signal as PsygnalSignal
from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QFileDialog

from napari_gpubio.gui.connections import Connections, connect_all
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


def test_what_is_attached_is_heard_once_and_after_detaching_no_more(source):
    heard = []
    connections = Connections(lambda: [(source.changed, heard.append)])
    source.changed.emit(1)
    connections.attach()
    connections.attach()
    source.changed.emit(2)
    connections.detach()
    connections.detach()
    source.changed.emit(3)
    assert heard == [2]


def test_the_pairs_are_those_of_the_moment_and_the_state_is_read_after_them(source):
    other, heard, read = type(source)(), [], []
    sources = [source]
    connections = Connections(lambda: [(one.changed, heard.append) for one in sources], lambda: read.append(len(heard)))
    connections.attach()
    sources[:] = [other]
    connections.attach()
    source.changed.emit(1)
    other.changed.emit(2)
    assert heard == [2]
    assert read == [0, 0]


def test_events_of_napari(qtbot):
    from napari.layers import Points

    layer, heard = Points(), []
    connections = Connections(lambda: [(layer.events.name, lambda event: heard.append(layer.name))])
    connections.attach()
    layer.name = "seeds"
    connections.detach()
    layer.name = "targets"
    assert heard == ["seeds"]


def test_signals_that_stay_connected(source):
    heard = []
    connect_all([(source.changed, heard.append)])
    source.changed.emit(4)
    assert heard == [4]


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


def test_a_cancelled_dialog_gives_no_path(monkeypatch):
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("", ""))
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "")
    assert open_path(None, "Open", "All files (*)") is None
    assert folder_path(None, "Choose") is None


def test_chosen_paths(monkeypatch):
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("/data/a.nii", ""))
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "/data")
    assert open_path(None, "Open", "All files (*)") == Path("/data/a.nii")
    assert folder_path(None, "Choose") == Path("/data")
