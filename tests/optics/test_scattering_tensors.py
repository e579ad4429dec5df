"""Scattering tensors of a domain: what is kept, what counts as none, and what is refused."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.tensor_components import components, matrices
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.kernels.voxels.tensor_table import cholesky_columns
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.scattering_tensors import extreme_eigenvalues
from napari_gpubio.optics.sources import Pencil
from tests.light.voxel_samples import make_domain, turned_affine

SHAPE = (3, 4, 5)
MEDIUM = Medium(label=1, mus_per_mm=10.0, g=0.9)
RANDOM = np.random.default_rng(4).normal(size=(*SHAPE, 3, 3))
FULL = RANDOM @ RANDOM.swapaxes(3, 4) + 0.5 * np.eye(3)


def domain(tensors=None, **more):
    return make_domain(SHAPE, MEDIUM, mus_tensor_per_mm=tensors, **more)


def table(given):
    return VoxelProblem(given, Pencil(), LightSettings()).tensors


def test_matrices_are_kept_as_six_components():
    expected = components(FULL).astype(np.float32)
    for given in (FULL, components(FULL)):
        np.testing.assert_array_equal(domain(given).mus_tensor_per_mm, expected)


@pytest.mark.parametrize("nothing", [0.0, np.nan])
def test_zeros_and_nan_stand_for_no_tensor(nothing):
    assert not domain(np.full((*SHAPE, 6), nothing)).is_anisotropic
    tensors = components(FULL)
    tensors[1] = nothing
    kept = domain(tensors)
    assert not kept.mus_tensor_per_mm[1].any()
    places = table(kept).places.reshape(np.array(SHAPE) + 2)[1:-1, 1:-1, 1:-1]
    assert places.max() == 40
    np.testing.assert_array_equal(places > 0, np.arange(3)[:, None, None] != np.ones((1, 4, 5)))


def test_tensors_outside_do_not_count():
    labels = np.ones(SHAPE, np.uint8)
    labels[0] = 0
    tensors = components(FULL)
    tensors[0, 0, 0] = -1.0
    assert not make_domain(labels, MEDIUM, mus_tensor_per_mm=tensors).mus_tensor_per_mm[0].any()


@pytest.mark.parametrize(("model", "own"), [("product", 1.0), ("free", 10.0), ("mixture", 10.0)])
def test_a_tensor_that_is_the_label_s_scattering_is_none(model, own):
    tensors = np.zeros((*SHAPE, 6)) + own * np.array([1, 1, 1, 0, 0, 0])
    assert table(domain(tensors, scattering_model=model)) is None
    assert len(table(domain(2 * tensors, scattering_model=model)).numbers) == 61  # isotropic, but not the label's


def test_photons_meet_tensors_along_the_axes_of_the_grid():
    given = domain(FULL, affine=turned_affine())
    numbers = table(given).numbers[1:].astype(float)
    directions = np.random.default_rng(5).normal(size=(60, 3))
    world = given.direction_to_world(directions)
    expected = np.einsum("ni,nij,nj->n", world, FULL.reshape(-1, 3, 3), world)
    x, y, z = directions.T
    a, b, c, d, e, f, first, second = numbers.T
    squares = np.stack([a * x + b * y + c * z, d * y + e * z, f * z]) ** 2
    np.testing.assert_allclose(squares.sum(axis=0), expected, rtol=1e-5)
    trace = np.trace(FULL.reshape(-1, 3, 3), axis1=1, axis2=2)
    np.testing.assert_allclose(first, (a * a + b * b + c * c) / trace, rtol=1e-5)
    np.testing.assert_allclose(second, first + (d * d + e * e) / trace, rtol=1e-5)


def test_the_mixture_has_a_bound_and_a_mean_of_what_it_draws_from():
    numbers = table(domain(FULL, scattering_model="mixture")).numbers[1:].astype(float)
    largest = np.linalg.eigvalsh(FULL.reshape(-1, 3, 3))[:, 2]
    assert (numbers[:, 6] >= largest).all()
    np.testing.assert_allclose(numbers[:, 6], largest, rtol=3e-6)
    np.testing.assert_allclose(numbers[:, 7], np.trace(FULL.reshape(-1, 3, 3), axis1=1, axis2=2) / 3, rtol=1e-6)


def test_extreme_eigenvalues_also_of_multiples_and_spheroids():
    spheroids = np.array([[2, 2, 2, 0, 0, 0], [1, 1, 3, 0, 0, 0], [3, 3, 1, 0, 0, 0], [1e-3, 1, 1, 0, 0, 0.0]])
    tensors = np.concatenate([components(FULL).reshape(-1, 6), spheroids])
    expected = np.linalg.eigvalsh(matrices(tensors))
    for found, wanted in zip(extreme_eigenvalues(tensors), (expected[:, 0], expected[:, 2]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4)


def spoiled(value, component=0):
    tensors = components(FULL)
    tensors[1, 2, 3, component] = value
    return tensors


def test_tensors_that_do_not_fit_are_refused():
    skew = FULL.copy()
    skew[1, 2, 3, 0, 1] += 1.0
    needle = components(FULL)
    needle[1, 2, 3] = (2000.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    for tensors, message in (
        (spoiled(-1.0), r"1 of 60 scattering tensors have an eigenvalue .* voxel \(1, 2, 3\): -1, "),
        (spoiled(np.nan), "values that are not finite"),
        (spoiled(np.inf), "values that are not finite"),
        (skew, "not symmetric"),
        (needle, "1000 times apart"),
        (components(FULL)[:2], r"shape \(2, 4, 5, 6\) and the labels \(3, 4, 5\)"),
        (components(FULL)[..., :5], "xx, yy, zz, xy, xz, yz"),
    ):
        with pytest.raises(InvalidInput, match=message):
            domain(tensors)
    with pytest.raises(InvalidInput, match="'mean'; choose one of 'product'"):
        domain(FULL, scattering_model="mean")
    with pytest.raises(InvalidInput, match="give one"):
        domain(FULL, mus_per_mm=np.ones(SHAPE))


def test_with_tensors_gives_and_takes_them():
    plain = domain()
    given = plain.with_tensors(FULL, "free")
    assert (given.is_anisotropic, given.scattering_model, plain.is_anisotropic) == (True, "free", False)
    assert not given.with_tensors(None).is_anisotropic
    assert dataclasses.replace(given, outside_n=1.2).is_anisotropic


def test_everything_about_tensors_is_in_the_key_of_a_run():
    plain, other = domain(), FULL.copy()
    other[2, 3, 4] *= 2
    domains = (plain, plain.with_tensors(FULL), plain.with_tensors(FULL, "free"), plain.with_tensors(other))
    assert len({VoxelProblem(d, Pencil(), LightSettings()).key for d in domains}) == 4
    own = np.zeros((*SHAPE, 6)) + np.array([1, 1, 1, 0, 0, 0])
    keys = (VoxelProblem(d, Pencil(), LightSettings()).key for d in (plain, plain.with_tensors(own)))
    assert len(set(keys)) == 1


def test_memory_counts_tensors():
    sizes = [VoxelProblem(d, Pencil(), LightSettings()).resident_bytes() for d in (domain(), domain(FULL))]
    assert sizes[1] - sizes[0] == 4 * 5 * 6 * 7 + 61 * 32


def test_columns_are_those_of_cholesky():
    factors = np.random.default_rng(2).normal(size=(50, 3, 3))
    products = factors @ factors.swapaxes(1, 2) + 0.01 * np.eye(3)
    expected = np.linalg.cholesky(products).swapaxes(1, 2)[:, *np.triu_indices(3)]
    np.testing.assert_allclose(cholesky_columns(components(products)).T, expected, rtol=1e-10)
