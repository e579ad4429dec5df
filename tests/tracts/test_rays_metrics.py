"""Rays of other metrics: adjugate, sharpened, with a floor under the eigenvalues, and plain streamlines."""

import numpy as np
import pytest

from napari_gpubio.tracts.phantom.closed_forms import ACROSS, ALONG, RING_RADIUS, pull_back, ring
from tests.tracts.ray_samples import DOUBLE, EUDX, changed, on_grid, one_ray, sampled


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
