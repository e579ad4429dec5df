"""Regions: voxels, spheres, boxes, atlases."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.regions import Atlas, Box, Region, Sphere, label_counts, voxels_on

OBLIQUE = np.array([[1.6, -1.2, 0, -20], [1.2, 1.6, 0, 5], [0, 0, 2.5, 1], [0, 0, 0, 1.0]])


def block(affine=OBLIQUE):
    voxels = np.zeros((12, 10, 8), bool)
    voxels[3:6, 4:7, 2:4] = True
    return Region(name="block", voxels=voxels, affine=affine)


def test_a_region_contains_its_voxels():
    region = block()
    centers = np.argwhere(np.ones((12, 10, 8))) @ OBLIQUE[:3, :3].T + OBLIQUE[:3, 3]
    assert (region.contains(centers).reshape(12, 10, 8) == region.voxels).all()
    assert not region.contains([[1e4, 0, 0]])[0]


def test_center_and_volume():
    region = block()
    np.testing.assert_allclose(region.center_mm, [4, 5, 2.5] @ OBLIQUE[:3, :3].T + OBLIQUE[:3, 3])
    assert region.volume_mm3 == pytest.approx(18 * 2 * 2 * 2.5)


@pytest.mark.parametrize(
    ("region", "volume"),
    [
        (block(), 18 * 10.0),
        (Sphere(name="ball", center_mm=(-15, 20, 8), radius_mm=6.0), 4 / 3 * np.pi * 6**3),
        (Box(name="box", low_mm=(-20, 15, 3), high_mm=(-10, 25, 13)), 1000.0),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_on_another_grid_the_volume_is_kept(region, volume):
    fine = np.diag([0.5, 0.5, 0.5, 1.0])
    fine[:3, 3] = [-40.2, 0.2, -5.2]
    assert voxels_on(region, (100, 90, 60), fine).sum() * 0.125 == pytest.approx(volume, rel=0.02)


def test_on_its_own_grid_nothing_is_resampled():
    region = block()
    assert voxels_on(region, (12, 10, 8), OBLIQUE) is region.voxels


def test_an_atlas_gives_its_regions():
    labels = np.zeros((6, 5, 4), np.int16)
    labels[1], labels[3, 2:], labels[5] = 4, 11, -2
    atlas = Atlas(labels=labels, affine=np.eye(4), names={4: "Left-Thalamus", 11: "Left-Caudate"})
    assert dict(atlas.voxel_counts) == {-2: 20, 4: 20, 11: 12}
    labels[0, 0, 0] = 30_000
    far = np.where(labels == 30_000, 2**40, labels.astype(np.int64))
    assert label_counts(far) == {-2: 20, 4: 20, 11: 12, 2**40: 1}
    assert [region.name for region in atlas] == ["-2", "Left-Thalamus", "Left-Caudate"]
    assert (atlas.region("left-thalamus ").voxels == (labels == 4)).all()
    assert (atlas.region(11).voxels == (labels == 11)).all()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Region(name="x", voxels=np.zeros((2, 2, 2)), affine=np.eye(4)), "'x' is empty"),
        (lambda: Region(name="x", voxels=np.ones((2, 2)), affine=np.eye(4)), "2 dimensions"),
        (lambda: Sphere(name="x", center_mm=(0, 0, 0), radius_mm=0.0), "radius 0.0 mm"),
        (lambda: Sphere(name="x", center_mm=(0, np.nan, 0), radius_mm=1.0), "'x'"),
        (lambda: Box(name="x", low_mm=(0, 0, 0), high_mm=(1, 1, 0)), "no volume"),
        (lambda: Atlas(labels=np.ones((2, 2, 2)), affine=np.eye(4)), "float64"),
        (lambda: Atlas(labels=np.ones((2, 2, 2), int), affine=np.eye(4)).region(3), "no voxel has label 3"),
        (lambda: Atlas(labels=np.ones((2, 2, 2), int), affine=np.eye(4)).region("thalamus"), "'thalamus'"),
        (
            lambda: Atlas(labels=np.arange(8).reshape(2, 2, 2), affine=np.eye(4), names={1: "a", 2: "A"}).region("a"),
            r"\[1, 2\]",
        ),
    ],
)
def test_what_cannot_be_a_region_is_refused(make, says):
    with pytest.raises(InvalidInput, match=says):
        make()
