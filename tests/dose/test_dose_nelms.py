"""Thirty cases with a closed form (Nelms et al. 2015, tests 2 and 3); commercial systems were held against them."""

import json

import numpy as np
import pytest

from napari_gpubio.dose import dvh
from napari_gpubio.dose.closed_forms import (
    CASES,
    nelms_curve_errors_percent,
    nelms_dose,
    nelms_errors_percent,
    nelms_structure,
    nelms_truth,
)

# More than 3 % off, of 195 parameters: Pinnacle 53, PlanIQ 18 (Nelms et al., tables I and II, without least and largest
# dose). What is left here is the slab convention on round solids.
MOST_OFF = 12


@pytest.fixture(scope="module")
def found():
    def run(solid, gradient, spacing):
        return dvh(nelms_dose(gradient, spacing), nelms_structure(solid, spacing), device="cpu")[solid]

    return {case: run(*case) for case in CASES}


def test_at_most_12_of_195_parameters_are_3_percent_off(found):
    errors = [error for case in CASES for error in nelms_errors_percent(case, found[case]).values()]
    assert len(errors) == 195
    assert (np.abs(errors) > 3).sum() <= MOST_OFF


@pytest.mark.parametrize(("spacing", "low", "high"), [(1.0, -1.0, 1.0), (2.0, -1.0, 1.0), (3.0, -2.2, 1.0)])
def test_curves_are_close(found, spacing, low, high):
    """All solids but the lying cylinder, of which the contours themselves hold less; see below."""
    cases = [case for case in CASES if case[2] == spacing and (case[0] != "RtCylinder" or spacing == 1.0)]
    errors = [nelms_curve_errors_percent(case, found[case]) for case in cases]
    assert low <= np.min(errors)
    assert np.max(errors) <= high


@pytest.mark.parametrize("gradient", ["SI", "AP"])
@pytest.mark.parametrize(("spacing", "low", "high"), [(1.0, -1.0, 1.0), (2.0, -1.0, 1.0), (3.0, -2.2, 1.0)])
def test_the_mean_of_all_five_solids_is_close(found, gradient, spacing, low, high):
    """As the study tells its third test; Pinnacle -11.2 to 7.9 % at 3 mm, PlanIQ -1.5 to 0.8 %."""
    cases = [case for case in CASES if case[1:] == (gradient, spacing)]
    mean = np.mean([nelms_curve_errors_percent(case, found[case]) for case in cases], axis=0)
    assert len(cases) == 5
    assert low <= mean.min()
    assert mean.max() <= high


def lying_slabs_cc(gradient, spacing, doses):
    """Volume above doses of the lying cylinder's contours, each a rectangle that holds for half a slice either way."""
    positions = -12 + spacing * np.arange(round(24 / spacing) + 1)
    areas = 24.0 * 2 * np.sqrt(np.maximum(144 - positions**2, 0.0))
    t = np.asarray(doses)[:, None] - 16.0
    if gradient == "AP":
        return (areas * spacing * np.clip(12 - t, 0, 24) / 24).sum(axis=1) / 1000
    low, high = positions - spacing / 2, positions + spacing / 2
    return (areas * np.clip(high - np.maximum(t, low), 0, spacing)).sum(axis=1) / 1000


@pytest.mark.parametrize("gradient", ["SI", "AP"])
@pytest.mark.parametrize(("spacing", "lacking"), [(1.0, 0.90), (2.0, 2.53), (3.0, 4.64)])
def test_the_lying_cylinder_is_what_its_contours_hold(found, gradient, spacing, lacking):
    """Rectangles under a half circle, first and last of no width: the trapezium rule, which straight lines share.

    So the volume lacks in every method that takes contours for what they are, and the histogram has no error besides.
    """
    case = found["RtCylinder", gradient, spacing]
    doses = 0.1 * np.arange(301)
    drawn = lying_slabs_cc(gradient, spacing, doses)
    assert np.abs(case.volume_at(doses) - drawn).max() < 1e-3 * drawn[0]
    solid = np.pi * 144 * 24 / 1000
    assert 100 * (1 - drawn[0] / solid) == pytest.approx(lacking, abs=0.01)


@pytest.mark.parametrize("gradient", ["SI", "AP"])
@pytest.mark.parametrize("spacing", [1.0, 2.0, 3.0])
def test_a_solid_that_slabs_hold_exactly_has_no_error(found, gradient, spacing):
    case = ("Cylinder", gradient, spacing)
    assert max(map(abs, nelms_errors_percent(case, found[case]).values())) < 0.25
    assert np.abs(nelms_curve_errors_percent(case, found[case])).max() < 0.05


def test_least_and_largest_dose_are_those_of_the_caps(found):
    case = found["Cylinder", "SI", 3.0]
    assert case.least == pytest.approx(16 - 13.5, abs=0.02)
    assert case.largest == pytest.approx(16 + 13.5, abs=0.02)


def test_published_values_of_the_truth():
    """Pinnacle's least and largest dose of the cylinder were told as +60.0 and -5.1 %, its D99 as +44.4 %."""
    truth = nelms_truth(("Cylinder", "SI", 3.0))
    assert 100 * (4.0 / truth["D99"] - 1) == pytest.approx(44.4, abs=0.1)
    assert truth["volume_cc"] == pytest.approx(12.2145, abs=1e-4)


def test_another_table_of_the_truth_is_met(shared_data):
    table = json.loads((shared_data / "dose" / "nelms_truth.json").read_text(encoding="utf-8"))
    for solid, gradient, spacing in CASES:
        known = table[f"{solid}|{gradient}|{spacing}"]
        for name, value in nelms_truth((solid, gradient, spacing)).items():
            assert value == pytest.approx(known[name], abs=1e-4), (solid, gradient, spacing, name)
