"""Metrics with named parameters: written, read, evaluated against closed forms, and refused with a sentence."""

import csv
import math
import time

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import BySpacing, Dose, Dvh, DvhSettings, dvh, whole_dose
from napari_gpubio.dose.io import write_metrics_csv
from napari_gpubio.dose.metrics import (
    compare,
    evaluate_constraints,
    evaluate_metric,
    gradient_index,
    niemierko_tcp,
    parse_constraint,
    parse_metric,
    parse_metrics,
    read_constraints,
    rtog_index,
)
from napari_gpubio.dose.metrics.models import MODELS
from napari_gpubio.dose.structures import whole_grid
from tests.dose.samples import NO_VOLUME, ramp
from tests.sentences import says

HEART, EVERYTHING = ramp("Heart", 10.0, 50.0, 20.0), ramp("everything", 0.0, 50.0, 100.0)
GEUD8 = ((50**9 - 10**9) / (9 * 40)) ** (1 / 8)


def eqd2(dose, ratio, fractions):
    """Withers: D (d + r) / (2 + r)."""
    return dose * (dose / fractions + ratio) / (2 + ratio)


def normal(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


@pytest.mark.parametrize(
    ("text", "written", "value"),
    [
        ("gEUD(a=8)", "gEUD(a=8)", GEUD8),
        ("GEUD ( 8 ) [ cGy ]", "gEUD(a=8)[cGy]", 100 * GEUD8),
        ("gEUD(a=1)[%]", "gEUD(a=1)[%]", 75.0),
        ("HI", "HI", 40 * 0.96 / 30),
        ("EQD2(alpha_beta=3, fractions=30)", "EQD2(Mean[Gy], alpha_beta=3, fractions=30)", None),
        ("EQD2(D50%, α/β=3Gy, fractions=30)", "EQD2(D50%[Gy], alpha_beta=3, fractions=30)", eqd2(30, 3, 30)),
        ("EQD2(D2cc[cGy], fractions=5, ab=10)", "EQD2(D2cc[cGy], alpha_beta=10, fractions=5)", 100 * eqd2(46, 10, 5)),
        ("EQD2(V24Gy[%], alpha_beta=3, fractions=30)", "EQD2(V24Gy[%], alpha_beta=3, fractions=30)", 50.0),
        ("BED(D50%, alpha_beta=3, fractions=30)[Gy]", "BED(D50%[Gy], alpha_beta=3, fractions=30)", 40.0),
        ("NTCP(n=1, m=0.2, TD50=25Gy)", "NTCP(n=1, m=0.2, TD50=25Gy)", normal(1.0)),
        ("ntcp(td50=2500cGy, m=.2, n=1)[%]", "NTCP(n=1, m=0.2, TD50=2500cGy)[%]", 100 * normal(1.0)),
        ("TCP(TCD50=20, gamma50=2, a=1)", "TCP(TCD50=20, gamma50=2, a=1)", 1 / (1 + (20 / 30) ** 8)),
        ("Paddick CI", "Paddick CI", 5.0**2 / (20 * 20)),
        ("PCI(target=heart, prescription=30)", "Paddick CI(target=heart, prescription=30)", 10.0**2 / (20 * 40)),
        ("RTOG CI(prescription=3000cGy)", "RTOG CI(prescription=3000cGy)", 40 / 20),
        ("GI", "GI", 60 / 20),
        ("GI(prescription=50%)", "GI(prescription=50%)", 80 / 60),
    ],
)
def test_values_and_spelling(text, written, value):
    """Of a dose that rises evenly from 10 to 50 Gy in the heart, from 0 in everything; 40 Gy are prescribed."""
    metric = parse_metric(text)
    assert str(metric) == written
    assert parse_metric(written) == metric
    if value is not None:
        assert metric.of(HEART, 40.0, everything=EVERYTHING) == pytest.approx(value, rel=1e-5)


def test_a_probability_of_fractions_is_that_of_the_changed_dose():
    uniform = Dvh(name="a", unit="Gy", doses=np.array([30.0, 30.0]), volumes_cc=np.array([1.0, 0.0]), mean=30.0)
    found = parse_metric("EQD2(NTCP(n=0.35, m=0.1, TD50=40Gy), alpha_beta=3, fractions=10)").of(uniform)
    assert found == pytest.approx(normal((eqd2(30, 3, 10) - 40) / 4.0))
    assert eqd2(30, 3, 10) == 36.0


def test_control_of_half_the_tumors():
    uniform = Dvh(name="a", unit="Gy", doses=np.array([50.0, 50.0]), volumes_cc=np.array([1.0, 0.0]), mean=50.0)
    assert niemierko_tcp(uniform, a=-10.0, tcd50=50.0, gamma50=3.0) == 0.5
    step = 1e-4  # gamma50 is the slope there: percent of control by percent of dose
    more = niemierko_tcp(uniform.scaled(1 + step), a=-10.0, tcd50=50.0, gamma50=3.0)
    assert (more - 0.5) / step == pytest.approx(3.0, rel=1e-3)
    assert niemierko_tcp(uniform.scaled(1e-3), a=-10.0, tcd50=50.0, gamma50=100.0) == 0.0
    assert math.isnan(niemierko_tcp(NO_VOLUME, a=-10.0, tcd50=50.0, gamma50=3.0))
    with pytest.raises(InvalidInput, match="tcd50 of the control probability is 0"):
        niemierko_tcp(uniform, a=1.0, tcd50=0, gamma50=1.0)


def test_indices_of_no_plan():
    assert math.isnan(gradient_index(EVERYTHING, 60.0))
    assert math.isnan(rtog_index(NO_VOLUME, EVERYTHING, 30.0))
    with pytest.raises(InvalidInput, match="the prescription is -1"):
        gradient_index(EVERYTHING, -1.0)


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_examples_of_all_metrics_are_read_and_say_something(model):
    for text in (model.example, model.full_example):
        metric = parse_metric(text)
        assert parse_metric(str(metric)) == metric
        heart = ramp("PTV", 10.0, 50.0, 20.0)
        answer = evaluate_metric(metric, heart, 40.0, everything=EVERYTHING)
        assert not answer.reason or "prescription" in answer.reason
        assert evaluate_metric(metric, NO_VOLUME, 40.0, everything=EVERYTHING).reason or model.name == "GI"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gEUD", r"gEUD needs a \(1: mean.*write for instance gEUD\(a=8\)"),
        ("gEUD(b=8)", r"gEUD has no parameter 'b'; write for instance gEUD\(a=8\)"),
        ("gEUD(a=x)", "in gEUD, a is 'x'; give a number other than 0"),
        ("gEUD(a=0)", "in gEUD, a is 0; give a number other than 0"),
        ("gEUD(a=8, a=9)", "in gEUD, a is given twice"),
        ("gEUD(a=8", r"'gEUD\(a=8' lacks a \)"),
        ("gEUD(a=8)[cc]", r"gEUD is a dose and not in 'cc'; write gEUD\(a=8\)\[Gy\]"),
        ("NTCP(n=-1, m=0.1, TD50=46)", "in NTCP, n is -1; give a positive number"),
        ("NTCP(n=inf, m=0.1, TD50=46)", "in NTCP, n is 'inf'; give a positive number"),
        ("NTCP(n=1e999, m=0.1, TD50=46)", "in NTCP, n is 1e999; give a positive number"),
        ("NTCP(n=0.3, m=0.1)", r"NTCP needs TD50 \(uniform dose"),
        ("NTCP(0.3, 0.1, 46)", "'0.3' in NTCP has no name"),
        ("NTCP(n=0.3, m=0.1, TD50=46)[Gy]", "NTCP is a number and not in 'Gy'"),
        ("EQD2(alpha_beta=3)", r"EQD2 needs fractions .*EQD2\(D2cc\[Gy\], alpha_beta=3, fractions=30\)"),
        ("EQD2(alpha_beta=3, fractions=2.5)", "in EQD2, fractions is 2.5; give an integer from 1 on"),
        ("EQD2(D2%[%], alpha_beta=3, fractions=5)", "in % of a prescription, which is none of EQD2"),
        ("EQD2(GI, alpha_beta=3, fractions=5)", "GI cannot be read off EQD2"),
        ("EQD2(Main, alpha_beta=3, fractions=5)", r"'Main\[Gy\]' is no dose-volume metric"),
        ("HI(a=3)", "HI has no parameter 'a'"),
        ("CI", "'CI' can mean several; write Paddick CI or RTOG CI"),
        ("Paddick CI(target=)", r"in Paddick CI, target is empty; .*Paddick CI\(target=PTV, prescription=60Gy\)"),
        ("gEDU(a=8)", r"there is no metric 'gEDU' with parameters; write one of gEUD\(a=8\)"),
    ],
)
def test_sentences_name_metric_and_parameter_and_how_to_write_it(text, words):
    with pytest.raises(InvalidInput, match=words):
        parse_metric(text)


@pytest.mark.parametrize(
    ("text", "heart", "words"),
    [
        ("Paddick CI", HEART, "needs the prescription; give it"),
        ("GI(prescription=40Gy)", HEART, "needs the histogram of all that is irradiated"),
        ("NTCP(n=1, m=1, TD50=3J/cm2)", HEART, "is in J/cm2 and the dose is in Gy; use Gy"),
        ("gEUD(a=8)[%]", HEART, "in % of the prescription; give it"),
        ("EQD2(alpha_beta=3, fractions=5)", ramp("Heart", 1, 2, 3, "J/cm2"), "in Gy and 'Heart' is in J/cm2"),
        ("gEUD(a=2)[Gy]", ramp("Heart", -1.0, 2.0), "negative doses"),
    ],
)
def test_what_is_missing_is_named(text, heart, words):
    metric = parse_metric(text)
    with pytest.raises(InvalidInput, match=words):
        metric.of(heart)
    answer = evaluate_metric(metric, heart)
    assert answer.is_refused
    assert str(answer).startswith("not evaluated: ")


def test_several_metrics_in_one_text():
    text = (
        " gEUD(a=8)[Gy], EQD2(D2cc, alpha_beta=3, fractions=30);HI ,, PCI(target='PTV (60), left', prescription=60Gy),"
    )
    found = parse_metrics(text)
    assert [metric.model.name for metric in found] == ["gEUD", "EQD2", "HI", "Paddick CI"]
    assert found[3].target == "PTV (60), left"
    assert parse_metrics(", ".join(map(str, found))) == found
    assert parse_metrics(" ") == ()
    with pytest.raises(InvalidInput, match=r"'gEUD\(a=8, HI' lacks a \)"):
        parse_metrics("Mean[Gy], gEUD(a=8, HI")


def test_numbers_keep_their_digits_and_units_begin_with_any_letter():
    for text in ("V12.3456789Gy[%]", "gEUD(a=8.123456789)", "D0.0123456789cc[Gy]", "V1234567Gy[cc]", "V20µW/mm2[%]"):
        assert str(parse_metric(text)) == text
    assert parse_metric("D95%[°C]").unit == "°C"
    assert str(parse_constraint("Heart: HI < 1.23456789")) == "Heart: HI < 1.23456789"


def test_an_index_is_of_its_target_only():
    metric = parse_metric("Paddick CI(target=PTV)")
    answer = evaluate_metric(metric, HEART, 40.0, everything=EVERYTHING)
    assert math.isnan(answer.value)
    assert says(answer.reason, "target=PTV", "'Heart'")
    assert not answer.is_refused


def test_constraints_on_them():
    lines = (
        "heart: gEUD(a=8) < 40", "Heart: EQD2(Max, alpha_beta=3, fractions=30) <= 40", "Heart: Paddick CI > 0.5",
        "Heart: NTCP(n=1, m=0.2, TD50=25Gy)[%] ≥ 84", "Empty: GI < 3", "Heart: gEUD(a=8)[J/cm2] < 3",
    )  # fmt: skip
    constraints = [parse_constraint(line) for line in lines]
    results = evaluate_constraints(constraints, [HEART, NO_VOLUME], reference_dose=40.0, everything=EVERYTHING)
    assert [one.status for one in results] == ["pass", "fail", "fail", "pass", "not evaluated", "not evaluated"]
    assert results[1].value == pytest.approx(eqd2(50, 3, 30))
    assert [parse_constraint(str(one)) for one in constraints] == constraints
    without = evaluate_constraints(constraints[2:3], [HEART], reference_dose=40.0)
    assert "needs the histogram of all that is irradiated" in without[0].reason


def test_a_table_has_the_reason_where_a_cell_has_no_value(tmp_path):
    metrics = parse_metrics("gEUD(a=8), Paddick CI(target=Heart), V95%[%], D30cc[Gy]")
    write_metrics_csv(tmp_path / "m.csv", [HEART, NO_VOLUME], metrics, everything=EVERYTHING)
    with (tmp_path / "m.csv").open(encoding="utf-8", newline="") as file:
        head, heart, empty = csv.reader(file)
    assert head == ["structure", "gEUD(a=8)[Gy]", "Paddick CI(target=Heart)", "V95%[%]", "D30cc[Gy]"]
    assert float(heart[1]) == metrics[0].of(HEART)
    assert heart[2].startswith("not evaluated: Paddick CI(target=Heart) needs the prescription")
    assert heart[3].startswith("not evaluated: V95%[%] is in % of the prescription")
    assert says(heart[4], "not evaluated", "'Heart'", "20 cc", "D30cc[Gy]")
    assert empty[1] == "not evaluated: 'Empty' is empty"


# -- units, sparse curves, and the whole dose --------------------------------------------------------------------------


def test_the_unit_behind_a_model_is_that_of_the_answer():
    organ = ramp("lung", 20.0, 40.0, 100.0)
    plain = parse_metric("EQD2(gEUD(a=8)[Gy], alpha_beta=3, fractions=30)").of(organ)
    assert parse_metric("EQD2(gEUD(a=8), alpha_beta=3, fractions=30)[cGy]").of(organ) == pytest.approx(100 * plain)
    for text in ("EQD2(gEUD(a=8), alpha_beta=3, fractions=30)[cGy]", "EQD2(alpha_beta=3, fractions=30)[cGy]"):
        assert parse_metric(text).unit == "cGy"
    text = "EQD2(NTCP(n=0.87, m=0.18, TD50=24.5Gy), alpha_beta=3, fractions=30)"
    share = parse_metric(text).of(organ)
    assert 0.1 < share < 1
    assert parse_metric(f"{text}[%]").of(organ) == pytest.approx(100 * share)
    with pytest.raises(InvalidInput, match=r"EQD2 has two units, 'Gy' and 'cGy'"):
        parse_metric("EQD2(D2cc[Gy], alpha_beta=3, fractions=30)[cGy]")


def test_fractionated_doses_in_cgy_are_converted():
    gray, centi = ramp("cord", 10.0, 50.0, 20.0), ramp("cord", 1000.0, 5000.0, 20.0, "cGy")
    for text in ("EQD2(D2%[Gy], alpha_beta=2, fractions=25)", "BED(Mean[cGy], alpha_beta=2, fractions=25)"):
        assert parse_metric(text).of(centi) == pytest.approx(parse_metric(text).of(gray))


def test_a_curve_is_straight_between_its_points_however_few_they_are():
    """Of doses spread evenly from 0 to 20 Gy: 20 / 9^(1/8), and by integral the mean of (D + D^2 / 90) / (5 / 3)."""
    sparse = Dvh(name="Heart", unit="Gy", doses=np.array([0.0, 20.0]), volumes_cc=np.array([5.0, 0.0]), mean=10.0)
    assert parse_metric("gEUD(a=8)[Gy]").of(sparse) == pytest.approx(20 / 9 ** (1 / 8), rel=1e-5)
    assert parse_metric("EQD2(alpha_beta=3, fractions=30)").of(sparse) == pytest.approx(
        (10 + 400 / 3 / 90) / (5 / 3), rel=1e-6
    )


@pytest.mark.parametrize("shift", [(0.0, 0.0, 0.0), (0.5, 0.5, 0.5)])
def test_small_isodoses_are_resolved(shift):
    """One sample a voxel, enough for litres, would be wrong by a third and more for an isodose of some voxels."""
    axes = [2.0 * (np.arange(-12, 13) + part) for part in shift]
    x, y, z = np.meshgrid(*axes, indexing="ij")
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    affine[:3, 3] = [axis[0] for axis in axes]
    dose = Dose(values=30 * np.exp(-(x**2 + y**2 + z**2) / (2 * 3.0**2)), affine=affine, unit="Gy")
    level = 30 * np.exp(-0.5)  # at 3 mm
    grid = whole_grid(dose.values.shape, affine)
    coarse, finest = (
        dvh(dose, grid, DvhSettings(sampling=BySpacing(spacing_mm=mm)), device="cpu").dvhs[0] for mm in (2.0, 0.125)
    )
    found, true = float(whole_dose(dose, device="cpu").volume_at(level)), float(finest.volume_at(level))
    assert found == pytest.approx(true, rel=0.06)
    assert abs(float(coarse.volume_at(level)) - true) > 0.15 * true


def test_plans_are_compared_by_indices_too():
    target, everything = ramp("PTV", 50.0, 70.0, 10.0), ramp("everything", 0.0, 70.0, 1000.0)
    wider = ramp("everything", 0.0, 80.0, 1000.0)
    index = parse_metric("Paddick CI(prescription=60)")
    (found,) = compare([target], [target], [index], everything=(everything, wider))
    assert found.first == (pytest.approx(index.of(target, everything=everything)),)
    assert found.second == (pytest.approx(index.of(target, everything=wider)),)
    assert found.first != found.second


@pytest.mark.parametrize(
    ("text", "said", "value"),
    [
        ("D95", "D95%[Gy]", 12.0),
        ("d95", "D95%[Gy]", 12.0),
        ("D95%", "D95%[Gy]", 12.0),
        ("D95[cGy]", "D95%[cGy]", 1200.0),
        ("D0.5cc", "D0.5cc[Gy]", 49.0),
        ("DC1cc", "DC1cc[Gy]", 12.0),
        ("V20Gy", "V20Gy[%]", 75.0),
        ("CV20Gy", "CV20Gy[%]", 25.0),
        ("V50%", "V50%[%]", 75.0),
        ("Dmax", "Max[Gy]", 50.0),
        ("max", "Max[Gy]", 50.0),
        ("Dmean[cGy]", "Mean[cGy]", 3000.0),
        ("minimum", "Min[Gy]", 10.0),
        ("D median", "Median[Gy]", 30.0),
        ("volume", "Volume[cc]", 20.0),
    ],
)
def test_metrics_in_short_say_what_they_are(text, said, value):
    metric = parse_metric(text)
    assert str(metric.in_unit("Gy")) == said
    assert parse_metric(str(metric)) == metric
    assert metric.of(HEART, 40.0) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("V20", r"'V20' lacks the unit of its dose; write V20Gy\[%\], or V20%\[%\] for % of the prescription"),
        ("V20foo", "'foo' in 'V20foo' is not a known unit of dose"),
        ("D95[cc]", "'cc' in 'D95\\[cc\\]' must be a dose"),
        ("max[cc]", "'cc' in 'max\\[cc\\]' must be a dose"),
        ("volume[Gy]", "must be a volume"),
        ("Dfoo", "is no dose-volume metric; write for instance"),
    ],
)
def test_what_is_too_short_shows_how_it_is_written(text, words):
    with pytest.raises(InvalidInput, match=words):
        parse_metric(text)


def test_a_constraint_in_short_says_its_unit():
    (result,) = evaluate_constraints([parse_constraint("heart: D95 > 11")], [HEART])
    assert (str(result.constraint), result.status, result.value) == (
        "heart: D95%[Gy] > 11",
        "pass",
        pytest.approx(12.0),
    )


@pytest.mark.parametrize("text", ["a{}!", "D95{}!", "V20{}[", "Mean{}[", "a({}!", "D95%{}-{}"])
def test_a_metric_with_many_blanks_is_refused_as_fast_as_one_with_few(text: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(InvalidInput):
        parse_metric(text.replace("{}", " " * 450))
    assert time.perf_counter() - begun < 1


@pytest.mark.parametrize("text", [" " * 900 + ":", ":" * 900, "a" + " " * 450 + ":" + " " * 450, "(" * 900, "('" * 450])
def test_a_constraint_of_many_signs_is_refused_as_fast_as_one_of_few(text: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(InvalidInput):
        parse_constraint(text)
    assert time.perf_counter() - begun < 2


def test_a_text_that_is_too_long_is_not_repeated_whole() -> None:
    for parse in (parse_metric, parse_constraint):
        with pytest.raises(InvalidInput, match="200000 characters") as refused:
            parse("D" * 200_000)
        assert len(str(refused.value)) < 300


def test_constraints_of_a_file_name_it(tmp_path):
    (tmp_path / "goals.txt").write_text("PTV: D95%[Gy] >= 57  # target\n")
    assert len(read_constraints(tmp_path / "goals.txt")) == 1
    (tmp_path / "goals.txt").write_text("PTV is fine\n")
    with pytest.raises(InvalidInput, match=r"^goals\.txt: 'PTV is fine' is no constraint"):
        read_constraints(tmp_path / "goals.txt")
