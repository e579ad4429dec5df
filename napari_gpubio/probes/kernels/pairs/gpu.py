"""Fluence of optodes on GPUs, the counterpart of ``cpu.py``: all groups of an optode are traced in one launch."""

import functools
import threading
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from napari_gpubio.core.device import Device, to_host
from napari_gpubio.light.kernels.voxels import gpu
from napari_gpubio.probes.kernels.pairs.problem import Keep, OptodeProblem
from napari_gpubio.probes.kernels.pairs.store import Array, FluenceStore, TissueVoxels


class Run(gpu.Run):
    """The simulation of one optode on one GPU; ``keep(group, tally)`` is called for each batch that is whole."""

    def __init__(self, problem: OptodeProblem, *, device: Device, keep: Keep, **options: int) -> None:
        super().__init__(problem, device=device, **options)
        self._keep = keep

    def go_on(self, photons: int, path: Array | None) -> None:
        """As that of ``cpu.py``."""
        import cupy

        if path is not None:
            size = self._problem.batch_size
            batch = photons // size
            self._open[batch] = [(batch * size, photons)]
            with self.device.current():
                self._tally[batch % self._slots, 0] = cupy.asarray(path)

    def open_path(self) -> Array | None:
        """As that of ``cpu.py``."""
        with self._busy, self.device.current():
            slots = [self._tally[batch % self._slots] for batch in self._open]
            return to_host(slots[0].sum(axis=0)) if slots else None

    def _fold(self, first: int, count: int) -> None:
        """Keep whole batches apart, and clear their slots."""
        for batch in range(first, first + count):
            slot = self._tally[batch % self._slots]
            self._after_tracing(functools.partial(self._keep_slot, batch, slot))
            slot[...] = 0
            self._whole.add(batch)
            del self._open[batch]

    def _keep_slot(self, batch: int, slot: Any) -> None:
        self._keep(batch, slot[0] if self._copies == 1 else slot.sum(axis=0))


class GpuStore(FluenceStore):
    """Fluence of optodes on the first of some GPUs; the others send theirs to it."""

    def __init__(self, voxels: TissueVoxels, optodes: int, groups: int, device: Device) -> None:
        import cupy

        self.xp = cupy
        self.device = device
        self._of_device: dict[int, Any] = {}  # indices of the voxels on each GPU
        self._busy = threading.Lock()
        with device.current():
            super().__init__(voxels, optodes, groups)

    def put(self, optode: int, group: int, tally: Any, fluence_of_quantum: float) -> None:
        """As the base class; the tally is on the current GPU."""
        import cupy

        chosen = (tally[self._cells()] * fluence_of_quantum).astype(np.float32)
        cupy.cuda.get_current_stream().synchronize()
        with self._busy, self.device.current():
            self.values[optode, group] = cupy.asarray(chosen)
            self._means = None
            cupy.cuda.get_current_stream().synchronize()

    def host(self, array: Any, out: Array | None = None) -> Array:
        """As the base class."""
        return array if isinstance(array, np.ndarray) else to_host(array, out)

    def here(self) -> AbstractContextManager[Any]:
        """As the base class; the store may be of an earlier run on another GPU."""
        return self.device.current()

    def _cells(self) -> Any:
        import cupy

        current = cupy.cuda.Device().id
        if current not in self._of_device:
            self._of_device[current] = cupy.asarray(self.voxels.cells)
        return self._of_device[current]


def store(voxels: TissueVoxels, optodes: int, groups: int, device: Device) -> FluenceStore:
    """An empty store on the first GPU of a device."""
    return GpuStore(voxels, optodes, groups, device)
