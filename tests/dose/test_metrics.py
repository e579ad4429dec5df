"""Metrics as texts, constraints, indices of plans, biology."""

import dataclasses
import math

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import BySpacing, Dose, Dvh, DvhSettings, dvh, dvh_bands
from napari_gpubio.dose.metrics import (
    bed,
    compare,
    eqd2,
    evaluate_constraints,
    generalized_eud,
    lkb_ntcp,
    paddick_index,
    parse_constraint,
    parse_constraints,
    parse_metric,
)
from napari_gpubio.dose.structures import whole_grid
from tests.dose.samples import NO_VOLUME, PLANES, circle, linear_dose, ramp, stack, uniform_dose

HEART = ramp()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("D95%[Gy]", 12.0),
        ("D95%[cGy]", 1200.0),
        ("D50%[%]", 75.0),
        ("D0.5cc[Gy]", 49.0),
        ("D500mm3[Gy]", 49.0),
        ("DC1cc[Gy]", 12.0),
        ("V20Gy[%]", 75.0),
        ("V2000cGy[%]", 75.0),
        ("V20Gy[cc]", 15.0),
        ("V2e3cGy[cc]", 15.0),
        ("V0.00001Gy[cc]", 20.0),
        ("V50%[%]", 75.0),
        ("CV20Gy[cc]", 5.0),
        ("V20Gy-30Gy[cc]", 5.0),
        ("Mean[Gy]", 30.0),
        ("min[Gy]", 10.0),
        ("Max[%]", 125.0),
        ("Median[Gy]", 30.0),
        ("Volume[cc]", 20.0),
        (" V 20 Gy [ % ] ", 75.0),
        ("V20J/cm2[cc]", 15.0),
        ("D90%[J/cm2]", 14.0),
    ],
)
def test_metrics(text, value):
    metric = parse_metric(text)
    organ = ramp(unit="J/cm2" if "J/cm2" in text else "Gy")
    assert metric.of(organ, reference_dose=40.0) == pytest.approx(value)
    assert parse_metric(str(metric)) == metric


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "is no dose-volume metric; write for instance")
          for text in ("", "D95x", "95%", "95%[Gy]", "D95%[]", "X5Gy[%]", "D-5%[Gy]", "D9 5%[Gy]")),
        ("D95Gy[Gy]", "must be a volume"),
        ("D95%[cc]", "must be a dose"),
        ("V20cc[%]", "must be a dose"),
        ("V20Gy[Gy]", "must be a volume"),
        ("Volume[Gy]", "must be a volume"),
        ("V30Gy-20Gy[cc]", "ascending"),
        ("D2%-5%[Gy]", "must be of doses"),
    ],
)  # fmt: skip
def test_what_is_no_metric_is_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        parse_metric(text)


@pytest.mark.parametrize(
    ("text", "dvh", "message"),
    [
        ("D30cc[Gy]", HEART, None),
        ("DC30cc[Gy]", HEART, None),
        ("D95%[Gy]", NO_VOLUME, None),
        ("D50%[%]", HEART, "in % of the prescription"),
        ("V20Gy[cc]", ramp(unit="J/cm2"), "is in Gy and the dose is in J/cm2; use J/cm2"),
        ("Mean[Gy]", ramp(unit="J/cm2"), "is in Gy and the dose is in J/cm2; use J/cm2"),
    ],
)
def test_what_has_no_value_is_nan_or_an_error(text, dvh, message):
    if message is None:
        assert math.isnan(parse_metric(text).of(dvh))
        return
    with pytest.raises(InvalidInput, match=message):
        parse_metric(text).of(dvh)


def test_constraints_pass_fail_or_are_not_evaluated():
    constraints = parse_constraints(
        """
        # organs at risk
        heart: V20Gy[%] < 80      # letter case does not matter
        Heart: Mean[Gy] <= 26
        Heart: D0.5cc[Gy] ≤ 49.1
        Heart: D30cc[Gy] < 5
        Heart: D95%[%] >= 95
        Spinal Cord: Max[Gy] < 45
        Empty: Max[Gy] < 45
        """
    )
    results = evaluate_constraints(constraints, [HEART, NO_VOLUME])
    assert [one.status for one in results] == ["pass", "fail", "pass"] + 4 * ["not evaluated"]
    assert results[1].value == pytest.approx(30.0)
    reasons = [one.reason for one in results[3:]]
    assert "less than D30cc[Gy] needs" in reasons[0]
    assert "in % of the prescription" in reasons[1]
    assert reasons[2] == "no structures are named 'Spinal Cord'"
    assert reasons[3] == "'Empty' is empty"
    assert evaluate_constraints(constraints[4:5], [HEART], reference_dose=12.0)[0].status == "pass"
    assert evaluate_constraints(constraints[:1], [HEART, ramp()])[0].reason == "2 structures are named 'heart'"
    assert str(parse_constraint(str(constraints[2]))) == "Heart: D0.5cc[Gy] <= 49.1"


@pytest.mark.parametrize(
    "text", ["Heart V20Gy[%] < 5", "Heart: V20Gy[%] = 5", "Heart: V20Gy[%] < low", ": V20Gy[%] < 5"]
)
def test_what_is_no_constraint_is_refused(text):
    with pytest.raises(InvalidInput):
        parse_constraint(text)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Heart: Mean[Gy] < 10  # early", "Heart"),
        ('"PTV #1": Mean[Gy] < 10 # boost', "PTV #1"),
        ('"a<b": Mean[Gy] < 10', "a<b"),
        ("ring: inner: Mean[Gy] < 10", "ring: inner"),
        ("GTV (boost): Mean[Gy] < 10", "GTV (boost)"),
        ("Crohn's: Mean[Gy] < 10 # o'clock", "Crohn's"),
        ("Lung (patient's): Mean[Gy] < 10 # it's both", "Lung (patient's)"),
        ("GTV (old: Mean[Gy] < 10", "GTV (old"),
        ("PTV [boost: Mean[Gy] < 10", "PTV [boost"),
        ("'6\" #2': Mean[Gy] < 10", '6" #2'),
        ('"open: Mean[Gy] < 10', '"open'),
    ],
)
def test_names_with_signs_stand_in_quotes(line, name):
    """Of a structure, and of a target in a metric."""
    (constraint,) = parse_constraints(line)
    assert (constraint.structure, str(constraint.metric), constraint.limit) == (name, "Mean[Gy]", 10.0)
    assert parse_constraints(str(constraint)) == (constraint,)
    (constraint,) = parse_constraints("body: Paddick CI(target='PTV: #2 (boost)', prescription=50Gy) > 0.8 # tight")
    assert constraint.metric.target == "PTV: #2 (boost)"
    assert parse_constraints(str(constraint)) == (constraint,)


def test_generalized_eud():
    cold = (np.log(50 / 10) / 40) ** -1
    assert generalized_eud(HEART, -1.0) == pytest.approx(cold, rel=1e-4)
    assert generalized_eud(HEART, 500.0) == pytest.approx(50.0, rel=0.02)
    assert math.isnan(generalized_eud(NO_VOLUME, 2.0))
    with pytest.raises(InvalidInput, match="give a number other than 0"):
        generalized_eud(HEART, 0.0)


def test_a_uniform_dose_is_its_own_equivalent():
    organ = stack([circle(9.0, center=(19.0, 19.0))], np.arange(12.0, 25.0, 2.0))
    found = dvh(uniform_dose(30.0), organ, device="cpu")["organ"]
    assert generalized_eud(found, -10.0) == pytest.approx(30.0)
    assert lkb_ntcp(found, n=0.5, m=0.2, td50=30.0) == pytest.approx(0.5)
    assert lkb_ntcp(found, n=0.5, m=0.2, td50=25.0) == pytest.approx(0.841344746, rel=1e-6)  # one standard deviation
    assert eqd2(found, fractions=15, alpha_beta=3.0).mean == pytest.approx(30.0)
    assert eqd2(found, fractions=10, alpha_beta=10.0).mean == pytest.approx(32.5)
    assert bed(found, fractions=10, alpha_beta=3.0).dose_at_percent(95) == pytest.approx(60.0)


def test_fractionation_keeps_volumes():
    found = bed(HEART, fractions=25, alpha_beta=2.0)
    doses = np.array([12.0, 30.0, 49.0])
    np.testing.assert_allclose(found.volume_at(doses * (1 + doses / 50)), HEART.volume_at(doses), rtol=1e-3)
    assert found.mean == pytest.approx(30 + (50**3 - 10**3) / (3 * 40) / 50, rel=1e-4)
    with pytest.raises(InvalidInput, match="counted in Gy"):
        bed(ramp(unit="J/cm2"), fractions=5, alpha_beta=2.0)
    with pytest.raises(InvalidInput, match="fractions is 0"):
        eqd2(HEART, fractions=0, alpha_beta=2.0)


def test_conformity_of_a_slab_of_dose():
    """Dose rises along z; the prescription covers the upper half of a cylinder and the same height of the grid."""
    dose = linear_dose((0, 0, 1.0))
    target = dvh(dose, stack([circle(10.0)], PLANES, "PTV"), device="cpu")["PTV"]
    everything = dvh(dose, whole_grid(dose.values.shape, dose.affine), device="cpu")["everything"]
    covered, isodose = np.pi * 100 * 7, 82.5**2 * 41.25
    expected = covered**2 / (2 * covered * isodose)
    index = paddick_index(target, everything, 40.0)
    assert index == pytest.approx(expected, rel=2e-3)
    assert parse_metric("Paddick CI(prescription=40Gy)").of(target, everything=everything) == index
    assert math.isnan(paddick_index(target, everything, 900.0))


def test_two_plans_are_compared():
    metrics = [parse_metric("Mean[Gy]"), parse_metric("V20Gy[%]")]
    (found,) = compare([HEART, ramp("Cord")], [ramp(low=12.0, high=52.0)], metrics)
    assert found.name == "Heart"
    np.testing.assert_allclose(found.change, (2.0, 5.0))
    assert found.largest_percent == pytest.approx(5.0)
    assert 12.0 <= found.at_dose <= 50.0
    step = Dvh(name="Heart", unit="Gy", doses=np.array([20.0, 20.0]), volumes_cc=np.array([20.0, 0.0]), mean=20.0)
    (apart,) = compare([step], [HEART], metrics)  # just beyond 20 Gy the step has nothing left, and the ramp 75 %
    assert apart.largest_percent == pytest.approx(75.0)
    with pytest.raises(InvalidInput, match="is in Gy in one plan and in cGy"):
        compare([HEART], [ramp(unit="cGy")], metrics)


def test_the_band_of_an_error():
    dose = linear_dose((0, 0, 1.0))
    error = np.full(dose.values.shape, 0.5)
    (band,) = dvh_bands(
        dataclasses.replace(dose, standard_error=error),
        stack([circle(10.0)], PLANES),
        DvhSettings(sampling=BySpacing(spacing_mm=1.0)),
        errors=2.0,
        device="cpu",
    )
    for percent in (2, 50, 98):
        middle = band.middle.dose_at_percent(percent)
        assert band.low.dose_at_percent(percent) == pytest.approx(middle - 1.0, abs=0.02)
        assert band.high.dose_at_percent(percent) == pytest.approx(middle + 1.0, abs=0.02)
    for bad, message in ((-error, "negative"), (error[:3], "has shape"), (error * np.nan, "not finite")):
        with pytest.raises(InvalidInput, match=message):
            dvh_bands(dataclasses.replace(dose, standard_error=bad), stack([circle(10.0)], PLANES))


@pytest.mark.parametrize("unit", ["foo", "-3", "Gy/Gy", "J/cm2; DROP"])
def test_units_that_nobody_knows_are_refused(unit):
    with pytest.raises(InvalidInput, match="is not a known unit"):
        Dose(values=np.ones((2, 2, 2)), affine=np.eye(4), unit=unit)


def test_metrics_in_another_unit_of_the_same_kind_are_converted():
    light = ramp(unit="J/cm²")
    assert parse_metric("V100mJ/cm2[%]").of(ramp(low=0.0, high=0.2, unit="J/cm2")) == pytest.approx(50.0)
    assert parse_metric("Mean[mJ/mm2]").of(light) == pytest.approx(300.0)
    photons = ramp(low=0.0, high=4e-6, unit="1/mm²")
    metric = parse_metric("V2e-6 1/mm2[%]")
    assert metric.of(photons) == pytest.approx(50.0)
    assert parse_metric(str(metric)) == metric
    for text in ("D95%[foo]", "V3foo[%]"):
        with pytest.raises(InvalidInput, match=r"'foo' in .* is not a known unit of dose"):
            parse_metric(text)
    with pytest.raises(InvalidInput, match="is in Gy and the dose is in"):
        parse_metric("D95%[Gy]").of(light)
