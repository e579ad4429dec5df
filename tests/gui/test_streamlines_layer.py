"""The streamlines layer without a window: its lines, what colors them, and which one is picked."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.lines import ByDirection, ByNumber, Uniform, pack_lines
from napari_gpubio.gui.looks import RangeFilter, filter_of, set_filter
from napari_gpubio.gui.streamlines import Streamlines
from tests.gui.streamline_samples import BLUE, GREEN, RED, calls, colors, cross


def test_it_has_three_axes_and_no_time():
    viewer = ViewerModel()
    layer = viewer.add_layer(cross(scale=(2, 1, 1)))
    assert (layer.ndim, viewer.dims.ndim) == (3, 3)
    assert np.array_equal(layer.extent.world, [[0, 0, 0], [40, 20, 20]])
    assert layer.points.shape == (63, 3)
    assert layer.offsets.tolist() == [0, 21, 42, 63]


def test_it_survives_turning_slicing_and_display_changes():
    viewer = ViewerModel()
    layer = viewer.add_layer(cross())
    viewer.dims.ndisplay = 3
    viewer.dims.ndisplay = 2
    for _ in range(3):
        viewer.dims.roll()
        viewer.dims.set_point(viewer.dims.order[0], 4)
    viewer.dims.transpose()
    layer.affine = np.diag([3.0, -2.0, 1.0, 1.0])
    layer.opacity, layer.visible = 0.4, False
    layer.visible = True
    viewer.layers.remove(layer)
    assert not viewer.layers


def test_no_lines_at_all():
    viewer = ViewerModel()
    layer = viewer.add_layer(Streamlines(np.empty((0, 3)), [0]))
    assert np.isnan(layer.extent.world).all()
    assert layer.get_value((0, 0, 0)) is None
    layer.shown = np.zeros(0, bool)
    full = cross()
    layer.set_streamlines(full.points, full.offsets)
    assert np.array_equal(layer.extent.world, [[0, 0, 0], [20, 20, 20]])
    layer.set_streamlines(np.empty((0, 3)), [0])
    assert np.isnan(layer.extent.world).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"per_fiber": {"length": [1, 2]}}, "'length' has shape"),
        ({"per_point": {"fa": np.zeros(3)}}, "for each point, 63"),
        ({"per_fiber": {"direction": [1, 2, 3]}}, "'direction' is taken"),
        ({"per_fiber": {"place": [1, 2, 3]}}, "'place' is taken"),
        ({"color_by": "fa"}, "choose one of 'direction', 'uniform', 'number', 'place'"),
        ({"color": "no such color"}, "not one that napari knows"),
        ({"colormap": "no such map"}, "not one that napari knows"),
        ({"color_by": "number", "contrast_limits": (2, 2)}, "the first must be smaller"),
        ({"slab_mm": -1}, "give 0 mm or more"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(options, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        cross(**options)


def test_the_filter_is_a_mask_of_fibers():
    layer = cross()
    events = calls(layer.events.shown)
    layer.shown = [True, False, True]
    assert layer.shown.tolist() == [True, False, True]
    layer.shown = None
    assert layer.shown.all()
    assert len(events) == 2
    with pytest.raises(ValueError, match="read-only"):
        layer.shown[0] = False
    for wrong in ([True], [0, 1, 2]):
        with pytest.raises(InvalidInput, match="one boolean for each of 3 fibers"):
            layer.shown = wrong


def test_filters_hide_together_and_each_is_removed_alone():
    layer = cross()
    events = calls(layer.events.shown)
    low = layer.per_fiber["number"][1]
    set_filter(layer, RangeFilter("number", low=low, high=low))
    layer.set_filter("regions", [True, True, False])
    passing = (layer.per_fiber["number"] == low) & [True, True, False]
    assert np.array_equal(layer.shown, passing)
    assert passing.sum() == 1
    assert layer.passing(but="numbers").tolist() == [True, True, False]
    with pytest.raises(InvalidInput, match="one boolean for each of 3 fibers"):
        layer.set_filter("other", [True])
    assert np.array_equal(layer.shown, passing)
    layer.set_lines(pack_lines(layer.points, layer.offsets, per_fiber={"number": [low + 1, low, low]}))
    assert layer.shown.tolist() == [False, True, True], "a range holds for other lines, a mask does not"
    set_filter(layer, RangeFilter("number"))
    assert layer.shown.all()
    layer.shown = [False, False, True]
    assert layer.shown.tolist() == [False, False, True]
    assert filter_of(layer) is None
    assert len(events) == 4


def test_replaced_lines_keep_the_display_settings():
    layer = cross(color_by="number", colormap="gray", slab_mm=2, opacity=0.5, affine=np.diag([2, 2, 2, 1]))
    layer.contrast_limits = (0, 4)
    layer.shown = [True, False, True]
    layer.select_fiber(2)
    picked, replaced = calls(layer.events.picked), calls(layer.events.streamlines)
    layer.set_streamlines(layer.points[:42] + 1, [0, 10, 42], {"number": [2, 4]})
    assert (layer.color_by, layer.contrast_limits, layer.slab_mm, layer.opacity) == ("number", (0, 4), 2, 0.5)
    assert layer.shown.tolist() == [True, True]
    assert layer.selected_fiber is None
    assert [event.fiber for event in picked] == [None]
    assert len(replaced) == 1
    assert colors(layer)[[0, 41], 0].tolist() == [128, 255]
    assert np.array_equal(layer.extent.world, [[22, 2, 2], [22, 42, 42]])


def test_without_the_number_the_lines_are_colored_by_direction_and_bad_ones_change_nothing():
    layer = cross(color_by="number")
    layer.set_streamlines(layer.points, layer.offsets, {"length": [1, 2, 3]})
    assert layer.color_by == "direction"
    assert (colors(layer)[:21] == RED).all()
    assert layer.color_choices == ["direction", "uniform", "length"]
    before = layer.lines
    with pytest.raises(InvalidInput):
        layer.set_streamlines(layer.points, layer.offsets, {"length": [1]})
    assert layer.lines is before


def test_packed_lines_make_the_same_layer():
    packed = pack_lines(cross().points, cross().offsets, per_fiber=cross().per_fiber, per_point=cross().per_point)
    layer = Streamlines(lines=packed, color_by="number", colormap="gray")
    assert layer.lines.vertices is packed.vertices, "nothing is copied"
    assert layer.color_choices == cross().color_choices
    assert np.array_equal(layer.lines.vertices, cross(color_by="number", colormap="gray").lines.vertices)


PACKED = pack_lines(np.zeros((2, 3)), [0, 2])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        *(
            (part, "give points and offsets, or packed lines")
            for part in ({}, {"points": PACKED.points}, {"offsets": [0, 2]})
        ),
        *(
            ({"lines": PACKED} | part, "not both")
            for part in ({"points": PACKED.points}, {"offsets": [0, 2]}, {"per_fiber": {"a": [1]}})
        ),
    ],
)
def test_lines_are_given_in_one_way(options, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        Streamlines(**options)


@pytest.fixture
def paintings(monkeypatch):
    """Which paints have been applied."""
    applied = []
    for kind in (ByDirection, ByNumber, Uniform):
        apply = kind.apply
        monkeypatch.setattr(
            kind, "apply", lambda paint, lines, apply=apply: applied.append(paint) or apply(paint, lines)
        )
    return applied


TURNED = np.array([[0, 0, 3.1, 4], [0.2, -1.7, 0, 5], [1.3, 0.1, 0, 6], [0, 0, 0, 1]])


def test_a_worker_can_paint_the_lines_of_a_new_layer(paintings):
    points, offsets = cross().points, cross().offsets
    packed = pack_lines(points, offsets, paint=ByDirection(TURNED))
    paintings.clear()
    layer = Streamlines(lines=packed, affine=TURNED)
    assert not paintings
    assert np.array_equal(layer.lines.vertices, Streamlines(points, offsets, affine=TURNED).lines.vertices)


@pytest.mark.parametrize("choice", ["direction", "uniform", "number", "place"])
def test_a_worker_can_paint_other_lines_of_a_layer(choice, paintings):
    layer, same = (cross(affine=TURNED, color_by=choice, color="orange") for _ in range(2))
    parts = (layer.points[:42] + 1, [0, 20, 42])
    numbers = {"per_fiber": {"number": [3.0, 5.0]}, "per_point": {"place": np.arange(42)}}
    same.set_streamlines(*parts, **numbers)
    packed = pack_lines(*parts, **numbers, paint=layer.paint)
    paintings.clear()
    layer.set_lines(packed)
    assert not paintings
    assert layer.lines is packed
    assert np.array_equal(packed.vertices, same.lines.vertices)


def test_lines_that_were_painted_otherwise_are_painted_again(paintings):
    layer = cross(color_by="number")
    paint = layer.paint
    packed = pack_lines(layer.points, layer.offsets, per_fiber=layer.per_fiber, paint=paint)
    layer.color_by = "direction"  # while the worker was at it
    paintings.clear()
    layer.set_lines(packed)
    assert paintings == [layer.paint]
    assert (colors(layer)[:21] == RED).all()


def test_packed_lines_can_be_filtered_beforehand_and_lines_can_be_bent():
    layer = cross()
    layer.data = layer.data + 5
    assert np.array_equal(layer.extent.world, [[5, 5, 5], [25, 25, 25]])
    assert layer.color_choices == ["direction", "uniform", "number", "place"]
    layer.set_lines(pack_lines(layer.points, layer.offsets).with_shown([True, False, True]))
    assert layer.shown.tolist() == [True, False, True]


def test_features_are_the_numbers_of_each_fiber():
    layer = cross()
    assert layer.features["number"].tolist() == [0, 1, 2]
    layer.color_by = "number"
    layer.features = {"length": [5.0, 6.0, 7.0]}
    assert layer.color_choices == ["direction", "uniform", "length", "place"]
    assert layer.color_by == "direction"


def test_the_thumbnail_shows_the_lines():
    viewer = ViewerModel()
    layer = viewer.add_layer(cross())
    assert {tuple(rgb) for rgb in layer.thumbnail[..., :3].reshape(-1, 3)} >= {tuple(RED), tuple(GREEN)}
    layer.color_by = "uniform"
    assert not (layer.thumbnail[..., :3] == RED).all(axis=-1).any()


# -- colors -----------------------------------------------------------------------------------------------------------


def test_direction_follows_the_transform():
    layer = cross()
    assert (colors(layer)[:21] == RED).all()
    assert (colors(layer)[21:42] == GREEN).all()
    assert (colors(layer)[42:] == BLUE).all()
    turn = np.eye(4)[[2, 1, 0, 3]]  # data x is the world's z
    layer.affine = turn
    assert (colors(layer)[:21] == BLUE).all()
    layer.affine = np.eye(4)
    layer.rotate = turn[:3, :3] @ np.diag([1, -1, 1])
    assert (colors(layer)[42:] == RED).all()


def test_color_choices():
    layer = cross(color="orange", colormap="gray")
    assert layer.color_choices == ["direction", "uniform", "number", "place"]
    layer.color_by = "uniform"
    assert (colors(layer) == [255, 165, 0]).all()
    layer.color = (0, 0, 1)
    assert (colors(layer) == BLUE).all()
    layer.color_by = "number"
    assert colors(layer)[[0, 21, 42], 0].tolist() == [0, 128, 255]
    layer.color_by = "place"
    assert (np.diff(colors(layer)[:21, 0].astype(int)) >= 0).all()
    layer.colormap = "viridis"
    assert colors(layer)[0].tolist() == [68, 1, 84]
    assert layer.track_colors[0] == pytest.approx([68 / 255, 1 / 255, 84 / 255, 1])


def test_contrast_limits_are_remembered_for_each_number():
    layer = cross(color_by="place", contrast_limits=(0, 40), colormap="gray")
    assert layer.contrast_limits == (0, 40)
    assert colors(layer)[20, 0] == 128
    layer.color_by = "number"
    assert layer.contrast_limits == pytest.approx((0.04, 1.96))
    layer.color_by = "place"
    assert layer.contrast_limits == (0, 40)
    layer.contrast_limits = None
    assert layer.contrast_limits == (0, 20)
    assert colors(layer)[20, 0] == 255
    layer.color_by = "direction"
    assert layer.contrast_limits is None


def test_a_color_bar_can_be_drawn_and_emits_changes():
    layer = cross(colormap="gray")
    events = calls(layer.events.coloring)
    assert layer.color_bar_image(10, 2) is None
    assert layer.color_bar_limits is None
    layer.color_by = "place"
    layer.contrast_limits = (0, 5)
    layer.colormap = "viridis"
    layer.colormap = "gray"
    assert len(events) == 4
    assert layer.color_bar_limits == (0, 5)
    upright, lying = layer.color_bar_image(100, 10), layer.color_bar_image(10, 100)
    assert (upright.shape, lying.shape) == ((100, 10, 4), (10, 100, 4))
    assert (upright[0, :, 0] == 255).all()
    assert (upright[-1, :, 0] == 0).all()
    assert (lying[:, 0, 0] == 0).all()
    assert upright.dtype == np.uint8


# -- picking ----------------------------------------------------------------------------------------------------------


def test_it_shares_a_viewer_of_four_axes():
    viewer = ViewerModel()
    viewer.add_image(np.zeros((5, 21, 21, 21)))
    layer = viewer.add_layer(cross())
    viewer.dims.set_point(0, 3)
    assert layer.get_value((3, 10, 10, 3.2), dims_displayed=[2, 3], world=True) == 0
    assert layer.pick((3, 10, 3.2, 10), None, [2, 3], 0.5) == 1
    assert layer.pick((3, 10, 3.2, 10), (0, 0, 0, 1), [1, 2, 3], 0.5) == 1


def test_selection():
    layer = cross()
    events = calls(layer.events.picked)
    layer.select_fiber(1)
    layer.select_fiber(1)
    layer.select_fiber(None)
    assert [event.fiber for event in events] == [1, None]
    for wrong in (3, -1):
        with pytest.raises(InvalidInput, match="there is no fiber"):
            layer.select_fiber(wrong)


def test_picking_in_slices():
    viewer = ViewerModel()
    layer = viewer.add_layer(cross(affine=np.diag([2.0, -1.0, 1.0, 1.0]), slab_mm=3))
    viewer.dims.set_point(0, 22)  # 2 mm from the fibers along x and y
    assert layer.pick((22, -10, 3), None, [1, 2], 0.5) == 0
    assert layer.pick((22, -3, 10), None, [1, 2], 0.5) == 1
    assert layer.pick((22, -10, 10), None, [1, 2], 0.5) == 2, "the one that crosses the slice"
    assert layer.pick((22, -3, 3), None, [1, 2], 0.5) is None
    assert layer.pick((24, -10, 3), None, [1, 2], 0.5) is None, "outside the slab"
    assert layer.pick((30, 0, 10), None, [0, 2], 0.5) is None
    assert layer.pick((30, -10, 10), None, [0, 2], 0.5) == 2
    layer.slab_mm = 0
    assert layer.pick((99, -10, 3), None, [1, 2], 0.5) == 0
    layer.shown = [False, True, True]
    assert layer.pick((22, -10, 3), None, [1, 2], 0.5) is None


def test_napari_asks_for_the_value_under_the_cursor():
    viewer = ViewerModel()
    layer = viewer.add_layer(cross(affine=np.diag([2.0, 1.0, 1.0, 1.0])))
    viewer.dims.set_point(0, 20)
    assert layer.get_value((20, 10, 3), view_direction=None, dims_displayed=[1, 2], world=True) == 0
    assert layer.get_status((20, 10, 3), dims_displayed=[1, 2], world=True)["value"] == "0"
    viewer.dims.ndisplay = 3
    ray = {"view_direction": np.array([1.0, 0, 0]), "dims_displayed": [0, 1, 2], "world": True}
    assert layer.get_value((20, 5, 10), **ray) == 1
    assert layer.get_value((20, 99, 99), **ray) is None
    assert layer.get_value((20, 10, 3)) is None, "a point in space without a ray"
    layer.visible = False
    assert layer.get_value((20, 5, 10), **ray) is None


def test_the_tolerance_grows_as_the_camera_moves_away():
    viewer = ViewerModel()
    layer = viewer.add_layer(cross())
    viewer.dims.set_point(0, 10)
    layer.scale_factor = 0.1
    assert layer.get_value((10, 13, 3)) is None
    layer.scale_factor = 1.0
    assert layer.get_value((10, 13, 3)) == 0
