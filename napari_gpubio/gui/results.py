"""A result in a panel: what to think of it, its numbers, and files that are written and read in workers."""

import functools
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from qtpy.QtCore import QObject, Qt, Signal
from qtpy.QtGui import QBrush, QColor, QIcon, QKeySequence
from qtpy.QtWidgets import (
    QApplication,
    QGridLayout,
    QHeaderView,
    QLabel,
    QMenu,
    QPushButton,
    QSizePolicy,
    QTableWidget,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.gui import theme
from napari_gpubio.gui.file_dialogs import open_path, save_path
from napari_gpubio.gui.forms import text_button
from napari_gpubio.gui.jobs import Job, Outcome
from napari_gpubio.gui.tables import color_chip

# -- files ------------------------------------------------------------------------------------------------------------


class ResultFiles(QObject):
    """Writes and reads files in workers; several at the same time.

    ``status_changed`` and ``error_occurred`` carry sentences. A panel owns it (`EnginePanel.own`), or the part that it
    belongs to passes `detach` on.

    Parameters
    ----------
    parent
        The widget that file dialogs belong to.
    """

    status_changed = Signal(str)
    error_occurred = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._jobs: set[Job] = set()

    @property
    def is_busy(self) -> bool:
        """Whether something is being written or read."""
        return bool(self._jobs)

    def write(self, path: Path, write: Callable[[Path], Any]) -> None:
        """Call ``write(path)`` in a worker; a text that it returns becomes the status."""
        saved = f"saved {path.name}"
        self._start(path, "saved", write, lambda it: self.status_changed.emit(it if isinstance(it, str) else saved))

    def read(self, path: Path, read: Callable[[Path], Any], show: Callable[[Any], Any]) -> None:
        """Call ``read(path)`` in a worker, and ``show`` with what it returns."""
        self._start(path, "opened", read, show)

    def ask_to_write(self, title: str, filters: str, name: str, make: Callable[[], Callable[[Path], Any]]) -> None:
        """Open a dialog, and write the chosen file.

        Parameters
        ----------
        title, filters, name
            Of the dialog; see `file_dialogs.save_path`.
        make
            Called before the dialog opens; returns what a worker calls with the path, see `write`. A `GpuBioError` is
            shown instead of the dialog.
        """
        try:
            write = make()
        except GpuBioError as error:
            self.error_occurred.emit(str(error))
            return
        if path := save_path(self._window, title, filters, name=name):
            self.write(path, write)

    def ask_to_read(self, title: str, filters: str, read: Callable[[Path], Any], show: Callable[[Any], Any]) -> None:
        """Open a dialog, read the chosen file, and call ``show`` with what was read."""
        if path := open_path(self._window, title, filters):
            self.read(path, read, show)

    def attach(self) -> None:
        """Do nothing: nothing of the viewer is followed."""

    def detach(self) -> None:
        """Let what is being written come to its end, without further signals."""
        while self._jobs:
            self._jobs.pop().abandon()

    def _start(self, path: Path, what: str, act: Callable[[Path], Any], then: Callable[[Any], Any]) -> None:
        job = Job(lambda _stop: _one_step(path, what, act), self)
        self._jobs.add(job)
        job.finished.connect(functools.partial(self._on_finished, job, then))
        self.status_changed.emit(f"{path.name} is being {what} …")
        job.start()

    def _on_finished(self, job: Job, then: Callable[[Any], Any], outcome: Outcome) -> None:
        if job not in self._jobs:
            return  # the panel has gone since
        self._jobs.discard(job)
        job.deleteLater()
        self.status_changed.emit("")
        if outcome.error:
            self.error_occurred.emit(outcome.error)
        else:
            then(outcome.result)


def _one_step(path: Path, what: str, act: Callable[[Path], Any]) -> Generator[Step, None, Any]:
    yield Step(0, 1, what)
    try:
        return act(path)
    except (GpuBioError, OSError) as error:
        raise InvalidInput(f"{path.name} could not be {what}: {error}") from error


# -- numbers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One row of a table of numbers.

    Parameters
    ----------
    group
        The heading above it.
    name, text, unit
        In the three columns.
    note
        Shown while the mouse is over the row.
    status
        "ok", "warning" or "error".
    color
        Of a chip before the name, as Qt or as red, green, blue 0 to 1; or None.
    """

    group: str
    name: str
    text: str
    unit: str = ""
    note: str = ""
    status: str = "ok"
    color: Any = None


_MOST_PIXELS = 900  # a longer table scrolls by itself
_NAME, _VALUE, _UNIT = range(3)
_NAMES_SHARE = 0.5  # of the width, which values and units leave to names that need it


_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def bare(text: str) -> str:
    """Return numbers without commas between thousands, which are decimal marks to spreadsheets of some languages."""
    return _THOUSANDS.sub("", text)


class CopyingView:
    """The part of a table for reading that puts its text on the clipboard: by Ctrl+C, and by a menu."""

    def copied_text(self) -> str:
        """Return lines with tabs, which a spreadsheet takes."""
        raise NotImplementedError

    def copy(self) -> None:
        """Put the text on the clipboard."""
        QApplication.clipboard().setText(self.copied_text())

    def keyPressEvent(self, event: Any) -> None:
        """Qt: a key."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        else:
            super().keyPressEvent(event)  # type: ignore[misc] # of the Qt class that stands beside this one

    def contextMenuEvent(self, event: Any) -> None:
        """Qt: the right mouse button."""
        menu = QMenu(self)
        menu.addAction("Copy", self.copy)
        menu.exec(event.globalPos())


class CopyingTable(CopyingView, QTableWidget):
    """A table of texts to read; copied are its titles, and the selected rows, or all rows if none is selected."""

    def copied_titles(self) -> list[str]:
        """Return the titles that are copied."""
        return [self.horizontalHeaderItem(column).text() for column in range(self.columnCount())]

    def copied_text(self) -> str:
        """Return titles and rows as lines with tabs, which a spreadsheet takes."""
        columns = range(self.columnCount())
        rows = sorted({index.row() for index in self.selectedIndexes()}) or range(self.rowCount())
        lines = [[" ".join(title.split()) for title in self.copied_titles()]]
        lines += [[self.item(row, 0).text(), *(bare(self.item(row, n).text()) for n in columns[1:])] for row in rows]
        return "\n".join("\t".join(line) for line in lines)


class NumberTable(CopyingView, QTreeWidget):
    """Shows rows of numbers; while only the numbers change, what is folded or selected stays so."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows: tuple[Number, ...] = ()
        self._items: list[QTreeWidgetItem] = []
        self.setColumnCount(3)
        self.setHeaderHidden(True)
        self.setIndentation(14)
        self.setUniformRowHeights(True)
        self.setSelectionMode(QTreeWidget.SelectionMode.ExtendedSelection)
        self.setVerticalScrollMode(QTreeWidget.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setStyleSheet("QTreeView::item { height: 17px; }")
        self.setToolTip("Ctrl+C copies the selected rows, or all rows if none is selected")
        self.header().setMinimumSectionSize(20)
        self.header().setStretchLastSection(False)
        self.header().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.itemExpanded.connect(self._fit)
        self.itemCollapsed.connect(self._fit)

    def show_rows(self, rows: Iterable[Number]) -> None:
        """Show these rows; their groups become headings, in the order in which they come."""
        rows = tuple(rows)
        if [(row.group, row.name) for row in rows] != [(row.group, row.name) for row in self.rows]:
            self._build(rows)
        self.rows = rows
        for item, row in zip(self._items, rows, strict=True):
            _fill(item, row)
        self._fit()
        self._share_width()

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size."""
        super().resizeEvent(event)
        self._share_width()

    def recolor(self, _swap: Mapping[str, str]) -> None:
        """Take the colors of another theme."""
        self.show_rows(self.rows)

    def copied_text(self) -> str:
        """Return the selected rows, or all, as lines with tabs, which a spreadsheet takes."""
        chosen = [row for item, row in zip(self._items, self.rows, strict=True) if item.isSelected()]
        return "\n".join("\t".join((row.group, row.name, bare(row.text), row.unit)) for row in chosen or self.rows)

    def _build(self, rows: Sequence[Number]) -> None:
        folded = {item.text(_NAME) for item in self._headings() if not item.isExpanded()}
        self.clear()
        self._items = []
        headings: dict[str, QTreeWidgetItem] = {}
        for row in rows:
            if row.group not in headings:
                headings[row.group] = self._heading(row.group, is_folded=row.group in folded)
            self._items.append(QTreeWidgetItem(headings[row.group]))

    def _heading(self, title: str, *, is_folded: bool) -> QTreeWidgetItem:
        item = QTreeWidgetItem(self, [title])
        font = item.font(_NAME)
        font.setBold(True)
        item.setFont(_NAME, font)
        item.setFlags(Qt.ItemFlag.ItemIsEnabled)
        item.setFirstColumnSpanned(True)
        item.setExpanded(not is_folded)
        return item

    def _headings(self) -> list[QTreeWidgetItem]:
        return [self.topLevelItem(index) for index in range(self.topLevelItemCount())]

    def _share_width(self) -> None:
        """Give units and values the width that they need, and names the rest, or what they need up to a half."""
        width, (name, value, unit) = self.viewport().width(), (self.sizeHintForColumn(n) for n in range(3))
        name = max(width - value - unit, min(name, round(_NAMES_SHARE * width)))
        unit = min(unit, max(width - name - value, round((width - name) / 3)))
        for column, size in ((_NAME, name), (_VALUE, width - name - unit), (_UNIT, unit)):
            self.header().resizeSection(column, size)

    def _fit(self, *_: Any) -> None:
        """Be as high as what is unfolded."""
        headings = self._headings()
        lines = len(headings) + sum(heading.childCount() for heading in headings if heading.isExpanded())
        line = self.sizeHintForRow(0) if headings else 0
        self.setFixedHeight(min(lines * line + 2 * self.frameWidth() + 2, _MOST_PIXELS))


def _fill(item: QTreeWidgetItem, row: Number) -> None:
    for column, text in ((_NAME, row.name), (_VALUE, row.text), (_UNIT, row.unit)):
        item.setText(column, text)
    item.setTextAlignment(_VALUE, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    brush = QBrush() if row.status == "ok" else QBrush(QColor(theme.STATUS_COLORS[row.status]))
    for column in (_NAME, _VALUE):
        item.setForeground(column, brush)
        item.setToolTip(column, row.note or f"{row.name}: {row.text} {row.unit}".strip())
    item.setIcon(_NAME, QIcon() if row.color is None else color_chip(row.color))


# -- all of it --------------------------------------------------------------------------------------------------------

_FINDING = "<span style='color:{}; font-size:16px'>●</span> {}"
_BUTTONS_IN_A_ROW = 2


class ResultBox(QWidget):
    """Findings, numbers, room for what is an engine's own, and buttons; a text while there is no result.

    Parameters
    ----------
    empty_text
        What the user does to get a result.
    """

    def __init__(self, empty_text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.files = ResultFiles(self)
        self.table = NumberTable(self)
        self.above, self.content = QVBoxLayout(), QVBoxLayout()  # around the numbers; visible with them
        self._empty, self._findings = QLabel(empty_text, self), QLabel(self)
        for label in (self._empty, self._findings):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._shown = QWidget(self)
        inside = QVBoxLayout(self._shown)
        inside.addWidget(self._findings)
        inside.addLayout(self.above)
        inside.addWidget(self.table)
        inside.addLayout(self.content)
        self._grid = QGridLayout()
        self._needing: list[QPushButton] = []  # the buttons that need a result
        layout = QVBoxLayout(self)
        for each in (inside, layout):
            each.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._empty)
        layout.addWidget(self._shown)
        layout.addLayout(self._grid)
        self.clear()

    @property
    def findings(self) -> str:
        """The findings of the result, as rich text."""
        return self._findings.text()

    def show_numbers(self, rows: Iterable[Number], findings: Iterable[tuple[str, str]] = ()) -> None:
        """Show a result.

        Parameters
        ----------
        rows
            Its numbers.
        findings
            What to think of it: "ok", "warning" or "error", and a sentence.
        """
        self.table.show_rows(rows)
        lines = [_FINDING.format(theme.STATUS_COLORS[status], escape(sentence)) for status, sentence in findings]
        self._findings.setText("<br>".join(lines))
        self._findings.setVisible(bool(lines))
        self._show_whether_empty(is_empty=False)

    def clear(self) -> None:
        """Show that there is no result."""
        self.table.show_rows(())
        self._show_whether_empty(is_empty=True)

    def add_button(
        self, text: str, tip: str, act: Callable[[], object] | None = None, *, needs_result: bool = True
    ) -> QPushButton:
        """Add a button below; it can be pressed while there is a result, or always."""
        button = text_button(text, tip, self, act)
        self._grid.addWidget(button, *divmod(self._grid.count(), _BUTTONS_IN_A_ROW))
        if needs_result:
            button.setEnabled(not self._shown.isHidden())
            self._needing.append(button)
        return button

    def add_menu(self, text: str, tip: str, entries: Iterable[tuple[str, Callable[[], object]]]) -> QPushButton:
        """Add a button with a menu of texts and what they do."""
        button, menu = self.add_button(text, tip), QMenu(self)
        for title, act in entries:
            menu.addAction(title, act)
        button.setMenu(menu)
        return button

    def attach(self) -> None:
        """Do nothing: nothing of the viewer is followed."""

    def detach(self) -> None:
        """Let what is being written come to its end."""
        self.files.detach()

    def _show_whether_empty(self, *, is_empty: bool) -> None:
        self._empty.setVisible(is_empty)
        self._shown.setVisible(not is_empty)
        for button in self._needing:
            button.setEnabled(not is_empty)
