"""A result in a panel: what to think of it, its numbers, and files that are written and read in workers."""

import functools
from collections.abc import Callable, Generator, Iterable
from html import escape
from pathlib import Path
from typing import Any

from qtpy.QtCore import QObject, Qt, Signal
from qtpy.QtWidgets import (
    QGridLayout,
    QMenu,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Follower
from napari_gpubio.gui.file_dialogs import open_path, save_path
from napari_gpubio.gui.forms import Label, RichLabel, WrappedLabel, text_button
from napari_gpubio.gui.jobs import Job, Outcome
from napari_gpubio.gui.number_table import Number, NumberTable

Saving = tuple[str, Callable[[Path], Any]]  # a file's name, and what writes it; see `ResultFiles.write`
_FINDING = "<span style='color:{}; font-size:16px'>●</span> {}"
_BUTTONS_IN_A_ROW = 2
_NUMBERS_IN_HEAD = 4

# -- files ------------------------------------------------------------------------------------------------------------


class ResultFiles(QObject, Follower):
    """Writes and reads files in workers; several at the same time.

    ``status_changed`` and ``error_occurred`` carry sentences, an empty one when what was said is past. A panel owns it
    (`EnginePanel.own`), or the part that it belongs to passes `detach` on.

    Parameters
    ----------
    parent
        The widget that file dialogs belong to; None where there are none.
    """

    status_changed = Signal(str)
    error_occurred = Signal(str)

    def __init__(self, parent: QWidget | None) -> None:
        super().__init__(parent)
        self._window = parent
        self._jobs: set[Job] = set()

    @property
    def is_busy(self) -> bool:
        """Whether something is being written or read."""
        return bool(self._jobs)

    def write(self, path: Path, write: Callable[[Path], Any]) -> None:
        """Call ``write(path)`` in a worker, and take the steps that it may return; a text becomes the status."""
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

    def detach(self) -> None:
        """Let what is being written come to its end, without further signals."""
        while self._jobs:
            self._jobs.pop().abandon()

    def _start(self, path: Path, what: str, act: Callable[[Path], Any], then: Callable[[Any], Any]) -> None:
        job = Job(lambda _stop: _one_step(path, what, act), self)
        self._jobs.add(job)
        text = f"{path.name} is being {what} …"
        job.stepped.connect(functools.partial(self._on_stepped, job, text))
        job.finished.connect(functools.partial(self._on_finished, job, then))
        self.error_occurred.emit("")  # that of an earlier try has ended
        self.status_changed.emit(text)
        job.start()

    def _on_stepped(self, job: Job, text: str, step: Step) -> None:
        if step.done and job in self._jobs:
            self.status_changed.emit(f"{text} {100 * step.fraction:.0f} %")

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
        found = act(path)
        return (yield from found) if isinstance(found, Generator) else found
    except (GpuBioError, OSError) as error:
        raise InvalidInput(f"{path.name} could not be {what}: {error}") from error


# -- all of it ---------------------------------------------------------------------------------------------------------


class ResultBox(QWidget, Follower):
    """Findings, numbers, room for what is an engine's own, and buttons; a text while there is no result.

    Parameters
    ----------
    empty_text
        What the user does to get a result.

    Attributes
    ----------
    head
        The numbers that count most, in a line; a panel puts it where it stays in sight.
    """

    def __init__(self, empty_text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.files = ResultFiles(self)
        self.followers = (self.files,)
        self.table = NumberTable(self)
        self.above, self.content = QVBoxLayout(), QVBoxLayout()  # around the numbers; visible with them
        self.head = WrappedLabel("", parent)
        self._empty, self._findings = Label(empty_text, self), RichLabel(self)
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

    def show_numbers(
        self, rows: Iterable[Number], findings: Iterable[tuple[str, str]] = (), *, head: str = ""
    ) -> None:  # fmt: skip
        """Show a result.

        Parameters
        ----------
        rows
            Its numbers.
        findings
            What to think of it: "ok", "warning" or "error", and a sentence.
        head
            The group of the numbers that stay in sight; empty: the first one.
        """
        rows, findings = tuple(rows), tuple(findings)
        self.table.show_rows(rows)
        group = head or next((row.group for row in rows), "")
        numbers = [f"{row.name} {row.text} {row.unit}".strip() for row in rows if row.group == group]
        sentences = " ".join(sentence for _, sentence in findings)
        self.head.setText(f"{group}: {' · '.join(numbers[:_NUMBERS_IN_HEAD])}" if numbers else sentences)
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

    def add_saving(self, text: str, tip: str, filters: str, make: Callable[[], Saving]) -> None:
        """Add a button that asks for a file and writes it; ``make`` returns the name to offer, and what writes."""

        def save() -> None:
            try:
                name, write = make()
            except GpuBioError as error:
                self.files.error_occurred.emit(str(error))
                return
            self.files.ask_to_write(text.removesuffix("…"), filters, name, lambda: write)

        self.add_button(text, tip, save)

    def add_menu(self, text: str, tip: str, entries: Iterable[tuple[str, Callable[[], object]]]) -> QPushButton:
        """Add a button with a menu of texts and what they do."""
        button, menu = self.add_button(text, tip), QMenu(self)
        for title, act in entries:
            menu.addAction(title, act)
        button.setMenu(menu)
        return button

    def _show_whether_empty(self, *, is_empty: bool) -> None:
        self._empty.setVisible(is_empty)
        self._shown.setVisible(not is_empty)
        self.head.setVisible(not is_empty and bool(self.head.text()))
        for button in self._needing:
            button.setEnabled(not is_empty)
