"""Scalar maps against their formulas, and ellipsoids as meshes."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion import TensorField
from napari_gpubio.diffusion.tensors import ellipsoid_mesh as glyphs
from napari_gpubio.diffusion.tensors import scalar_map
from napari_gpubio.diffusion.tensors.ellipsoid_mesh import ellipsoids, icosphere, nearby_voxels, slice_voxels
from napari_gpubio.diffusion.tensors.scalar_maps import fractional_anisotropy
from tests.diffusion.tensor_samples import six, turned

TURNS = Rotation.random(27, random_state=6).as_matrix()
AFFINE = np.array([[-2.0, 0.1, 0, 30], [0, 2.5, 0.2, -20], [0.1, 0, 3.0, 5], [0, 0, 0, 1]])


def field_with(eigenvalues, turns=TURNS, **more):
    """A field of 3 x 3 x 3 voxels with given eigenvalues (one triple, or one for each voxel)."""
    tensors = six(turned(np.broadcast_to(eigenvalues, (27, 3)), turns)).reshape(3, 3, 3, 6)
    return TensorField(**{"tensors": tensors, "mask": np.ones((3, 3, 3), bool), "affine": AFFINE, **more})


# -- scalar maps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("eigenvalues", "fa"),
    [
        ((1, 1, 1), 0.0),
        ((1, 0, 0), 1.0),
        ((1, 1, 0), np.sqrt(1 / 2)),
        ((2, 1, 1), np.sqrt(1 / 6)),
        ((1.7, 0.3, 0.3), 1.4 / np.sqrt(1.7**2 + 2 * 0.3**2)),
        ((3, 2, 1), np.sqrt(3 / 14)),
        ((0, 0, 0), 0.0),
        ((1, 1, -1), 1.0),  # not positive: the formula gives 2/sqrt(3), which is no anisotropy
    ],
)
def test_fractional_anisotropy_follows_its_formula(eigenvalues, fa):
    assert fractional_anisotropy(np.array(eigenvalues, float)) == pytest.approx(fa, abs=1e-15)
    assert fractional_anisotropy(1e-3 * np.array([[eigenvalues]], float))[0, 0] == pytest.approx(fa, abs=1e-15)


@pytest.mark.parametrize("name", ["FA", "MD", "AD", "RD"])
def test_maps_of_known_eigenvalues(name):
    eigenvalues = np.sort(np.random.default_rng(3).uniform(0.1e-3, 2e-3, (27, 3)), axis=1)[:, ::-1]
    deviation = eigenvalues - eigenvalues.mean(axis=1, keepdims=True)
    expected = {
        "FA": np.sqrt(1.5) * np.linalg.norm(deviation, axis=1) / np.linalg.norm(eigenvalues, axis=1),
        "MD": eigenvalues.mean(axis=1),
        "AD": eigenvalues[:, 0],
        "RD": (eigenvalues[:, 1] + eigenvalues[:, 2]) / 2,
    }[name]
    values = scalar_map(field_with(eigenvalues), name)
    assert (values.dtype, values.shape) == (np.float32, (3, 3, 3))
    np.testing.assert_allclose(values.ravel(), expected, rtol=1e-6)


def test_colors_are_the_principal_direction_times_anisotropy():
    field = field_with((1.7e-3, 0.3e-3, 0.3e-3))
    direction, color = scalar_map(field, "V1"), scalar_map(field, "DEC")
    first = TURNS[:, :, 0].reshape(3, 3, 3, 3)
    np.testing.assert_allclose(np.abs((direction * first).sum(-1)), 1, atol=1e-6)
    np.testing.assert_allclose(color, np.abs(first) * scalar_map(field, "FA")[..., None], atol=1e-6)
    for color in np.eye(3):  # left-right is red, front-back green, up-down blue
        field = field_with(color * 1e-3, np.broadcast_to(np.eye(3), (27, 3, 3)))
        np.testing.assert_allclose(scalar_map(field, "DEC")[1, 2, 0], color, atol=1e-7)


@pytest.mark.parametrize("name", ["FA", "MD", "AD", "RD", "V1", "DEC", "S0"])
def test_maps_are_zero_outside_the_mask(name):
    mask = np.zeros((3, 3, 3), bool)
    mask[1, 1, :2] = True
    field = field_with((3e-3, 2e-3, 1e-3), mask=mask, s0=np.full((3, 3, 3), 70.0))
    values = scalar_map(field, name)
    assert not values[~mask].any()
    assert values[mask].any(axis=-1).all()


def test_maps_that_cannot_be_made_are_refused():
    with pytest.raises(InvalidInput, match="'fa' is not a map of a tensor; choose one of FA, MD, AD, RD, V1, DEC, S0"):
        scalar_map(field_with((3, 2, 1)), "fa")
    with pytest.raises(InvalidInput, match="no S0 map"):
        scalar_map(field_with((3, 2, 1)), "S0")


# -- ellipsoids -------------------------------------------------------------------------------------------------------

ALL = np.argwhere(np.ones((3, 3, 3)))


def test_vertices_lie_on_the_ellipsoids_and_faces_stay_with_theirs():
    vertices, faces, colors = ellipsoids(field_with((1.7e-3, 0.9e-3, 0.3e-3)), ALL, size=0.8)
    assert (vertices.shape, faces.shape, colors.shape) == ((27 * 42, 3), (27 * 80, 3), (27 * 42, 4))
    longest = 0.5 * 0.8 * np.linalg.norm(AFFINE[:3, :3], axis=0).min()
    along = np.einsum("gki,gvk->gvi", TURNS, from_center(vertices)) / (longest * np.array([1, 0.9 / 1.7, 0.3 / 1.7]))
    np.testing.assert_allclose(np.linalg.norm(along, axis=-1), 1, atol=1e-4)  # single precision, some 30 mm away
    assert faces.dtype == np.int32
    np.testing.assert_array_equal((faces // 42).reshape(27, 240), np.repeat(np.arange(27)[:, None], 240, axis=1))


def from_center(vertices):
    """Vertices of the ellipsoids of all voxels, relative to their centers, shape (27, 42, 3)."""
    return vertices.reshape(27, 42, 3) - (ALL @ AFFINE[:3, :3].T + AFFINE[:3, 3])[:, None]


def test_the_ball_is_closed_and_all_its_faces_look_outwards():
    ball, triangles = icosphere()
    np.testing.assert_allclose(np.linalg.norm(ball, axis=1), 1, atol=1e-12)
    edges = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]]), axis=1)
    assert set(np.unique(edges, axis=0, return_counts=True)[1]) == {2}
    a, b, c = (ball[triangles[:, n]] for n in range(3))
    assert 0.85 < np.linalg.det(np.stack([a, b, c], axis=1)).sum() / 6 / (4 / 3 * np.pi) < 1
    assert (np.einsum("fi,fi->f", np.cross(b - a, c - a), a + b + c) > 0).all()


LIGHT = np.array([1, -1, 2]) / np.sqrt(6)  # from the right, behind and above


def test_round_ellipsoids_are_gray_and_lit_from_one_side_of_the_world():
    vertices, _, colors = ellipsoids(field_with((1e-3, 1e-3, 1e-3)), ALL)
    outwards = from_center(vertices).reshape(-1, 3)
    outwards /= np.linalg.norm(outwards, axis=1, keepdims=True)
    assert (colors[:, 3] == 1).all()
    np.testing.assert_array_equal(colors[:, 0], colors[:, 1])
    np.testing.assert_array_equal(colors[:, 0], colors[:, 2])
    assert np.corrcoef(colors[:, 0], outwards @ LIGHT)[0, 1] > 0.999
    assert 0.3 < colors[:, 0].min() / np.median(colors[:, 0]) < 0.9


def test_sticks_have_the_color_of_their_direction():
    colors = ellipsoids(field_with((1e-3, 1e-9, 1e-9)), ALL)[2].reshape(27, 42, 4)[..., :3]
    hue = colors.mean(axis=1)
    expected = np.abs(TURNS[:, :, 0])
    cosine = (hue * expected).sum(axis=1) / np.linalg.norm(hue, axis=1)
    assert cosine.min() > 0.99  # colors over 1 are cut


def test_the_light_falls_along_the_surface_normal():
    """A flat disc has a bright and a dark side, whatever the handedness of its eigenvectors."""
    disc = Rotation.align_vectors([LIGHT], [[0, 0, 1]])[0].as_matrix()
    mirrored = disc * [1, -1, 1]
    field = field_with((1e-3, 1e-3, 1e-5), np.array([disc, mirrored] * 14)[:27])
    vertices, _, colors = ellipsoids(field, ALL)
    height = from_center(vertices) @ LIGHT
    colors = colors.reshape(27, 42, 4)[..., :3].max(axis=-1)
    bright, dark = height > 0.001, height < -0.001
    assert (bright.sum(axis=1) > 10).all()
    assert colors[bright].min() > 1.5 * colors[dark].max()


def test_voxels_without_a_tensor_are_left_out():
    mask = np.ones((3, 3, 3), bool)
    mask[0] = False
    field = field_with((3e-3, 2e-3, 1e-3), mask=mask)
    vertices, _, _ = ellipsoids(field, [*ALL, (9, 0, 0), (-1, 1, 1)])
    assert len(vertices) == 18 * 42
    for nothing in ([(0, 1, 1)], [(7, 7, 7)], [(-1, 0, 0)], np.empty((0, 3))):
        with pytest.raises(InvalidInput, match="there are no tensors here"):
            ellipsoids(field, nothing)
    with pytest.raises(InvalidInput, match=r"tensors of 4001 voxels are too many to draw; .* at most 4000"):
        ellipsoids(field_with((3e-3, 2e-3, 1e-3)), [(1, 1, 1)] * 4001)


def flat_field(shape):
    return TensorField(tensors=np.zeros((*shape, 6)), mask=np.ones(shape, bool), affine=np.eye(4))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_slice_is_all_its_masked_voxels(axis):
    field = flat_field((4, 5, 6))
    field.mask[2, 3, 4] = False
    index = (2, 3, 4)[axis]
    expected = {v for v in map(tuple, np.argwhere(field.mask)) if v[axis] == index}
    assert set(map(tuple, slice_voxels(field, axis, index))) == expected


def test_large_slices_are_thinned_to_what_can_be_drawn():
    for plane in ((63, 63), (64, 63), (100, 100), (125, 127), (255, 255), (3, 4001), (1, 9000)):
        count = len(slice_voxels(flat_field((*plane, 1)), 2, 0))
        assert plane[0] * plane[1] / 10 < count or count > 1000
        assert count <= glyphs.MAX_GLYPHS


def test_nearby_voxels_are_the_cube_around_a_place():
    cube = nearby_voxels((3.4, -0.6, 7.0), 2)
    assert cube.shape == (125, 3)
    assert cube.min(axis=0).tolist() == [1, -3, 5]
    assert cube.max(axis=0).tolist() == [5, 1, 9]
    assert len(np.unique(cube, axis=0)) == 125
