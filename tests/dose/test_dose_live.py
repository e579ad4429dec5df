"""Painting: the histograms are those of a calculation from the start."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import Dose, DvhSettings, LabelStructures, LiveDvh, dvh
from tests.dose.samples import affine_of, circle, stack

SHAPE = (12, 10, 14)
SETTINGS = DvhSettings(spacing_mm=1.0)
NAMES = {1: "one", 2: "two", 7: "not there yet"}


def case(seed):
    rng = np.random.default_rng(seed)
    dose = Dose(values=rng.random(SHAPE) * 40, affine=affine_of(2.0), unit="Gy")
    labels = rng.integers(0, 3, SHAPE).astype(np.uint8)
    return rng, dose, labels


def structures_of(labels):
    organ = stack([circle(5.0, centre=(10.0, 10.0))], [8.0, 10.0], "organ")
    return [organ, LabelStructures(labels=labels, affine=affine_of(2.0, (1, 0, -1)), structures=NAMES)]


def check_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.doses, b.doses)
        np.testing.assert_array_equal(a.volumes_cc, b.volumes_cc)
        assert a.outside_cc == b.outside_cc
        assert a.mean == b.mean or (a.is_empty and b.is_empty)


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


def test_painting_leaves_the_users_array_alone():
    _, dose, labels = case(4)
    given = labels.copy()
    with LiveDvh(dose, structures_of(labels), SETTINGS, device="cpu") as live:
        live.paint((0, 0, 0), np.full((3, 3, 3), 7))
        assert live.dvhs()[3].volume_cc > 0
    np.testing.assert_array_equal(labels, given)


def test_erasing_everything_leaves_empty_histograms():
    _, dose, labels = case(5)
    with LiveDvh(dose, structures_of(labels), SETTINGS, device="cpu") as live:
        live.paint((0, 0, 0), np.zeros(SHAPE, int))
        assert all(found.is_empty for found in live.dvhs()[1:])
        assert not live.dvhs()[0].is_empty


def test_a_gpu_does_the_same(fake_gpu):
    fake_gpu(count=2)
    rng, dose, labels = case(6)
    brush = rng.choice([0, 1, 7], (4, 5, 6))
    answers = []
    for device in ("cpu", "cuda:all"):
        with LiveDvh(dose, structures_of(labels), SETTINGS, device=device) as live:
            live.paint((3, 2, 1), brush)
            answers.append(live.dvhs())
    check_same(*answers)


@pytest.mark.parametrize(
    ("start", "brush", "volume", "message"),
    [
        ((10, 0, 0), np.ones((5, 1, 1), int), 0, "is not in a label volume"),
        ((-1, 0, 0), np.ones((1, 1, 1), int), 0, "is not in a label volume"),
        ((0, 0), np.ones((1, 1, 1), int), 0, "is not in a label volume"),
        ((0, 0, 0), np.ones((1, 1), int), 0, "is not in a label volume"),
        ((0, 0, 0), np.full((1, 1, 1), 300), 0, "from 0 to 255"),
        ((0, 0, 0), np.full((1, 1, 1), 0.5), 0, "from 0 to 255"),
        ((0, 0, 0), np.ones((1, 1, 1), int), 1, "there is no label volume 1"),
    ],
)
def test_bad_strokes_are_refused(start, brush, volume, message):
    _, dose, labels = case(7)
    with (
        LiveDvh(dose, structures_of(labels), SETTINGS, device="cpu") as live,
        pytest.raises(InvalidInput, match=message),
    ):
        live.paint(start, brush, volume=volume)
