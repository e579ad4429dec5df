"""The dock widget "Fiber tracking": colors, filters, picked fibers and files."""

import csv
import io

import numpy as np
import pyqtgraph
import pytest
from qtpy.QtWidgets import QApplication, QComboBox
from superqt import QLabeledDoubleRangeSlider

from napari_gpubio import tractograms
from napari_gpubio.tractograms.io.tractograms import write_tractogram
from tests.dock_widgets import Mouse, moved, save_scripts_as
from tests.fibers.gui.tracking_samples import CALLOSUM, on_screen, tractogram


def test_color_by(viewer, one):
    layer, box = one.panel.results.layer, one.combo_with("mean_fa")
    assert box.currentData() == "direction"
    offered = [box.itemText(i) for i in range(box.count())]
    assert {"length (mm)", "mean FA", "FA along the fiber", "stop reason"} <= set(offered)
    box.setCurrentIndex(box.findData("mean_fa"))
    assert layer.color_by == "mean_fa"
    limits = next(text for text in one.texts if " to " in text)
    shown = [float(word) for word in limits.split()[:3:2]]
    assert np.allclose(shown, layer.color_bar_limits, atol=5e-4)
    layer.color_by = "direction"  # in napari's controls
    assert box.currentData() == "direction"
    assert not any(" to " in text for text in one.texts)
    one.click(moved(CALLOSUM, 0.0, -8.0, 0.0))
    assert box.currentData() == one.panel.results.layer.color_by == "direction"
    viewer.layers.remove(layer)
    assert one.panel.results.layer is None
    assert not one.button("Save fibers…").isEnabled()
    assert any("Click in the brain" in text for text in one.texts)


def test_color_by_an_image_of_the_viewer(viewer, one):
    layer = one.panel.results.layer
    box = one.combo_with("mean_fa")
    box.fill()
    box.setCurrentIndex(box.findText("image: study FA"))
    assert layer.color_by == "study FA"
    assert box.currentText() == "study FA"
    assert np.nanmax(layer.per_point["study FA"]) <= 1
    low, high = layer.contrast_limits
    assert any(f"{low:.3g}" in text and f"{high:.3g}" in text and "study FA" in text for text in one.texts)
    one.click(moved(CALLOSUM, 0.0, -6.0, 0.0))
    assert one.panel.results.layer.color_by == "study FA", "new fibers are colored by it, too"


def test_fibers_that_napari_opened_are_described_and_filtered_by_their_own_numbers(viewer, one, tmp_path):
    made = one.fibers()
    ours = tractograms.Tractogram(
        points=made.points, offsets=made.offsets, affine=made.affine, shape=made.shape,
        per_fiber={"weight": np.arange(len(made), dtype=np.float32)},
    )  # fmt: skip
    write_tractogram(tmp_path / "theirs.trx", ours)
    (layer,) = viewer.open(str(tmp_path / "theirs.trx"), plugin="napari-gpubio")
    viewer.layers.selection.active = layer
    results = one.panel.results
    assert results.layer == layer
    box = next(b for b in results.findChildren(QComboBox) if b.findText("weight") >= 0 and b.findData("direction") < 0)
    assert [box.itemData(n) for n in range(box.count())] == ["length_mm", "weight"]
    box.setCurrentIndex(box.findData("weight"))
    slider = filter_slider(one)
    slider.setValue((3, slider.maximum()))
    assert not layer.shown[:3].any()
    assert layer.shown[3:].all()
    viewer.layers.remove(layer)
    assert results.layer is None or results.layer == one.layers["bundle 1"]


def filter_slider(user):
    return user.panel.results.findChild(QLabeledDoubleRangeSlider)


def test_filtering_by_a_range(one):
    layer, slider = one.panel.results.layer, filter_slider(one)
    boxes = one.panel.results.findChildren(QComboBox)
    box = next(b for b in boxes if b.findData("drift") >= 0 and b.findData("fa") < 0)
    for measure in ("length_mm", "mean_fa", "drift"):
        box.setCurrentIndex(box.findData(measure))
        values = np.asarray(layer.per_fiber[measure], float)
        assert layer.shown.all()
        low, high = np.percentile(values, [30, 70])
        slider.setValue((low, high))
        wrong = np.count_nonzero(layer.shown != ((values >= low) & (values <= high)))
        assert 0.2 * len(values) < layer.shown.sum() < 0.65 * len(values)
        assert wrong <= 0.1 * len(values)  # the slider shows a few digits
        slider.setValue((slider.minimum(), slider.maximum()))
        assert layer.shown.all()


def test_the_slider_shows_the_filter_that_is_on(two):
    two.list.setCurrentRow(0)
    slider, layer = filter_slider(two), two.panel.results.layer
    low, high = slider.value()
    slider.setValue((low + 0.5 * (high - low), high))
    count = layer.shown.sum()
    assert 0 < count < len(layer.shown)
    two.list.setCurrentRow(1)
    two.list.setCurrentRow(0)
    everything = slider.value()[0] <= slider.minimum() + 1e-6
    assert layer.shown.sum() == (len(layer.shown) if everything else count)


def test_a_picked_fiber_shows_its_numbers(viewer, one):
    layer, fibers = one.layers["bundle 1"], one.fibers()
    far = np.linalg.norm(fibers.points - np.float32(CALLOSUM), axis=1).argmax()
    one.go_to(fibers.points[far])
    Mouse(viewer, "Control", zoom=20.0).click(on_screen(fibers.points[far]))
    picked = layer.selected_fiber
    assert picked is not None
    rows = {row.name: row.text for row in one.panel.results.table.rows if row.group == f"bundle 1, fiber {picked}"}
    assert "ended" in rows
    assert rows["length (mm)"] == f"{fibers.per_fiber['length_mm'][picked]:.1f}"
    assert rows["mean FA"] == f"{fibers.per_fiber['mean_fa'][picked]:.3f}"
    assert np.allclose(one.seed, CALLOSUM, atol=1e-4)
    one.click(moved(CALLOSUM, 0.0, -8.0, 0.0))
    assert "ended" not in one.numbers


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def save_as(monkeypatch):
    """A function that answers the question where fibers are to be saved, and presses the button."""

    def save(user, path):
        name = "napari_gpubio.gui.file_dialogs.QFileDialog.getSaveFileName"
        monkeypatch.setattr(name, lambda *_, **__: (str(path), ""))
        user.panel.clear_message()
        user.press("Save fibers…")

    return save


@pytest.mark.parametrize("suffix", [".trk", ".vtk"])
def test_saving(one, tmp_path, save_as, suffix):
    path, fibers = tmp_path / f"fibers{suffix}", tractogram(one.panel.results.layer)
    save_as(one, path)
    back = tractograms.io.read_tractogram(path)
    assert len(back) == len(fibers)
    assert np.abs(back.points - fibers.points).max() < 1e-3
    assert one.message == ""
    assert path.name in one.panel.status
    one.panel.save(fibers, tmp_path / "again.trk")
    one.settle()
    assert "again.trk" in one.panel.status
    for bad in (tmp_path / "fibers.docx", tmp_path / "no such folder" / "fibers.trk"):
        save_as(one, bad)
        assert "could not be saved" in one.message
    save_as(one, "")
    assert one.message == ""


def test_opening_fibers(user, tmp_path):
    assert not user.button("Save fibers…").isEnabled()
    made = user.by_api(CALLOSUM)
    write_tractogram(tmp_path / "mine.tck", made)
    user.open(tmp_path / "mine.tck")
    layer = user.layers["mine.tck"]
    assert len(layer.lines) == len(made)
    assert np.allclose(layer.data_to_world(layer.points[0]), on_screen(made.points[0]), atol=1e-3)
    user.set("fa_stop", 0.25)  # which leaves opened fibers alone
    assert user.message == ""
    assert list(user.layers) == ["mine.tck"]
    user.open(tmp_path / "missing.trk")
    assert "missing.trk" in user.message


# -- shown and all ----------------------------------------------------------------------------------------------------


def numbers_of(user, group):
    return {row.name: row.text for row in user.panel.results.table.rows if row.group == group}


def bars(user):
    """Heights of the bars of the histogram, those of all fibers and of the shown ones."""
    plot = user.panel.results.findChild(pyqtgraph.PlotWidget)
    items = [item for item in plot.plotItem.items if isinstance(item, pyqtgraph.BarGraphItem)]
    return [np.asarray(item.opts["height"]) for item in items]


def test_numbers_and_histogram_tell_shown_and_all(one):
    layer, fibers = one.layers["bundle 1"], one.fibers()
    lengths = fibers.per_fiber["length_mm"].astype(float)
    everything = numbers_of(one, "Fibers (all are shown)")
    assert everything["number"] == f"{len(fibers)}"
    assert everything["length, mean ± SD"] == f"{lengths.mean():.1f} ± {lengths.std():.1f}"
    whole, shown = bars(one)
    assert np.array_equal(whole, shown)
    assert whole.sum() == len(fibers)
    one.filter_by("length_mm", 40.0, 90.0)
    one.qtbot.wait(10)
    passing = (lengths >= 40.0) & (lengths <= 90.0)
    assert np.array_equal(layer.shown, passing)
    assert 0 < passing.sum() < len(fibers)
    assert numbers_of(one, "All fibers") == everything
    some = numbers_of(one, "Shown fibers")
    assert some["number"] == f"{passing.sum()} of {len(fibers)}"
    assert some["length, median"] == f"{np.median(lengths[passing]):.1f}"
    assert some["mean FA, mean ± SD"].startswith(f"{fibers.per_fiber['mean_fa'][passing].mean():.3f}")
    whole, shown = bars(one)
    assert (whole.sum(), shown.sum()) == (len(fibers), passing.sum())
    layer.shown = np.zeros(len(fibers), bool)  # by a script
    one.qtbot.wait(10)
    assert numbers_of(one, "Shown fibers") == {"number": f"0 of {len(fibers)}"}


def pick(user, name, fiber):
    user.panel.results.describe_fiber(user.layers[name], fiber)


def test_numbers_of_picked_fibers_are_copied_and_exported(two, tmp_path, monkeypatch):
    assert not any("fiber 3" in row.group for row in two.panel.results.table.rows)
    for name, fiber in (("bundle 1", 3), ("bundle 2", 1), ("bundle 1", 0)):
        pick(two, name, fiber)
    menu = {action.text(): action.trigger for action in two.button("Fiber table").menu().actions()}
    menu["Copy picked fibers"]()
    rows = list(csv.DictReader(io.StringIO(QApplication.clipboard().text()), delimiter="\t"))
    assert [(row["bundle"], row["fiber"]) for row in rows] == [("bundle 1", "3"), ("bundle 1", "0"), ("bundle 2", "1")]
    assert np.float32(rows[0]["length_mm"]) == two.fibers("bundle 1").per_fiber["length_mm"][3]
    assert np.float32(rows[2]["mean_fa"]) == two.fibers("bundle 2").per_fiber["mean_fa"][1]
    listed = {row.group for row in two.panel.results.table.rows if ", fiber " in row.group}
    assert listed == {"bundle 1, fiber 3", "bundle 1, fiber 0"}, "those of the selected bundle alone"
    two.list.setCurrentRow(0)
    two.list.setCurrentRow(1)
    assert "bundle 2, fiber 1" in {row.group for row in two.panel.results.table.rows}
    layer = two.layers["bundle 2"]
    two.filter_by("length_mm", np.median(layer.per_fiber["length_mm"]), None)
    expected = {"picked": 3, "shown": int(layer.shown.sum()), "all": len(layer.lines)}
    assert expected["shown"] < expected["all"]
    for which, count in expected.items():
        path = tmp_path / f"{which}.csv"
        save_scripts_as(monkeypatch, path)
        menu[f"Export {which} fibers (CSV)…"]()
        two.settle()
        assert len(path.read_text(encoding="utf-8").splitlines()) == 1 + count
    menu["Clear picked fibers"]()
    menu["Copy picked fibers"]()
    assert "no fiber is picked" in two.message
    pick(two, "bundle 1", 0)
    two.list.setCurrentRow(0)
    two.click(moved(CALLOSUM, 0.0, -8.0, 0.0))  # whose fibers are others now
    assert not two.panel.results.picks()
