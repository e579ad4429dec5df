"""A calculation on one processor, taken apart: layout, upload, counting, fetching."""

from typing import Any

import numpy as np
from common import Timing, timed_by_events, timed_on

from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import open_run
from napari_gpubio.dose.kernels.histogram.problem import Problem, make_problem
from napari_gpubio.dose.kernels.histogram.tally import make_dvhs
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.settings import DvhSettings


class Resident:
    """A problem on its device, a CPU or one GPU."""

    def __init__(self, dose: Dose, structures: Any, settings: DvhSettings, device: Device) -> None:
        self.problem: Problem = make_problem(dose, structures, settings)
        self._settings, self._unit, self._device = settings, dose.unit, device
        self._run = open_run(self.problem, device)

    def count(self) -> Any:
        """Forget, count everything and fetch the integers."""
        self._run.restart()
        self._run.advance(0, self.problem.items)
        return self._run.snapshot()

    def count_new(self) -> Any:
        """Upload the dose as if it were a new one, count and fetch."""
        self._run.renew(self.problem)
        self._run.advance(0, self.problem.items)
        return self._run.snapshot()

    def curves(self) -> Any:
        """Count and make curves."""
        return make_dvhs(self.problem, self.count(), self._settings, self._unit)

    def timed(self, part: str, repeats: int) -> Timing:
        """Time one of the methods, by its name."""
        return timed_on(self._device, getattr(self, part), repeats)

    def kernel_seconds(self, repeats: int) -> float | None:
        """Best time of the counting kernels alone by CUDA events; None on a CPU."""
        if not self._device.is_gpu:
            return None

        def work() -> None:
            self._run.restart()
            self._run.advance(0, self.problem.items)

        return timed_by_events(self._device, work, repeats).seconds

    def __enter__(self) -> "Resident":
        return self

    def __exit__(self, *_: object) -> None:
        self._run.close()


def pinned(array: np.ndarray) -> np.ndarray:
    """A copy in page-locked memory."""
    import cupy

    host = np.frombuffer(cupy.cuda.alloc_pinned_memory(array.nbytes), array.dtype, array.size).reshape(array.shape)
    host[...] = array
    return host
