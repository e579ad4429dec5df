"""Which processor does the work: the CPU, one GPU, or every GPU of the machine.

A device is chosen by the argument ``device=``, else by the environment variable NAPARI_GPUBIO_DEVICE, else
automatically. ``"auto"`` takes the first GPU that works, otherwise the CPU, and gives the reason; ``"cuda"`` never
falls back silently.
"""

import functools
import importlib
import logging
import math
import os
import platform
import re
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import GpuUnavailable, InvalidInput

ENVIRONMENT = "NAPARI_GPUBIO_DEVICE"
_MIN_PINNED_BYTES, _MAX_PINNED_BYTES = 1 << 20, 64 << 20
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Device:
    """A processor, or several GPUs that share one job.

    Parameters
    ----------
    kind
        ``"cpu"`` or ``"cuda"``.
    indices
        CUDA device numbers; empty for the CPU.
    note
        Why this one was chosen, if it was not requested by name.
    """

    kind: str
    indices: tuple[int, ...] = ()
    note: str = ""

    @property
    def is_gpu(self) -> bool:
        """Whether the work runs in CUDA."""
        return self.kind == "cuda"

    @property
    def each(self) -> "tuple[Device, ...]":
        """Every one of several GPUs alone, or the CPU."""
        return tuple(Device("cuda", (index,)) for index in self.indices) if self.is_gpu else (CPU,)

    @property
    def first(self) -> "Device":
        """The first of several GPUs, or the CPU."""
        return self.each[0]

    def current(self) -> AbstractContextManager[Any]:
        """Make a GPU, the first of several, the current one of CuPy: ``with device.current():``."""
        context: AbstractContextManager[Any] = importlib.import_module("cupy").cuda.Device(self.indices[0])
        return context

    def __str__(self) -> str:
        return "cpu" if not self.is_gpu else "cuda:" + ",".join(map(str, self.indices))

    def describe(self) -> str:
        """Name of the processor for a person, for instance ``"cuda:0 (NVIDIA H200)"``."""
        if not self.is_gpu:
            return f"cpu ({os.cpu_count()} cores)"
        return ", ".join(f"cuda:{i} ({_gpu_name(i)})" for i in self.indices)


CPU = Device("cpu")


def choose_device(device: "str | Device | None" = "auto") -> Device:
    """Turn a user's wish into a device that works.

    Parameters
    ----------
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` (the first GPU), ``"cuda:1"``, ``"cuda:0,1"``, ``"cuda:all"``, or a `Device`.
        ``"auto"`` and None give way to the environment variable NAPARI_GPUBIO_DEVICE.

    Raises
    ------
    GpuUnavailable
        If a GPU is named and cannot be used.
    InvalidInput
        If the text is not one of the forms above.
    """
    if isinstance(device, Device):
        return device
    wish = device or "auto"
    if wish == "auto":
        wish = os.environ.get(ENVIRONMENT, "auto") or "auto"
    wish = wish.strip().lower()
    if wish == "cpu":
        return CPU
    if wish == "auto":
        return _automatic()
    if not re.fullmatch(r"cuda(:(all|\d+(,\d+)*))?", wish):
        raise InvalidInput(f"device is {wish!r}; choose 'auto', 'cpu', 'cuda', 'cuda:0', 'cuda:0,1' or 'cuda:all'")
    return _named_gpu(wish)


def list_devices() -> list[Device]:
    """Return every single device that works here, the CPU first."""
    return [CPU] + [Device("cuda", (i,)) for i in range(_gpu_count())]


@functools.cache
def gpu_problem() -> str | None:
    """Why no GPU can be used and what to do about it, in one sentence; None if one works."""
    if sys.platform == "darwin":
        return "macOS has no CUDA; the CPU backend is used"
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        return (
            "CuPy is not installed; for an NVIDIA GPU: pip install 'napari-gpubio[cuda13]' "
            "(driver 580 or newer) or 'napari-gpubio[cuda12]' (driver 525 or newer)"
        )
    if not cupy.cuda.is_available():
        return "CuPy is installed but finds no NVIDIA GPU or driver; see whether nvidia-smi lists one"
    return _compile_problem(cupy)


def processor_count(device: Device) -> int:
    """Number of processors (SMs) of a GPU, the first one among several."""
    return int(_gpu_properties(device.indices[0])["multiProcessorCount"])


def shared_memory_bytes(device: Device) -> int:
    """Shared memory (bytes) available to a block, on the first one of several GPUs."""
    return int(_gpu_properties(device.indices[0])["sharedMemPerBlockOptin"])


def check_shared_memory(device: Device, needed: int, what: str, instead: str) -> None:
    """Raise InvalidInput if a block needs more shared memory (bytes) than it may have on a GPU.

    Parameters
    ----------
    device, needed
        The GPU, and the bytes of a block.
    what, instead
        What needs them, and what to choose instead, for the message.
    """
    if needed > (there := shared_memory_bytes(device)):
        raise InvalidInput(
            f"{what} needs {needed / 1024:.0f} kB of shared memory and {device.describe()} has {there / 1024:.0f} kB; "
            f"choose {instead}"
        )


def shared_memory_of_processor(device: Device) -> int:
    """Shared memory (bytes) of a processor (SM), on the first one of several GPUs."""
    return int(_gpu_properties(device.indices[0])["sharedMemPerMultiprocessor"])


def free_memory_bytes(device: Device) -> int:
    """Free memory of a GPU (the smallest among several), or of the machine for the CPU, in bytes."""
    if not device.is_gpu:
        return _free_host_bytes()
    cupy = importlib.import_module("cupy")
    free = []
    for index in device.indices:
        with cupy.cuda.Device(index):
            pooled = cupy.get_default_memory_pool().free_bytes()
            free.append(cupy.cuda.runtime.memGetInfo()[0] + pooled)
    return min(free)


def to_host(array: Any, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
    """Copy a device array to the host.

    Parameters
    ----------
    array
        CuPy's.
    out
        Where to, contiguous; None: into `host_room`.
    """
    cupy = importlib.import_module("cupy")
    if out is None:
        out = host_room(array.shape, array.dtype)
    if array.size:
        cupy.ascontiguousarray(array).get(out=out)
    return out


def host_room(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return memory of the host for a copy of a device array, with anything in it.

    It is page-locked, and CuPy keeps it for the next time, unless it were much: to get new pages takes longer than the
    copy (24 MB from an H200: 2 to 11 ms instead of 0.5).
    """
    kind, items = np.dtype(dtype), math.prod(shape)
    if not _MIN_PINNED_BYTES <= kind.itemsize * items <= _MAX_PINNED_BYTES:
        return np.empty(shape, kind)
    cupy = importlib.import_module("cupy")
    return np.frombuffer(cupy.cuda.alloc_pinned_memory(kind.itemsize * items), kind, items).reshape(shape)


def is_out_of_gpu_memory(error: BaseException) -> bool:
    """Whether an exception is CuPy's own out-of-memory error (known without importing CuPy)."""
    return type(error).__name__ == "OutOfMemoryError" and "cupy" in type(error).__module__


def free_gpu_pool(device: Device) -> None:
    """Give the memory that CuPy keeps in reserve back to the driver."""
    if device.is_gpu:
        cupy = importlib.import_module("cupy")
        for index in device.indices:
            with cupy.cuda.Device(index):
                cupy.get_default_memory_pool().free_all_blocks()


def machine() -> dict[str, str]:
    """Processor, GPUs and versions, for benchmark files and the ``info`` verb."""
    import llvmlite
    import numba
    import numpy
    import scipy

    facts = {
        "platform": platform.platform(),
        "cpu": _cpu_name(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
    }
    if gpu_problem() is None:
        cupy = importlib.import_module("cupy")
        facts["cupy"] = cupy.__version__
        facts["gpus"] = "; ".join(d.describe() for d in list_devices()[1:])
    return facts


def _automatic() -> Device:
    problem = gpu_problem()
    if problem is None:
        return Device("cuda", (0,), note="the first GPU")
    logger.info("running on the CPU: %s", problem)
    return Device("cpu", note=problem)


def _named_gpu(wish: str) -> Device:
    if (problem := gpu_problem()) is not None:
        raise GpuUnavailable(f"device {wish!r} was requested, but {problem}; or choose device='cpu'")
    count = _gpu_count()
    _, _, which = wish.partition(":")
    indices = tuple(range(count)) if which == "all" else tuple(int(i) for i in (which or "0").split(","))
    if missing := [i for i in indices if i >= count]:
        raise GpuUnavailable(
            f"device {wish!r} was requested, but there is no GPU {missing[0]}; this machine has {count}"
        )
    return Device("cuda", tuple(dict.fromkeys(indices)))


def _gpu_count() -> int:
    if gpu_problem() is not None:
        return 0
    return int(importlib.import_module("cupy").cuda.runtime.getDeviceCount())


def _gpu_name(index: int) -> str:
    name = _gpu_properties(index)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


@functools.cache
def _gpu_properties(index: int) -> Any:
    """CUDA's properties of a GPU, cached because the query takes milliseconds."""
    return importlib.import_module("cupy").cuda.runtime.getDeviceProperties(index)


def _compile_problem(cupy: Any) -> str | None:
    """Compile and run the smallest kernel: CuPy without NVRTC imports well and fails only here."""
    try:
        out = cupy.zeros(1, "int32")
        cupy.RawKernel('extern "C" __global__ void seven(int* a) { a[0] = 7; }', "seven")((1,), (1,), (out,))
        if int(out[0]) != 7:
            return "a GPU was found but a test kernel gave a wrong result"
    except Exception as error:  # noqa: BLE001 - whatever breaks here is the answer to "why no GPU"
        detail = str(error).partition("\n")[0][:200]
        return (
            f"a GPU was found but a test kernel failed ({type(error).__name__}: {detail}); "
            "install the CUDA wheels with pip install 'napari-gpubio[cuda13]' or 'napari-gpubio[cuda12]'"
        )
    return None


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:  # noqa: PTH123 - a kernel file, not a path of ours
            for line in info:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        logger.debug("no /proc/cpuinfo here")
    return platform.processor() or platform.machine()


def _free_host_bytes() -> int:
    """Memory that can be had without swapping; the system's file cache counts as free, which it is."""
    import psutil

    return int(psutil.virtual_memory().available)
