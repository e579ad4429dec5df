"""The cells of a table behind the screen: texts that may be wrong, a unit, and changes that can be taken back."""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from qtpy.QtCore import QAbstractTableModel, QModelIndex, Qt, Signal
from qtpy.QtGui import QColor

from napari_gpubio.core.errors import InvalidInput

Place = tuple[int, int]  # row and column
WRONG, MISSING = QColor(255, 107, 94, 110), QColor("#d6942a")  # such as can be read on napari's dark and light theme
_MOST_UNDO = 100
_Role = Qt.ItemDataRole


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    field
        What it shows of a row.
    title, help
        The text above it, and the sentence about it.
    widest
        A text that it has room for, at least.
    editable
        Whether its cells can be typed into.
    """

    field: str
    title: str
    help: str
    widest: str = "00.00"
    editable: bool = True


class CellModel(QAbstractTableModel):
    """Rows of cells.

    A subclass gives ``columns`` and ``units``, keeps the rows, puts into ``self._shows`` what a cell shows by role, and
    implements `rowCount`, `headerData`, `type_in`, `undo`, `problem`, `judge` and `is_missing`. ``changed`` says that
    the rows may be others, ``judged`` that what is wrong with them, or the unit, is.
    """

    changed = Signal()
    judged = Signal()
    columns: tuple[Column, ...]
    units: Collection[str]

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._unit = next(iter(self.units))
        self._undo: deque[Any] = deque(maxlen=_MOST_UNDO)  # the rows before each change
        self._shows: dict[Any, Callable[[int, str], Any]] = {}  # by role: from row and field

    # -- what a subclass gives ------------------------------------------------------------------------------------

    def type_in(self, texts: Mapping[Place, str]) -> None:
        """Put texts into cells as if the user had typed them, in one step."""
        raise NotImplementedError

    def undo(self) -> None:
        """Take the last change of the rows back."""
        raise NotImplementedError

    def problem(self, row: int, column: int) -> str:
        """What is wrong with a cell, as a sentence, or an empty text."""
        raise NotImplementedError

    def judge(self, row: int, column: int, text: str) -> str:
        """What would be wrong with a cell if the text were typed into it."""
        raise NotImplementedError

    def is_missing(self, row: int, column: int) -> bool:
        """Whether a cell has yet to be filled."""
        raise NotImplementedError

    # -- unit and undo --------------------------------------------------------------------------------------------

    @property
    def unit(self) -> str:
        """In what numbers are shown and typed."""
        return self._unit

    def set_unit(self, unit: str) -> None:
        """Show numbers in another unit; the stored ones stay."""
        if unit not in self.units:
            raise InvalidInput(f"the unit is {unit!r}; choose one of {', '.join(self.units)}")
        self._unit = unit
        self._tell()
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(self.columns) - 1)
        self.judged.emit()

    @property
    def can_undo(self) -> bool:
        """Whether there is a change to take back."""
        return bool(self._undo)

    # -- Qt -------------------------------------------------------------------------------------------------------

    def columnCount(self, parent: QModelIndex | None = None) -> int:
        """Qt: number of columns."""
        return 0 if parent is not None and parent.isValid() else len(self.columns)

    def data(self, index: QModelIndex, role: int = _Role.DisplayRole) -> Any:
        """Qt: text, color or tool tip of a cell."""
        show = self._shows.get(role)
        return None if show is None or not index.isValid() else show(index.row(), self.columns[index.column()].field)

    def setData(self, index: QModelIndex, value: Any, role: int = _Role.EditRole) -> bool:
        """Qt: the user typed into a cell."""
        if role != _Role.EditRole or not index.isValid() or not self.columns[index.column()].editable:
            return False
        self.type_in({(index.row(), index.column()): str(value)})
        return True

    def flags(self, index: QModelIndex) -> Qt.ItemFlag:
        """Qt: what can be done with a cell."""
        flags = super().flags(index)
        editable = index.isValid() and self.columns[index.column()].editable
        return flags | Qt.ItemFlag.ItemIsEditable if editable else flags

    def _tell(self) -> None:
        """Let every cell be drawn anew."""
        if self.rowCount():
            self.dataChanged.emit(self.index(0, 0), self.index(self.rowCount() - 1, len(self.columns) - 1))


def aligned(*, left: bool) -> Qt.AlignmentFlag:
    """Where the text of a cell stands: words to the left, numbers to the right."""
    side = Qt.AlignmentFlag.AlignLeft if left else Qt.AlignmentFlag.AlignRight
    return side | Qt.AlignmentFlag.AlignVCenter
