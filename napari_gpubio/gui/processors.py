"""Where a panel's runs are computed: the list of devices, and the compiling of CPU backends ahead."""

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from qtpy.QtCore import QObject, QProcess, Signal
from qtpy.QtWidgets import QWidget

from napari_gpubio.core import warmup
from napari_gpubio.core.device import CPU, gpu_problem, list_devices
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.jobs import Job, Outcome, one_step
from napari_gpubio.gui.preferences import preference

_ENOUGH = 5  # functions compiled, to say how long the others take


class DevicePicker(ElidedComboBox):
    """A list of this machine's devices; its tool tip explains why there is no GPU if there is none.

    GPUs are looked for in a worker, because the first look may take seconds.
    """

    keeps_controls = False  # for undo: results do not depend on it

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, characters=5)
        self.addItem("auto", "auto")
        self.addItem(CPU.describe(), "cpu")
        self.setToolTip("Where to compute; looking for GPUs …")
        self._has_gpu = False
        self._is_chosen = False  # else it is what the user prefers
        self.activated.connect(self._on_activated)
        self._search = Job(one_step("looking for GPUs", lambda: (list_devices()[1:], gpu_problem())), self)
        self._search.finished.connect(self._on_search_finished)
        self._search.start()

    @property
    def uses_cpu(self) -> bool:
        """Whether the choice means the CPU; auto does as long as no GPU has been found."""
        return self.currentData() == "cpu" or (self.currentData() == "auto" and not self._has_gpu)

    def choose(self, device: str) -> None:
        """Choose a device by its name; a name that is not in the list is added, and checked when it is used."""
        self._is_chosen = True
        if self.findData(device) < 0:
            self.addItem(device, device)
        self.setCurrentIndex(self.findData(device))

    def _on_activated(self, _: int) -> None:
        self._is_chosen = True

    def teardown(self) -> None:
        """Wait for the search to end."""
        self._search.abandon()

    def _on_search_finished(self, outcome: Outcome) -> None:
        gpus, problem = outcome.result or ([], outcome.error)
        self._has_gpu = bool(gpus)
        several = [("all GPUs", "cuda:all")] if len(gpus) > 1 else []
        for text, name in [(gpu.describe(), str(gpu)) for gpu in gpus] + several:
            if self.findData(name) < 0:
                self.addItem(text, name)
        preferred = preference("device")
        if not self._is_chosen and self.findData(preferred) >= 0:
            self.setCurrentIndex(self.findData(preferred))
        elif not self._is_chosen:
            problem = f"{preferred}, which your preferences name, is not here. {problem or ''}".strip()
        self.setToolTip(problem or "Where to compute; auto takes the first GPU")


DISABLED = "NAPARI_GPUBIO_NO_WARMUP"


class BackgroundWarmup(QObject):
    """Warms engines, or what they list as warm-ups, in a process of its own.

    ``progressed`` carries the number of functions compiled so far, ``finished`` an error message, empty if all is well.

    Parameters
    ----------
    names
        Of engines (and ``gui`` for streamlines) or of warm-ups (``fibers/fiber tracking``), the most needed one first.
    """

    progressed = Signal(int)
    finished = Signal(str)

    def __init__(self, names: Sequence[str], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.names, self.compiled = tuple(names), 0
        self._before = 0  # functions that were compiled when the warm-up under way began
        self._first: tuple[str, ...] = ()  # names that come first
        self._begun = 0.0
        self._has_failed = False  # then functions are compiled where they are used
        self.process: QProcess | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process is at work."""
        return self.process is not None

    def lacks(self, names: Sequence[str]) -> bool:
        """Whether machine code is not there yet, and can be made ahead."""
        if self._has_failed or os.environ.get(DISABLED) == "1":
            return False
        return not all(map(warmup.is_warm, names))

    def progress_text(self, names: Sequence[str]) -> str:
        """A sentence for the user, who waits for some of the names."""
        left, total = warmup.function_counts(*names)
        left = max(0, left - (self.compiled - self._before))
        waited = time.monotonic() - self._begun if self.compiled >= _ENOUGH else 0.0
        seconds = waited / max(self.compiled, 1) * left
        estimate = f", {seconds:.0f} s left" if seconds >= 1 else ""
        return f"Preparing the CPU engine, once for this machine: {total - left} of {total} functions{estimate}"

    def start(self, first: Sequence[str] = ()) -> None:
        """Begin, if anything is needed; what is given comes first, also where the process is at work."""
        first, names = tuple(first), tuple(dict.fromkeys((*first, *self.names)))
        if not self.lacks(names):
            return
        if self.process is not None:
            if first != self._first:
                self._first = first
                self.process.write("".join(f"{name}\n" for name in first).encode())
            return
        self._begun, self._first = time.monotonic(), first or self.names
        process = self.process = QProcess(self)
        process.readyReadStandardOutput.connect(self._on_output)
        process.finished.connect(self._on_finished)
        process.setProcessChannelMode(QProcess.ProcessChannelMode.SeparateChannels)
        program, *arguments = warmup.command(*names)
        process.start(program, arguments)

    def stop(self) -> None:
        """End the process; what it has compiled stays."""
        process, self.process = self.process, None
        if process is not None:
            process.readyReadStandardOutput.disconnect(self._on_output)
            process.finished.disconnect(self._on_finished)
            process.kill()
            process.waitForFinished(2000)
            process.deleteLater()

    def _on_output(self) -> None:
        process: Any = self.process
        lines = bytes(process.readAllStandardOutput()).decode().split()
        for count in map(int, lines):
            if count == self.compiled:  # the end of a warm-up
                self._before = count
            self.compiled = count
        if lines:
            self.progressed.emit(self.compiled)

    def _on_finished(self, status: int, *_: Any) -> None:
        process: Any = self.process
        self.process, self._has_failed = None, status != 0
        message = bytes(process.readAllStandardError()).decode(sys.getdefaultencoding(), "replace").strip()
        process.deleteLater()
        self.finished.emit("" if status == 0 else message.rsplit("\n", 1)[-1] or f"the process ended with {status}")
