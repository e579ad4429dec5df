"""Labels that change somewhere: open calculations find the box, and count by steps that can be stopped."""

import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import drive
from napari_gpubio.dose import Dose, DvhSettings, LabelStructures, LiveDvh, dvh
from tests.dose.samples import affine_of

SHAPE = (11, 9, 13)
SETTINGS = DvhSettings(spacing_mm=1.1)  # several samples a voxel
NAMES = {1: "one", 2: "two", 5: "five"}


def case(seed, order="C"):
    rng = np.random.default_rng(seed)
    dose = Dose(values=rng.random((8, 7, 9)) * 40, affine=affine_of(3.0), unit="Gy")
    labels = np.array(rng.integers(0, 3, SHAPE), np.uint8, order=order)
    return rng, dose, labels


def structures_of(labels):
    return LabelStructures(labels=labels, affine=affine_of(2.0, (1, 0, -1)), structures=NAMES)


def check_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.doses, b.doses)
        np.testing.assert_array_equal(a.volumes_cc, b.volumes_cc)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("seed", range(3))
def test_following_gives_what_a_new_calculation_gives(seed, order):
    rng, dose, labels = case(seed, order)
    with LiveDvh(dose, structures_of(labels), SETTINGS, device="cpu") as live:
        check_same(live.dvhs(), dvh(dose, structures_of(labels), SETTINGS, device="cpu"))
        for _ in range(4):
            where = tuple(rng.integers(0, n, 5) for n in SHAPE)
            before = labels.copy(order=order)
            labels[where] = rng.choice([0, 1, 2, 5], 5)
            found = live.follow(labels)
            check_box(found, before != labels)
            check_same(live.dvhs(), dvh(dose, structures_of(labels), SETTINGS, device="cpu"))
            np.testing.assert_array_equal(live.labels(), labels)


def check_box(found, differs):
    """The box holds all differences, and there is one at each of its faces."""
    if not differs.any():
        assert found is None
        return
    for axis, part in enumerate(found):
        there = np.flatnonzero(differs.any(axis=tuple(other for other in range(3) if other != axis)))
        assert (part.start, part.stop) == (there[0], there[-1] + 1)


def test_a_part_is_followed_alone():
    _, dose, labels = case(5)
    with LiveDvh(dose, structures_of(labels), SETTINGS, device="cpu") as live:
        painted = labels.copy()
        painted[1, 1, 1] = painted[9, 7, 11] = 5
        found = live.follow(painted[0:4, 0:3, 0:5], start=(0, 0, 0))
        assert found == (slice(1, 2), slice(1, 2), slice(1, 2))
        assert live.labels()[1, 1, 1] == 5
        assert live.labels()[9, 7, 11] != 5
        assert live.follow(painted[6:, 5:, 8:], start=(6, 5, 8)) == (slice(9, 10), slice(7, 8), slice(11, 12))
        assert live.follow(painted) is None


def test_a_gpu_follows_too(fake_gpu):
    fake_gpu()
    _, dose, labels = case(6, "F")
    painted = labels.copy(order="F")
    painted[2:6, 3:5, 4:9] = 5
    answers = []
    for device in ("cpu", "cuda"):
        with LiveDvh(dose, structures_of(labels), SETTINGS, device=device) as live:
            assert live.follow(painted) is not None
            assert live.follow(painted) is None
            answers.append(live.dvhs())
    check_same(*answers)


@pytest.mark.parametrize(
    ("labels", "start"), [(np.ones((3, 3), int), (0, 0, 0)), (np.ones((3, 3, 3), int), (10, 0, 0))]
)
def test_what_is_not_in_the_volume_is_refused(labels, start):
    _, dose, counted = case(7)
    with (
        LiveDvh(dose, structures_of(counted), device="cpu") as live,
        pytest.raises(InvalidInput, match="is not in"),
    ):
        live.follow(labels, start=start)


def test_steps_give_the_same_and_tell_how(in_chunks_of):
    in_chunks_of(2)
    _, dose, labels = case(8)
    told = []
    live = drive(LiveDvh.steps(dose, structures_of(labels), SETTINGS, device="cpu"), told.append)
    assert [step.done for step in told] == sorted(step.done for step in told)
    assert len(told) > 3
    assert live.complete
    result = live.result()
    check_same(result, dvh(dose, structures_of(labels), SETTINGS, device="cpu"))
    assert result.parameters["histograms"]["spacing_mm"] == 1.1
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
