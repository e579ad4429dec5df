"""Rows of regions that fibers pass, and of those that they do not enter."""

from typing import Any

from qtpy.QtCore import QSignalBlocker, Signal
from qtpy.QtWidgets import QWidget

from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import fill_column, row_of, text_button
from napari_gpubio.tractograms.gui.region_box import ChosenRegion, RegionBox
from napari_gpubio.tractograms.gui.region_rows import RegionRows

ROLES = {"include": "pass through", "exclude": "do not enter"}


class GateRow(QWidget):
    """A region, and whether fibers pass it or do not enter it."""

    changed = Signal()

    def __init__(self, viewer: Any, remove: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.role = ElidedComboBox(self, entries=ROLES, tip="What the fibers do that count")
        self.region_box = RegionBox(viewer, nothing="choose a region", parent=self)
        button = text_button("Remove", "Remove this row", self, lambda: remove(self))
        fill_column(self, row_of(self.role, button, stretch=(1, 0)), self.region_box)
        for signal in (self.role.currentIndexChanged, self.region_box.changed):
            signal.connect(lambda *_: self.changed.emit())


Gate = tuple[str, Any, int | str | None]  # a role, a layer, and which of its regions


class GateList(RegionRows[GateRow]):
    """All rows; ``changed`` tells that other fibers may count."""

    kept = ("kept_gates",)

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(GateRow, viewer, parent)
        add = text_button("Add a region", "That fibers pass, or do not enter", self, self.append_row)
        fill_column(self, self._column, row_of(add, None))

    def chosen(self) -> dict[str, list[ChosenRegion]]:
        """Return the regions by role; rows without one do not count. InvalidInput if a layer has none."""
        found: dict[str, list[ChosenRegion]] = {role: [] for role in ROLES}
        for row in self._rows:
            if row.region_box.layer is not None:
                role = str(row.role.currentData())
                found[role].append(row.region_box.chosen(f"a region that fibers {ROLES[role]}"))
        return found

    @property
    def kept_gates(self) -> tuple[Gate, ...]:
        """The rows as undo keeps them."""
        return tuple((str(row.role.currentData()), row.region_box.layer, row.region_box.key) for row in self._rows)

    @kept_gates.setter
    def kept_gates(self, gates: tuple[Gate, ...]) -> None:
        self.show_gates(gates)

    def show_gates(self, gates: tuple[Gate, ...]) -> None:
        """Show other rows; ``changed`` is not emitted."""
        self.clear()
        for role, layer, key in gates:
            row = self.append_row()
            with QSignalBlocker(row):
                row.role.setCurrentIndex(row.role.findData(role))
                if layer is not None and key is not None:
                    row.region_box.choose(layer, key)
