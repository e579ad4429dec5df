"""Calculations that stay open give what one from the start gives: after strokes, after other labels, for a new dose."""

import dataclasses
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import drive
from napari_gpubio.dose import BySpacing, Dose, DvhSettings, LabelStructures, LiveDvh, ResidentDvh, dvh
from napari_gpubio.dose.kernels.histogram import counting
from tests.dose.samples import affine_of, check_same, circle, random_case, stack

SHAPE = (12, 10, 14)
SETTINGS = DvhSettings(sampling=BySpacing(spacing_mm=1.0))
NAMES = {1: "one", 2: "two", 7: "not there yet"}


def case(seed, order="C"):
    rng = np.random.default_rng(seed)
    dose = Dose(values=rng.random((9, 7, 10)) * 40, affine=affine_of(3.0), unit="Gy")
    return rng, dose, np.array(rng.integers(0, 3, SHAPE), np.uint8, order=order)


def structures_of(labels):
    organ = stack([circle(5.0, center=(10.0, 10.0))], [8.0, 10.0], "organ")
    return [organ, LabelStructures(labels=labels, affine=affine_of(2.0, (1, 0, -1)), structures=NAMES)]


@pytest.mark.parametrize("seed", range(3))
def test_strokes_give_what_a_new_calculation_gives(seed):
    rng, dose, labels = case(seed)
    given = labels.copy()
    with LiveDvh(dose, structures_of(labels), SETTINGS, device="cpu") as live:
        for _ in range(6):
            size = rng.integers(1, 6, 3)
            start = [int(rng.integers(0, n - m + 1)) for n, m in zip(SHAPE, size, strict=True)]
            brush = rng.choice([0, 1, 2, 7], size)
            live.paint(start, brush)
            labels[tuple(slice(a, a + b) for a, b in zip(start, size, strict=True))] = brush
            check_same(live.dvhs(), dvh(dose, structures_of(labels), SETTINGS, device="cpu"))
    assert (labels != given).any()


def test_erasing_everything_leaves_empty_histograms_and_the_users_array():
    _, dose, labels = case(5)
    given = labels.copy()
    with LiveDvh(dose, structures_of(labels), SETTINGS, device="cpu") as live:
        live.paint((0, 0, 0), np.zeros(SHAPE, int))
        assert [found.is_empty for found in live.dvhs()] == [False, True, True, True]
    np.testing.assert_array_equal(labels, given)


def place_of(values, inside, find):
    """The voxel inside a structure where its dose is least or largest."""
    return tuple(int(n) for n in np.argwhere(inside & (values == find(values[inside])))[0])


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_extremes_are_found_again_when_their_voxel_is_erased(fake_gpu, device):
    """One sample a voxel, in its center, so that extremes are those of voxels; erased until a strip is empty."""
    fake_gpu()
    rng = np.random.default_rng(8)
    shape = (3, 20, 6)  # three strips in each slice
    values = rng.random(shape).astype(np.float32)
    labels = rng.integers(1, 3, shape).astype(np.uint8)
    dose, parts = Dose(values=values, affine=np.eye(4), unit="Gy"), LabelStructures(labels=labels, affine=np.eye(4))
    now, erased = labels.copy(), 0
    with LiveDvh(dose, parts, DvhSettings(sampling=BySpacing(spacing_mm=1.0)), device=device) as live:
        for find in [np.min, np.max] * 12:
            place = place_of(values, now == 1, find)
            live.paint(place, np.full((1, 1, 1), 2 * (erased % 2)))  # to nothing, and to the other label
            now[place] = 2 * (erased % 2)
            erased += 1
            for label, found in zip((1, 2), live.dvhs(), strict=True):
                inside = values[now == label]
                np.testing.assert_allclose([found.least, found.largest], [inside.min(), inside.max()], rtol=1e-6)
                assert found.volume_cc == pytest.approx(inside.size / 1000)
        live.paint((1, 8, 0), np.where(now[1:2, 8:16] == 1, 0, now[1:2, 8:16]))  # a strip is left empty
        now[1, 8:16][now[1, 8:16] == 1] = 0
        inside = values[now == 1]
        found = live.dvhs()[0]
        np.testing.assert_allclose([found.least, found.largest], [inside.min(), inside.max()], rtol=1e-6)


def test_a_stroke_looks_only_at_strips_that_lost_an_extreme():
    """What a stroke costs: whole strips around it at most, none where no extreme went away."""
    rng = np.random.default_rng(9)
    shape = (32, 64, 64)
    dose = Dose(values=rng.random(shape).astype(np.float32), affine=np.eye(4), unit="Gy")
    labels = np.zeros(shape, np.uint8)
    labels[:, :, 40:] = 1
    with LiveDvh(
        dose, LabelStructures(labels=labels, affine=np.eye(4), structures={1: "a", 2: "b"}), device="cpu"
    ) as live:
        work = live.problem.works[0]
        assert work.whole_strips((4, 8, 10, 14, 3, 6)) == (4, 8, 8, 16, 0, 64)
        before = live.run.strip_extremes.copy()
        live.run.tally_box(0, (4, 8, 10, 14, 0, 8), -1)  # there is no structure
        np.testing.assert_array_equal(live.run.strip_extremes, before)
        live.run.tally_box(0, (4, 8, 8, 16, 40, 64), -1)  # all of it in some strips
        lost = live.run.strip_extremes[..., counting.LOST] > 0
        assert lost.sum() == 4
        assert lost[4 * 8 + 1, 0]


@pytest.mark.parametrize(
    ("shape", "small", "steps"),
    [
        ((2, 9, 4), {(0, 0, 0): 1.0, (1, 8, 3): 1.0}, [((0, 0, 0), 1.0, None), ((1, 8, 3), 5.0, 0)]),
        (
            (4, 32, 8),
            {(0, 0, 0): 1.0, (2, 20, 3): 2.0, (3, 9, 1): 3.0},
            [((3, 9, 1), 1.0, 1), ((2, 20, 3), 1.0, 2), ((0, 0, 0), 5.0, 0)],
        ),
    ],
    ids=["two equal ones", "the least dose of a strip, not of all"],
)
def test_a_lost_extreme_is_looked_for_only_where_it_may_have_been_that_of_all(shape, small, steps):
    """Steps: the voxel that is erased, the least dose then, and how many strips lost theirs."""
    values = np.full(shape, 5.0, np.float32)
    for place, value in small.items():
        values[place] = value
    dose = Dose(values=values, affine=np.eye(4), unit="Gy")
    parts = LabelStructures(labels=np.ones(shape, np.uint8), affine=np.eye(4))
    with LiveDvh(dose, parts, DvhSettings(sampling=BySpacing(spacing_mm=1.0)), device="cpu") as live:
        for place, least, unsure in steps:
            live.paint(place, np.zeros((1, 1, 1), int))
            assert live.dvhs()[0].least == pytest.approx(least)
            if unsure is not None:
                assert (live.run.strip_extremes[..., counting.LOST] > 0).sum() == unsure


@pytest.mark.parametrize("seed", range(2))
def test_following_finds_the_smallest_box(seed):
    rng = np.random.default_rng(seed)
    shape = (40, 90, 100)  # compared in several parts
    labels = rng.integers(0, 3, shape).astype(np.uint8)
    dose = Dose(values=np.ones(shape, np.float32), affine=np.eye(4), unit="Gy")
    for order in ("C", "F"):
        given = np.array(labels, order=order)
        with LiveDvh(dose, LabelStructures(labels=given, affine=np.eye(4)), SETTINGS, device="cpu") as live:
            assert live.follow(given) is None
            low = rng.integers(0, 30, 3)
            high = low + rng.integers(1, 10, 3)
            for corner in (low, high - 1):
                given[tuple(corner)] = 3 - given[tuple(corner)] if given[tuple(corner)] else 2
            assert live.follow(given) == tuple(slice(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True))
            np.testing.assert_array_equal(live.labels(), given)


def test_a_gpu_does_the_same(fake_gpu):
    fake_gpu(count=2)
    rng, dose, labels = case(6)
    brush = rng.choice([0, 1, 7], (4, 5, 6))
    answers = []
    for device in ("cpu", "cuda:all"):
        with LiveDvh(dose, structures_of(labels), SETTINGS, device=device) as live:
            live.paint((3, 2, 1), brush)
            now = np.array(live.labels())
            now[2:6, 3:5, 4:9] = 2
            assert live.follow(now) is not None
            assert live.follow(now) is None
            answers.append(live.dvhs())
    check_same(*answers)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda live: live.paint((10, 0, 0), np.ones((5, 1, 1), int)), "is not in a label volume"),
        (lambda live: live.paint((-1, 0, 0), np.ones((1, 1, 1), int)), "is not in a label volume"),
        (lambda live: live.paint((0, 0), np.ones((1, 1, 1), int)), "is not in a label volume"),
        (lambda live: live.paint((0.5, 0, 0), np.ones((1, 1, 1), int)), "is not in a label volume"),
        (lambda live: live.paint((0, 0, 0), np.ones((1, 1), int)), "is not in a label volume"),
        (lambda live: live.paint((0, 0, 0), np.full((1, 1, 1), 300)), "from 0 to 255"),
        (lambda live: live.paint((0, 0, 0), np.full((1, 1, 1), 0.5)), "from 0 to 255"),
        (lambda live: live.paint((0, 0, 0), np.ones((1, 1, 1), int), volume=1), "there is no label volume 1"),
        (lambda live: live.follow(np.ones((3, 3), int), start=(0, 0, 0)), "is not in"),
        (lambda live: live.follow(np.ones((3, 3, 3), int), start=(10, 0, 0)), "is not in"),
        (lambda live: live.follow(np.ones((1, 2, 2), int), start=(-2, 0, 0)), "is not in"),
        (lambda live: live.follow(np.ones((1, 2, 2), int), start=(0.5, 0, 0)), "is not in"),
        (lambda live: live.follow(np.ones((1, 2, 2), int), start=(0, 0)), "is not in"),
    ],
)
def test_what_is_not_in_the_labels_is_refused(act, message):
    _, dose, labels = case(7)
    with LiveDvh(dose, structures_of(labels), device="cpu") as live, pytest.raises(InvalidInput, match=message):
        act(live)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("seed", range(3))
def test_following_gives_what_a_new_calculation_gives(seed, order):
    rng, dose, labels = case(seed, order)
    with LiveDvh(dose, structures_of(labels), SETTINGS, device="cpu") as live:
        check_same(live.dvhs(), dvh(dose, structures_of(labels), SETTINGS, device="cpu"))
        for _ in range(4):
            labels[tuple(rng.integers(0, n, 5) for n in SHAPE)] = rng.choice([0, 1, 2, 7], 5)
            assert live.follow(labels) is not None
            check_same(live.dvhs(), dvh(dose, structures_of(labels), SETTINGS, device="cpu"))
            np.testing.assert_array_equal(live.labels(), labels)


def test_a_part_is_followed_alone():
    _, dose, labels = case(5)
    with LiveDvh(dose, structures_of(labels), SETTINGS, device="cpu") as live:
        painted = labels.copy()
        painted[1, 1, 1] = painted[9, 7, 11] = 7
        found = live.follow(painted[0:4, 0:3, 0:5], start=(0, 0, 0))
        assert found == (slice(1, 2), slice(1, 2), slice(1, 2))
        assert live.labels()[1, 1, 1] == 7
        assert live.labels()[9, 7, 11] != 7
        assert live.follow(painted[6:, 5:, 8:], start=(6, 5, 8)) == (slice(9, 10), slice(7, 8), slice(11, 12))
        assert live.follow(painted) is None


def test_steps_give_the_same(in_chunks_of):
    in_chunks_of(2)
    _, dose, labels = case(8)
    steps = []
    live = drive(LiveDvh.steps(dose, structures_of(labels), SETTINGS, device="cpu"), steps.append)
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert len(steps) > 3
    assert live.complete
    result = live.result()
    check_same(result, dvh(dose, structures_of(labels), SETTINGS, device="cpu"))
    assert result.parameters["histograms"]["sampling"]["spacing_mm"] == 1.0
    assert result.parameters["unit"] == "Gy"


def test_stopped_early_it_is_incomplete_and_cannot_be_painted(in_chunks_of):
    in_chunks_of(2)
    _, dose, labels = case(9)
    stop = threading.Event()
    live = drive(LiveDvh.steps(dose, structures_of(labels), device="cpu", stop=stop), lambda _: stop.set())
    assert not live.complete
    assert not live.result().complete
    with pytest.raises(InvalidInput, match="stopped before its end"):
        live.paint((0, 0, 0), np.ones((1, 1, 1), int))


# -- structures laid out once: one dose after another -----------------------------------------------------------------

COARSE = DvhSettings(sampling=BySpacing(spacing_mm=1.7))


def other_dose(dose, seed, kind=np.float64, *, turned=False, factor=1.0):
    values = (np.random.default_rng(seed).normal(size=dose.values.shape) * 30 * factor).astype(kind)
    return dataclasses.replace(dose, values=np.asfortranarray(values) if turned else values)


@pytest.mark.parametrize("device", ["cpu", "cuda:all"])
@pytest.mark.parametrize("bin_scale", ["linear", "logarithmic"])
def test_new_doses_give_what_a_new_calculation_gives(fake_gpu, device, bin_scale):
    fake_gpu(count=2)
    settings = dataclasses.replace(COARSE, bin_scale=bin_scale)
    dose, structures = random_case(1)
    with ResidentDvh(dose, structures, settings, device=device) as resident:
        check_same(resident.dvhs(), dvh(dose, structures, settings, device="cpu"))
        for seed, kind in enumerate((np.float32, np.float64, np.int16)):
            new = other_dose(dose, seed, kind, factor=10.0**seed)
            if bin_scale == "logarithmic":
                new = dataclasses.replace(new, values=np.abs(new.values))
            resident.set_dose(new)
            check_same(resident.dvhs(), dvh(new, structures, settings, device="cpu"))
        resident.set_dose(dose)
        check_same(resident.dvhs(), dvh(dose, structures, settings, device="cpu"))


def test_subnormal_doses_are_scaled_on_the_cpu(fake_gpu):
    """A GPU takes float32 numbers below 1e-38 for 0."""
    gpu = fake_gpu()
    dose, structures = random_case(1)
    tiny = dataclasses.replace(dose, values=(dose.values * 1e-40).astype(np.float32))
    found = dvh(tiny, structures, COARSE, device="cuda")
    assert "scale_dose" not in [name for _, name, _, _ in gpu.log]
    check_same(found, dvh(tiny, structures, COARSE, device="cpu"))
    assert found["ring"].largest > 1e-39


def test_layouts_in_memory_may_change():
    """Samples lie elsewhere in a voxel if a volume is seen from its other end, so the first layout is kept."""
    dose, structures = random_case(2)
    turned = other_dose(dose, 3, turned=True)
    straight = dataclasses.replace(turned, values=np.ascontiguousarray(turned.values))
    with ResidentDvh(dose, structures, COARSE, device="cpu") as resident:
        resident.set_dose(turned)
        check_same(resident.dvhs(), dvh(straight, structures, COARSE, device="cpu"))
    with ResidentDvh(turned, structures, COARSE, device="cpu") as resident:
        expected = resident.dvhs()
        resident.set_dose(straight)
        check_same(resident.dvhs(), expected)


def test_only_the_dose_is_uploaded_and_counted_anew(fake_gpu):
    gpu = fake_gpu()
    dose, structures = random_case(1)
    with ResidentDvh(dose, structures, COARSE, device="cuda") as resident:
        gpu.log.clear()
        resident.set_dose(other_dose(dose, 0, np.float32))
        resident.dvhs()
        names = [name for _, name, _, _ in gpu.log]
    assert names == ["scale_dose", "tally_rows", "tally_voxels", "tally_voxels", "tally_points"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "J/cm2"}, r"the new dose is in J/cm² and the one before in Gy"),
        ({"affine": np.eye(4)}, "another grid than the one that structures were laid out for"),
        ({"values": np.zeros((3, 4, 5))}, r"the new dose has shape \(3, 4, 5\)"),
        ({"frame_of_reference": "1.9"}, r"different frames of reference \(1\.2 and 1\.9\)"),
    ],
)
def test_other_grids_and_units_are_refused(changes, message):
    dose, structures = random_case(1)
    dose = dataclasses.replace(dose, frame_of_reference="1.2")
    other: Dose = dataclasses.replace(dose, **changes)
    with ResidentDvh(dose, structures, COARSE, device="cpu") as resident:
        before = resident.dvhs()
        with pytest.raises(InvalidInput, match=message):
            resident.set_dose(other)
        check_same(resident.dvhs(), before)


def test_closing_frees_the_gpu(fake_gpu):
    gpu = fake_gpu()
    with ResidentDvh(*random_case(1), COARSE, device="cuda") as resident:
        assert gpu.used_bytes[0] > 0
    assert gpu.used_bytes[0] == 0, resident
