"""The dock widget "Session": save what the viewer shows with all that made it, open it again, and make the results."""

import threading
from collections.abc import Callable, Collection, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from qtpy.QtWidgets import QCheckBox, QTreeWidget, QTreeWidgetItem

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.operations.graphs import files_of
from napari_gpubio.core.operations.layer_sources import check_shows
from napari_gpubio.core.operations.records import Operation, Reading, words_of
from napari_gpubio.core.operations.reports import shown_sections, write_report
from napari_gpubio.core.operations.runs import run_steps
from napari_gpubio.core.operations.sessions import Opened, open_session, save_session
from napari_gpubio.core.operations.states import Shown, State
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.gui.file_dialogs import opens_with, saves_with
from napari_gpubio.gui.forms import muted_label, notes_text, row_of, text_button, tip_of
from napari_gpubio.gui.front import front_of
from napari_gpubio.gui.jobs import MakeSteps
from napari_gpubio.gui.looks import show_layers
from napari_gpubio.gui.panel import EnginePanel, panels_of
from napari_gpubio.gui.run_parts import Pieces
from napari_gpubio.gui.session_window import show_view, shown_steps, take_layers, view_of
from napari_gpubio.gui.switcher import names_of_panels, open_panel

if TYPE_CHECKING:
    import napari.viewer

_FILTER = "napari-gpubio session (*.zip)"
_PAGES = "Page for a browser (*.html)"
_HEADINGS = ("Layer", "Made by", "")
_SHOWN, _WAITING = "shown", "not made yet"


class Made(NamedTuple):
    """Results of a session that were made, in its order, and those that could not be, with the reason."""

    values: list[tuple[Shown, Any]]
    failed: dict[str, str]


class SessionPanel(EnginePanel):
    """Save and open a session: layers with the operations that made them, drafts of panels, and the view.

    Opening one reads its files and arrays and runs nothing; *Make results* makes what is listed as not made yet.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer, run_text="Make results")
        self._waiting: list[Shown] = []
        self._outside: list[Path] = []  # folders with files that the session names, and may not read
        self._path: Path | None = None
        self._order: list[tuple[str, str]] = []  # of the session that was opened: its layers, from below
        self._there: dict[tuple[str, str], list[Any]] = {}  # those of them that are shown
        self.save_button = text_button("Save session…", "Layers, what made them, and the view, as one file", self)
        self.open_button = text_button("Open session…", "Add the layers of a session to this viewer", self)
        tip = "Pictures, numbers and what made them, of all layers, as one page for a browser"
        self.report_button = text_button("Report…", tip, self)
        tip = "Copy the scans and tables into the session, so that it opens on any machine"
        self.embed_box = QCheckBox("with the files that were opened", self, toolTip=tip)
        self.allow_button = text_button("Allow these folders", "Read the files that lie outside the session", self)
        self.allow_button.hide()
        self.tree = QTreeWidget(self)
        self.tree.setHeaderLabels(_HEADINGS)
        self.tree.setRootIsDecorated(False)
        self.header.addRow(row_of(self.save_button, self.open_button, self.report_button))
        self.inputs.addWidget(self.embed_box)
        self.inputs.addWidget(self.tree)
        self.inputs.addWidget(self.allow_button)
        self.inputs.addWidget(muted_label(self, "A session holds no results: they are made again, with the same bits."))
        self.save_button.clicked.connect(saves_with(self, "Save session", _FILTER, "session.zip", self.save))
        self.open_button.clicked.connect(opens_with(self, "Open session", _FILTER, self.open))
        self.report_button.clicked.connect(saves_with(self, "Report", _PAGES, "report.html", self.report))
        self.allow_button.clicked.connect(self._on_allow)
        self.run_finished.connect(self._show_waiting)
        self._show_waiting()

    # -- saving ---------------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Save what the viewer shows, with the drafts of its panels; files are looked through in a worker."""
        self.run_other(*self._saving(path, self.viewer.layers))

    def save_at_once(self, path: Path, layers: Collection[Any]) -> None:
        """Save some layers, with the drafts of panels, before this returns."""
        make, show = self._saving(path, layers)
        show(drive(make(threading.Event())))

    def _saving(self, path: Path, layers: Collection[Any]) -> tuple[MakeSteps, Callable[[State], None]]:
        """Read the viewer; returns the steps that save it, and what shows that it was saved."""
        taken, others = take_layers(layers)
        view, embeds, waiting = view_of(self.viewer), self.embed_box.isChecked(), tuple(self._waiting)
        drafts, problems = _drafts(self.viewer)

        def make(_: threading.Event) -> Generator[Step, None, State]:
            shown = yield from shown_steps(taken)
            state = State((*shown, *waiting), tuple((name, make()) for name, make in drafts), view)
            yield Step(1, 1, f"writing {path.name}")
            operations = [*(one.output.of for one in state.shown), *(draft for _, draft in state.drafts)]
            files = [one for one in files_of(*operations) if one.path == one.place]  # others could not be read
            save_session(path, state, embed=files if embeds else ())
            return state

        def show(state: State) -> None:
            self.show_status(f"saved {len(state.shown)} layers as {path.name}")
            if notes := [*map(_not_saved, others), *problems]:
                self.show_note(notes_text(notes))

        return make, show

    def report(self, path: Path) -> None:
        """Write a page of what the viewer shows, in a worker; results that are listed as not made yet are left out."""
        taken, others = take_layers(self.viewer.layers)
        device = self.device

        def make(stop: threading.Event) -> Generator[Step, None, Path]:
            shown = yield from shown_steps(taken)
            sections = yield from shown_sections(shown, device=device, stop=stop)
            yield Step(1, 1, f"writing {path.name}")
            return write_report(sections, path, title=path.stem)

        def show(written: Path) -> None:
            self.show_status(f"{written.name} is written; open it in a browser")
            if others:
                names = ", ".join(layer.name for layer in others)
                self.show_note(notes_text([f"{names}: not in the report; save them as files"]))

        self.run_other(make, show)

    def copy_script(self) -> None:
        """Put a script on the clipboard that makes all that the viewer shows, and what the session has beside it."""
        taken, waiting = take_layers(self.viewer.layers)[0], [one.output for one in self._waiting]
        if not taken and not waiting:
            self.show_error("there is no layer that a script could make; open a file, or a session")
            return
        self.run_other(
            lambda _: shown_steps(taken),
            lambda shown: self.put_on_clipboard(self.script_of(*(one.output for one in shown), *waiting)),
        )

    # -- opening --------------------------------------------------------------------------------------------------

    def _on_allow(self) -> None:
        if self._path is not None:
            self.open(self._path, allow=self._outside)

    def open(self, path: Path, *, allow: list[Path] | None = None) -> None:
        """Open a session: its files and arrays are shown, and the results listed that are to be made."""

        def make(stop: threading.Event) -> Generator[Step, None, tuple[Opened, Made]]:
            yield Step(0, 1, f"reading {path.name}")
            opened = open_session(path, allow=allow or ())
            read = [one for one in opened.state.shown if isinstance(one.output.of, Reading)]
            return opened, (yield from self._made_steps(read, "cpu", stop))

        self.run_other(make, lambda found: self._show_opened(path, *found, is_again=bool(allow)))

    def _show_opened(self, path: Path, opened: Opened, read: Made, *, is_again: bool) -> Pieces:
        self._path, self._there = path, self._there if is_again else {}
        self._order = [_key(one) for one in opened.state.shown]
        new = [(one, value) for one, value in read.values if _key(one) not in self._there]
        yield from self._show_each(new, read.failed)
        self._waiting = [one for one in opened.state.shown if _key(one) not in self._there]
        show_view(self.viewer, opened.state.view)
        kept = yield from _show_drafts(self.viewer, opened.state)
        home = path.parent.absolute()
        self._outside = sorted({(home / name).parent for name, why in opened.missing.items() if "outside" in why})
        self.allow_button.setText(f"Allow {', '.join(folder.name for folder in self._outside)}")
        self.allow_button.setToolTip(tip_of(f"Read files of {', '.join(map(str, self._outside))}"))
        self.allow_button.setVisible(bool(self._outside))
        self._show_waiting()
        notes = [f"{name}: {why}" for name, why in {**opened.missing, **read.failed}.items()]
        notes += [
            f"the {name} could not be shown again; open {path.name} again once the rest is there" for name in kept
        ]
        if notes:
            self.show_note(notes_text(notes))
        shown, waiting = len(read.values), len(self._waiting)
        self.show_status(f"{shown} layer{' is' if shown == 1 else 's are'} shown, {waiting or 'none'} not made yet")

    def _show_waiting(self) -> None:
        """List what the session shows and what is still to be made."""
        self.tree.clear()
        for one in self._waiting:
            item = QTreeWidgetItem([one.name, f"{one.output.of.verb}: {one.output.name}", _WAITING])
            item.setToolTip(0, tip_of(f"{one.output.of.title}, made on {one.device} by napari-gpubio {one.software}"))
            self.tree.addTopLevelItem(item)
        for column in range(len(_HEADINGS)):
            self.tree.resizeColumnToContents(column)
        self.tree.setVisible(bool(self._waiting))
        self.run_button.setEnabled(bool(self._waiting) or self.running)

    # -- results --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Made]:
        """Return the run that makes the results of the session that are not made yet."""
        return self._made_steps(tuple(self._waiting), self.device, stop)

    def _made_steps(self, every: Any, device: str, stop: threading.Event) -> Generator[Step, None, Made]:
        made = Made([], {})
        for one in every:
            try:
                check_shows(one.output)
                value = yield from run_steps(one.output, device=device, stop=stop)
            except GpuBioError as error:
                made.failed[one.name] = str(error)
                continue
            if value is None or not getattr(value, "complete", True) or stop.is_set():
                break
            made.values.append((one, value))
        return made

    def _show_each(self, values: list[tuple[Shown, Any]], failed: dict[str, str]) -> Pieces:
        """Show results as layers; of what cannot be shown, why, among those that failed."""
        for one, value in values:
            try:
                self._there[_key(one)] = made = show_layers(self.viewer, one, value)
            except GpuBioError as error:
                failed[one.name] = str(error)
            else:
                self._put_in_order(_key(one), made)
            yield

    def _put_in_order(self, key: tuple[str, str], made: list[Any]) -> None:
        """Put new layers below those that lay above them when the session was saved."""
        layers = self.viewer.layers
        higher = [one for other in self._order[self._order.index(key) + 1 :] for one in self._there.get(other, ())]
        if places := [layers.index(one) for one in higher if one in layers]:
            for layer in made:
                layers.move(layers.index(layer), min(places))

    def show_result(self, result: Made) -> Pieces:
        """Show what was made as layers; the rest stays listed."""
        yield from self._show_each(result.values, result.failed)
        self._waiting = [one for one in self._waiting if _key(one) not in self._there]
        self._show_waiting()
        if result.failed:
            self.show_note(notes_text([f"{name}: {why}" for name, why in result.failed.items()]))


def _not_saved(layer: Any) -> str:
    """What is said of a layer that a session cannot hold."""
    what = layer.__class__.__name__.lower()
    return f"the layer {layer.name!r} is not saved: sessions hold no {what} like these; save the layer as a file"


def _key(shown: Shown) -> tuple[str, str]:
    """What tells a layer of a session from its others."""
    return shown.output.id, shown.name


def _drafts(viewer: Any) -> tuple[list[tuple[str, Callable[[], Operation]]], list[str]]:
    """The drafts of a viewer's panels as functions that make them, and why some have none."""
    found, problems = list[tuple[str, Callable[[], Operation]]](), list[str]()
    for panel in panels_of(viewer):
        name = words_of(type(panel))
        try:
            draft = panel.take_draft()
        except GpuBioError as error:
            problems.append(f"the {name} is not saved: {error}")
            continue
        if draft is not None:
            found.append((name, draft))
    return found, problems


def _show_drafts(viewer: Any, state: State) -> Generator[None, None, list[str]]:
    """Show drafts in their panels, which are opened where there is a window; returns the names of those not shown."""
    titles = {words_of(maker.rpartition(":")[2]): title for title, maker in names_of_panels().items()}
    front, kept = front_of(viewer).panel, list[str]()
    for name, draft in state.drafts:
        panel = next((one for one in panels_of(viewer) if words_of(type(one)) == name), None)
        if panel is None and name in titles and hasattr(viewer, "window"):
            panel = open_panel(viewer, titles[name])
        if panel is None or not _shows(panel, draft):
            kept.append(name)
        yield
    if front is not None:
        front.come_to_front()
    return kept


def _shows(panel: EnginePanel, draft: Operation) -> bool:
    try:
        return panel.show_draft(draft)
    except GpuBioError:  # such as too little memory for what it needs
        return False
