import pytest

from tests.gui.streamline_samples import cross, seen


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


@pytest.mark.display
def test_controls_of_several_layers_do_not_crash(viewer):
    layers = [viewer.add_layer(cross()) for _ in range(2)]
    viewer.layers.selection = set(layers)
    viewer.dims.ndisplay = 3
    panel = viewer.window._qt_viewer.controls.panel
    assert panel is not None
    viewer.layers.selection = {layers[0]}


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
