"""Accuracy of traced rays: closed forms, symmetries, and the order of the integrators."""

import dataclasses
import functools

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core.device import CPU, choose_device
from napari_gpubio.diffusion import TensorField, fit_tensors
from napari_gpubio.diffusion.io import read_dwi, read_mask
from napari_gpubio.diffusion.phantom import load_brain_phantom
from napari_gpubio.diffusion.phantom.analytic import as_matrices
from napari_gpubio.diffusion.phantom.closed_forms import (
    ACROSS,
    ALONG,
    RING_RADIUS,
    adaptive_ring,
    analytic_fields,
    constant,
    fish_eye,
    half_space,
    pull_back,
    ring,
)
from napari_gpubio.diffusion.tensors.scalar_maps import fa_map
from napari_gpubio.fibers import Principal, track
from napari_gpubio.fibers.checks import BEYOND_VANAART, EXACT, HAMILTONIAN, SEED_SCHEME, SHARP, VANAART, ray_errors
from napari_gpubio.fibers.metrics import Sharpened
from napari_gpubio.fibers.settings import VanAart2011
from napari_gpubio.tractograms import StopReason
from tests.diffusion.tensor_samples import TURN, matrices, six
from tests.fibers.ray_samples import (
    AHEAD,
    DOUBLE,
    EUDX,
    GRIDS,
    METHODS,
    SEED_DOUBLE,
    START,
    changed,
    on_grid,
    one_ray,
    passing,
    sampled,
)

FIELDS = {field.name: field for field in analytic_fields()}
SINGLE_AND_DOUBLE = pytest.mark.parametrize("precision", ["single", "double"])


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
    settings = changed(EXACT, max_length_mm=36, metric=Sharpened(power=float(power)))
    path = one_ray(field, (RING_RADIUS, 0, 0), (0, 1, 0), settings, device)[0]
    n = np.searchsorted(-path[:, 0], 0.0)
    share = path[n - 1, 0] / (path[n - 1, 0] - path[n, 0])
    crossing = path[n - 1] + share * (path[n] - path[n - 1])
    assert crossing[1] / RING_RADIUS == pytest.approx(expected, abs=3e-4)


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
    "any": TURN,
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


@functools.cache
def brain(folder=None):
    """The tensors of the phantom, or of a real scan in the mask that came with it."""
    if folder is None:
        return fit_tensors(load_brain_phantom(), device="cpu")
    scan = read_dwi(folder / "dwi.nii.gz")
    mask = read_mask(folder / "nodif_brain_mask.nii.gz", scan.shape, scan.affine)
    return fit_tensors(scan, mask, device="cpu")


@pytest.fixture(params=["phantom", "real"])
def scanned(request):
    """The tensors of a brain, whose mask has borders of every shape."""
    if request.param == "phantom":
        return brain()
    return brain(request.getfixturevalue("shared_data") / "dwi" / "whole_brain_b1000")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("order", "flips"), [((0, 1, 2), (1, 0, 0)), ((0, 1, 2), (0, 1, 1)), ((1, 2, 0), (0, 0, 1))])
def test_how_a_brain_is_stored_does_not_matter(method, order, flips, scanned, device):
    """Fibers end at the mask, or run along it, where tensors are continued."""
    voxels = np.argwhere(scanned.mask & (fa_map(scanned) > 0.3))
    voxels = voxels[np.random.default_rng(0).choice(len(voxels), 40, replace=False)] + 0.1
    seeds = voxels @ scanned.affine[:3, :3].T + scanned.affine[:3, 3]
    settings, ahead = changed(METHODS[method], min_length_mm=0.0, max_length_mm=80), Principal()
    expected, found = (
        track(field, seeds, ahead, settings, device=device)
        for field in (scanned, stored_otherwise(scanned, order, flips))
    )
    np.testing.assert_array_equal(found.per_fiber["seed"], expected.per_fiber["seed"])
    assert expected.lengths_mm().max() > 40
    for one, other in zip(found, expected, strict=True):
        backward = other[::-1]  # a principal direction has no sign
        assert min(np.abs(one - other).max(), np.abs(one - backward).max()) < 1e-5


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


def drift_of(make, launch, settings, **changes):
    traced = one_ray(sampled(make), launch.start, launch.direction, changed(settings, **changes))
    return float(traced.per_fiber["drift"][0])


@pytest.mark.parametrize(("integrator", "order"), [("euler", 1), ("rk2", 2), ("rk4", 4)])
def test_the_drift_falls_with_the_order_of_the_integrator(integrator, order):
    """From a step of 1.6 to 0.4 voxels; a cubic spline's third derivative jumps, which costs a little of the fourth."""
    settings = changed(DOUBLE, integrator=integrator, max_length_mm=32)
    coarse, fine = (drift_of(pull_back, pull_back().launches[1], settings, step_mm=step) for step in (1.6, 0.4))
    assert order - (0.8 if order == 4 else 0.15) < np.log(coarse / fine) / np.log(4) < order + 0.5


def test_the_drift_of_the_paper_has_a_floor_and_ours_has_none():
    def drift(settings, step):
        return drift_of(adaptive_ring, adaptive_ring().launches[0], settings, step_mm=step, max_length_mm=40)

    rk4 = changed(SEED_DOUBLE, integrator="rk4")
    assert drift(rk4, 0.1) > 0.8 * drift(rk4, 0.4) > 1e-3
    assert drift(DOUBLE, 0.1) < drift(DOUBLE, 0.4) / 30 < 1e-8


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("changes", [{}, {"interpolation": "linear"}, {"method": VanAart2011}], ids=str)
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
