"""The table of metrics: columns that are typed or chosen, and the text of their cells."""

import pytest

from napari_gpubio.dose.gui.curves import Curve, MetricReader
from napari_gpubio.dose.gui.metric_columns import first_number
from napari_gpubio.dose.gui.metric_table import MetricTable
from napari_gpubio.dose.metrics import parse_metric
from napari_gpubio.dose.metrics.models import MODELS
from tests.dose.gui.panel_samples import (
    a_dose,
    add_case,
    add_dose,
    add_organs,
    cells,
    choose_two_plans,
    curve,
    expected,
    organs,
    run,
    settle,
    whole_dose_dvh,
)


def test_cells_are_values_of_the_metrics(filled_panel):
    filled_panel.table.columns.enter("Volume[cc], D95%[Gy]; V20Gy[%], D0.03cc[Gy]")
    assert filled_panel.table.titles == ["Structure", "Volume[cc]", "D95%[Gy]", "V20Gy[%]", "D0.03cc[Gy]"]
    for row, name in enumerate(("lung", "heart")):
        written = cells(filled_panel, row)
        reference = [parse_metric(text).of(curve(filled_panel, name)) for text in filled_panel.table.titles[1:]]
        assert written == [name, *(f"{value:.4g}" for value in reference)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("D95", "'D95'"),
        ("Mean[Gy], V20Gy[Gy]", "must be a volume"),
        ("D95%[", "D95%["),
        ("gEUD(a=x)", "a is 'x'"),
        ("Mean[Gy], gEUD(a=8, HI", "lacks a )"),
    ],
)
def test_a_bad_metric_is_explained_and_keeps_the_columns(filled_panel, text, words):
    before = cells(filled_panel, 0)
    filled_panel.table.columns.setText(text)
    filled_panel.table.columns.textEdited.emit(text)
    assert words in filled_panel.table.problem.text()
    assert not filled_panel.table.problem.isHidden()
    assert cells(filled_panel, 0) == before
    filled_panel.table.columns.enter("Mean[Gy], Mean[J/cm2]")
    assert "is in J/cm2 and the dose is in Gy; use Gy" in filled_panel.table.problem.text()
    assert [text == "–" for text in cells(filled_panel, 0)[1:]] == [False, True]
    filled_panel.table.columns.enter("Mean[Gy]")
    assert filled_panel.table.problem.isHidden()


def test_columns_fit_their_header_and_values(filled_panel, qtbot):
    panel, table = filled_panel, filled_panel.table.table
    panel.resize(400, 900)
    panel.show()
    qtbot.wait(20)
    header, metrics = table.horizontalHeader(), table.fontMetrics()
    for column in range(table.columnCount()):
        texts = [*table.horizontalHeaderItem(column).text().split("\n"), *(cells(panel, row)[column] for row in (0, 1))]
        assert table.columnWidth(column) >= max(map(metrics.horizontalAdvance, texts))
    assert header.length() <= table.viewport().width()  # the default columns need no scrolling
    assert table.viewport().height() >= 2 * table.rowHeight(0)
    panel.table.columns.enter(", ".join(f"D{share}%[Gy]" for share in range(1, 30)))
    assert header.length() > table.viewport().width()
    assert table.viewport().height() >= 2 * table.rowHeight(0)


@pytest.mark.parametrize(("rows", "visible"), [(3, 3), (8, 8), (20, 8)])
def test_the_table_is_as_high_as_its_rows(qtbot, rows, visible):
    table = MetricTable()
    qtbot.addWidget(table)
    table.columns.enter("Mean[Gy]")
    lung = expected(a_dose(), organs())
    table.resize(400, 600)
    table.show()
    table.update_rows([Curve(dvh=lung, color="#ff0000") for _ in range(rows)], MetricReader())
    qtbot.wait(20)
    assert table.table.viewport().height() // table.table.rowHeight(0) == visible


def test_the_columns_follow_the_unit_until_they_are_typed(viewer, panel, qtbot):
    add_case(viewer)
    assert "D95%[Gy]" in panel.table.columns.text()
    panel.inputs_box.unit.setText("cGy")
    panel.inputs_box.unit.editingFinished.emit()
    run(qtbot, panel)
    assert "D95%[cGy]" in panel.table.columns.text()
    panel.table.columns.enter("Mean[cGy]")
    panel.inputs_box.unit.setText("Gy")
    panel.inputs_box.unit.editingFinished.emit()
    settle(qtbot, panel)
    assert panel.table.columns.text() == "Mean[cGy]"
    assert panel.controller.live.doses[0].unit == "Gy"


TEXT = "gEUD(a=8), EQD2(D2cc, alpha_beta=3, fractions=30), HI, Paddick CI(target=lung)"


def test_columns_with_parameters(filled_panel, qtbot):
    filled_panel.scale_box.prescription.box.setValue(15.0)
    filled_panel.table.columns.setText(TEXT)
    filled_panel.table.columns.textEdited.emit(TEXT)
    settle(qtbot, filled_panel)
    titles = ["gEUD(a=8)[Gy]", "EQD2(D2cc[Gy], alpha_beta=3, fractions=30)", "HI", "Paddick CI(target=lung)"]
    assert filled_panel.table.titles == ["Structure", *titles]
    assert filled_panel.table.problem.isHidden()
    whole = whole_dose_dvh()
    for row, name in enumerate(("lung", "heart")):
        values = [parse_metric(title).of(curve(filled_panel, name), 15.0, everything=whole) for title in titles[:3]]
        assert cells(filled_panel, row)[1:4] == [f"{value:.4g}" for value in values]
    index = parse_metric("Paddick CI").of(curve(filled_panel, "lung"), 15.0, everything=whole)
    assert 0 < index < 1
    assert cells(filled_panel, 0)[4] == f"{index:.4g}"
    assert cells(filled_panel, 1)[4] == "–"
    assert "is of 'lung', not of 'heart'" in filled_panel.table.table.item(1, 4).toolTip()


def test_an_index_follows_scale_and_plan(viewer, panel, qtbot):
    choose_two_plans(viewer, panel, a_dose(scale=0.5))
    run(qtbot, panel)
    panel.scale_box.scale.box.setValue(2.0)
    panel.table.columns.enter("GI(prescription=20Gy)")
    settle(qtbot, panel)
    for row, factor in ((0, 1.0), (1, 0.5)):
        reference = parse_metric("GI(prescription=20Gy)").of(
            curve(panel, "lung"), everything=whole_dose_dvh(factor).scaled(2.0)
        )
        assert float(cells(panel, row)[1]) == pytest.approx(reference, rel=1e-3)


def test_the_whole_dose_is_counted_only_where_a_metric_needs_it(filled_panel, qtbot, monkeypatch):
    requested = []
    monkeypatch.setattr(filled_panel.controller.whole_dose, "request", lambda run: requested.append(run) or ())
    filled_panel.table.columns.enter("Mean[Gy], HI")
    settle(qtbot, filled_panel)
    assert requested == []
    filled_panel.table.columns.enter("Mean[Gy], GI(prescription=9Gy)")
    qtbot.waitUntil(lambda: bool(requested))
    assert cells(filled_panel, 0)[2] == "…"
    assert filled_panel.table.problem.isHidden()
    filled_panel.controller.whole_dose.missing_reason = "the device has too little memory"
    filled_panel.controller.redraw_later()
    settle(qtbot, filled_panel)
    assert cells(filled_panel, 0)[2] == "–"
    assert "The device has too little memory" in filled_panel.table.problem.text()


def test_a_double_click_selects_a_column_to_be_typed_over(filled_panel):
    filled_panel.table.columns.enter("Mean[Gy],, EQD2(D2cc, alpha_beta=3, fractions=30) , HI")
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
    panel.table.columns.enter("")
    for action in actions:
        action.trigger()
        assert panel.table.problem.isHidden()
    settle(qtbot, panel)
    assert panel.table.titles[1:] == offered
    assert panel.table.problem.isHidden()
    assert "–" not in cells(panel, 0)


def test_the_number_of_a_chosen_metric_can_be_typed_over(filled_panel):
    filled_panel.table.columns.enter("Mean[Gy]")
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


@pytest.mark.parametrize(
    ("unit", "usual"), [("J/cm2", "J/cm2"), ("cGy", "Gy"), ("mGy", "Gy")], ids=["light", "centigray", "milligray"]
)
def test_the_menu_has_doses_of_a_sensible_size(viewer, panel, unit, usual):
    add_dose(viewer, a_dose(unit=unit))
    offered = {action.text().split("\t")[0] for action in panel.table.menu.menu().actions()}
    assert {f"V20{usual}[%]", f"CV20{usual}[cc]", f"Mean[{unit}]", f"gEUD(a=8)[{unit}]"} <= offered
    assert ("NTCP(n=0.35, m=0.1, TD50=46Gy)" in offered) == (usual == "Gy")
