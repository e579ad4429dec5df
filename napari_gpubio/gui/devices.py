"""The list of processors in a panel."""

import threading
from collections.abc import Generator
from typing import Any

from qtpy.QtWidgets import QComboBox, QWidget

from napari_gpubio.core.device import CPU, gpu_problem, list_devices
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.jobs import Job, Outcome


class DevicePicker(QComboBox):
    """A list of this machine's devices; its tool tip explains why there is no GPU if there is none.

    GPUs are looked for in a worker, because the first look may take seconds.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.addItem("auto", "auto")
        self.addItem(CPU.describe(), "cpu")
        self.setToolTip("Where to compute; looking for GPUs …")
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(5)
        self._has_gpu = False
        self._search = Job(_look_for_gpus, self)
        self._search.finished.connect(self._on_search_finished)
        self._search.start()

    @property
    def uses_cpu(self) -> bool:
        """Whether the choice means the CPU; auto does as long as no GPU has been found."""
        return self.currentData() == "cpu" or (self.currentData() == "auto" and not self._has_gpu)

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
        self.setToolTip(problem or "Where to compute; auto takes the first GPU")


def _look_for_gpus(_stop: threading.Event) -> Generator[Step, None, Any]:
    yield Step(0, 1, "looking for GPUs")
    return list_devices()[1:], gpu_problem()
