"""Streamlines as napari sees them: ordinary tracks, a visual and controls, also where napari's internals have moved."""

import logging
import sys

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Layer, Tracks
from napari.layers._layer_actions import _duplicate_layer

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.streamlines import Streamlines, registration
from tests.gui.streamline_samples import BLUE, GREEN, RED, colors, count, cross, seen


def test_ordinary_tracks_can_be_made_and_turned_back():
    layer = cross(
        color_by="number", colormap="gray", slab_mm=3, scale=(2, 1, 1), translate=(5, 0, 0), metadata={"a": 1}, name="c"
    )
    tracks = Layer.create(*layer.as_layer_data_tuple())
    assert type(tracks) is Tracks
    assert np.array_equal(tracks.extent.world[:, 1:], layer.extent.world)
    assert np.array_equal(tracks.data[:, 2:], layer.points)
    assert tracks.color_by == "number"
    data, state, _ = tracks.as_layer_data_tuple()
    back = Streamlines.from_layer_data(data, state)
    assert np.array_equal(back.points, layer.points)
    assert np.array_equal(back.extent.world, layer.extent.world)
    assert back.per_fiber["number"].tolist() == [0, 1, 2]
    assert np.array_equal(back.per_point["place"], layer.per_point["place"])
    assert (back.color_by, back.colormap, back.slab_mm, back.metadata) == ("number", "gray", 3, {"a": 1})
    assert np.array_equal(colors(back), colors(layer))


def test_no_lines_can_be_made_tracks_and_turned_back():
    layer = Streamlines(np.empty((0, 3)), [0, 0], per_fiber={"length": [1.0]}, per_point={"fa": []})
    tracks = Layer.create(*layer.as_layer_data_tuple())
    back = Streamlines.from_layer_data(*tracks.as_layer_data_tuple()[:2])
    assert (len(back.points), len(back.lines)) == (0, 1)


def test_foreign_tracks_are_refused():
    data, state, _ = Tracks(np.zeros((2, 5))).as_layer_data_tuple()
    with pytest.raises(InvalidInput, match="not made from streamlines"):
        Streamlines.from_layer_data(data, state)


def test_duplicate_in_the_layer_list():
    viewer = ViewerModel()
    layer = viewer.add_layer(cross())
    viewer.layers.selection = {layer}
    _duplicate_layer(viewer.layers)
    assert len(viewer.layers) == 2
    assert len(viewer.layers[1].data) == 63


def test_saving_without_a_writer_writes_nothing(tmp_path):
    viewer = ViewerModel()
    viewer.add_layer(cross())
    with pytest.warns(UserWarning, match="No data written"):
        assert viewer.layers.save(str(tmp_path / "lines.nosuch")) == []


def test_the_stock_visual_finds_what_it_asks_for():
    layer = cross(slab_mm=3, affine=np.diag([2.0, 1, 1, 1]))
    layer.shown = [True, False, True]
    expected = np.ones(63, bool)
    expected[[20, 62]] = False
    expected[21:42] = False
    assert np.array_equal(layer.track_connex, expected)
    assert layer.track_times.tolist() == layer.points[:, 0].tolist()
    assert (layer.head_length, layer.tail_length) == (2, 2), "3 mm in steps of 2 mm"
    layer.slab_mm = 0
    assert layer.tail_length > 1e5
    layer.display_id = True
    assert layer.track_labels == (None, (None, None))


# -- the visual and the controls --------------------------------------------------------------------------------------


def test_registering_again_changes_nothing():
    from napari._vispy.utils.visual import layer_to_visual

    assert registration.register_visual()
    assert registration.register_visual()
    assert len([cls for cls in layer_to_visual if cls is Streamlines]) == 1


@pytest.mark.parametrize("module", ["napari._vispy.utils.visual", "napari._vispy.layers.base"])
def test_moved_internals_are_reported_once_and_survived(monkeypatch, caplog, module):
    monkeypatch.setitem(sys.modules, module, None)
    with caplog.at_level(logging.WARNING, logger=registration.__name__):
        assert not registration.register_visual()
    assert "own Tracks visual" in caplog.text
    assert len(caplog.records) == 1


def test_controls_without_qt(monkeypatch):
    monkeypatch.setitem(sys.modules, "napari._qt.layer_controls.qt_layer_controls_container", None)
    assert not registration.register_controls()


@pytest.mark.display
def test_napari_draws_it_if_its_own_visual_cannot_be_made(viewer, monkeypatch, caplog):
    def moved(*_):
        raise AttributeError("moved")

    monkeypatch.setattr(registration, "Bundle", moved)
    with caplog.at_level(logging.WARNING, logger=registration.__name__):
        layer = viewer.add_layer(cross())
    assert "own Tracks visual" in caplog.text
    viewer.dims.set_point(0, 10)
    assert count(seen(viewer), RED) > 100
    layer.shown = [False, True, False]
    assert count(seen(viewer), RED) == 0
    assert count(seen(viewer), GREEN) > 100
    layer.color_by, layer.color = "uniform", "blue"
    assert count(seen(viewer), BLUE) > 100
    viewer.dims.set_point(0, 18)
    assert seen(viewer).max() == 0, "outside the slab"
    layer.set_streamlines(cross().points + 1, cross().offsets)
    viewer.dims.ndisplay = 3
    assert count(seen(viewer), BLUE) > 100
    layer.line_width = 3
    layer.select_fiber(1)
    seen(viewer)


@pytest.mark.display
def test_napari_draws_it_if_it_is_not_registered(viewer, monkeypatch):
    from napari._vispy.utils.visual import layer_to_visual

    monkeypatch.delitem(layer_to_visual, Streamlines)
    viewer.add_layer(cross())
    viewer.dims.set_point(0, 10)
    assert count(seen(viewer), RED) > 100


@pytest.mark.display
def test_a_plugin_sees_it_through_naparis_proxy(make_window):
    viewer = make_window(proxied=True)
    viewer.add_layer(cross())
    layer = viewer.layers["Streamlines"]
    assert isinstance(layer, Streamlines)
    layer.color_by = "number"
    layer.shown = [True, False, True]
    layer.select_fiber(1)
    layer.set_streamlines(layer.points, layer.offsets)
    assert layer.pick((10, 10, 3), None, [1, 2], 0.5) == 0
    assert layer.color_by == "direction"
    viewer.dims.ndisplay = 3


@pytest.mark.display
def test_controls_show_and_change_the_layer(viewer):
    layer = viewer.add_layer(cross())
    controls = viewer.window._qt_viewer.controls.widgets[layer]
    assert [controls.color_by.itemText(n) for n in range(4)] == layer.color_choices
    controls.color_by.setCurrentText("number")
    controls.colormap.setCurrentText("magma")
    controls.slab_mm.setValue(2.5)
    controls.line_width.setValue(3)
    assert (layer.color_by, layer.colormap, layer.slab_mm, layer.line_width) == ("number", "magma", 2.5, 3)
    layer.color_by, layer.colormap, layer.slab_mm, layer.line_width = "place", "gray", 0.25, 2
    assert (controls.color_by.currentText(), controls.colormap.currentText()) == ("place", "gray")
    assert layer.slab_mm == 0.25, "what the box cannot show does not come back"
    layer.set_streamlines(layer.points, layer.offsets, {"length": [1, 2, 3]})
    assert controls.color_by.count() == 3
    assert controls.color_by.currentText() == "direction"
    assert not controls.colormap.isEnabled()
    other = viewer.add_layer(cross())
    viewer.layers.selection = {layer, other}  # controls of several layers do not crash
    viewer.dims.ndisplay = 3
    assert viewer.window._qt_viewer.controls.panel is not None
    viewer.layers.selection = {layer}


@pytest.mark.display
def test_naparis_own_tracks_controls_do_not_crash(viewer, qtbot):
    from napari._qt.layer_controls.qt_tracks_controls import QtTracksControls

    layer = viewer.add_layer(cross())
    controls = QtTracksControls(layer)
    qtbot.addWidget(controls)
    controls._tail_width_slider_control.tail_width_slider.setValue(4)
    controls._tail_length_slider_control.tail_length_slider.setValue(7)
    controls._head_length_slider_control.head_length_slider.setValue(7)
    controls._color_properties_combobox_control.color_by_combobox.setCurrentText("number")
    controls._colormap_combobox_control.colormap_combobox.setCurrentIndex(3)
    controls._id_checkbox_control.id_checkbox.setChecked(True)
    controls._tail_display_checkbox_control.tail_checkbox.setChecked(False)
    controls._graph_checkbox_control.graph_checkbox.setChecked(False)
    controls._hide_completed_tracks_checkbox_control.hide_completed_tracks_checkbox.setChecked(True)
    assert (layer.line_width, layer.color_by) == (4, "number")
    assert seen(viewer).max() > 0
    layer.slab_mm = 2.5
