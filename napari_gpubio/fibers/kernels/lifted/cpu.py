"""Geodesics of positions and directions on all CPU cores (Numba), the counterpart of ``gpu.py``."""

from napari_gpubio.fibers.kernels.fibers.cpu import FiberRun
from napari_gpubio.fibers.kernels.lifted.geodesics import trace


class Run(FiberRun):
    """The tracing of one problem on the CPU; items are fibers."""

    kernel = staticmethod(trace)
    scratch = 4
