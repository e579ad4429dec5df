import logging
import sys

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Layer, Tracks
from napari.layers._layer_actions import _duplicate_layer

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine, volume_layer_affine, world_layer_affine
from napari_gpubio.viewer import streamlines_controls, streamlines_visual
from napari_gpubio.viewer.line_buffers import unpack_rgb
from napari_gpubio.viewer.streamlines import Streamlines

RED, GREEN, BLUE = [255, 0, 0], [0, 255, 0], [0, 0, 255]


def cross(**options):
    """Three fibers of 21 points through (10, 10, 10): along x (red), y (green) and z (blue)."""
    points = np.full((3, 21, 3), 10.0)
    for fiber, axis in enumerate((2, 1, 0)):
        points[fiber, :, axis] = np.arange(21)
    options.setdefault("per_fiber", {"number": [0.0, 1.0, 2.0]})
    options.setdefault("per_point", {"place": np.tile(np.arange(21), 3)})
    return Streamlines(points.reshape(-1, 3), [0, 21, 42, 63], **options)


def colors(layer):
    return unpack_rgb(layer.lines.vertices[:, 3])


def calls(emitter):
    heard = []
    emitter.connect(heard.append)
    return heard


# ------------------------------------------------------------------------------------------------- the model


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


def test_it_shares_a_viewer_of_four_axes():
    viewer = ViewerModel()
    viewer.add_image(np.zeros((5, 21, 21, 21)))
    layer = viewer.add_layer(cross())
    viewer.dims.set_point(0, 3)
    assert layer.get_value((3, 10, 10, 3.2), dims_displayed=[2, 3], world=True) == 0
    assert layer.pick((3, 10, 3.2, 10), None, [2, 3], 0.5) == 1
    assert layer.pick((3, 10, 3.2, 10), (0, 0, 0, 1), [1, 2, 3], 0.5) == 1


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
        ({"color": "no such colour"}, "not one that napari knows"),
        ({"colormap": "no such map"}, "not one that napari knows"),
        ({"color_by": "number", "contrast_limits": (2, 2)}, "the first must be smaller"),
        ({"slab_mm": -1}, "give 0 mm or more"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(options, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        cross(**options)


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


def test_colour_choices():
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


def test_a_colour_bar_can_be_drawn_and_hears_of_changes():
    layer = cross(colormap="gray")
    heard = calls(layer.events.coloring)
    assert layer.color_bar_image(10, 2) is None
    assert layer.color_bar_limits is None
    layer.color_by = "place"
    layer.contrast_limits = (0, 5)
    layer.colormap = "viridis"
    layer.colormap = "gray"
    assert len(heard) == 4
    assert layer.color_bar_limits == (0, 5)
    upright, lying = layer.color_bar_image(100, 10), layer.color_bar_image(10, 100)
    assert (upright.shape, lying.shape) == ((100, 10, 4), (10, 100, 4))
    assert (upright[0, :, 0] == 255).all()
    assert (upright[-1, :, 0] == 0).all()
    assert (lying[:, 0, 0] == 0).all()
    assert upright.dtype == np.uint8


def test_the_filter_is_a_mask_of_fibers():
    layer = cross()
    heard = calls(layer.events.shown)
    layer.shown = [True, False, True]
    assert layer.shown.tolist() == [True, False, True]
    layer.shown = None
    assert layer.shown.all()
    assert len(heard) == 2
    with pytest.raises(ValueError, match="read-only"):
        layer.shown[0] = False
    for wrong in ([True], [0, 1, 2]):
        with pytest.raises(InvalidInput, match="one boolean for each of 3 fibers"):
            layer.shown = wrong


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


def test_if_the_number_is_gone_direction_takes_its_place():
    layer = cross(color_by="number")
    layer.set_streamlines(layer.points, layer.offsets, {"length": [1, 2, 3]})
    assert layer.color_by == "direction"
    assert (colors(layer)[:21] == RED).all()
    assert layer.color_choices == ["direction", "uniform", "length"]


def test_bad_new_lines_change_nothing():
    layer = cross()
    before = layer.lines
    with pytest.raises(InvalidInput):
        layer.set_streamlines(layer.points, layer.offsets, {"length": [1]})
    assert layer.lines is before


def test_bent_lines():
    layer = cross()
    layer.data = layer.data + 5
    assert np.array_equal(layer.extent.world, [[5, 5, 5], [25, 25, 25]])
    assert layer.color_choices == ["direction", "uniform", "number", "place"]


def test_features_are_the_numbers_of_each_fiber():
    layer = cross()
    assert layer.features["number"].tolist() == [0, 1, 2]
    layer.color_by = "number"
    layer.features = {"length": [5.0, 6.0, 7.0]}
    assert layer.color_choices == ["direction", "uniform", "length", "place"]
    assert layer.color_by == "direction"


def test_selection():
    layer = cross()
    heard = calls(layer.events.picked)
    layer.select_fiber(1)
    layer.select_fiber(1)
    layer.select_fiber(None)
    assert [event.fiber for event in heard] == [1, None]
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


def test_the_thumbnail_shows_the_lines():
    viewer = ViewerModel()
    layer = viewer.add_layer(cross())
    assert {tuple(rgb) for rgb in layer.thumbnail[..., :3].reshape(-1, 3)} >= {tuple(RED), tuple(GREEN)}
    layer.color_by = "uniform"
    assert not (layer.thumbnail[..., :3] == RED).all(axis=-1).any()


# ------------------------------------------------------------------------- registration, and if it fails


def test_registering_again_changes_nothing():
    from napari._vispy.utils.visual import layer_to_visual

    assert streamlines_visual.register_visual()
    assert streamlines_visual.register_visual()
    assert len([cls for cls in layer_to_visual if cls is Streamlines]) == 1


@pytest.mark.parametrize("module", ["napari._vispy.utils.visual", "napari._vispy.layers.base"])
def test_moved_internals_are_reported_once_and_survived(monkeypatch, caplog, module):
    monkeypatch.setitem(sys.modules, module, None)
    with caplog.at_level(logging.WARNING, logger=streamlines_visual.__name__):
        assert not streamlines_visual.register_visual()
    assert "own Tracks visual" in caplog.text
    assert len(caplog.records) == 1


def test_controls_without_qt(monkeypatch):
    monkeypatch.setitem(sys.modules, "napari._qt.layer_controls.qt_layer_controls_container", None)
    assert not streamlines_controls.register_controls()


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


# ------------------------------------------------------------------------------------------------ pixels


@pytest.fixture
def viewer(make_napari_viewer):
    viewer = make_napari_viewer(show=True)
    viewer.window.resize(900, 700)
    return viewer


def seen(viewer):
    return viewer.screenshot(flash=False)[..., :3].astype(int)


def count(picture, rgb):
    """Pixels in which only the channels of ``rgb`` are lit."""
    lit = picture > 40
    return int((lit == (np.array(rgb) > 0)).all(axis=-1).sum())


@pytest.mark.display
def test_lines_are_drawn_in_their_colours(viewer):
    layer = viewer.add_layer(cross())
    viewer.dims.set_point(0, 10)
    picture = seen(viewer)
    assert count(picture, RED) > 100
    assert count(picture, GREEN) > 100
    assert count(picture, BLUE) == 0, "along the view"
    viewer.dims.ndisplay = 3
    viewer.scene.camera.angles = (20, 30, 40)
    picture = seen(viewer)
    assert min(count(picture, rgb) for rgb in (RED, GREEN, BLUE)) > 100
    layer.color_by, layer.color = "uniform", "yellow"
    assert count(seen(viewer), RED) == 0
    assert count(seen(viewer), [255, 255, 0]) > 300
    layer.color_by = "number"
    layer.colormap = "green"
    picture = seen(viewer)
    assert count(picture, GREEN) > 100
    assert count(picture, RED) == 0


@pytest.mark.display
def test_the_filter_hides_fibers(viewer):
    layer = viewer.add_layer(cross())
    viewer.dims.set_point(0, 10)
    layer.shown = [False, True, False]
    picture = seen(viewer)
    assert count(picture, RED) == 0
    assert count(picture, GREEN) > 100
    layer.shown = [False, False, False]
    assert seen(viewer).max() == 0
    layer.shown = None
    assert count(seen(viewer), RED) > 100


@pytest.mark.display
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
def test_the_slab_hides_what_is_far_and_fades_what_is_near(viewer, order):
    sizes = np.array([1.0, 2.0, 3.0])
    axis = order[0]
    options = {"slab_mm": 4 * sizes[axis], "color_by": "uniform"}
    layer = viewer.add_layer(cross(affine=np.diag([*sizes * [1, -1, 1], 1.0]), **options))
    layer.shown = np.arange(3) == 2 - order[1]  # one that lies in the slice
    viewer.dims.order = order
    centre = layer.data_to_world((10, 10, 10))[axis]
    brightness = []
    for away in (0, 2, 3):
        viewer.dims.set_point(axis, centre + away * sizes[axis])
        brightness.append(seen(viewer).max())
    assert brightness == pytest.approx([255, 255 * (1 - 0.5**2), 255 * (1 - 0.75**2)], abs=2)
    viewer.dims.set_point(axis, centre - 5 * sizes[axis])
    assert seen(viewer).max() == 0
    layer.slab_mm = 0
    assert seen(viewer).max() > 250


@pytest.mark.display
def test_opacity_visibility_selection_and_width(viewer):
    layer = viewer.add_layer(cross(color_by="uniform", color="red"))
    viewer.dims.ndisplay = 3
    layer.opacity = 0.5
    assert 110 < seen(viewer)[..., 0].max() < 145
    layer.opacity = 1.0
    red = count(seen(viewer), RED)
    layer.line_width = 4
    assert count(seen(viewer), RED) > 2 * red
    layer.line_width = 1
    assert seen(viewer)[..., 1].max() == 0
    layer.select_fiber(0)
    assert (seen(viewer) == 255).all(axis=-1).sum() > 100
    layer.shown = [False, True, True]
    assert seen(viewer)[..., 1].max() == 0, "a hidden fiber is not highlighted"
    layer.shown = None
    layer.visible = False
    assert seen(viewer).max() == 0
    layer.visible = True
    for blending in ("additive", "opaque", "minimum", "translucent_no_depth"):
        layer.blending = blending
        seen(viewer)
    viewer.layers.remove(layer)
    assert seen(viewer).max() == 0


@pytest.mark.display
def test_clipping_planes_cut_the_lines(viewer):
    layer = viewer.add_layer(cross())
    viewer.dims.ndisplay = 3
    viewer.scene.camera.angles = (20, 30, 40)
    before = count(seen(viewer), RED)
    layer.experimental_clipping_planes = [{"position": (0, 0, 15), "normal": (0, 0, 1), "enabled": True}]
    picture = seen(viewer)
    assert 0 < count(picture, RED) < 0.5 * before
    assert count(picture, GREEN) == 0


@pytest.mark.display
def test_new_lines_are_drawn(viewer):
    layer = viewer.add_layer(Streamlines(np.empty((0, 3)), [0]))
    viewer.dims.ndisplay = 3
    assert seen(viewer).max() == 0
    layer.set_streamlines(cross().points[:21], [0, 21])
    viewer.reset_view()
    assert count(seen(viewer), RED) > 100
    layer.set_streamlines(cross().points, cross().offsets)
    viewer.scene.camera.angles = (20, 30, 40)
    assert min(count(seen(viewer), rgb) for rgb in (RED, GREEN, BLUE)) > 100
    layer.set_streamlines(np.empty((0, 3)), [0])
    assert seen(viewer).max() == 0


def volume_and_line(affine, shape):
    """Voxels (i, j, k) along a bent line, lit, and the line itself in world mm."""
    voxels = np.concatenate([[(i, 6, 4) for i in range(3, 16)], [(15, j, 4) for j in range(7, 12)]])
    voxels = np.concatenate([voxels, [(15, 11, k) for k in range(5, 9)]])
    volume = np.zeros(shape, np.float32)
    volume[tuple(voxels.T)] = 1.0
    return volume, apply_affine(affine, voxels)


STRAIGHT = np.array([[-1.5, 0, 0, 45.0], [0, 2, 0, -50], [0, 0, 3, -60], [0, 0, 0, 1]])
TURN = np.eye(4)
TURN[:3, :3] = [[0.9363, -0.2750, 0.2184], [0.2896, 0.9564, -0.0370], [-0.1987, 0.0978, 0.9752]]


@pytest.mark.display
@pytest.mark.parametrize("affine", [STRAIGHT, TURN @ STRAIGHT], ids=["straight", "oblique"])
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (0, 2, 1)])
@pytest.mark.parametrize("ndisplay", [2, 3])
def test_lines_lie_where_the_volume_shows_them(viewer, affine, order, ndisplay):
    shape = (20, 16, 12)
    volume, line = volume_and_line(affine, shape)
    image = viewer.add_image(volume.T, affine=volume_layer_affine(affine, shape), interpolation3d="nearest")
    layer = viewer.add_layer(
        Streamlines(
            line[:, ::-1], [0, len(line)], affine=world_layer_affine(affine, shape), color_by="uniform", slab_mm=1
        )
    )
    viewer.dims.order = order
    viewer.dims.ndisplay = ndisplay
    viewer.dims.set_point(order[0], image.data_to_world((4, 6, 15))[order[0]])
    viewer.reset_view()
    viewer.scene.camera.zoom = 12
    if ndisplay == 3:
        viewer.scene.camera.angles = (15, 25, 10)
    layer.visible = False
    bright = seen(viewer).max(axis=-1) > 100
    layer.visible, image.visible = True, False
    drawn = seen(viewer).max(axis=-1) > 100
    assert drawn.sum() > 30
    assert (drawn & bright).sum() > 0.98 * drawn.sum()
    rows, columns = np.nonzero(drawn)
    spans = [np.ptp(rows), np.ptp(columns)]
    expected = [np.ptp(where) for where in np.nonzero(bright)]
    # a line through the centres of the voxels is one voxel shorter than they are
    assert (np.array(expected) - spans < 45).all()
    assert (np.array(spans) <= expected).all()


@pytest.mark.display
def test_napari_draws_it_if_its_own_visual_cannot_be_made(viewer, monkeypatch, caplog):
    def moved(*_):
        raise AttributeError("moved")

    monkeypatch.setattr(streamlines_visual, "Bundle", moved)
    with caplog.at_level(logging.WARNING, logger=streamlines_visual.__name__):
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


# ----------------------------------------------------------------------------------------------- controls


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


@pytest.mark.display
def test_a_plugin_sees_it_through_naparis_proxy(make_napari_viewer_proxy):
    viewer = make_napari_viewer_proxy()
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
