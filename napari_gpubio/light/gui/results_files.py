"""Save results, fluence and tables in a worker, and say how it went."""

import functools
from collections.abc import Callable, Generator
from pathlib import Path
from threading import Event
from typing import Any

from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QFileDialog

from napari_gpubio.core.steps import Step
from napari_gpubio.gui.jobs import Job, Outcome
from napari_gpubio.light.io import save_result, write_fluence
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.statistics import FluenceUnit
from napari_gpubio.light.summary import NumberRow, number_rows, write_csv


class ResultFiles(QObject):
    """Asks where to, writes, and says that it is done."""

    status_changed = Signal(str)
    error_occurred = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs: set[Job] = set()

    def ask_for_result(self, result: LightResult | None) -> None:
        """Ask for a file and save the whole result in it."""
        self._ask("Save the result", "light_result.npz", "Light results (*.npz)", result, save_result)

    def ask_for_fluence(self, result: LightResult | None, unit: FluenceUnit) -> None:
        """Ask for a file and write the fluence in it, in this unit."""
        write = functools.partial(_write_fluence, unit=unit)
        self._ask(f"Save the fluence in {unit.name}", "fluence.nii.gz", "NIfTI (*.nii.gz *.nii)", result, write)

    def ask_for_csv(
        self, result: LightResult | None, unit: FluenceUnit, threshold: float, more: tuple[NumberRow, ...] = ()
    ) -> None:
        """Ask for a file and write every number in it, ``more`` at its end."""
        write = functools.partial(_write_numbers, unit=unit, threshold=threshold, more=more)
        self._ask("Export the numbers", "light_numbers.csv", "Tables (*.csv)", result, write)

    def write(self, path: Path, result: LightResult, write: Callable[[Path, LightResult], Any]) -> None:
        """Call ``write(path, result)`` in a worker."""
        job = Job(_writing(path, result, write), self)
        self._jobs.add(job)
        job.finished.connect(functools.partial(self._on_written, job, path))
        self.status_changed.emit(f"saving {path.name} …")
        job.start()

    def finish(self) -> None:
        """Let what is being written come to its end, and say nothing more."""
        for job in self._jobs:
            job.abandon()
        self._jobs.clear()

    def _ask(
        self, title: str, name: str, kinds: str, result: LightResult | None, write: Callable[[Path, LightResult], Any]
    ) -> None:
        if result is None:
            return
        path, _ = QFileDialog.getSaveFileName(self.parent(), title, name, kinds)
        if path:
            self.write(Path(path), result, write)

    def _on_written(self, job: Job, path: Path, outcome: Outcome) -> None:
        if job not in self._jobs:
            return  # the panel has gone since
        self._jobs.discard(job)
        job.deleteLater()
        if outcome.error:
            self.status_changed.emit("")
            self.error_occurred.emit(f"Not saved: {outcome.error}.")
        else:
            self.status_changed.emit(f"saved {path.name}")


def _writing(path: Path, result: LightResult, write: Callable[[Path, LightResult], Any]) -> Any:
    def steps(_stop: Event) -> Generator[Step, None, None]:
        yield Step(0, 1, "saving")
        write(path, result)

    return steps


def _write_fluence(path: Path, result: LightResult, *, unit: FluenceUnit) -> None:
    write_fluence(path, result, unit=unit)


def _write_numbers(
    path: Path, result: LightResult, *, unit: FluenceUnit, threshold: float, more: tuple[NumberRow, ...] = ()
) -> None:
    write_csv(path, number_rows(result, unit=unit, threshold=threshold) + more)
