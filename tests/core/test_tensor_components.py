"""Tensors in other axes, as matrices, and from layers that carry them."""

from types import SimpleNamespace

import numpy as np

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.tensor_components import (
    components,
    matrices,
    positive_definite,
    rotate_tensors,
    tensors_of,
)

RANDOM = np.random.default_rng(0).normal(size=(200, 3, 3))
FULL = RANDOM + RANDOM.transpose(0, 2, 1)


def test_components_are_the_upper_triangle():
    np.testing.assert_array_equal(components(FULL)[0], FULL[0][[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]])
    np.testing.assert_array_equal(matrices(components(FULL)), FULL)


def test_rotation_of_tensors():
    for matrix in (np.linalg.qr(RANDOM[0])[0], RANDOM[1]):
        expected = components(matrix @ FULL @ matrix.T)
        np.testing.assert_allclose(rotate_tensors(components(FULL), matrix), expected, atol=1e-12)
    assert rotate_tensors(components(FULL).astype(np.float32), np.eye(3)).dtype == np.float32


def test_positive_definite_agrees_with_the_eigenvalues():
    full = FULL + 2 * np.eye(3)
    np.testing.assert_array_equal(positive_definite(components(full)), np.linalg.eigvalsh(full)[:, 0] > 0)


def test_layers_that_carry_tensors():
    field = SimpleNamespace(tensors=np.zeros((1, 1, 1, 6)), affine=np.eye(4))
    assert tensors_of(SimpleNamespace(metadata={KEY: {"field": field}})) is field
    for metadata in ({}, {KEY: {}}, {KEY: {"field": np.zeros(3)}}):
        assert tensors_of(SimpleNamespace(metadata=metadata)) is None
