"""The Qt model of the optical property table, and its cells as text."""

import dataclasses

import pytest
from qtpy.QtCore import QModelIndex, Qt
from qtpy.QtGui import QColor

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.tables import copied_text, missing_color, pasted_cells, wrong_color
from napari_gpubio.optics.gui.optical_model import NO_LABELS, PropertyModel
from napari_gpubio.optics.gui.optical_rows import LABEL_COLUMNS, TYPED
from tests.light.gui.property_samples import MUA, MUS, MUSP, NAME, SOURCE, G, Linear, N, medium
from tests.sentences import says

Role = Qt.ItemDataRole
RED, CLEAR = (1.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 0.0)


@pytest.fixture
def model(qtbot, qtmodeltester):
    """Labels 1 to 3, of which 1 and 2 are filled."""
    model = PropertyModel()
    qtmodeltester.check(model)  # watches it to the end of the test
    model.set_labels([0, 3, 1, 2], {1: RED, 2: CLEAR, 3: None})
    model.set_media([medium(1, "scalp"), medium(2, "skull")])
    model.heard, model.judgments = [], []
    model.changed.connect(lambda: model.heard.append(model.rows))
    model.validity_changed.connect(lambda: model.judgments.append(model.first_problem()))
    return model


def shown(model, row, column, role=Role.DisplayRole):
    return model.data(model.index(row, column), role)


# ------------------------------------------------------------------------------------------------------ rows, labels


def test_there_is_a_row_for_each_label_but_the_outside(model):
    assert model.labels == (1, 2, 3)
    assert [shown(model, row, 0) for row in range(3)] == ["1", "2", "3"]
    assert [shown(model, row, NAME) for row in range(3)] == ["scalp", "skull", ""]
    assert model.rowCount(model.index(0, 0)) == model.columnCount(model.index(0, 0)) == 0  # a table, not a tree
    assert shown(model, 0, 0, Role.DecorationRole) == QColor("red")
    assert shown(model, 1, 0, Role.DecorationRole) is shown(model, 2, 0, Role.DecorationRole) is None
    assert shown(model, 0, NAME, Role.DecorationRole) is None


def test_the_media_are_the_rows_and_the_first_problem_is_a_sentence(model):
    with pytest.raises(InvalidInput, match="label 3 has no optical properties; fill its row or choose a preset"):
        model.media()
    assert model.first_problem() == (2, MUA)
    model.set_media([medium(3, "brain")])
    assert model.media() == (medium(1, "scalp"), medium(2, "skull"), medium(3, "brain"))
    assert model.first_problem() is None
    model.set_labels([], {})
    with pytest.raises(InvalidInput, match=NO_LABELS):
        model.media()


def test_what_was_typed_stays_while_labels_come_and_go(model):
    model.type_in({(2, NAME): "brain", (2, MUA): "0.02"})
    model.set_labels([3, 9], {})
    assert [row.name for row in model.rows] == ["brain", ""]
    model.set_labels([7], {})
    model.set_labels([1, 2, 3], {})
    assert [row.name for row in model.rows] == ["scalp", "skull", "brain"]
    assert model.rows[2].mua_per_mm == 0.02


def test_new_colors_of_the_same_labels_do_not_reset_the_view(model):
    resets, roles = [], []
    model.modelReset.connect(lambda: resets.append(True))
    model.dataChanged.connect(lambda first, last, changed: roles.append(changed))
    model.set_labels([1, 2, 3], {3: RED})
    assert not resets
    assert roles == [[Role.DecorationRole.value]]
    assert shown(model, 2, 0, Role.DecorationRole) == QColor("red")
    assert not model.heard


# ------------------------------------------------------------------------------------------------------------ typing


def test_typing_tells_the_row_the_views_and_the_panel(model):
    changes = []
    model.dataChanged.connect(lambda first, last, roles: changes.append((first.row(), last.row())))
    assert model.setData(model.index(2, MUA), "0.02", Role.EditRole)
    assert changes == [(0, 2)]
    assert len(model.heard) == 1
    assert model.rows[2].mua_per_mm == 0.02
    assert shown(model, 2, SOURCE) == TYPED
    model.setData(model.index(2, MUA), "0.02", Role.EditRole)
    assert len(model.heard) == 1  # nothing new


def test_only_what_the_user_gives_can_be_edited(model):
    editable = {
        LABEL_COLUMNS[c].field
        for c in range(len(LABEL_COLUMNS))
        if model.flags(model.index(0, c)) & Qt.ItemFlag.ItemIsEditable
    }
    assert editable == {"name", "mua_per_mm", "mus_per_mm", "g", "n", "source"}
    before = model.rows
    assert not model.setData(model.index(0, MUSP), "5", Role.EditRole)
    assert not model.setData(model.index(0, 0), "5", Role.EditRole)
    assert not model.setData(model.index(0, MUA), "5", Role.DisplayRole)
    model.type_in({(0, MUSP): "5", (0, 0): "5"})
    assert model.rows == before


def test_an_invalid_cell_is_colored_and_keeps_its_text(model):
    assert says(model.check_text(0, MUA, "-1"), "label 1 (scalp)", "µa is -1 1/mm", "0 1/mm")
    assert model.check_text(0, MUA, "1") == ""
    assert says(model.check_text(0, MUA, ""), "label 1 (scalp)", "no µa", "preset")
    assert model.check_text(0, NAME, "-1") == ""
    assert model.rows[0].mua_per_mm == 0.0101  # nothing was typed yet
    model.type_in({(0, MUA): "-1", (1, G): "many"})
    assert shown(model, 0, MUA, Role.BackgroundRole) == shown(model, 1, G, Role.BackgroundRole) == wrong_color()
    assert shown(model, 0, MUS, Role.BackgroundRole) is shown(model, 2, MUA, Role.BackgroundRole) is None
    assert shown(model, 1, G) == "many"
    assert shown(model, 1, MUSP) == ""
    assert "not a number" in shown(model, 1, G, Role.ToolTipRole)
    assert model.first_problem() == (0, MUA)
    assert model.problem_count == 3
    with pytest.raises(InvalidInput, match="µa is -1 1/mm"):
        model.media()


# ------------------------------------------------------------------------------------------------------------ the unit


def test_the_unit_changes_what_is_shown_and_not_what_is_kept(model):
    model.set_media([medium(3)])
    media = model.media()
    model.set_unit("1/cm")
    assert model.media() == media
    assert not model.heard[1:]
    assert [shown(model, 0, c) for c in (MUA, MUS, G, N, MUSP)] == ["0.101", "125", "0.92", "1.37", "10"]
    assert shown(model, 0, MUA, Role.ToolTipRole) == "0.0101 1/mm\n0.101 1/cm\na book"
    assert shown(model, 0, G, Role.ToolTipRole) == shown(model, 0, SOURCE, Role.ToolTipRole) == "a book"
    assert model.headerData(MUA, Qt.Orientation.Horizontal) == "µa\n1/cm"
    assert model.headerData(G, Qt.Orientation.Horizontal) == "g"
    model.type_in({(0, MUA): "0.7"})
    assert model.rows[0].mua_per_mm == 0.07
    model.set_unit("1/mm")
    assert shown(model, 0, MUA) == "0.07"
    with pytest.raises(InvalidInput, match="1/m"):
        model.set_unit("1/m")


# ---------------------------------------------------------------------------------------------- wavelength, reset


def test_rows_from_recipes_follow_the_wavelength_and_typed_ones_stay(model):
    model.set_wavelength(700)
    model.fill([1, 2], Linear())
    model.type_in({(1, MUA): "0.5"})
    model.set_wavelength(800)
    assert [row.mua_per_mm for row in model.rows] == [0.0101, 0.5, 0.8]
    assert [row.source for row in model.rows] == ["a book", TYPED, "a law at 800 nm"]
    assert [row.name for row in model.rows] == ["scalp", "skull", "blood"]
    model.set_wavelength(950)
    assert model.rows[2].mua_per_mm == 0.8
    assert model.warnings() == ["label 3 (blood) was not updated for 950 nm: there is nothing above 900 nm"]
    assert shown(model, 2, MUA, Role.ForegroundRole) == missing_color()
    model.set_wavelength(850)
    assert model.warnings() == []
    assert shown(model, 2, MUA, Role.ForegroundRole) is None
    assert model.rows[2].mua_per_mm == 0.85


def test_reset_comes_back_to_what_was_given_with_its_recipes(model):
    model.set_wavelength(700)
    model.set_media([Linear().medium(700), medium(3, "brain")], {1: Linear()})
    model.set_wavelength(750)
    assert [row.mua_per_mm for row in model.rows] == [0.75, 0.0101, 0.0101]
    model.type_in({(0, MUA): "1", (2, NAME): "x", (1, N): "1.5"})
    model.reset()
    assert [row.name for row in model.rows] == ["blood", "", "brain"]
    assert model.rows[0].mua_per_mm == 0.75
    assert model.rows[2].medium() == medium(3, "brain")
    assert model.rows[1].is_empty


# --------------------------------------------------------------------------------------------------- tab-separated text


def row_cells(*rows):
    return [(row, column) for row in rows for column in range(len(LABEL_COLUMNS))]


def test_copied_cells_have_all_their_digits(model):
    model.set_media([medium(1, "scalp", 1 / 3), medium(2, "two\twords\n")])
    assert copied_text(model, row_cells(0)) == f"1\tscalp\t{1 / 3!r}\t12.5\t0.92\t1.37\t{12.5 * (1 - 0.92)!r}\ta book\n"
    assert copied_text(model, [(0, NAME), (1, NAME)]) == "scalp\ntwo words\n"
    assert copied_text(model, [(0, N), (1, G)]) == "\t1.37\n0.92\t\n"  # the block that holds both
    assert copied_text(model, []) == ""
    model.set_unit("1/cm")
    assert copied_text(model, [(1, MUS)]) == "125\n"


def test_a_pasted_row_is_the_copied_one(model):
    texts, left_out = pasted_cells(model, copied_text(model, row_cells(0, 1)), row_cells(1, 2))
    model.type_in(texts)
    assert left_out == 0
    for source, target in ((1, 2), (2, 3)):
        copied = dataclasses.replace(medium(source, "scalp"), label=target)
        assert model.rows[target - 1].medium() == dataclasses.replace(copied, name=("scalp", "skull")[source - 1])


@pytest.mark.parametrize(
    ("text", "cells", "expected", "left_out"),
    [
        ("5\n", [(0, MUA), (1, MUA), (2, MUSP)], {(0, MUA): "5", (1, MUA): "5"}, 0),
        ("5\t6\r\n", [(0, MUA), (2, MUA)], {(0, MUA): "5", (0, MUS): "6", (2, MUA): "5", (2, MUS): "6"}, 0),
        ("1\t2\n3\t4", [(1, G)], {(1, G): "1", (1, N): "2", (2, G): "3", (2, N): "4"}, 0),
        ("1\n2\n3", [(2, G)], {(2, G): "1"}, 2),
        ("5", [], {}, 0),
        ("", [(0, MUA)], {}, 0),
    ],
)
def test_where_pasted_text_goes(model, text, cells, expected, left_out):
    assert pasted_cells(model, text, cells) == (expected, left_out)


def test_pasted_numbers_of_a_spreadsheet_may_have_commas(model):
    model.type_in(pasted_cells(model, "0,5\t1\r\n0,25\t2\r\n", [(0, MUA)])[0])
    assert [row.mua_per_mm for row in model.rows[:2]] == [0.5, 0.25]


# ------------------------------------------------------------------------------------------------------------ many rows


def test_many_labels(model):
    model.set_labels(range(1, 2001), dict.fromkeys(range(1, 2001), RED))
    model.fill(range(2000), Linear())
    assert len(model.media()) == 2000
    assert not model.index(5, 0).parent().isValid()
    assert QModelIndex() == model.index(2000, 0)
