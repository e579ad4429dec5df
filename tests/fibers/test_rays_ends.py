"""Where rays end and why, and what is kept of them: both halves in order, thinned points, numbers along the way."""

import itertools

import numpy as np
import pytest
from scipy import ndimage

from napari_gpubio.core.device import choose_device, to_host
from napari_gpubio.core.drivers import open_run
from napari_gpubio.diffusion.phantom.closed_forms import adaptive_ring, half_space, pull_back, ring
from napari_gpubio.fibers import Cone, Principal, track
from napari_gpubio.fibers.checks import EXACT, SEED_SCHEME
from napari_gpubio.fibers.kernels.rays.problem import RayProblem, continued
from napari_gpubio.fibers.seeds import Launch
from napari_gpubio.fibers.settings import EuDX, VanAart2011
from napari_gpubio.tractograms import StopReason
from tests.fibers.ray_samples import (
    ALL_METHODS,
    DOUBLE,
    EUDX,
    FORWARDS,
    GRIDS,
    METHODS,
    ROD,
    START,
    changed,
    launched,
    on_grid,
    one_ray,
    rod,
    sampled,
)


def end_of(field, settings, device, start=(5.0, 6.0, 6.0), ahead=(1, 0, 0)):
    """Why a ray ends, and where."""
    traced = one_ray(field, start, ahead, settings, device)
    return StopReason(int(traced.per_fiber["stop_reason"][0])), traced[0][-1].astype(float)


INTEGRATORS = pytest.mark.parametrize("integrator", ["rk4", "rk2", "euler"])


@ALL_METHODS
@INTEGRATORS
def test_a_ray_ends_at_the_side_of_the_volume_and_at_the_border_of_the_mask(changes, integrator, device):
    settings = changed(ROD, integrator=integrator, **changes)
    reason, end = end_of(rod(), settings, device)
    assert reason == StopReason.VOLUME
    np.testing.assert_allclose(end, (39, 6, 6), atol=0.26)
    reason, end = end_of(rod(masked_to=20), settings, device)
    assert reason == StopReason.MASK
    assert 20 - 1e-4 < end[0] <= 20.5  # the last voxel reaches half a voxel beyond its center
    np.testing.assert_allclose(end[1:], 6, atol=1e-5)


@ALL_METHODS
def test_a_ray_ends_where_anisotropy_falls_below_the_limit(changes, device):
    reason, end = end_of(rod(isotropic_from=20), changed(ROD, fa_stop=0.4, **changes), device)
    assert reason == StopReason.FA
    full = 1.4 / np.linalg.norm([1.7, 0.3, 0.3])
    limit = 19 + (full - 0.4) / full  # FA falls linearly from voxel 19 to voxel 20
    assert limit - 0.26 < end[0] <= limit + 1e-5


@ALL_METHODS
def test_a_ray_ends_after_its_steps_and_at_its_longest_length(changes, device):
    reason, end = end_of(rod(), changed(ROD, max_steps=17, **changes), device)
    assert reason == StopReason.STEPS
    np.testing.assert_allclose(end, (5 + 17 * 0.25, 6, 6), atol=1e-4)
    reason, end = end_of(rod(), changed(ROD, max_length_mm=7.6, **changes), device)
    assert reason == StopReason.LENGTH
    np.testing.assert_allclose(end, (5 + 7.5, 6, 6), atol=1e-4)  # the last point no farther than that


@pytest.mark.parametrize("settings", [EUDX, EXACT, SEED_SCHEME], ids=["eudx", "hamiltonian", "vanaart2011"])
def test_a_ray_may_be_as_long_as_allowed_in_every_method(settings, device):
    """Upwards in the half space, where D grows, and downwards, where a velocity in mm shrinks."""
    for ahead in ((1, 1, 0), (1, -0.6, 0)):
        field = sampled(ring) if isinstance(settings, EuDX) else sampled(half_space)
        start = (20, 0, 0) if isinstance(settings, EuDX) else (-20, 45, 0)
        traced = one_ray(field, start, ahead, changed(settings, max_length_mm=25.0), device)
        assert StopReason(int(traced.per_fiber["stop_reason"][0])) == StopReason.LENGTH
        assert 24.5 < traced.per_fiber["length_mm"][0] <= 25.0


def test_a_ray_ends_where_it_bends_too_tightly(device):
    for radius, reason in ((25.0, StopReason.CURVATURE), (15.0, StopReason.LENGTH)):  # streamlines bend with 20 mm
        settings = changed(EUDX, min_radius_mm=radius, max_length_mm=20, step_mm=0.5)
        assert end_of(sampled(ring), settings, device, (20, 0, 0), (0, 1, 0))[0] == reason
    launch = half_space().launches[0]
    field = on_grid(lambda x: half_space().tensor_at(x + np.array([0, 40, 0])), GRIDS["everything"], 16.0)
    assert launch.direction[1] == 0  # level: a geodesic of the half space is a circle of radius 40, in millimeters
    for radius, reason in ((42.0, StopReason.CURVATURE), (38.0, StopReason.LENGTH)):
        settings = changed(DOUBLE, min_radius_mm=radius, max_length_mm=12)
        assert end_of(field, settings, device, np.zeros(3), launch.direction)[0] == reason


def test_a_ray_ends_at_its_largest_drift(device):
    field, launch = sampled(adaptive_ring), adaptive_ring().launches[0]
    settings = changed(SEED_SCHEME, max_length_mm=40)
    free = one_ray(field, launch.start, launch.direction, settings, device)
    limited = changed(settings, max_drift=float(free.per_fiber["drift"][0]) / 2)
    stopped = one_ray(field, launch.start, launch.direction, limited, device)
    assert stopped.per_fiber["stop_reason"][0] == StopReason.DRIFT
    assert 1 < len(stopped.points) < len(free.points)
    np.testing.assert_array_equal(stopped[0], free[0][: len(stopped[0])])


@pytest.mark.parametrize("settings", METHODS.values(), ids=list(METHODS))
def test_a_ray_that_cannot_start_is_invalid_and_harms_no_other(settings, device):
    points = [(5, 6, 6), (-3, 6, 6), (5, 6, 6)]
    axes = [(1, 0, 0), (1, 0, 0), (1, 0, 0) if isinstance(settings, EuDX) else (0, 0, 0)]
    limited = changed(settings, max_length_mm=5, min_length_mm=0)
    problem = RayProblem(rod(), Launch(np.array(points, float), np.array(axes, float), FORWARDS), limited)
    run = open_run(problem, choose_device(device))
    rays, output = run.allocate(problem.rays(0, 3))
    run.launch(rays, output)
    reasons = to_host(output.reasons) if device != "cpu" else output.reasons
    last = StopReason.LENGTH if isinstance(settings, EuDX) else StopReason.INVALID
    assert reasons.tolist() == [StopReason.LENGTH, StopReason.INVALID, last]
    run.advance(0, 3)
    (part,) = run.take()
    assert part.which.tolist() == ([0, 2] if isinstance(settings, EuDX) else [0]), "of others there is the seed alone"
    assert np.isfinite(part.points).all()
    assert (np.diff(part.offsets) > 20).all()


def test_tensors_are_continued_beyond_the_mask():
    mask = np.zeros((16, 9, 9), bool)
    mask[4:8, 2:7, 2:7] = True
    tensors = np.random.default_rng(5).uniform(1, 2, (16, 9, 9, 6)) * mask[..., None]
    filled = continued(tensors, mask)
    np.testing.assert_array_equal(filled[mask], tensors[mask])
    for i, source in ((1, 4), (2, 4), (3, 4), (8, 7), (9, 7), (10, 7)):
        np.testing.assert_allclose(filled[i, 2:7, 2:7], tensors[source, 2:7, 2:7], rtol=1e-11)
    assert not filled[:1].any()
    assert not filled[11:].any()
    whole = np.ones((16, 9, 9), bool)
    assert continued(tensors, whole) is tensors


def test_continued_tensors_do_not_depend_on_how_the_volume_is_stored():
    rng = np.random.default_rng(6)
    mask = ndimage.binary_opening(rng.random((14, 12, 11)) < 0.8)  # full of voxels with several nearest ones
    tensors = rng.normal(size=(*mask.shape, 6))
    expected = continued(tensors, mask)
    between = expected[~mask & expected.any(axis=-1)]
    assert not np.isin(np.round(between[:, 0], 9), np.round(tensors[mask][:, 0], 9)).all()  # some are means
    for order in itertools.permutations(range(3)):
        for axes in ((), (0,), (1, 2), (0, 1, 2)):
            there = [np.flip(np.moveaxis(a, order, (0, 1, 2)), axes) for a in (tensors, mask, expected)]
            np.testing.assert_array_equal(continued(*there[:2]), there[2])


def test_the_border_of_the_mask_bends_no_ray(device):
    """A field that is cut by a mask gives the rays of the whole field, as long as it is the same everywhere."""
    plain, cut = rod(), rod(masked_to=20)
    for changes in ({}, {"interpolation": "smoothing"}, {"method": VanAart2011}):
        settings = changed(ROD, max_length_mm=14.1, **changes)
        whole, part = (one_ray(f, (5, 3, 6), (1, 0.3, 0), settings, device) for f in (plain, cut))
        assert part.points[:, 0].max() > 18
        np.testing.assert_allclose(part[0], whole[0], atol=1e-4)  # the prefilter feels the border a little


@ALL_METHODS
def test_both_ways_is_backwards_and_forwards_joined_at_the_seed(changes, device):
    settings = changed(EXACT, step_mm=0.5, max_length_mm=15, fa_stop=0.1, **changes)
    field, seeds = sampled(ring), np.array([(20.0, 0.3, 0.2), (0.1, -18.2, 3.0)])
    axes = np.array([(0.1, 1.0, 0.1), (1.0, 0.0, 0.2)])
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    whole = changed(settings, max_length_mm=30)
    both = launched(field, whole, seeds, axes, device, Principal(both_ways=True))
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


@ALL_METHODS
def test_a_fiber_is_as_long_as_allowed_and_each_way_has_half_unless_the_other_leaves_some(changes, device):
    settings, x, long = changed(ROD, max_length_mm=16.1, **changes), (5, 15), ROD.max_length_mm
    axes = np.array([(1.0, 0, 0), (-1.0, 0, 0)])
    for axis in axes:
        starts, along, ways = [(n, 6, 6) for n in x], np.array([axis] * 2), Principal()
        cut = launched(rod(), settings, starts, along, device, ways)
        whole = launched(rod(), changed(settings, max_length_mm=long), starts, along, device, ways)
        assert (whole.per_fiber["length_mm"] > 20).all()
        ends = np.sort([fiber[[0, -1], 0] for fiber in cut], axis=1)
        np.testing.assert_allclose(ends, [[whole[0][:, 0].min(), ends[0, 1]], [7, 23]], atol=1e-4)
        assert 16.1 - 0.25 < cut.per_fiber["length_mm"][0] <= 16.1 < cut.per_fiber["length_mm"][1] + 0.25
        np.testing.assert_allclose(cut.per_fiber["length_mm"], cut.lengths_mm(), rtol=1e-5)
        for fiber, longer in zip(cut, whole, strict=True):
            first = int(np.flatnonzero((longer == fiber[0]).all(axis=1))[0])
            np.testing.assert_array_equal(fiber, longer[first : first + len(fiber)])


@pytest.mark.parametrize("every", [2, 7, 1000])
def test_thinned_fibers_keep_their_ends(every, device):
    seeds, directions = [(20.0, 0, 0), (0.0, 18.0, 2.0)], Cone(count=8)
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
    fibers = track(sampled(pull_back), [START, (0, 3, -4)], Cone(count=10), settings, device=device)
    np.testing.assert_allclose(fibers.per_fiber["length_mm"], fibers.lengths_mm(), rtol=1e-4)
    speed = fibers.per_fiber["length_mm"] / fibers.per_fiber["riemannian_length_mm"]
    np.testing.assert_allclose(fibers.per_fiber["speed"], speed, rtol=1e-6)
    assert 19 < fibers.lengths_mm().max() <= 20


def test_anisotropy_and_alignment_along_a_fiber(device):
    fiber = one_ray(rod(isotropic_from=20), (5, 6, 6), (1, 0, 0), changed(ROD, fa_stop=0.05), device)
    full = 1.4 / np.linalg.norm([1.7, 0.3, 0.3])
    expected = full * np.clip(20 - fiber.points[:, 0], 0, 1)  # that of the volume
    np.testing.assert_allclose(fiber.per_point["fa"], expected, atol=1e-5)
    assert fiber.per_fiber["mean_fa"][0] == pytest.approx(expected[1:].mean(), rel=1e-5)
    assert fiber.per_fiber["alignment"][0] == pytest.approx(1, rel=1e-5)
    assert fiber.per_fiber["alignment_fa"][0] == pytest.approx(expected[1:].mean(), rel=1e-5)
    fiber = one_ray(rod(), (5, 3, 6), np.array([2.0, 1.0, 0.0]), changed(ROD, max_length_mm=10), device)
    assert fiber.per_fiber["alignment"][0] == pytest.approx(2 / np.sqrt(5), rel=1e-5)  # with the principal direction
