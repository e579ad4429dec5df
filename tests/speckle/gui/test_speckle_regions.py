"""Regions that are drawn over maps."""

import numpy as np
import pytest

from napari_gpubio.speckle.gui.plots import with_gaps
from tests.speckle.gui.panel_samples import SHAPE, add_stack, box, draw, run, start, stop


def mask(top, left, bottom, right):
    pixels = np.zeros(SHAPE, bool)
    pixels[top:bottom, left:right] = True
    return pixels


def test_a_rectangle_is_its_pixels(viewer, panel, qtbot):
    image = add_stack(viewer)
    draw(qtbot, panel, box(5, 8, 20, 30))
    np.testing.assert_array_equal(panel.regions.masks(image, SHAPE)["region 1"], mask(5, 8, 20, 30))


def test_an_ellipse_has_its_area(viewer, panel, qtbot):
    image = add_stack(viewer)
    draw(qtbot, panel, box(5, 8, 35, 48), kind="ellipse")
    assert panel.regions.masks(image, SHAPE)["region 1"].sum() == pytest.approx(np.pi * 15 * 20, rel=0.03)


def test_shapes_of_another_scale_mean_the_same_place(viewer, panel, qtbot):
    image = add_stack(viewer, scale=(1, 2.0, 2.0), translate=(0, 10, 20))
    shapes = viewer.add_shapes(name="mm", ndim=2)  # in world coordinates
    panel.course_box.shapes_box.choose(shapes)
    draw(qtbot, panel, box(5, 8, 20, 30) * 2.0 + (10, 20))
    np.testing.assert_array_equal(panel.regions.masks(image, SHAPE)["region 1"], mask(5, 8, 20, 30))


def test_the_layer_of_regions_lies_where_the_picture_lies(viewer, panel, qtbot):
    image = add_stack(viewer, scale=(1, 2.0, 2.0), units=("um",) * 3)
    layer = draw(qtbot, panel, box(5, 8, 20, 30))
    assert tuple(layer.scale) == (2.0, 2.0)
    np.testing.assert_array_equal(panel.regions.masks(image, SHAPE)["region 1"], mask(5, 8, 20, 30))


def test_names_stay_with_their_shapes(viewer, panel, qtbot):
    image = add_stack(viewer)
    layer = draw(qtbot, panel, box(2, 2, 6, 6), box(10, 2, 16, 6), box(20, 2, 26, 6))
    assert list(panel.regions.colors) == ["region 1", "region 2", "region 3"]
    with qtbot.waitSignal(panel.regions.changed):
        layer.selected_data = {0}
        layer.remove_selected()
    draw(qtbot, panel, box(30, 2, 36, 6))
    masks = panel.regions.masks(image, SHAPE)
    assert list(masks) == ["region 2", "region 3", "region 4"]
    np.testing.assert_array_equal(masks["region 2"], mask(10, 2, 16, 6))
    assert len(set(panel.regions.colors.values())) == 3


def test_a_shape_beside_the_picture_is_left_out(viewer, panel, qtbot):
    image = add_stack(viewer)
    draw(qtbot, panel, box(2, 2, 6, 6), box(200, 200, 220, 220))
    assert list(panel.regions.masks(image, SHAPE)) == ["region 1"]


def test_regions_may_be_deleted(viewer, panel, qtbot):
    image = add_stack(viewer)
    draw(qtbot, panel, box(2, 2, 6, 6))
    with qtbot.waitSignal(panel.regions.changed):
        viewer.layers.remove("regions")
    assert panel.regions.masks(image, SHAPE) == {}
    assert panel.regions.colors == {}


def test_more_regions_go_into_the_same_layer(viewer, panel, qtbot):
    add_stack(viewer)
    layer = draw(qtbot, panel, box(2, 2, 6, 6))
    add_stack(viewer, name="above")
    layer.visible, layer.mode = False, "select"
    layer.selected_data = {0}
    width = layer.edge_width[0]
    panel.draw_regions()
    assert [one.name for one in viewer.layers].count("regions") == 1
    assert viewer.layers[-1].name == "regions"
    assert viewer.layers.selection.active.name == "regions"
    assert layer.visible
    assert layer.mode == "add_polygon"
    assert layer.edge_width[0] == width


def test_regions_stay_above_new_maps(viewer, panel, qtbot):
    add_stack(viewer)
    draw(qtbot, panel, box(2, 2, 6, 6))
    run(qtbot, panel)
    assert viewer.layers[-1].name == "regions"
    start(qtbot, panel)
    stop(qtbot, panel)
    assert viewer.layers[-1].name == "regions"


def test_a_curve_has_no_line_over_a_stop():
    times, values = np.array([0.0, 0.1, 0.2, 9.0, 9.1]), np.arange(5.0)
    shown_times, shown = with_gaps(times, values)
    np.testing.assert_array_equal(shown, [0, 1, 2, np.nan, 3, 4])
    assert shown_times[3] == 0.2
    for steady in (np.arange(5.0) * 30, np.array([0.0]), np.array([])):
        assert with_gaps(steady, steady)[0] is steady
