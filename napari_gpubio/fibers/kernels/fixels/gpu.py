"""Geodesics in fields of fixels in CUDA, the counterpart of ``cpu.py``; the kernel is in ``fixels.cu``."""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.device import Device
from napari_gpubio.core.kernels import POINTER, struct_layout
from napari_gpubio.fibers.kernels.fibers.gpu import FiberRun
from napari_gpubio.fibers.kernels.fixels.problem import FixelProblem, FixelSettings

SOURCE = Path(__file__).with_name("fixels.cu")


@functools.cache
def layouts(real: Any) -> dict[str, np.dtype[Any]]:
    """Layouts of the structs of ``fixels.cu``; the tuples are those of `problem`."""
    whole = ("max_steps", "every")
    return {
        "FixelVolumes": struct_layout(
            dict.fromkeys(("fixels", "mask"), POINTER)
            | {"to_voxel": (real, 9), "to_world": (real, 9), "shape": (np.int32, 3), "most": np.int32}
        ),
        "FixelSettings": struct_layout({name: np.int32 if name in whole else real for name in FixelSettings._fields}),
    }


def defines_of(real: Any) -> tuple[str, ...]:
    """How the kernels are compiled for a precision."""
    return (f"REAL={'double' if np.dtype(real) == np.float64 else 'float'}",)


class Run(FiberRun):
    """The tracing of one problem on one GPU; items are fibers."""

    source = SOURCE

    def __init__(self, problem: FixelProblem, *, device: Device) -> None:
        super().__init__(problem, device=device, defines=defines_of(problem.real))
        shapes, volumes = layouts(np.dtype(problem.real)), problem.volumes
        self._volumes = self._uploaded(shapes["FixelVolumes"], **volumes._asdict(), most=volumes.fixels.shape[3])
        self._settings = self._uploaded(shapes["FixelSettings"], **problem.scalars._asdict())
