"""Meshes of FODs: their place, shape, and colors."""

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.fods.glyphs import MAX_GLYPHS, SlicePlane, fod_glyphs, voxels_in_slice
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.phantom.crossings import fiber_fods
from tests.diffusion.fods.samples import straight_bundles

OBLIQUE = np.array([[1.4, 0.3, 0.0, -20.0], [-0.4, 1.2, 0.2, 5.0], [0.1, -0.2, 1.6, 3.0], [0.0, 0.0, 0.0, 1.0]])


@pytest.mark.parametrize("affine", [np.eye(4), np.diag([-2.0, 2.0, 2.0, 1.0]), OBLIQUE], ids=["eye", "LAS", "oblique"])
def test_lobes_point_along_the_fibers_in_world_axes(affine):
    direction = np.array([1.0, 0.6, -0.3]) / np.linalg.norm([1.0, 0.6, -0.3])
    fods = straight_bundles([direction], affine=affine, shape=(12, 12, 12))
    voxel = np.array([[5, 6, 6]])
    vertices, faces, colors = fod_glyphs(fods, voxel, size=2.0)
    local = vertices - apply_affine(affine, voxel)
    lengths = np.linalg.norm(local, axis=1)
    longest = local[lengths.argmax()] / lengths.max()
    assert abs(longest @ direction) > 0.99
    assert lengths.max() == pytest.approx(fods.voxel_sizes_mm.min(), rel=0.05)
    np.testing.assert_allclose(colors[lengths.argmax(), :3], np.abs(longest), atol=1e-5)
    assert faces.max() == len(vertices) - 1


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_slice_shows_the_silhouette_of_whole_glyphs(axis):
    fods = straight_bundles([(1, 0.4, 0.2), (0, 1, 1)], shape=(10, 10, 10))
    plane = SlicePlane(axis=axis, position_mm=4.0)
    voxels, step = voxels_in_slice(fods, plane)
    assert step == 1
    assert (voxels[:, axis] == 4).all()
    assert len(voxels) == np.count_nonzero(fods.mask.take(4, axis=axis))
    flat, faces, _ = fod_glyphs(fods, voxels[:1], plane=plane)
    whole, _, _ = fod_glyphs(fods, voxels[:1])
    np.testing.assert_allclose(flat[:, axis], 4.0)
    others = [a for a in range(3) if a != axis]
    reach = [np.linalg.norm((mesh - voxels[0])[:, others], axis=1).max() for mesh in (flat, whole)]
    assert reach[0] == pytest.approx(reach[1], rel=0.03)
    assert len(faces) < 600


@pytest.mark.parametrize("axis", [0, 2])
def test_outlines_of_many_glyphs_are_those_of_few(axis):
    """Their lobes keep their size, width, and color, whatever their direction."""
    axes = np.random.default_rng(0).normal(size=(14, 14, 14, 3))
    axes /= np.linalg.norm(axes, axis=-1, keepdims=True)
    coefficients = fiber_fods(axes).astype(np.float32)
    fods = FodField(coefficients=coefficients, mask=np.ones((14, 14, 14), bool), affine=np.eye(4))
    at, plane = np.argwhere(fods.mask), SlicePlane(axis=axis, position_mm=4.0)
    vertices, faces, colors = fod_glyphs(fods, at, plane=plane, same=True)
    assert len(vertices) <= 100_000
    assert faces.max() == len(vertices) - 1
    glyphs = vertices.reshape(len(at), -1, 3)
    fine = fod_glyphs(fods, at[:100], plane=plane, same=True)[0].reshape(100, -1, 3)
    hulls = [[ConvexHull(np.delete(one, axis, axis=1)).volume for one in some[:100]] for some in (glyphs, fine)]
    ratios = np.divide(*hulls)
    assert ratios.mean() == pytest.approx(1.0, abs=0.1)
    assert ((ratios > 0.5) & (ratios < 1.6)).all()
    corners = np.delete(vertices[faces], axis, axis=2).reshape(len(at), -1, 3, 2)
    areas = 0.5 * np.abs(np.linalg.det(corners[:, :, :2] - corners[:, :, 2:])).sum(axis=1)
    assert (areas[:100] > 0.3 * np.array(hulls[1])).all(), "no lobe is a line without width"
    longest = np.linalg.norm(glyphs - at[:, np.newaxis], axis=2).argmax(axis=1)
    shades = colors.reshape(len(at), -1, 4)[np.arange(len(at)), longest, :3]
    cosines = (shades * np.abs(axes.reshape(-1, 3))).sum(axis=1) / np.linalg.norm(shades, axis=1)
    assert cosines[np.abs(axes[..., axis].ravel()) < 0.5].min() > 0.9


def test_many_glyphs_are_coarser_and_too_many_are_refused():
    fods = straight_bundles([(1, 0, 0)], shape=(24, 24, 24), radius_mm=40.0)
    every = np.argwhere(fods.mask)
    few, many = fod_glyphs(fods, every[:10]), fod_glyphs(fods, every[:4000])
    assert len(few[0]) / 10 > 5 * len(many[0]) / 4000
    with pytest.raises(InvalidInput, match=f"at most {MAX_GLYPHS}"):
        fod_glyphs(fods, every[: MAX_GLYPHS + 1])
    with pytest.raises(InvalidInput, match="no FODs here"):
        fod_glyphs(fods, [[-1, 0, 0]])


@pytest.mark.parametrize(
    "affine", [np.eye(4), np.diag([-1.25, 1.25, 1.25, 1.0]), OBLIQUE], ids=["eye", "LAS", "oblique"]
)
@pytest.mark.parametrize("axis", [0, 2])
def test_every_slice_of_a_large_volume_has_evenly_thinned_glyphs(axis, affine):
    shape = (140, 130, 6) if axis == 2 else (6, 140, 130)
    fods = FodField(coefficients=np.ones((*shape, 1), np.float32), mask=np.ones(shape, bool), affine=affine)
    for voxel in range(1, 5):
        center = np.array(shape) // 2
        center[axis] = voxel
        plane = SlicePlane(axis=axis, position_mm=apply_affine(affine, center)[axis])
        voxels, step = voxels_in_slice(fods, plane)
        assert step == (1 if affine is OBLIQUE else 2), "an oblique slice cuts a part of the volume"
        assert MAX_GLYPHS / 3 < len(voxels) <= MAX_GLYPHS


def test_a_box_limits_the_slice_and_same_sizes_are_the_same():
    fods = straight_bundles([(1, 0, 0)], shape=(10, 10, 10))
    plane = SlicePlane(axis=2, position_mm=4.0)
    voxels, _ = voxels_in_slice(fods, plane, (2.0, 3.0, 0.0), (6.0, 5.0, 0.0))
    assert voxels.min(axis=0).tolist() == [2, 3, 4]
    assert voxels.max(axis=0).tolist() == [6, 5, 4]
    weak = np.array(fods.coefficients)
    weak[:5] *= 0.2
    fods = type(fods)(coefficients=weak, mask=fods.mask, affine=fods.affine)
    at = np.array([[2, 4, 4], [7, 4, 4]])

    def sizes(**options):
        vertices = fod_glyphs(fods, at, **options)[0].reshape(2, -1, 3)
        return np.linalg.norm(vertices - at[:, None], axis=2).max(axis=1)

    np.testing.assert_allclose(sizes()[0] / sizes()[1], 0.2, rtol=1e-3)
    np.testing.assert_allclose(*sizes(same=True), rtol=1e-5)
