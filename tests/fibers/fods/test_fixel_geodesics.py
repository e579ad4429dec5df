"""Geodesics in fixels: on the ring, where bundles cross, on any grid, and the same on every device."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core import kernels
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion import FixelField, find_peaks
from napari_gpubio.diffusion.phantom.closed_forms import ring as tensor_ring
from napari_gpubio.diffusion.phantom.crossings import (
    ACROSS,
    ALONG,
    centered_grid,
    crossing,
    radius_after,
    ring_bundle,
)
from napari_gpubio.diffusion.regions import Sphere
from napari_gpubio.fibers import IFOD2, Cone, FixelGeodesic, FromFod, Principal, track
from napari_gpubio.fibers.kernels.fibers.gpu import LAYOUTS
from napari_gpubio.fibers.kernels.fixels import cpu, gpu
from napari_gpubio.tractograms import StopReason
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.structs import struct_in
from tests.fibers.fods.crossing_samples import fan, shares, shoot
from tests.fibers.ray_samples import GRIDS
from tests.runs import check_same_methods

USUAL = FixelGeodesic()
DOUBLE = dataclasses.replace(USUAL, precision="double", min_length_mm=0.0)


def changed(**changes):
    return dataclasses.replace(DOUBLE, **changes)


# -- closed answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("power", "error"), [(1.0, 0.26570), (2.0, 0.03969), (3.0, 0.00682), (4.0, 0.00120)])
def test_rays_on_the_ring_go_as_those_of_its_tensors(power, error):
    """T7, r = r0 / cos(k phi): the spline smooths fixels over a voxel, which changes r by 0.1 % at 20 voxels."""
    fiber = shoot(ring_bundle().fixels, (20, 0, 0), (0, 1, 0), changed(power=power, max_length_mm=60.0))
    exact = 1 / np.cos(np.sqrt((ACROSS / ALONG) ** power) * np.pi / 2) - 1
    assert exact == pytest.approx(error, abs=1e-5)
    assert radius_after(fiber[0], 90) / 20 - 1 == pytest.approx(exact, abs=1.1e-3)
    assert fiber.per_fiber["drift"][0] < 1e-4


def test_the_usual_settings_keep_to_the_ring_within_a_hundredth():
    fiber = shoot(ring_bundle().fixels, (20, 0, 0), (0, 1, 0), USUAL)
    assert abs(radius_after(fiber[0], 90) / 20 - 1) < 0.01


def test_an_isotropic_metric_gives_straight_lines_at_constant_speed():
    settings = changed(anisotropy=1.0, angle_deg=90.0, max_length_mm=20.0, power=2.0)
    fiber = shoot(crossing(60).fixels, (0, 0, 0), (1, 2, 0.5), settings)
    along = np.array([1, 2, 0.5]) / np.sqrt(5.25)
    assert np.linalg.norm(np.cross(fiber[0], along), axis=1).max() < 1e-5
    length, metric = fiber.per_fiber["length_mm"][0], fiber.per_fiber["riemannian_length_mm"][0]
    assert length / metric == pytest.approx(ALONG, rel=1e-6)  # of D^2 = 1.7^2
    assert fiber.per_fiber["drift"][0] < 1e-12


def test_rays_askew_in_a_straight_bundle_are_straight_through_a_crossing():
    """Fixels of the other bundle have no part in them."""
    field = crossing(60).fixels
    u = np.array([np.cos(0.1), 0.06, np.sin(0.1)])
    u /= np.linalg.norm(u)
    fiber = shoot(field, (-14, -1, -2), u, changed())
    assert fiber.per_fiber["length_mm"][0] > 25
    assert np.linalg.norm(np.cross(fiber[0] - [-14, -1, -2], u), axis=1).max() < 1e-5
    d = np.array([1.0, 0, 0])
    metric = np.sqrt((u @ d) ** 2 / ALONG**3 + (1 - (u @ d) ** 2) / ACROSS**3)
    expected = fiber.per_fiber["length_mm"][0] * metric
    assert fiber.per_fiber["riemannian_length_mm"][0] == pytest.approx(expected, rel=1e-5)


def test_the_drift_falls_with_the_fourth_power_of_the_step():
    ring = ring_bundle().fixels
    drifts = [
        shoot(ring, (20, 0, 1), (0.1, 1, 0.1), changed(step_mm=step, max_length_mm=12.0)).per_fiber["drift"][0]
        for step in (0.8, 0.4)
    ]
    assert 0 < drifts[1] < drifts[0] / 3  # the metric's second derivative jumps between voxels
    assert drifts[1] < 1e-4


# -- crossings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("angle", [90, 60, 45])
@pytest.mark.parametrize("found", [False, True], ids=["true fixels", "peaks of FODs"])
def test_a_fan_leaves_by_the_far_end_of_its_bundle(angle, found):
    sample = crossing(angle)
    field = find_peaks(sample.fods, device="cpu") if found else sample.fixels
    far, other = shares(fan(field, 300, USUAL), 300, angle)
    assert far >= 0.95
    assert other < 0.01


@pytest.mark.parametrize("jitter", [5.0, 10.0])
def test_smoothing_takes_most_errors_of_the_directions_away(jitter):
    field = crossing(60, jitter_deg=jitter).fixels
    starts = np.insert(np.random.default_rng(0).uniform(-2, 2, (100, 2)), 0, -14.0, axis=1)
    directions = np.tile([1.0, 0.0, 0.0], (100, 1))
    found = [
        shares(shoot(field, starts, directions, dataclasses.replace(USUAL, smoothing_voxels=sigma)), 100, 60)[0]
        for sigma in (0.0, 1.0)
    ]
    assert found[1] > found[0] + 0.1
    assert found[1] > (0.95 if jitter == 5.0 else 0.7)


def test_smoothing_leaves_fibers_that_cross_apart():
    """In a straight bundle all are the same already, so nothing changes."""
    a, b = (
        shoot(crossing(60).fixels, (-14, 0.5, 0.3), (1, 0.1, 0.05), changed(smoothing_voxels=sigma))[0]
        for sigma in (0.0, 2.0)
    )
    np.testing.assert_allclose(a, b, atol=1e-5)


def test_a_click_in_a_crossing_finds_both_bundles_in_proportion():
    field = crossing(90).fixels
    amplitudes = np.where(np.abs(field.directions[:, 0]) > 0.5, 0.5, 1).astype(np.float32)
    third = dataclasses.replace(field, amplitudes=amplitudes, cache=type(field.cache)())
    fibers = track(third, [(0, 0, 0)], FromFod(count=300), USUAL, device="cpu")
    ends = np.array([fiber[-1] - fiber[0] for fiber in fibers])
    along = np.abs(ends).argmax(axis=1)
    assert set(along) == {0, 1}
    assert 65 < np.count_nonzero(along == 0) < 135
    again = track(third, [(0, 0, 0)], FromFod(count=300), changed(random_seed=1), device="cpu")
    assert not np.array_equal(np.abs([f[-1] - f[0] for f in again]).argmax(axis=1), along)


def test_a_seed_between_voxels_starts_along_its_fibers():
    fibers = track(ring_bundle().fixels, [(20.3, 0.3, 0.2)], Principal(both_ways=False), USUAL, device="cpu")
    tangent = np.array([-0.3, 20.3, 0]) / np.hypot(0.3, 20.3)
    step = fibers[0][1] - fibers[0][0]
    assert (
        np.rad2deg(np.arccos(abs(step @ tangent) / np.linalg.norm(step))) < 0.5
    )  # a chord of a step is 0.36 degrees askew


# -- symmetries -------------------------------------------------------------------------------------------------------


def test_a_ray_that_is_sent_back_returns():
    ring = ring_bundle().fixels
    out = shoot(ring, (20, 0, 0.2), (0.1, 1, 0.05), changed(step_mm=0.1, max_length_mm=20.0))[0].astype(float)
    back = shoot(ring, out[-1], out[-2] - out[-1], changed(step_mm=0.1, max_length_mm=19.9))[0]
    assert np.linalg.norm(back[-1] - out[1]) < 0.1  # launched along a chord of a step, 0.02 rad from the momentum


def test_the_sign_of_a_fixel_means_nothing():
    field = ring_bundle().fixels
    signs = np.where(np.random.default_rng(0).random(len(field.directions)) < 0.5, -1, 1)[:, None]
    flipped = dataclasses.replace(
        field, directions=(field.directions * signs).astype(np.float32), cache=type(field.cache)()
    )
    a, b = (shoot(f, (20, 0, 0), (0.05, 1, 0.1), changed())[0] for f in (field, flipped))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("turned", ["rotated", "flipped"])
def test_rays_do_not_depend_on_the_axes_of_the_grid(turned):
    sample = crossing(60).fixels
    turn = Rotation.from_euler("xyz", [12, -18, 25], degrees=True).as_matrix()
    start, u = np.array([-14.0, 0.5, 0.3]), np.array([1.0, 0.1, 0.05])
    plain = shoot(sample, start, u, changed())[0].astype(float)
    if turned == "rotated":
        affine = np.eye(4)
        affine[:3] = turn @ sample.affine[:3]
        moved = dataclasses.replace(
            sample,
            affine=affine,
            directions=(sample.directions @ turn.T).astype(np.float32),
            cache=type(sample.cache)(),
        )
        there = shoot(moved, turn @ start, turn @ u, changed())[0] @ turn
    else:
        directions, amplitudes = sample.dense()
        affine = sample.affine @ np.diag([-1, 1, 1, 1])
        affine[0, 3] *= -1
        moved = FixelField.from_dense(directions[::-1], amplitudes[::-1], affine)
        there = shoot(moved, start, u, changed())[0]
    np.testing.assert_allclose(there, plain, atol=2e-5)


@pytest.mark.parametrize("grid", GRIDS)
def test_the_ring_is_the_same_on_any_grid(grid):
    matrix = GRIDS[grid]
    shape = tuple(2 * int(np.ceil(27 * np.linalg.norm(row))) + 1 for row in np.linalg.inv(matrix))
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = matrix, -matrix @ (np.array(shape) // 2)
    at = np.stack(np.indices(shape), axis=-1) @ matrix.T + affine[:3, 3]
    r = np.hypot(at[..., 0], at[..., 1])
    tangent = np.stack([-at[..., 1], at[..., 0], 0 * r], axis=-1)
    there = (np.abs(r - 20) < 6) & (np.abs(at[..., 2]) < 6)
    field = FixelField.from_dense(tangent[..., None, :], there[..., None].astype(float), affine)
    fiber = shoot(field, (20, 0, 0), (0, 1, 0), changed())[0]
    assert abs(radius_after(fiber, 90) / 20 - 1) < 0.0115  # coarser voxels smooth more
    assert np.abs(fiber[:, 2]).max() < 0.02


def stored_otherwise(field, axes, flips, seed):
    """The same fixels along other axes, and in any order within a voxel."""
    rng, sizes = np.random.default_rng(seed), np.array(field.shape)[list(axes)]
    directions, amplitudes = field.dense()
    order = np.argsort(np.where(amplitudes > 0, rng.random(amplitudes.shape), 2.0), axis=-1)
    directions = np.take_along_axis(directions, order[..., None], 3)
    amplitudes = np.take_along_axis(amplitudes, order, 3)
    directions, amplitudes = (np.flip(np.moveaxis(a, axes, (0, 1, 2)), flips) for a in (directions, amplitudes))
    to_old = np.zeros((4, 4))
    to_old[axes, (0, 1, 2)], to_old[3, 3] = 1, 1
    for axis in flips:
        to_old[axes[axis], [axis, 3]] = -1, sizes[axis] - 1
    there = amplitudes > 0
    return FixelField(
        counts=there.sum(axis=-1).astype(np.uint8), directions=directions[there], amplitudes=amplitudes[there],
        affine=field.affine @ to_old,
    )  # fmt: skip


@pytest.mark.parametrize(("axes", "flips"), [((0, 1, 2), ()), ((0, 1, 2), (0,)), ((2, 0, 1), (1, 2))])
def test_fibers_do_not_depend_on_the_order_in_which_fixels_are_stored(axes, flips):
    field = noisy()
    other = stored_otherwise(field, axes, flips, seed=5)
    seeds = field.affine[:3, 3] + field.affine[:3, :3] @ np.array([7, 6.5, 6])
    seeds = seeds + np.random.default_rng(1).normal(size=(8, 3)) * 2
    for chosen in (Cone(count=4), FromFod(count=4), Principal()):
        expected, found = (track(f, seeds, chosen, USUAL, device="cpu") for f in (field, other))
        assert len(expected) >= 4
        np.testing.assert_array_equal(found.offsets, expected.offsets)
        np.testing.assert_array_equal(found.points, expected.points)
        np.testing.assert_array_equal(found.per_fiber["alignment"], expected.per_fiber["alignment"])
        assert found.shape == other.shape
        np.testing.assert_array_equal(found.affine, other.affine)


# -- ends and numbers -------------------------------------------------------------------------------------------------


def test_points_and_fibers_have_numbers_and_reasons(device):
    field = crossing(90).fixels
    fibers = track(field, [(-10, 0, 0)], Cone(count=5, half_angle_deg=5.0), device=device)
    assert set(fibers.per_point) == {"amplitude"}
    assert set(fibers.per_fiber) == {
        "length_mm", "riemannian_length_mm", "drift", "mean_amplitude", "alignment", "speed", "stop_reason",
        "stop_reason_back", "seed",
    }  # fmt: skip
    np.testing.assert_allclose(fibers.per_point["amplitude"], 1, rtol=1e-5)
    np.testing.assert_allclose(fibers.lengths_mm(), fibers.per_fiber["length_mm"], rtol=1e-3)
    assert (fibers.per_fiber["alignment"] > np.cos(np.deg2rad(5.1))).all()
    assert (fibers.per_fiber["stop_reason"] == StopReason.VOLUME).all()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"max_length_mm": 9.0}, StopReason.LENGTH),
        ({"max_steps": 10}, StopReason.STEPS),
        ({"min_radius_mm": 40.0}, StopReason.CURVATURE),
        ({"fod_stop": 1.1}, StopReason.FOD),
        ({"max_drift": 1e-9}, StopReason.DRIFT),
        ({"max_length_mm": 2000.0, "power": 1.0}, StopReason.MASK),
        ({"max_length_mm": 2000.0, "power": 1.0, "weight": 0.9}, StopReason.FOD),
    ],
)
def test_rays_end_for_every_reason(changes, reason):
    fiber = shoot(ring_bundle().fixels, (20, 0, 0), (0, 1, 0), changed(**changes))
    found = fiber.per_fiber["stop_reason"]
    assert (found == reason).all()
    assert len(found) == (0 if "fod_stop" in changes else 1)  # a fiber that cannot start has no second point


def test_fibers_end_at_a_target(device):
    field = crossing(90).fixels
    target = Sphere(name="end", center_mm=(12.0, 0, 0), radius_mm=3.0)
    directions = FromFod(count=40)
    fibers = track(field, [(0, 0, 0)], directions, USUAL, target=target, only_target=True, device=device)
    assert 5 < len(fibers) < 35
    reasons = np.stack([fibers.per_fiber["stop_reason"], fibers.per_fiber["stop_reason_back"]])
    assert (reasons == StopReason.TARGET).any(axis=0).all()


def test_other_methods_and_other_fields_are_refused():
    sample = crossing(90)
    with pytest.raises(InvalidInput, match="'ifod2', which is for FODs; in fixels choose fixel_geodesic"):
        track(sample.fixels, [(0, 0, 0)], method=IFOD2())
    with pytest.raises(InvalidInput, match="'fixel_geodesic', which is for fixels; in FODs choose"):
        track(sample.fods, [(0, 0, 0)], method=USUAL)
    with pytest.raises(InvalidInput, match="no fixels"):
        track(sample.fixels, [(-13, 13, 0)])


def test_neither_chunks_nor_threads_decide(device, in_chunks_of):
    seeds = np.random.default_rng(0).normal(size=(20, 3))
    directions = FromFod(count=3)
    once = track(crossing(60).fixels, seeds, directions, USUAL, device=device)
    in_chunks_of(7)
    again = track(crossing(60).fixels, seeds, directions, USUAL, device=device)
    np.testing.assert_array_equal(again.points, once.points)


# -- backends ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_structs_are_laid_out_as_the_kernels_read_them(real):
    text = kernels.source(gpu.SOURCE)
    for name, layout in {**gpu.layouts(real), **LAYOUTS}.items():
        assert struct_in(text, name, real=real) == layout
    check_same_methods(cpu, gpu)


def noisy():
    """Up to three fixels in each voxel, in any order and sign, some voxels with none."""
    affine, at = centered_grid((15, 14, 13))
    rng = np.random.default_rng(3)
    directions = np.array([[1, 0.2, 0], [0.1, 1, 0.3], [0, 0.2, 1]]) + rng.normal(0, 0.15, (*at.shape[:3], 3, 3))
    amplitudes = np.where(rng.random((*at.shape[:3], 3)) < 0.8, rng.uniform(0.2, 1, (*at.shape[:3], 3)), 0)
    affine = affine @ np.array([[1.3, 0.2, 0, 0], [0, 0.9, 0.1, 0], [-0.1, 0, 1.1, 0], [0, 0, 0, 1]])
    return FixelField.from_dense(directions * rng.choice([-1, 1], (*at.shape[:3], 3, 1)), amplitudes, affine)


@pytest.mark.parametrize(
    ("changes", "order"),
    [
        ({}, loader.NATURAL),
        ({"precision": "double", "points_every": 3}, 5),
        ({"max_length_mm": 8.0, "min_radius_mm": 2.0, "max_drift": 0.3, "power": 1.0}, 5),
    ],
)
def test_geodesics_by_cuda_have_the_bits_of_the_cpu(fake_gpu, in_chunks_of, changes, order):
    field = noisy()
    seeds = field.affine[:3, 3] + field.affine[:3, :3] @ np.array([7, 6.5, 6])
    seeds = seeds + np.random.default_rng(1).normal(size=(6, 3)) * 2
    chosen = dataclasses.replace(USUAL, min_length_mm=0.0, **changes)
    target = Sphere(name="there", center_mm=tuple(seeds[0] + [3, 0, 0]), radius_mm=1.5)
    for directions in (FromFod(count=2), Cone(count=4)):
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
        np.testing.assert_array_equal(found.per_point["amplitude"], expected.per_point["amplitude"])


def test_the_tensor_ring_is_the_same_ring():
    """The closed form that the first test takes is that of the phantom."""
    field = tensor_ring(1)
    k = np.sqrt(ACROSS / ALONG)
    path = field.path((20, 0, 0), (0, 1, 0), [20 / np.sqrt(ACROSS) * np.tan(k * np.pi / 2)])
    assert np.hypot(*path[0, :2]) / 20 == pytest.approx(1 / np.cos(k * np.pi / 2))
