"""Positions under a click, in slices and in 3-D, and markers that are dragged."""

from types import SimpleNamespace

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image
from scipy.spatial.transform import Rotation

from napari_gpubio.core.space import apply_affine, to_layer
from napari_gpubio.gui.picking import clicked_position, drag_on_plane, screen_distance

# voxels of 3 x 2 x 1.5 mm (z, y, x), x and y flipped, moved
AFFINE = np.array([[3.0, 0, 0, -30], [0, -2.0, 0, 50], [0, 0, -1.5, 45], [0, 0, 0, 1]])
SHAPE = (12, 16, 20)


def event(position, direction=None, displayed=None, zoom=1.0):
    if displayed is None:
        displayed = [1, 2] if direction is None else [0, 1, 2]
    return SimpleNamespace(
        position=tuple(position), view_direction=direction, dims_displayed=displayed, camera_zoom=zoom
    )


def volume(*bright, value=1.0, affine=AFFINE, **options):
    data = np.zeros(SHAPE, np.float32)
    for voxel in bright:
        data[voxel] = value
    return Image(data, affine=affine, contrast_limits=(0, 1), **options)


def shown_in_3d(*layers, order=None):
    viewer = ViewerModel(ndisplay=3)
    for layer in layers:
        viewer.add_layer(layer)
    if order is not None:
        viewer.dims.order = order
    return viewer


def ray_to(world, direction, back=40.0):
    direction = np.asarray(direction, float) / np.linalg.norm(direction)
    return event(np.asarray(world) - back * direction, direction)


def voxel_of(image, world):
    return tuple(np.round(image.world_to_data(world)).astype(int))


def test_in_a_slice_the_event_knows():
    image = volume()
    assert clicked_position(event((3.0, -7.0, 2.0)), image).tolist() == [3, -7, 2]
    assert clicked_position(event((99.0, 3.0, -7.0, 2.0), displayed=[2, 3]), image).tolist() == [3, -7, 2]


@pytest.mark.parametrize("direction", [(1, 0, 0), (-1, 0, 0), (0, 0, 1), (1, 1, 0.2), (-0.3, 0.8, -0.5)])
@pytest.mark.parametrize("mode", ["first", "maximum"])
def test_the_ray_finds_the_bright_voxel(direction, mode):
    image = volume((5, 9, 14))
    shown_in_3d(image)
    target = apply_affine(AFFINE, (5, 9, 14))
    found = clicked_position(ray_to(target, direction), image, mode=mode)
    assert voxel_of(image, found) == (5, 9, 14)
    # at its front side, and on the ray
    direction = np.array(direction) / np.linalg.norm(direction)
    assert np.linalg.norm(np.cross(found - target, direction)) < 1e-6
    assert (found - target) @ direction < 1e-6


def test_of_two_voxels_the_first_is_taken_or_the_brightest():
    image = volume((5, 9, 4), value=0.8)
    image.data[5, 9, 14] = 1.0
    shown_in_3d(image)
    along_x = ray_to(apply_affine(AFFINE, (5, 9, 10)), (0, 0, -1))  # x is flipped: toward higher indices
    assert voxel_of(image, clicked_position(along_x, image)) == (5, 9, 4)
    assert voxel_of(image, clicked_position(along_x, image, threshold=0.9)) == (5, 9, 14)
    assert voxel_of(image, clicked_position(along_x, image, mode="maximum")) == (5, 9, 14)
    image.contrast_limits = (0, 10)
    assert clicked_position(along_x, image) is None
    assert voxel_of(image, clicked_position(along_x, image, mode="maximum")) == (5, 9, 14)


@pytest.mark.parametrize("mode", ["first", "maximum"])
def test_a_miss_and_values_that_are_not_finite(mode):
    image = volume((5, 9, 14))
    shown_in_3d(image)
    for voxel in ((5, 9, 200), (5, 2, 2)):  # beside the volume, and through the dark
        assert clicked_position(ray_to(apply_affine(AFFINE, voxel), (1, 0, 0)), image, mode=mode) is None
    image.data[0] = np.nan
    image.data[1] = np.inf
    down = ray_to(apply_affine(AFFINE, (5, 9, 14)), (1, 0, 0))
    assert voxel_of(image, clicked_position(down, image, mode=mode)) == (5, 9, 14)


TURN = Rotation.from_euler("xyz", [20, -35, 50], degrees=True).as_matrix()
OBLIQUE = np.eye(4)
OBLIQUE[:3, :3] = TURN @ np.diag([3, 2, 1.5])


@pytest.mark.parametrize("affine", [AFFINE, OBLIQUE], ids=["straight", "oblique"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_turned_axes_and_oblique_affines(affine, order):
    image = volume((5, 9, 14), affine=affine)
    shown_in_3d(image, order=order)
    click = ray_to(apply_affine(affine, (5, 9, 14)), (1, 1, 0.2))
    click.dims_displayed = list(order)
    assert voxel_of(image, clicked_position(click, image)) == (5, 9, 14)


def test_the_affine_of_a_volume_of_this_package():
    nifti = np.diag([-1.5, 2.0, 3.0, 1.0])
    nifti[:3, 3] = (45, -50, -60)
    array = np.zeros(SHAPE[::-1], np.float32)
    array[14, 9, 5] = 1.0
    image = Image(array.T, affine=to_layer(nifti), contrast_limits=(0, 1))
    shown_in_3d(image)
    ras = apply_affine(nifti, (14, 9, 5))
    found = clicked_position(ray_to(ras[::-1], (1, 0.2, 0)), image)
    assert found[::-1] == pytest.approx(ras, abs=1.6)


def test_four_axes():
    """Of a series the current volume counts."""
    data = np.zeros((3, *SHAPE), np.float32)
    data[1, 5, 9, 14] = data[2, 5, 9, 4] = 1.0
    affine = np.eye(5)
    affine[1:, 1:] = AFFINE
    affine[0, 0] = 0.5  # s per volume
    image = Image(data, affine=affine, contrast_limits=(0, 1))
    viewer = shown_in_3d(image)
    x = ray_to(apply_affine(AFFINE, (5, 9, 10)), (0, 0, -1))
    for time, expected in ((1, (5, 9, 14)), (2, (5, 9, 4))):
        seconds = time / 2
        viewer.dims.set_point(0, seconds)
        click = event((seconds, *x.position), np.array([0, *x.view_direction]), [1, 2, 3])
        found = clicked_position(click, image)
        assert found.shape == (3,)
        assert voxel_of(image, (seconds, *found)) == (time, *expected)
    assert clicked_position(event((0, *x.position), np.array([0, *x.view_direction]), [1, 2, 3]), image) is None
    alone = volume((5, 9, 14))  # of three axes, in a viewer of four
    shown_in_3d(Image(np.zeros((3, 2, 2, 2))), alone)
    click = event((2, *x.position), np.array([0, *x.view_direction]), [1, 2, 3])
    assert voxel_of(alone, clicked_position(click, alone)) == (5, 9, 14)


def test_color_volumes_and_image_pyramids():
    rgb = np.zeros((*SHAPE, 3), np.uint8)
    rgb[5, 9, 14] = (0, 200, 0)
    color = Image(rgb, rgb=True, affine=AFFINE, contrast_limits=(0, 255))
    full = np.zeros((24, 32, 40), np.float32)
    full[10:12, 18:20, 28:30] = 1.0
    half = np.eye(4)
    half[:3, :3] /= 2
    pyramid = Image([full, full[::2, ::2, ::2]], affine=AFFINE @ half, contrast_limits=(0, 1))
    for image, voxel in ((color, (5, 9, 14)), (pyramid, (10, 18, 28))):
        shown_in_3d(image)
        found = clicked_position(ray_to(image.data_to_world(voxel), (1, 1, 0.2)), image)
        assert np.abs(image.world_to_data(found) - voxel).max() < 1.6


def test_an_image_shown_as_a_plane_is_hit_on_the_plane():
    image = volume(depiction="plane")
    image.plane.position, image.plane.normal = (6, 0, 0), (1, 0, 0)
    shown_in_3d(image)
    target = apply_affine(AFFINE, (6, 9.3, 14.2))
    assert clicked_position(ray_to(target, (1, 0.4, -0.3)), image) == pytest.approx(target)
    assert clicked_position(ray_to(target, (0, 0.4, -0.3)), image) is None, "along the plane"
    beside = apply_affine(AFFINE, (6, 9, 40))
    assert clicked_position(ray_to(beside, (1, 0, 0)), image) is None
    slanted = np.array([1.0, 1.0, 0.0])
    image.plane.position, image.plane.normal = (5, 9, 3), tuple(slanted)
    found = clicked_position(ray_to(target, (1, 0.4, -0.3)), image)
    assert (image.world_to_data(found) - (5, 9, 3)) @ slanted == pytest.approx(0, abs=1e-9)


def test_a_drag_stays_in_its_plane():
    anchor = np.array([10.0, 20.0, 30.0])
    direction = np.array([1.0, 2.0, 2.0]) / 3
    moved = drag_on_plane(event((0, 0, 0), direction), anchor)
    assert (moved - anchor) @ direction == pytest.approx(0)
    assert np.cross(moved, direction) == pytest.approx(0), "on the ray through the cursor"
    four = event((7, 0, 0, 0), np.array([0, *direction]), [1, 2, 3])
    assert drag_on_plane(four, anchor) == pytest.approx(moved)
    assert drag_on_plane(event((5, 6, 7)), anchor).tolist() == [5, 6, 7]
    assert drag_on_plane(event((9, 5, 6, 7), displayed=[2, 3]), anchor).tolist() == [5, 6, 7]


def test_distance_on_the_screen():
    marker = (10.0, 3.0, 4.0)
    assert screen_distance(event((99, 0, 0), zoom=2), marker) == pytest.approx(10)
    assert screen_distance(event((0, 99, 0), displayed=[0, 2], zoom=1), marker) == pytest.approx(np.hypot(10, 4))
    assert screen_distance(event((7, 99, 0, 0), displayed=[2, 3]), marker, zoom=3) == pytest.approx(15)
    assert screen_distance(event((0, 0, 0), np.array([2.0, 0, 0])), marker) == pytest.approx(5)
    assert screen_distance(event((0, 7, 3, 0), np.array([0, 5.0, 0, 0]), [1, 2, 3]), marker) == pytest.approx(4)


@pytest.mark.display
@pytest.mark.parametrize("ndisplay", [2, 3])
def test_a_real_click(make_window, qtbot, ndisplay):
    from qtpy.QtCore import QPoint, Qt

    viewer = make_window(show=True)
    viewer.window.resize(900, 700)
    image = viewer.add_layer(volume((5, 9, 14)))
    viewer.dims.ndisplay = ndisplay
    target = apply_affine(AFFINE, (5, 9, 14))
    viewer.dims.set_point(0, target[0])
    viewer.scene.camera.center = tuple(target)
    viewer.scene.camera.zoom = 8
    if ndisplay == 3:
        viewer.scene.camera.angles = (20, 30, 40)
    clicks = []
    viewer.mouse_drag_callbacks.append(
        lambda _, e: clicks.append((clicked_position(e, image), screen_distance(e, target)))
    )
    canvas = viewer.window._qt_viewer.canvas.native
    viewer.screenshot(flash=False)  # so that the camera has moved
    qtbot.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=QPoint(canvas.width() // 2, canvas.height() // 2))
    [(found, pixels)] = clicks
    assert voxel_of(image, found) == (5, 9, 14)
    assert pixels < 2
