"""The dock widget "Laser speckle", live: layers, read-outs, baseline, recording, curves."""

import csv
import time

import numpy as np
import pytest
import tifffile

from napari_gpubio.core.napari_io import carried, volume_layer
from napari_gpubio.gui.history import history_of
from napari_gpubio.speckle import ContrastSettings, contrast
from napari_gpubio.speckle.gui.panel_layers import LIVE_MAP, LIVE_RAW
from napari_gpubio.speckle.gui.plots import with_gaps
from napari_gpubio.speckle.indices import expected_k2
from napari_gpubio.speckle.settings import NoIndex, RelativeFlow, Spatial
from tests.dock_widgets import undo, wait_until
from tests.sentences import says
from tests.speckle.gui.panel_samples import (
    SHAPE,
    add_stack,
    box,
    draw,
    layer,
    run,
    run_live,
    simulate,
    speckle,
    start,
    stop,
    use_camera,
    wait_drawn,
)
from tests.speckle.live.test_live_camera import StandIn


@pytest.fixture
def still(viewer, panel):
    """A stack whose frames are all alike is the source."""
    frame = speckle(1)[0]
    add_stack(viewer, np.stack([frame] * 3))
    return frame


def test_the_live_map_is_that_of_the_engine_and_its_layers_are_kept(viewer, panel, qtbot, still):
    run_live(qtbot, panel)
    shown, raw = layer(viewer, LIVE_MAP), layer(viewer, LIVE_RAW)
    data, expected = shown.data, contrast(still, ContrastSettings(), device="cpu").index
    np.testing.assert_array_equal(data, expected)
    np.testing.assert_array_equal(raw.data, still)
    assert (shown.name, shown.axis_labels, raw.visible) == ("live SFI (1/s)", ("y", "x"), False)
    assert carried(shown, "parameters")["speckle"]["index"]["exposure_ms"] == 10.0

    names = {one.name for one in viewer.layers}
    shown.contrast_limits = (3.0, 77.0)
    data[:] = -1.0
    run_live(qtbot, panel)
    assert shown.data is data, "the map is changed in its own memory"
    np.testing.assert_array_equal(data, expected)
    assert tuple(shown.contrast_limits) == (3.0, 77.0)

    panel.source_box.stack.layer_box.choose(add_stack(viewer, speckle(3, (30, 32)), "smaller"))
    run_live(qtbot, panel)
    assert {one.name for one in viewer.layers} == names | {"smaller"}
    assert layer(viewer, LIVE_MAP).data.shape == (30, 32)


def test_settings_are_followed_while_it_runs(viewer, panel, qtbot, still):
    start(qtbot, panel)
    panel.contrast_box.choose_index("none")
    panel.contrast_box.form.widget("window").value = 7
    wait_until(qtbot, lambda: layer(viewer, LIVE_MAP).name == "live K")
    wait_drawn(qtbot, panel, 2)
    stop(qtbot, panel)
    want = contrast(still, ContrastSettings(mode=Spatial(window=7), index=NoIndex()), device="cpu").contrast
    np.testing.assert_array_equal(layer(viewer, LIVE_MAP).data, want)
    low, high = layer(viewer, LIVE_MAP).contrast_limits
    assert 0 < low < high < 3, "another quantity has limits of its own"


def test_limits_stay_until_they_are_rescaled(viewer, panel, qtbot, still):
    run_live(qtbot, panel)
    shown = layer(viewer, LIVE_MAP)
    panel.map_box.low.setValue(5.0)
    panel.map_box.high.setValue(50.0)
    assert tuple(shown.contrast_limits) == (5.0, 50.0)
    panel.map_box.rescale_button.click()
    finite = shown.data[np.isfinite(shown.data)]
    np.testing.assert_allclose(shown.contrast_limits, np.percentile(finite, (1, 99)), rtol=1e-6)
    panel.map_box.on_canvas.setChecked(True)
    assert shown.colorbar.visible


def test_camera_facts_come_from_the_stack(viewer, panel):
    facts = {"exposure_ms": 4.0, "saturation_adu": 4095, "dark_adu": 64.0}
    add_stack(viewer, metadata={"napari_gpubio": facts})
    settings = panel.contrast_box.settings
    assert (settings.index.exposure_ms, settings.mask.saturation) == (4.0, 4095)
    assert panel.contrast_box.noise.model.dark_adu == 64.0
    assert says(panel.source_box.stack.description.text(), "6 frames", "56 × 40", "uint16", "4 ms", "64 ADU")


def test_a_brain_is_not_suggested_as_frames_and_frames_in_pixels_say_so(viewer, panel):
    data, keywords, _ = volume_layer(np.zeros((5, 6, 7), np.int16), np.eye(4), "T1")
    viewer.add_image(data, **keywords)
    box = panel.source_box.stack.layer_box
    assert box.layer is None
    assert box.findText("T1") >= 0  # it can be chosen, though
    stack = add_stack(viewer)
    assert box.layer == stack
    assert [note for note in panel.input_notes() if "pixel" in note] == [
        f"{stack.name} has no pixel size; maps and regions are in pixels"
    ]
    stack.units = ("pixel", "um", "um")
    assert panel.input_notes() == ()


def test_readouts(viewer, panel, qtbot):
    frames = np.minimum(speckle(4, top=4095), 4094)
    frames[:, 0, :14] = 4095
    add_stack(viewer, frames, metadata={"napari_gpubio": {"saturation_adu": 4095}})
    readout, values = panel.live_box.readout, panel.live_box.readout.values
    assert readout.isHidden(), "there is nothing to be read before frames come"
    start(qtbot, panel)
    assert not readout.isHidden()
    wait_until(qtbot, lambda: values["level"].text() != "–")
    assert values["saturated"].text() == f"{100 * 14 / (SHAPE[0] * SHAPE[1]):.2f} %"
    assert values["dropped"].text().startswith("0 of ")
    assert values["ring"].text().endswith("of 16")
    assert 5 < float(values["camera"].text().split()[0]) < 35
    stop(qtbot, panel)
    assert values["camera"].text() == "–"
    assert values["dropped"].text() != "–", "counts stay"


def test_frames_not_processed_in_time_are_counted(viewer, panel, qtbot, still, monkeypatch):
    process = panel.runner.process
    slow = type(process).__call__
    monkeypatch.setattr(type(process), "__call__", lambda self, pixels: (time.sleep(0.05), slow(self, pixels))[1])
    panel.source_box.stack.rate.setValue(500)
    panel.live_box.mode.setCurrentText("most recent")
    start(qtbot, panel, 5)
    status = panel.runner.loop.status()
    assert status.skipped > 0
    assert status.dropped == 0
    stop(qtbot, panel)
    status = panel.runner.loop.status()
    assert status.received == status.processed + status.skipped + status.waiting
    assert panel.live_box.readout.values["skipped"].text() == f"{status.skipped:,}"


def test_flow_that_doubles_is_seen_in_the_vessel_alone(viewer, panel, qtbot):
    page = simulate(panel, (192, 256), rate_hz=200.0)
    panel.map_box.baseline_maps.setValue(20)
    start(qtbot, panel)
    rows = page.camera.vessel_rows
    draw(qtbot, panel, box(rows.start + 4, 10, rows.stop - 4, 246), box(4, 10, rows.start - 4, 246))
    panel.map_box.baseline_button.click()
    wait_until(qtbot, lambda: panel.runner.course.baseline is not None)
    assert isinstance(panel.contrast_box.settings.index, RelativeFlow)
    page.flow.setValue(40)
    number = len(panel.runner.course) + 20  # some maps of the old flow may be on their way
    wait_until(qtbot, lambda: len(panel.runner.course) > number + 30)
    stop(qtbot, panel)
    exact = float(expected_k2(10, 20) / expected_k2(20, 40))
    vessel = panel.runner.course.relative_flow("region 1")[number:]
    beside = panel.runner.course.relative_flow("region 2")[number:]
    # the camera has but 64 steps of speckle, so that its frames are not all independent
    assert vessel.mean() == pytest.approx(exact, rel=0.06)
    assert beside.mean() == pytest.approx(1.0, rel=0.06)
    assert panel.map_box.baseline_text.text().startswith("taken")
    assert panel.map_box.color_bar.title == layer(viewer, LIVE_MAP).name == "live relative flow"


def test_a_stack_has_so_many_maps_for_a_baseline(viewer, panel, qtbot):
    """Live imaging goes on without end, and so has any number."""
    maps, form = panel.map_box.baseline_maps, panel.contrast_box.form
    assert maps.value() == 30
    add_stack(viewer, speckle(8))
    assert maps.value() == maps.maximum() == 8
    form.widget("mode").value, form.widget("frames").value = "temporal", 4
    assert maps.value() == 5
    start(qtbot, panel, 1)
    assert maps.value() == panel.runner.process.recipe.baseline_maps == 30
    stop(qtbot, panel)
    assert maps.value() == 5
    maps.setValue(3)
    form.widget("mode").value = "spatial"
    assert maps.value() == 3, "what was typed stays"


@pytest.fixture
def with_baseline(panel, qtbot, still):
    """Live imaging goes on, with a baseline of two maps."""
    panel.map_box.baseline_maps.setValue(2)
    start(qtbot, panel)
    panel.controller.take_baseline()
    wait_until(qtbot, lambda: panel.runner.process.baseline is not None)
    return panel


def test_a_baseline_is_dropped_with_a_note(with_baseline, qtbot):
    with_baseline.contrast_box.form.widget("window").value = 9
    assert "the baseline was dropped" in with_baseline.message
    stop(qtbot, with_baseline)


def test_a_baseline_is_of_its_source(with_baseline, qtbot):
    panel, before = with_baseline, with_baseline.runner.process.baseline
    stop(qtbot, panel)
    run_live(qtbot, panel)
    assert panel.runner.process.baseline is before, "it stays over stop and start"
    simulate(panel, SHAPE)
    run_live(qtbot, panel)
    assert panel.runner.process.baseline is not before


def test_regions_that_are_there_are_measured_from_the_first_map_on(viewer, panel, qtbot):
    """A baseline of the first maps is theirs too, wherever the map will lie."""
    add_stack(viewer, scale=(1, 2.0, 2.0), translate=(0, 10, 20), units=("pixel", "um", "um"))
    draw(qtbot, panel, box(5, 5, 20, 20))
    panel.map_box.baseline_maps.setValue(1)
    panel.contrast_box.choose_index("relative")
    start(qtbot, panel)
    wait_until(qtbot, lambda: len(panel.runner.course) > 5)
    stop(qtbot, panel)
    course = panel.runner.course
    assert course.baseline.start_s == course.times_s[0]
    assert course.relative_flow("region 1")[0] == 1.0
    assert np.isfinite(course.relative_flow("region 1")).all()
    assert panel.course_box.missing.isHidden()


def test_a_region_that_is_not_in_the_baseline_is_reported(with_baseline, qtbot):
    panel = with_baseline
    draw(qtbot, panel, box(5, 5, 20, 20))
    wait_until(qtbot, lambda: "No relative flow of region 1" in panel.course_box.missing.text())
    panel.map_box.baseline_button.click()
    wait_until(qtbot, lambda: panel.course_box.missing.isHidden())
    stop(qtbot, panel)
    assert panel.runner.course.relative_flow("region 1")[-1] == pytest.approx(1.0)


def test_the_exposure_is_the_cameras(panel, qtbot, monkeypatch):
    """A camera that takes 7 ms whatever is set."""
    core = StandIn(list(range(40)), getExposure=7.0)
    monkeypatch.setattr(core, "setExposure", lambda _: None)
    use_camera(monkeypatch, panel, core)
    panel.live_box.start_button.click()
    wait_until(qtbot, lambda: panel.runner.process.recipe.exposure_ms == 7.0)
    assert "7 ms" in panel.message
    panel.contrast_box.form.widget("exposure_ms").value = 3
    assert panel.runner.process.recipe.exposure_ms == 7.0
    stop(qtbot, panel)


def test_curves_events_and_the_table(viewer, panel, qtbot, tmp_path, still):
    start(qtbot, panel)
    draw(qtbot, panel, box(5, 5, 20, 20))
    wait_until(qtbot, lambda: len(panel.runner.course) > 5)
    panel.course_box.label.setText("stimulus, on")
    panel.course_box.mark_event()
    draw(qtbot, panel, box(22, 5, 36, 20))
    wait_until(qtbot, lambda: "region 2" in panel.runner.course.regions)
    stop(qtbot, panel)
    panel.course_box.write_csv(tmp_path / "course.csv")
    with (tmp_path / "course.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["event"] for row in rows if row["event"]] == ["stimulus, on"]
    samples = [row for row in rows if not row["event"]]
    k2 = contrast(still, ContrastSettings(index=NoIndex()), device="cpu").contrast.astype(float) ** 2
    assert float(samples[-1]["region 1 K^2"]) == pytest.approx(k2[5:20, 5:20].mean(), rel=1e-6)
    assert samples[0]["region 2 K^2"] == "nan", "a region that is drawn late has no past"
    assert len(panel.course_box.plot.curves) == 2


def record_as(monkeypatch, panel, path, kind):
    """Press Record, and answer the file dialog with a name without an extension and a kind of file."""
    answer = "napari_gpubio.gui.file_dialogs.QFileDialog.getSaveFileName"
    monkeypatch.setattr(answer, lambda *_: (str(path), kind))
    panel.live_box.record_button.click()


def test_a_recording_holds_every_frame(viewer, panel, qtbot, tmp_path, monkeypatch):
    frames, record = speckle(5), panel.live_box.record_button
    add_stack(viewer, frames)
    start(qtbot, panel, 1)
    record_as(monkeypatch, panel, tmp_path / "run", "TIFF (*.tif)")
    wait_until(qtbot, lambda: panel.runner.recording.written > 6)
    assert record.text() == "End recording"
    record.click()
    wait_until(qtbot, lambda: not panel.runner.is_recording and record.text() == "Record…")
    stop(qtbot, panel)
    written = tifffile.imread(tmp_path / "run.tif")
    assert f"{len(written):,} frames written" in panel.live_box.record_text.text()
    assert "none dropped" in panel.live_box.record_text.text()
    with (tmp_path / "run.csv").open() as file:
        numbers = [int(row["number"]) for row in csv.DictReader(file)]
    np.testing.assert_array_equal(written, frames[np.array(numbers) % 5])


def test_a_recording_ends_with_the_live_view(panel, qtbot, still, tmp_path, monkeypatch):
    later = []
    panel.runner.ended.connect(lambda _: panel.runner.status_changed.connect(later.append))
    start(qtbot, panel, 1)
    record_as(monkeypatch, panel, tmp_path / "run", "zarr (*.zarr)")
    wait_until(qtbot, lambda: panel.runner.recording.written > 1)
    stop(qtbot, panel)
    wait_until(qtbot, lambda: not panel.runner.is_recording and later != [])
    assert "recorded to run.zarr" in panel.live_box.record_text.text()
    assert panel.message == ""
    assert (tmp_path / "run.zarr").exists()


def test_the_end_of_a_source_is_reported(viewer, panel, qtbot):
    add_stack(viewer)
    panel.source_box.stack.again.setChecked(False)
    panel.live_box.start_button.click()
    wait_until(qtbot, lambda: not panel.runner.is_live and "the source has no more frames" in panel.status)
    assert panel.live_box.start_button.text() == "Start live"


def test_the_displayed_map_is_the_live_one_again(viewer, panel, qtbot, still):
    """After a run of the whole stack, Start live shows and chooses the live map."""
    run_live(qtbot, panel)
    run(qtbot, panel)
    assert panel.map_box.layer.name == "SFI (1/s) of frames"
    run_live(qtbot, panel)
    assert panel.map_box.layer.name == "live SFI (1/s)"
    assert [one.name for one in viewer.layers if one.visible] == ["live SFI (1/s)"]


def test_start_and_stop_at_once_and_a_layer_that_is_deleted_while_it_is_live(viewer, panel, qtbot, still):
    for _ in range(3):
        panel.live_box.start_button.click()
        panel.live_box.start_button.click()
        wait_until(qtbot, lambda: not panel.runner.is_live and panel.live_box.start_button.isEnabled())
    assert panel.message == ""
    start(qtbot, panel)
    viewer.layers.remove(layer(viewer, LIVE_MAP).name)
    wait_drawn(qtbot, panel, 3)
    assert layer(viewer, LIVE_MAP) is not None
    stop(qtbot, panel)


def test_a_curve_has_no_line_over_a_stop():
    times, values = np.array([0.0, 0.1, 0.2, 9.0, 9.1]), np.arange(5.0)
    shown_times, shown = with_gaps(times, values)
    np.testing.assert_array_equal(shown, [0, 1, 2, np.nan, 3, 4])
    assert shown_times[3] == 0.2
    for steady in (np.arange(5.0) * 30, np.array([0.0]), np.array([])):
        assert with_gaps(steady, steady)[0] is steady


def test_live_imaging_whose_start_is_undone_ends(viewer, panel, qtbot):
    simulate(panel)
    history = history_of(viewer)
    history.note_act()
    start(qtbot, panel)
    assert history.can_undo
    undo(viewer)
    wait_until(qtbot, lambda: not panel.runner.is_live and panel.live_box.start_button.text() == "Start live")
    assert len(viewer.layers) == 0
    start(qtbot, panel)
    assert "live raw frame" in viewer.layers
    stop(qtbot, panel)
