"""The dock widget "Fiber tracking": colors, filters, picked fibers and files."""

import numpy as np
import pytest
from qtpy.QtWidgets import QComboBox
from superqt import QLabeledDoubleRangeSlider

from napari_gpubio import tracts
from tests.dock_widgets import Mouse, button, moved
from tests.tracts.gui.tracking_samples import (
    CALLOSUM,
    by_api,
    choose_in_list,
    click,
    combo_with,
    fibers_layers,
    go_to,
    on_screen,
    settle,
    shown_numbers,
    shown_texts,
    tractogram,
)

# -------------------------------------------------------------------------------------------------------- results

SAVE_DIALOG = "napari_gpubio.gui.file_dialogs.QFileDialog.getSaveFileName"


def test_color_by(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    layer, box = panel.results.layer, combo_with(panel, "mean_fa")
    assert box.currentData() == "direction"
    offered = [box.itemText(i) for i in range(box.count())]
    assert {"length (mm)", "mean FA", "FA along the fiber", "stop reason"} <= set(offered)
    box.setCurrentIndex(box.findData("mean_fa"))
    assert layer.color_by == "mean_fa"
    low, high = layer.color_bar_limits
    limits = next(text for text in shown_texts(panel) if " to " in text)
    assert f"{low:.3g}" in limits
    assert f"{high:.3g}" in limits
    box.setCurrentIndex(box.findData("direction"))
    assert not any(" to " in text for text in shown_texts(panel))
    click(viewer, moved(CALLOSUM, 0.0, -8.0, 0.0))
    settle(qtbot, panel)
    assert box.currentData() == panel.results.layer.color_by == "direction"


def test_the_box_follows_the_layer_in_napari(viewer, panel, qtbot):
    """Another color in napari's controls, and a layer that the user deletes."""
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    layer, box = panel.results.layer, combo_with(panel, "mean_fa")
    layer.color_by = "mean_fa"
    assert box.currentData() == "mean_fa"
    assert any(" to " in text for text in shown_texts(panel))
    viewer.layers.remove(layer)
    assert panel.results.layer is None
    assert not button(panel, "Save fibers…").isEnabled()
    assert any("Click in the brain" in text for text in shown_texts(panel))


def filter_slider(panel):
    return panel.results.findChild(QLabeledDoubleRangeSlider)


@pytest.mark.parametrize("measure", ["length_mm", "mean_fa", "drift"])
def test_filtering_by_a_range(viewer, panel, qtbot, measure):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    layer, box, slider = panel.results.layer, combo_with(panel, "drift"), filter_slider(panel)
    box = next(b for b in panel.results.findChildren(QComboBox) if b.findData("drift") >= 0 and b.findData("fa") < 0)
    box.setCurrentIndex(box.findData(measure))
    values = np.asarray(layer.per_fiber[measure], float)
    assert layer.shown.all()
    low, high = np.percentile(values, [30, 70])
    slider.setValue((low, high))
    inside = (values >= low) & (values <= high)
    wrong = np.count_nonzero(layer.shown != inside)
    assert 0.2 * len(values) < layer.shown.sum() < 0.65 * len(values)
    assert wrong <= 0.1 * len(values)  # the slider shows a few digits
    slider.setValue((values.min(), values.max()))
    assert layer.shown.all()


def test_the_slider_shows_the_filter_that_is_on(viewer, two):
    choose_in_list(two, 0)
    slider, layer = filter_slider(two), two.results.layer
    low, high = slider.value()
    slider.setValue((low + 0.5 * (high - low), high))
    count = layer.shown.sum()
    assert 0 < count < len(layer.shown)
    choose_in_list(two, 1)
    choose_in_list(two, 0)
    everything = slider.value()[0] <= slider.minimum() + 1e-6
    assert layer.shown.sum() == (len(layer.shown) if everything else count)


def test_a_picked_fiber_shows_its_numbers(viewer, panel, qtbot):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    layer = fibers_layers(viewer)["bundle 1"]
    fibers = tractogram(layer)
    far = np.linalg.norm(fibers.points - np.float32(CALLOSUM), axis=1).argmax()
    go_to(viewer, fibers.points[far])
    Mouse(viewer, "Control", zoom=20.0).click(on_screen(fibers.points[far]))
    picked = layer.selected_fiber
    assert picked is not None
    rows = {row.name: row.text for row in panel.results.table.rows if row.group == f"bundle 1, fiber {picked}"}
    assert "ended" in rows
    assert rows["length (mm)"] == f"{fibers.per_fiber['length_mm'][picked]:.3g}"
    assert rows["mean FA"] == f"{fibers.per_fiber['mean_fa'][picked]:.3g}"
    assert np.allclose(panel.bundles.current.center_mm, CALLOSUM, atol=1e-4)
    click(viewer, moved(CALLOSUM, 0.0, -8.0, 0.0))
    settle(qtbot, panel)
    assert "ended" not in shown_numbers(panel)


@pytest.mark.parametrize("suffix", [".trk", ".tck", ".trx", ".vtk"])
def test_saving(viewer, panel, qtbot, tmp_path, monkeypatch, suffix):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    path = tmp_path / f"fibers{suffix}"
    monkeypatch.setattr(SAVE_DIALOG, lambda *_, **__: (str(path), ""))
    button(panel, "Save fibers…").click()
    settle(qtbot, panel)
    back = tracts.read_tractogram(path)
    fibers = tractogram(panel.results.layer)
    assert len(back) == len(fibers)
    assert np.abs(back.points - fibers.points).max() < 1e-3
    assert panel.message == ""


def test_saving_says_that_it_is_done(viewer, panel, qtbot, tmp_path):
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    panel.save(tractogram(panel.results.layer), str(tmp_path / "fibers.trk"))
    settle(qtbot, panel)
    assert "fibers.trk" in panel.status


def test_saving_what_cannot_be_saved_is_a_sentence(viewer, panel, qtbot, tmp_path, monkeypatch):
    assert not button(panel, "Save fibers…").isEnabled()
    click(viewer, CALLOSUM)
    settle(qtbot, panel)
    for bad in (tmp_path / "fibers.docx", tmp_path / "no such folder" / "fibers.trk"):
        monkeypatch.setattr(
            "napari_gpubio.gui.file_dialogs.QFileDialog.getSaveFileName",
            lambda *_, bad=bad, **__: (str(bad), ""),
        )
        panel.clear_message()
        button(panel, "Save fibers…").click()
        settle(qtbot, panel)
        assert "could not be saved" in panel.message
    monkeypatch.setattr(SAVE_DIALOG, lambda *_, **__: ("", ""))
    panel.clear_message()
    button(panel, "Save fibers…").click()
    assert panel.message == ""


def test_opening_fibers(viewer, panel, qtbot, tmp_path):
    made = by_api(panel, CALLOSUM)
    path = tmp_path / "mine.tck"
    made.save(path)
    panel.open_fibers(str(path))
    settle(qtbot, panel)
    layer = fibers_layers(viewer)["mine.tck"]
    assert len(layer.lines) == len(made)
    assert np.allclose(layer.data_to_world(layer.points[0]), on_screen(made.points[0]), atol=1e-3)
    panel.open_fibers(str(tmp_path / "missing.trk"))
    settle(qtbot, panel)
    assert "missing.trk" in panel.message


def test_a_changed_setting_leaves_opened_fibers_alone(viewer, panel, qtbot, tmp_path):
    path = tmp_path / "mine.trk"
    by_api(panel, CALLOSUM).save(path)
    panel.open_fibers(str(path))
    settle(qtbot, panel)
    panel.settings_form.widget("fa_stop").value = 0.25
    settle(qtbot, panel)
    assert panel.message == ""
    assert list(fibers_layers(viewer)) == ["mine.trk"]
