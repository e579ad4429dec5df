"""The dock widget "BIDS dataset": what each subject of a dataset has, and one of them shown as layers."""

import threading
from collections.abc import Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from napari.layers import Layer
from qtpy.QtCore import QEvent, Qt
from qtpy.QtWidgets import QApplication, QCheckBox, QHeaderView, QLineEdit, QTableWidgetItem, QWidget
from superqt import QElidingLabel

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import LayerData, carried, with_notes
from napari_gpubio.core.reading import noted, reading
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import first_of
from napari_gpubio.gui.connections import Connections
from napari_gpubio.gui.file_dialogs import folder_path
from napari_gpubio.gui.forms import muted_label, notes_text, row_of, text_button, tip_of
from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.gui.layers import unwrapped
from napari_gpubio.gui.number_table import CopyingTable
from napari_gpubio.gui.panel import EnginePanel
from napari_gpubio.gui.run_parts import Pieces
from napari_gpubio.gui.session_window import shown_steps, take_layers
from napari_gpubio.gui.typed_rows import Column
from napari_gpubio.workflows.bids.dataset import open_dataset, place_in_dataset
from napari_gpubio.workflows.bids.napari_io import KINDS, PLACE, Row, layer_steps, rows_of

if TYPE_CHECKING:
    import napari.viewer

_TITLES = ("T1", "DWI", "Labels", "Probe", "Plan")
_COLUMNS = {
    "Subject": "Subject, and session",
    **dict(zip(_TITLES, KINDS, strict=True)),
    "!": "What is wrong with its files",
}
_TIP = "A folder of the Brain Imaging Data Structure; one that is dropped on napari is shown here, too"
_NO_FOLDER = "There is no dataset; choose its folder, or drop it on napari."
_LINES, _LINE_GAP, _MAX_NAMED = 8, 6, 4  # rows in sight at least, pixels between them, names in a tip
_NAME, _MOST_LETTERS = "Subject 00", 36  # that a row has room for


class Found(NamedTuple):
    """A part of what is found in a dataset: its folder, what is wrong with that itself, and rows of subjects."""

    folder: Path
    problems: tuple[str, ...]
    rows: list[Row]


class Opened(NamedTuple):
    """What was read of a subject, and what was assumed or left out."""

    row: Row
    layers: list[LayerData]
    notes: list[str]


def listing_steps(folder: Path, stop: threading.Event) -> Generator[Step, None, None]:
    """Look through a dataset; the preview of each step is the `Found` of one subject."""
    with reading(folder):
        dataset = open_dataset(place_in_dataset(folder)[0])
    for number, subject in enumerate(dataset.subjects, 1):
        try:
            rows = rows_of(dataset, subject)
        except InvalidInput as error:
            rows = [Row(subject, "", {}, (str(error),))]
        if stop.is_set():
            return
        made = partial(Found, dataset.folder, dataset.own_problems, rows)
        yield Step(number, len(dataset.subjects), make_preview=made)


def _opening_steps(folder: Path, row: Row, stop: threading.Event) -> Generator[Step, None, Opened | None]:
    """Read what a row names as it is now."""
    with noted() as notes:
        with reading(folder):
            dataset = open_dataset(folder)
        now = next((one for one in rows_of(dataset, row.subject) if one.session == row.session), None)
        if now is None:
            raise InvalidInput(f"{row.name} is no more in {folder.name}; choose the folder again to see what is")
        layers = yield from layer_steps(dataset, now, stop)
    return None if layers is None else Opened(now, with_notes(layers, notes), notes)


class SubjectTable(CopyingTable):
    """A row for each session of each subject; one of them is picked."""

    columns = tuple(Column(title, title, tip) for title, tip in _COLUMNS.items())

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.rows: list[Row] = []
        self.setEditTriggers(self.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(self.ScrollMode.ScrollPerPixel)
        header = self.horizontalHeader()
        header.setResizeContentsPrecision(0)  # by the rows in sight
        header.setMinimumSectionSize(1)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.setWordWrap(False)
        self.clear_rows()

    @property
    def picked(self) -> Row | None:
        """The row that is picked, or None."""
        found = self.selectionModel().selectedRows()
        return self.rows[found[0].row()] if found else None

    def pick(self, name: str) -> bool:
        """Pick the first row in sight of a subject or session, or of any (an empty name); returns whether it can."""
        start = name and f"{name}/"
        fits = (n for n, row in enumerate(self.rows) if not self.isRowHidden(n) and f"{row.name}/".startswith(start))
        if (number := next(fits, None)) is not None:
            self.selectRow(number)
        return number is not None

    def clear_rows(self) -> None:
        """Show nothing."""
        self.rows = []
        self.setRowCount(0)
        for column in range(1, len(self.columns)):
            self.hideColumn(column)  # until a subject has something there

    def add(self, rows: Iterable[Row], text: str) -> None:
        """Add rows below; see `show_fitting`."""
        for row in rows:
            self.rows.append(row)
            self.insertRow(number := self.rowCount())
            for place, item in enumerate(_items(row)):
                self.setItem(number, place, item)
                if item.text() and self.isColumnHidden(place):
                    self.showColumn(place)
                    self._fit()
            self.setRowHidden(number, text.casefold() not in row.name.casefold())

    def show_fitting(self, text: str) -> None:
        """Hide rows without a text in the name; if that hides the picked one, the first one is picked."""
        for number, row in enumerate(self.rows):
            self.setRowHidden(number, text.casefold() not in row.name.casefold())
        if self.picked is None or self.isRowHidden(self.currentRow()):
            self.clearSelection()
            self.pick("")

    def changeEvent(self, event: Any) -> None:
        """Qt: another style, whose font may be another."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self._fit()

    def _fit(self) -> None:
        """Be high enough for some rows, and wide enough for the columns unless that were very wide."""
        header, fonts = self.horizontalHeader(), self.fontMetrics()
        self.verticalHeader().setDefaultSectionSize(fonts.height() + _LINE_GAP)
        self.setMinimumHeight(header.sizeHint().height() + _LINES * (fonts.height() + _LINE_GAP))
        marks = [n for n in range(1, len(self.columns)) if not self.isColumnHidden(n)]
        wanted = sum(map(header.sectionSizeHint, marks)) + fonts.horizontalAdvance(_NAME)
        self.setMinimumWidth(min(wanted, _MOST_LETTERS * fonts.averageCharWidth()))


def _items(row: Row) -> Iterator[QTableWidgetItem]:
    """The cells of a row."""
    yield QTableWidgetItem(row.name.replace("sub-", "").replace("ses-", ""))
    for what in KINDS:
        names = [path.name for path, _ in row.files.get(what, ())]
        yield _item("✓" if names else "", first_of(names, _MAX_NAMED) or f"no {what}")
    yield _item(str(len(row.problems) or ""), notes_text(row.problems))


def _item(text: str, tip: str) -> QTableWidgetItem:
    item = QTableWidgetItem(text)
    item.setToolTip(tip_of(tip))
    item.setTextAlignment(Qt.AlignmentFlag.AlignCenter)
    return item


class SearchLine(QLineEdit):
    """A text that rows of a table are to have in them; arrows up and down go through the table."""

    keeps_controls = False  # it is about the view

    def __init__(self, table: SubjectTable, parent: QWidget) -> None:
        super().__init__(parent)
        self._table = table
        self.setPlaceholderText("find a subject or session")
        self.setClearButtonEnabled(True)
        self.textChanged.connect(table.show_fitting)

    def keyPressEvent(self, event: Any) -> None:
        """Qt: a key."""
        if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            QApplication.sendEvent(self._table, event)
        else:
            super().keyPressEvent(event)


class BidsPanel(EnginePanel):
    """Lists the subjects of a BIDS dataset, and shows one of them.

    The dataset is one that is chosen, or the one that layers were opened of last.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    marks_stale = False

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer, run_text="Open")
        self._device.hide()  # files are read, and nothing is computed
        self.folder: Path | None = None  # of the dataset that is listed
        self._asked: Path | None = None  # of the one that is looked through
        self._about = _NO_FOLDER
        self._wanted = ""  # the row to be picked as soon as it is there
        self._listing = LatestJob(self, self._on_listed)
        self._listing.stepped.connect(self._on_rows)
        self.folder_label = QElidingLabel("none", self)
        self.folder_label.setTextFormat(Qt.TextFormat.PlainText)
        self.folder_button = text_button("Choose folder…", _TIP, self, self._choose_folder)
        self.table = SubjectTable(self)
        self.search_line = SearchLine(self.table, self)
        self.search_line.setToolTip("Show the subjects and sessions whose names have this in them")
        self.about_label = muted_label(self, self._about)
        tip = "Keep the layers of this dataset that are open; otherwise those of another subject take their place"
        self.beside_box = QCheckBox("beside the others", self, toolTip=tip)
        self.header.addRow(row_of(self.folder_label, self.folder_button))
        self.inputs.addWidget(self.search_line)
        self.inputs.addWidget(self.table, 1)
        self.inputs.addWidget(self.about_label)
        self.above_run.addWidget(self.beside_box)
        self.table.doubleClicked.connect(lambda *_: self.run())
        self.own(Connections(lambda: [(viewer.layers.events.inserted, self._on_inserted)], self._follow_newest))

    # -- the dataset ----------------------------------------------------------------------------------------------

    def _choose_folder(self) -> None:
        if (folder := folder_path(self, "BIDS dataset", start=str(self.folder or ""))) is not None:
            self.list_subjects(folder)

    def list_subjects(self, folder: Path, wanted: str = "") -> None:
        """Look through a dataset, or the one that a folder is of; ``wanted``: the row to pick, such as ``"sub-01"``."""
        root, *_ = place_in_dataset(folder)
        self._asked, self._wanted = root, wanted or folder.absolute().relative_to(root).as_posix().strip(".")
        self.about_label.setText(f"{root.name} is looked through …")
        self._listing.cancel()
        self._listing.submit(partial(listing_steps, root))

    def _on_rows(self, step: Step) -> None:
        found: Found = step.preview
        if step.done == 1:
            self.folder = found.folder
            self.folder_label.setText(found.folder.name)
            self.folder_label.setToolTip(tip_of(str(found.folder)))
            self.table.clear_rows()
        self.table.add(found.rows, self.search_line.text())
        self.about_label.setText(f"{step.done} of {step.total} subjects were looked through …")
        if (self._wanted or self.table.picked is None) and self.table.pick(self._wanted):
            self._wanted = ""
        if step.done == step.total:
            self._about = self._described(found.problems)
            self.about_label.setText(self._about)

    def _described(self, problems: Iterable[str]) -> str:
        """What the dataset has, and what is wrong with it."""
        rows = self.table.rows
        subjects, sessions = len({row.subject for row in rows}), sum(bool(row.session) for row in rows)
        wrong = sum(bool(row.problems) for row in rows)
        counts = {"subjects": subjects, "sessions": sessions, "with problems": wrong}
        text = " · ".join(f"{what}: {count}" for what, count in counts.items() if count)
        return f"{text}. {notes_text(problems)}"

    def _on_listed(self, outcome: Outcome) -> None:
        self._asked = None
        if outcome.error:
            self.about_label.setText(self._about)
            self.show_error(outcome.error)

    def _on_inserted(self, event: Any) -> None:
        self._follow(event.value)

    def _follow_newest(self) -> None:
        any(map(self._follow, reversed(self.viewer.layers)))

    def _follow(self, layer: Any) -> bool:
        """List the dataset that a layer was opened of, if it was, unless it is the one that is listed."""
        if (place := carried(layer, PLACE)) is None:
            return False
        if Path(place[0]) != (self._asked or self.folder):
            self.list_subjects(Path(place[0]), place[1])
        return True

    # -- opening --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Opened | None]:
        """Return the run that reads the picked subject."""
        row = self.table.picked
        if self.folder is None or row is None:
            raise InvalidInput(_NO_FOLDER if self.folder is None else "no subject is picked; click on one")
        return _opening_steps(self.folder, row, stop)

    def show_result(self, opened: Opened | None) -> Pieces:
        """Show the layers of a subject, in place of the others of the dataset or beside them."""
        if opened is None:
            self.show_status("stopped; nothing was changed")
            return
        layers = [Layer.create(*one) for one in opened.layers]
        yield
        notes, others = [*opened.notes], [] if self.beside_box.isChecked() else self._layers()
        for layer in others:
            if len(getattr(layer, "_undo_history", ())):
                notes.append(f"the layer {layer.name!r} was painted on, and stays")
            else:
                self.viewer.layers.remove(layer)
                yield
        for layer in layers:
            self.viewer.add_layer(layer)
            yield
        if notes:
            self.show_note(notes_text(notes))
        self.show_status(f"{opened.row.name} is shown; layers: {len(layers)}")

    def _layers(self) -> list[Any]:
        """The layers that were opened of the dataset; copies that the user made are not among them."""
        every = map(unwrapped, self.viewer.layers)
        return [one for one in every if (carried(one, PLACE) or ("",))[0] == str(self.folder) and not one.source.parent]

    def copy_script(self) -> None:
        """Put a script on the clipboard that reads what is shown of the dataset."""
        taken, _ = take_layers(self._layers())
        if not taken:
            self.show_error("nothing of a dataset is shown; open a subject")
            return
        self.run_other(
            lambda _: shown_steps(taken),
            lambda shown: self.put_on_clipboard(self.script_of(*(one.output for one in shown))),
        )

    def teardown(self) -> None:
        """Stop looking through folders, too."""
        self._listing.abandon()
        super().teardown()

    def revive(self) -> None:
        """Go on looking through folders, too."""
        super().revive()
        if self._asked is not None:
            self.list_subjects(self._asked, self._wanted)
