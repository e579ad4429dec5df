"""Bases of spherical harmonics against DIPY, closed forms, and each other."""

import warnings

import numpy as np
import pytest
from dipy.reconst import shm

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.fods.frames import FRAMES, to_world, to_world_matrix
from napari_gpubio.diffusion.fods.harmonics import (
    BASES,
    coefficient_count,
    convolution_factors,
    from_mrtrix,
    half_sphere,
    harmonics,
    lmax_of,
    lmax_within,
    orders,
    to_mrtrix,
)
from tests.diffusion.tensor_samples import AFFINES, axes_of

RNG = np.random.default_rng(3)
DIRECTIONS = RNG.normal(size=(60, 3))
DIRECTIONS /= np.linalg.norm(DIRECTIONS, axis=1, keepdims=True)
DIPY = {
    "mrtrix": (shm.real_sh_tournier, False),
    "mrtrix0.2": (shm.real_sh_tournier, True),
    "descoteaux": (shm.real_sh_descoteaux, False),
    "descoteaux_legacy": (shm.real_sh_descoteaux, True),
}
EVERY_BASIS = pytest.mark.parametrize("basis", BASES)


@EVERY_BASIS
@pytest.mark.parametrize("lmax", [2, 8, 12])
def test_dipy_has_the_same_values(basis, lmax):
    function, legacy = DIPY[basis]
    polar, azimuth = np.arccos(DIRECTIONS[:, 2]), np.arctan2(DIRECTIONS[:, 1], DIRECTIONS[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = function(lmax, polar, azimuth, legacy=legacy)[0]
    np.testing.assert_allclose(harmonics(DIRECTIONS, lmax, basis), theirs, atol=1e-12)


def test_closed_forms_of_order_2():
    """Real harmonics as they stand in tables, with the sign of the Condon-Shortley phase for an odd m."""
    x, y, z = DIRECTIONS.T
    a, b = np.sqrt(15 / np.pi), np.sqrt(5 / np.pi)
    expected = [x * y * a / 2, -y * z * a / 2, (3 * z * z - 1) * b / 4, -x * z * a / 2, (x * x - y * y) * a / 4]
    values = harmonics(3 * DIRECTIONS, 2)
    np.testing.assert_allclose(values[:, 0], 1 / np.sqrt(4 * np.pi))
    np.testing.assert_allclose(values[:, 1:], np.transpose(expected), atol=1e-14)


@pytest.mark.parametrize("basis", ["mrtrix", "descoteaux", "descoteaux_legacy"])
def test_orthonormal(basis):
    """Over the sphere, by Gauss's rule in z and equal steps in azimuth, which is exact."""
    z, weights = np.polynomial.legendre.leggauss(20)
    azimuth = np.arange(40) * 2 * np.pi / 40
    sine = np.sqrt(1 - z * z)[:, None]
    points = np.stack(np.broadcast_arrays(sine * np.cos(azimuth), sine * np.sin(azimuth), z[:, None]), -1)
    values = harmonics(points.reshape(-1, 3), 8, basis)
    gram = values.T @ (values * np.repeat(weights, 40)[:, None]) * 2 * np.pi / 40
    np.testing.assert_allclose(gram, np.eye(45), atol=1e-13)


def test_a_delta_is_largest_where_it_is():
    for direction in DIRECTIONS[:10]:
        coefficients = harmonics(direction, 12)[0]
        near = direction + 0.01 * RNG.normal(size=(100, 3))
        near /= np.linalg.norm(near, axis=1, keepdims=True)
        at, around = (harmonics(points, 12) @ coefficients for points in (direction, near))
        assert at[0] > around.max()
        np.testing.assert_allclose(at, coefficient_count(12) / (4 * np.pi))


@EVERY_BASIS
def test_there_and_back(basis):
    coefficients = RNG.normal(size=(2, 3, 45))
    np.testing.assert_allclose(from_mrtrix(to_mrtrix(coefficients, basis), basis), coefficients, atol=1e-14)
    amplitudes = harmonics(DIRECTIONS, 8, basis) @ coefficients[0, 0]
    np.testing.assert_allclose(harmonics(DIRECTIONS, 8) @ to_mrtrix(coefficients, basis)[0, 0], amplitudes, atol=1e-12)
    assert to_mrtrix(coefficients.astype(np.float32), basis).dtype == np.float32


@EVERY_BASIS
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("affine", AFFINES.values(), ids=AFFINES)
def test_deltas_of_any_frame_turn_into_those_of_the_world(basis, frame, affine):
    own = DIRECTIONS @ axes_of(affine, frame)
    deltas = from_mrtrix(harmonics(own, 8), basis)
    np.testing.assert_allclose(to_world(deltas, 8, basis, frame, affine), harmonics(DIRECTIONS, 8), atol=1e-12)


def test_turning_keeps_the_power_of_an_order():
    matrix = to_world_matrix(8, "mrtrix", "voxel", AFFINES["rotated"])
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(45), atol=1e-12)
    order = orders(8)[:, 0]
    assert np.abs(matrix[order[:, None] != order]).max() < 1e-12


def test_convolution_factors():
    """A response convolved with a delta at the pole is the response."""
    response = [4.0, -1.5, 0.3]
    delta = harmonics([[0, 0, 1.0]], 4)[0]
    order, m = orders(4).T
    convolved = delta * convolution_factors(response)[order // 2]
    np.testing.assert_allclose(convolved[m == 0], response)


def test_counts():
    assert [coefficient_count(lmax) for lmax in (0, 2, 4, 8, 12)] == [1, 6, 15, 45, 91]
    assert [lmax_of(count) for count in (1, 6, 15, 45, 91)] == [0, 2, 4, 8, 12]
    assert [lmax_within(count) for count in (1, 5, 6, 44, 45, 1000)] == [0, 0, 2, 6, 8, 16]
    with pytest.raises(InvalidInput, match="46 volumes are no set of even spherical harmonics"):
        lmax_of(46)
    for function in (to_mrtrix, from_mrtrix):
        with pytest.raises(InvalidInput, match="the basis is 'tournier'; choose one of 'mrtrix'"):
            function(np.ones(6), "tournier")
    with pytest.raises(InvalidInput, match="the basis is"):
        harmonics(DIRECTIONS, 2, "spm")


def test_half_sphere():
    points = half_sphere(724)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1)
    assert (points[:, 2] > 0).all()
    cosines = np.abs(points @ points.T) - np.eye(len(points))
    nearest = np.degrees(np.arccos(cosines.max(axis=1)))
    assert nearest.min() > 2.5
    assert nearest.max() < 6
