"""Metrics, constraints, scale, prescription and axes: read off the same histograms, which are not counted anew."""

import numpy as np
import pytest

from napari_gpubio.dose.gui.whole_dose import COUNTING
from napari_gpubio.dose.metrics import parse_metric
from tests.dose.gui.panel_samples import add_case, add_dose, cells, curve, run, settle


@pytest.fixture
def no_counting(counted, monkeypatch):
    """Fails a test that counts again."""

    def refuse(*_):
        raise AssertionError("it was counted again")

    monkeypatch.setattr(counted, "make_steps", refuse)
    return counted


def test_the_table_tells_what_the_metrics_say(counted):
    counted.table.set_columns("Volume[cc], D95%[Gy]; V20Gy[%], D0.03cc[Gy]")
    headers = [counted.table.table.horizontalHeaderItem(n).text() for n in range(5)]
    assert headers == ["Structure", "Volume[cc]", "D95%[Gy]", "V20Gy[%]", "D0.03cc[Gy]"]
    for row, name in enumerate(("lung", "heart")):
        told = cells(counted, row)
        wanted = [parse_metric(text).of(curve(counted, name)) for text in headers[1:]]
        assert told == [name, *(f"{value:.4g}" for value in wanted)]


@pytest.mark.parametrize(
    ("text", "words"),
    [("D95", "'D95' is no dose-volume metric"), ("Mean[Gy], V20Gy[Gy]", "must be a volume"), ("D95%[", "write for")],
)
def test_a_bad_metric_is_a_sentence_and_loses_nothing(counted, text, words):
    before = cells(counted, 0)
    counted.table.columns.setText(text)
    counted.table.columns.textEdited.emit(text)
    assert words in counted.table.problem.text()
    assert not counted.table.problem.isHidden()
    assert cells(counted, 0) == before
    counted.table.set_columns("Mean[Gy]")
    assert counted.table.problem.isHidden()


def test_a_metric_in_another_unit_is_a_sentence(counted):
    counted.table.set_columns("Mean[Gy], Mean[J/cm2]")
    assert "asks for J/cm2 and the dose is in Gy; use Gy" in counted.table.problem.text()
    assert cells(counted, 0)[2] == "–"
    assert cells(counted, 0)[1] != "–"


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
    assert panel.controller.counted.doses[0].unit == "Gy"


def test_a_double_click_selects_a_column_to_be_typed_over(counted):
    counted.table.set_columns("Mean[Gy], Max[Gy],D95%[Gy]")
    counted.table.table.horizontalHeader().sectionDoubleClicked.emit(2)
    assert counted.table.columns.selectedText().strip() == "Max[Gy]"


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


def test_constraints_pass_fail_or_are_not_evaluated(counted, qtbot):
    mean = curve(counted, "lung").mean
    counted.constraints.text.setPlainText(
        f"Lung: Mean[Gy] < {mean + 1:.2f}  # a note\n\nlung: Mean[Gy] < {mean - 1:.2f}\ncord: Max[Gy] < 45\n"
        "heart: V95%[%] >= 90"
    )
    told = verdicts(counted)
    assert [row[2] for row in told] == ["✓ pass", "✗ fail", "? not evaluated", "? not evaluated"]
    assert told[0][1] == f"{mean:.4g} Gy"
    assert "no structures are named 'cord'" in counted.constraints.table.item(2, 2).toolTip()
    counted.scale_box.prescription.box.setValue(10.0)
    settle(qtbot, counted)
    assert verdicts(counted)[3][2] == "✓ pass"


def test_constraints_that_wait_for_the_whole_dose_say_so(counted, qtbot, monkeypatch):
    monkeypatch.setattr(counted.controller.whole, "ask", lambda _: ())
    counted.constraints.text.setPlainText(
        "lung: Paddick CI(prescription=15Gy) > 0.5\ncord: GI(prescription=15Gy) < 3\nlung: V95%[%] > 3"
    )
    table = counted.constraints.table
    for why in (COUNTING, "the device has too little memory"):
        counted.controller.whole.missing = why
        counted.controller.redraw()
        settle(qtbot, counted)
        assert [row[1:] for row in verdicts(counted)] == [["–", "? not evaluated"]] * 3
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
def test_a_bad_constraint_is_a_sentence(counted, line):
    counted.constraints.text.setPlainText(f"heart: Mean[Gy] < 99\n{line}")
    assert counted.constraints.problem.text().startswith("Line 2: ")
    assert len(verdicts(counted)) == 1


def test_constraints_are_saved_and_loaded(counted, tmp_path):
    text = "lung: Mean[Gy] < 20\nheart: D2%[Gy] <= 50"
    counted.constraints.text.setPlainText(text)
    counted.constraints.save(tmp_path / "c.txt")
    counted.constraints.text.clear()
    counted.constraints.load(tmp_path / "c.txt")
    assert counted.constraints.text.toPlainText().strip() == text
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(ValueError, match="no text in UTF-8"):
        counted.constraints.load(tmp_path / "bad.txt")


# -- axes -------------------------------------------------------------------------------------------------------------


def drawn(panel, number=0):
    return panel.plot._items[number].getData()


def test_axes_are_relative_or_absolute_each(counted, qtbot):
    lung = curve(counted, "lung")
    counted.scale_box.prescription.box.setValue(20.0)
    for unit, volume, factor_x, factor_y in (
        ("Gy", "%", 1.0, 100 / lung.volume_cc),
        ("Gy", "cc", 1.0, 1.0),
        ("%", "cc", 5.0, 1.0),
        ("%", "%", 5.0, 100 / lung.volume_cc),
    ):
        counted.axes_box.dose.setCurrentText(unit)
        counted.axes_box.volume.setCurrentText(volume)
        settle(qtbot, counted)
        x, y = drawn(counted)
        doses, volumes = factor_x * lung.doses, factor_y * lung.volumes_cc
        at = [int(np.abs(doses - place).argmin()) for place in x[1:]]  # some of all points are drawn
        np.testing.assert_allclose(x[1:], doses[at])
        np.testing.assert_allclose(y[1:], volumes[at])
        assert (at[0], at[-1]) == (0, len(doses) - 1)
        assert volume in counted.plot.getAxis("left").labelText
        assert unit in counted.plot.getAxis("bottom").labelText


def test_percent_of_no_prescription_is_a_sentence(counted, qtbot):
    counted.axes_box.dose.setCurrentIndex(1)
    settle(qtbot, counted)
    assert "Give a prescription" in counted.notes.text()
    assert "Gy" in counted.plot.getAxis("bottom").labelText


def test_a_differential_histogram_sums_to_the_volume(counted, qtbot):
    counted.axes_box.kind.setCurrentText("differential")
    counted.axes_box.volume.setCurrentText("cc")
    for log in (False, True):
        counted.axes_box.log.setChecked(log)
        settle(qtbot, counted)
        edges = drawn(counted, 1)[0]
        np.testing.assert_allclose(drawn(counted, 0)[0], edges)
        for number, name in enumerate(("lung", "heart")):
            x, y = drawn(counted, number)
            assert len(x) == len(y) + 1
            assert y.sum() == pytest.approx(curve(counted, name).volume_cc)


def test_the_line_keeps_its_dose_on_a_logarithmic_axis(counted, qtbot):
    counted.tools.dose.setChecked(True)
    settle(qtbot, counted)
    counted.link.drag_dose(10.0)
    assert counted.plot.dose_line.value() == pytest.approx(10.0)
    counted.axes_box.log.setChecked(True)
    settle(qtbot, counted)
    assert counted.plot.dose_line.value() == pytest.approx(1.0)
    x, y = drawn(counted)
    np.testing.assert_allclose(np.interp(1.0, x, y), curve(counted, "lung").percent_at(10.0), rtol=1e-3)


def test_the_volume_line_has_no_meaning_in_a_differential_plot(counted, qtbot):
    counted.tools.volume.setChecked(True)
    counted.axes_box.kind.setCurrentText("differential")
    settle(qtbot, counted)
    assert not counted.plot.volume_line.isVisible()
    assert not counted.tools.volume.isEnabled()
