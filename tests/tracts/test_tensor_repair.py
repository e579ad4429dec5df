"""Which tensors are mended: the short test for positive definiteness never contradicts the eigenvalues."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.tracts.kernels.tensors.cpu import compose, eigen_decompose
from napari_gpubio.tracts.tensors.repair import repair_rows

FLOOR = 1e-6


def tensors_near_the_floor(real):
    """Tensors whose smallest eigenvalue lies around the floor, from far away down to rounding, and broken ones."""
    random = np.random.default_rng(6)
    distance = 10.0 ** -random.uniform(3, 22, 6000) * random.choice([-1, 0, 1], 6000)
    values = np.stack([random.uniform(1e-6, 3e-3, 6000), random.uniform(1e-6, 1e-3, 6000), FLOOR + distance], axis=1)
    vectors = Rotation.random(6000, random_state=7).as_matrix()
    broken = [[0] * 6, [-1e-3] * 6, [np.nan] * 6, [1, 1, 1, 5, 5, 5], [1e-3, 1e-3, 1e-3, 1e3, 1e3, 1e3], [1e-6] * 6]
    return np.concatenate([compose(values, vectors), broken]).astype(real)


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_the_same_tensors_are_mended_as_by_their_eigenvalues(real):
    tensors = tensors_near_the_floor(real)
    values, vectors = eigen_decompose(tensors)
    low = values[:, 2] < FLOOR
    expected = tensors.copy()
    expected[low] = compose(np.maximum(values[low], FLOOR), vectors[low])
    np.testing.assert_array_equal(repair_rows(tensors, FLOOR), low)
    np.testing.assert_array_equal(tensors, expected)
    assert 1000 < low.sum() < 5000


def test_no_tensors_at_all():
    assert repair_rows(np.empty((0, 6)), FLOOR).shape == (0,)
