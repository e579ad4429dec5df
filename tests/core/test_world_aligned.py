"""Oblique volumes on the world's axes: sampled where they lie, and painted into their own voxels."""

import numpy as np
import pytest
from scipy import ndimage

from napari_gpubio.core.space import apply_affine
from napari_gpubio.core.world_aligned import WorldAligned
from tests.volume_samples import OBLIQUE

RANDOM = np.random.default_rng(3)
EVERY_OBLIQUE = pytest.mark.parametrize("affine", OBLIQUE.values(), ids=list(OBLIQUE))
SHAPE = (12, 14, 10)
VOLUME = RANDOM.normal(100, 30, SHAPE).astype(np.float32)


def source_places(data, affine):
    """Index of the source, (X, Y, Z), at every place of an array."""
    zyx = np.stack(np.meshgrid(*[np.arange(n) for n in data.shape], indexing="ij"), axis=-1)
    world = (zyx * data.scale + data.translate)[..., ::-1]
    return apply_affine(np.linalg.inv(affine), world)


@EVERY_OBLIQUE
def test_values_are_interpolated_where_the_volume_lies(affine):
    data = WorldAligned(VOLUME, affine)
    places = source_places(data, affine)
    inside = ((places > 0) & (places < np.array(SHAPE) - 1)).all(axis=-1)
    expected = ndimage.map_coordinates(VOLUME, places[inside].T, order=1)
    assert inside.sum() > 100
    np.testing.assert_allclose(np.asarray(data)[inside], expected, rtol=1e-5)
    outside = ((places < -0.5) | (places > np.array(SHAPE) - 0.5)).any(axis=-1)
    assert np.isnan(np.asarray(data)[outside]).all()
    assert not np.isnan(np.asarray(data)[~outside]).any()


@EVERY_OBLIQUE
def test_the_grid_holds_the_whole_volume_and_no_more(affine):
    data = WorldAligned(VOLUME, affine)
    places = source_places(data, affine)
    inside = ((places >= -0.5) & (places < np.array(SHAPE) - 0.5)).all(axis=-1)
    voxel_mm3 = abs(np.linalg.det(affine[:3, :3]))
    assert inside.sum() * data.scale.prod() == pytest.approx(VOLUME.size * voxel_mm3, rel=0.1)
    for axis in range(3):
        assert inside.any(axis=tuple({0, 1, 2} - {axis}))[[2, -3]].all()


@pytest.mark.parametrize(
    "key",
    [3, -1, (slice(None), 4), (Ellipsis, 5), (2, slice(3, 9)), (slice(None, None, 2), 1, slice(8, 2, -1)), (1, 2, 3)],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8])
def test_a_part_is_that_of_the_whole(key, dtype):
    data = WorldAligned(VOLUME.astype(dtype), OBLIQUE["oblique"], linear=dtype is not np.uint8)
    whole = np.asarray(WorldAligned(data.source, OBLIQUE["oblique"], linear=data.linear))
    np.testing.assert_array_equal(data[key], whole[key])
    assert np.asarray(data[key]).dtype == dtype


def test_integers_are_rounded_and_zero_outside():
    affine = OBLIQUE["oblique"]
    exact = np.asarray(WorldAligned(VOLUME, affine))
    counts = np.asarray(WorldAligned(np.round(VOLUME).astype(np.int16), affine))
    assert (counts[np.isnan(exact)] == 0).all()
    np.testing.assert_allclose(counts[~np.isnan(exact)], exact[~np.isnan(exact)], atol=1.0)


def test_the_edge_of_a_masked_map_stays_where_it_is():
    masked = VOLUME.copy()
    masked[:6] = np.nan
    affine = OBLIQUE["oblique"]
    data = WorldAligned(masked, affine)
    places = source_places(data, affine)
    inside = ((places >= -0.5) & (places < np.array(SHAPE) - 0.5)).all(axis=-1)
    clear = inside & (np.abs(places[..., 0] - 5.5) > 1e-3)
    np.testing.assert_array_equal(np.isnan(np.asarray(data))[clear], (places[..., 0] < 5.5)[clear])


def test_a_series_counts_its_volumes_first_and_colors_stay_last():
    affine = OBLIQUE["oblique"]
    series = np.stack([VOLUME, -VOLUME], axis=-1)
    one = np.asarray(WorldAligned(VOLUME, affine))
    data = WorldAligned(series, affine)
    assert data.shape == (2, *one.shape)
    np.testing.assert_array_equal(data[1], -one)
    np.testing.assert_array_equal(data[:, 4], np.stack([one[4], -one[4]]))
    colors = WorldAligned(np.stack([VOLUME, VOLUME * 2, VOLUME * 3], axis=-1), affine, colors=True)
    assert colors.shape == (*one.shape, 3)
    np.testing.assert_allclose(colors[4][..., 2], 3 * one[4], rtol=1e-6)


def test_painting_changes_the_voxels_under_it_only():
    affine = OBLIQUE["oblique"]
    labels = np.zeros(SHAPE, np.uint8)
    labels[3, 3, 3] = 7
    data = WorldAligned(labels, affine, linear=False)
    before = np.asarray(data)
    z, y, x = np.argwhere((before == 0) & ((source_places(data, affine).round() == (6, 7, 5)).all(axis=-1)))[0]
    data[z, y, x] = 2
    assert labels[6, 7, 5] == 2
    assert (labels != 0).sum() == 2
    assert data[z, y, x] == 2
    block = data[z - 2 : z + 3, y - 2 : y + 3].copy()
    block[0, 0, x] = 5
    data[z - 2 : z + 3, y - 2 : y + 3] = block  # as napari writes: whole blocks, of which little is new
    assert (labels == 2).sum() == 1
    assert (labels == 5).sum() == 1
    data[(np.array([z, z]), np.array([y, y]), np.array([x, x]))] = 0
    assert (labels == 2).sum() == 0
    assert (labels == 7).sum() == 1


def test_what_is_painted_outside_is_lost():
    labels = np.zeros(SHAPE, np.uint8)
    data = WorldAligned(labels, OBLIQUE["oblique"], linear=False)
    data[0, 0, 0] = 4
    data[...] = 0
    assert not labels.any()
