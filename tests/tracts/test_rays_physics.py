"""Rays against closed-form geodesics, symmetries and conserved quantities; why a ray ends, and what is kept of it."""

import dataclasses
import functools

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core.device import CPU, choose_device
from napari_gpubio.tracts import Directions, StopReason, TensorField, track
from napari_gpubio.tracts.cases import (
    BEYOND_VANAART,
    EXACT,
    HAMILTONIAN,
    SEED_SCHEME,
    SHARP,
    VANAART,
    ray_errors,
    shoot,
)
from napari_gpubio.tracts.phantom.analytic import (
    adaptive_ring,
    analytic_fields,
    as_matrices,
    constant,
    fish_eye,
    half_space,
    pull_back,
    ring,
)
from napari_gpubio.tracts.phantom.analytic.fibres import ACROSS, ALONG, RING_RADIUS
from napari_gpubio.tracts.phantom.analytic.field import DIFFUSIVITY
from napari_gpubio.tracts.phantom.brain import voxel_centres
from napari_gpubio.tracts.rays.problem import RayProblem, continued
from napari_gpubio.tracts.run import make_runs, trace_problem
from napari_gpubio.tracts.seeds import Launch

FIELDS = {field.name: field for field in analytic_fields()}
DOUBLE = dataclasses.replace(EXACT, precision="double")
SEED_DOUBLE = dataclasses.replace(SEED_SCHEME, precision="double")
EUDX = dataclasses.replace(EXACT, method="eudx")
FORWARDS = Directions(kind="principal", both_ways=False)
SINGLE_AND_DOUBLE = pytest.mark.parametrize("precision", ["single", "double"])


@functools.cache
def sampled(make, *arguments):
    """One sampled copy of an analytic field for all tests, so that its volumes are prepared once."""
    return make(*arguments).sample()


def changed(settings, **changes):
    return dataclasses.replace(settings, **changes)


def one_ray(field, start, direction, settings, device="cpu"):
    return shoot(field, start, direction, settings, choose_device(device))


def matrices(tensors):
    return tensors[..., [[0, 3, 4], [3, 1, 5], [4, 5, 2]]]


def six(d):
    return d[..., [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]


# -- closed forms: T1 to T7, T9 to T11 --------------------------------------------------------------------------------


def check_errors(errors, limits):
    for what, error in errors.items():
        assert error <= limits[what], f"{what}: {error:.2g} > {limits[what]:g}"


@SINGLE_AND_DOUBLE
@pytest.mark.parametrize("name", FIELDS)
def test_hamiltonian_rays_follow_the_closed_form(name, precision, device):
    errors = ray_errors(FIELDS[name], changed(EXACT, precision=precision), choose_device(device))
    assert "position" in errors or name == "helix"
    check_errors(errors, SHARP if name == "ring, power 3" else HAMILTONIAN)


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in BEYOND_VANAART])
def test_rays_of_the_paper_follow_the_closed_form_to_its_own_error(name, device):
    check_errors(ray_errors(FIELDS[name], SEED_SCHEME, choose_device(device)), VANAART)


@pytest.mark.parametrize("make", [constant, half_space, pull_back, ring])
def test_double_precision_comes_nearer(make):
    """The position of a point is packed in single precision, which is why it is not nearer still."""
    errors = ray_errors(make(), DOUBLE, CPU)
    assert errors["position"] < 5e-5
    assert errors["drift"] < 1e-7


def test_all_rays_of_the_fish_eye_meet_at_the_antipode(device):
    """T3: every route to the antipode (-16, 0, 0) has length 16 pi."""
    field, a = sampled(fish_eye), 16.0
    for degrees in (-30, -10, 10, 30):
        t = np.deg2rad(degrees)
        direction = (np.sin(t), 0.8 * np.cos(t), 0.6 * np.cos(t))
        distance, length = passing(field, (a, 0, 0), direction, (-a, 0, 0), changed(EXACT, max_length_mm=110), device)
        assert distance < 2e-3
        assert length == pytest.approx(np.pi * a, abs=2e-3)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_tangential_rays_leave_the_ring_as_on_a_cone(power, device):
    """T7: r(90 deg)/r0 = 1/cos(k^p 90 deg): how badly geodesics follow a bent bundle."""
    expected = {1: 1.26570, 2: 1.03969, 3: 1.00682}[power]
    field = sampled(ring)
    settings = changed(EXACT, max_length_mm=36, metric="sharpened", sharpening=float(power))
    path = one_ray(field, (RING_RADIUS, 0, 0), (0, 1, 0), settings, device)[0]
    n = np.searchsorted(-path[:, 0], 0.0)
    share = path[n - 1, 0] / (path[n - 1, 0] - path[n, 0])
    crossing = path[n - 1] + share * (path[n] - path[n - 1])
    assert crossing[1] / RING_RADIUS == pytest.approx(expected, abs=3e-4)


# -- T8: two routes between two points of the ring ---------------------------------------------------------------------


def passing(field, start, direction, target, settings, device="cpu"):
    """Distance (mm) at which a ray passes a point, and its Riemannian length there."""
    path = one_ray(field, start, direction, settings, device)[0].astype(float)
    steps, away = np.diff(path, axis=0), np.asarray(target, float) - path[:-1]
    share = ((away * steps).sum(axis=1) / (steps**2).sum(axis=1)).clip(0, 1)
    distances = np.linalg.norm(away - share[:, None] * steps, axis=1)
    n = int(np.argmin(distances))
    lengths = [0.0, 0.0]
    for m in (n, n + 1):
        if m:
            some = one_ray(field, start, direction, changed(settings, max_steps=m), device)
            lengths[m - n] = float(some.per_fiber["riemannian_length_mm"][0])
    return distances[n], lengths[0] + share[n] * (lengths[1] - lengths[0])


@pytest.mark.parametrize(
    ("winding", "length", "degrees", "nearest"), [(0, 31.1003373, 11.18, 18.10), (-1, 56.2785224, 153.07, 12.75)]
)
def test_two_routes_join_two_points_of_the_ring(winding, length, degrees, nearest, device):
    k, apart = np.sqrt(ACROSS / ALONG), np.deg2rad(120)
    opened = k * (apart + 2 * np.pi * winding)  # the angle between the points on the cone, cut open
    off = np.arctan(k * np.tan(abs(opened) / 2))  # chord against circle on the cone; circles there are k times as long
    direction = np.array([-np.sin(off), np.sign(opened) * np.cos(off), 0])
    assert np.rad2deg(np.arccos(direction[1])) == pytest.approx(degrees, abs=0.005)
    assert 2 * RING_RADIUS * np.sin(abs(opened) / 2) / np.sqrt(ACROSS) == pytest.approx(length, abs=1e-7)

    target = RING_RADIUS * np.array([np.cos(apart), np.sin(apart), 0])
    settings = changed(DOUBLE, max_length_mm=80)
    distance, found = passing(sampled(ring), (RING_RADIUS, 0, 0), direction, target, settings, device)
    assert distance < 0.02
    assert found == pytest.approx(length, abs=1e-3)
    path = one_ray(sampled(ring), (RING_RADIUS, 0, 0), direction, settings, device)[0]
    assert np.linalg.norm(path[:, :2], axis=1).min() == pytest.approx(nearest, abs=0.01)


# -- T12: symmetries --------------------------------------------------------------------------------------------------

START, AHEAD = (10.0, 5.0, 8.0), (-0.7, -0.6, 0.2)
METHODS = {"hamiltonian": DOUBLE, "vanaart2011": SEED_DOUBLE, "eudx": changed(EUDX, precision="double")}


def tangent_at_end(path):
    """Direction at the end of an evenly stepped path, to fourth order."""
    return path[-5:].astype(float).T @ (np.array([3, -16, 36, -48, 25]) / 12)


@pytest.mark.parametrize("make", [pull_back, ring, half_space, adaptive_ring])
def test_a_ray_that_turns_round_comes_home(make, device):
    launch, field = make().launches[-1], sampled(make)
    there = one_ray(field, launch.start, launch.direction, changed(DOUBLE, max_length_mm=20), device)
    assert there.per_fiber["stop_reason"][0] == StopReason.LENGTH
    settings, home = changed(DOUBLE, max_length_mm=21), -tangent_at_end(there[0])
    distance, length = passing(field, there[0][-1], home, launch.start, settings, device)
    assert distance < 2e-3
    assert length == pytest.approx(float(there.per_fiber["riemannian_length_mm"][0]), abs=2e-3)


def turned_world(field, turn):
    """The same array in a turned world: affine and tensors turn along."""
    affine = np.eye(4)
    affine[:3, :3] = turn
    return TensorField(
        tensors=six(turn @ matrices(field.tensors) @ turn.T), mask=field.mask, affine=affine @ field.affine
    )


def stored_otherwise(field, order, flips):
    """The same world field with its array axes in another order and some of them reversed."""
    affine = np.eye(4)
    affine[:3, :3] = np.eye(3)[:, list(order)]
    for new, old in enumerate(order):
        if flips[new]:
            affine[:3, new] *= -1
            affine[old, 3] = field.shape[old] - 1
    axes = tuple(n for n in range(3) if flips[n])
    tensors, mask = (np.flip(np.moveaxis(a, order, (0, 1, 2)), axes) for a in (field.tensors, field.mask))
    return TensorField(
        tensors=np.ascontiguousarray(tensors), mask=np.ascontiguousarray(mask), affine=field.affine @ affine
    )


TURNS = {
    "90 degrees": Rotation.from_euler("z", 90, degrees=True).as_matrix(),
    "axes permuted": np.eye(3)[[2, 0, 1]],
    "mirrored": np.diag([1.0, -1.0, 1.0]),
    "any": Rotation.from_euler("xyz", [20, -35, 50], degrees=True).as_matrix(),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("turn", TURNS)
def test_turning_the_world_turns_the_rays(method, turn, device):
    matrix, settings = TURNS[turn], changed(METHODS[method], max_length_mm=30)
    expected = one_ray(sampled(pull_back), START, AHEAD, settings, device)
    found = one_ray(turned_world(sampled(pull_back), matrix), matrix @ START, matrix @ AHEAD, settings, device)
    assert len(expected.points) > 100
    np.testing.assert_allclose(found[0], expected[0] @ matrix.T, atol=1e-4)
    for name in ("length_mm", "riemannian_length_mm", "mean_fa", "alignment"):
        np.testing.assert_allclose(found.per_fiber[name], expected.per_fiber[name], rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("order", "flips"), [((1, 0, 2), (0, 0, 0)), ((2, 0, 1), (0, 0, 0)), ((0, 1, 2), (1, 0, 1)), ((1, 2, 0), (0, 1, 0))]
)
def test_how_the_array_is_stored_does_not_matter(method, order, flips, device):
    settings = changed(METHODS[method], max_length_mm=30)
    field = sampled(pull_back)
    again = stored_otherwise(field, order, flips)
    at = np.array([40, 11, 30])
    corner = again.affine @ [*at, 1]
    original = np.rint(np.linalg.solve(field.affine, corner))[:3].astype(int)
    np.testing.assert_array_equal(again.tensors[tuple(at)], field.tensors[tuple(original)])
    expected = one_ray(field, START, AHEAD, settings, device)
    assert len(expected.points) > 100
    np.testing.assert_allclose(one_ray(again, START, AHEAD, settings, device)[0], expected[0], atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_faster_diffusion_bends_no_ray(method, device):
    """Scaling D by c leaves curves and divides Riemannian lengths by sqrt(c)."""
    settings, field, c = changed(METHODS[method], max_length_mm=30), sampled(pull_back), 2.5
    faster = dataclasses.replace(field, tensors=c * field.tensors, cache=type(field.cache)())
    expected, found = (one_ray(f, START, AHEAD, settings, device) for f in (field, faster))
    np.testing.assert_allclose(found[0], expected[0], atol=1e-4)
    if method != "eudx":
        ratio = expected.per_fiber["riemannian_length_mm"] / found.per_fiber["riemannian_length_mm"]
        np.testing.assert_allclose(ratio, np.sqrt(c), rtol=1e-5)


# -- other grids ------------------------------------------------------------------------------------------------------

TURN = Rotation.from_euler("xyz", [12, -18, 25], degrees=True).as_matrix()
GRIDS = {
    "anisotropic": np.diag([1.3, 0.9, 1.6]),
    "sheared": np.array([[1.2, 0.3, 0.0], [0.0, 1.2, -0.2], [0.1, 0.0, 1.2]]),
    "rotated": TURN @ np.diag([1.2, 1.2, 1.2]),
    "left-handed": np.diag([-1.2, 1.2, 1.2]),
    "everything": TURN @ np.array([[-1.3, 0.2, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.5]]),
}


def on_grid(tensor_at, matrix, extent_mm):
    """A field sampled around the world's origin; every side is at least ``extent_mm`` away."""
    shape = tuple(2 * int(np.ceil(extent_mm * np.linalg.norm(row))) + 1 for row in np.linalg.inv(matrix))
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = matrix, -matrix @ (np.array(shape) // 2)
    tensors = DIFFUSIVITY * tensor_at(voxel_centres(affine, shape))
    return TensorField(tensors=tensors, mask=np.ones(shape, bool), affine=affine)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("changes", [{}, {"interpolation": "linear"}, {"method": "vanaart2011"}], ids=str)
def test_rays_in_a_constant_field_are_straight_in_every_grid(grid, changes, device):
    field = on_grid(constant().tensor_at, GRIDS[grid], 11.0)
    start, ahead = np.array([-3.0, -4.0, -5.0]), np.array([1.0, 2.0, 3.0]) / np.sqrt(14)
    traced = one_ray(field, start, ahead, changed(DOUBLE, max_length_mm=14, **changes), device)
    steps = np.arange(len(traced.points))
    assert len(steps) > 60
    np.testing.assert_allclose(traced[0], start + 0.2 * steps[:, None] * ahead, atol=2e-6)
    assert traced.per_fiber["length_mm"][0] == pytest.approx(0.2 * steps[-1], rel=1e-6)
    metric = np.linalg.inv(as_matrices(constant().tensor_at(start)))
    riemannian = np.sqrt(ahead @ metric @ ahead) * 0.2 * steps[-1]
    assert traced.per_fiber["riemannian_length_mm"][0] == pytest.approx(riemannian, rel=1e-6)
    assert traced.per_fiber["drift"][0] < 1e-13


@pytest.mark.parametrize("grid", GRIDS)
def test_streamlines_in_a_constant_field_follow_the_principal_direction(grid, device):
    field = on_grid(constant().tensor_at, GRIDS[grid], 11.0)
    first = np.linalg.eigh(as_matrices(constant().tensor_at(np.zeros(3))))[1][:, -1]
    ahead = first + 0.3 * np.linalg.eigh(as_matrices(constant().tensor_at(np.zeros(3))))[1][:, 0]
    traced = one_ray(field, (0, 0, 0), ahead, changed(EUDX, max_length_mm=9), device)
    np.testing.assert_allclose(traced[0], 0.2 * np.arange(len(traced.points))[:, None] * first, atol=5e-5)
    assert len(traced.points) > 40


@pytest.mark.parametrize("grid", GRIDS)
def test_the_same_world_gives_the_same_rays_on_every_grid(grid, device):
    analytic = pull_back()
    field = on_grid(analytic.tensor_at, GRIDS[grid], 22.0)
    traced = one_ray(field, START, AHEAD, changed(DOUBLE, max_length_mm=25), device)
    length = float(traced.per_fiber["riemannian_length_mm"][0])
    expected = analytic.path(START, AHEAD, [length])[0]
    assert traced.per_fiber["length_mm"][0] > 24.9
    assert np.linalg.norm(traced[0][-1] - expected) < 1e-3
    assert traced.per_fiber["drift"][0] < 1e-6


def test_every_interpolation_is_exact_where_tensors_are_linear_in_space(device):
    field = on_grid(
        lambda x: (1 + 0.02 * x[..., :1] - 0.01 * x[..., 1:2]) * np.array([1.7, 0.6, 0.4, 0.3, -0.2, 0.1]),
        GRIDS["everything"],
        14.0,
    )
    paths = {}
    for how in ("interpolating", "smoothing", "linear"):
        settings = changed(DOUBLE, interpolation=how, max_length_mm=12)
        paths[how] = one_ray(field, (-5, -4, 3), (1, 1, -0.4), settings, device)[0]
    straight = paths["linear"][-1] - paths["linear"][0]
    assert np.abs(np.cross(paths["linear"][30] - paths["linear"][0], straight)).max() > 0.1  # it does bend
    np.testing.assert_allclose(paths["smoothing"], paths["linear"], atol=1e-5)
    np.testing.assert_allclose(paths["interpolating"], paths["linear"], atol=1e-4)  # the prefilter's border


def test_the_smoothing_spline_blurs_and_the_interpolating_one_does_not():
    smooth, exact = (
        ray_errors(adaptive_ring(), changed(DOUBLE, interpolation=how), CPU) for how in ("smoothing", "interpolating")
    )
    assert smooth["position"] > 10 * exact["position"]
    assert smooth["drift"] < 1e-7  # it is a metric all the same, and its geodesics keep g(v, v)


# -- metrics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "determinant"), [(ring, ALONG * ACROSS**2), (pull_back, 1.0)])
def test_with_a_constant_determinant_the_adjugate_metric_has_the_same_curves(make, determinant, device):
    launch = make().launches[0]
    inverse, adjugate = (
        one_ray(sampled(make), launch.start, launch.direction, changed(DOUBLE, metric=m, max_length_mm=30), device)
        for m in ("inverse", "adjugate")
    )
    np.testing.assert_allclose(adjugate[0], inverse[0], atol=1e-4)
    ratio = adjugate.per_fiber["riemannian_length_mm"] / inverse.per_fiber["riemannian_length_mm"]
    np.testing.assert_allclose(ratio, np.sqrt(determinant), rtol=1e-5)


def test_sharpening_by_one_changes_nothing_and_by_three_is_the_cube(device):
    settings = changed(DOUBLE, max_length_mm=25)
    plain = one_ray(sampled(ring), (20, 0, 0), (-0.2, 1, 0.1), settings, device)
    one = one_ray(
        sampled(ring), (20, 0, 0), (-0.2, 1, 0.1), changed(settings, metric="sharpened", sharpening=1.0), device
    )
    np.testing.assert_allclose(one[0], plain[0], atol=1e-5)
    cubed = changed(settings, metric="sharpened", sharpening=3.0)
    sharp = one_ray(sampled(ring), (20, 0, 0), (-0.2, 1, 0.1), cubed, device)
    cube = one_ray(sampled(ring, 3), (20, 0, 0), (-0.2, 1, 0.1), settings, device)
    np.testing.assert_allclose(sharp[0], cube[0], atol=1e-4)


def test_eigenvalues_below_the_floor_are_raised(device):
    flat = on_grid(lambda x: 0 * x[..., :1] + np.array([1.7, 0.3, 0.0, 0, 0, 0]), np.eye(3), 10.0)
    floored = on_grid(lambda x: 0 * x[..., :1] + np.array([1.7, 0.3, 0.1, 0, 0, 0]), np.eye(3), 10.0)
    settings = changed(DOUBLE, eigenvalue_floor_mm2_per_s=1e-4, max_length_mm=8)
    expected, found = (one_ray(field, (0, 0, 0), (1, 2, 3), settings, device) for field in (floored, flat))
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6)
    np.testing.assert_allclose(
        found.per_fiber["riemannian_length_mm"], expected.per_fiber["riemannian_length_mm"], rtol=1e-6
    )


def test_streamlines_stay_on_the_ring(device):
    fiber = one_ray(sampled(ring), (RING_RADIUS, 0, 0), (0, 1, 0), changed(EUDX, max_length_mm=130), device)
    radius = np.linalg.norm(fiber[0][:, :2], axis=1)
    assert fiber.per_fiber["length_mm"][0] > 125.6  # once around
    assert np.abs(radius - RING_RADIUS).max() < 0.05
    assert fiber.per_fiber["alignment"][0] > 0.9999
    anisotropy = np.sqrt(1 / 2) * np.hypot(*[ALONG - ACROSS] * 2) / np.linalg.norm([ALONG, ACROSS, ACROSS])
    assert fiber.per_fiber["mean_fa"][0] == pytest.approx(anisotropy, rel=1e-5)


# -- integrators ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("integrator", "order"), [("euler", 1), ("rk2", 2), ("rk4", 4)])
def test_the_drift_falls_with_the_order_of_the_integrator(integrator, order):
    """From a step of 1.6 to 0.4 voxels; a cubic spline's third derivative jumps, which costs a little of the fourth."""
    launch = pull_back().launches[1]
    drifts = [
        float(
            one_ray(
                sampled(pull_back),
                launch.start,
                launch.direction,
                changed(DOUBLE, integrator=integrator, step_mm=step, max_length_mm=32),
            ).per_fiber["drift"][0]
        )
        for step in (1.6, 0.4)
    ]
    found = np.log(drifts[0] / drifts[1]) / np.log(4)
    assert order - (0.8 if order == 4 else 0.15) < found < order + 0.5


def test_the_drift_of_the_paper_has_a_floor_and_ours_has_none():
    launch = adaptive_ring().launches[0]

    def drift(settings, step):
        limited = changed(settings, step_mm=step, max_length_mm=40)
        return float(one_ray(sampled(adaptive_ring), launch.start, launch.direction, limited).per_fiber["drift"][0])

    rk4 = changed(SEED_DOUBLE, integrator="rk4")
    assert drift(rk4, 0.1) > 0.8 * drift(rk4, 0.4) > 1e-3
    assert drift(DOUBLE, 0.1) < drift(DOUBLE, 0.4) / 30 < 1e-8


# -- why rays end -----------------------------------------------------------------------------------------------------


def rod(shape=(40, 12, 12), *, isotropic_from=None, masked_to=None):
    """Fibres along x on 1 mm voxels; perhaps round tensors from some voxel on, perhaps a mask that ends at one."""
    tensors = np.zeros((*shape, 6))
    tensors[..., :3] = 1.7e-3, 0.3e-3, 0.3e-3
    if isotropic_from is not None:
        tensors[isotropic_from:, ..., :3] = 0.7e-3
    mask = np.ones(shape, bool)
    if masked_to is not None:
        mask[masked_to + 1 :] = False
    return TensorField(tensors=np.where(mask[..., None], tensors, 0), mask=mask, affine=np.eye(4))


ROD = changed(EXACT, step_mm=0.25, max_length_mm=100)


def end_of(field, settings, device, start=(5.0, 6.0, 6.0), ahead=(1, 0, 0)):
    """Why a ray ends, and where."""
    traced = one_ray(field, start, ahead, settings, device)
    return StopReason(int(traced.per_fiber["stop_reason"][0])), traced[0][-1].astype(float)


ALL_METHODS = pytest.mark.parametrize(
    "changes",
    [{}, {"interpolation": "linear"}, {"method": "vanaart2011"}, {"method": "eudx"}],
    ids=["cubic", "linear", "vanaart2011", "eudx"],
)
INTEGRATORS = pytest.mark.parametrize("integrator", ["rk4", "rk2", "euler"])


@ALL_METHODS
@INTEGRATORS
def test_a_ray_ends_at_the_side_of_the_volume(changes, integrator, device):
    reason, end = end_of(rod(), changed(ROD, integrator=integrator, **changes), device)
    assert reason == StopReason.VOLUME
    np.testing.assert_allclose(end, (39, 6, 6), atol=0.26)


@ALL_METHODS
@INTEGRATORS
def test_a_ray_ends_at_the_border_of_the_mask(changes, integrator, device):
    field = rod(masked_to=20)
    reason, end = end_of(field, changed(ROD, integrator=integrator, **changes), device)
    assert reason == StopReason.MASK
    assert 20 - 1e-4 < end[0] <= 20.5  # the last voxel reaches half a voxel beyond its centre
    np.testing.assert_allclose(end[1:], 6, atol=1e-5)


@ALL_METHODS
def test_a_ray_ends_where_anisotropy_falls_below_the_limit(changes, device):
    reason, end = end_of(rod(isotropic_from=20), changed(ROD, fa_stop=0.4, **changes), device)
    assert reason == StopReason.FA
    full = 1.4 / np.linalg.norm([1.7, 0.3, 0.3])
    limit = 19 + (full - 0.4) / full  # FA falls linearly from voxel 19 to voxel 20
    assert limit - 0.26 < end[0] <= limit + 1e-5


@ALL_METHODS
def test_a_ray_ends_after_its_steps(changes, device):
    reason, end = end_of(rod(), changed(ROD, max_steps=17, **changes), device)
    assert reason == StopReason.STEPS
    np.testing.assert_allclose(end, (5 + 17 * 0.25, 6, 6), atol=1e-4)


@ALL_METHODS
def test_a_ray_ends_at_its_longest_length(changes, device):
    reason, end = end_of(rod(), changed(ROD, max_length_mm=7.6, **changes), device)
    assert reason == StopReason.LENGTH
    np.testing.assert_allclose(end, (5 + 7.75, 6, 6), atol=1e-4)  # the first point at least so far


@pytest.mark.parametrize("settings", [EUDX, EXACT, SEED_SCHEME], ids=["eudx", "hamiltonian", "vanaart2011"])
def test_a_ray_may_be_as_long_as_allowed_in_every_method(settings, device):
    """Upwards in the half space, where D grows, and downwards, where a velocity in mm shrinks."""
    for ahead in ((1, 1, 0), (1, -0.6, 0)):
        field = sampled(ring) if settings.method == "eudx" else sampled(half_space)
        start = (20, 0, 0) if settings.method == "eudx" else (-20, 45, 0)
        traced = one_ray(field, start, ahead, changed(settings, max_length_mm=25.0), device)
        assert StopReason(int(traced.per_fiber["stop_reason"][0])) == StopReason.LENGTH
        assert 25.0 <= traced.per_fiber["length_mm"][0] < 25.5


@pytest.mark.parametrize(("radius", "reason"), [(25.0, StopReason.CURVATURE), (15.0, StopReason.LENGTH)])
def test_a_ray_ends_where_it_bends_too_tightly(radius, reason, device):
    """Streamlines on the ring bend with a radius of 20 mm."""
    settings = changed(EUDX, min_radius_mm=radius, max_length_mm=20, step_mm=0.5)
    assert end_of(sampled(ring), settings, device, (20, 0, 0), (0, 1, 0))[0] == reason


def test_bending_is_measured_in_millimetres(device):
    """A geodesic of the half space is a circle whose radius is known."""
    launch, grid = half_space().launches[0], GRIDS["everything"]
    field = on_grid(lambda x: half_space().tensor_at(x + np.array([0, 40, 0])), grid, 16.0)
    start = np.array([0.0, 0.0, 0.0])
    assert launch.direction[1] == 0  # level: a circle of radius 40
    for radius, reason in ((42.0, StopReason.CURVATURE), (38.0, StopReason.LENGTH)):
        settings = changed(DOUBLE, min_radius_mm=radius, max_length_mm=12)
        assert end_of(field, settings, device, start, launch.direction)[0] == reason


def test_a_ray_ends_at_its_largest_drift(device):
    field, launch = sampled(adaptive_ring), adaptive_ring().launches[0]
    free = one_ray(field, launch.start, launch.direction, changed(SEED_SCHEME, max_length_mm=40), device)
    drift = float(free.per_fiber["drift"][0])
    limited = changed(SEED_SCHEME, max_length_mm=40, max_drift=drift / 2)
    stopped = one_ray(field, launch.start, launch.direction, limited, device)
    assert stopped.per_fiber["stop_reason"][0] == StopReason.DRIFT
    assert 1 < len(stopped.points) < len(free.points)
    np.testing.assert_array_equal(stopped[0], free[0][: len(stopped[0])])


def launched(field, settings, points, axes, device, directions=FORWARDS):
    launch = Launch(np.asarray(points, float), np.asarray(axes, float), directions)
    return trace_problem(RayProblem(field, launch, settings), choose_device(device))


@pytest.mark.parametrize("settings", METHODS.values(), ids=list(METHODS))
def test_a_ray_that_cannot_start_is_invalid_and_harms_no_other(settings, device):
    points = [(5, 6, 6), (-3, 6, 6), (5, 6, 6)]
    axes = [(1, 0, 0), (1, 0, 0), (1, 0, 0) if settings.method == "eudx" else (0, 0, 0)]
    limited = changed(settings, max_length_mm=5, min_length_mm=0)
    problem = RayProblem(rod(), Launch(np.array(points, float), np.array(axes, float), FORWARDS), limited)
    (run,) = make_runs(problem, choose_device(device))
    run.advance(0, 3)
    (part,) = run.take()
    last = StopReason.LENGTH if settings.method == "eudx" else StopReason.INVALID
    expected = [StopReason.LENGTH, StopReason.INVALID, last]
    assert part.reasons[:, 0].tolist() == expected
    assert np.isfinite(part.points).all()
    counts = np.diff(part.offsets)
    assert counts[0] > 20
    assert counts[1] == 1  # the seed alone


# -- what is kept of a ray --------------------------------------------------------------------------------------------


@ALL_METHODS
def test_both_ways_is_backwards_and_forwards_joined_at_the_seed(changes, device):
    settings = changed(EXACT, step_mm=0.5, max_length_mm=15, fa_stop=0.1, **changes)
    field, seeds = sampled(ring), np.array([(20.0, 0.3, 0.2), (0.1, -18.2, 3.0)])
    axes = np.array([(0.1, 1.0, 0.1), (1.0, 0.0, 0.2)])
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    both = launched(field, settings, seeds, axes, device, Directions(kind="principal", both_ways=True))
    there = launched(field, settings, seeds, axes, device)
    back = launched(field, settings, seeds, -axes, device)
    for f in range(2):
        np.testing.assert_array_equal(both[f], np.concatenate([back[f][:0:-1], there[f]]))
        np.testing.assert_allclose(both[f][len(back[f]) - 1], seeds[f], atol=1e-5)
        assert np.linalg.norm(np.diff(both[f], axis=0), axis=1).min() > 0.4
    numbers = {name: (there.per_fiber[name], back.per_fiber[name]) for name in there.per_fiber}
    for name in ("length_mm", "riemannian_length_mm"):
        np.testing.assert_allclose(both.per_fiber[name], sum(numbers[name]), rtol=1e-6)
    np.testing.assert_array_equal(both.per_fiber["drift"], np.maximum(*numbers["drift"]))
    np.testing.assert_array_equal(both.per_fiber["stop_reason"], numbers["stop_reason"][0])
    np.testing.assert_array_equal(both.per_fiber["stop_reason_back"], numbers["stop_reason"][1])


@pytest.mark.parametrize("every", [2, 7, 1000])
def test_thinned_fibers_keep_their_ends(every, device):
    seeds, directions = [(20.0, 0, 0), (0.0, 18.0, 2.0)], Directions(count=8)
    settings = changed(EXACT, step_mm=0.25, max_length_mm=13, min_length_mm=1)
    whole = track(sampled(ring), seeds, directions, settings, device=device)
    thin = track(sampled(ring), seeds, directions, changed(settings, points_every=every), device=device)
    assert len(whole) == len(thin) == 16
    for f in range(16):
        np.testing.assert_array_equal(thin[f][[0, -1]], whole[f][[0, -1]])
        seed = int(np.argmin(np.linalg.norm(whole[f] - seeds[f // 8], axis=1)))
        kept = [n for n in range(len(whole[f])) if (n - seed) % every == 0 or n in (0, len(whole[f]) - 1)]
        np.testing.assert_array_equal(thin[f], whole[f][kept])
    for name in ("length_mm", "riemannian_length_mm", "stop_reason", "stop_reason_back", "drift"):
        np.testing.assert_array_equal(thin.per_fiber[name], whole.per_fiber[name])


def test_lengths_are_those_of_the_points(device):
    settings = changed(EXACT, max_length_mm=20)
    fibers = track(sampled(pull_back), [START, (0, 3, -4)], Directions(count=10), settings, device=device)
    np.testing.assert_allclose(fibers.per_fiber["length_mm"], fibers.lengths_mm(), rtol=1e-4)
    speed = fibers.per_fiber["length_mm"] / fibers.per_fiber["riemannian_length_mm"]
    np.testing.assert_allclose(fibers.per_fiber["speed"], speed, rtol=1e-6)
    assert fibers.lengths_mm().max() < 2 * 20.5


def test_anisotropy_along_a_fiber_is_that_of_the_volume(device):
    field = rod(isotropic_from=20)
    fiber = one_ray(field, (5, 6, 6), (1, 0, 0), changed(ROD, fa_stop=0.05), device)
    full = 1.4 / np.linalg.norm([1.7, 0.3, 0.3])
    expected = full * np.clip(20 - fiber.points[:, 0], 0, 1)
    np.testing.assert_allclose(fiber.per_point["fa"], expected, atol=1e-5)
    assert fiber.per_fiber["mean_fa"][0] == pytest.approx(expected[1:].mean(), rel=1e-5)
    assert fiber.per_fiber["alignment"][0] == pytest.approx(1, rel=1e-5)
    assert fiber.per_fiber["alignment_fa"][0] == pytest.approx(expected[1:].mean(), rel=1e-5)


def test_alignment_is_the_cosine_with_the_principal_direction(device):
    ahead = np.array([2.0, 1.0, 0.0])
    fiber = one_ray(rod(), (5, 3, 6), ahead, changed(ROD, max_length_mm=10), device)
    assert fiber.per_fiber["alignment"][0] == pytest.approx(2 / np.sqrt(5), rel=1e-5)


# -- beyond the mask --------------------------------------------------------------------------------------------------


def test_tensors_are_continued_beyond_the_mask():
    mask = np.zeros((16, 9, 9), bool)
    mask[4:8, 2:7, 2:7] = True
    tensors = np.random.default_rng(5).uniform(1, 2, (16, 9, 9, 6)) * mask[..., None]
    filled = continued(tensors, mask)
    np.testing.assert_array_equal(filled[mask], tensors[mask])
    for i, source in ((1, 4), (2, 4), (3, 4), (8, 7), (9, 7), (10, 7)):
        np.testing.assert_array_equal(filled[i, 2:7, 2:7], tensors[source, 2:7, 2:7])
    assert not filled[:1].any()
    assert not filled[11:].any()
    whole = np.ones((16, 9, 9), bool)
    assert continued(tensors, whole) is tensors


def test_the_border_of_the_mask_bends_no_ray(device):
    """A field that is cut by a mask gives the rays of the whole field, as long as it is the same everywhere."""
    plain, cut = rod(), rod(masked_to=20)
    for changes in ({}, {"interpolation": "smoothing"}, {"method": "vanaart2011"}):
        settings = changed(ROD, max_length_mm=14.1, **changes)
        whole, part = (one_ray(f, (5, 3, 6), (1, 0.3, 0), settings, device) for f in (plain, cut))
        assert part.points[:, 0].max() > 18
        np.testing.assert_allclose(part[0], whole[0], atol=1e-4)  # the prefilter feels the border a little
