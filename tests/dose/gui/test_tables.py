"""The table of metrics, whose columns are typed or chosen, and constraints: typed, evaluated, saved and loaded."""

import pytest

from napari_gpubio.dose.gui.curves import PENDING, Curve, MetricReader
from napari_gpubio.dose.gui.metric_table import CurveMetricTable, first_number
from napari_gpubio.dose.metrics import parse_metric
from napari_gpubio.dose.metrics.models import MODELS
from napari_gpubio.gui.row_table import Cell, RowTable
from tests.dose.gui.panel_samples import a_dose, expected, organs, whole_dose_dvh


def test_cells_are_values_of_the_metrics(user, filled_panel):
    filled_panel.table.columns.enter("Volume[cc], D95%[Gy]; V20Gy[%], D0.03cc[Gy]")
    assert filled_panel.table.titles == ["Structure", "Volume[cc]", "D95%[Gy]", "V20Gy[%]", "D0.03cc[Gy]"]
    for row, name in enumerate(("lung", "heart")):
        written = user.cells(row)
        reference = [parse_metric(text).of(user.curve(name)) for text in filled_panel.table.titles[1:]]
        digits = 4, 3 if name == "lung" else 4, 4, 4  # a bin is 0.014 Gy, more than a thousandth of the lung's D95%
        numbers = (f"{value:.{count}g}" for value, count in zip(reference, digits, strict=True))
        assert written == [name, *numbers]


def test_columns_in_short_say_their_unit(filled_panel):
    filled_panel.table.columns.enter("D95, max, V20Gy")
    filled_panel.controller.update_curves()
    assert filled_panel.table.problem.text() == ""
    assert filled_panel.table.titles == ["Structure", "D95%[Gy]", "Max[Gy]", "V20Gy[%]"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("V20", "'V20' lacks the unit of its dose; write V20Gy[%]"),
        ("Mean[Gy], V20Gy[Gy]", "must be a volume"),
        ("D95%[", "D95%["),
        ("gEUD(a=x)", "a is 'x'"),
        ("Mean[Gy], gEUD(a=8, HI", "lacks a )"),
    ],
)
def test_a_bad_metric_is_explained_and_keeps_the_columns(user, filled_panel, text, words):
    before = user.cells(0)
    filled_panel.table.columns.setText(text)
    filled_panel.table.columns.textEdited.emit(text)
    assert words in filled_panel.table.problem.text()
    assert not filled_panel.table.problem.isHidden()
    assert user.cells(0) == before
    filled_panel.table.columns.enter("Mean[Gy], Mean[J/cm2]")
    assert "is in J/cm2 and the dose is in Gy; use Gy" in filled_panel.table.problem.text()
    assert [text == "–" for text in user.cells(0)[1:]] == [False, True]
    filled_panel.table.columns.enter("Mean[Gy]")
    assert filled_panel.table.problem.isHidden()


def test_columns_fit_their_header_and_values(user, filled_panel, qtbot):
    panel, table = filled_panel, filled_panel.table.table
    panel.resize(400, 900)
    panel.show()
    qtbot.wait(20)
    header, metrics = table.horizontalHeader(), table.fontMetrics()
    for column in range(table.columnCount()):
        texts = [*table.horizontalHeaderItem(column).text().split("\n"), *(user.cells(row)[column] for row in (0, 1))]
        assert table.columnWidth(column) >= max(map(metrics.horizontalAdvance, texts))
    assert header.length() <= table.viewport().width()  # the default columns need no scrolling
    assert table.viewport().height() >= 2 * table.rowHeight(0)
    panel.table.columns.enter(", ".join(f"D{share}%[Gy]" for share in range(1, 30)))
    assert header.length() > table.viewport().width()
    assert table.viewport().height() >= 2 * table.rowHeight(0)


def test_numbers_of_light_are_not_cut_where_the_panel_is_narrow(qtbot):
    numbers = ["839.9", "1.415e-5", "0", "1.33e-5", "8.72e-4", "47.53"]
    titles = ["Structure\n[1/mm²]", "Volume\n[cc]", "Mean", "D95%", "D2%", "Max", "Zero\n[%]"]
    table = RowTable()
    qtbot.addWidget(table)
    table.resize(403, 200)
    table.show()
    for name in ("white matter of the left hemisphere", "skin"):
        table.set_rows([[Cell(name, "a tip"), *map(Cell, numbers)]], titles)
        qtbot.wait(20)
        assert table.horizontalHeader().length() == table.viewport().width(), "all of it is seen"
        assert table.item(0, 0).toolTip() == f"{name}\na tip"
        for column, text in enumerate(numbers, 1):
            assert table.columnWidth(column) > table.fontMetrics().horizontalAdvance(text)


@pytest.mark.parametrize(
    ("unit", "titles"),
    [
        ("cGy", ["Structure", "Mean\n[cGy]", "Zero\n[%]"]),
        ("mW/mm²", ["Structure\n[mW/mm²]", "Mean", "Zero\n[%]"]),
    ],
)
def test_a_long_unit_stands_in_the_first_title_only(qtbot, unit, titles):
    table = CurveMetricTable()
    qtbot.addWidget(table)
    table.set_unit(unit)
    table.columns.enter(f"Mean[{unit}], Zero[%]")
    assert [table.table.horizontalHeaderItem(column).text() for column in range(3)] == titles


@pytest.mark.parametrize(("rows", "visible"), [(3, 3), (8, 8), (20, 8)])
def test_the_table_is_as_high_as_its_rows(qtbot, rows, visible):
    table = CurveMetricTable()
    qtbot.addWidget(table)
    table.columns.enter("Mean[Gy]")
    lung = expected(a_dose(), organs())
    table.resize(400, 600)
    table.show()
    table.update_rows([Curve(dvh=lung, color="#ff0000") for _ in range(rows)], MetricReader())
    qtbot.wait(20)
    assert table.table.viewport().height() // table.table.rowHeight(0) == visible


def test_the_columns_follow_the_unit_until_they_are_typed(user, panel):
    user.add_case()
    assert "D95%[Gy]" in panel.table.columns.text()
    user.type_unit("cGy")
    user.run()
    assert "D95%[cGy]" in panel.table.columns.text()
    panel.table.columns.enter("Mean[cGy]")
    user.type_unit("Gy")
    user.settle()
    assert panel.table.columns.text() == "Mean[cGy]"
    assert panel.controller.live.doses[0].unit == "Gy"


TEXT = "gEUD(a=8), EQD2(D2cc, alpha_beta=3, fractions=30), HI, Paddick CI(target=lung)"


def test_columns_with_parameters(user, filled_panel):
    filled_panel.scale_box.prescription.box.setValue(15.0)
    filled_panel.table.columns.setText(TEXT)
    filled_panel.table.columns.textEdited.emit(TEXT)
    user.settle()
    titles = ["gEUD(a=8)[Gy]", "EQD2(D2cc[Gy], alpha_beta=3, fractions=30)", "HI", "Paddick CI(target=lung)"]
    assert filled_panel.table.titles == ["Structure", *titles]
    assert filled_panel.table.problem.isHidden()
    whole = whole_dose_dvh()
    for row, name in enumerate(("lung", "heart")):
        values = [parse_metric(title).of(user.curve(name), 15.0, everything=whole) for title in titles[:3]]
        assert user.cells(row)[1:4] == [f"{value:.4g}" for value in values]
    index = parse_metric("Paddick CI").of(user.curve("lung"), 15.0, everything=whole)
    assert 0 < index < 1
    assert user.cells(0)[4] == f"{index:.4g}"
    assert user.cells(1)[4] == "–"
    assert "is of 'lung', not of 'heart'" in filled_panel.table.table.item(1, 4).toolTip()


def test_an_index_follows_scale_and_plan(user, panel):
    user.choose_two_plans(a_dose(scale=0.5))
    user.run()
    panel.scale_box.scale.box.setValue(2.0)
    user.choose_columns("GI(prescription=20Gy)")
    for row, factor in ((0, 1.0), (1, 0.5)):
        reference = parse_metric("GI(prescription=20Gy)").of(
            user.curve("lung"), everything=whole_dose_dvh(factor).scaled(2.0)
        )
        assert float(user.cells(row)[1]) == pytest.approx(reference, rel=1e-3)


def test_the_whole_dose_is_counted_only_where_a_metric_needs_it(user, filled_panel, qtbot, monkeypatch):
    requested = []
    monkeypatch.setattr(filled_panel.controller.whole_dose, "request", lambda run: requested.append(run) or ())
    user.choose_columns("Mean[Gy], HI")
    assert requested == []
    filled_panel.table.columns.enter("Mean[Gy], GI(prescription=9Gy)")
    qtbot.waitUntil(lambda: bool(requested))
    assert user.cells(0)[2] == "…"
    assert filled_panel.table.problem.isHidden()
    filled_panel.controller.whole_dose.missing_reason = "the device has too little memory"
    filled_panel.controller.redraw_later()
    user.settle()
    assert user.cells(0)[2] == "–"
    assert "The device has too little memory" in filled_panel.table.problem.text()


def test_columns_and_numbers_are_selected_to_be_typed_over(filled_panel):
    columns = filled_panel.table.columns
    columns.enter("Mean[Gy],, EQD2(D2cc, alpha_beta=3, fractions=30) , HI")
    for column, text in ((1, "Mean[Gy]"), (2, "EQD2(D2cc, alpha_beta=3, fractions=30)"), (3, "HI")):
        filled_panel.table.table.horizontalHeader().sectionDoubleClicked.emit(column)
        assert columns.selectedText() == text
    columns.enter("D5%[Gy]")
    filled_panel.table.menu.metric_chosen.emit("D95%[Gy]")
    assert (columns.text(), columns.selectedText()) == ("D5%[Gy], D95%[Gy]", "95")


@pytest.mark.parametrize(
    ("unit", "usual", "missing"),
    [
        ("Gy", "Gy", set()),
        ("cGy", "Gy", set()),
        ("mGy", "Gy", set()),
        ("J/cm²", "J/cm²", {"EQD2", "BED", "NTCP", "TCP"}),
    ],
)
def test_every_metric_of_the_menu_can_be_a_column(user, panel, unit, usual, missing):
    """Also: the menu has doses of a sensible size."""
    user.add_dose(a_dose(unit=unit))
    user.add_organs()
    user.run()
    user.prescribe(15.0)
    actions = [action for action in panel.table.menu.menu().actions() if not action.isSeparator()]
    offered = [action.text().split("\t")[0] for action in actions]
    assert {f"V20{usual}[%]", f"CV20{usual}[cc]", f"Mean[{unit}]", f"gEUD(a=8)[{unit}]"} <= set(offered)
    assert {text.split("(")[0].split("[")[0] for text in offered} & set(MODELS) == set(MODELS) - missing
    panel.table.columns.enter("")
    for action in actions:
        action.trigger()
        assert panel.table.problem.isHidden()
    user.settle()
    assert panel.table.titles[1:] == offered
    assert panel.table.problem.isHidden()
    assert "–" not in user.cells(0)


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("Mean[J/cm2]", "Mean[J/cm2]"),
        ("Volume[mm3]", "Volume[mm3]"),
        ("HI", "HI"),
        ("D95%[J/cm2]", "95"),
        ("V20J/cm2[%]", "20"),
        ("EQD2(D2cc[Gy], alpha_beta=3, fractions=30)", "3"),
    ],
)
def test_a_number_of_a_unit_is_not_typed_over(text, selected):
    whole = f"D5%[Gy], {text}"
    start, length = first_number(whole, 9)
    assert whole[start : start + length] == selected


def results_of(panel):
    table = panel.constraints.table
    return [[table.item(row, column).text() for column in range(3)] for row in range(table.rowCount())]


def test_constraints_pass_fail_or_are_not_evaluated(user, filled_panel):
    mean = user.curve("lung").mean
    filled_panel.constraints.text.setPlainText(
        f"Lung: Mean[Gy] < {mean + 1:.2f}  # a note\n\nlung: Mean[Gy] < {mean - 1:.2f}\ncord: Max[Gy] < 45\n"
        "heart: V95%[%] >= 90"
    )
    written = results_of(filled_panel)
    assert [row[2] for row in written] == ["✓ pass", "✗ fail", "? not evaluated", "? not evaluated"]
    assert written[0][1] == f"{mean:.4g} Gy"
    assert "no structures are named 'cord'" in filled_panel.constraints.table.item(2, 2).toolTip()
    user.prescribe(10.0)
    assert results_of(filled_panel)[3][2] == "✓ pass"


def test_what_is_read_off_curves_at_once_is_no_other_input_of_them(user, filled_panel, qtbot):
    line = filled_panel.stale_line
    filled_panel.constraints.text.setPlainText("lung: Mean[Gy] < 20")
    filled_panel.table.columns.enter("Min[Gy]")
    line.compare_soon()
    qtbot.waitUntil(lambda: not line.is_busy)
    assert line.isHidden()


def test_constraints_that_wait_for_the_whole_dose_have_the_reason(user, filled_panel, monkeypatch):
    monkeypatch.setattr(filled_panel.controller.whole_dose, "request", lambda _: ())
    filled_panel.constraints.text.setPlainText(
        "lung: Paddick CI(prescription=15Gy) > 0.5\ncord: GI(prescription=15Gy) < 3\nlung: V95%[%] > 3"
    )
    table = filled_panel.constraints.table
    for why in (PENDING, "the device has too little memory"):
        filled_panel.controller.whole_dose.missing_reason = why
        filled_panel.controller.redraw_later()
        user.settle()
        assert [row[1:] for row in results_of(filled_panel)] == [["–", "? not evaluated"]] * 3
        assert table.item(0, 2).toolTip() == why
        assert "no structures are named 'cord'" in table.item(1, 2).toolTip()
        assert "in % of the prescription" in table.item(2, 2).toolTip()


def test_constraints_follow_the_scale_and_the_second_plan(user, panel):
    user.choose_two_plans(a_dose())
    user.run()
    panel.constraints.text.setPlainText(f"lung: Mean[Gy] < {user.curve('lung').mean + 1:.2f}")
    assert "(2nd plan)" in results_of(panel)[1][0]
    for scale, result in ((1.0, "✓ pass"), (2.0, "✗ fail")):
        user.scale_doses(scale)
        assert [row[2] for row in results_of(panel)] == [result] * 2


@pytest.mark.parametrize("line", ["lung Mean[Gy] < 3", "lung: Mean[Gy] < x", "lung: Main[Gy] < 3"])
def test_a_bad_constraint_is_explained(filled_panel, line):
    filled_panel.constraints.text.setPlainText(f"heart: Mean[Gy] < 99\n{line}")
    assert filled_panel.constraints.problem.text().startswith("Line 2: ")
    assert len(results_of(filled_panel)) == 1


def test_constraints_are_saved_and_loaded(filled_panel, tmp_path):
    text = "lung: Mean[Gy] < 20\nheart: D2%[Gy] <= 50"
    filled_panel.constraints.text.setPlainText(text)
    filled_panel.constraints.save(tmp_path / "c.txt")
    filled_panel.constraints.text.clear()
    filled_panel.constraints.load(tmp_path / "c.txt")
    assert filled_panel.constraints.text.toPlainText().strip() == text
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ValueError, match="text in UTF-8"):
        filled_panel.constraints.load(tmp_path / "bad.txt")


def test_constraints_with_parameters(user, filled_panel):
    filled_panel.constraints.text.setPlainText("lung: Paddick CI(prescription=15Gy) < 0.9\nheart: gEUD(a=8) < 1")
    user.settle()
    (_, index, passed), (_, geud, failed) = results_of(filled_panel)
    assert (passed, failed) == ("✓ pass", "✗ fail")
    metric = parse_metric("Paddick CI(prescription=15Gy)")
    assert index == f"{metric.of(user.curve('lung'), everything=whole_dose_dvh()):.4g}"
    assert geud.endswith(" Gy")


def test_names_stay_in_sight_while_numbers_scroll(user, filled_panel):
    user.choose_columns("Volume[cc], Mean[Gy], D95%[Gy], D50%[Gy], D2%[Gy], Max[Gy], Min[Gy], Median[Gy], V20Gy[%]")
    table = filled_panel.table.table
    table.resize(260, table.height())
    bar = table.horizontalScrollBar()
    assert bar.maximum() > 0
    assert table.names.isHidden()
    bar.setValue(bar.maximum())
    assert not table.names.isHidden()
    assert table.names.width() == min(table.columnWidth(0), table.viewport().width() * 2 // 3)
    first = table.names.model().index(0, 0)
    assert first.data() == "lung"
    assert table.names.visualRect(first).y() == table.visualItemRect(table.item(0, 1)).y()
    bar.setValue(0)
    assert table.names.isHidden()
