"""Sums and differences of doses: on one grid, on several, in several units; and what does not go together."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import Dose, difference_of_doses, dvh, sum_of_doses
from napari_gpubio.dose.structures import whole_grid
from tests.dose.samples import affine_of

RNG = np.random.default_rng(5)
FINE, COARSE = affine_of((1.0, 1.0, 1.0), (0, 0, 0)), affine_of((2.5, 2.0, 3.0), (-2.5, -2.0, -3.0))


def dose(values, affine=FINE, unit="Gy", **more):
    return Dose(values=values, affine=affine, unit=unit, **more)


def linear(shape, affine, g=(0.3, -0.2, 0.5), base=20.0):
    places = np.moveaxis(np.indices(shape), 0, -1) @ affine[:3, :3].T + affine[:3, 3]
    return base + places @ np.array(g)


def test_doses_on_one_grid_add_up():
    a, b = RNG.random((5, 6, 7)), RNG.random((5, 6, 7)).astype(np.float32)
    found = sum_of_doses([dose(a, name="A"), dose(b, name="B")], [1.0, 2.0])
    np.testing.assert_array_equal(found.values, a + 2.0 * b.astype(np.float64))
    assert (found.name, found.unit, found.notes) == ("A + B", "Gy", ())
    less = difference_of_doses(dose(a, name="A"), dose(b, name="B"))
    np.testing.assert_array_equal(less.values, a - b.astype(np.float64))
    assert less.name == "A - B"
    curve = dvh(less, whole_grid((5, 6, 7), FINE), device="cpu").dvhs[0]
    assert curve.least < 0 < curve.largest
    assert curve.mean == pytest.approx(float((a - b).mean()), abs=1e-3)


def test_a_dose_on_another_grid_is_interpolated_with_a_note():
    """Linear doses are interpolated exactly wherever the other grid has centers around a voxel."""
    a, b = linear((8, 9, 10), FINE), linear((6, 7, 8), COARSE, (0.1, 0.4, -0.3))
    found = sum_of_doses([dose(a, name="A"), dose(b, COARSE, name="B")])
    np.testing.assert_allclose(found.values, a + linear((8, 9, 10), FINE, (0.1, 0.4, -0.3)), rtol=1e-12)
    assert "'B' lies on another grid and was interpolated linearly to that of 'A'" in found.notes
    assert any("'B' has a dose in 3.84 cc outside that grid" in note for note in found.notes)


def test_outside_of_its_grid_a_dose_is_0():
    small = dose(np.full((4, 4, 4), 3.0), name="small")
    found = sum_of_doses([dose(np.ones((8, 4, 4)), name="large"), small])
    np.testing.assert_array_equal(found.values[:, 0, 0], [4, 4, 4, 4, 1, 1, 1, 1])
    assert any(
        "0.064 cc of the grid of 'large' lie outside that of 'small', which is 0 there" in n for n in found.notes
    )


def test_units_are_converted_with_a_note():
    found = difference_of_doses(dose(np.full((2, 2, 2), 3.0)), dose(np.full((2, 2, 2), 100.0), unit="cGy", name="B"))
    np.testing.assert_allclose(found.values, 2.0)
    assert found.notes == ("'B' was converted from cGy to Gy",)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda a: sum_of_doses([a]), "a sum needs at least two doses, and there is one"),
        (lambda a: sum_of_doses([a, a], [1.0]), "there are 1 weights for 2 doses"),
        (lambda a: sum_of_doses([a, a], [1.0, float("nan")]), "the weight of 'A' is nan"),
        (lambda a: sum_of_doses([a, a], [1.0, -1.0]), "the weight of 'A' is -1.0; give a positive number"),
        (
            lambda a: sum_of_doses([a, dose(a.values, unit="J/cm2", name="B")]),
            "'A' is a dose in Gy and 'B' is a dose in J",
        ),
        (
            lambda a: difference_of_doses(
                dose(a.values, unit="J/cm2", quantity="fluence"),
                dose(a.values, unit="J/cm2", quantity="radiant exposure"),
            ),
            "is fluence in J/cm² and a dose is radiant exposure in J/cm², which cannot be added or subtracted",
        ),
        (
            lambda a: difference_of_doses(
                dose(a.values, frame_of_reference="1.2"), dose(a.values, frame_of_reference="1.3")
            ),
            "different frames of reference",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make(dose(np.ones((2, 2, 2)), name="A"))


def test_different_frames_may_be_taken_for_the_same():
    a, b = (dose(np.ones((2, 2, 2)), frame_of_reference=frame) for frame in ("1.2", "1.3"))
    assert sum_of_doses([a, b], any_frame=True).largest == 2.0
