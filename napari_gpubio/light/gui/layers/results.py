"""The part of the panel that shows what came out: can it be trusted, the numbers, plots, files."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QFileDialog, QGridLayout, QLabel, QMenu, QPushButton, QVBoxLayout, QWidget

from napari_gpubio.core.steps import Step
from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.light.gui.layers.plots import PlotController
from napari_gpubio.light.gui.layers.request import Picture
from napari_gpubio.light.gui.number_table import NumberTable, ResultHead
from napari_gpubio.light.gui.plots_layers import EMPTY
from napari_gpubio.light.gui.results_files import ResultFiles
from napari_gpubio.light.io.mco import write_mco
from napari_gpubio.light.io.results import load_layered_result, save_layered_result
from napari_gpubio.light.layers.curves import every_curve, write_curves
from napari_gpubio.light.layers.napari_io import layer_colors
from napari_gpubio.light.layers.numbers import fraction_rows, layered_findings, layered_rows
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.summary import write_csv

RESULTS = "Light results (*.npz)"
Write = Callable[[Path, Any], None]


class ResultBox(QWidget):
    """Numbers and files of one picture's result.

    ``status_changed`` and ``error_occurred`` carry sentences, ``result_read`` a file and the result that was saved in
    it.

    Parameters
    ----------
    viewer
        The napari viewer, into which plots are docked.
    """

    status_changed = Signal(str)
    error_occurred = Signal(str)
    continue_wanted = Signal()
    result_read = Signal(object, object)

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.picture: Picture | None = None
        self.plots = PlotController(viewer, self)
        self.files = ResultFiles(self)
        self.files.status_changed.connect(self.status_changed)
        self.files.error_occurred.connect(self.error_occurred)
        self._reading = LatestJob(self)
        self._reading.finished.connect(self._on_read)
        self._build()
        self.show_picture(None)

    def show_picture(self, picture: Picture | None, *, running: bool = False) -> None:
        """Speak of another picture's result from now on; None: nothing yet.

        Parameters
        ----------
        picture
            What is shown.
        running
            Whether more photons of it are under way.
        """
        self.picture = picture
        self._empty.setVisible(picture is None)
        for part in (self.head, self.table):
            part.setVisible(picture is not None)
        for button in (self._plots, self._export, self._save):
            button.setEnabled(picture is not None)
        if picture is not None:
            rows = fraction_rows(picture.result)
            colors = layer_colors([layer.name for layer in picture.result.medium.layers])
            findings = layered_findings(picture.traced, running=running)
            can_go_on = not running and picture.traced.state is not None
            self.head.show_result(picture.result, findings, can_go_on=can_go_on)
            self.table.show_rows(rows, dict(enumerate(colors, start=1)))
        self.plots.show_picture(picture)

    def attach(self) -> None:
        """Do nothing yet: the plots follow from when they are opened."""

    def detach(self) -> None:
        """End what is being read and written, and let the viewer go."""
        self._reading.abandon()
        self.files.finish()
        self.plots.detach()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self._empty = QLabel(EMPTY, self)
        self._empty.setWordWrap(True)
        self.head = ResultHead(self)
        self.head.continue_wanted.connect(self.continue_wanted)
        self.table = NumberTable(self)
        self._build_buttons()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for part in (self._empty, self.head, self.table):
            layout.addWidget(part)
        buttons = QGridLayout()
        for index, button in enumerate((self._plots, self._export, self._save, self._open)):
            buttons.addWidget(button, index // 2, index % 2)
        layout.addLayout(buttons)

    def _build_buttons(self) -> None:
        tip = "Profiles in depth and along the radius, and what escapes by radius and by angle"
        self._plots = self._button("Plots…", tip, self.plots.open)
        tip = "Write the whole result, to be opened again or resumed"
        self._save = self._button("Save result…", tip, self._save_result)
        tip = "Show a result that was saved, with its layers and its grid; Continue goes on with it"
        self._open = self._button("Open result…", tip, self._ask_to_open)
        self._export = QPushButton("Export", self)
        self._menu = QMenu(self)
        for text, act in (
            ("Numbers as CSV…", self._export_numbers),
            ("Curves as CSV…", self._export_curves),
            ("Result as MCML output (.mco)…", self._export_mco),
        ):
            self._menu.addAction(text, act)
        self._export.setMenu(self._menu)

    def _button(self, text: str, tip: str, what: Callable[[], object]) -> QPushButton:
        button = QPushButton(text, self)
        button.setToolTip(tip)
        button.clicked.connect(lambda: what())
        return button

    # -- files ----------------------------------------------------------------------------------------------------

    def open_result(self, path: Path) -> None:
        """Read a saved result in a worker; ``result_read`` follows."""
        self.status_changed.emit(f"opening {path.name} …")
        self._reading.submit(lambda _stop: _reading(path))

    def _ask_to_open(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open a result", "", RESULTS)
        if path:
            self.open_result(Path(path))

    def _on_read(self, outcome: Outcome) -> None:
        self.status_changed.emit("")
        if outcome.error:
            self.error_occurred.emit(f"Not opened: {outcome.error}.")
        else:
            self.result_read.emit(*outcome.result)

    def _save_result(self) -> None:
        self._ask("Save the result", "layered_result.npz", RESULTS, write_result)

    def _export_numbers(self) -> None:
        self._ask("Export the numbers", "layers.csv", "Tables (*.csv)", write_numbers)

    def _export_curves(self) -> None:
        self._ask("Export the curves", "layers curves.csv", "Tables (*.csv)", write_curve_table)

    def _export_mco(self) -> None:
        self._ask("Write an output file of MCML", "layers.mco", "MCML output (*.mco)", write_mcml_output)

    def _ask(self, title: str, name: str, kinds: str, write: Write) -> None:
        """Ask for a file, and write it in a worker."""
        path, _ = QFileDialog.getSaveFileName(self, title, name, kinds)
        if path and self.picture is not None:
            self.files.write(Path(path), self.picture, write)


def _reading(path: Path) -> Generator[Step, None, tuple[Path, LayeredResult]]:
    yield Step(0, 1, "opening")
    return path, load_layered_result(path)


def write_result(path: Path, picture: Picture) -> None:
    """Write what was traced, the response to a pencil beam, with all that going on with it needs."""
    save_layered_result(path, picture.traced)


def write_numbers(path: Path, picture: Picture) -> None:
    """Write every number of a picture's result."""
    write_csv(path, layered_rows(picture.result))


def write_curve_table(path: Path, picture: Picture) -> None:
    """Write the curves of a picture's result, in the unit that is shown."""
    write_curves(path, every_curve(picture.result, unit=picture.look.unit))


def write_mcml_output(path: Path, picture: Picture) -> None:
    """Write what was traced as an output file of MCML: the response to a pencil beam, which CONV expects."""
    write_mco(path, picture.traced)
