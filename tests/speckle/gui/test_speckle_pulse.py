"""The dock widget "Laser speckle": the beat of regions, in the panel and in the script that is copied."""

import csv

import numpy as np
import pytest
import tifffile

from napari_gpubio.speckle import contrast, region_curves
from napari_gpubio.speckle.gui.plots import LIVE, STACK
from napari_gpubio.speckle.pulsatility import region_pulsatility
from tests.dock_widgets import save_scripts_as, script_of, shown_by_script, wait_until
from tests.speckle.gui.panel_samples import add_stack, box, draw, run
from tests.speckle.test_speckle_region_files import FPS, SHAPE, beating_frames

LEFT, RIGHT = (3, 3, 13, 10), (3, 11, 13, 17)


@pytest.fixture(scope="module")
def frames():
    return beating_frames()


def pixels(top, left, bottom, right):
    mask = np.zeros(SHAPE, bool)
    mask[top:bottom, left:right] = True
    return mask


def measure(panel, qtbot):
    panel.pulse_box.measure_button.click()
    wait_until(qtbot, lambda: bool(panel.pulse_box.pulses))
    return panel.pulse_box


def cells(table):
    rows, columns = range(table.rowCount()), range(table.columnCount())
    return [[table.item(row, column).text() for column in columns] for row in rows]


def drawn(viewer, panel, qtbot, frames):
    """Run the stack, with one region that beats and one that does not."""
    add_stack(viewer, frames)
    panel.source_box.stack.rate.setValue(FPS)
    run(qtbot, panel)
    draw(qtbot, panel, box(*LEFT), box(*RIGHT))


def test_rate_and_index_of_each_region_are_those_of_the_engine(viewer, panel, qtbot, frames, tmp_path):
    assert "press Measure" in panel.pulse_box.text.text()
    assert not panel.pulse_box.csv_button.isEnabled()
    drawn(viewer, panel, qtbot, frames)
    shown = measure(panel, qtbot)
    curves = region_curves(contrast(frames, device="cpu"), {"region 1": pixels(*LEFT), "region 2": pixels(*RIGHT)})
    expected = [region_pulsatility(curve, FPS) for curve in curves]
    for got, true in zip(shown.pulses, expected, strict=True):
        assert (got.name, got.notes) == (true.name, true.notes)
        np.testing.assert_array_equal((got.rate_bpm, got.index, got.index_error), (true.rate_bpm, true.index,
                                                                                   true.index_error))  # fmt: skip
    beating, steady = cells(shown.table)
    assert beating[1].startswith("1") and "±" in beating[1] and "±" in beating[2]  # noqa: PT018 - one row
    assert beating[3] == str(expected[0].beats)
    assert steady[1:] == ["no beat", "", ""]
    assert "no beat between 40 and 800 /min" in shown.notes.text()
    assert "at 40 frames/s" in shown.text.text()
    shown.write_csv(tmp_path / "pulse.csv")
    with (tmp_path / "pulse.csv").open(encoding="utf-8", newline="") as file:
        head, row, _ = csv.reader(file)
    assert float(row[head.index("pulsatility index")]) == expected[0].index
    assert (tmp_path / "pulse beats.csv").is_file()


def test_another_band_or_region_is_measured_again(viewer, panel, qtbot, frames):
    drawn(viewer, panel, qtbot, frames)
    shown = measure(panel, qtbot)
    shown.form.widget("slowest_bpm").value = 200.0
    wait_until(qtbot, lambda: not shown.pulses[0].has_beat)
    assert "no beat between 200 and 800 /min" in shown.notes.text()
    shown.form.widget("slowest_bpm").value = 40.0
    wait_until(qtbot, lambda: shown.pulses[0].has_beat)
    draw(qtbot, panel, box(2, 2, 14, 9))
    wait_until(qtbot, lambda: len(shown.pulses) == 3)
    assert shown.pulses[2].has_beat
    shown.form.widget("slowest_bpm").value = 900.0
    assert "the slowest beat is 900 /min" in panel.message


def test_a_live_time_course_is_measured_at_its_own_times(panel, qtbot):
    course, rng = panel.course_box.courses[LIVE], np.random.default_rng(0)
    times = np.sort(rng.uniform(0.0, 20.0, 800))
    for time_s in times:
        flow = 1.0 + 0.2 * np.sin(2 * np.pi * 1.5 * time_s)
        course.append(time_s, {"region 1": 0.01 / flow})
    course.append(times[-1], {"region 1": 0.01})  # of the same moment
    shown = measure(panel, qtbot)
    assert shown.pulses[0].rate_bpm == pytest.approx(90.0, abs=0.2)
    assert shown.pulses[0].index == pytest.approx(0.4, rel=0.05)


def test_without_a_time_course(viewer, panel, qtbot):
    panel.pulse_box.measure_button.click()
    assert "there is no time course to measure a beat in" in panel.message
    panel.course_box.which.setCurrentText(STACK)
    panel.pulse_box.measure_button.click()
    assert "there is no time course to measure a beat in" in panel.message


def test_a_frame_rate_that_shows_no_beat_is_reported_in_the_panel(viewer, panel, qtbot, frames):
    drawn(viewer, panel, qtbot, frames)
    panel.source_box.stack.rate.setValue(1.0)
    run(qtbot, panel)
    panel.pulse_box.measure_button.click()
    wait_until(qtbot, lambda: "needs more than 1.33" in panel.pulse_box.text.text())
    assert panel.pulse_box.pulses == []


@pytest.mark.daily
def test_the_copied_script_writes_the_same_numbers(viewer, panel, qtbot, frames, tmp_path, monkeypatch):
    tifffile.imwrite(tmp_path / "frames.tif", frames)
    drawn(viewer, panel, qtbot, frames)
    shown = measure(panel, qtbot)
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    with (tmp_path / "pulsatility of frames.csv").open(encoding="utf-8", newline="") as file:
        head, beating, steady = csv.reader(file)
    assert float(beating[head.index("pulsatility index")]) == shown.pulses[0].index
    assert float(beating[head.index("beat rate [1/min]")]) == shown.pulses[0].rate_bpm
    assert steady[head.index("beats")] == "0"
    assert (tmp_path / "curves of frames.csv").is_file()
