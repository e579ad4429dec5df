"""Sessions as napari's files: all layers saved at once, and one dropped on the window, which brings its panels."""

import napari
import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Points

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import stored_array, volume_layer
from napari_gpubio.core.operations import STORE
from napari_gpubio.core.operations.held_layers import get_reader as read_layers
from napari_gpubio.core.operations.held_layers import parts_of, write_layers
from napari_gpubio.core.operations.sessions import is_session
from napari_gpubio.denoise.gui import DenoisePanel
from napari_gpubio.gui.front import front_of
from napari_gpubio.gui.session_files import get_reader, write_session
from napari_gpubio.gui.session_panel import SessionPanel
from napari_gpubio.gui.switcher import _paths, name_of, names_of_panels, open_panel
from napari_gpubio.optics.io.snirf import Optodes
from napari_gpubio.probes.napari_io import probe_layer
from tests.dock_widgets import wait_until
from tests.gui.drawn_layers import corners, drawn_layers
from tests.volume_samples import AFFINES, VOLUME

pytestmark = pytest.mark.display
KINDS = ("points", "no points", "shapes", "no shapes", "surface", "colored", "vectors", "tracks")


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


@pytest.mark.parametrize("number", range(len(KINDS)), ids=KINDS)
def test_a_drawn_layer_that_is_saved_alone_comes_back_where_it_was(make_window, qtbot, tmp_path, number):
    viewer = make_window()
    layer = viewer.add_layer(drawn_layers()[number])
    assert layer.save(str(tmp_path / "a.npz")) == [str(tmp_path / "a.npz")]
    viewer.layers.clear()
    (found,) = viewer.open(tmp_path / "a.npz", plugin="napari-gpubio")
    for one, other in zip(corners(found), corners(layer), strict=True):
        np.testing.assert_array_equal(one, other)
    assert found.name == layer.name
    assert parts_of(found).values == parts_of(layer).values


def test_a_probe_that_is_saved_keeps_names_and_kinds(tmp_path):
    probe = Optodes(
        sources=("S1",), detectors=("D1", "D2"), source_positions_mm=np.array([[1.0, 2.0, 3.0]]),
        detector_positions_mm=np.array([[4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]), wavelengths_nm=(760.0,),
    )  # fmt: skip
    data, keywords, _ = probe_layer(probe, "cap")
    layer = Points(data, **keywords)
    path = str(tmp_path / "a.npz")
    write_layers(path, [layer.as_layer_data_tuple(), layer.as_layer_data_tuple()])
    found = read_layers(path)(path)
    assert len(found) == 2
    opened = Points(found[0][0], **found[0][1])
    np.testing.assert_array_equal(opened.data, data)
    assert list(opened.features["name"]) == ["S1", "D1", "D2"]
    assert list(opened.features["kind"]) == ["source", "detector", "detector"]
    assert opened.units == layer.units


@pytest.mark.parametrize(
    "about", ["no JSON", "{}", '[{"kind": "points"}]', '[{"kind": "camera", "name": "a", "values": "{}"}]',
              '[{"kind": "points", "name": "a", "values": "{}"}]']
)  # fmt: skip
def test_a_damaged_file_of_layers_gets_a_sentence(tmp_path, about):
    path = str(tmp_path / "a.npz")
    np.savez(path, layers=np.array(about))
    with pytest.raises(InvalidInput, match=r"a\.npz"):
        read_layers(path)(path)


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
    assert list(_paths()) == [*names_of_panels(), "Undo", "Redo"]
    assert name_of(SessionPanel(ViewerModel())) == "Session"
