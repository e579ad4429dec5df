"""The widget with the table of optical properties: labels, presets, files, keys, the clipboard, what fits."""

import dataclasses

import pytest
from qtpy.QtCore import QEvent, Qt
from qtpy.QtGui import QKeyEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.gui import property_table
from napari_gpubio.optics.gui.optical_model import NO_LABELS
from napari_gpubio.optics.gui.optical_rows import LABEL_COLUMNS, TYPED
from napari_gpubio.optics.io.table import read_table
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.tissue import HEAD_TABLES, head_media, preset, preset_recipe
from tests.dock_widgets import button
from tests.light.gui.property_samples import (
    COLORS,
    CONTROL,
    MUA,
    MUS,
    NAME,
    SOURCE,
    G,
    N,
    answer,
    choose,
    medium,
    open_editor,
)
from tests.sentences import says


def test_without_labels_it_says_what_to_do(empty_table):
    texts = [w.text().replace("\u2011", "-") for w in empty_table.findChildren(property_table.Label) if w.isVisible()]
    assert texts == [NO_LABELS[0].upper() + NO_LABELS[1:]]
    assert not empty_table.view.isVisible()
    with pytest.raises(InvalidInput, match="choose a Labels layer"):
        empty_table.media()
    empty_table.set_labels([1], COLORS)
    assert empty_table.view.isVisible()
    assert "label 1 has no optical properties" in empty_table.message.text
    empty_table.set_labels([], {})
    assert not empty_table.view.isVisible()


def numbers(media):
    return [(m.label, m.name, m.mua_per_mm, m.mus_per_mm, m.g, m.n) for m in media]


@pytest.mark.parametrize("sample", HEAD_TABLES)
def test_the_sample_of_a_head_fills_the_table_and_follows_the_wavelength(empty_table, sample):
    first, other = {"Strangman 2003": (830, 690), "Cassano 2019": (670, 810), "Fang 2009": (630, 630)}[sample]
    empty_table.set_labels(range(1, 6), {})
    empty_table.set_media(head_media(first, sample))
    assert empty_table.media() == head_media(first, sample)
    assert empty_table.wavelength_nm == first
    empty_table.set_wavelength(other)
    assert numbers(empty_table.media()) == numbers(head_media(other, sample))
    empty_table.set_wavelength(555)
    assert "was not updated for 555 nm" in empty_table.message.text
    assert numbers(empty_table.media()) == numbers(head_media(other, sample))  # nothing better is known


def test_selecting_a_row_reports_its_label_once_and_shows_its_source(table):
    table.view.go_to(2, MUA)
    table.view.go_to(2, MUS)
    table.view.go_to(0, MUS)
    assert table.selected == [3, 1]
    assert table.selected_label == 1
    table.select_label(2)
    assert table.selected_label == 2
    assert table.message.detail == "label 2 (skull): a book"
    table.select_label(77)
    assert table.selected_label == 2
    assert table.selected == [3, 1]
    table.view.go_to(2, NAME)
    assert table.message.detail == ""
    # another layer keeps the row that was selected, and nothing is reported
    table.selected.clear()
    table.set_labels([2, 3, 4], COLORS)
    assert table.selected_label == 3
    table.set_labels([8, 9], COLORS)
    assert table.selected_label == 8
    assert not table.selected
    table.set_labels([1, 2], COLORS)
    assert [row.name for row in table.model.rows] == ["scalp", "skull"]


def test_a_preset_fills_the_selected_rows(table, monkeypatch):
    recipe = preset_recipe("skull (Strangman 2003)")
    dialog = answer(monkeypatch, recipe, wavelength_nm=760.0)
    choose(table, (1, MUA), (2, NAME))
    table.set_unit("1/cm")
    button(table, "Preset for 2 labels…").click()
    assert dialog.given == ([2, 3], 690.0, "1/cm")
    assert dialog.deleted
    filled = [dataclasses.replace(preset("skull (Strangman 2003)", 760.0), label=label) for label in (2, 3)]
    assert table.media() == (medium(1, "scalp"), *filled)
    assert table.wavelength_nm == 760.0
    table.set_wavelength(690)
    assert [m.mua_per_mm for m in table.media()[1:]] == [preset("skull (Strangman 2003)", 690.0).mua_per_mm] * 2


def test_a_cancelled_preset_changes_nothing(table, monkeypatch):
    answer(monkeypatch, None)
    before = table.model.rows
    table.view.go_to(2, NAME)
    table.preset_button.click()
    assert table.model.rows == before
    table.view.selectionModel().clear()
    assert not table.preset_button.isEnabled()
    table.choose_preset()
    assert table.model.rows == before


@pytest.mark.parametrize("name", ["table.csv", "table.json"])
def test_saving_and_loading(table, tmp_path, name):
    table.set_media([medium(3, "gray, matter", 1 / 3)])
    saved = table.media()
    table.save(tmp_path / name)
    assert table.message.text == f"saved 3 rows in {name}"
    assert read_table(tmp_path / name) == saved
    table.model.type_in({(0, MUA): "7", (2, NAME): ""})
    table.load(tmp_path / name)
    assert table.media() == saved
    table.model.type_in({(0, MUA): "7"})
    table.model.reset()
    assert table.media() == saved


@pytest.mark.parametrize("wavelength_nm", [690.0, 712.3])
def test_a_loaded_table_follows_the_wavelength_where_it_came_from_presets(table, tmp_path, monkeypatch, wavelength_nm):
    own = dataclasses.replace(preset_recipe("mouse muscle"), name="", source="")
    for row, recipe in enumerate((preset_recipe("skull (Strangman 2003)"), preset_recipe("mouse muscle"), own)):
        answer(monkeypatch, recipe, wavelength_nm)
        choose(table, (row, NAME))
        table.choose_preset()
    saved = table.media()
    table.save(tmp_path / "table.csv")
    table.model.reset()
    table.load(tmp_path / "table.csv")
    assert table.media() == saved
    table.set_wavelength(760)
    now = [row.medium() for row in table.model.rows]
    assert now[0].mua_per_mm == preset("skull (Strangman 2003)", 760).mua_per_mm
    assert now[1].mua_per_mm == preset("mouse muscle", 760).mua_per_mm
    assert now[2] == saved[2]  # a composition of one's own is not in the file


def test_numbers_alone_do_not_make_a_preset(table):
    like = dataclasses.replace(preset("skull (Strangman 2003)", 690.0), label=3, source="measured by us")
    table.set_media([like])
    table.set_wavelength(830)
    assert table.media()[2] == like


def test_a_file_for_other_labels_says_so_and_loses_nothing(table, tmp_path):
    table.set_labels([1, 9], COLORS)
    table.set_media([medium(9)])
    table.save(tmp_path / "table.csv")
    table.set_labels([1, 2], COLORS)
    table.load(tmp_path / "table.csv")
    text = "loaded 2 rows from table.csv; it has none for label 2; label 9 is not in the layer"
    assert table.message.text == text
    assert [row.name for row in table.model.rows] == ["scalp", "skull"]


@pytest.mark.parametrize("name", ["missing.csv", "table.docx", "bad.csv", "no folder/table.csv"])
def test_files_that_cannot_be_used_are_a_sentence(table, tmp_path, name):
    (tmp_path / "bad.csv").write_text("label,mua_per_mm\n1,many\n")
    before = table.model.rows
    table.load(tmp_path / name)
    assert table.message.text.startswith("The table could not be loaded: ")
    assert table.model.rows == before
    table.save(tmp_path / "table.csv")
    assert "label 3 has no optical properties" in table.message.text
    assert not (tmp_path / "table.csv").exists()
    table.set_media([medium(3)])
    if name != "bad.csv" and name != "missing.csv":
        table.save(tmp_path / name)
        assert table.message.text.startswith("The table could not be saved: ")


def enter(editor):
    QTest.keyClick(editor, Qt.Key.Key_Return)
    QApplication.processEvents()  # Qt hands a typed text over from the event loop


def test_typing_is_checked_at_every_key(table):
    table.set_media([medium(3)])
    editor = open_editor(table, 0, MUA)
    QTest.keyClicks(editor, "-0.5")
    assert says(table.message.text, "label 1 (scalp)", "µa is -0.5 1/mm", "0 1/mm")
    assert not table.heard[1:]
    QTest.keyClick(editor, Qt.Key.Key_Home)
    QTest.keyClick(editor, Qt.Key.Key_Delete)
    assert table.message.text == ""
    enter(editor)
    assert table.media()[0].mua_per_mm == 0.5
    assert table.media()[0].source == TYPED


def test_what_is_wrong_stays_in_the_cell_and_below(table):
    table.set_media([medium(3)])
    editor = open_editor(table, 1, N)
    QTest.keyClicks(editor, "0.9")
    enter(editor)
    assert says(table.message.text, "label 2 (skull)", "n is 0.9", "1")
    table.view.go_to(0, MUA)
    assert "n is 0.9" in table.message.text
    with pytest.raises(InvalidInput, match=r"label 2 \(skull\): n is 0.9"):
        table.media()
    QTest.mouseClick(table.message.problem_label, Qt.MouseButton.LeftButton)
    assert (table.view.currentIndex().row(), table.view.currentIndex().column()) == (1, N)


def test_painting_labels_does_not_close_the_editor(table):
    editor = open_editor(table, 2, MUA)
    QTest.keyClicks(editor, "0.0")
    table.set_labels([1, 2, 3], COLORS)
    QTest.keyClicks(editor, "7")
    enter(editor)
    assert table.model.rows[2].mua_per_mm == 0.07


def test_tab_goes_through_the_cells_that_can_be_edited(table):
    table.view.go_to(0, N)
    places = []
    for _ in range(3):
        QTest.keyClick(table.view, Qt.Key.Key_Tab)
        places.append((table.view.currentIndex().row(), table.view.currentIndex().column()))
    shown = [(0, SOURCE)] if not table.view.isColumnHidden(SOURCE) else []
    assert places == [*shown, (1, NAME), (1, MUA), (1, MUS)][:3]


@pytest.mark.parametrize(("key", "row", "column"), [(Qt.Key.Key_Backtab, 0, NAME), (Qt.Key.Key_Tab, 2, SOURCE)])
def test_tab_leaves_the_table_at_its_ends(table, key, row, column):
    table.view.setColumnHidden(SOURCE, False)
    table.view.go_to(row, column)
    event = QKeyEvent(QEvent.Type.KeyPress, key, Qt.KeyboardModifier.NoModifier)
    table.view.keyPressEvent(event)
    assert not event.isAccepted()
    assert (table.view.currentIndex().row(), table.view.currentIndex().column()) == (row, column)


def test_copy_and_paste_by_keys(table):
    choose(table, (0, MUA), (0, MUS), (0, G), (0, N))
    QTest.keyClick(table.view, Qt.Key.Key_C, CONTROL)
    assert QApplication.clipboard().text() == "0.0101\t12.5\t0.92\t1.37\n"
    choose(table, (2, MUA))
    QTest.keyClick(table.view, Qt.Key.Key_V, CONTROL)
    assert table.media()[2] == Medium(label=3, mua_per_mm=0.0101, mus_per_mm=12.5, g=0.92, n=1.37, source=TYPED)
    choose(table, (0, MUA), (1, MUA))
    QTest.keyClick(table.view, Qt.Key.Key_Delete)
    assert [row.mua_per_mm for row in table.model.rows] == [None, None, 0.0101]
    QApplication.clipboard().setText("1\n2\n3\n4\n")
    choose(table, (1, MUA))
    table.view.paste()
    assert [row.mua_per_mm for row in table.model.rows] == [None, 1.0, 2.0]
    assert says(table.message.text, "2 pasted values", "left out")


def test_a_shortcut_of_the_window_does_not_take_our_keys(table):
    for key, ours in ((Qt.Key.Key_C, True), (Qt.Key.Key_Z, False), (Qt.Key.Key_O, False)):
        event = QKeyEvent(QEvent.Type.ShortcutOverride, key, CONTROL)
        event.ignore()
        QApplication.sendEvent(table.view, event)
        assert event.isAccepted() is ours


def test_a_narrow_dock_shows_all_numbers_and_a_wide_one_the_sources(table):
    assert table.minimumSizeHint().width() <= 300
    for width, source_shown in ((520, True), (360, False)):
        table.resize(width, 400)
        QApplication.processEvents()
        assert table.view.isColumnHidden(SOURCE) is not source_shown
        header = table.view.horizontalHeader()
        assert header.length() <= table.view.viewport().width()
        assert all(header.sectionSize(c) >= 30 for c in range(len(LABEL_COLUMNS) - 1))
    table.set_media([medium(1, mua=0.0007143), medium(2, mua=0.01185), medium(3, mua=12345.678)])
    for unit in ("1/mm", "1/cm"):
        table.set_unit(unit)
        for row in range(3):
            for column in range(MUA, SOURCE):
                text = table.model.data(table.model.index(row, column))
                needed = table.view.fontMetrics().horizontalAdvance(text) + 6
                assert table.view.columnWidth(column) >= needed, text


def test_many_labels_scroll(table):
    table.set_labels(range(1, 201), {})
    rows = table.view.verticalHeader()
    assert table.view.height() < 14 * rows.defaultSectionSize()
    assert table.view.verticalScrollBar().maximum() > 0
    table.select_label(200)
    assert table.view.rowAt(table.view.viewport().height() - rows.defaultSectionSize() // 2) == 199
