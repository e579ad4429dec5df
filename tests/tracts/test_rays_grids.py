"""Rays on grids that are anisotropic, sheared, rotated and left-handed."""

import numpy as np
import pytest

from napari_gpubio.tracts.phantom.analytic import as_matrices
from napari_gpubio.tracts.phantom.closed_forms import constant, pull_back
from tests.tracts.ray_samples import AHEAD, DOUBLE, EUDX, GRIDS, START, changed, on_grid, one_ray


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
