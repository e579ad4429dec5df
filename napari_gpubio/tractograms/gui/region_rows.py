"""Rows that each have a region of the viewer's layers, in a column to which some are added."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QVBoxLayout, QWidget

Row = TypeVar("Row", bound=Any)  # a widget with a signal ``changed`` and a ``region_box``


class RegionRows(QWidget, Generic[Row]):
    """Base of lists of rows; ``changed`` tells that one was added, edited or removed."""

    changed = Signal()
    keeps_controls = False  # they come with the rows that undo keeps

    def __init__(
        self, make_row: Callable[[Any, Any, QWidget], Row], viewer: Any, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._make_row, self._viewer = make_row, viewer
        self._rows: list[Row] = []
        self._column = QVBoxLayout()

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows, from the top."""
        return tuple(self._rows)

    def show_kept(self) -> None:
        """Do nothing: the rows are shown."""

    def attach(self) -> None:
        """Follow the viewer's layers."""
        for row in self._rows:
            row.region_box.attach()

    def detach(self) -> None:
        """Stop following the viewer."""
        for row in self._rows:
            row.region_box.detach()

    def append_row(self) -> Row:
        """Put a row at the end, which is then to be filled."""
        row = self._make_row(self._viewer, self._remove, self)
        self._rows.append(row)
        self._column.addWidget(row)
        row.region_box.attach()
        row.changed.connect(self.changed)
        return row

    def clear(self) -> None:
        """Take all rows away; ``changed`` is not emitted."""
        while self._rows:
            self.take(self._rows[-1])

    def take(self, row: Row) -> None:
        """Take a row away; ``changed`` is not emitted."""
        self._rows.remove(row)
        row.region_box.detach()
        self._column.removeWidget(row)
        row.hide()  # it is deleted only in the event loop
        row.deleteLater()

    def _remove(self, row: Row) -> None:
        self.take(row)
        self.changed.emit()
