"""Streamlines in FODs in CUDA, the counterpart of ``cpu.py``; the kernels are in ``streamlines.cu``."""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.device import Device
from napari_gpubio.core.kernels import POINTER, struct_layout
from napari_gpubio.fibers.kernels.fibers.gpu import FiberRun
from napari_gpubio.fibers.kernels.streamlines.problem import IFOD1, IFOD2, SD_STREAM, StreamlineProblem

SOURCE = Path(__file__).with_name("streamlines.cu")
# Of each kind: its kernel, threads of a block (the launch bounds in streamlines.cu), and lanes of a ray.
_KERNELS = {
    SD_STREAM: ("trace_peaks", 64, 1),
    IFOD1: ("trace_first_order", 128, 32),
    IFOD2: ("trace_second_order", 128, 32),
}


@functools.cache
def layouts(real: Any) -> dict[str, np.dtype[Any]]:
    """Layouts of the structs of ``streamlines.cu``; the tuples are those of `problem`."""
    return {
        "FodVolumes": struct_layout(
            dict.fromkeys(("fods", "table", "mask"), POINTER) | {"to_voxel": (real, 9), "shape": (np.int32, 3)}
        ),
        "StreamlineSettings": struct_layout(
            {"seed": np.uint64, "grid": POINTER}
            | dict.fromkeys(("turns", "max_steps", "every", "trials"), np.int32)
            | dict.fromkeys(("step_mm", "cutoff", "least_cos", "headroom"), real)
        ),
    }


def defines_of(lmax: int, real: Any) -> tuple[str, ...]:
    """How the kernels are compiled for an order and a precision."""
    return f"REAL={'double' if np.dtype(real) == np.float64 else 'float'}", f"LMAX={lmax}"


class Run(FiberRun):
    """The tracing of one problem on one GPU; items are fibers."""

    source = SOURCE

    def __init__(self, problem: StreamlineProblem, *, device: Device) -> None:
        super().__init__(problem, device=device, defines=defines_of(problem.field.lmax, problem.real))
        shapes, scalars = layouts(np.dtype(problem.real)), problem.scalars
        self._name, self._threads, self._lanes = _KERNELS[scalars.kind]
        self._volumes = self._uploaded(shapes["FodVolumes"], **problem.volumes._asdict())
        self._settings = self._uploaded(shapes["StreamlineSettings"], **scalars._asdict(), turns=len(scalars.grid))
