"""The arrays of the pretended CuPy: NumPy's, but with a place of their own that the host must not touch unawares."""

import types
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.cuda_on_cpu import loader

if TYPE_CHECKING:
    from tests.cuda_on_cpu.fake_cupy import FakeGpu

_POISON, _GUARD_BYTES = 0xA5, 128
_living: dict[int, "weakref.ref[DeviceArray]"] = {}
_Base: Any = np.ndarray  # untyped, since CuPy's methods differ from NumPy's


class DeviceArray(_Base):
    """An array that pretends to be in GPU memory."""

    gpu: Any = None  # the `FakeGpu` that holds it
    device_index: int = 0
    block: Any = None  # the bytes with their guards

    def __array_finalize__(self, parent: Any) -> None:
        for name in ("gpu", "device_index", "block"):
            setattr(self, name, getattr(parent, name, getattr(DeviceArray, name)))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        refuse_host((*inputs, *(out or ())))
        if out is not None:
            kwargs["out"] = tuple(plain(a) for a in out)
        result = getattr(ufunc, method)(*plain(inputs), **kwargs)
        return out[0] if out is not None else adopt(self.gpu, result)

    def __array_function__(self, func: Any, kinds: Any, args: Any, kwargs: Any) -> Any:
        refuse_host([*args, *kwargs.values()])
        return adopt(self.gpu, func(*plain(args), **plain(kwargs)))

    @property
    def device(self) -> Any:
        """The device that holds the array."""
        return self.gpu.module.cuda.Device(self.device_index)

    @property
    def data(self) -> Any:
        """An object whose ``ptr`` is the address."""
        return types.SimpleNamespace(ptr=self.ctypes.data)

    def get(self, stream: Any = None, order: Any = "C", out: Any = None, blocking: bool = True) -> Any:
        """Copy to the host."""
        if out is None:
            return np.array(plain(self), order=order)
        out[...] = plain(self)
        return out

    def set(self, host: Any, stream: Any = None) -> None:
        """Copy from the host."""
        if host.dtype != self.dtype or host.shape != self.shape:
            raise ValueError(f"set: {host.dtype}{host.shape} into {self.dtype}{self.shape}")
        plain(self)[...] = host

    def __setitem__(self, where: Any, value: Any) -> None:
        refuse_host((value, where))
        plain(self)[plain(where)] = plain(value)

    def __getitem__(self, where: Any) -> Any:
        refuse_host((where,))
        item = super().__getitem__(plain(where))
        return item if isinstance(item, DeviceArray) else adopt(self.gpu, np.asarray(item))

    # NumPy calls these methods without asking the hooks above.
    def astype(self, dtype: Any, order: str = "C", copy: bool = True, **kwargs: Any) -> Any:
        """As NumPy's."""
        if not copy and self.dtype == np.dtype(dtype):
            return self
        return adopt(self.gpu, plain(self).astype(dtype, order=order))

    def copy(self, order: str = "C") -> Any:
        """As NumPy's."""
        return adopt(self.gpu, plain(self).copy(order=order))


def _reduction(name: str) -> Callable[..., Any]:
    def method(self: DeviceArray, *args: Any, **kwargs: Any) -> Any:
        return adopt(self.gpu, getattr(plain(self), name)(*args, **kwargs))

    method.__name__ = name
    return method


for _name in ("sum", "min", "max", "mean", "any", "all", "cumsum", "argmax", "argmin"):
    setattr(DeviceArray, _name, _reduction(_name))


def plain(value: Any) -> Any:
    """Replace device arrays by plain views, also inside tuples, lists and dicts."""
    if isinstance(value, DeviceArray):
        return value.view(np.ndarray)
    if isinstance(value, (tuple, list)):
        return type(value)(plain(v) for v in value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def refuse_host(values: Sequence[Any]) -> None:
    for value in values:
        if isinstance(value, (tuple, list)):
            refuse_host(value)
        if type(value) is np.ndarray and value.ndim:
            raise TypeError("Unsupported type <class 'numpy.ndarray'>: a host array among device arrays")


def adopt(gpu: "FakeGpu", result: Any) -> Any:
    """Put the arrays of a NumPy result into memory of the current device."""
    if isinstance(result, (tuple, list)):
        return type(result)(adopt(gpu, r) for r in result)
    if isinstance(result, np.ndarray | np.generic) and not isinstance(result, DeviceArray):
        target = allocate(gpu, np.shape(result), result.dtype)
        plain(target)[...] = result
        return target
    return result


def allocate(gpu: "FakeGpu", shape: Any, dtype: Any) -> DeviceArray:
    """Memory that is not zero, with guards on both sides."""
    shape = (int(shape),) if np.ndim(shape) == 0 else tuple(int(n) for n in shape)
    dtype = np.dtype(dtype)
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    device = gpu.take(nbytes)
    block = np.full(nbytes + 2 * _GUARD_BYTES, _POISON, np.uint8)
    weakref.finalize(block, gpu.give_back, device, nbytes)
    array = block[_GUARD_BYTES : _GUARD_BYTES + nbytes].view(dtype).reshape(shape).view(DeviceArray)
    array.gpu, array.device_index, array.block = gpu, device, block
    _living[id(block)] = weakref.ref(array)
    weakref.finalize(block, _living.pop, id(block))
    return array


def array_at(address: int) -> DeviceArray | None:
    """The living array whose memory holds an address."""
    for reference in list(_living.values()):
        array = reference()
        if array is not None and array.ctypes.data <= address < array.ctypes.data + max(1, array.nbytes):
            return array
    return None


def check_guards(kernel: str, index: int, array: DeviceArray) -> None:
    block = array.block
    if (block[:_GUARD_BYTES] != _POISON).any() or (block[-_GUARD_BYTES:] != _POISON).any():
        raise loader.LaunchError(f"{kernel}, argument {index}: the kernel wrote outside the array")
