"""Layers of the live view and of regions: where they lie, in which units, and the pixels of regions."""

import numpy as np
import pytest
from napari.layers import Image

from napari_gpubio.speckle.gui.panel_layers import LIVE_MAP, LIVE_RAW, REGIONS, move_to, place_of
from napari_gpubio.speckle.gui.sources import StackPage
from tests.dock_widgets import forget_choices
from tests.speckle.gui.panel_samples import (
    MICROMETERS,
    SHAPE,
    add_stack,
    box,
    draw,
    layer,
    run,
    run_live,
    simulate,
    start,
    stop,
    units_of,
)  # fmt: skip

UM = ("um", "um")


def image(*units, scale=1.0):
    ndim = len(units)
    return Image(np.zeros((4,) * ndim), units=units, scale=(scale,) * ndim)


def test_a_layer_is_moved_where_it_does_not_lie_yet():
    one, place = image("pixel", "pixel"), {"scale": (2.0, 2.0), "translate": (1.0, 0.0), "units": UM}
    assert move_to(one, place)
    assert (tuple(one.scale), tuple(one.translate), units_of(one)) == ((2, 2), (1, 0), MICROMETERS)
    assert not move_to(one, place)
    assert not move_to(one, place | {"units": ("pixel", "pixel")})
    assert units_of(one) == ["pixel", "pixel"]


def test_live_maps_follow_their_source(viewer, panel, qtbot):
    simulate(panel, SHAPE)
    panel.source_box.pixel.setValue(3.0)
    start(qtbot, panel)
    draw(qtbot, panel, box(5, 5, 20, 20))
    stop(qtbot, panel)
    for part in (LIVE_MAP, LIVE_RAW, REGIONS):
        assert tuple(layer(viewer, part).scale) == (3, 3)
        assert units_of(layer(viewer, part)) == MICROMETERS
    panel.source_box.pixel.setValue(4.0)
    assert tuple(layer(viewer, LIVE_MAP).scale) == (4, 4), "it may be found out later"
    stack = add_stack(viewer, scale=(1, 2, 2), translate=(0, 7, 9), units=("pixel", "um", "um"))
    panel.source_box.choose(StackPage)
    panel.source_box.stack.layer_box.choose(stack)
    run_live(qtbot, panel)
    for part in (LIVE_MAP, LIVE_RAW, REGIONS):
        assert place_of(layer(viewer, part)) == place_of(stack)


# -- regions ----------------------------------------------------------------------------------------------------------


def mask(top, left, bottom, right):
    pixels = np.zeros(SHAPE, bool)
    pixels[top:bottom, left:right] = True
    return pixels


def test_an_ellipse_has_its_area(viewer, panel, qtbot):
    image = add_stack(viewer)
    draw(qtbot, panel, box(5, 8, 35, 48), kind="ellipse")
    assert panel.regions.listener.masks(image, SHAPE)["region 1"].sum() == pytest.approx(np.pi * 15 * 20, rel=0.03)


def test_shapes_of_another_scale_mean_the_same_place(viewer, panel, qtbot):
    image = add_stack(viewer, scale=(1, 2.0, 2.0), translate=(0, 10, 20))
    shapes = viewer.add_shapes(name="mm", ndim=2)  # in world coordinates
    panel.course_box.shapes_box.choose(shapes)
    draw(qtbot, panel, box(5, 8, 20, 30) * 2.0 + (10, 20))
    np.testing.assert_array_equal(panel.regions.listener.masks(image, SHAPE)["region 1"], mask(5, 8, 20, 30))


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_regions_lie_over_the_image_and_a_rectangle_is_its_pixels(viewer, panel, qtbot, scale):
    image = add_stack(viewer, scale=(1, scale, scale), units=("um",) * 3)
    layer = draw(qtbot, panel, box(5, 8, 20, 30), box(200, 200, 220, 220))
    assert tuple(layer.scale) == (scale, scale)
    masks = panel.regions.listener.masks(image, SHAPE)
    assert list(masks) == ["region 1"], "a shape beside the image is left out"
    np.testing.assert_array_equal(masks["region 1"], mask(5, 8, 20, 30))


def test_names_stay_with_their_shapes_as_long_as_their_layer_is_chosen(viewer, panel, qtbot):
    image, regions = add_stack(viewer), panel.regions.listener
    layer = draw(qtbot, panel, box(2, 2, 6, 6), box(10, 2, 16, 6), box(20, 2, 26, 6))
    assert list(regions.colors) == ["region 1", "region 2", "region 3"]
    with qtbot.waitSignal(regions.changed):
        layer.selected_data = {0}
        layer.remove_selected()
    draw(qtbot, panel, box(30, 2, 36, 6))
    masks = regions.masks(image, SHAPE)
    assert list(masks) == ["region 2", "region 3", "region 4"]
    np.testing.assert_array_equal(masks["region 2"], mask(10, 2, 16, 6))
    assert len(set(regions.colors.values())) == 3
    viewer.layers.remove("regions")
    assert list(regions.masks(image, SHAPE)) == list(regions.colors) == ["region 2", "region 3", "region 4"]
    with qtbot.waitSignal(regions.changed):
        forget_choices(panel)
    assert regions.masks(image, SHAPE) == regions.colors == {}


def test_without_a_picture_there_is_nothing_to_draw_on(viewer, panel):
    """A layer in pixels among others in mm would lie anywhere."""
    panel.regions.start_drawing()
    assert "no picture to draw on" in panel.message
    assert not viewer.layers


def test_more_regions_go_into_the_same_layer_above_all_maps(viewer, panel, qtbot):
    add_stack(viewer)
    layer = draw(qtbot, panel, box(2, 2, 6, 6))
    add_stack(viewer, name="above")
    layer.visible, layer.mode = False, "select"
    layer.selected_data = {0}
    width = layer.edge_width[0]
    panel.regions.start_drawing()
    assert [one.name for one in viewer.layers].count("regions") == 1
    assert viewer.layers[-1] == viewer.layers.selection.active == layer
    assert (layer.visible, layer.mode, layer.edge_width[0]) == (True, "add_polygon", width)
    for make_maps in (run, run_live):
        make_maps(qtbot, panel)
        assert viewer.layers[-1].name == "regions"
