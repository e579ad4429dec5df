"""Tensors of bootstrap repeats on all CPU cores (Numba), the counterpart of ``gpu.py`` and ``bootstrap.cu``."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.jit import kernel, run_blocks
from napari_gpubio.core.philox import philox4x32
from napari_gpubio.fibers.kernels.bootstrap.problem import DrawProblem

Array = npt.NDArray[Any]
_U32, _U64, _F64 = np.uint32, np.uint64, np.float64


class DrawArrays(NamedTuple):
    """What `draw_rows` reads; see `DrawProblem`."""

    tensors: Array
    shifts: Array
    voxels: Array
    seed: Any


@kernel
def draw_rows(start: int, stop: int, arrays: DrawArrays, repeat: int, out: Array) -> None:
    """Tensors (M, 6) of one repeat: to the fit each residual adds its shift or takes it away."""
    key0, key1 = _U32(arrays.seed & _U64(0xFFFFFFFF)), _U32(arrays.seed >> _U64(32))
    volumes = arrays.shifts.shape[1]
    for n in range(start, stop):
        xx, yy, zz = arrays.tensors[n, 0], arrays.tensors[n, 1], arrays.tensors[n, 2]
        xy, xz, yz = arrays.tensors[n, 3], arrays.tensors[n, 4], arrays.tensors[n, 5]
        for first in range(0, volumes, 128):
            words = philox4x32(key0, key1, _U32(first // 128), arrays.voxels[n], _U32(repeat), _U32(0))
            for v in range(first, min(first + 128, volumes)):
                bit = (words[(v - first) // 32] >> _U32((v - first) % 32)) & _U32(1)
                sign = _F64(1.0) if bit else _F64(-1.0)
                xx += sign * arrays.shifts[n, v, 0]
                yy += sign * arrays.shifts[n, v, 1]
                zz += sign * arrays.shifts[n, v, 2]
                xy += sign * arrays.shifts[n, v, 3]
                xz += sign * arrays.shifts[n, v, 4]
                yz += sign * arrays.shifts[n, v, 5]
        out[n, 0], out[n, 1], out[n, 2] = xx, yy, zz
        out[n, 3], out[n, 4], out[n, 5] = xy, xz, yz


class Run(drivers.Run):
    """The repeats of one problem on the CPU."""

    def __init__(self, problem: DrawProblem, *, device: Device = CPU) -> None:
        super().__init__(problem, device=device)
        self._arrays = DrawArrays(problem.tensors, problem.shifts, problem.voxels, np.uint64(problem.seed))

    def draw(self, repeat: int) -> npt.NDArray[np.float64]:
        """Return the tensors of a repeat, shape (M, 6), mm^2/s; they depend on its number and the seed only."""
        out = np.empty(self._arrays.tensors.shape)
        run_blocks(draw_rows, len(out), self._arrays, repeat, out, least=512)
        return out
