"""NumPy dressed as CuPy, so that GPU host code runs with its real kernels on a machine that has no GPU.

What it is strict about, because a GPU would be: host arrays do not mix with device arrays and are not handed to
kernels; an array belongs to the device it was made on; memory has an end, and allocations can be made to fail; new
memory is not zero; a kernel that writes just outside an array is found out.
What it cannot show: streams run at once and in order, transfers and races between threads do not exist, and
``np.asarray(device_array)`` works where CuPy refuses it (a subclass of ndarray cannot prevent that).
"""

import contextlib
import importlib.machinery
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from napari_gpubio.core import kernels
from tests.cuda_on_cpu import loader
from tests.cuda_on_cpu.device_array import DeviceArray, adopt, allocate, array_at, check_guards, plain, refuse_host

_MODULES = ("cupy", "cupy.cuda", "cupy.cuda.memory", "cupy.cuda.runtime")


class OutOfMemoryError(MemoryError):
    """CuPy's own error, by name and module."""


OutOfMemoryError.__module__ = "cupy.cuda.memory"


@dataclass
class FakeGpu:
    """The pretended machine, and what a test may do to it."""

    count: int = 1  # number of GPUs
    total_bytes: int = 1 << 30  # memory of each
    driver: bool = True  # false for a machine without GPU and driver
    kernel_error: Exception | None = None  # raised by every launch, when not None
    dead_kernels: bool = False  # launches do nothing at all, when true
    # ``(device, kernel name, grid, block)`` of every launch
    log: list[tuple[int, str, Any, Any]] = field(default_factory=list)
    used_bytes: dict[int, int] = field(default_factory=dict)
    allocations: int = 0
    _fail_at: set[int] = field(default_factory=set)
    _here: threading.local = field(default_factory=threading.local)
    _lock: Any = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.module: Any = _build_module(self)

    def fail_allocations(self, *which: int) -> None:
        """Let coming allocations raise `OutOfMemoryError`: 1 is the next one."""
        self._fail_at |= {self.allocations + k for k in which}

    @contextlib.contextmanager
    def installed(self) -> Iterator["FakeGpu"]:
        """Be ``import cupy`` inside the block."""
        before = {name: sys.modules.get(name) for name in _MODULES}
        cuda = self.module.cuda
        sys.modules.update(zip(_MODULES, (self.module, cuda, cuda.memory, cuda.runtime), strict=True))
        try:
            yield self
        finally:
            for name, module in before.items():
                sys.modules.pop(name, None)
                if module is not None:
                    sys.modules[name] = module

    @property
    def current(self) -> int:
        """The current device of this thread."""
        return getattr(self._here, "device", 0)

    def switch(self, device: int) -> None:
        """Make a device the current one of this thread."""
        if not 0 <= device < self.count:
            raise RuntimeError(f"cudaErrorInvalidDevice: invalid device ordinal ({device})")
        self._here.device = device

    def take(self, nbytes: int) -> int:
        """Account for memory on the current device, or raise as CuPy does."""
        with self._lock:
            self.allocations += 1
            used = self.used_bytes.get(self.current, 0)
            if self.allocations in self._fail_at or used + nbytes > self.total_bytes:
                raise OutOfMemoryError(f"Out of memory allocating {nbytes:,} bytes (allocated so far: {used:,} bytes)")
            self.used_bytes[self.current] = used + nbytes
            return self.current

    def give_back(self, device: int, nbytes: int) -> None:
        """Undo `take`."""
        with self._lock:
            self.used_bytes[device] -= nbytes


class _Kernel:
    """A kernel that takes device arrays of the current device only."""

    def __init__(self, gpu: FakeGpu, kernel: loader.CpuKernel) -> None:
        self._gpu, self._kernel = gpu, kernel

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """Upper limit of ``shared_mem``."""
        return self._kernel.max_dynamic_shared_size_bytes

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, value: int) -> None:
        self._kernel.max_dynamic_shared_size_bytes = value

    def __call__(self, grid: Any, block: Any, args: Sequence[Any], shared_mem: int = 0, *, stream: Any = None) -> None:
        gpu, name = self._gpu, self._kernel.name
        gpu.log.append((gpu.current, name, tuple(grid), tuple(block)))
        if gpu.kernel_error is not None:
            raise gpu.kernel_error
        arrays = [(i, a) for i, a in enumerate(args) if isinstance(a, DeviceArray)]
        arrays += [(i, a) for i, value in enumerate(args) for a in self._arrays_in(i, value)]
        self._check_places(args)
        if not gpu.dead_kernels:
            self._kernel(grid, block, [plain(a) for a in args], shared_mem)
        for i, array in arrays:
            check_guards(name, i, array)

    def _arrays_in(self, index: int, value: Any) -> list[Any]:
        """The device arrays that the fields of a struct point at."""
        names = value.dtype.names or () if isinstance(value, np.void) else ()
        addresses = {int(value[name]): name for name in names if kernels.is_pointer(value.dtype[name]) and value[name]}
        found = [array_at(address) for address in addresses]
        for name, array in zip(addresses.values(), found, strict=True):
            if array is None:
                raise TypeError(f"{self._kernel.name}, argument {index}: {name} points at no living device array")
            self._check_place(index, array)
        return found

    def _check_places(self, args: Sequence[Any]) -> None:
        for i, (word, arg) in enumerate(zip(self._kernel.signature, args, strict=False)):
            if type(arg) is np.ndarray and word[0] in "pq":
                raise TypeError(f"{self._kernel.name}, argument {i}: a host array")
            if isinstance(arg, DeviceArray):
                self._check_place(i, arg)

    def _check_place(self, index: int, array: Any) -> None:
        if array.device_index != self._gpu.current:
            raise RuntimeError(
                f"{self._kernel.name}, argument {index}: the array is on device {array.device_index} "
                f"and the kernel runs on device {self._gpu.current}"
            )


class _Stream(contextlib.AbstractContextManager["_Stream"]):
    null: Any = None

    def __init__(self, *, non_blocking: bool = False) -> None:
        self.ptr = 0

    def __exit__(self, *exc: object) -> None:
        return None

    def synchronize(self) -> None:
        pass


def _device_class(gpu: FakeGpu) -> type:
    class Device:
        """A context that makes a device the current one of the thread."""

        def __init__(self, device: Any = None) -> None:
            self.id = gpu.current if device is None else int(device)
            self._before: list[int] = []

        def __int__(self) -> int:
            return self.id

        def __enter__(self) -> "Device":
            self._before.append(gpu.current)
            gpu.switch(self.id)
            return self

        def __exit__(self, *exc: object) -> None:
            gpu.switch(self._before.pop())

        def synchronize(self) -> None:
            pass

    return Device


def _cuda_module(gpu: FakeGpu) -> Any:
    cuda: Any
    memory: Any
    runtime: Any
    cuda, memory, runtime = (types.ModuleType(name) for name in _MODULES[1:])
    cuda.memory, cuda.runtime = memory, runtime
    cuda.Device, cuda.Stream = _device_class(gpu), _Stream
    _Stream.null = _Stream()
    cuda.alloc_pinned_memory = bytearray
    cuda.get_current_stream = lambda: _Stream.null
    cuda.is_available = lambda: gpu.driver and gpu.count > 0
    memory.OutOfMemoryError = OutOfMemoryError
    runtime.getDeviceCount = lambda: gpu.count
    runtime.memGetInfo = lambda: (gpu.total_bytes - gpu.used_bytes.get(gpu.current, 0), gpu.total_bytes)
    runtime.getDeviceProperties = lambda i: {
        "name": f"Fake GPU {i}".encode(),
        "totalGlobalMem": gpu.total_bytes,
        "multiProcessorCount": 4,
        "sharedMemPerBlock": 48 * 1024,
        "sharedMemPerBlockOptin": 227 * 1024,
        "sharedMemPerMultiprocessor": 228 * 1024,
        "maxThreadsPerBlock": 1024,
        "major": 9,
        "minor": 0,
    }
    return cuda


def _raw_module_class(gpu: FakeGpu) -> Callable[..., Any]:
    class RawModule:
        """Source text compiled by g++."""

        def __init__(self, *, code: str, options: Sequence[str] = (), backend: str = "nvrtc", **more: Any) -> None:
            if more or backend != "nvrtc":
                raise NotImplementedError(f"fake_cupy knows code, options and NVRTC only, not {more or backend}")
            self._module = loader.compile_text(code, options=options)

        def get_function(self, name: str) -> _Kernel:
            return _Kernel(gpu, self._module.get_function(name))

    return RawModule


def _pool(gpu: FakeGpu) -> Any:
    return types.SimpleNamespace(
        free_all_blocks=lambda stream=None: None,
        free_bytes=lambda: 0,
        used_bytes=lambda: gpu.used_bytes.get(gpu.current, 0),
        total_bytes=lambda: gpu.used_bytes.get(gpu.current, 0),
    )


def _as_array(gpu: FakeGpu, copy: bool) -> Callable[..., Any]:
    def convert(value: Any, dtype: Any = None, **kwargs: Any) -> DeviceArray:
        kind = np.dtype(dtype) if dtype is not None else None
        if isinstance(value, DeviceArray) and not copy and kind in (None, value.dtype):
            return value
        return adopt(gpu, np.array(plain(value), dtype=dtype))

    return convert


def _ascontiguousarray(gpu: FakeGpu) -> Callable[..., Any]:
    def convert(value: Any, dtype: Any = None) -> DeviceArray:
        array = _as_array(gpu, copy=False)(value, dtype)
        return array if array.flags.c_contiguous else array.copy()

    return convert


def _asnumpy(value: Any, stream: Any = None, order: str = "C", out: Any = None, **kwargs: Any) -> Any:
    return value.get(out=out, order=order) if isinstance(value, DeviceArray) else np.asarray(value)


def _filled(gpu: FakeGpu, value: int | None) -> Callable[..., Any]:
    def make(shape: Any, dtype: Any = float, order: str = "C") -> DeviceArray:
        array = allocate(gpu, shape, dtype)
        if value is not None:
            plain(array)[...] = value
        return array

    return make


def _like(gpu: FakeGpu, value: int | None) -> Callable[..., Any]:
    def make(other: Any, dtype: Any = None, **kwargs: Any) -> DeviceArray:
        return _filled(gpu, value)(other.shape, dtype or other.dtype)

    return make


def _other(gpu: FakeGpu) -> Callable[[str], Any]:
    """Give ``cupy.name`` for everything that is NumPy's with arrays in other memory."""

    def lookup(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            refuse_host([*args, *kwargs.values()])
            result = found(*plain(args), **plain(kwargs))
            return kwargs["out"] if kwargs.get("out") is not None else adopt(gpu, result)

        return call

    return lookup


def _build_module(gpu: FakeGpu) -> Any:
    module: Any = types.ModuleType("cupy")
    module.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    module.__path__ = []
    module.__version__ = "14.2.0+fake"
    module.ndarray, module.cuda = DeviceArray, _cuda_module(gpu)
    for name, value in (("zeros", 0), ("ones", 1), ("empty", None)):
        setattr(module, name, _filled(gpu, value))
        setattr(module, name + "_like", _like(gpu, value))
    module.asarray, module.array = _as_array(gpu, copy=False), _as_array(gpu, copy=True)
    module.ascontiguousarray, module.asnumpy = _ascontiguousarray(gpu), _asnumpy
    module.get_default_memory_pool = lambda: _pool(gpu)
    module.RawModule = _raw_module_class(gpu)
    module.RawKernel = lambda code, name, options=(), backend="nvrtc", **more: module.RawModule(
        code=code, options=options, backend=backend, **more
    ).get_function(name)
    module.is_available = module.cuda.is_available
    module.__getattr__ = _other(gpu)
    return module
