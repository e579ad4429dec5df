"""Tensor fit and eigen-decomposition in CUDA, the counterpart of ``cpu.py``; the kernels are in ``tensors.cu``."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import Device, to_host
from napari_gpubio.core.kernels import POINTER, kernel, struct, struct_layout
from napari_gpubio.diffusion.kernels.tensors.problem import FitProblem, Fitted

Array = npt.NDArray[Any]
SOURCE = Path(__file__).with_name("tensors.cu")
_THREADS = 128
FIT_ARRAYS = struct_layout(
    dict.fromkeys(("signals", "design", "solver", "out", "raised"), POINTER)
    | dict.fromkeys(("voxels", "volumes", "rounds"), np.int32)
)


def _blocks(count: int) -> tuple[int]:
    return ((count + _THREADS - 1) // _THREADS,)


def _kernel(name: str, real: Any) -> Any:
    return kernel(SOURCE, name, defines=(f"REAL={'double' if real == np.float64 else 'float'}",), strict=True)


def eigen_decompose(tensors: Any) -> tuple[Any, Any]:
    """Eigenvalues (descending) and eigenvectors of device tensors of shape (..., 6); see the CPU backend."""
    import cupy

    rows = cupy.ascontiguousarray(tensors).reshape(-1, 6)
    values = cupy.empty((len(rows), 3), rows.dtype)
    vectors = cupy.empty((len(rows), 3, 3), rows.dtype)
    run = _kernel("eigen_rows", rows.dtype)
    run(_blocks(len(rows)), (_THREADS,), (rows, np.int32(len(rows)), values, vectors))
    return values.reshape(*tensors.shape[:-1], 3), vectors.reshape(*tensors.shape[:-1], 3, 3)


def compose(values: Any, vectors: Any, change: Array) -> Any:
    """Device tensors (..., 6) with given eigenvalues and eigenvectors in the frame ``change``; see the CPU backend."""
    import cupy

    flat = cupy.ascontiguousarray(values).reshape(-1, 3)
    tensors = cupy.empty((len(flat), 6), flat.dtype)
    matrix = cupy.asarray(np.ascontiguousarray(change, np.float64))
    run = _kernel("compose_rows", flat.dtype)
    arguments = (flat, cupy.ascontiguousarray(vectors).reshape(-1, 3, 3), matrix, np.int32(len(flat)), tensors)
    run(_blocks(len(flat)), (_THREADS,), arguments)
    return tensors.reshape(*values.shape[:-1], 6)


class Run(drivers.Run):
    """The fit of one problem on one GPU; items are the voxels of the mask."""

    def __init__(self, problem: FitProblem, *, device: Device) -> None:
        import cupy

        super().__init__(problem, device=device)
        with device.current():
            self._signals = cupy.empty(problem.signals.shape[::-1], np.float32)
            for first in range(0, len(problem.signals), problem.rows_at_once):
                some = slice(first, first + problem.rows_at_once)
                self._signals[:, some] = cupy.asarray(problem.signals[some]).T
            self._design = cupy.asarray(problem.design)
            self._solver = cupy.asarray(problem.solver)
            self._out = cupy.full((len(problem.signals), 7), np.nan)
            self._raised = cupy.zeros(len(problem.signals), np.uint8)
            self._fit = _kernel("fit_rows", np.float32)
        self._arrays = struct(
            FIT_ARRAYS,
            signals=self._signals,
            design=self._design,
            solver=self._solver,
            out=self._out,
            raised=self._raised,
            voxels=len(problem.signals),
            volumes=len(problem.design),
            rounds=problem.rounds,
        )

    def advance(self, start: int, count: int) -> None:
        """Fit the voxels ``start`` to ``start + count - 1``."""
        with self.device.current() as here:
            self._fit(_blocks(count), (_THREADS,), (self._arrays, np.int32(start), np.int32(count)))
            here.synchronize()

    def snapshot(self) -> Fitted:
        """Return what has been fitted so far."""
        with self.device.current():
            return Fitted(to_host(self._out), to_host(self._raised).astype(bool))
