"""Axes: round trips through every kind of affine, and what napari is shown."""

import nibabel as nib
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core import space
from napari_gpubio.core.errors import InvalidInput

SHAPE = (7, 9, 11)
POINTS = np.random.default_rng(0).normal(size=(20, 3)) * 30


def affine(matrix, origin=(-10.0, 20.0, 5.0)):
    full = np.eye(4)
    full[:3, :3], full[:3, 3] = matrix, origin
    return full


def rotation(x, y, z):
    """Rotation by angles in degrees about x, then y, then z."""
    return Rotation.from_euler("xyz", [x, y, z], degrees=True).as_matrix()


SIZES = np.diag([2.0, 1.5, 3.0])
SHEAR = np.array([[1.0, 0.2, 0.0], [0.0, 1.0, 0.1], [0.0, 0.0, 1.0]])
FLIP = np.diag([-1.0, 1.0, 1.0])
CYCLE = np.eye(3)[[2, 0, 1]]
STRAIGHT = {
    "isotropic": affine(np.eye(3)),
    "anisotropic": affine(SIZES),
    "left-handed": affine(FLIP @ SIZES),
    "all reversed": affine(-SIZES),
    "other axis order": affine(CYCLE @ SIZES),
    "other axis order, left-handed": affine(CYCLE @ FLIP @ SIZES),
}
OBLIQUE = {
    "rotated": affine(rotation(10, -15, 20) @ SIZES),
    "rotated, left-handed": affine(rotation(-12, 8, 5) @ FLIP @ SIZES),
    "rotated, other axis order": affine(rotation(5, 9, -20) @ CYCLE @ SIZES),
    "sheared": affine(SIZES @ SHEAR),
    "rotated and sheared": affine(rotation(5, 10, 15) @ SHEAR @ SIZES),
}
ALL = STRAIGHT | OBLIQUE
EVERY_AFFINE = pytest.mark.parametrize("true", ALL.values(), ids=list(ALL))


def test_a_viewer_position_is_a_world_position_read_backwards():
    shown = space.world_to_viewer(POINTS)
    np.testing.assert_array_equal(shown, POINTS[:, ::-1])
    np.testing.assert_array_equal(space.viewer_to_world(shown), POINTS)
    with_time = np.concatenate([np.full((20, 1), 99.0), shown], axis=1)
    np.testing.assert_array_equal(space.viewer_to_world(with_time), POINTS)


@pytest.mark.parametrize("name", ALL)
def test_a_volume_is_oblique_if_its_axes_do_not_follow_the_worlds(name):
    assert space.is_oblique(ALL[name]) == (name in OBLIQUE)


@pytest.mark.parametrize("degrees", [0.0, 3.0, 10.0, 40.0])
def test_the_tilt_is_the_largest_angle_to_an_axis_of_the_world(degrees):
    assert space.tilt_degrees(affine(rotation(degrees, 0, 0) @ CYCLE @ SIZES)) == pytest.approx(degrees, abs=1e-6)


def test_slices_lie_as_far_apart_as_the_voxels_along_the_nearest_axis():
    np.testing.assert_allclose(space.slice_steps_mm(STRAIGHT["anisotropic"]), (3.0, 1.5, 2.0))
    np.testing.assert_allclose(space.slice_steps_mm(affine(rotation(5, 9, -20) @ SIZES)), (3.0, 1.5, 2.0))
    np.testing.assert_allclose(space.slice_steps_mm(STRAIGHT["other axis order"]), (1.5, 2.0, 3.0))


@EVERY_AFFINE
def test_directions_are_orthonormal_and_know_their_hand(true):
    directions = space.rotation_of(true)
    np.testing.assert_allclose(directions.T @ directions, np.eye(3), atol=1e-12)
    assert np.linalg.det(directions) == pytest.approx(np.sign(np.linalg.det(true[:3, :3])))


def test_directions_of_a_rotated_volume_are_its_rotation():
    turn = rotation(10, 20, 30)
    np.testing.assert_allclose(space.rotation_of(affine(turn @ SIZES)), turn, atol=1e-12)
    np.testing.assert_allclose(space.voxel_sizes_mm(affine(turn @ SIZES)), [2.0, 1.5, 3.0])


def test_apply_affine_keeps_the_shape_of_the_points():
    grid = np.zeros((4, 5, 3))
    assert space.apply_affine(ALL["sheared"], grid).shape == (4, 5, 3)
    np.testing.assert_allclose(space.apply_affine(ALL["sheared"], (0, 0, 0)), (-10, 20, 5))


def test_voxels_in_another_order_are_the_same_voxels():
    """As MRtrix writes them: the axes follow x, y, z."""
    affine = np.array([[0.0, -1.5, 0, 40], [0.1, 0, 2.0, -8], [-2.0, 0, 0.1, 30], [0, 0, 0, 1]])
    values = np.random.default_rng(0).random((4, 5, 6))
    order = nib.io_orientation(affine)
    turned = nib.orientations.apply_orientation(values, order)
    other = affine @ nib.orientations.inv_ornt_aff(order, values.shape)
    assert turned.shape != values.shape
    assert space.same_voxels(values.shape, affine, turned.shape, other)
    assert space.same_voxels((*turned.shape, 45), other, values.shape, affine)
    assert not space.same_voxels(values.shape, affine, turned.shape[::-1], other)
    shifted = other @ np.array([[1, 0, 0, 0.5], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    assert not space.same_voxels(values.shape, affine, turned.shape, shifted)
    assert not space.same_voxels(values.shape, affine, values.shape, 2 * affine)


def test_the_same_grid_is_the_same_to_a_micrometer():
    true = ALL["rotated"]
    moved = true.copy()
    moved[0, 3] += 5e-4
    assert space.same_grid((*SHAPE, 30), true, SHAPE, moved)
    moved[0, 3] += 1e-2
    assert not space.same_grid(SHAPE, true, SHAPE, moved)
    assert not space.same_grid(SHAPE, true, (7, 9, 12), true)
    turned = true.copy()
    turned[:3, :3] = true[:3, :3] @ rotation(0, 0, 0.02)  # 0.35 mrad: 1 mm off at 3 m, 8 um in this small volume
    assert not space.same_grid(SHAPE, true, SHAPE, turned)


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        (np.eye(3), "shape .3, 3."),
        (np.full((4, 4), np.nan), "not finite"),
        (np.diag([np.inf, 1.0, 1.0, 1.0]), "not finite"),
        (np.diag([1.0, 1.0, 0.0, 1.0]), "cannot be inverted"),
        (np.diag([1.0, 1.0, 1e-310, 1.0]), "cannot be inverted"),  # whose square is 0
    ],
)
def test_a_bad_affine_is_refused(matrix, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        space.checked_affine(matrix)


def test_a_good_affine_becomes_float64():
    assert space.checked_affine(np.eye(4, dtype=np.int16).tolist()).dtype == np.float64
