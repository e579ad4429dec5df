"""Rays in a world that is turned, stored otherwise or scaled, and rays that come home."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.tracts import StopReason, TensorField
from napari_gpubio.tracts.phantom.closed_forms import adaptive_ring, half_space, pull_back, ring
from tests.tracts.ray_samples import AHEAD, DOUBLE, METHODS, START, changed, one_ray, passing, sampled


def matrices(tensors):
    return tensors[..., [[0, 3, 4], [3, 1, 5], [4, 5, 2]]]


def six(d):
    return d[..., [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]


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
