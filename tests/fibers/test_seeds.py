"""Where fibers begin and which way: seed points, directions, launches."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.settings import kind_of
from napari_gpubio.diffusion import CsdSettings, Response, TensorField, deconvolve, fit_tensors
from napari_gpubio.fibers import Cone, Isotropic, Principal
from napari_gpubio.fibers.seeds import (
    ball,
    cap_directions,
    checked_points,
    label_points,
    make_launch,
    scattered,
    white_matter,
)
from tests.diffusion.brain_samples import coarse_brain
from tests.diffusion.tensor_samples import six

NAN, INF = float("nan"), float("inf")


# -- seed points ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        ([], "there are no seed points"),
        (np.empty((0, 3)), "there are no seed points"),
        ([(1, 2)], r"seed points have shape \(1, 2\)"),
        (np.zeros((2, 2, 3)), r"seed points have shape \(2, 2, 3\)"),
        (7.0, r"seed points have shape \(1, 1\)"),
        ([(1, 2, NAN)], "not finite"),
        ([(0, 0, 0), (1, INF, 2)], "not finite"),
    ],
)
def test_seed_points_that_are_none_are_refused(points, sentence):
    np.testing.assert_array_equal(checked_points((1, 2, 3)), [[1.0, 2.0, 3.0]])  # one may be given bare
    with pytest.raises(InvalidInput, match=sentence):
        checked_points(points)


def test_a_ball_is_filled_evenly():
    center, radius = np.array([10.0, -20.0, 30.0]), 4.0
    points = ball(center, radius, 20_000, seed=3)
    away = points - center
    distance = np.linalg.norm(away, axis=1)
    assert distance.max() <= radius
    assert stats.kstest((distance / radius) ** 3, "uniform").pvalue > 1e-4  # uniform in volume
    for axis in range(3):
        assert stats.kstest(away[:, axis] / distance, "uniform", args=(-1, 2)).pvalue > 1e-4
    z = away.mean(axis=0) / (radius / np.sqrt(5 * len(points)))  # standard error of a coordinate's mean
    assert np.abs(z).max() < 3.9


def test_a_ball_depends_on_its_seed_only():
    points = ball((1, 2, 3), 2.0, 50, seed=7)
    np.testing.assert_array_equal(points, ball((1, 2, 3), 2.0, 50, seed=7))
    np.testing.assert_array_equal(points[:20], ball((1, 2, 3), 2.0, 20, seed=7))
    assert not np.allclose(points, ball((1, 2, 3), 2.0, 50, seed=8))
    np.testing.assert_array_equal(ball((1, 2, 3), 0.0, 5), [[1, 2, 3]] * 5)
    for radius, count in ((1.0, 0), (1.0, -3), (-1.0, 5), (NAN, 5)):
        with pytest.raises(InvalidInput, match=f"a ball of {count} points with radius {radius} mm cannot be seeded"):
            ball((0, 0, 0), radius, count)


AFFINE = np.array([[-2.0, 0.3, 0, 40], [0, 2.0, 0.4, -30], [0, 0, 3.0, 7], [0, 0, 0, 1]])
LABELS = np.zeros((6, 7, 8), np.uint8)
LABELS[2:4, 3:5, 1:7] = 2
LABELS[5, 6, 7] = 9


def voxels_of(points):
    return (points - AFFINE[:3, 3]) @ np.linalg.inv(AFFINE[:3, :3]).T


def test_a_label_is_seeded_at_its_voxel_centers():
    points = label_points(LABELS, AFFINE, 2)
    np.testing.assert_allclose(voxels_of(points), np.argwhere(LABELS == 2)[scattered(24)], atol=1e-12)
    np.testing.assert_allclose(label_points(LABELS, AFFINE, 9), [AFFINE[:3, :3] @ (5, 6, 7) + AFFINE[:3, 3]])


@pytest.mark.parametrize("count", [1, 2, 3, 24, 1000, 21_620])
def test_every_seed_comes_once_and_the_first_ones_are_everywhere(count):
    order = scattered(count)
    assert np.array_equal(np.sort(order), np.arange(count))
    for few in (16, 100, 1000):
        if count >= 10 * few:
            gaps = np.diff(np.sort(order[:few]), prepend=0, append=count)
            assert gaps.max() < 3 * count / few, "a stopped run shows both hemispheres"


def test_random_seeds_fill_their_own_voxels():
    points = label_points(LABELS, AFFINE, 2, per_voxel=500, seed=4)
    inside = voxels_of(points).reshape(24, 500, 3) - np.argwhere(LABELS == 2)[scattered(24), None]
    assert np.abs(inside).max() <= 0.5
    for axis in range(3):
        assert stats.kstest(inside[..., axis].ravel() + 0.5, "uniform").pvalue > 1e-4
    np.testing.assert_array_equal(points, label_points(LABELS, AFFINE, 2, per_voxel=500, seed=4))
    assert not np.allclose(points, label_points(LABELS, AFFINE, 2, per_voxel=500, seed=5))


def test_labels_that_cannot_be_seeded_are_refused():
    with pytest.raises(InvalidInput, match=r"no voxel has label 3; the volume has labels \[0, 2, 9\]"):
        label_points(LABELS, AFFINE, 3)
    for per_voxel in (0, -2):
        with pytest.raises(InvalidInput, match=str(per_voxel)):
            label_points(LABELS, AFFINE, 2, per_voxel=per_voxel)


# -- directions -------------------------------------------------------------------------------------------------------


def nearest_angles(directions):
    """Angle from each direction to its nearest neighbor."""
    cosines = directions @ directions.T - 2 * np.eye(len(directions))
    return np.arccos(cosines.max(axis=1).clip(-1, 1))


@pytest.mark.parametrize("count", [1, 2, 7, 100, 1000])
@pytest.mark.parametrize("degrees", [1e-3, 10, 30, 90, 180])
def test_a_cap_is_covered_evenly(count, degrees):
    half = np.deg2rad(degrees)
    directions = cap_directions(count, half)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1, atol=1e-12)
    assert np.arccos(directions[:, 2].clip(-1, 1)).max() <= half + 1e-12
    assert directions[:, 2].mean() == pytest.approx((1 + np.cos(half)) / 2, abs=1e-12)
    if count >= 100:
        assert np.abs(directions[:, :2].mean(axis=0)).max() < 3 * np.sin(min(half, np.pi / 2)) / count
        even = np.sqrt(2 * np.pi * (1 - np.cos(half)) / count)  # edge of a square of one direction's share
        assert nearest_angles(directions).min() > 0.6 * even
        assert nearest_angles(directions).max() < 1.5 * even


def test_a_sphere_has_no_preferred_direction():
    directions = cap_directions(500, np.pi)
    assert np.abs(directions.mean(axis=0)).max() < 0.01
    np.testing.assert_allclose(directions.T @ directions / 500, np.eye(3) / 3, atol=0.01)


def fan(directions, principal=(0.0, 0.0, 1.0), start=0, count=None):
    """Directions at one seed of a field whose tensors all have one principal direction."""
    axis = np.asarray(principal, float) / np.linalg.norm(principal)
    d = 1e-3 * (0.3 * np.eye(3) + 1.4 * np.outer(axis, axis))
    field = TensorField(tensors=np.broadcast_to(six(d), (5, 5, 5, 6)), mask=np.ones((5, 5, 5), bool), affine=np.eye(4))
    launch = make_launch(field, [(2, 2, 2), (1.5, 2.2, 3)], directions)
    points, found = launch.rays(start, len(launch) if count is None else count)
    return launch, points, found


AXES = [(0, 0, 1), (0, 0, -1), (1, 0, 0), (0, 1, 0), (1e-9, 0, -1), (1, 2, 3), (-3, 2, -1)]


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_a_cone_is_wound_around_the_principal_direction(axis):
    _, _, found = fan(Cone(count=400, half_angle_deg=25), axis)
    unit = np.asarray(axis, float) / np.linalg.norm(axis)
    for seed in (found[:400], found[400:]):
        np.testing.assert_allclose(np.linalg.norm(seed, axis=1), 1, atol=1e-12)
        mean = seed.mean(axis=0)
        assert abs(mean @ unit) == pytest.approx((1 + np.cos(np.deg2rad(25))) / 2, abs=1e-9)
        assert np.linalg.norm(np.cross(mean, unit)) < 0.005
        angles = np.rad2deg(np.arccos(np.abs(seed @ unit).clip(0, 1)))
        assert 24 < angles.max() <= 25 + 1e-6


def test_half_a_sphere_is_enough_both_ways():
    _, _, both = fan(Isotropic(count=300), (1, 2, 3))
    assert both[:, 2].min() > 0
    whole = np.concatenate([both[:300], -both[:300]])
    np.testing.assert_allclose(whole.T @ whole / 600, np.eye(3) / 3, atol=0.01)
    assert nearest_angles(whole).min() > 0.4 * np.sqrt(4 * np.pi / 600)
    _, _, one_way = fan(Isotropic(count=300, both_ways=False), (1, 2, 3))
    np.testing.assert_allclose(one_way[:300], cap_directions(300, np.pi))


def test_the_principal_direction_alone_is_one_fiber():
    launch, points, found = fan(Principal(), (1, 2, 3))
    assert (len(launch), launch.directions.per_seed) == (2, 1)
    np.testing.assert_allclose(np.abs(found @ (1, 2, 3)) / np.sqrt(14), 1, atol=1e-12)
    np.testing.assert_allclose(points, [(2, 2, 2), (1.5, 2.2, 3)])


@pytest.mark.parametrize("directions", [Cone(count=30), Isotropic(count=30), Principal()], ids=kind_of)
def test_any_range_of_fibers_is_a_part_of_all(directions):
    launch, points, found = fan(directions, (1, 2, 3))
    for start, count in ((0, 1), (1, len(launch) - 1), (len(launch) // 2, 1), (len(launch) // 2 - 1, 2)):
        _, some_points, some = fan(directions, (1, 2, 3), start, count)
        np.testing.assert_array_equal(some, found[start : start + count])
        np.testing.assert_array_equal(some_points, points[start : start + count])
        seeds = launch.seed_of(start, count)
        np.testing.assert_array_equal(launch.points_mm[seeds], some_points)


# -- launching --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def half_masked():
    """6 x 7 x 8 voxels of AFFINE; tensors where i < 3."""
    mask = np.zeros((6, 7, 8), bool)
    mask[:3] = True
    tensors = np.where(mask[..., None], [1.7e-3, 3e-4, 3e-4, 0, 0, 0], 0.0)
    return TensorField(tensors=tensors, mask=mask, affine=AFFINE)


def world(*voxel):
    return AFFINE[:3, :3] @ voxel + AFFINE[:3, 3]


@pytest.mark.parametrize(
    ("seeds", "sentence"),
    [
        ([(500.0, 0.0, 0.0)], r"the seed at \(500, 0, 0\) mm lies outside the volume"),
        ([(500.0, 0.0, 0.0), (0.0, -500.0, 0.0)], "outside the volume"),
        ([world(5, 5, 5)], "lies in the background, where there are no tensors"),
        ([(500.0, 0.0, 0.0), world(4, 1, 1)], "lies in the background"),
        ([], "there are no seed points"),
    ],
)
def test_seeds_that_nothing_can_leave_are_refused(half_masked, seeds, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make_launch(half_masked, seeds, Cone())


def test_only_seeds_in_the_mask_are_launched(half_masked):
    good = [world(1, 1, 1), world(2.49, 6, 7), world(0, 0, 0)]
    seeds = [good[0], world(2.51, 3, 3), good[1], (500, 0, 0), good[2], world(5, 5, 5)]
    launch = make_launch(half_masked, seeds, Cone(count=10))
    np.testing.assert_allclose(launch.points_mm, good)
    assert len(launch) == 30
    np.testing.assert_allclose(np.abs(launch.axes), [[1, 0, 0]] * 3, atol=1e-12)


def test_the_principal_direction_is_that_of_the_interpolated_tensor():
    share = (np.arange(5) / 4)[:, None, None, None]
    tensors = (1 - share) * [1.7e-3, 3e-4, 3e-4, 0, 0, 0] + share * [3e-4, 1.7e-3, 3e-4, 0, 0, 0]
    tensors = np.broadcast_to(tensors, (5, 5, 5, 6))
    field = TensorField(tensors=tensors, mask=np.ones((5, 5, 5), bool), affine=np.eye(4))
    launch = make_launch(field, [(1.9, 2.3, 1.1), (2.1, 0.0, 4.0)], Cone())
    np.testing.assert_allclose(np.abs(launch.axes), [[1, 0, 0], [0, 1, 0]], atol=1e-12)


def test_white_matter_of_fods_is_that_of_tensors():
    field = fit_tensors(coarse_brain())
    response = Response(coefficients=np.array([[105.9, -35.7, 6.7, -0.7]]), bvals=(1000,))  # of its single fibers
    fods = deconvolve(coarse_brain(), response, field.mask, CsdSettings(lmax=6), device="cpu")
    expected, found = white_matter(field), white_matter(fods)
    assert np.count_nonzero(found & expected) > 0.7 * np.count_nonzero(expected)
    assert np.count_nonzero(found & ~expected) < 0.01 * np.count_nonzero(found)
    nowhere = dataclasses.replace(fods, mask=np.zeros(fods.shape, bool))
    with pytest.raises(InvalidInput, match="no voxel has a direction"):
        white_matter(nowhere)
