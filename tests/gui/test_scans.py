"""What happens in a viewer when scans arrive: the view turns upright, tilted scans are named and put in register."""

from types import SimpleNamespace

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.utils.notifications import notification_manager

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried, grid_of, stored_array, volume_layer, volume_of
from napari_gpubio.core.space import tilt_degrees, to_layer
from napari_gpubio.core.world_aligned import WorldAligned
from napari_gpubio.gui.anatomy import OVERLAY
from napari_gpubio.gui.scans import (
    follow_scans,
    is_displaced,
    new_region,
    on_activate,
    show_in_register,
    step_slices,
)
from napari_gpubio.gui.views import VIEWS, camera_of, fit_unmoved, set_view, toggle_linked_views, view_of
from tests.volume_samples import AFFINES, OBLIQUE, VOLUME

ROTATED = {
    "rotate": np.array([[1, 0, 0], [0, 0.8, -0.6], [0, 0.6, 0.8]]),
    "scale": (2.0, 1.5, 1.0),
    "units": ("mm",) * 3,
}


@pytest.fixture
def viewer():
    viewer = ViewerModel()
    follow_scans(viewer)
    return viewer


@pytest.fixture
def messages():
    """The messages of the notifications since the test began."""
    first = len(notification_manager.records)
    return lambda: [record.message for record in notification_manager.records[first:]]


def add(viewer, name, kind="image"):
    data, keywords, _ = volume_layer(VOLUME.astype(np.uint8), AFFINES[name], f"{name} {kind}", kind=kind)
    return viewer.add_labels(data, **keywords) if kind == "labels" else viewer.add_image(data, **keywords)


def test_the_first_scan_turns_the_view_upright_with_letters_and_a_scale_bar(viewer):
    viewer.add_image(np.zeros((4, 4)))
    assert (view_of(viewer), OVERLAY in viewer.canvas.overlays) == (None, False)
    add(viewer, "cubic")
    assert view_of(viewer) == "neurological"
    assert OVERLAY in viewer.canvas.overlays
    assert viewer.canvas.overlays.scale_bar.visible


def test_a_scan_in_mm_gives_the_axes_their_names_and_unit(viewer):
    add(viewer, "cubic")
    add(viewer, "oblique")
    assert viewer.dims.axis_labels == ("z", "y", "x")
    assert [str(unit) for unit in viewer.dims.units] == ["millimeter"] * 3


def test_layers_are_fitted_to_the_canvas_until_somebody_moves_them():
    viewer = ViewerModel()
    assert not fit_unmoved(viewer)
    viewer.add_image(VOLUME)
    camera = camera_of(viewer)
    fits, center = camera.zoom, camera.center
    camera.zoom *= 0.95  # as sliders below the canvas do
    assert fit_unmoved(viewer)
    assert camera.zoom == pytest.approx(fits)
    for moved, zoom in ((1.0, fits), (0.0, 2 * fits)):
        camera.center, camera.zoom = np.add(center, moved), zoom
        assert not fit_unmoved(viewer)
        np.testing.assert_allclose((*camera.center, camera.zoom), (*np.add(center, moved), zoom))


@pytest.mark.parametrize("chosen", [VIEWS["radiological"], ("away", "down", "right")])
def test_a_view_that_the_user_chose_stays(viewer, chosen):
    camera_of(viewer).orientation = chosen
    add(viewer, "cubic")
    assert tuple(str(one.value) for one in camera_of(viewer).orientation) == chosen


def test_a_view_chosen_after_the_first_scan_stays(viewer):
    add(viewer, "cubic")
    set_view(viewer, "radiological")
    add(viewer, "anisotropic")
    assert view_of(viewer) == "radiological"


def test_scans_that_are_there_before_count_and_following_twice_does_nothing(messages):
    viewer = ViewerModel()
    add(viewer, "oblique")
    follow_scans(viewer)
    follow_scans(viewer)
    assert view_of(viewer) == "neurological"
    assert len(messages()) == 1


def test_a_tilted_scan_is_named_once_with_its_angle(viewer, messages):
    add(viewer, "cubic")
    add(viewer, "oblique")
    add(viewer, "oblique", "labels")
    (message,) = messages()
    assert "oblique image" in message
    assert f"{tilt_degrees(AFFINES['oblique']):.1f}°" in message
    add(viewer, "oblique sagittal")
    assert len(messages()) == 2


@pytest.mark.parametrize("name", [*OBLIQUE, "sagittal"])
@pytest.mark.parametrize("kind", ["image", "labels", "series"])
def test_a_rotated_layer_of_others_is_put_in_register(viewer, messages, name, kind):
    affine, data = to_layer(AFFINES[name]), VOLUME.T.astype(np.uint8)
    if kind == "labels":
        layer = viewer.add_labels(data, affine=affine, name="theirs", units=("mm",) * 3)
    elif kind == "image":
        layer = viewer.add_image(data, affine=affine, name="theirs", units=("mm",) * 3, colormap="magma", opacity=0.5)
    else:
        affine = np.block([[np.ones((1, 1)), np.zeros((1, 4))], [np.zeros((4, 1)), affine]])
        units = ("pixel", "mm", "mm", "mm")
        layer = viewer.add_image(np.stack([data, data + 1]), affine=affine, name="theirs", units=units)
    above = viewer.add_image(np.zeros((3, 3, 3)), name="above")
    (message,) = messages()
    assert "theirs" in message
    shown = show_in_register(viewer, layer)
    assert [one.name for one in viewer.layers] == ["theirs", "above"]
    assert above in viewer.layers
    assert isinstance(shown.data, WorldAligned) == (name in OBLIQUE)
    assert not is_displaced(shown)
    np.testing.assert_allclose(grid_of(shown)[0], AFFINES[name], atol=1e-6)
    np.testing.assert_array_equal(stored_array(shown), layer.data.T)
    if kind == "image":
        assert (shown.colormap.name, shown.opacity) == ("magma", 0.5)
    if kind == "series":
        assert shown.data.shape[0] == 2


def test_the_notification_has_the_remedy(viewer):
    layer = viewer.add_image(VOLUME, name="theirs", **ROTATED)
    ((text, act),) = notification_manager.records[-1].actions
    assert text == "Show in register"
    act()
    assert layer not in viewer.layers
    assert isinstance(viewer.layers["theirs"].data, WorldAligned)
    act()  # clicked twice
    assert len(viewer.layers) == 1


def test_straight_layers_of_others_are_left_alone(viewer, messages):
    for name in ("cubic", "left-handed", "anisotropic"):
        viewer.add_image(VOLUME.T, affine=to_layer(AFFINES[name]))
    viewer.add_image(np.zeros((4, 5)), rotate=30)
    viewer.add_image(np.zeros((4, 5, 3), np.uint8), rgb=True)
    assert messages() == []


@pytest.mark.parametrize("name", ["left-handed", "oblique"])
def test_a_new_region_lies_on_the_voxels_of_the_scan(viewer, name):
    scan = add(viewer, name)
    viewer.layers.selection.active = scan
    region = new_region(viewer)
    assert (str(region.mode), volume_of(region).shape) == ("paint", VOLUME.shape)
    np.testing.assert_array_equal(grid_of(region)[0], AFFINES[name])
    assert carried(region, "affine") is not None
    viewer.layers.selection.clear()
    with pytest.raises(InvalidInput, match="select the scan"):
        new_region(viewer)


@pytest.mark.display
def test_the_linked_views_open_and_close_by_a_key(make_window):
    viewer = make_window()
    on_activate()  # napari calls it once, maybe for a viewer of an earlier test
    viewer.open_sample("napari-gpubio", "ring_bundle")
    assert view_of(viewer) == "neurological"
    toggle_linked_views(viewer)
    assert [name for name in viewer.window.dock_widgets if "Linked views" in name]
    toggle_linked_views(viewer)
    assert not [name for name in viewer.window.dock_widgets if "Linked views" in name]


@pytest.mark.display
def test_every_viewer_is_followed(make_window, qtbot):
    first, second = make_window(), make_window()
    on_activate()
    for viewer in (first, second):
        add(viewer, "cubic")
        assert view_of(viewer) == "neurological"
        assert OVERLAY in viewer.canvas.overlays
    later = make_window(show=True)
    add(later, "cubic")
    later.window._qt_window.activateWindow()
    qtbot.wait_until(lambda: view_of(later) == "neurological" and OVERLAY in later.canvas.overlays)


@pytest.mark.display
def test_new_images_come_below_points_and_fibers_but_above_other_images(viewer, qtbot):
    def names_after(*added):
        qtbot.wait(1)
        return [layer.name for layer in viewer.layers]

    old, points = add(viewer, "cubic"), viewer.add_points(np.zeros((1, 3)), name="seeds")
    add(viewer, "anisotropic"), add(viewer, "cubic", "labels")
    viewer.add_shapes([np.eye(3)], shape_type="polygon", name="contour")
    assert names_after() == ["cubic image", "anisotropic image", "cubic labels", "seeds", "contour"]
    viewer.layers.move(viewer.layers.index(old), 5)
    viewer.layers.selection.active = points
    add(viewer, "anisotropic")
    assert names_after()[-2:] == ["cubic image", "anisotropic image [1]"], "above an image that the user put on top"
    viewer.add_image(np.zeros((4, 4, 4)), name="foreign")
    viewer.add_points(np.zeros((1, 3)), name="tips")
    viewer.add_image(np.zeros((4, 4, 4)), name="other")
    assert names_after()[-1] == "other", "only images of ours are moved"
    placed = add(viewer, "cubic", "labels")
    viewer.layers.move(len(viewer.layers) - 1, 0)
    assert names_after()[0] == placed.name, "what was put elsewhere at once stays there"


# -- what is on screen decides how it is shown -------------------------------------------------------------------------


def shown(viewer):
    """The camera's orientation, and whether there are letters and a scale bar."""
    overlays = viewer.canvas.overlays
    letters = OVERLAY in overlays and overlays[OVERLAY].visible
    return tuple(str(one.value) for one in camera_of(viewer).orientation), letters, overlays.scale_bar.visible


@pytest.mark.parametrize("goes", ["removed", "hidden"])
def test_frames_are_shown_as_stored_once_no_scan_is_on_screen(viewer, qtbot, goes):
    stored = shown(viewer)
    scan, frames = add(viewer, "cubic"), viewer.add_image(np.zeros((5, 8, 8)), name="frames")
    set_view(viewer, "radiological")
    body = VIEWS["radiological"], True, True
    assert shown(viewer) == body
    if goes == "removed":
        viewer.layers.remove(scan)
    else:
        scan.visible = False
    qtbot.waitUntil(lambda: shown(viewer) == stored)
    if goes == "removed":
        add(viewer, "cubic")
    else:
        scan.visible = True
    qtbot.waitUntil(lambda: shown(viewer) == body)
    frames.visible = scan.visible = False  # nothing is on screen: no reason to turn anything
    qtbot.wait(20)
    assert shown(viewer) == body or goes == "removed"


def test_a_view_of_the_users_own_stays_with_plain_arrays(viewer, qtbot):
    viewer.add_image(np.zeros((4, 4)))
    camera_of(viewer).orientation = ("away", "down", "left")
    scan = add(viewer, "cubic")
    assert shown(viewer)[0] == ("away", "down", "left")
    camera_of(viewer).orientation = VIEWS["neurological"]
    scan.visible = False
    qtbot.waitUntil(lambda: shown(viewer)[0] == ("away", "down", "left"))


# -- the mouse --------------------------------------------------------------------------------------------------------


def test_ctrl_and_the_wheel_step_the_slices_not_the_volumes_of_a_series(viewer):
    viewer.add_image(np.zeros((3, 4, 5, 6)))
    viewer.dims.last_used = 0
    step_slices(viewer, SimpleNamespace(modifiers=[]))
    assert viewer.dims.last_used == 0
    step_slices(viewer, SimpleNamespace(modifiers=["Control"]))
    assert viewer.dims.last_used == 1
    assert viewer.mouse_wheel_callbacks[0] is step_slices


@pytest.mark.parametrize("beside_series", [False, True])
def test_a_plane_is_moved_by_napari_only_where_it_can_and_no_panel_has_the_clicks(viewer, qtbot, beside_series):
    image = viewer.add_image(np.random.default_rng(0).random((8, 9, 10)))
    if beside_series:
        viewer.add_image(np.zeros((3, 8, 9, 10)))
    viewer.layers.selection.active = image
    viewer.dims.ndisplay = 3
    image.depiction = "plane"
    [move] = image.mouse_drag_callbacks
    first = (0.0,) * (viewer.dims.ndim - 3)
    event = SimpleNamespace(
        position=(*first, 4.0, 4.5, 5.0), view_direction=(*first, 1.0, 0.0, 0.0), modifiers=["Shift"],
        dims_displayed=list(viewer.dims.displayed), type="mouse_press",
    )  # fmt: skip
    assert (move(image, event) is None) == beside_series
    image.depiction = "volume"
    assert image.mouse_drag_callbacks == []
