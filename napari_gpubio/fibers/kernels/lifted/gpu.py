"""Geodesics of positions and directions in CUDA, the counterpart of ``cpu.py``; the kernel is in ``lifted.cu``."""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.device import Device
from napari_gpubio.core.kernels import POINTER, struct_layout
from napari_gpubio.fibers.kernels.fibers.gpu import FiberRun
from napari_gpubio.fibers.kernels.lifted.problem import LiftedProblem, LiftedSettings

SOURCE = Path(__file__).with_name("lifted.cu")


@functools.cache
def layouts(real: Any) -> dict[str, np.dtype[Any]]:
    """Layouts of the structs of ``lifted.cu``; the tuples are those of `problem`."""
    whole = ("max_steps", "every", "power", "guiding")
    return {
        "LiftedVolumes": struct_layout(
            dict.fromkeys(("fods", "table", "mask"), POINTER)
            | {"to_voxel": (real, 9), "to_world": (real, 9), "shape": (np.int32, 3)}
        ),
        "LiftedSettings": struct_layout({name: np.int32 if name in whole else real for name in LiftedSettings._fields}),
    }


def defines_of(lmax: int, real: Any) -> tuple[str, ...]:
    """How the kernels are compiled for an order and a precision."""
    return f"REAL={'double' if np.dtype(real) == np.float64 else 'float'}", f"LMAX={lmax}"


class Run(FiberRun):
    """The tracing of one problem on one GPU; items are fibers."""

    source = SOURCE

    def __init__(self, problem: LiftedProblem, *, device: Device) -> None:
        super().__init__(problem, device=device, defines=defines_of(problem.lmax, problem.real))
        shapes = layouts(np.dtype(problem.real))
        self._volumes = self._uploaded(shapes["LiftedVolumes"], **problem.volumes._asdict())
        self._settings = self._uploaded(shapes["LiftedSettings"], **problem.scalars._asdict())
