"""A small volume on every kind of affine, and its layers."""

import nibabel as nib
import numpy as np
import pytest
from napari.layers import Image, Labels
from scipy.spatial.transform import Rotation

from napari_gpubio.core.layer_files import write_image
from napari_gpubio.core.napari_io import grid_of

SHAPE = (5, 6, 7)
VOLUME = np.arange(210, dtype=np.float32).reshape(SHAPE)  # every voxel has its own value
TURN = Rotation.from_euler("xyz", [20, -35, 50], degrees=True).as_matrix()


def affine_of(matrix):
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = np.float32(matrix), (-30.0, 12.5, 7.0)
    return affine


STRAIGHT = {
    "cubic": affine_of(np.diag([2.0, 2.0, 2.0])),
    "left-handed": affine_of(np.diag([-2.0, 2.0, 2.0])),
    "anisotropic": affine_of(np.diag([1.0, -2.0, 5.0])),
    "sagittal": affine_of([[0, 0, 3.0], [-2.0, 0, 0], [0, 1.0, 0]]),
    "coronal": affine_of([[2.0, 0, 0], [0, 0, -3.0], [0, 1.5, 0]]),
}
OBLIQUE = {
    "oblique": affine_of(TURN @ np.diag([1.5, 2.0, 3.0])),
    "oblique left-handed": affine_of(TURN @ np.diag([1.5, -2.0, 3.0])),
    "sheared": affine_of([[2.0, 0.4, 0], [0, 2.0, 0.3], [0, 0, 2.5]]),
    "oblique sagittal": affine_of(
        Rotation.from_euler("y", 12, degrees=True).as_matrix() @ [[0, 0, 3.0], [-2.0, 0, 0], [0, 1.0, 0]]
    ),
}
AFFINES = {**STRAIGHT, **OBLIQUE}
EVERY_AFFINE = pytest.mark.parametrize("affine", AFFINES.values(), ids=list(AFFINES))


def built(layer_data):
    """The napari layer of a tuple."""
    data, keywords, kind = layer_data
    return {"image": Image, "labels": Labels}[kind](data, **keywords)


SOME_VOXELS = [(0, 0, 0), (4, 5, 6), (1, 4, 2), (3, 0, 5)]


def shown_at(layer, value, volume=None):
    """Where the viewer shows the voxel that has a value, as (z, y, x)."""
    data = np.asarray(layer.data) if volume is None else np.asarray(layer.data)[volume]
    (index,) = np.argwhere(data == value)
    index = index if volume is None else (volume, *index)
    return np.asarray(layer.data_to_world(index))[-3:]


def assert_registered(layers, affine):
    """Check that image and labels layers of one grid lie where their voxels do; a straight one's are all on screen."""
    first = layers[0]
    for layer in layers:
        assert layer.data.shape[-3:] == first.data.shape[-3:]
        np.testing.assert_array_equal(layer.affine.affine_matrix[-4:, -4:], first.affine.affine_matrix[-4:, -4:])
        np.testing.assert_array_equal(
            (layer.scale[-3:], layer.translate[-3:]), (first.scale[-3:], first.translate[-3:])
        )
        np.testing.assert_array_equal(grid_of(layer)[0], affine)
        assert grid_of(layer)[1] == SHAPE


def written(path, layer):
    """The array and affine of a layer that went through a file."""
    data, attributes, _ = layer.as_layer_data_tuple()
    assert write_image(str(path), data, attributes) == [str(path)]
    image = nib.load(path)
    return np.asarray(image.dataobj), image.affine
