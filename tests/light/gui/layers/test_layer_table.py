"""The layer table of light in layers: typing, moving, pasting, and what is wrong."""

import pytest
from qtpy.QtCore import QModelIndex, Qt
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QApplication

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.layered.gui.layer_table import LayerTable, medium_of
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.presets import preset as layered_preset
from napari_gpubio.optics.gui import optical_table
from napari_gpubio.optics.gui.optical_rows import LAYER_COLUMNS, LayerRow
from napari_gpubio.optics.model import Layer
from napari_gpubio.optics.pictures import LAYER_COLORS
from napari_gpubio.optics.tissue import preset
from tests.dock_widgets import button
from tests.light.gui.layers.panel_samples import MEDIUM

SKIN = layered_preset("seven-layer skin at 600 nm").medium
NAME, N, MUA, MUS, G, D = range(6)


@pytest.fixture
def table(qtbot):
    table = LayerTable()
    qtbot.addWidget(table)
    table.set_medium(MEDIUM)
    return table


def type_in(table, row, column, text):
    table.model.setData(table.model.index(row, column), text)


def shown(table, row, column):
    return table.model.index(row, column).data()


def names(table):
    return [row.name for row in table.model.rows]


# -------------------------------------------------------------------------------------------------- what it gives


@pytest.mark.parametrize("medium", [MEDIUM, SKIN, layered_preset("brain under scalp and skull at 810 nm").medium])
@pytest.mark.parametrize("unit", ["1/mm", "1/cm"])
def test_what_is_put_in_comes_out(table, medium, unit):
    table.set_unit(unit)
    table.set_medium(medium)
    assert table.medium() == medium


@pytest.mark.parametrize("column", [MUA, MUS, D])
def test_the_unit_changes_what_is_shown_and_not_what_is_meant(table, column):
    before, in_mm = table.medium(), float(shown(table, 0, column))
    table.set_unit("1/cm")
    assert float(shown(table, 0, column)) == pytest.approx(in_mm / 10 if column == D else in_mm * 10)
    assert table.medium() == before
    type_in(table, 0, column, "0.7")
    value = getattr(table.medium().layers[0], LAYER_COLUMNS[column].field)
    assert value == (7.0 if column == D else 0.07)  # to the last digit
    headers = [table.model.headerData(c, Qt.Orientation.Horizontal) for c in range(6)]
    assert headers == ["Layer", "n", "µa\n1/cm", "µs\n1/cm", "g", "d\ncm"]


@pytest.mark.parametrize("text", ["∞", "inf", "Infinity", "endless"])
def test_the_last_layer_may_be_endless(table, text):
    type_in(table, 1, D, text)
    assert table.medium().layers[1].is_endless
    assert shown(table, 1, D) == "∞"
    assert table.message.text == ""


# ---------------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("row", "column", "text", "sentence"),
    [
        (0, N, "0.9", r"layer 1 \(top\): n is 0.9; it must be at least 1"),
        (0, MUA, "-1", r"layer 1 \(top\): µa is -1 1/mm; it must be at least 0"),
        (1, MUS, "many", r"layer 2 \(bottom\): µs is many, which is not a number; type one, such as 0.5"),
        (1, MUS, "inf", r"layer 2 \(bottom\): µs is ∞; type a finite number"),
        (0, G, "1.5", r"layer 1 \(top\): g is 1.5; it must be at most 1"),
        (0, G, "1", r"layer 1 \(top\): g is 1: scattering would not change the direction"),
        (0, G, "", r"layer 1 \(top\): g is missing; type a number"),
        (0, D, "0", r"layer 1 \(top\): the thickness is 0 mm; it must be greater than 0"),
        (0, D, "-2", r"the thickness is -2 mm"),
        (0, D, "thick", r"the thickness is thick, which is not a number; type one, such as 0.5, or ∞"),
        (0, D, "inf", r"layer 1 \(top\): the thickness is ∞, and only the last layer can be infinitely thick"),
        (0, D, "nan", r"type a finite number"),
        (0, N, "1e999", r"n is"),
    ],
)
def test_a_wrong_cell_is_a_sentence_under_the_table(table, row, column, text, sentence):
    type_in(table, row, column, text)
    with pytest.raises(InvalidInput, match=sentence):
        table.medium()
    assert table.message.text.lower() == table.model.problem(row, column).lower()
    assert table.model.index(row, column).data(Qt.ItemDataRole.ToolTipRole) == table.model.problem(row, column)
    table.set_medium(MEDIUM)
    assert table.message.text == ""


def test_glass_must_have_an_end(table):
    table.model.type_in({(0, MUA): "0", (0, MUS): "0", (0, G): "1"})
    assert table.medium().layers[0].is_glass
    table.model.type_in({(1, MUA): "0", (1, MUS): "0", (1, D): "inf"})
    with pytest.raises(InvalidInput, match="travel forever in infinitely thick glass"):
        table.medium()


def test_a_preset_fills_layers_and_keeps_name_and_thickness(table, monkeypatch):
    def choose(dialog):
        dialog.wavelength_box.setValue(810.0)
        dialog.tissues.choose("gray matter (Cassano 2019)")
        return True

    monkeypatch.setattr(optical_table.PresetDialog, "exec", choose)
    assert not table.preset_button.isEnabled()
    table.view.go_to(1)
    button(table, "Preset…").click()
    filled, gray = table.medium().layers[1], preset("gray matter (Cassano 2019)", 810)
    for field in ("mua_per_mm", "mus_per_mm", "g", "n"):
        assert getattr(filled, field) == getattr(gray, field)
    assert (filled.name, filled.thickness_mm) == ("bottom", MEDIUM.layers[1].thickness_mm)
    assert table.wavelength_nm == 810.0


def test_no_layers_and_too_many_are_a_sentence(table):
    table.model.remove(range(2))
    assert not table.empty.isHidden()
    assert table.view.isHidden()
    assert table.drawing.isHidden()
    with pytest.raises(InvalidInput, match="there are no layers; press Add, or choose a preset"):
        table.medium()
    row = LayerRow.of(MEDIUM.layers[0])
    assert len(medium_of([row] * 100, 1.0, 1.0, "").layers) == 100
    with pytest.raises(InvalidInput, match="there are 101 layers; at most 100"):
        medium_of([row] * 101, 1.0, 1.0, "")


# ------------------------------------------------------------------------------------------- rows, buttons, keys


def test_layers_are_added_below_the_current_one_or_above_one_without_end_duplicated_and_removed(table):
    type_in(table, 1, D, "inf")
    for current in (0, 2):
        table.view.go_to(current)
        button(table, "Add").click()
        assert table.view.currentIndex().row() == current + (current == 0)
    assert names(table) == ["top", "", "", "bottom"]
    assert len(table.medium().layers) == 4
    assert table.message.text == ""
    table.view.clearSelection()
    table.view.go_to(0)
    button(table, "Duplicate").click()
    assert names(table) == ["top", "top", "", "", "bottom"]
    table.view.go_to(4)
    button(table, "Remove").click()
    assert names(table) == ["top", "top", "", ""]
    assert table.view.currentIndex().row() == 3


def test_layers_are_moved_by_buttons_keys_and_dragging(qtbot, table):
    table.set_medium(SKIN)
    order = [layer.name for layer in SKIN.layers]
    table.view.go_to(1, G)
    button(table, "▲").click()
    assert names(table) == [order[1], order[0], *order[2:]]
    assert not button(table, "▲").isEnabled()
    qtbot.keyClick(table.view, Qt.Key.Key_Down, Qt.KeyboardModifier.AltModifier)
    assert names(table) == order
    table.view.verticalHeader().moveSection(6, 2)  # as a drag does
    assert names(table) == [*order[:2], order[6], *order[2:6]]
    assert [table.view.verticalHeader().visualIndex(i) for i in range(7)] == list(range(7))


def test_a_change_is_reported_once(qtbot, table):
    with qtbot.waitSignals([table.changed]):
        type_in(table, 0, N, "1.6")
    changes = []
    table.changed.connect(lambda: changes.append(1))
    type_in(table, 0, N, "1.6")
    assert not changes
    table.set_medium(SKIN)
    assert len(changes) == 1
    table.n_above.setValue(1.33)
    assert len(changes) == 2
    assert table.medium().n_above == 1.33


# -------------------------------------------------------------------------------------------------- the clipboard


def test_cells_are_copied_with_all_digits_in_the_unit_on_screen(table):
    table.set_medium(LayeredMedium(layers=(Layer(mua_per_mm=0.0123456789, mus_per_mm=3.0),)))
    table.set_unit("1/cm")
    table.view.selectRow(0)
    table.view.copy()
    assert QApplication.clipboard().text() == "\t1.4\t0.123456789\t30\t0\t0.1\n"


def test_a_table_of_a_paper_is_pasted_and_makes_layers(table):
    """MCML's columns n, mu_a, mu_s, g, d in cm, from a spreadsheet."""
    table.set_unit("1/cm")
    lines = [(la.n, 10 * la.mua_per_mm, 10 * la.mus_per_mm, la.g, la.thickness_mm / 10) for la in SKIN.layers]
    QApplication.clipboard().setText("\n".join("\t".join(f"{v:.12g}" for v in line) for line in lines))
    table.model.remove([1])
    table.view.go_to(0, N)
    table.view.paste()
    pasted = table.medium().layers
    assert len(pasted) == 7
    for field in ("n", "mua_per_mm", "mus_per_mm", "g", "thickness_mm"):
        expected = [getattr(layer, field) for layer in SKIN.layers]
        assert [getattr(layer, field) for layer in pasted] == pytest.approx(expected, rel=1e-12)


def test_one_value_goes_into_every_selected_cell(table):
    QApplication.clipboard().setText("1.37")
    table.view.selectColumn(N)
    table.view.paste()
    assert [layer.n for layer in table.medium().layers] == [1.37, 1.37]
    table.view.clear_cells()
    assert "n is missing" in table.message.text


# ----------------------------------------------------------------------------------------------------- the drawing


def test_the_drawing_is_ordered_by_thickness_and_a_click_leads_to_the_row(qtbot, table):
    table.set_medium(SKIN)
    table.resize(380, 600)
    table.show()
    edges = table.drawing.edges()
    heights = edges[1:] - edges[:-1]
    assert (heights > 10).all()
    order = sorted(range(7), key=lambda i: SKIN.layers[i].thickness_mm)
    assert list(heights[order]) == sorted(heights)
    assert edges[-1] < table.drawing.height()
    table.drawing.clicked.emit(4)
    assert table.view.currentIndex().row() == 4


def test_the_drawing_takes_whatever_is_typed(table):
    table.show()
    for text in ("", "thick", "-1", "inf", "1e-30", "1e30"):
        type_in(table, 0, D, text)
        table.drawing.show_grid(0.3)
        assert not table.drawing.grab().isNull()
        assert (table.drawing.edges()[1:] >= table.drawing.edges()[:-1]).all()
    table.model.insert(0, [LayerRow.of(MEDIUM.layers[0])] * 98)
    assert not table.drawing.grab().isNull()


def test_rows_have_the_colors_of_the_layers(table):
    colors = [table.model.index(row, NAME).data(Qt.ItemDataRole.DecorationRole) for row in range(2)]
    assert colors == [QColor(LAYER_COLORS[0]), QColor(LAYER_COLORS[1])]
    assert table.model.data(QModelIndex()) is None
