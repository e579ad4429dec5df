"""What deconvolutions of one tissue and of several share: voxels with signals, and their way to a GPU and back."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.chunks import items_within_memory
from napari_gpubio.core.device import Device, to_host
from napari_gpubio.core.kernels import struct
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.rows import copy_rows

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Deconvolution(drivers.Problem):
    """Voxels whose coefficients are found from their signals, each in a number of steps that is counted.

    Parameters
    ----------
    signals
        Shape (M, V), float32: M voxels.
    """

    work = "deconvolving"
    counts: ClassVar[Any]  # type of the numbers of steps
    signals: npt.NDArray[np.float32]

    @property
    def items(self) -> int:
        """Number of voxels."""
        return len(self.signals)

    @property
    def coefficients(self) -> int:
        """Number of unknowns, N."""
        raise NotImplementedError

    @property
    def tables_bytes(self) -> int:
        """Bytes of what all voxels share."""
        raise NotImplementedError

    @property
    def bytes_per_item(self) -> int:
        """Bytes of the signals of a voxel, of its coefficients, and of the number of its steps."""
        return 4 * (self.signals.shape[1] + self.coefficients) + np.dtype(self.counts).itemsize

    def memory(self, device: Device) -> Memory:
        """Signals, results and tables; on a GPU those of a chunk, at most: how long it is depends on the time."""
        count = min(self.items, items_within_memory(device, self.bytes_per_item))
        signal = 4 * self.signals.shape[1]
        return Memory(inputs=self.tables_bytes + count * signal, results=count * (self.bytes_per_item - signal))


class RunOnGpu(drivers.Run):
    """A deconvolution on one GPU, whose signals are uploaded chunk by chunk.

    A subclass declares ``layout``, the arguments of its kernel beside what all voxels share, which it keeps in
    ``_shared``, and gives `launch`. ``out``: (M, N) and ``took``: (M,), which runs of several devices may share.
    """

    layout: ClassVar[Any]
    _shared: dict[str, Any]

    def __init__(self, problem: Deconvolution, *, device: Device, out: Array, took: Array) -> None:
        super().__init__(problem, device=device)
        self._out, self._took = out, took

    def launch(self, arrays: Any, count: int) -> None:
        """Launch the kernel for a chunk of ``count`` voxels."""
        raise NotImplementedError

    def advance(self, start: int, count: int) -> None:
        """Deconvolve the voxels ``start`` to ``start + count - 1``."""
        import cupy

        p, rows = self._problem, slice(start, start + count)
        with self.device.current():
            signals = cupy.asarray(p.signals[rows])
            out, took = cupy.empty((count, p.coefficients), np.float32), cupy.empty(count, p.counts)
            self.launch(struct(self.layout, signals=signals, out=out, took=took, **self._shared), count)
            copy_rows(to_host(out), self._out[rows])
            self._took[rows] = to_host(took)
