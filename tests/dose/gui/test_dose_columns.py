"""Columns with named parameters: typed or chosen from the menu, evaluated, exported, and copied as Python."""

import csv
import json

import pytest

from napari_gpubio.dose import dvh
from napari_gpubio.dose.gui.column_menu import first_number
from napari_gpubio.dose.metrics import parse_metric
from napari_gpubio.dose.metrics.models import MODELS
from napari_gpubio.dose.structures import whole_grid
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
from tests.dose.gui.test_dose_files import saved

TEXT = "gEUD(a=8), EQD2(D2cc, alpha_beta=3, fractions=30), HI, Paddick CI(target=lung)"


def headers(panel):
    table = panel.table.table
    return [table.horizontalHeaderItem(n).text() for n in range(table.columnCount())]


def everything(factor=1.0):
    dose = a_dose(scale=factor)
    return dvh(dose, whole_grid(dose.values.shape, dose.affine), SETTINGS, device="cpu").dvhs[0]


def test_columns_with_parameters(counted, qtbot):
    counted.scale_box.prescription.box.setValue(15.0)
    counted.table.columns.setText(TEXT)
    counted.table.columns.textEdited.emit(TEXT)
    settle(qtbot, counted)
    titles = ["gEUD(a=8)[Gy]", "EQD2(D2cc[Gy], alpha_beta=3, fractions=30)", "HI", "Paddick CI(target=lung)"]
    assert headers(counted) == ["Structure", *titles]
    assert counted.table.problem.isHidden()
    whole = everything()
    for row, name in enumerate(("lung", "heart")):
        values = [parse_metric(title).of(curve(counted, name), 15.0, everything=whole) for title in titles[:3]]
        assert cells(counted, row)[1:4] == [f"{value:.4g}" for value in values]
    index = parse_metric("Paddick CI").of(curve(counted, "lung"), 15.0, everything=whole)
    assert 0 < index < 1
    assert cells(counted, 0)[4] == f"{index:.4g}"
    assert cells(counted, 1)[4] == "–"
    assert "is of 'lung', not of 'heart'" in counted.table.table.item(1, 4).toolTip()


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


def test_the_whole_dose_is_counted_only_where_it_is_asked_for(counted, qtbot, monkeypatch):
    asked = []
    monkeypatch.setattr(counted.controller.whole, "ask", lambda run: asked.append(run) or ())
    counted.table.set_columns("Mean[Gy], HI")
    settle(qtbot, counted)
    assert asked == []
    counted.table.set_columns("Mean[Gy], GI(prescription=9Gy)")
    qtbot.waitUntil(lambda: bool(asked))
    assert cells(counted, 0)[2] == "…"
    assert counted.table.problem.isHidden()


def test_a_wrong_parameter_is_a_sentence_and_loses_nothing(counted):
    before = cells(counted, 0)
    for text, words in (("gEUD(a=x)", "In gEUD, a is 'x'; give a number"), ("Mean[Gy], gEUD(a=8, HI", "lacks a )")):
        counted.table.columns.setText(text)
        counted.table.columns.textEdited.emit(text)
        assert words in counted.table.problem.text()
        assert cells(counted, 0) == before


def test_a_double_click_selects_a_column_with_commas_in_it(counted):
    counted.table.set_columns("Mean[Gy],, EQD2(D2cc, alpha_beta=3, fractions=30) , HI")
    for column, text in ((1, "Mean[Gy]"), (2, "EQD2(D2cc, alpha_beta=3, fractions=30)"), (3, "HI")):
        counted.table.table.horizontalHeader().sectionDoubleClicked.emit(column)
        assert counted.table.columns.selectedText() == text


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
    assert headers(panel)[1:] == offered
    assert panel.table.problem.isHidden()
    assert "–" not in cells(panel, 0)


def test_the_number_of_a_chosen_metric_can_be_typed_over(counted):
    counted.table.set_columns("Mean[Gy]")
    counted.table.menu.chosen.emit("gEUD(a=8)[Gy]")
    assert counted.table.columns.text() == "Mean[Gy], gEUD(a=8)[Gy]"
    assert counted.table.columns.selectedText() == "8"
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


def test_files_say_what_the_table_says(counted, qtbot, tmp_path):
    counted.scale_box.prescription.box.setValue(15.0)
    counted.table.set_columns(f"{TEXT}, D900cc[Gy]")
    settle(qtbot, counted)
    counted.export.write_metrics(tmp_path / "m.csv")
    with (tmp_path / "m.csv").open(encoding="utf-8", newline="") as file:
        head, lung, heart = csv.reader(file)
    assert head[2:] == headers(counted)[1:]
    for told, row in ((lung, 0), (heart, 1)):
        for text, cell in zip(told[2:], cells(counted, row)[1:], strict=True):
            assert text.startswith("not evaluated: ") if cell == "–" else f"{float(text):.4g}" == cell
    assert heart[5] == "not evaluated: Paddick CI(target=lung) is of 'lung', not of 'heart'"
    counted.export.write_everything(tmp_path / "e.json")
    rows = json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))["parameters"]["metrics"]
    assert [one["structure"] for one in rows] == ["lung", "heart"]
    assert rows[0]["values"]["HI"] == float(lung[4])
    assert rows[1]["values"]["Paddick CI(target=lung)"] is None
    assert "less than D900cc[Gy] asks for" in rows[0]["not_evaluated"]["D900cc[Gy]"]


def test_constraints_take_them_too(counted, qtbot):
    counted.constraints.text.setPlainText("lung: Paddick CI(prescription=15Gy) < 0.9\nheart: gEUD(a=8) < 1")
    settle(qtbot, counted)
    table = counted.constraints.table
    assert [table.item(row, 2).text() for row in range(2)] == ["✓ pass", "✗ fail"]
    wanted = parse_metric("Paddick CI(prescription=15Gy)").of(curve(counted, "lung"), everything=everything())
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
    for title, cell in zip(headers(panel)[2:], cells(panel, 0)[2:], strict=True):
        value = float(lung.split(f"{title} = ")[1].split()[0])
        assert value == pytest.approx(float(cell), rel=1e-3)
    assert "not evaluated: Paddick CI(target=lung) is of 'lung', not of 'heart'" in told
    assert "pass lung: RTOG CI < 9" in told


def test_a_whole_dose_that_cannot_be_counted_is_a_sentence(counted, qtbot, monkeypatch):
    monkeypatch.setattr(counted.controller.whole, "ask", lambda _: ())
    counted.controller.whole.missing = "the device has too little memory"
    counted.table.set_columns("Mean[Gy], GI(prescription=9Gy)")
    settle(qtbot, counted)
    assert cells(counted, 0)[2] == "–"
    assert "The device has too little memory" in counted.table.problem.text()
