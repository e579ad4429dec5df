"""Rays that end at a target, and runs that keep only the fibers that reach it."""

import numpy as np
import pytest

from napari_gpubio.core import chunks
from napari_gpubio.core.device import choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.regions import Box, Region, Sphere, distances_mm, voxels_on
from napari_gpubio.fibers import Cone, Principal, track
from napari_gpubio.fibers.run import trace_problem, track_to_file
from napari_gpubio.tractograms import StopReason
from napari_gpubio.tractograms.io.tractograms import read_tractogram
from tests.fibers.ray_samples import (
    ALL_METHODS,
    BOTH_KINDS,
    FAN,
    ROD,
    SEEDS,
    TRACK,
    brain,
    changed,
    fresh,
    problem,
    rod,
    settings_of,
)
from tests.fibers.test_rays_backends import check_backends, check_packed
from tests.tractograms.tractogram_samples import check_same_fibers

PLATE = Box(name="plate", low_mm=(19.6, -9, -9), high_mm=(22.4, 99, 99))  # the voxels 20, 21 and 22 of the rod
ASIDE = Sphere(name="aside", center_mm=(15.0, -5.0, 25.0), radius_mm=6.0)  # of the phantom's callosum
FORWARD = Principal(both_ways=False)
BOTH = Principal(both_ways=True)


def along_rod(field, settings, device, *, target=PLATE, directions=FORWARD, start=(5, 6, 6), **more):
    return track(field, [start], directions, settings, target=target, device=device, **more)


def toward_x(fibers):
    """The larger x of the ends of the only fiber, and why the ray there ended."""
    (points,) = fibers
    reasons = fibers.per_fiber["stop_reason"][0], fibers.per_fiber["stop_reason_back"][0]
    return points[[0, -1], 0].max(), StopReason(int(max(reasons)))


@ALL_METHODS
def test_a_ray_ends_at_its_first_point_in_the_target(changes, device):
    settings = changed(ROD, **changes)
    end, reason = toward_x(along_rod(rod(), settings, device, directions=BOTH))
    assert reason == StopReason.TARGET
    assert 19.5 <= end < 19.5 + 0.26


def test_the_target_is_reached_where_fa_is_low_and_where_it_touches_the_mask(device):
    low = rod(isotropic_from=20)
    stopped = toward_x(along_rod(low, changed(ROD, fa_stop=0.4), device, target=None, directions=BOTH))
    reached = toward_x(along_rod(low, changed(ROD, fa_stop=0.4), device, directions=BOTH))
    assert (stopped[1], reached[1]) == (StopReason.FA, StopReason.TARGET)
    assert stopped[0] < 19.5 <= reached[0]
    behind = Box(name="behind", low_mm=(20.6, -9, -9), high_mm=(30, 99, 99))
    end, reason = toward_x(along_rod(rod(masked_to=20), ROD, device, target=behind, directions=BOTH))
    assert reason == StopReason.TARGET
    assert 20.5 <= end < 20.76


def test_either_ray_of_a_fiber_may_reach_the_target(device):
    for start in ((5, 6, 6), (35, 6, 6)):
        assert len(along_rod(rod(), ROD, device, directions=BOTH, start=start, only_target=True)) == 1
    one_way = [len(along_rod(rod(), ROD, device, start=(x, 6, 6), only_target=True)) for x in (5, 35)]
    assert sorted(one_way) == [0, 1]  # a principal direction has no sign


def test_a_thin_volume_has_targets_too(device):
    end, reason = toward_x(along_rod(rod((40, 12, 2)), ROD, device, start=(5, 6, 0.5), directions=BOTH))
    assert reason == StopReason.TARGET
    assert 19.5 <= end < 19.76


def reached(fibers):
    return (fibers.per_fiber["stop_reason"] == StopReason.TARGET) | (
        fibers.per_fiber["stop_reason_back"] == StopReason.TARGET
    )


def test_only_those_that_reach_the_target_are_kept(fake_gpu, monkeypatch, in_chunks_of, tmp_path):
    """On the CPU and, in pieces, on a pretended GPU."""
    pretended = fake_gpu()
    everything = track(brain(), SEEDS, FAN, TRACK, target=ASIDE, device="cpu")
    expected = everything.select(reached(everything))
    assert 10 < len(expected) < len(everything) - 10
    in_chunks_of(50)
    asked = {"target": ASIDE, "only_target": True}
    check_same_fibers(track(brain(), SEEDS, FAN, TRACK, device="cpu", **asked), expected)
    monkeypatch.setattr(chunks, "free_memory_bytes", lambda _: 1 << 17)
    found = track(fresh(brain()), SEEDS, FAN, TRACK, device="cuda", **asked)
    check_same_fibers(found, expected)
    assert found.parameters["target"] == "aside"
    assert sum(name == "pack" for _, name, *_ in pretended.log) > 5
    assert track_to_file(str(tmp_path / "some.tck"), brain(), SEEDS, FAN, TRACK, device="cpu", **asked) == len(expected)
    np.testing.assert_array_equal(read_tractogram(tmp_path / "some.tck").offsets, expected.offsets)


def test_a_target_ends_fibers_and_moves_none():
    settings, seeds = changed(TRACK, min_length_mm=0.0, max_length_mm=250.0), SEEDS[:4]  # no fiber is cut
    free, ended = (track(brain(), seeds, FAN, settings, target=target, device="cpu") for target in (None, ASIDE))
    assert not reached(free).any()
    voxels = Region(name="aside", voxels=voxels_on(ASIDE, brain().shape, brain().affine), affine=brain().affine)
    for whole, part, at_target in zip(free, ended, reached(ended), strict=True):
        first = int((whole == part[0]).all(axis=1).argmax())
        np.testing.assert_array_equal(part, whole[first : first + len(part)])
        inside = voxels.contains(part)
        assert not inside[1:-1].any()
        assert inside.any() == at_target
    assert 5 < reached(ended).sum() < len(ended)


@BOTH_KINDS
def test_rays_at_a_target_have_the_bits_of_their_backend(fake_gpu, kind):
    fake_gpu()
    field = fresh(brain())
    for more in ({}, {"both_ways": False}):
        p = problem(field, SEEDS, settings_of(kind, fa_stop=0.1), Cone(count=4, **more), target=ASIDE)
        assert StopReason.TARGET in check_backends(p)
    kept = problem(field, SEEDS, settings_of(kind, max_drift=0.1), Cone(count=4), target=ASIDE, only_target=True)
    assert (check_packed(kept).reasons == StopReason.TARGET).any(axis=1).all()


def test_no_arrival_is_no_fiber(device):
    behind = Box(name="behind", low_mm=(30, -9, -9), high_mm=(35, 99, 99))
    p = problem(rod(), [(5, 6, 6)], changed(ROD, max_length_mm=5), BOTH, target=behind, only_target=True)
    fibers = trace_problem(p, choose_device(device))
    assert (len(fibers), len(fibers.points)) == (0, 0)
    assert fibers.per_fiber["seed"].shape == (0,)


def test_targets_that_no_ray_can_reach_are_refused():
    voxels = np.zeros((4, 4, 4), bool)
    voxels[1, 2, 3] = True
    far = Region(name="far", voxels=voxels, affine=np.diag([2.0, 2.0, 2.0, 1.0]) + np.eye(4)[3] * [[50], [0], [0], [0]])
    for target, away in (
        (far, "13.0"),  # its center at x = 52, the last voxel at 39
        (Sphere(name="far", center_mm=(0, 0, -30), radius_mm=10), "20.0"),
        (Box(name="far", low_mm=(45, 0, 0), high_mm=(46, 1, 1)), "6.0"),
        (Sphere(name="tiny", center_mm=(5.5, 5.5, 5.5), radius_mm=0.1), "0.8"),
    ):
        with pytest.raises(InvalidInput, match=rf"'{target.name}' has no voxel .* {away} mm away"):
            along_rod(rod(), ROD, "cpu", target=target)
    with pytest.raises(InvalidInput, match="there is no target"):
        along_rod(rod(), ROD, "cpu", target=None, only_target=True)


def test_distances_from_a_region():
    points = [(0.0, 0.0, 0.0), (5.0, 0.0, 0.0)]
    region = Region(name="voxel", voxels=np.ones((1, 1, 1), bool), affine=np.eye(4))
    np.testing.assert_allclose(distances_mm(region, points), [0, 5])
    np.testing.assert_allclose(distances_mm(Sphere(name="", center_mm=(0, 0, 0), radius_mm=1), points), [0, 4])
    np.testing.assert_allclose(distances_mm(Box(name="", low_mm=(0, -1, -1), high_mm=(2, 1, 1)), points), [0, 3])
