"""Axes: round trips through every kind of affine, and what napari is shown."""

import numpy as np
import pytest
from napari.layers import Image
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


@EVERY_AFFINE
def test_viewer_and_world_are_inverse_and_leading_axes_are_ignored(true):
    shown = space.world_to_viewer(POINTS, true, SHAPE)
    with_time = np.concatenate([np.full((20, 1), 99.0), shown], axis=1)
    for position in (shown, with_time):
        np.testing.assert_allclose(space.viewer_to_world(position, true, SHAPE), POINTS, atol=1e-9)


@pytest.mark.parametrize("name", STRAIGHT)
def test_a_straight_volume_is_shown_as_it_is(name):
    np.testing.assert_array_equal(space.display_affine(STRAIGHT[name], SHAPE), STRAIGHT[name])
    assert not space.is_straightened(STRAIGHT[name], SHAPE)
    np.testing.assert_allclose(space.world_to_viewer(POINTS, STRAIGHT[name], SHAPE), POINTS[:, ::-1])
    np.testing.assert_allclose(space.world_layer_affine(STRAIGHT[name], SHAPE), np.eye(4), atol=1e-12)


@pytest.mark.parametrize("name", OBLIQUE)
def test_an_oblique_volume_is_shown_straightened(name):
    true, shown = OBLIQUE[name], space.display_affine(OBLIQUE[name], SHAPE)
    assert space.is_straightened(true, SHAPE)
    assert (np.count_nonzero(shown[:3, :3], axis=0) == 1).all()
    assert (np.count_nonzero(shown[:3, :3], axis=1) == 1).all()
    np.testing.assert_allclose(space.voxel_sizes_mm(shown), space.voxel_sizes_mm(true))
    center = (np.array(SHAPE) - 1) / 2
    np.testing.assert_allclose(space.apply_affine(shown, center), space.apply_affine(true, center))
    assert np.sign(np.linalg.det(shown[:3, :3])) == np.sign(np.linalg.det(true[:3, :3]))
    assert (np.sum(shown[:3, :3] * true[:3, :3], axis=0) > 0).all()  # each axis still points its way
    np.testing.assert_array_equal(space.display_affine(shown, SHAPE), shown)  # it is straight itself


@EVERY_AFFINE
def test_layers_of_one_volume_lie_together_where_napari_draws_them(true):
    voxels = np.array([[0, 0, 0], [6, 0, 0], [0, 8, 0], [0, 0, 10], [3, 4, 5.5]])
    volume_layer, world_layer = space.volume_layer_affine(true, SHAPE), space.world_layer_affine(true, SHAPE)
    world = space.apply_affine(true, voxels)
    from_volume = space.apply_affine(volume_layer, voxels[:, ::-1])  # the layer holds array.T
    from_world = space.apply_affine(world_layer, world[:, ::-1])
    np.testing.assert_allclose(from_volume, from_world, atol=1e-9)
    np.testing.assert_allclose(from_volume, space.world_to_viewer(world, true, SHAPE), atol=1e-9)
    layer = Image(np.zeros(SHAPE).T, affine=volume_layer)
    clicked = space.viewer_to_world(layer.data_to_world((4, 3, 2)), true, SHAPE)
    np.testing.assert_allclose(clicked, space.apply_affine(true, (2, 3, 4)), atol=1e-9)


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
    ],
)
def test_a_bad_affine_is_refused(matrix, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        space.checked_affine(matrix)


def test_a_good_affine_becomes_float64():
    assert space.checked_affine(np.eye(4, dtype=np.int16).tolist()).dtype == np.float64
