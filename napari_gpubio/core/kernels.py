"""From a ``.cu`` file to a callable kernel.

Included ``.cuh`` files are spliced into the text, because CuPy's disk cache does not look at the content of an
included file and would run yesterday's code. Run parameters are kernel arguments; a ``define`` is for a real
specialization only, such as the floating-point type.
"""

import functools
import re
import struct as packing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.timing import compiling

# Letters of Python's struct module for the kinds of numbers in a layout.
_FORMATS = {"f4": "f", "f8": "d", "b1": "?"}
_FORMATS |= {"i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q"}
POINTER: np.dtype[Any] = np.dtype(np.uintp, metadata={"pointer": True})  # a field of a struct that takes an array
_INCLUDE = re.compile(r'^[ \t]*#include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)
_CORE = Path(__file__).resolve().parent


@functools.cache
def source(path: Path) -> str:
    """Text of a ``.cu`` file with each of its ``.cuh`` files spliced in once, where it is first included."""
    return _splice(path, set())


def _splice(path: Path, seen: set[Path]) -> str:
    def replace(match: re.Match[str]) -> str:
        included = _find(match[1], path.parent)
        if included in seen:
            return ""
        seen.add(included)
        return _splice(included, seen)

    return _INCLUDE.sub(replace, path.read_text(encoding="utf-8")).replace("#pragma once\n", "")


def _find(name: str, folder: Path) -> Path:
    for root in (folder, folder.parent, _CORE, _CORE.parent):
        if (path := root / name).is_file():
            return path
    raise GpuBioError(f"kernel header {name!r} is missing; reinstall napari-gpubio")


def options(*, defines: tuple[str, ...] = (), strict: bool = False, fast: bool = False) -> tuple[str, ...]:
    """NVRTC options.

    ``strict`` keeps the operation order of the CPU backend (no fused multiply-add). ``fast`` lets the special function
    unit compute divisions, roots and the functions of ``fastmath.cuh``, a few units in the last place off.
    """
    chosen = (("--fmad=false",) if strict else ()) + (("--use_fast_math", "-DFAST_MATH") if fast else ())
    return ("-std=c++17", *(f"-D{d}" for d in defines), *chosen)


@functools.lru_cache(maxsize=64)
def _module(path: Path, opts: tuple[str, ...], device_index: int) -> Any:  # noqa: ARG001 - one module a device
    import cupy

    return cupy.RawModule(code=source(path), options=opts, backend="nvrtc")


def kernel(path: Path, name: str, *, defines: tuple[str, ...] = (), strict: bool = False, fast: bool = False) -> Any:
    """Compile (once per device) and return a kernel.

    Parameters
    ----------
    path
        The ``.cu`` file.
    name
        An ``extern "C"`` function in it.
    defines, strict, fast
        See `options`.

    Returns
    -------
    Callable as ``kernel(grid, block, args, shared_mem=)`` on the current CUDA device. Scalars in ``args`` must be
    NumPy scalars of the kernel's own type: CuPy widens Python numbers and does not check.
    """
    import cupy

    chosen = options(defines=defines, strict=strict, fast=fast)
    with compiling():
        return _module(path, chosen, cupy.cuda.Device().id).get_function(name)


def struct_layout(fields: Mapping[str, Any]) -> np.dtype[Any]:
    """Describe a struct that a kernel takes by value: ``{"grid": POINTER, "count": np.int32, "row": (np.float32, 9)}``.

    Fields stand in the order of the struct in the ``.cu`` file, and have its sizes and alignments.
    """
    return np.dtype(
        [(name, *(kind if isinstance(kind, tuple) else (kind,))) for name, kind in fields.items()], align=True
    )


def struct(layout: np.dtype[Any], **values: Any) -> np.void:
    """Fill a struct for a kernel's arguments.

    Parameters
    ----------
    layout
        Made by `struct_layout`.
    **values
        One for each field. A field of kind `POINTER` takes an array on the device, or None; whoever launches the
        kernel keeps the array alive.

    Raises
    ------
    TypeError
        If a field has no value, a value no field, or a number does not fit its field.
    """
    packer = _packer(layout)
    if len(values) != len(packer.fields) or not packer.fields.keys() <= values.keys():
        raise TypeError(f"fields and values differ: {sorted(set(values) ^ set(packer.fields))}")
    numbers: list[Any] = []
    for name, kind in packer.fields.items():
        value = values[name]
        if kind is None:
            numbers.append(_address(value))
        elif kind.shape:
            numbers += np.asarray(value, kind.base).ravel().tolist()
        else:
            numbers.append(value)
    try:
        packed = packer.format.pack(*numbers)
    except packing.error as error:
        raise TypeError(f"the values of a struct do not fit its fields {sorted(packer.fields)}: {error}") from error
    whole: np.void = np.frombuffer(packed, layout)[0]
    return whole


class _Packer(NamedTuple):
    """How a layout is filled: its fields (None for a pointer), and Python's own format of the whole."""

    fields: dict[str, np.dtype[Any] | None]
    format: packing.Struct


_packers: dict[int, tuple[np.dtype[Any], _Packer]] = {}  # by identity, since equal layouts may differ in their pointers


def _packer(layout: np.dtype[Any]) -> _Packer:
    known = _packers.get(id(layout))
    if known is None:
        known = _packers[id(layout)] = layout, _make_packer(layout)
    return known[1]


def _make_packer(layout: np.dtype[Any]) -> _Packer:
    text, end = "=", 0
    fields: dict[str, np.dtype[Any] | None] = {}
    for name, (kind, offset, *_) in (layout.fields or {}).items():
        count = int(np.prod(kind.shape, dtype=int))
        text += f"{offset - end}x{count}{_FORMATS[kind.base.kind + str(kind.base.itemsize)]}"
        end = offset + kind.itemsize
        fields[name] = None if is_pointer(kind) else kind
    return _Packer(fields, packing.Struct(f"{text}{layout.itemsize - end}x"))


def is_pointer(kind: np.dtype[Any]) -> bool:
    """Whether a field of a struct is a `POINTER`."""
    return "pointer" in (kind.metadata or {})


def _address(array: Any) -> int:
    if array is None:
        return 0
    place = array.data.ptr if hasattr(array.data, "ptr") else array.ctypes.data
    return int(place)
