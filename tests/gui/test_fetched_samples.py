"""File > Open Sample of data that are fetched: layers come when they are there, with what is to be known of them."""

from types import SimpleNamespace

import pytest
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.reading import NOTES
from napari_gpubio.core.real_samples import MIRROR, SAMPLES
from napari_gpubio.gui import real_samples
from napari_gpubio.gui.real_samples import Download


@pytest.fixture
def told(monkeypatch, tmp_path):
    """What napari shows; there is no network."""
    monkeypatch.setenv(MIRROR, "http://127.0.0.1:9")
    monkeypatch.setattr("napari_gpubio.core.real_samples.user_cache", lambda: tmp_path)
    told = []
    monkeypatch.setattr(real_samples, "show_info", told.append)
    return told


def test_a_window_goes_on_while_a_sample_is_fetched(qtbot, told):
    added, parent = [], QWidget()
    qtbot.addWidget(parent)
    window = SimpleNamespace(_qt_window=parent)
    viewer = SimpleNamespace(window=window, add_labels=lambda data, **keywords: added.append(keywords["name"]))
    download = Download(viewer, SAMPLES["colin27"])
    assert added == []
    assert "Louis Collins" in download.labelText()
    qtbot.waitUntil(lambda: bool(added), timeout=20_000)
    assert added == ["head phantom"]
    assert "phantom in place of" in told[0]


def test_without_a_window_layers_are_returned(told):
    (layer,) = real_samples.colin_layers()
    assert "phantom in place of" in layer[1]["metadata"][KEY][NOTES][0]
