"""Two layers that hold the same point in mm show it at the same place of the canvas, whatever their affines."""

import numpy as np
import pytest
from scipy import ndimage
from scipy.spatial.transform import Rotation

from napari_gpubio.core.napari_io import volume_layer
from napari_gpubio.core.space import apply_affine

SHAPE = (17, 19, 15)
RANDOM = np.random.default_rng(11)


def random_affine(index):
    """Voxels of 1.5 to 3 mm: permuted, reversed, rotated, sheared, or all of it; the middle voxel near the origin."""
    matrix = np.diag(RANDOM.uniform(1.5, 3.0, 3) * RANDOM.choice([-1, 1], 3))[:, RANDOM.permutation(3)]
    if index % 5:
        matrix = Rotation.from_rotvec(RANDOM.normal(size=3) * 0.3).as_matrix() @ matrix
    if index % 3 == 0:
        matrix = matrix @ (np.eye(3) + np.triu(RANDOM.uniform(-0.2, 0.2, (3, 3)), 1))
    affine = np.eye(4)
    affine[:3, :3] = matrix
    affine[:3, 3] = RANDOM.uniform(-3, 3, 3) - matrix @ ((np.array(SHAPE) - 1) / 2)
    return affine


def marker(affine, at_mm):
    """A smooth ball around a world position."""
    ijk = np.stack(np.meshgrid(*[np.arange(n) for n in SHAPE], indexing="ij"), axis=-1)
    return np.exp(-(((apply_affine(affine, ijk) - at_mm) / 6.0) ** 2).sum(axis=-1)).astype(np.float32)


def picture_of(viewer):
    return viewer.screenshot(canvas_only=True, flash=False)[..., :3].max(axis=-1).astype(float)


def center_of(light):
    """Center of gravity of the bright part of a picture, pixels."""
    assert light.max() > 100, "nothing is drawn"
    return np.array(ndimage.center_of_mass(np.where(light > 60, light, 0.0)))


@pytest.mark.display
@pytest.mark.parametrize("first", range(3), ids=["axial", "coronal", "sagittal"])
def test_a_marker_is_drawn_at_one_place_through_any_affine(viewer, first):
    """25 affines in all, in slices along each axis; at 3 pixels per mm, as a whole head is seen."""
    place = np.array([2.0, -3.0, 1.0])
    viewer.add_image(
        np.zeros((9, 9, 9)), scale=(3, 3, 3), visible=False, units=("mm",) * 3
    )  # so that there is a slider
    points = viewer.add_points(place[None, ::-1], size=6, face_color="white", border_width=0, units=("mm",) * 3)
    viewer.dims.order = [(0, 1, 2), (1, 0, 2), (2, 0, 1)][first]
    viewer.dims.set_point(range(3), place[::-1])
    viewer.scene.camera.center, viewer.scene.camera.zoom = place[::-1], 3
    expected = center_of(picture_of(viewer))
    points.visible = False
    for index in range(first, 25, 3):
        affine = random_affine(index)
        data, keywords, _ = volume_layer(marker(affine, place), affine, "marker", contrast_limits=(0, 1))
        image = viewer.add_image(data, interpolation2d="linear", **keywords)
        viewer.dims.set_point(range(3), place[::-1])
        viewer.scene.camera.center, viewer.scene.camera.zoom = place[::-1], 3
        distance = np.linalg.norm(center_of(picture_of(viewer)) - expected)
        assert distance < 0.5, (index, affine.tolist())
        viewer.layers.remove(image)
