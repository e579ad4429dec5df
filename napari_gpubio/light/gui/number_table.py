"""Numbers of a result: findings, how the result was made, and a table of values."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtGui import QBrush, QColor, QIcon, QKeySequence, QPixmap
from qtpy.QtWidgets import (
    QApplication,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QMenu,
    QPushButton,
    QSizePolicy,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.gui import theme
from napari_gpubio.light.statistics import Finding
from napari_gpubio.light.summary import NumberRow

STATUS_COLORS = {"ok": theme.GOOD, "warning": theme.WARNING, "error": theme.ERROR}
CHIP_PIXELS = 10
MOST_PIXELS = 900  # a longer table scrolls by itself
_NAME, _VALUE, _UNIT = range(3)


class NumberTable(QTreeWidget):
    """Shows rows of numbers; while only the numbers change, what is folded or selected stays so."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: tuple[NumberRow, ...] = ()
        self._items: list[QTreeWidgetItem] = []
        self.setColumnCount(3)
        self.setHeaderHidden(True)
        self.setRootIsDecorated(True)
        self.setIndentation(14)
        self.setUniformRowHeights(True)
        self.setSelectionMode(QTreeWidget.SelectionMode.ExtendedSelection)
        self.setVerticalScrollMode(QTreeWidget.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setStyleSheet("QTreeView::item { height: 17px; }")
        self.setToolTip("Ctrl+C copies the selected rows, or all")
        self.header().setMinimumSectionSize(20)
        self.header().setStretchLastSection(False)
        self.header().setSectionResizeMode(_NAME, QHeaderView.ResizeMode.Stretch)
        for column in (_VALUE, _UNIT):
            self.header().setSectionResizeMode(column, QHeaderView.ResizeMode.ResizeToContents)
        self.itemExpanded.connect(self._fit)
        self.itemCollapsed.connect(self._fit)

    @property
    def rows(self) -> tuple[NumberRow, ...]:
        """What is shown."""
        return self._rows

    def show_rows(self, rows: Sequence[NumberRow], colors: Mapping[int, Any] | None = None) -> None:
        """Show rows; their groups become headings, and a row of a label has a chip in that label's color."""
        rows = tuple(rows)
        if _names(rows) != _names(self._rows):
            self._build(rows)
        self._rows = rows
        for item, row in zip(self._items, rows, strict=True):
            _fill(item, row, None if row.label is None else (colors or {}).get(row.label))
        self._fit()

    def copied_text(self) -> str:
        """Return the selected rows, or all, as lines with tabs, which a spreadsheet takes."""
        pairs = list(zip(self._items, self._rows, strict=True))
        chosen = [row for item, row in pairs if item.isSelected()] or [row for _, row in pairs]
        return "\n".join("\t".join((row.group, row.name, row.text, row.unit)) for row in chosen)

    def copy(self) -> None:
        """Put the selected rows, or all, on the clipboard."""
        QApplication.clipboard().setText(self.copied_text())

    def keyPressEvent(self, event: Any) -> None:
        """Qt: a key."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: Any) -> None:
        """Qt: the right mouse button."""
        menu = QMenu(self)
        menu.addAction("Copy").triggered.connect(self.copy)
        menu.exec(event.globalPos())

    def _build(self, rows: tuple[NumberRow, ...]) -> None:
        folded = {item.text(_NAME) for item in self._groups() if not item.isExpanded()}
        self.clear()
        self._items = []
        groups: dict[str, QTreeWidgetItem] = {}
        for row in rows:
            if row.group not in groups:
                groups[row.group] = self._heading(row.group, folded=row.group in folded)
            self._items.append(QTreeWidgetItem(groups[row.group]))

    def _heading(self, title: str, *, folded: bool) -> QTreeWidgetItem:
        item = QTreeWidgetItem(self, [title])
        font = item.font(_NAME)
        font.setBold(True)
        item.setFont(_NAME, font)
        item.setFlags(Qt.ItemFlag.ItemIsEnabled)
        item.setFirstColumnSpanned(True)
        item.setExpanded(not folded)
        return item

    def _groups(self) -> list[QTreeWidgetItem]:
        return [self.topLevelItem(index) for index in range(self.topLevelItemCount())]

    def _fit(self, *_: Any) -> None:
        """Be as high as what is unfolded."""
        groups = self._groups()
        lines = len(groups) + sum(group.childCount() for group in groups if group.isExpanded())
        line = self.sizeHintForRow(0) if groups else 0
        self.setFixedHeight(min(lines * line + 2 * self.frameWidth() + 2, MOST_PIXELS))


def _names(rows: Sequence[NumberRow]) -> list[tuple[str, str, int | None]]:
    return [(row.group, row.name, row.label) for row in rows]


def _fill(item: QTreeWidgetItem, row: NumberRow, color: Any) -> None:
    item.setText(_NAME, row.name)
    item.setText(_VALUE, row.text)
    item.setText(_UNIT, row.unit or (row.note if row.note.startswith("z") else ""))
    item.setTextAlignment(_VALUE, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    warned = row.status != "ok"
    brush = QBrush(QColor(STATUS_COLORS[row.status])) if warned else QBrush()
    for column in (_NAME, _VALUE):
        item.setForeground(column, brush)
        item.setToolTip(column, row.note or row.name)
    if color is not None:
        item.setIcon(_NAME, chip(color))


def chip(color: Any) -> QIcon:
    """Return a small square of a color, given as Qt or as red, green, blue 0 to 1."""
    pixels = QPixmap(CHIP_PIXELS, CHIP_PIXELS)
    pixels.fill(QColor(color) if isinstance(color, (str, QColor)) else QColor.fromRgbF(*map(float, color[:3])))
    return QIcon(pixels)


_LINE = "<span style='color:{}; font-size:16px'>●</span> {}"


class ResultHead(QWidget):
    """Findings, how the result was made, and a button to continue it."""

    continue_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._findings, self._made = QLabel(self), QLabel(self)
        self._findings.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        for label in (self._findings, self._made):
            label.setWordWrap(True)
        self._continue = QPushButton("Continue", self)
        self._continue.setToolTip(
            "Continue this result with its own inputs: to its end if it was stopped, else with as many more photons "
            "as Photons says"
        )
        self._continue.clicked.connect(lambda: self.continue_requested.emit())
        made = QHBoxLayout()
        made.addWidget(self._made, 1)
        made.addWidget(self._continue)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._findings)
        layout.addLayout(made)

    @property
    def text(self) -> str:
        """The findings."""
        return self._findings.text()

    def show_result(self, result: Any, findings: Sequence[Finding], *, can_continue: bool) -> None:
        """Describe a result in voxels or in layers."""
        self._findings.setText("<br>".join(_LINE.format(STATUS_COLORS[f.status], escape(f.sentence)) for f in findings))
        self._made.setText(made_text(result))
        self._continue.setEnabled(can_continue)


def made_text(result: Any) -> str:
    """Return how many photons, how long, where."""
    text = f"{result.launched:,} photons"
    seconds, device = result.parameters.get("seconds"), str(result.parameters.get("device", "")).split(" (")[0]
    if seconds:
        text += f" in {seconds:.3g} s{device and ' on ' + device}, {result.launched / seconds:,.0f}/s"
    return text
