"""Sessions as napari's files: all layers saved at once, and one dropped on the window, which brings its panels."""

import napari
import numpy as np
import pytest
from napari.components import ViewerModel

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import stored_array, volume_layer
from napari_gpubio.core.operations import STORE
from napari_gpubio.core.operations.sessions import is_session
from napari_gpubio.denoise.gui import DenoisePanel
from napari_gpubio.gui.front import front_of
from napari_gpubio.gui.session_files import get_reader, write_session
from napari_gpubio.gui.session_panel import SessionPanel
from napari_gpubio.gui.switcher import _paths, name_of, names_of_panels, open_panel
from tests.dock_widgets import wait_until
from tests.volume_samples import AFFINES, VOLUME

pytestmark = pytest.mark.display


def add(viewer, name="t1"):
    data, keywords, _ = volume_layer(VOLUME.astype(np.float32), AFFINES["cubic"], name)
    return viewer.add_image(data, **keywords)


def close(viewer):
    for panel in list(front_of(viewer).panels):
        panel.teardown()
        viewer.window.remove_dock_widget(panel)


def test_all_layers_are_saved_as_a_session_that_brings_its_panels_when_it_is_opened(make_window, qtbot, tmp_path):
    viewer = make_window()
    add(viewer)
    viewer.add_points(np.zeros((2, 3)), name="spots")
    panel = open_panel(viewer, "Denoise")
    assert isinstance(panel, DenoisePanel)
    assert viewer.layers.save(str(tmp_path / "all.zip"), plugin="napari-gpubio") == [str(tmp_path / "all.zip")]
    session = front_of(viewer).panel
    assert isinstance(session, SessionPanel)
    assert "saved 2 layers as all.zip" in session.status
    assert session.message == ""
    close(viewer)
    viewer.layers.clear()
    STORE.clear()
    viewer.open(tmp_path / "all.zip", plugin="napari-gpubio")
    wait_until(qtbot, lambda: not front_of(viewer).panel.running and len(viewer.layers) == 2)
    np.testing.assert_array_equal(stored_array(viewer.layers["t1"]), VOLUME.astype(np.float32))
    np.testing.assert_array_equal(viewer.layers["spots"].data, np.zeros((2, 3)))
    opened = {name_of(one): one for one in front_of(viewer).panels}
    assert set(opened) == {"Session", "Denoise"}
    assert opened["Denoise"].image_box.layer == viewer.layers["t1"]
    assert opened["Session"].message == ""
    close(viewer)


def test_what_is_no_session_is_left_to_others(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"no archive")
    (tmp_path / "folder").mkdir()
    for name in ("a.zip", "folder", "absent.zip"):
        assert not is_session(tmp_path / name)
        assert get_reader(str(tmp_path / name)) is None


def test_without_a_window_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(napari, "current_viewer", lambda: None)
    with pytest.raises(InvalidInput, match="napari-gpubio run"):
        write_session("s.zip", [])


def test_every_panel_has_a_name_and_the_icons_are_those_of_panels():
    assert list(_paths()) == list(names_of_panels())
    assert name_of(SessionPanel(ViewerModel())) == "Session"
