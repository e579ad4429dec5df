"""Choose a tissue of the literature."""

from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QHeaderView, QLineEdit, QTreeWidget, QTreeWidgetItem, QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.gui.property_columns import DIM
from napari_gpubio.light.gui.property_rows import PropertyRow
from napari_gpubio.light.tissue import Composition, Preset, preset_names, preset_recipe

_NUMBERS = ("mua_per_mm", "musp_per_mm", "g", "n")
_FIRST, _KNOWN = 2, 2 + len(_NUMBERS)  # columns of the first number, and of the last column


class TissueList(QWidget):
    """The presets with their numbers at a wavelength; those that are not known there are dim and last.

    Parameters
    ----------
    unit
        Of the coefficients, ``1/mm`` or ``1/cm``.
    """

    changed = Signal()
    accepted = Signal()

    def __init__(self, unit: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._unit = unit
        self._search = QLineEdit(self)
        self._search.setPlaceholderText("Search a tissue or a publication")
        self._search.setClearButtonEnabled(True)
        self._search.textChanged.connect(self._filter)
        self._tree = QTreeWidget(self)
        self._tree.setRootIsDecorated(False)
        self._tree.setUniformRowHeights(True)
        self._tree.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._tree.setStyleSheet("QTreeView::item { padding: 2px 4px; }")
        self._tree.setHeaderLabels(["Tissue", "From", f"µa {unit}", f"µs′ {unit}", "g", "n", "Known at (nm)"])
        self._tree.header().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self._tree.header().setSectionResizeMode(_KNOWN, QHeaderView.ResizeMode.Stretch)
        self._tree.currentItemChanged.connect(self._on_current)
        self._tree.itemDoubleClicked.connect(self._on_double_click)
        layout = QVBoxLayout(self)
        layout.addWidget(self._search)
        layout.addWidget(self._tree)

    @property
    def recipe(self) -> Preset | Composition | None:
        """The chosen preset, or None."""
        item = self._tree.currentItem()
        return None if item is None or item.isHidden() else preset_recipe(item.data(0, Qt.ItemDataRole.UserRole))

    def choose(self, name: str) -> None:
        """Choose a preset by its name."""
        for index in range(self._tree.topLevelItemCount()):
            item = self._tree.topLevelItem(index)
            if item.data(0, Qt.ItemDataRole.UserRole) == name:
                self._tree.setCurrentItem(item)
                self._tree.scrollToItem(item)

    def showEvent(self, event: Any) -> None:
        """Qt: the list comes on screen; the chosen tissue is in sight."""
        super().showEvent(event)
        if self._tree.currentItem() is not None:
            self._tree.scrollToItem(self._tree.currentItem())

    def show_wavelength(self, wavelength_nm: float) -> None:
        """Show the numbers at a wavelength."""
        chosen, was = self.recipe, self.blockSignals(True)
        known = preset_names(wavelength_nm)
        self._tree.clear()
        for name in (*known, *(name for name in preset_names() if name not in known)):
            self._tree.addTopLevelItem(self._item(name, wavelength_nm))
        self._filter()
        if chosen is not None:
            self.choose(chosen.name)
        self.blockSignals(was)
        self.changed.emit()

    def _item(self, name: str, wavelength_nm: float) -> QTreeWidgetItem:
        recipe = preset_recipe(name)
        tissue, _, publication = name.removesuffix(")").partition(" (")
        item = QTreeWidgetItem([tissue, publication or "composition", *self._numbers(recipe, wavelength_nm)])
        item.setText(_KNOWN, known_text(recipe))
        item.setToolTip(_KNOWN, known_text(recipe))
        item.setData(0, Qt.ItemDataRole.UserRole, name)
        for column in range(_FIRST, _KNOWN):
            item.setTextAlignment(column, Qt.AlignmentFlag.AlignRight)
        if not item.text(_FIRST):
            for column in range(item.columnCount()):
                item.setForeground(column, DIM)
        return item

    def _numbers(self, recipe: Preset | Composition, wavelength_nm: float) -> list[str]:
        try:
            row = PropertyRow.of(recipe.medium(wavelength_nm))
        except InvalidInput:
            return [""] * len(_NUMBERS)
        return [row.short_text(field, self._unit) for field in _NUMBERS]

    def _on_current(self, *_: Any) -> None:
        self.changed.emit()

    def _on_double_click(self, *_: Any) -> None:
        self.accepted.emit()

    def _filter(self, *_: Any) -> None:
        words = self._search.text().lower().split()
        for index in range(self._tree.topLevelItemCount()):
            item = self._tree.topLevelItem(index)
            name = item.data(0, Qt.ItemDataRole.UserRole).lower()
            item.setHidden(not all(word in name for word in words))
        self.changed.emit()


def known_text(recipe: Preset | Composition) -> str:
    """Where a preset is known, in nm."""
    if isinstance(recipe, Composition):
        return "{:g}–{:g}".format(*recipe.range_nm)
    return ", ".join(f"{row.wavelength_nm:g}" for row in recipe.rows)
