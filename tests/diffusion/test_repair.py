"""Eigenvalues against LAPACK, composition, and repair of tensors that are not positive definite."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.diffusion.kernels.tensors.cpu import compose, eigen_decompose
from napari_gpubio.diffusion.tensors.repair import repair_rows, repair_tensors
from tests.diffusion.tensor_samples import matrices, six, turned

# -- eigenvalues ------------------------------------------------------------------------------------------------------


def check_decomposition(tensors, scale, tolerance):
    values, vectors = eigen_decompose(tensors)
    assert (values.dtype, vectors.dtype) == (tensors.dtype, tensors.dtype)
    expected = np.linalg.eigvalsh(matrices(tensors).astype(np.float64))[..., ::-1]
    assert np.abs(values - expected).max() <= tolerance * scale
    assert (np.diff(values, axis=-1) <= 0).all()
    rebuilt = np.einsum("...ik,...i,...il->...kl", vectors, values, vectors)
    assert np.abs(rebuilt - matrices(tensors)).max() <= tolerance * scale
    assert np.abs(vectors @ vectors.swapaxes(-1, -2) - np.eye(3)).max() <= tolerance


@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1.0, 1e12, 1e150])
def test_random_tensors_are_decomposed_as_by_lapack(scale):
    tensors = np.random.default_rng(2).normal(size=(7, 5, 9, 6))
    check_decomposition(scale * tensors, scale, 1e-14)
    check_decomposition(tensors.astype(np.float32), 1.0, 1e-6)  # computed in double precision and rounded once


@pytest.mark.parametrize(
    "eigenvalues",
    [(1, 1, 1), (2, 1, 1), (2, 2, 1), (1, 1 + 1e-12, 1), (1, 1e-8, 1e-16), (1e6, 1, 1e-6), (1, -1, 0), (-1, -2, -3)],
    ids=str,
)
def test_equal_negative_and_far_apart_eigenvalues(eigenvalues):
    check_decomposition(six(turned(eigenvalues)), max(map(abs, eigenvalues)), 1e-14)


def test_diagonal_and_zero_tensors_are_exact():
    tensors = np.array([[0.0] * 6, [1, 3, 2, 0, 0, 0], [5, 5, 5, 0, 0, 0], [-1, 0, 1, 0, 0, 0]])
    values, vectors = eigen_decompose(tensors)
    assert values.tolist() == [[0, 0, 0], [3, 2, 1], [5, 5, 5], [1, 0, -1]]
    assert vectors[1].tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert vectors[0].tolist() == np.eye(3).tolist()


def test_a_tensor_that_is_not_finite_spoils_no_other():
    tensors = six(turned((1.7, 0.5, 0.2)))
    broken = tensors.copy()
    broken[100], broken[200, 3] = np.nan, np.inf
    values, _ = eigen_decompose(broken)
    others = np.delete(np.arange(len(tensors)), [100, 200])
    np.testing.assert_array_equal(values[others], eigen_decompose(tensors)[0][others])
    assert not np.isfinite(values[100]).any()


# -- composition and repair -------------------------------------------------------------------------------------------


def test_composition_undoes_decomposition_and_changes_the_frame():
    d = turned((1.7, 0.5, 0.2)).reshape(10, 50, 3, 3)
    values, vectors = eigen_decompose(six(d))
    np.testing.assert_allclose(compose(values, vectors), six(d), atol=1e-14)
    change = np.array([[0.5, 0.1, 0.0], [0.0, -2.0, 0.3], [0.2, 0.0, 1.0]])
    np.testing.assert_allclose(compose(values, vectors, change), six(change @ d @ change.T), atol=1e-14)
    small = compose(values.astype(np.float32), vectors.astype(np.float32), change)
    assert small.dtype == np.float32
    np.testing.assert_allclose(small, six(change @ d @ change.T), atol=2e-6)


def test_repair_raises_low_eigenvalues_and_nothing_else():
    good, low, negative = (turned(e)[:30] for e in ((1e-3, 5e-4, 1e-6), (1e-3, 5e-4, 9e-7), (1e-3, -1e-4, -2e-4)))
    tensors = six(np.stack([good, low, negative])).reshape(3, 5, 6, 6)
    before = tensors.copy()
    mended, repaired = repair_tensors(tensors, np.ones((3, 5, 6), bool), floor_mm2_per_s=1e-6 - 1e-15)
    np.testing.assert_array_equal(tensors, before)
    assert repaired.reshape(3, -1).all(axis=1).tolist() == [False, True, True]
    assert repaired.sum() == 60
    np.testing.assert_array_equal(mended[0], tensors[0])
    np.testing.assert_allclose(matrices(mended[1]).reshape(-1, 3, 3), turned((1e-3, 5e-4, 1e-6))[:30], atol=1e-17)
    np.testing.assert_allclose(matrices(mended[2]).reshape(-1, 3, 3), turned((1e-3, 1e-6, 1e-6))[:30], atol=1e-17)


def test_repair_clears_what_is_outside_the_mask():
    tensors = np.broadcast_to(six(np.diag([1e-3, 1e-3, -1e-3])), (2, 2, 2, 6))
    mask = np.zeros((2, 2, 2), bool)
    mask[0, 1, 1] = True
    mended, repaired = repair_tensors(tensors, mask)
    np.testing.assert_array_equal(repaired, mask)
    assert not mended[~mask].any()
    assert repair_tensors(tensors, np.zeros_like(mask))[1].sum() == 0


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
    assert repair_rows(np.empty((0, 6)), FLOOR).shape == (0,)
