"""Where layers come from: presets, and MCML files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QComboBox, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.gui import theme
from napari_gpubio.gui.file_dialogs import open_path, save_path
from napari_gpubio.gui.forms import aligned_form, row_label
from napari_gpubio.gui.script import file_name
from napari_gpubio.light.gui.request import LayerRequest
from napari_gpubio.light.io.mci import MciRun, read_mci, write_mci
from napari_gpubio.light.io.mco import read_mco
from napari_gpubio.light.layers.model import LayeredMedium
from napari_gpubio.light.layers.presets import preset as layered_preset
from napari_gpubio.light.layers.presets import preset_names
from napari_gpubio.light.layers.settings import LayeredSettings

_LIST_MARGIN = 40  # pixels beside an entry of the open list


class PresetBox(QWidget):
    """Presets, and the runs of a file that was opened; ``chosen`` carries medium and settings."""

    chosen = Signal(object, object)
    open_requested = Signal()
    save_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._medium: LayeredMedium | None = None  # as it was chosen
        self._origin = ""
        self._box = QComboBox(self)
        self._box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self._box.setMinimumContentsLength(12)
        self._box.setToolTip("Fill the table and the grid from the literature, or with a run of an opened file")
        for name in preset_names():
            self._box.addItem(name, layered_preset(name))
        self._widen_list()
        self._box.activated.connect(lambda _: self._choose(self._box.currentData()))
        self._citation = QLabel(self)
        self._citation.setWordWrap(True)
        self._citation.setStyleSheet(f"{theme.MUTED_STYLE} font-size: 11px;")
        top = QWidget(self)
        aligned_form(top).addRow(row_label("Layers from", self._box.toolTip(), self), self._box)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        for part in (top, self._citation, self._files()):  # not in the form, which cuts long texts off
            layout.addWidget(part)

    def begin(self) -> None:
        """Choose the first preset."""
        self._choose(self._box.itemData(0))

    def choose(self, name: str) -> None:
        """Choose a preset, or a run of the opened file, by its name."""
        index = self._box.findText(name)
        if index >= 0:
            self._box.setCurrentIndex(index)
            self._choose(self._box.currentData())

    def offer_runs(self, path: Path, runs: Sequence[MciRun]) -> None:
        """Offer the runs of a file, in place of those of an earlier one, and choose the first."""
        presets = len(preset_names())
        while self._box.count() > presets:
            self._box.removeItem(presets)
        self._box.insertSeparator(presets)
        for number, run in enumerate(runs, start=1):
            which = f", run {number}" if len(runs) > 1 else ""
            self._box.addItem(f"{path.name}{which}: {run.output}", run)
        self._widen_list()
        self._box.setCurrentIndex(presets + 1)
        self._choose(self._box.currentData())

    def show_medium(self, medium: LayeredMedium | None) -> None:
        """Say whether what is in the table is still what was chosen."""
        changed = self._medium is not None and medium != self._medium
        self._citation.setText(f"Changed since; it was from {self._origin}" if changed else self._origin)

    @property
    def citation(self) -> str:
        """Where the layers come from; says so if they were changed since."""
        return self._citation.text()

    def _widen_list(self) -> None:
        """Let the open list be as wide as its longest entry, however narrow the box is."""
        names = [self._box.itemText(index) for index in range(self._box.count())]
        widest = max(map(self._box.fontMetrics().horizontalAdvance, names))
        self._box.view().setMinimumWidth(widest + _LIST_MARGIN)

    def _files(self) -> QWidget:
        part = QWidget(self)
        row = QHBoxLayout(part)
        row.setContentsMargins(0, 0, 0, 0)
        for text, tip, signal in (
            ("Open .mci or .mco…", "Open an input file or a result of MCML", self.open_requested),
            ("Save .mci…", "Write layers, grid and photons as an input file of MCML", self.save_requested),
        ):
            button = QPushButton(text, part)
            button.setToolTip(tip)
            button.clicked.connect(lambda _=False, signal=signal: signal.emit())
            row.addWidget(button, 1)
        return part

    def _choose(self, entry: Any) -> None:
        """Take a preset or a run over."""
        if entry is None:
            return
        self._origin = getattr(entry, "citation", "") or self._box.currentText()
        self._medium, settings = entry.medium, entry.settings
        assert isinstance(settings, LayeredSettings)
        self.chosen.emit(self._medium, settings)
        self.show_medium(self._medium)


OPENED = "MCML (*.mci *.mco);;All files (*)"


class McmlFiles(QObject):
    """Reads runs and results, and writes runs.

    ``runs_read`` carries a path and its runs, ``result_read`` a result.
    """

    runs_read = Signal(object, object)
    result_read = Signal(object)
    status_changed = Signal(str)
    error_occurred = Signal(str)

    def __init__(self, read: Callable[[], LayerRequest], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._read = read

    def ask_to_open(self) -> None:
        """Ask for a file and open it."""
        if path := open_path(self._window(), "Open a file of MCML", OPENED):
            self.open(path)

    def ask_to_save(self) -> None:
        """Ask for a file and write the inputs in it."""
        if path := save_path(self._window(), "Save an input file of MCML", "MCML (*.mci)", name="layers.mci"):
            self.save(path)

    def _window(self) -> QWidget | None:
        parent = self.parent()
        return parent if isinstance(parent, QWidget) else None

    def open(self, path: str | Path) -> None:
        """Read the runs of an input file, or the result in an output file with what made it."""
        path = Path(path)
        try:
            if path.suffix.lower() == ".mco":
                result = read_mco(path)
                run = MciRun(medium=result.medium, settings=result.settings, output=path.name)
                self.runs_read.emit(path, (run,))
                self.result_read.emit(result)
            else:
                self.runs_read.emit(path, read_mci(path))
        except (GpuBioError, OSError) as error:
            self.error_occurred.emit(f"{path.name} could not be opened: {error}")

    def save(self, path: str | Path) -> None:
        """Write the inputs as they stand as an input file."""
        path = Path(path)
        try:
            request = self._read()
            output = file_name(path.stem).replace(" ", "_") + ".mco"
            write_mci(path, [MciRun(medium=request.medium, settings=request.settings, output=output)])
        except (GpuBioError, OSError) as error:
            self.error_occurred.emit(f"Not saved: {error}")
        else:
            self.status_changed.emit(f"saved {path.name}")


def runs_text(path: Path, runs: Sequence[MciRun]) -> str:
    """Say that there are several runs, or nothing."""
    return f"{path.name} has {len(runs)} runs; choose one at the top." if len(runs) > 1 else ""
