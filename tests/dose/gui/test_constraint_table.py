"""Constraints: typed, evaluated, saved and loaded."""

import pytest

from napari_gpubio.dose.gui.curves import PENDING
from napari_gpubio.dose.metrics import parse_metric
from tests.dose.gui.panel_samples import (
    a_dose,
    choose_two_plans,
    curve,
    run,
    settle,
    whole_dose_dvh,
)


def results_of(panel):
    table = panel.constraints.table
    return [[table.item(row, column).text() for column in range(3)] for row in range(table.rowCount())]


def test_constraints_pass_fail_or_are_not_evaluated(filled_panel, qtbot):
    mean = curve(filled_panel, "lung").mean
    filled_panel.constraints.text.setPlainText(
        f"Lung: Mean[Gy] < {mean + 1:.2f}  # a note\n\nlung: Mean[Gy] < {mean - 1:.2f}\ncord: Max[Gy] < 45\n"
        "heart: V95%[%] >= 90"
    )
    written = results_of(filled_panel)
    assert [row[2] for row in written] == ["✓ pass", "✗ fail", "? not evaluated", "? not evaluated"]
    assert written[0][1] == f"{mean:.4g} Gy"
    assert "no structures are named 'cord'" in filled_panel.constraints.table.item(2, 2).toolTip()
    filled_panel.scale_box.prescription.box.setValue(10.0)
    settle(qtbot, filled_panel)
    assert results_of(filled_panel)[3][2] == "✓ pass"


def test_constraints_that_wait_for_the_whole_dose_have_the_reason(filled_panel, qtbot, monkeypatch):
    monkeypatch.setattr(filled_panel.controller.whole_dose, "request", lambda _: ())
    filled_panel.constraints.text.setPlainText(
        "lung: Paddick CI(prescription=15Gy) > 0.5\ncord: GI(prescription=15Gy) < 3\nlung: V95%[%] > 3"
    )
    table = filled_panel.constraints.table
    for why in (PENDING, "the device has too little memory"):
        filled_panel.controller.whole_dose.missing_reason = why
        filled_panel.controller.redraw_later()
        settle(qtbot, filled_panel)
        assert [row[1:] for row in results_of(filled_panel)] == [["–", "? not evaluated"]] * 3
        assert table.item(0, 2).toolTip() == why
        assert "no structures are named 'cord'" in table.item(1, 2).toolTip()
        assert "in % of the prescription" in table.item(2, 2).toolTip()


def test_constraints_follow_the_scale_and_the_second_plan(viewer, panel, qtbot):
    choose_two_plans(viewer, panel, a_dose())
    run(qtbot, panel)
    panel.constraints.text.setPlainText(f"lung: Mean[Gy] < {curve(panel, 'lung').mean + 1:.2f}")
    assert [row[2] for row in results_of(panel)] == ["✓ pass"] * 2
    assert "(2nd plan)" in results_of(panel)[1][0]
    panel.scale_box.scale.box.setValue(2.0)
    settle(qtbot, panel)
    assert [row[2] for row in results_of(panel)] == ["✗ fail"] * 2


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
    with pytest.raises(ValueError, match="no text in UTF-8"):
        filled_panel.constraints.load(tmp_path / "bad.txt")


def test_constraints_take_them_too(filled_panel, qtbot):
    filled_panel.constraints.text.setPlainText("lung: Paddick CI(prescription=15Gy) < 0.9\nheart: gEUD(a=8) < 1")
    settle(qtbot, filled_panel)
    table = filled_panel.constraints.table
    assert [table.item(row, 2).text() for row in range(2)] == ["✓ pass", "✗ fail"]
    index = parse_metric("Paddick CI(prescription=15Gy)").of(curve(filled_panel, "lung"), everything=whole_dose_dvh())
    assert table.item(0, 1).text() == f"{index:.4g}"
    assert table.item(1, 1).text().endswith(" Gy")
