"""Rows of regions that fibers pass, and of those that they do not enter."""

from typing import Any

from qtpy.QtCore import QSignalBlocker, Signal
from qtpy.QtWidgets import QVBoxLayout, QWidget

from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import fill_column, row_of, text_button
from napari_gpubio.tractograms.gui.region_box import ChosenRegion, RegionBox

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


class GateList(QWidget):
    """All rows; ``changed`` tells that other fibers may count."""

    changed = Signal()
    kept = ("kept_gates",)
    keeps_controls = False

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._rows: list[GateRow] = []
        self._column = QVBoxLayout()
        add = text_button("Add a region", "That fibers pass, or do not enter", self, self.add)
        fill_column(self, self._column, row_of(add, None))

    @property
    def rows(self) -> tuple[GateRow, ...]:
        """The rows, from the top."""
        return tuple(self._rows)

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

    def show_kept(self) -> None:
        """Do nothing: the rows are shown."""

    def show_gates(self, gates: tuple[Gate, ...]) -> None:
        """Show other rows; ``changed`` is not emitted."""
        while self._rows:
            self._take(self._rows[-1])
        for role, layer, key in gates:
            row = self.add()
            with QSignalBlocker(row):
                row.role.setCurrentIndex(row.role.findData(role))
                if layer is not None and key is not None:
                    row.region_box.choose(layer, key)

    def attach(self) -> None:
        """Follow the viewer's layers."""
        for row in self._rows:
            row.region_box.attach()

    def detach(self) -> None:
        """Stop following the viewer."""
        for row in self._rows:
            row.region_box.detach()

    def add(self) -> GateRow:
        """Add a row, in which a region is to be chosen."""
        row = GateRow(self._viewer, self._remove, self)
        self._rows.append(row)
        self._column.addWidget(row)
        row.region_box.attach()
        row.changed.connect(self.changed)
        return row

    def _remove(self, row: GateRow) -> None:
        self._take(row)
        self.changed.emit()

    def _take(self, row: GateRow) -> None:
        self._rows.remove(row)
        row.region_box.detach()
        self._column.removeWidget(row)
        row.hide()  # it is deleted only in the event loop
        row.deleteLater()
