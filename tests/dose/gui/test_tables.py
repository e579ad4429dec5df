"""Metrics, constraints, scale, prescription and axes: read off the same histograms, which are not counted anew."""

import csv
import json

import numpy as np
import pytest

from napari_gpubio.dose import dvh, parse_metric, whole_grid
from napari_gpubio.dose.gui.curves import PENDING
from napari_gpubio.dose.gui.tables import first_number
from napari_gpubio.dose.metrics.models import MODELS
from tests.dock_widgets import run_script, save_scripts_as, script_of
from tests.dose.gui.panel_samples import (
    SETTINGS,
    a_dose,
    add_case,
    add_dose,
    add_organs,
    cells,
    curve,
    dose_values,
    label_values,
    run,
    settle,
)
from tests.dose.gui.test_export import saved


@pytest.fixture
def no_counting(filled_panel, monkeypatch):
    """Fails a test that counts again."""

    def refuse(*_):
        raise AssertionError("it was counted again")

    monkeypatch.setattr(filled_panel, "make_steps", refuse)
    return filled_panel


def test_the_table_tells_what_the_metrics_say(filled_panel):
    filled_panel.table.set_columns("Volume[cc], D95%[Gy]; V20Gy[%], D0.03cc[Gy]")
    assert filled_panel.table.titles == ["Structure", "Volume[cc]", "D95%[Gy]", "V20Gy[%]", "D0.03cc[Gy]"]
    for row, name in enumerate(("lung", "heart")):
        told = cells(filled_panel, row)
        wanted = [parse_metric(text).of(curve(filled_panel, name)) for text in filled_panel.table.titles[1:]]
        assert told == [name, *(f"{value:.4g}" for value in wanted)]


@pytest.mark.parametrize(
    ("text", "words"),
    [("D95", "'D95' is no dose-volume metric"), ("Mean[Gy], V20Gy[Gy]", "must be a volume"), ("D95%[", "write for")],
)
def test_a_bad_metric_is_a_sentence_and_loses_nothing(filled_panel, text, words):
    before = cells(filled_panel, 0)
    filled_panel.table.columns.setText(text)
    filled_panel.table.columns.textEdited.emit(text)
    assert words in filled_panel.table.problem.text()
    assert not filled_panel.table.problem.isHidden()
    assert cells(filled_panel, 0) == before
    filled_panel.table.set_columns("Mean[Gy]")
    assert filled_panel.table.problem.isHidden()


def test_a_metric_in_another_unit_is_a_sentence(filled_panel):
    filled_panel.table.set_columns("Mean[Gy], Mean[J/cm2]")
    assert "asks for J/cm2 and the dose is in Gy; use Gy" in filled_panel.table.problem.text()
    assert cells(filled_panel, 0)[2] == "–"
    assert cells(filled_panel, 0)[1] != "–"


def test_the_columns_follow_the_unit_until_they_are_typed(viewer, panel, qtbot):
    add_case(viewer)
    assert "D95%[Gy]" in panel.table.columns.text()
    panel.inputs_box.unit.setText("cGy")
    panel.inputs_box.unit.editingFinished.emit()
    run(qtbot, panel)
    assert "D95%[cGy]" in panel.table.columns.text()
    panel.table.set_columns("Mean[cGy]")
    panel.inputs_box.unit.setText("Gy")
    panel.inputs_box.unit.editingFinished.emit()
    settle(qtbot, panel)
    assert panel.table.columns.text() == "Mean[cGy]"
    assert panel.controller.live.doses[0].unit == "Gy"


def test_a_double_click_selects_a_column_to_be_typed_over(filled_panel):
    filled_panel.table.set_columns("Mean[Gy], Max[Gy],D95%[Gy]")
    filled_panel.table.table.horizontalHeader().sectionDoubleClicked.emit(2)
    assert filled_panel.table.columns.selectedText().strip() == "Max[Gy]"


def test_the_prescription_is_what_percents_are_of(no_counting, qtbot):
    panel = no_counting
    panel.table.set_columns("V95%[%], D50%[%]")
    assert cells(panel, 0)[1:] == ["–", "–"]
    assert "is in % of the prescription; give it" in panel.table.problem.text()
    panel.scale_box.prescription.box.setValue(25.0)
    settle(qtbot, panel)
    lung = curve(panel, "lung")
    assert cells(panel, 0)[1:] == [f"{lung.percent_at(23.75):.4g}", f"{4 * lung.dose_at_percent(50):.4g}"]
    assert panel.plot.prescription.isVisible()
    assert panel.plot.prescription.value() == 25.0


def test_scaling_counts_nothing(no_counting, qtbot):
    panel = no_counting
    before = curve(panel, "lung")
    panel.scale_box.scale.box.setValue(2.5)
    settle(qtbot, panel)
    after = curve(panel, "lung")
    np.testing.assert_allclose(after.doses, 2.5 * before.doses)
    np.testing.assert_array_equal(after.volumes_cc, before.volumes_cc)
    assert after.mean == pytest.approx(2.5 * before.mean)
    panel.scale_box.scale.slider.setValue(0)  # the slider's lower end
    settle(qtbot, panel)
    assert curve(panel, "lung").mean == pytest.approx(0.1 * before.mean)


def test_light_is_scaled_by_power_and_time(viewer, panel, qtbot):
    add_dose(viewer, metadata={"energy_j": 2.0})
    add_case(viewer)
    panel.inputs_box.dose_box.choose(viewer.layers["dose"])
    panel.scale_box.mode.setCurrentText("power × time")
    panel.scale_box.power.box.setValue(500.0)
    panel.scale_box.time.box.setValue(12.0)
    panel.scale_box.energy.setValue(2.0)
    run(qtbot, panel)
    assert panel.controller.factor == pytest.approx(3.0)  # 0.5 W x 12 s / 2 J
    assert curve(panel, "lung").mean == pytest.approx(3 * float(panel.controller.results[0]["lung"].mean))


def test_a_dose_that_tells_its_energy_and_prescription(viewer, panel):
    add_dose(viewer, metadata={"energy_j": 2.0, "prescription": 30.0})
    assert panel.scale_box.is_light
    assert panel.scale_box.energy.value() == 2.0
    assert panel.scale_box.reference == 30.0
    assert panel.axes_box.log.isChecked()


# -- constraints ------------------------------------------------------------------------------------------------------


def verdicts(panel):
    table = panel.constraints.table
    return [[table.item(row, column).text() for column in range(3)] for row in range(table.rowCount())]


def test_constraints_pass_fail_or_are_not_evaluated(filled_panel, qtbot):
    mean = curve(filled_panel, "lung").mean
    filled_panel.constraints.text.setPlainText(
        f"Lung: Mean[Gy] < {mean + 1:.2f}  # a note\n\nlung: Mean[Gy] < {mean - 1:.2f}\ncord: Max[Gy] < 45\n"
        "heart: V95%[%] >= 90"
    )
    told = verdicts(filled_panel)
    assert [row[2] for row in told] == ["✓ pass", "✗ fail", "? not evaluated", "? not evaluated"]
    assert told[0][1] == f"{mean:.4g} Gy"
    assert "no structures are named 'cord'" in filled_panel.constraints.table.item(2, 2).toolTip()
    filled_panel.scale_box.prescription.box.setValue(10.0)
    settle(qtbot, filled_panel)
    assert verdicts(filled_panel)[3][2] == "✓ pass"


def test_constraints_that_wait_for_the_whole_dose_say_so(filled_panel, qtbot, monkeypatch):
    monkeypatch.setattr(filled_panel.controller.whole_dose, "request", lambda _: ())
    filled_panel.constraints.text.setPlainText(
        "lung: Paddick CI(prescription=15Gy) > 0.5\ncord: GI(prescription=15Gy) < 3\nlung: V95%[%] > 3"
    )
    table = filled_panel.constraints.table
    for why in (PENDING, "the device has too little memory"):
        filled_panel.controller.whole_dose.missing_reason = why
        filled_panel.controller.redraw_later()
        settle(qtbot, filled_panel)
        assert [row[1:] for row in verdicts(filled_panel)] == [["–", "? not evaluated"]] * 3
        assert table.item(0, 2).toolTip() == why
        assert "no structures are named 'cord'" in table.item(1, 2).toolTip()
        assert "in % of the prescription" in table.item(2, 2).toolTip()


def test_constraints_follow_the_scale_and_the_second_plan(viewer, panel, qtbot):
    add_case(viewer)
    second = add_dose(viewer, name="B")
    panel.inputs_box.dose_box.choose(viewer.layers["dose"])
    panel.inputs_box.second_box.choose(second)
    run(qtbot, panel)
    panel.constraints.text.setPlainText(f"lung: Mean[Gy] < {curve(panel, 'lung').mean + 1:.2f}")
    assert [row[2] for row in verdicts(panel)] == ["✓ pass"] * 2
    assert "(2nd plan)" in verdicts(panel)[1][0]
    panel.scale_box.scale.box.setValue(2.0)
    settle(qtbot, panel)
    assert [row[2] for row in verdicts(panel)] == ["✗ fail"] * 2


@pytest.mark.parametrize("line", ["lung Mean[Gy] < 3", "lung: Mean[Gy] < x", "lung: Main[Gy] < 3"])
def test_a_bad_constraint_is_a_sentence(filled_panel, line):
    filled_panel.constraints.text.setPlainText(f"heart: Mean[Gy] < 99\n{line}")
    assert filled_panel.constraints.problem.text().startswith("Line 2: ")
    assert len(verdicts(filled_panel)) == 1


def test_constraints_are_saved_and_loaded(filled_panel, tmp_path):
    text = "lung: Mean[Gy] < 20\nheart: D2%[Gy] <= 50"
    filled_panel.constraints.text.setPlainText(text)
    filled_panel.constraints.save(tmp_path / "c.txt")
    filled_panel.constraints.text.clear()
    filled_panel.constraints.load(tmp_path / "c.txt")
    assert filled_panel.constraints.text.toPlainText().strip() == text
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ValueError, match="no text in UTF-8"):
        filled_panel.constraints.load(tmp_path / "bad.txt")


# -- axes -------------------------------------------------------------------------------------------------------------


def drawn(panel, number=0):
    return panel.plot.drawn_points[number]


def test_axes_are_relative_or_absolute_each(filled_panel, qtbot):
    lung = curve(filled_panel, "lung")
    filled_panel.scale_box.prescription.box.setValue(20.0)
    for unit, volume, factor_x, factor_y in (
        ("Gy", "%", 1.0, 100 / lung.volume_cc),
        ("Gy", "cc", 1.0, 1.0),
        ("%", "cc", 5.0, 1.0),
        ("%", "%", 5.0, 100 / lung.volume_cc),
    ):
        filled_panel.axes_box.dose.setCurrentText(unit)
        filled_panel.axes_box.volume.setCurrentText(volume)
        settle(qtbot, filled_panel)
        x, y = drawn(filled_panel)
        doses, volumes = factor_x * lung.doses, factor_y * lung.volumes_cc
        at = [int(np.abs(doses - place).argmin()) for place in x[1:]]  # some of all points are drawn
        np.testing.assert_allclose(x[1:], doses[at])
        np.testing.assert_allclose(y[1:], volumes[at])
        assert (at[0], at[-1]) == (0, len(doses) - 1)
        assert volume in filled_panel.plot.getAxis("left").labelText
        assert unit in filled_panel.plot.getAxis("bottom").labelText


def test_percent_of_no_prescription_is_a_sentence(filled_panel, qtbot):
    filled_panel.axes_box.dose.setCurrentIndex(1)
    settle(qtbot, filled_panel)
    assert "Enter a prescription" in filled_panel.notes.text()
    assert "Gy" in filled_panel.plot.getAxis("bottom").labelText


def test_a_differential_histogram_sums_to_the_volume(filled_panel, qtbot):
    filled_panel.axes_box.kind.setCurrentText("differential")
    filled_panel.axes_box.volume.setCurrentText("cc")
    for log in (False, True):
        filled_panel.axes_box.log.setChecked(log)
        settle(qtbot, filled_panel)
        edges = drawn(filled_panel, 1)[0]
        np.testing.assert_allclose(drawn(filled_panel, 0)[0], edges)
        for number, name in enumerate(("lung", "heart")):
            x, y = drawn(filled_panel, number)
            assert len(x) == len(y) + 1
            assert y.sum() == pytest.approx(curve(filled_panel, name).volume_cc)


def test_the_line_keeps_its_dose_on_a_logarithmic_axis(filled_panel, qtbot):
    filled_panel.tools.dose.setChecked(True)
    settle(qtbot, filled_panel)
    filled_panel.link.move_dose_line(10.0)
    assert filled_panel.plot.dose_line.value() == pytest.approx(10.0)
    filled_panel.axes_box.log.setChecked(True)
    settle(qtbot, filled_panel)
    assert filled_panel.plot.dose_line.value() == pytest.approx(1.0)
    x, y = drawn(filled_panel)
    np.testing.assert_allclose(np.interp(1.0, x, y), curve(filled_panel, "lung").percent_at(10.0), rtol=1e-3)


def test_the_volume_line_has_no_meaning_in_a_differential_plot(filled_panel, qtbot):
    filled_panel.tools.volume.setChecked(True)
    filled_panel.axes_box.kind.setCurrentText("differential")
    settle(qtbot, filled_panel)
    assert not filled_panel.plot.volume_line.isVisible()
    assert not filled_panel.tools.volume.isEnabled()


TEXT = "gEUD(a=8), EQD2(D2cc, alpha_beta=3, fractions=30), HI, Paddick CI(target=lung)"


def everything(factor=1.0):
    dose = a_dose(scale=factor)
    return dvh(dose, whole_grid(dose.values.shape, dose.affine), SETTINGS, device="cpu").dvhs[0]


def test_columns_with_parameters(filled_panel, qtbot):
    filled_panel.scale_box.prescription.box.setValue(15.0)
    filled_panel.table.columns.setText(TEXT)
    filled_panel.table.columns.textEdited.emit(TEXT)
    settle(qtbot, filled_panel)
    titles = ["gEUD(a=8)[Gy]", "EQD2(D2cc[Gy], alpha_beta=3, fractions=30)", "HI", "Paddick CI(target=lung)"]
    assert filled_panel.table.titles == ["Structure", *titles]
    assert filled_panel.table.problem.isHidden()
    whole = everything()
    for row, name in enumerate(("lung", "heart")):
        values = [parse_metric(title).of(curve(filled_panel, name), 15.0, everything=whole) for title in titles[:3]]
        assert cells(filled_panel, row)[1:4] == [f"{value:.4g}" for value in values]
    index = parse_metric("Paddick CI").of(curve(filled_panel, "lung"), 15.0, everything=whole)
    assert 0 < index < 1
    assert cells(filled_panel, 0)[4] == f"{index:.4g}"
    assert cells(filled_panel, 1)[4] == "–"
    assert "is of 'lung', not of 'heart'" in filled_panel.table.table.item(1, 4).toolTip()


def test_an_index_follows_scale_and_plan(viewer, panel, qtbot):
    add_case(viewer)
    second = add_dose(viewer, a_dose(scale=0.5), name="B")
    panel.inputs_box.dose_box.choose(viewer.layers["dose"])
    panel.inputs_box.second_box.choose(second)
    run(qtbot, panel)
    panel.scale_box.scale.box.setValue(2.0)
    panel.table.set_columns("GI(prescription=20Gy)")
    settle(qtbot, panel)
    for row, factor in ((0, 1.0), (1, 0.5)):
        wanted = parse_metric("GI(prescription=20Gy)").of(
            curve(panel, "lung"), everything=everything(factor).scaled(2.0)
        )
        assert float(cells(panel, row)[1]) == pytest.approx(wanted, rel=1e-3)


def test_the_whole_dose_is_counted_only_where_it_is_asked_for(filled_panel, qtbot, monkeypatch):
    asked = []
    monkeypatch.setattr(filled_panel.controller.whole_dose, "request", lambda run: asked.append(run) or ())
    filled_panel.table.set_columns("Mean[Gy], HI")
    settle(qtbot, filled_panel)
    assert asked == []
    filled_panel.table.set_columns("Mean[Gy], GI(prescription=9Gy)")
    qtbot.waitUntil(lambda: bool(asked))
    assert cells(filled_panel, 0)[2] == "…"
    assert filled_panel.table.problem.isHidden()


def test_a_wrong_parameter_is_a_sentence_and_loses_nothing(filled_panel):
    before = cells(filled_panel, 0)
    for text, words in (("gEUD(a=x)", "In gEUD, a is 'x'; give a number"), ("Mean[Gy], gEUD(a=8, HI", "lacks a )")):
        filled_panel.table.columns.setText(text)
        filled_panel.table.columns.textEdited.emit(text)
        assert words in filled_panel.table.problem.text()
        assert cells(filled_panel, 0) == before


def test_a_double_click_selects_a_column_with_commas_in_it(filled_panel):
    filled_panel.table.set_columns("Mean[Gy],, EQD2(D2cc, alpha_beta=3, fractions=30) , HI")
    for column, text in ((1, "Mean[Gy]"), (2, "EQD2(D2cc, alpha_beta=3, fractions=30)"), (3, "HI")):
        filled_panel.table.table.horizontalHeader().sectionDoubleClicked.emit(column)
        assert filled_panel.table.columns.selectedText() == text


@pytest.mark.parametrize(
    ("unit", "missing"), [("Gy", set()), ("cGy", set()), ("mGy", set()), ("J/cm2", {"EQD2", "BED", "NTCP", "TCP"})]
)
def test_every_metric_of_the_menu_can_be_a_column(viewer, panel, qtbot, unit, missing):
    add_dose(viewer, a_dose(unit=unit))
    add_organs(viewer)
    run(qtbot, panel)
    panel.scale_box.prescription.box.setValue(15.0)
    settle(qtbot, panel)
    actions = [action for action in panel.table.menu.menu().actions() if not action.isSeparator()]
    offered = [action.text().split("\t")[0] for action in actions]
    assert {text.split("(")[0].split("[")[0] for text in offered} & set(MODELS) == set(MODELS) - missing
    panel.table.set_columns("")
    for action in actions:
        action.trigger()
        assert panel.table.problem.isHidden()
    settle(qtbot, panel)
    assert panel.table.titles[1:] == offered
    assert panel.table.problem.isHidden()
    assert "–" not in cells(panel, 0)


def test_the_number_of_a_chosen_metric_can_be_typed_over(filled_panel):
    filled_panel.table.set_columns("Mean[Gy]")
    filled_panel.table.menu.metric_chosen.emit("gEUD(a=8)[Gy]")
    assert filled_panel.table.columns.text() == "Mean[Gy], gEUD(a=8)[Gy]"
    assert filled_panel.table.columns.selectedText() == "8"
    assert first_number("Mean[Gy], V20Gy[%]", 10) == (11, 2)
    assert first_number("HI", 0) == (0, 2)


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("Mean[J/cm2]", "Mean[J/cm2]"),
        ("Volume[mm3]", "Volume[mm3]"),
        ("D95%[J/cm2]", "95"),
        ("V20J/cm2[%]", "20"),
        ("EQD2(D2cc[Gy], alpha_beta=3, fractions=30)", "3"),
    ],
)
def test_a_number_of_a_unit_is_not_typed_over(text, selected):
    whole = f"D5%[Gy], {text}"
    start, length = first_number(whole, 9)
    assert whole[start : start + length] == selected


def test_the_menu_speaks_the_unit_of_the_dose(viewer, panel):
    add_dose(viewer, a_dose(unit="J/cm2"))
    offered = [action.text() for action in panel.table.menu.menu().actions()]
    assert any(text.startswith("V20J/cm2[%]\t") for text in offered)
    assert any(text.startswith("gEUD(a=8)[J/cm2]\t") for text in offered)
    assert not any(text.startswith(("EQD2", "NTCP")) for text in offered)  # which are told of Gy


@pytest.mark.parametrize("unit", ["cGy", "mGy"])
def test_the_menu_asks_for_doses_of_a_sensible_size(viewer, panel, unit):
    add_dose(viewer, a_dose(unit=unit))
    offered = [action.text().split("\t")[0] for action in panel.table.menu.menu().actions()]
    assert {"V20Gy[%]", "V20Gy-30Gy[cc]", "CV20Gy[cc]", f"Mean[{unit}]", f"gEUD(a=8)[{unit}]"} <= set(offered)
    assert "NTCP(n=0.35, m=0.1, TD50=46Gy)" in offered


def test_files_say_what_the_table_says(filled_panel, qtbot, tmp_path):
    filled_panel.scale_box.prescription.box.setValue(15.0)
    filled_panel.table.set_columns(f"{TEXT}, D900cc[Gy]")
    settle(qtbot, filled_panel)
    filled_panel.export.write_metrics(tmp_path / "m.csv")
    with (tmp_path / "m.csv").open(encoding="utf-8", newline="") as file:
        head, lung, heart = csv.reader(file)
    assert head[2:] == filled_panel.table.titles[1:]
    for told, row in ((lung, 0), (heart, 1)):
        for text, cell in zip(told[2:], cells(filled_panel, row)[1:], strict=True):
            assert text.startswith("not evaluated: ") if cell == "–" else f"{float(text):.4g}" == cell
    assert heart[5] == "not evaluated: Paddick CI(target=lung) is of 'lung', not of 'heart'"
    filled_panel.export.write_everything(tmp_path / "e.json")
    rows = json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))["parameters"]["metrics"]
    assert [one["structure"] for one in rows] == ["lung", "heart"]
    assert rows[0]["values"]["HI"] == float(lung[4])
    assert rows[1]["values"]["Paddick CI(target=lung)"] is None
    assert "less than D900cc[Gy] asks for" in rows[0]["not_evaluated"]["D900cc[Gy]"]


def test_constraints_take_them_too(filled_panel, qtbot):
    filled_panel.constraints.text.setPlainText("lung: Paddick CI(prescription=15Gy) < 0.9\nheart: gEUD(a=8) < 1")
    settle(qtbot, filled_panel)
    table = filled_panel.constraints.table
    assert [table.item(row, 2).text() for row in range(2)] == ["✓ pass", "✗ fail"]
    wanted = parse_metric("Paddick CI(prescription=15Gy)").of(curve(filled_panel, "lung"), everything=everything())
    assert table.item(0, 1).text() == f"{wanted:.4g}"
    assert table.item(1, 1).text().endswith(" Gy")


def test_the_script_prints_what_the_table_says(viewer, panel, qtbot, tmp_path, monkeypatch):
    dose, layer = add_case(viewer)
    dose.metadata["napari_gpubio"]["path"] = saved(dose_values(), tmp_path / "dose.nii.gz")
    layer.metadata["napari_gpubio"]["path"] = saved(label_values(), tmp_path / "labels.nii.gz")
    panel.scale_box.prescription.box.setValue(20.0)
    panel.scale_box.scale.box.setValue(1.5)
    panel.table.set_columns(f"{TEXT}, V95%[%], Mean[cGy]")
    panel.constraints.text.setPlainText("lung: RTOG CI < 9")
    run(qtbot, panel)
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    told = run_script(script_of(panel), tmp_path)
    lung = next(line for line in told.splitlines() if line.startswith("lung gEUD"))
    for title, cell in zip(panel.table.titles[2:], cells(panel, 0)[2:], strict=True):
        value = float(lung.split(f"{title} = ")[1].split()[0])
        assert value == pytest.approx(float(cell), rel=1e-3)
    assert "not evaluated: Paddick CI(target=lung) is of 'lung', not of 'heart'" in told
    assert "pass lung: RTOG CI < 9" in told


def test_a_whole_dose_that_cannot_be_counted_is_a_sentence(filled_panel, qtbot, monkeypatch):
    monkeypatch.setattr(filled_panel.controller.whole_dose, "request", lambda _: ())
    filled_panel.controller.whole_dose.missing_reason = "the device has too little memory"
    filled_panel.table.set_columns("Mean[Gy], GI(prescription=9Gy)")
    settle(qtbot, filled_panel)
    assert cells(filled_panel, 0)[2] == "–"
    assert "The device has too little memory" in filled_panel.table.problem.text()
