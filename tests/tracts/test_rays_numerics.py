"""What interpolation and integration of rays cost: what is exact, what blurs, and with what order errors fall."""

import numpy as np
import pytest

from napari_gpubio.core.device import CPU
from napari_gpubio.tracts.checks import ray_errors
from napari_gpubio.tracts.phantom.analytic import as_matrices
from napari_gpubio.tracts.phantom.closed_forms import adaptive_ring, constant, pull_back
from tests.tracts.ray_samples import AHEAD, DOUBLE, EUDX, GRIDS, SEED_DOUBLE, START, changed, on_grid, one_ray, sampled


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
