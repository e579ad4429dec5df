"""Streamlines in FODs on all CPU cores (Numba), the counterpart of ``gpu.py``."""

from napari_gpubio.fibers.kernels.fibers.cpu import FiberRun
from napari_gpubio.fibers.kernels.streamlines.streamlines import trace


class Run(FiberRun):
    """The tracing of one problem on the CPU; items are fibers."""

    kernel = staticmethod(trace)
    scratch = 2
    blocks_per_thread = 16  # some fibers are much longer than others
