"""Metrics against their formulas, seeds and fans of directions against their geometry, settings at their limits."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.params import param_info
from napari_gpubio.tracts import Directions, FitSettings, TensorField, TrackSettings, ball, label_points
from napari_gpubio.tracts.metrics import METRICS, adjugate, inverse, sharpened
from napari_gpubio.tracts.seeds import cap_directions, checked_points, make_launch, sphere_directions
from napari_gpubio.tracts.settings import INTEGRATORS

NAN, INF = float("nan"), float("inf")

# -- metrics ----------------------------------------------------------------------------------------------------------

EIGENVALUES = np.array([[[1.7, 0.5, 0.2]], [[1.0, 1.0, 1.0]], [[3.0, 2.9, 0.1]]])


def test_there_are_these_metrics():
    assert list(METRICS) == ["inverse", "sharpened", "adjugate"]
    assert METRICS["adjugate"] is adjugate


def test_the_dual_of_the_inverse_is_the_tensor():
    np.testing.assert_array_equal(inverse(EIGENVALUES, 3.0), EIGENVALUES)


@pytest.mark.parametrize("power", [1.0, 2.0, 2.5])
def test_the_dual_of_a_sharpened_metric_is_a_power_of_the_tensor(power):
    np.testing.assert_allclose(sharpened(EIGENVALUES, power), EIGENVALUES**power, rtol=1e-14)
    np.testing.assert_allclose(sharpened(EIGENVALUES, power)[0, 0], [1.7**power, 0.5**power, 0.2**power])


def test_the_adjugate_metric_is_the_matrix_of_cofactors():
    dual = adjugate(EIGENVALUES, 2.0)
    for values, w in zip(EIGENVALUES[:, 0], dual[:, 0], strict=True):
        cofactors = np.linalg.det(np.diag(values)) * np.linalg.inv(np.diag(values))  # adj D = det(D) D^-1
        np.testing.assert_allclose(np.diag(1 / w), cofactors, atol=1e-14)


@pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))
def test_metrics_keep_the_order_of_axes_and_the_type(metric):
    for real in (np.float32, np.float64):
        dual = metric(EIGENVALUES.astype(real), 2.0)
        assert dual.dtype == real
        assert (np.diff(dual, axis=-1) <= 0).all()
        assert (dual > 0).all()


NEW_METRIC = """
import importlib.util, sys
import napari_gpubio, numpy as np
from pathlib import Path

path = Path(napari_gpubio.__file__).parent / "tracts" / "metrics.py"
module = importlib.util.module_from_spec(importlib.util.spec_from_file_location("napari_gpubio.tracts.metrics", path))
sys.modules[module.__name__] = module
exec(path.read_text() + '''

@_metric
def cubed(eigenvalues, power):
    return eigenvalues * eigenvalues * eigenvalues
''', module.__dict__)

from napari_gpubio import tracts
from napari_gpubio.tracts.phantom.analytic import ring

field = ring(origin=(-31.5, -31.5, -3.5), shape=(64, 64, 8)).sample()
common = dict(max_length_mm=20.0, precision="double")
seed, ahead = [(20.0, 0.0, 0.0)], tracts.Directions(kind="principal")
new = tracts.track(field, seed, ahead, tracts.TrackSettings(metric="cubed", **common), device="cpu")
known = tracts.TrackSettings(metric="sharpened", sharpening=3.0, **common)
old = tracts.track(field, seed, ahead, known, device="cpu")
assert len(new.points) > 50
np.testing.assert_allclose(new.points, old.points, atol=1e-5)
plain = tracts.track(field, seed, ahead, tracts.TrackSettings(**common), device="cpu")
assert np.abs(new[0][-1] - plain[0][-1]).max() > 0.1
"""


def test_a_new_metric_is_one_more_function_in_the_file():
    done = subprocess.run([sys.executable, "-c", NEW_METRIC], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
    with pytest.raises(InvalidInput, match=sentence):
        checked_points(points)


def test_one_seed_may_be_given_bare():
    np.testing.assert_array_equal(checked_points((1, 2, 3)), [[1.0, 2.0, 3.0]])


def test_a_ball_is_filled_evenly():
    centre, radius = np.array([10.0, -20.0, 30.0]), 4.0
    points = ball(centre, radius, 20_000, seed=3)
    away = points - centre
    distance = np.linalg.norm(away, axis=1)
    assert distance.max() <= radius
    assert stats.kstest((distance / radius) ** 3, "uniform").pvalue > 1e-4  # uniform in volume
    for axis in range(3):
        assert stats.kstest(away[:, axis] / distance, "uniform", args=(-1, 2)).pvalue > 1e-4
    z = away.mean(axis=0) / (radius / np.sqrt(5 * len(points)))  # standard error of a coordinate's mean
    assert np.abs(z).max() < 3.9


def test_a_ball_depends_on_its_seed_only():
    np.testing.assert_array_equal(ball((1, 2, 3), 2.0, 50, seed=7), ball((1, 2, 3), 2.0, 50, seed=7))
    np.testing.assert_array_equal(ball((1, 2, 3), 2.0, 50, seed=7)[:20], ball((1, 2, 3), 2.0, 20, seed=7))
    assert not np.allclose(ball((1, 2, 3), 2.0, 50, seed=7), ball((1, 2, 3), 2.0, 50, seed=8))
    np.testing.assert_array_equal(ball((1, 2, 3), 0.0, 5), [[1, 2, 3]] * 5)


@pytest.mark.parametrize(("radius", "count"), [(1.0, 0), (1.0, -3), (-1.0, 5), (NAN, 5)])
def test_balls_that_cannot_be_seeded_are_refused(radius, count):
    with pytest.raises(InvalidInput, match=f"a ball of {count} points with radius {radius} mm cannot be seeded"):
        ball((0, 0, 0), radius, count)


AFFINE = np.array([[-2.0, 0.3, 0, 40], [0, 2.0, 0.4, -30], [0, 0, 3.0, 7], [0, 0, 0, 1]])
LABELS = np.zeros((6, 7, 8), np.uint8)
LABELS[2:4, 3:5, 1:7] = 2
LABELS[5, 6, 7] = 9


def voxels_of(points):
    return (points - AFFINE[:3, 3]) @ np.linalg.inv(AFFINE[:3, :3]).T


def test_a_label_is_seeded_at_its_voxel_centres():
    points = label_points(LABELS, AFFINE, 2)
    np.testing.assert_allclose(voxels_of(points), np.argwhere(LABELS == 2), atol=1e-12)
    np.testing.assert_allclose(label_points(LABELS, AFFINE, 9), [AFFINE[:3, :3] @ (5, 6, 7) + AFFINE[:3, 3]])


def test_random_seeds_fill_their_own_voxels():
    points = label_points(LABELS, AFFINE, 2, per_voxel=500, seed=4)
    inside = voxels_of(points).reshape(24, 500, 3) - np.argwhere(LABELS == 2)[:, None]
    assert np.abs(inside).max() <= 0.5
    for axis in range(3):
        assert stats.kstest(inside[..., axis].ravel() + 0.5, "uniform").pvalue > 1e-4
    np.testing.assert_array_equal(points, label_points(LABELS, AFFINE, 2, per_voxel=500, seed=4))
    assert not np.allclose(points, label_points(LABELS, AFFINE, 2, per_voxel=500, seed=5))


def test_a_label_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(InvalidInput, match=r"no voxel has label 3; the volume has labels \[0, 2, 9\]"):
        label_points(LABELS, AFFINE, 3)


@pytest.mark.parametrize("per_voxel", [0, -2])
def test_no_point_in_a_voxel_is_no_seed(per_voxel):
    with pytest.raises(InvalidInput, match=str(per_voxel)):
        label_points(LABELS, AFFINE, 2, per_voxel=per_voxel)


# -- directions -------------------------------------------------------------------------------------------------------


def nearest_angles(directions):
    """Angle from each direction to its nearest neighbour."""
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
    directions = sphere_directions(500)
    assert np.abs(directions.mean(axis=0)).max() < 0.01
    np.testing.assert_allclose(directions.T @ directions / 500, np.eye(3) / 3, atol=0.01)


def fan(directions, principal=(0.0, 0.0, 1.0), start=0, count=None):
    """Directions at one seed of a field whose tensors all have one principal direction."""
    axis = np.asarray(principal, float) / np.linalg.norm(principal)
    d = 1e-3 * (0.3 * np.eye(3) + 1.4 * np.outer(axis, axis))
    tensors = np.broadcast_to(d[(0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)], (5, 5, 5, 6))
    field = TensorField(tensors=tensors, mask=np.ones((5, 5, 5), bool), affine=np.eye(4))
    launch = make_launch(field, [(2, 2, 2), (1.5, 2.2, 3)], directions)
    points, found = launch.rays(start, len(launch) if count is None else count)
    return launch, points, found


AXES = [(0, 0, 1), (0, 0, -1), (1, 0, 0), (0, 1, 0), (1e-9, 0, -1), (1, 2, 3), (-3, 2, -1)]


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_a_cone_is_wound_around_the_principal_direction(axis):
    _, _, found = fan(Directions(count=400, cone_half_angle_deg=25), axis)
    unit = np.asarray(axis, float) / np.linalg.norm(axis)
    for seed in (found[:400], found[400:]):
        np.testing.assert_allclose(np.linalg.norm(seed, axis=1), 1, atol=1e-12)
        mean = seed.mean(axis=0)
        assert abs(mean @ unit) == pytest.approx((1 + np.cos(np.deg2rad(25))) / 2, abs=1e-9)
        assert np.linalg.norm(np.cross(mean, unit)) < 0.005
        angles = np.rad2deg(np.arccos(np.abs(seed @ unit).clip(0, 1)))
        assert 24 < angles.max() <= 25 + 1e-6


def test_half_a_sphere_is_enough_both_ways():
    _, _, both = fan(Directions(kind="sphere", count=300), (1, 2, 3))
    assert both[:, 2].min() > 0
    whole = np.concatenate([both[:300], -both[:300]])
    np.testing.assert_allclose(whole.T @ whole / 600, np.eye(3) / 3, atol=0.01)
    assert nearest_angles(whole).min() > 0.4 * np.sqrt(4 * np.pi / 600)
    _, _, one_way = fan(Directions(kind="sphere", count=300, both_ways=False), (1, 2, 3))
    np.testing.assert_allclose(one_way[:300], sphere_directions(300))


def test_the_principal_direction_alone_is_one_fiber():
    launch, points, found = fan(Directions(kind="principal", count=77), (1, 2, 3))
    assert (len(launch), launch.directions.per_seed) == (2, 1)
    np.testing.assert_allclose(np.abs(found @ (1, 2, 3)) / np.sqrt(14), 1, atol=1e-12)
    np.testing.assert_allclose(points, [(2, 2, 2), (1.5, 2.2, 3)])


@pytest.mark.parametrize("kind", ["cone", "sphere", "principal"])
def test_any_range_of_fibers_is_a_part_of_all(kind):
    launch, points, found = fan(Directions(kind=kind, count=30), (1, 2, 3))
    for start, count in ((0, 1), (1, len(launch) - 1), (len(launch) // 2, 1), (len(launch) // 2 - 1, 2)):
        _, some_points, some = fan(Directions(kind=kind, count=30), (1, 2, 3), start, count)
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
        ([(500.0, 0.0, 0.0)], r"the seed at \(500.0, 0.0, 0.0\) mm lies outside the volume"),
        ([(500.0, 0.0, 0.0), (0.0, -500.0, 0.0)], "outside the volume"),
        ([world(5, 5, 5)], "lies in the background, where there are no tensors"),
        ([(500.0, 0.0, 0.0), world(4, 1, 1)], "lies in the background"),
        ([(NAN, 0.0, 0.0)], "not finite"),
        ([], "there are no seed points"),
        ([(1.0, 2.0)], "shape"),
    ],
)
def test_seeds_that_nothing_can_leave_are_refused(half_masked, seeds, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        make_launch(half_masked, seeds, Directions())


def test_only_seeds_in_the_mask_are_launched(half_masked):
    good = [world(1, 1, 1), world(2.49, 6, 7), world(0, 0, 0)]
    seeds = [good[0], world(2.51, 3, 3), good[1], (500, 0, 0), good[2], world(5, 5, 5)]
    launch = make_launch(half_masked, seeds, Directions(count=10))
    np.testing.assert_allclose(launch.points_mm, good)
    assert len(launch) == 30
    np.testing.assert_allclose(np.abs(launch.axes), [[1, 0, 0]] * 3, atol=1e-12)


def test_the_principal_direction_is_that_of_the_interpolated_tensor():
    first, second = (np.array([1.7e-3, 3e-4, 3e-4, 0, 0, 0]), np.array([3e-4, 1.7e-3, 3e-4, 0, 0, 0]))
    share = (np.arange(5) / 4)[:, None, None, None]
    tensors = np.broadcast_to((1 - share) * first + share * second, (5, 5, 5, 6))
    field = TensorField(tensors=tensors, mask=np.ones((5, 5, 5), bool), affine=np.eye(4))
    launch = make_launch(field, [(1.9, 2.3, 1.1), (2.1, 0.0, 4.0)], Directions())
    np.testing.assert_allclose(np.abs(launch.axes), [[1, 0, 0], [0, 1, 0]], atol=1e-12)


# -- settings ---------------------------------------------------------------------------------------------------------


def bad_values():
    """Every parameter of every settings class just beyond each of its limits, and what must be said."""
    for settings in (Directions, TrackSettings, FitSettings):
        for field in dataclasses.fields(settings):
            info = param_info(field)
            if info is None or isinstance(field.default, bool):
                continue
            if info.choices:
                yield settings, field.name, "nonsense", info.choices
                continue
            whole = isinstance(field.default, int)
            yield settings, field.name, NAN, ("finite",)
            yield settings, field.name, INF, ("finite",)
            if info.above is not None:
                yield settings, field.name, info.above, (f"greater than {info.above:g}",)
                yield settings, field.name, info.above - 1, (f"greater than {info.above:g}",)
            if info.minimum is not None:
                below = info.minimum - 1 if whole else info.minimum - 1e-3
                yield settings, field.name, below, (f"at least {info.minimum:g}",)
            assert info.maximum is not None, f"{field.name} has no upper limit"
            over = info.maximum + 1 if whole else 1.001 * info.maximum
            yield settings, field.name, over, (f"at most {info.maximum:g}",)


@pytest.mark.parametrize(
    ("settings", "name", "value", "allowed"),
    [pytest.param(*case, id=f"{case[0].__name__}-{case[1]}-{case[2]}") for case in bad_values()],
)
def test_a_value_beyond_a_limit_is_refused_with_what_is_allowed(settings, name, value, allowed):
    with pytest.raises(InvalidInput) as caught:
        settings(**{name: value})
    said = str(caught.value)
    assert said.startswith(f"{name} is ")
    assert (repr(value) if isinstance(value, str) else f"{value:g}") in said
    for word in allowed:
        assert word in said


@pytest.mark.parametrize("settings", [Directions, TrackSettings, FitSettings])
def test_defaults_and_limits_themselves_are_allowed(settings):
    settings()
    for field in dataclasses.fields(settings):
        info = param_info(field)
        if info is None:
            continue
        for value in (info.minimum, info.maximum, *(info.choices or ())):
            if value is not None:
                assert getattr(settings(**{field.name: value}), field.name) == value


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        (TrackSettings, "step_mm", np.float32(0.0)),
        (TrackSettings, "step_mm", np.float32(NAN)),
        (TrackSettings, "max_steps", np.int64(0)),
        (Directions, "count", np.int32(0)),
    ],
)
def test_numbers_of_numpy_are_checked_too(settings, name, value):
    with pytest.raises(InvalidInput, match=name):
        settings(**{name: value})


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        (TrackSettings, "step_mm", "0.5"),
        (TrackSettings, "step_mm", None),
        (Directions, "count", 2.5),
        (TrackSettings, "points_every", 1.5),
    ],
)
def test_values_of_another_kind_are_refused(settings, name, value):
    with pytest.raises(InvalidInput, match=name):
        settings(**{name: value})


def test_a_replaced_value_is_checked():
    with pytest.raises(InvalidInput, match="step_mm is 0 mm; it must be greater than 0 mm"):
        dataclasses.replace(TrackSettings(), step_mm=0.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        TrackSettings().step_mm = 0.0


def test_how_many_steps_and_points_a_ray_may_have():
    settings = TrackSettings(step_mm=0.5, max_length_mm=250)
    assert (settings.ray_steps, settings.ray_points) == (502, 503)
    assert dataclasses.replace(settings, max_steps=100).ray_steps == 100
    assert dataclasses.replace(settings, points_every=10).ray_points == 51
    assert {name: TrackSettings(integrator=name).integrator for name in INTEGRATORS} == {n: n for n in INTEGRATORS}
