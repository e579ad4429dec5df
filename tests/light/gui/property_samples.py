"""What the tests of the table of optical properties share: media, columns, and what a user does."""

import dataclasses

from qtpy.QtCore import QItemSelectionModel, Qt
from qtpy.QtWidgets import QDialog, QLineEdit

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.gui import optical_table
from napari_gpubio.optics.model import Medium

LABEL, NAME, MUA, MUS, G, N, MUSP, SOURCE = range(8)  # columns
COLORS = {1: (1.0, 0.0, 0.0, 1.0), 2: (0.0, 1.0, 0.0, 1.0), 3: (0.0, 0.0, 1.0, 1.0)}
CONTROL, NO_KEY = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.NoModifier


def medium(label, name="skull", mua=0.0101, source="a book"):
    return Medium(label=label, name=name, mua_per_mm=mua, mus_per_mm=12.5, g=0.92, n=1.37, source=source)


@dataclasses.dataclass(frozen=True)
class Linear:
    """mu_a grows with the wavelength, up to 900 nm."""

    def medium(self, wavelength_nm):
        if wavelength_nm > 900:
            raise InvalidInput("there is nothing above 900 nm")
        return medium(1, "blood", wavelength_nm / 1000, f"a law at {wavelength_nm:g} nm")


def choose(table, *cells):
    """Select cells (row, column), as with Ctrl and the mouse."""
    selection = table.view.selectionModel()
    selection.clear()
    for cell in cells:
        index = table.model.index(*cell)
        selection.setCurrentIndex(index, QItemSelectionModel.SelectionFlag.Select)


def open_editor(table, row, column):
    table.view.go_to(row, column)
    table.view.edit(table.model.index(row, column))
    return table.view.viewport().findChild(QLineEdit)


def answer(monkeypatch, recipe, wavelength_nm=690.0):
    """Let the next dialog be closed with a recipe."""

    class AnsweredDialog:
        def __init__(self, rows, wavelength, unit, parent, *, word):
            AnsweredDialog.given = [row.label for row in rows], wavelength, unit

        recipe = None
        wavelength_nm = None

        def exec(self):
            return QDialog.DialogCode.Accepted if recipe is not None else QDialog.DialogCode.Rejected

        def deleteLater(self):  # noqa: N802 - Qt's name
            AnsweredDialog.deleted = True

    AnsweredDialog.recipe, AnsweredDialog.wavelength_nm = recipe, wavelength_nm
    monkeypatch.setattr(optical_table, "PresetDialog", AnsweredDialog)
    return AnsweredDialog
