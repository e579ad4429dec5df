"""Geodesics in fields of fixels on all CPU cores (Numba), the counterpart of ``gpu.py``."""

from napari_gpubio.fibers.kernels.fibers.cpu import FiberRun
from napari_gpubio.fibers.kernels.fixels.geodesics import trace


class Run(FiberRun):
    """The tracing of one problem on the CPU; items are fibers."""

    kernel = staticmethod(trace)
