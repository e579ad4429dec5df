"""Opens and saves MCML's files for the panel; problems are sentences."""

from collections.abc import Callable, Sequence
from pathlib import Path

from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QFileDialog

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.gui.script import file_name
from napari_gpubio.light.gui.layers.request import Request
from napari_gpubio.light.io.mci import MciRun, read_mci, write_mci
from napari_gpubio.light.io.mco import read_mco

OPENED = "MCML (*.mci *.mco);;All files (*)"


class McmlFiles(QObject):
    """Reads runs and results, writes runs.

    ``runs_read`` carries a path and its runs, ``result_read`` a result, ``status_changed`` and ``error_occurred``
    sentences.

    Parameters
    ----------
    read
        Returns the inputs as they stand; raises InvalidInput.
    """

    runs_read = Signal(object, object)
    result_read = Signal(object)
    status_changed = Signal(str)
    error_occurred = Signal(str)

    def __init__(self, read: Callable[[], Request], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._read = read

    def ask_to_open(self) -> None:
        """Ask for a file and open it."""
        path, _ = QFileDialog.getOpenFileName(self.parent(), "Open a file of MCML", "", OPENED)
        if path:
            self.open(path)

    def ask_to_save(self) -> None:
        """Ask for a file and write the inputs in it."""
        path, _ = QFileDialog.getSaveFileName(self.parent(), "Save an input file of MCML", "layers.mci", "MCML (*.mci)")
        if path:
            self.save(path)

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
