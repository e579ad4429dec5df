"""What is kept of a ray: both halves in order, thinned points, and the numbers along it."""

import numpy as np
import pytest

from napari_gpubio.tracts import Directions, track
from napari_gpubio.tracts.checks import EXACT
from napari_gpubio.tracts.phantom.closed_forms import pull_back, ring
from tests.tracts.ray_samples import ALL_METHODS, ROD, START, changed, launched, one_ray, rod, sampled


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
