"""Geodesics of positions and directions: constants of motion, closed answers, crossings, and every device."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core import kernels
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion import FodField
from napari_gpubio.diffusion.fods.harmonics import harmonics
from napari_gpubio.diffusion.phantom.crossings import (
    bundle_axes,
    centered_grid,
    crossing,
    fiber_fods,
    radius_after,
    ring_bundle,
)
from napari_gpubio.diffusion.regions import Sphere
from napari_gpubio.fibers import Cone, FromFod, LiftedGeodesic, track
from napari_gpubio.fibers.kernels.fibers.gpu import LAYOUTS
from napari_gpubio.fibers.kernels.lifted import cpu, gpu
from napari_gpubio.fibers.kernels.lifted.problem import LiftedProblem
from napari_gpubio.fibers.seeds import Launch
from napari_gpubio.tractograms import StopReason
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.structs import struct_in
from tests.fibers.fods.crossing_samples import FORWARDS, fan, shares, shoot
from tests.fibers.fods.lifted_samples import constant_cost, derivatives, everywhere, path_of, run_of, wavy
from tests.runs import check_same_methods

USUAL = LiftedGeodesic()
DOUBLE = dataclasses.replace(
    USUAL,
    precision="double",
    min_length_mm=0.0,
    delta=0.1,
    power=2,
    stiffness_per_mm=0.3,
    epsilon=0.2,
)
BOTH_COSTS = pytest.mark.parametrize("cost_name", ["guiding", "shortest"])


def changed(**changes):
    return dataclasses.replace(DOUBLE, **changes)


# -- the equations of motion, from any state --------------------------------------------------------------------------


def tilted_state(scale=0.1):
    n = np.array([0.6, 0.0, 0.8])
    q = np.array([0.8, 0.5, -0.6]) * scale
    return [np.full(3, 16.0), n, np.array([0.2, 0.15, 0.3]), q - (q @ n) * n]


@BOTH_COSTS
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_where_the_cost_is_constant_six_integrals_are(cost_name, epsilon):
    """p, and x x p + n x q: space is the same everywhere and in every direction."""
    settings = changed(epsilon=epsilon, cost=cost_name)
    count = 500 if epsilon == 1.0 else 1000
    states = path_of(constant_cost(), settings, tilted_state(), 0.005, count)
    x, n, p, q = (states[:, 3 * part : 3 * part + 3] for part in range(4))
    assert np.linalg.norm(x[-1] - x[0]) > 2
    assert np.abs(x - 16).max() < 14
    assert np.linalg.norm(n[-1] - n[0]) > 0.2
    np.testing.assert_allclose(p, np.broadcast_to(p[0], p.shape), rtol=0, atol=1e-10)
    turned = np.cross(x - 16.0, p) + np.cross(n, q)
    np.testing.assert_allclose(turned, np.broadcast_to(turned[0], turned.shape), rtol=0, atol=1e-10)
    np.testing.assert_allclose(states[:, 12], states[0, 12], rtol=1e-10)


def test_without_a_preferred_direction_x_is_straight_and_n_goes_along_a_great_circle():
    start = tilted_state(1.0)
    states = path_of(constant_cost(), changed(epsilon=1.0), start, 0.01, 300)
    x, n = states[:, :3], states[:, 3:6]
    time = 0.01 * np.arange(300)[:, None]
    cost_2 = (0.1 + ((1 + np.sqrt(1 + 0.02**2)) / 2) ** 2) ** 2
    np.testing.assert_allclose(x, start[0] + time * start[2] / (0.3**2 * cost_2), atol=1e-6)
    rate = np.linalg.norm(start[3]) / cost_2
    circle = np.cos(rate * time) * start[1] + np.sin(rate * time) * start[3] / np.linalg.norm(start[3])
    assert rate * time[-1] > 2
    np.testing.assert_allclose(n, circle, atol=1e-6)  # f_max is known in single precision


@BOTH_COSTS
def test_a_ray_along_its_direction_is_straight_where_the_cost_is_constant(cost_name):
    u = np.array([1, 2, -0.5]) / np.sqrt(5.25)
    fiber = shoot(constant_cost(), (0, 0, 0), u, changed(max_length_mm=12.0, cost=cost_name))
    along = fiber[0] @ u
    assert np.linalg.norm(fiber[0] - along[:, None] * u, axis=1).max() < 1e-5
    np.testing.assert_allclose(np.diff(along), 0.25, atol=1e-5)
    assert fiber.per_fiber["drift"][0] < 1e-12
    c = 0.1 + ((1 + np.sqrt(1 + 0.02**2)) / 2) ** 2
    expected = fiber.per_fiber["length_mm"][0] * (c if cost_name == "guiding" else 1 / c)
    assert fiber.per_fiber["riemannian_length_mm"][0] == pytest.approx(expected, rel=1e-5)


@BOTH_COSTS
@pytest.mark.parametrize("power", [1, 3])
def test_rates_are_the_derivatives_of_the_hamiltonian(cost_name, power):
    """By central differences; n moves on the sphere, so the parts of its derivatives along n mean nothing."""
    field = wavy()
    arguments = run_of(field, changed(cost=cost_name, power=power, delta=0.2))
    rng = np.random.default_rng(0)
    n = rng.normal(size=3)
    n /= np.linalg.norm(n)
    y = np.concatenate([[5.2, 6.6, 4.9], n, rng.normal(size=6)])
    y[9:] -= (y[9:] @ n) * n
    h, states = 1e-5, np.repeat(y[None], 25, axis=0)
    for axis in range(12):
        states[1 + 2 * axis, axis] += h
        states[2 + 2 * axis, axis] -= h
    states[:, 3:6] /= np.linalg.norm(states[:, 3:6], axis=1, keepdims=True)
    out = np.empty((25, 13))
    derivatives(*arguments, states, out)
    slope = (out[1::2, 12] - out[2::2, 12]) / (4 * h)  # of H
    to_voxel = np.linalg.inv(field.affine[:3, :3])
    x_rate, n_rate, p_rate, q_rate = (out[0, 3 * part : 3 * part + 3] for part in range(4))
    scale = np.abs(slope).max()
    np.testing.assert_allclose(x_rate, to_voxel @ slope[6:9], atol=1e-6 * scale)
    np.testing.assert_allclose(n_rate, slope[9:12], atol=1e-6 * scale)
    np.testing.assert_allclose(p_rate, -to_voxel.T @ slope[:3], atol=1e-6 * scale)
    # at a fixed q: the force, but for what keeps q tangential
    across = np.eye(3) - np.outer(n, n)
    np.testing.assert_allclose(across @ q_rate, -across @ slope[3:6], atol=1e-6 * scale)
    assert n @ q_rate + n_rate @ y[9:] == pytest.approx(0, abs=1e-9 * scale)  # (n.q)' = 0


def test_momenta_turned_round_bring_a_ray_back():
    settings, start = changed(delta=0.3), [[3.0, 4, 5], [1, 0, 0], [0.3, 0.02, 0], [0, 0.1, 0.05]]
    states = path_of(wavy(), settings, start, 0.002, 300)
    assert np.linalg.norm(states[-1, :3] - states[0, :3]) > 1
    assert (states[:, :3] > 0).all()
    assert (states[:, :3] < 11).all()
    back = path_of(wavy(), settings, states[-1, :12] * np.repeat([1, 1, -1, -1], 3), 0.002, 300)
    np.testing.assert_allclose(back[-1, :6], states[0, :6], atol=1e-6)


@BOTH_COSTS
def test_rays_beside_a_fiber_oscillate_about_it_or_turn_away(cost_name):
    """The first order of the equations in the angle from a peak, where the FOD is the same in every voxel.

    With ln C = const. -+ a theta^2 / 2 (guiding -) and p at the first angle: theta_xx = xi^2 ((1 - eps^2)
    (theta - theta_0) -+ a theta), and dy/dx = theta + eps^2 (theta_0 - theta).
    """
    field, xi, epsilon, first = everywhere((41, 9, 9)), 0.3, 0.2, np.deg2rad(0.1)
    settings = changed(cost=cost_name, lmax=8, step_mm=0.05, max_length_mm=12.0)
    axis, side = bundle_axes(70)[0], np.array([0.0, 0.0, 1.0])
    fiber = shoot(field, (-16, 0, 0), np.cos(first) * axis + np.sin(first) * side, settings)
    h = 1e-3
    share = harmonics([np.cos(t) * axis + np.sin(t) * side for t in (-h, 0, h)], 8) @ field.coefficients[0, 0, 0]
    share = share / LiftedProblem(field, Launch(np.zeros((1, 3)), axis[None], FORWARDS), settings).largest
    log = np.log(0.1 + ((share + np.sqrt(share**2 + 0.02**2)) / 2) ** 2)
    a = -(log[0] - 2 * log[1] + log[2]) / h**2
    assert 15 < a < 40
    loose = 1 - epsilon**2
    squared = loose - a if cost_name == "guiding" else loose + a
    k = xi * np.sqrt(complex(squared))
    level = loose * first / squared
    x = fiber[0].astype(float)[:, 0] + 16
    integral = level * x + (first - level) * (np.sinh(k * x) / k).real  # of theta
    expected = (1 - epsilon**2) * integral + epsilon**2 * first * x
    angle = level + (first - level) * np.cosh(k * x).real
    near = np.abs(angle) < np.deg2rad(2.0)
    np.testing.assert_allclose(fiber[0][near, 2], expected[near], atol=0.02 * np.abs(expected[near]).max())
    grown = np.abs(np.diff(fiber[0][:, 2]) / np.diff(x)).max() / first
    assert grown < 1.1 if cost_name == "guiding" else grown > 20


def test_the_drift_falls_with_the_step():
    ring = ring_bundle().fods
    drifts = [
        shoot(ring, (20, 0, 0.3), (0.1, 1, 0.1), changed(step_mm=step, max_length_mm=30.0)).per_fiber["drift"][0]
        for step in (0.4, 0.2, 0.1)
    ]
    assert drifts[2] < drifts[1] / 2 < drifts[0] / 4
    assert drifts[1] < 5e-3


# -- crossings and bends ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("angle", [90, 60, 45])
def test_a_fan_leaves_by_the_far_end_of_its_bundle(angle):
    far, other = shares(fan(crossing(angle).fods, 200, USUAL), 200, angle)
    assert far >= 0.95
    assert other < 0.01


@pytest.mark.parametrize("angle", [90, 60])
def test_errors_of_the_directions_do_little(angle):
    far, other = shares(fan(crossing(angle, jitter_deg=5.0).fods, 100, USUAL), 100, angle)
    assert far > 0.85
    assert other < 0.05


def test_stiff_shortest_rays_pass_a_crossing_too():
    settings = dataclasses.replace(USUAL, cost="shortest", stiffness_per_mm=0.003, power=1)
    assert shares(fan(crossing(60).fods, 200, settings), 200, 60)[0] >= 0.9


def test_guided_rays_keep_to_a_ring():
    """One along the fibers of a broad ring, and, on average, those that fill a thick one."""
    assert abs(radius_after(shoot(ring_bundle().fods, (20, 0, 0), (0, 1, 0), USUAL)[0], 90) / 20 - 1) < 0.01
    torus = ring_bundle(half_width_mm=5.0, shape=(55, 55, 15), round_section=True).fods
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(40, 3)) * np.deg2rad(5) + [0, 1, 0]
    starts = np.array([20, 0, 0]) + rng.uniform(-2, 2, (40, 3))
    fibers = shoot(torus, starts, directions, USUAL)
    radii = np.array([radius_after(fiber, 90) for fiber in fibers])
    assert np.isfinite(radii).all()
    assert abs(radii.mean() - np.hypot(*starts.T[:2]).mean()) < 0.02 * 20
    assert np.abs(radii - 20).max() < 5


def test_shortest_rays_leave_a_ring():
    fiber = shoot(ring_bundle().fods, (20, 0, 0), (0, 1, 0), changed(cost="shortest"))
    assert np.isnan(radius_after(fiber[0], 45))


def test_a_click_in_a_crossing_finds_both_bundles():
    fibers = track(crossing(90).fods, [(0, 0, 0)], FromFod(count=100), USUAL, device="cpu")
    ends = np.array([fiber[-1] - fiber[0] for fiber in fibers])
    along = np.abs(ends[np.linalg.norm(ends, axis=1) > 15]).argmax(axis=1)
    assert np.count_nonzero(along == 0) > 15
    assert np.count_nonzero(along == 1) > 15


# -- symmetries, ends, numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("turned", ["rotated", "flipped"])
def test_rays_do_not_depend_on_the_axes_of_the_grid(turned):
    shape = (29, 29, 13)
    affine, at = centered_grid(shape)
    start, u = np.array([-14.0, 0.5, 0.3]), np.array([1.0, 0.1, 0.05])
    turn = Rotation.from_euler("xyz", [12, -18, 25], degrees=True).as_matrix() if turned == "rotated" else np.eye(3)
    plain = shoot(crossing(60).fods, start, u, changed(max_length_mm=24.0))[0].astype(float)
    there = np.stack([np.linalg.norm(np.cross(at, axis), axis=-1) <= 5 for axis in bundle_axes(60)], axis=-1)
    coefficients = (there.astype(float) @ fiber_fods(bundle_axes(60) @ turn.T)).astype(np.float32)
    affine[:3] = turn @ affine[:3]
    if turned == "flipped":
        coefficients, affine = coefficients[::-1], affine @ np.diag([-1, 1, 1, 1])
        affine[0, 3] *= -1
    field = FodField(coefficients=coefficients, mask=(coefficients != 0).any(axis=-1), affine=affine)
    moved = shoot(field, turn @ start, turn @ u, changed(max_length_mm=24.0))[0] @ turn
    atol = 1e-4 if turned == "flipped" else 1e-2  # f_max is found among directions of the world
    np.testing.assert_allclose(moved, plain, atol=atol)


def test_points_and_fibers_have_numbers_and_reasons(device):
    fibers = track(crossing(90).fods, [(-10, 0, 0)], Cone(count=5), USUAL, device=device)
    assert set(fibers.per_point) == {"fod"}
    assert set(fibers.per_fiber) == {
        "length_mm", "riemannian_length_mm", "drift", "mean_fod", "alignment", "stop_reason", "stop_reason_back",
        "seed",
    }  # fmt: skip
    assert fibers.per_point["fod"].min() > 0.1
    np.testing.assert_allclose(fibers.lengths_mm(), fibers.per_fiber["length_mm"], rtol=1e-3)
    assert fibers.per_fiber["alignment"].min() > 0.9


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"max_length_mm": 9.0}, StopReason.LENGTH),
        ({"max_steps": 10}, StopReason.STEPS),
        ({"min_radius_mm": 60.0}, StopReason.CURVATURE),
        ({"fod_stop": 0.6, "stiffness_per_mm": 0.003}, StopReason.FOD),
        ({"max_drift": 1e-5}, StopReason.DRIFT),
    ],
)
def test_rays_end_for_every_reason(changes, reason):
    fiber = shoot(ring_bundle().fods, (20, 0, 0), (0, 1, 0), changed(**changes))
    assert fiber.per_fiber["stop_reason"].tolist() == [reason]


def test_rays_end_at_the_edge_of_the_mask():
    whole = everywhere()
    mask = whole.mask.copy()
    mask[16:] = False
    field = dataclasses.replace(whole, mask=mask, cache=type(whole.cache)())
    fiber = shoot(field, (-8, 0, 0), (1, 0, 0), changed())
    assert fiber.per_fiber["stop_reason"].tolist() == [StopReason.MASK]
    assert 5.2 < fiber[0][-1, 0] < 5.5


def test_fibers_end_at_a_target(device):
    target = Sphere(name="end", center_mm=(12.0, 0, 0), radius_mm=3.0)
    directions = FromFod(count=40)
    fibers = track(crossing(90).fods, [(0, 0, 0)], directions, USUAL, target=target, only_target=True, device=device)
    assert 3 < len(fibers) < 35
    reasons = np.stack([fibers.per_fiber["stop_reason"], fibers.per_fiber["stop_reason_back"]])
    assert (reasons == StopReason.TARGET).any(axis=0).all()


def test_other_fields_are_refused():
    with pytest.raises(InvalidInput, match="'lifted_geodesic', which is for FODs; in fixels choose fixel_geodesic"):
        track(crossing(90).fixels, [(0, 0, 0)], method=USUAL)


def test_neither_chunks_nor_threads_decide(device, in_chunks_of):
    seeds = np.random.default_rng(0).normal(size=(6, 3))
    once = track(crossing(60).fods, seeds, FromFod(count=3), USUAL, device=device)
    in_chunks_of(7)
    again = track(crossing(60).fods, seeds, FromFod(count=3), USUAL, device=device)
    np.testing.assert_array_equal(again.points, once.points)


# -- backends ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_structs_are_laid_out_as_the_kernels_read_them(real):
    text = kernels.source(gpu.SOURCE)
    for name, layout in {**gpu.layouts(real), **LAYOUTS}.items():
        assert struct_in(text, name, real=real) == layout
    check_same_methods(cpu, gpu)


@pytest.mark.parametrize(
    ("changes", "order"),
    [
        ({}, loader.NATURAL),
        ({"precision": "double", "points_every": 3, "lmax": 4, "power": 3}, 5),
        ({"cost": "shortest", "min_radius_mm": 1.0, "max_drift": 0.3, "power": 1}, 5),
    ],
)
def test_geodesics_by_cuda_have_the_bits_of_the_cpu(fake_gpu, in_chunks_of, changes, order):
    field = wavy()
    seeds = field.affine[:3, 3] + field.affine[:3, :3] @ np.array([6, 5.5, 5])
    seeds = seeds + np.random.default_rng(1).normal(size=(6, 3))
    chosen = dataclasses.replace(USUAL, min_length_mm=0.0, **changes)
    target = Sphere(name="there", center_mm=tuple(seeds[0] + [3, 0, 0]), radius_mm=1.5)
    for directions in (FromFod(count=2), Cone(count=3)):
        expected = track(field, seeds, directions, chosen, target=target, device="cpu")
        assert len(expected) >= 8
        pretended = dataclasses.replace(field, cache=type(field.cache)())
        fake_gpu(count=2)
        in_chunks_of(3)
        with loader.thread_order(order):
            found = track(pretended, seeds, directions, chosen, target=target, device="cuda:0,1")
        np.testing.assert_array_equal(found.offsets, expected.offsets)
        np.testing.assert_array_equal(found.points, expected.points)
        for name, values in expected.per_fiber.items():
            np.testing.assert_array_equal(found.per_fiber[name], values)
        np.testing.assert_array_equal(found.per_point["fod"], expected.per_point["fod"])
