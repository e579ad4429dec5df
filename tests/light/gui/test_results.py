"""The part of the light panel that shows numbers and writes files."""

import csv
import dataclasses
import gc
import threading
import weakref

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.utils._proxies import PublicOnlyProxy
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFileDialog, QLineEdit, QPushButton

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.volumes import read_volume
from napari_gpubio.gui.number_table import NumberTable
from napari_gpubio.gui.theme import STATUS_COLORS
from napari_gpubio.light.gui import results
from napari_gpubio.light.gui.display import Strength
from napari_gpubio.light.gui.displayed import Displayed, DisplayOptions
from napari_gpubio.light.gui.plots import PlotController
from napari_gpubio.light.gui.results import VoxelResultBox
from napari_gpubio.light.io import load_result
from napari_gpubio.light.summary import energy_rows, fluence_rows, number_rows
from napari_gpubio.optics.estimates import fluence_units
from tests.dock_widgets import button, texts
from tests.light.result_samples import sample_result

MILLISECONDS = 20_000
PER_PHOTON = fluence_units()[0]


@pytest.fixture(scope="module")
def result():
    return sample_result((24, 24, 20))


@pytest.fixture
def box(qtbot, monkeypatch):
    monkeypatch.setenv("NAPARI_ENSURE_PLUGIN_MAIN_THREAD", "1")
    box = VoxelResultBox(PlotController(PublicOnlyProxy(ViewerModel())))
    qtbot.addWidget(box)
    box.attach()
    box.heard = []
    box.files.status_changed.connect(lambda text: box.heard.append(("said", text)))
    for source in (box, box.files):
        source.error_occurred.connect(lambda text: box.heard.append(("error", text)))
    yield box
    box.detach()


def table(box):
    return box.findChild(NumberTable)


def items(box):
    """The rows of the table below its headings."""
    headings = [table(box).topLevelItem(index) for index in range(table(box).topLevelItemCount())]
    return [heading.child(index) for heading in headings for index in range(heading.childCount())]


def display(box, result, *, colors=None, **strength):
    shown = Displayed(traced=result, result=result, options=DisplayOptions(unit=box.unit), layers={})
    box.display(shown, strength=Strength(**strength), colors=colors)


def show(qtbot, box, result, **keywords):
    display(box, result, **keywords)
    wait_for(qtbot, box, expected_rows(result, box))


def expected_rows(result, box):
    return energy_rows(result) + fluence_rows(result, unit=box.unit, threshold=box.threshold)


def wait_for(qtbot, box, rows):
    """Wait for rows; one that has no error must not have one here either."""
    qtbot.waitUntil(lambda: repr(box.rows) == repr(rows), timeout=MILLISECONDS)


def type_threshold(box, text):
    field = box.findChild(QLineEdit)
    field.setText(text)
    field.editingFinished.emit()


# -------------------------------------------------------------------------------------------------------- numbers


def test_before_the_first_result_it_says_what_to_do(box):
    assert VoxelResultBox.empty_text in texts(box)
    assert "Run" in VoxelResultBox.empty_text
    assert not table(box).isVisibleTo(box)
    assert [b.text() for b in box.findChildren(QPushButton) if b.isEnabled()] == ["Open result…"]
    assert box.rows == ()


def test_it_shows_the_numbers_of_the_api(qtbot, box, result):
    show(qtbot, box, result)
    assert VoxelResultBox.empty_text not in texts(box)
    shown = [item.text(column) for item in items(box) for column in (0, 1)]
    assert shown == [text for row in box.rows for text in (row.name, row.text)]
    assert all(b.isEnabled() for b in box.findChildren(QPushButton))
    assert f"{result.launched:,} photons" in " ".join(texts(box))
    assert box.heard == []


def test_the_numbers_are_found_in_a_worker(qtbot, box, result, monkeypatch):
    threads, go = [], threading.Event()

    def watched(*args, **keywords):
        threads.append(threading.current_thread())
        go.wait(20)
        return fluence_rows(*args, **keywords)

    monkeypatch.setattr(results, "fluence_rows", watched)
    fresh = dataclasses.replace(result, gates=np.repeat(result.gates, 2, axis=3))
    display(box, fresh)
    assert "fluence" not in fresh.__dict__  # the sum over the gates takes a while, and is the worker's
    go.set()
    qtbot.waitUntil(lambda: box.rows != (), timeout=MILLISECONDS)
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize(
    ("sample", "color", "word"),
    [({}, "ok", "closed"), ({"truncated": 0.02}, "warning", "still traveling"), ({"lost": 1e-4}, "error", "violated")],
)
def test_the_color_of_the_energy_balance(box, sample, color, word):
    display(box, sample_result((6, 6, 6), **sample))
    assert STATUS_COLORS[color] in box.findings
    assert word in box.findings


def test_what_goes_wrong_is_a_sentence(qtbot, box, result, monkeypatch):
    def broken(*_args, **_keywords):
        raise InvalidInput("the numbers are gone; run again")

    monkeypatch.setattr(results, "fluence_rows", broken)
    with qtbot.waitSignal(box.error_occurred, timeout=MILLISECONDS) as emitted:
        display(box, result)
    assert emitted.args == ["the numbers are gone; run again"]


# --------------------------------------------------------------------------------------------- units and thresholds


def test_a_power_and_an_energy_offer_their_units_and_the_users_choice_stays(qtbot, box, result):
    show(qtbot, box, result)
    assert box.unit.name == "1/mm²"
    show(qtbot, box, result, power_mw=5.0)
    assert box.unit.name == "mW/mm²"
    assert box.unit_box.currentText() == "mW/mm² at 5 mW"
    show(qtbot, box, result, power_mw=5.0, energy_j=0.3)
    offered = [box.unit_box.itemText(i) for i in range(box.unit_box.count())]
    assert offered == ["1/mm² per photon", "mW/mm² at 5 mW", "J/cm² for 0.3 J"]
    assert (box.unit.name, box.unit.factor) == ("mW/mm²", 5.0)
    with qtbot.waitSignal(box.unit_changed) as emitted:
        box.unit_box.setCurrentIndex(box.unit_box.findData("1/mm²"))
    assert emitted.args == ["1/mm²"]
    show(qtbot, box, result, power_mw=7.0)
    assert box.unit == PER_PHOTON
    show(qtbot, box, result)
    assert box.unit_box.count() == 1


def test_a_threshold_is_kept_for_each_unit(qtbot, box, result):
    show(qtbot, box, result, power_mw=5.0)
    type_threshold(box, "2.5e-2")
    wait_for(qtbot, box, expected_rows(result, box))
    assert any(row.group == "Volume above 0.025 mW/mm²" for row in box.rows)
    box.unit_box.setCurrentIndex(0)
    wait_for(qtbot, box, expected_rows(result, box))
    assert box.threshold == 1e-3
    assert box.findChild(QLineEdit).text() == "0.001"
    box.unit_box.setCurrentIndex(1)
    assert box.threshold == 0.025


@pytest.mark.parametrize("text", ["", "-", "1e", "-3", "x"])
def test_a_threshold_that_is_no_number_is_not_taken(qtbot, box, result, text):
    show(qtbot, box, result)
    field = box.findChild(QLineEdit)
    field.clear()
    qtbot.keyClicks(field, text)
    qtbot.keyClick(field, Qt.Key.Key_Return)
    field.editingFinished.emit()
    assert box.threshold in (1e-3, 3.0)
    assert box.heard == []


# ----------------------------------------------------------------------------------------------------------- table


def test_a_label_has_its_color(qtbot, box, result):
    show(qtbot, box, result, colors={1: (1.0, 0.0, 0.0, 1.0), 2: "#00ff00"})
    icons = {(row.group, row.label): item.icon(0) for item, row in zip(items(box), box.rows, strict=True)}
    for label, color in ((1, "#ff0000"), (2, "#00ff00")):
        assert icons["Mean fluence", label].pixmap(8, 8).toImage().pixelColor(4, 4).name() == color
    assert icons["Mean fluence", 3].isNull()


@pytest.mark.display
def test_nothing_is_cut_off_at_the_width_of_a_panel(qtbot, box, result):
    show(qtbot, box, result, power_mw=5.0, energy_j=0.3, colors={1: "#ff0000"})
    box.setFixedWidth(360)
    box.show()
    qtbot.waitExposed(box)
    assert box.minimumSizeHint().width() <= 360
    shown = table(box)
    for item in items(box):
        for column in range(3):
            place = shown.visualItemRect(item)
            needed = shown.fontMetrics().horizontalAdvance(item.text(column))
            assert needed <= shown.columnWidth(column), item.text(column)
            assert place.height() >= shown.fontMetrics().height()
    for one in box.findChildren(QPushButton):
        assert one.fontMetrics().horizontalAdvance(one.text()) < one.width()


# ----------------------------------------------------------------------------------------------------------- files


@pytest.fixture
def save(qtbot, box, monkeypatch, tmp_path):
    """A function that presses a button or chooses an entry of the Export menu; returns the saved file and the question.

    The question has its title and the kinds of files.
    """

    def saved(text, name):
        questions = []
        path = tmp_path / name
        monkeypatch.setattr(
            QFileDialog,
            "getSaveFileName",
            lambda _, title, __, kinds: questions.append((title, kinds)) or (str(path), ""),
        )
        entry = next((entry for entry in button(box, "Export").menu().actions() if entry.text() == text), None)
        (button(box, text).click if entry is None else entry.trigger)()
        qtbot.waitUntil(lambda: ("said", f"saved {name}") in box.heard, timeout=MILLISECONDS)
        return path, questions[0]

    return saved


def test_the_result_its_fluence_and_its_numbers_are_saved(qtbot, box, result, save):
    show(qtbot, box, result, power_mw=5.0)
    path, (_, kinds) = save("Save result…", "mine.npz")
    back = load_result(path)
    assert np.array_equal(back.gates, result.gates)
    assert back.energy == result.energy
    assert "npz" in kinds
    path, (title, _) = save("Fluence as NIfTI…", "mine.nii.gz")
    array, affine = read_volume(path)
    assert np.allclose(array, 5.0 * result.fluence, rtol=1e-6)  # in the chosen unit
    assert np.allclose(affine, result.domain.affine)
    assert "Fluence" in title
    path, _ = save("Numbers as CSV…", "mine.csv")
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    rows = number_rows(result, unit=box.unit, threshold=box.threshold)
    assert [(line["group"], line["name"]) for line in lines] == [(row.group, row.name) for row in rows]
    assert any(line["group"] == "Detector D1" for line in lines)


# --------------------------------------------------------------------------------------------------------- memory


def test_an_older_result_is_let_go(qtbot, box):
    old = sample_result((8, 8, 8))
    show(qtbot, box, old)
    gone = weakref.ref(old)
    del old
    show(qtbot, box, sample_result((8, 8, 8), seed=2))
    qtbot.wait(20)
    gc.collect()
    assert gone() is None
