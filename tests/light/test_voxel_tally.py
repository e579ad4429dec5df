"""Integers of a simulation: parts that are merged, saved and resumed, and the fluence and errors made of them."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import drive
from napari_gpubio.light.kernels.voxels import tally as tallies_module
from napari_gpubio.light.kernels.voxels.problem import ENERGY_PARTS
from napari_gpubio.light.kernels.voxels.tally import DetectedList, OpenBatch, VoxelTally, assemble
from napari_gpubio.optics.batches import joined, mean_error
from napari_gpubio.optics.detectors import Detector
from tests.light.test_voxel_problem import SHAPE, problem
from tests.light.voxel_samples import make_domain

# -- parts ------------------------------------------------------------------------------------------------------------


def test_ranges_that_follow_are_joined():
    assert joined([(7, 9), (0, 3), (3, 5), (9, 10)]) == [(0, 5), (7, 10)]
    assert joined([(0, 3), (3, 5), (5, 9)], span=5) == [(0, 5), (5, 9)]


def random_open(p, ranges, seed):
    random = np.random.default_rng(seed)
    words = [random.integers(0, 2**40, n).astype(np.uint64) for n in (p.tally_size, ENERGY_PARTS)]
    return OpenBatch(list(ranges), *words)


def test_what_is_missing():
    p = problem(photons=100, batches=4)
    part = VoxelTally.empty(p)
    assert part.missing(p) == [(0, 25), (25, 50), (50, 75), (75, 100)]
    part.batches[1] = np.zeros(ENERGY_PARTS + p.media_rows, np.uint64)
    part.open[2] = random_open(p, [(55, 60), (70, 75)], 1)
    part.open[3] = random_open(p, [(75, 80)], 2)
    assert part.missing(p) == [(0, 25), (50, 55), (60, 70), (80, 100)]
    assert (part.photons, part.photons_up_to) == (25 + 10 + 5, 80)


def test_parts_of_a_batch_make_the_whole_batch():
    """In any order; folded when it is whole, as if one run had done it."""
    p = problem(photons=100, batches=4, halves=True, time_gates_ns=(0.0, 1.0, 5.0))
    pieces = [random_open(p, ranges, seed) for seed, ranges in enumerate([[(25, 30)], [(40, 50)], [(30, 40)]])]
    together = []
    for order in ((0, 1, 2), (2, 0, 1)):
        whole = VoxelTally.empty(p)
        for i in order:
            other = VoxelTally.empty(p)
            other.open[1] = pieces[i]
            whole.merge(other, p)
        assert (list(whole.batches), whole.open) == ([1], {})
        together.append(whole)
    expected = sum(piece.path for piece in pieces)
    for whole in together:
        np.testing.assert_array_equal(whole.sums, expected)
        np.testing.assert_array_equal(whole.batches[1][:ENERGY_PARTS], sum(piece.energy for piece in pieces))
        np.testing.assert_array_equal(whole.batches[1], together[0].batches[1])
        np.testing.assert_array_equal(whole.squares, together[0].squares)


def test_copies_do_not_change_with_the_original():
    p = problem(photons=100, batches=4)
    part = VoxelTally.empty(p)
    part.open[0] = random_open(p, [(0, 5)], 1)
    copy = part.copy()
    other = VoxelTally.empty(p)
    other.open[0] = random_open(p, [(5, 25)], 2)
    other.detected = detected_photons(p, [3, 9])
    part.merge(other, p)
    assert (list(part.batches), part.open, len(part.detected.photons)) == ([0], {}, 2)
    assert (copy.batches, copy.open[0].done, len(copy.detected.photons)) == ({}, [(0, 5)], 0)
    assert not copy.sums.any()


def test_sums_of_squares_carry():
    p = problem(photons=100, batches=4)
    parts = [VoxelTally.empty(p) for _ in range(2)]
    for batch, (part, words) in enumerate(zip(parts, ([2**64 - 1, 5], [2**63, 7]), strict=True)):
        part.squares[3] = words
        part.batches[batch] = np.zeros(ENERGY_PARTS + p.media_rows, np.uint64)
    parts[0].merge(parts[1], p)
    assert parts[0].squares[3].tolist() == [2**63 - 1, 13]


def detected_photons(p, indices):
    return DetectedList(np.array(indices, np.uint64), np.zeros((len(indices), 10 + p.media_rows), np.float32))


def test_a_full_list_keeps_the_first_photons():
    p = problem()
    for order in ([[5, 1, 9], [2, 8], [7]], [[7], [2, 8], [5, 1, 9]]):
        found = DetectedList.none(p)
        for indices in order:
            found.add(detected_photons(p, indices), 3)
        assert (sorted(found.photons), found.dropped) == ([1, 2, 5], 3)


def test_arrays_make_the_same_part_again():
    p = problem(photons=100, batches=4, detectors=(Detector(position_mm=(0, 0, 0)),))
    part = VoxelTally.empty(p)
    part.open[2] = random_open(p, [(50, 60), (65, 70)], 1)
    part.batches[0] = np.arange(ENERGY_PARTS + p.media_rows, dtype=np.uint64)
    part.detected = detected_photons(p, [3, 1])
    part.detected.dropped = 4
    arrays = part.to_arrays()
    again = VoxelTally.from_arrays(arrays)
    assert (again.key, again.batch_size, again.detected.dropped) == (p.key, 25, 4)
    assert again.open[2].done == [(50, 60), (65, 70)]
    assert again.missing(p) == part.missing(p)
    for name, array in again.to_arrays().items():
        np.testing.assert_array_equal(array, arrays[name])
    del arrays["open_2_path"]
    with pytest.raises(InvalidInput, match="the saved state lacks 'open_2_path'; it was not written by this version"):
        VoxelTally.from_arrays(arrays)


# -- mean and error ---------------------------------------------------------------------------------------------------


def batches_of(p, sizes, seed=1):
    """Parts that fill batches with random tallies, in proportion to their photons; and those tallies."""
    random, part, tallies = np.random.default_rng(seed), VoxelTally.empty(p), []
    for batch, size in enumerate(sizes):
        start, _ = p.batch_range(batch)
        tally = (size * random.normal(1e6, 1e4, p.tally_size)).astype(np.uint64)
        other = VoxelTally.empty(p)
        other.open[batch] = OpenBatch([(start, start + size)], tally, np.zeros(ENERGY_PARTS, np.uint64))
        part.merge(other, p)
        tallies.append(tally.reshape(p.halves, p.gates, *p.padded)[:, :, 1:-1, 1:-1, 1:-1].astype(float))
    return part, np.array(tallies)


def test_mean_and_error_of_equal_batches():
    p = problem(make_domain(SHAPE, voxel_mm=(1, 2, 3)), photons=1600, halves=True, time_gates_ns=(0.0, 1.0, 5.0))
    part, tallies = batches_of(p, [100] * 16)
    result = assemble(p, part, {})
    assert (result.launched, result.complete) == (1600, True)
    unit = 1600 * p.scale * 6.0
    by_gate = np.moveaxis(tallies.sum(axis=1), 1, -1)  # batch, x, y, z, gate
    np.testing.assert_allclose(result.gates, by_gate.sum(axis=0) / unit, rtol=1e-6)
    np.testing.assert_allclose(result.gates_error, 4 * by_gate.std(axis=0, ddof=1) / unit, rtol=1e-4)
    whole = by_gate.sum(axis=-1)
    np.testing.assert_allclose(result.fluence, whole.sum(axis=0) / unit, rtol=1e-6)
    np.testing.assert_allclose(result.fluence_error, 4 * whole.std(axis=0, ddof=1) / unit, rtol=1e-4)
    halves = np.moveaxis(tallies.sum(axis=0), 1, -1) / (unit / 2)
    np.testing.assert_allclose(result.half_fluences, halves, rtol=1e-6)
    np.testing.assert_allclose(result.half_fluences.mean(axis=0), result.gates, rtol=1e-5)


@pytest.mark.parametrize("last", [1, 50, 99])
def test_a_shorter_batch_counts_for_mean_and_error(last):
    p = dataclasses.replace(problem(photons=1500 + last, time_gates_ns=(0.0, 1.0, 5.0)), batch_size=100)
    part, tallies = batches_of(p, [100] * 15 + [last])
    result = assemble(p, part, {})
    by_gate = np.moveaxis(tallies[:, 0], 1, -1)  # batch, x, y, z, gate
    np.testing.assert_allclose(result.gates, by_gate.sum(axis=0) / (p.scale * (1500 + last)), rtol=1e-6)
    for found, sums in ((result.gates_error, by_gate), (result.fluence_error, by_gate.sum(axis=-1))):
        np.testing.assert_allclose(found, mean_error(sums[:15], sums[15], 100, last) / p.scale, rtol=1e-4)


def test_a_voxel_that_only_the_last_photons_reached_has_an_error():
    """12,000 photons in 64 batches leave 32 over; one of them has an error of its own size, as any photon has."""
    p = problem(photons=12_000, batches=64)
    part, inside = VoxelTally.empty(p), np.arange(p.tally_size).reshape(p.padded)[1:-1, 1:-1, 1:-1]
    for batch in range(65):
        other = VoxelTally.empty(p)
        tally = np.zeros(p.tally_size, np.uint64)
        if batch in (20, 64):
            tally[inside[1, 2, 3] if batch == 64 else inside[2, 1, 0]] = 10**6
        other.open[batch] = OpenBatch([p.batch_range(batch)], tally, np.zeros(ENERGY_PARTS, np.uint64))
        part.merge(other, p)
    result = assemble(p, part, {})
    for place in ((1, 2, 3), (2, 1, 0)):
        assert result.fluence_error[place] == pytest.approx(result.fluence[place], rel=0.02)
    assert result.energy.absorbed.error == pytest.approx(result.energy.absorbed.value / np.sqrt(2), rel=0.02)


def test_volumes_that_are_made_in_parts_have_the_bits_of_the_whole(monkeypatch):
    settings = {"photons": 1650, "halves": True, "time_gates_ns": (0.0, 1.0, 5.0), "exit_map": True}
    p = problem(make_domain((9, 5, 4)), **settings)
    part, _ = batches_of(p, [103] * 16 + [2])
    whole, steps = assemble(p, part, {}), []
    for name, voxels in (("VOXELS_AT_ONCE", 20), ("_VOXELS_OF_PART", 320)):
        monkeypatch.setattr(tallies_module, name, voxels)
    made = drive(tallies_module.assemble_parts(p, part, {}), steps.append)
    assert len(steps) == 2  # between planes 0 to 3, 4 to 7, and 8
    for name in ("gates", "gates_error", "fluence_error", "half_fluences", "escaped_weight"):
        np.testing.assert_array_equal(getattr(made, name), getattr(whole, name))


def test_one_whole_batch_has_no_error():
    p = problem(photons=1600)
    part, _ = batches_of(p, [100, 60])
    result = assemble(p, part, {})
    assert (result.launched, result.complete) == (160, False)
    assert np.isnan(result.fluence_error).all()
    assert np.isnan(result.energy.absorbed.error)


def test_photons_of_open_batches_count_for_the_mean():
    p = problem(photons=1600)
    part, tallies = batches_of(p, [100, 100, 100, 60])
    result = assemble(p, part, {})
    unit = 360 * p.scale
    np.testing.assert_allclose(result.fluence, tallies.sum(axis=0)[0, 0] / unit, rtol=1e-6)
    expected = mean_error(tallies[:3, 0, 0], tallies[3, 0, 0], 100, 60) / p.scale
    np.testing.assert_allclose(result.fluence_error, expected, rtol=1e-4)
    assert result.absorbed[1].value == pytest.approx(0.02 * tallies.sum() / unit, rel=1e-4)  # the rim of the sum is cut


def test_none_takes_over_what_is_added_first():
    """It has no memory of its own: what comes first takes its place; what follows is added to that, or folded."""
    p = problem(photons=100, batches=4)
    whole, written = VoxelTally.none(p), VoxelTally.empty(p)
    assert (whole.sums.strides, whole.squares.strides) == ((0,), (0, 0))
    assert not whole.sums.flags.writeable
    for batch in (1, 2):
        for part in (whole, written):
            other = VoxelTally.none(p) if part is whole else VoxelTally.empty(p)
            other.open[batch] = random_open(p, [p.batch_range(batch)], batch)
            part.merge(other, p)
    for part in (whole, written):
        part.merge(VoxelTally.none(p), p)
    np.testing.assert_array_equal(whole.sums, written.sums)
    np.testing.assert_array_equal(whole.squares, written.squares)
    assert whole.sums.any()
    assert sorted(whole.batches) == [1, 2]


@pytest.mark.parametrize("nothing", [VoxelTally.empty, VoxelTally.none])
def test_no_photons_are_no_light(nothing):
    p = problem(photons=1600)
    result = assemble(p, nothing(p), {})
    assert (result.launched, result.complete, result.energy.total) == (0, False, 0.0)
    assert not result.fluence.any()
    assert np.isnan(result.fluence_error).all()
    assert np.isinf(result.relative_error).all()
