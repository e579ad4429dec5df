"""JSON as MCX writes it: arrays in JData notation, and sections whose values are checked when they are read."""

import base64
import binascii
import lzma
import math
import reprlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, free_memory_bytes
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import MAX_WHOLE, existing_bytes, json_of
from napari_gpubio.core.reading import note

Array = npt.NDArray[Any]
_DTYPES = {
    "uint8": "<u1", "uint16": "<u2", "uint32": "<u4", "uint64": "<u8", "int8": "<i1", "int16": "<i2", "int32": "<i4",
    "int64": "<i8", "half": "<f2", "float16": "<f2", "single": "<f4", "float32": "<f4", "double": "<f8",
    "float64": "<f8", "logical": "<u1", "bool": "<u1",
}  # fmt: skip
_NAMES = {"f2": "half", "f4": "single", "f8": "double"}
_COLUMN_MAJOR = ("c", "col", "column")
_MAX_AXES = 8
_LZMA_MEMORY = 1 << 30  # bytes; a damaged header may ask for a dictionary of 4 GB
_NOT_REAL = ("_ArrayIsComplex_", "_ArrayIsSparse_", "_ArrayShape_")


def is_array(node: object) -> bool:
    """Whether a JSON value is an annotated array."""
    return isinstance(node, Mapping) and "_ArraySize_" in node


def decode_array(node: Mapping[str, Any], what: str) -> Array:
    """Return the array that a JSON object holds, in the machine's byte order; ``what`` is its place, for errors.

    Raises
    ------
    InvalidInput
        If a field is missing or of the wrong kind, the array is complex, sparse or too large, its bytes cannot be
        decompressed, or there are more or fewer of them than declared.
    """
    if odd := [key for key in _NOT_REAL if node.get(key)]:
        raise InvalidInput(f"{what} has {odd[0]}; only full real arrays can be read, store it as one")
    dtype, shape = _dtype(node, what), _shape(node, what)
    order = str(node.get("_ArrayOrder_", "r")).lower()
    values = _packed(node, dtype, shape, what) if "_ArrayZipData_" in node else _plain(node, dtype, shape, what)
    return values.reshape(shape, order="F" if order in _COLUMN_MAJOR else "C")


def encode_array(array: npt.ArrayLike) -> dict[str, Any]:
    """Return the JSON object of an array of integers, booleans or real numbers, its bytes compressed with zlib."""
    values = np.asarray(array)
    values = values.astype(np.uint8) if values.dtype == bool else values
    if values.dtype.kind not in "iuf" or values.dtype.itemsize > 8:
        raise InvalidInput(f"an array of type {values.dtype} cannot be written as JData; convert it to real numbers")
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return {
        "_ArrayType_": _NAMES.get(values.dtype.str[1:], values.dtype.name),
        "_ArraySize_": list(values.shape),
        "_ArrayZipType_": "zlib",
        "_ArrayZipSize_": values.size,
        "_ArrayZipData_": base64.b64encode(zlib.compress(little.tobytes(), 6)).decode("ascii"),
    }


def _dtype(node: Mapping[str, Any], what: str) -> np.dtype[Any]:
    name = node.get("_ArrayType_")
    if not isinstance(name, str) or name.lower() not in _DTYPES:
        raise InvalidInput(f"{what}._ArrayType_ is {shown(name)}; it must be one of {', '.join(_DTYPES)}")
    return np.dtype(_DTYPES[name.lower()])


def _listed(values: Any) -> list[Any]:
    """Return an array, or a single value, as a list."""
    values = values.ravel().tolist() if isinstance(values, np.ndarray) else values
    return values if isinstance(values, list) else [values]


def _shape(node: Mapping[str, Any], what: str) -> tuple[int, ...]:
    sizes = _listed(node.get("_ArraySize_"))
    if not 1 <= len(sizes) <= _MAX_AXES or not all(type(size) is int and 0 < size < 2**40 for size in sizes):
        raise InvalidInput(f"{what}._ArraySize_ is {shown(sizes)}; 1 to {_MAX_AXES} positive integers are needed")
    return tuple(sizes)


def _plain(node: Mapping[str, Any], dtype: np.dtype[Any], shape: Sequence[int], what: str) -> Array:
    """Values that are written out as numbers."""
    values = _listed(node.get("_ArrayData_"))
    if len(values) != math.prod(shape):
        raise InvalidInput(
            f"{what}._ArrayData_ has {len(values)} values and _ArraySize_ {shown(list(shape))} needs "
            f"{math.prod(shape)}; the file is incomplete, write it again"
        )
    native = dtype.newbyteorder("=")
    if (array := _converted(values, native)) is None:
        raise InvalidInput(f"{what}._ArrayData_ has values that are no {native.name} numbers; write it again")
    return array


def _converted(values: list[Any], dtype: np.dtype[Any]) -> Array | None:
    """The values as an array, or None if one of them does not fit."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            numbers = np.array(values)
            array = numbers.astype(dtype)
    except (ValueError, TypeError, OverflowError):  # texts, lists of unequal length, numbers of 400 digits
        return None
    fits = array.ndim == 1 and (dtype.kind == "f" or np.array_equal(array, numbers))
    return array if fits else None


def _packed(node: Mapping[str, Any], dtype: np.dtype[Any], shape: Sequence[int], what: str) -> Array:
    """Values from compressed bytes in base64."""
    count = math.prod(shape) * dtype.itemsize
    if count > (free := free_memory_bytes(CPU)):
        raise InvalidInput(
            f"{what} declares {count / 2**20:.0f} MB and {free / 2**20:.0f} MB of memory are free; crop the volume"
        )
    zip_type = node.get("_ArrayZipType_")
    if not isinstance(zip_type, str) or zip_type.lower() not in _UNZIP:
        raise InvalidInput(
            f"{what}._ArrayZipType_ is {shown(zip_type)}; {', '.join(_UNZIP)} can be read, save it with one of these"
        )
    try:
        data = _UNZIP[zip_type.lower()](_bytes_of(node["_ArrayZipData_"], what), count)
    except (zlib.error, lzma.LZMAError, EOFError) as error:
        raise InvalidInput(f"{what} cannot be decompressed ({error}); it is damaged, write it again") from error
    if len(data) != count:
        more = "more" if len(data) > count else len(data)
        raise InvalidInput(
            f"{what} holds {more} bytes and its size and type need {count}; it is damaged, write it again"
        )
    stored = np.frombuffer(data, dtype.newbyteorder(">") if _is_big_endian(node) else dtype)
    return stored.astype(dtype.newbyteorder("="))


def _is_big_endian(node: Mapping[str, Any]) -> bool:
    return str(node.get("_ArrayZipEndian_", "little")).lower().startswith("b")


def _bytes_of(text: object, what: str) -> bytes:
    """The bytes of base64 text; binary files have them as they are."""
    if isinstance(text, np.ndarray) and text.dtype.itemsize == 1:
        return text.tobytes()
    if not isinstance(text, str):
        raise InvalidInput(f"{what}._ArrayZipData_ is {shown(text)}; base64 text is needed")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"{what}._ArrayZipData_ is not base64 ({error}); it is damaged, write it again") from error


# Each takes at most one byte more than it should find, so that a bomb cannot fill the memory.
def _inflate(data: bytes, count: int) -> bytes:
    return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, count + 1)  # 32: zlib or gzip, by its header


def _unlzma(data: bytes, count: int) -> bytes:
    return lzma.LZMADecompressor(lzma.FORMAT_AUTO, memlimit=_LZMA_MEMORY).decompress(data, count + 1)


def _as_it_is(data: bytes, count: int) -> bytes:
    return data[: count + 1]


_UNZIP: dict[str, Callable[[bytes, int], bytes]] = {
    "zlib": _inflate, "gzip": _inflate, "lzma": _unlzma, "base64": _as_it_is,
}  # fmt: skip


def shown(value: object) -> str:
    """A JSON value for an error message, not too long."""
    return "absent" if value is None else reprlib.repr(value)


_SPECIAL = {"_nan_": math.nan, "_inf_": math.inf, "+_inf_": math.inf, "-_inf_": -math.inf}
_WHOLE_LIMIT = 2**63


def load_json(path: str | Path) -> dict[str, Any]:
    """Load a JSON file that holds an object; anything else is refused."""
    file, data = Path(path), existing_bytes(path, MAX_WHOLE)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InvalidInput(
            f"{file.name} is not text; JSON in UTF-8 is needed. Convert binary JSON (BJData, UBJSON) to JSON first"
        )
    root = json_of(text, file.name, strict=False)  # MCX's own examples have line breaks in their texts
    if not isinstance(root, dict):
        raise InvalidInput(f"{file.name} holds {shown(root)}; an object {{...}} is needed")
    return root


@dataclass(frozen=True, eq=False)
class Section:
    """An object of the file, whose values are checked when they are taken.

    Each method takes a key, and what to return where it is absent; without that, an absent key is an error. Errors are
    `InvalidInput` with the place, the value and what is needed. ``name`` is the object's place in the file; ``root`` is
    the whole file, for keys like ``Domain.Dim`` at the root.
    """

    name: str
    fields: Mapping[str, Any]
    root: Mapping[str, Any] = field(default_factory=dict)

    def get(self, key: str) -> Any:
        """The value as it is, or None."""
        found = _find(self.fields, key)
        return _find(self.root, f"{self.name}.{key}") if found is None else found

    def section(self, key: str) -> "Section":
        """An object; an absent one is empty."""
        value = self.get(key)
        name = f"{self.name}.{key}" if self.name else key
        if value is not None and not isinstance(value, Mapping):
            raise InvalidInput(f"{name} is {shown(value)}; an object {{...}} is needed")
        return Section(name, value or {}, self.root or self.fields)

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number; one that is written as a text is taken with a note."""
        value = self._value(key, default)
        if isinstance(value, str):
            with suppress(ValueError):
                value = float(value)
                note(f"{self.name}.{key} is the text {shown(self.get(key))}, which is taken as {value:g}")
        if not _is_number(value) or not math.isfinite(number := as_float(value)):
            raise self._bad(key, "give a number")
        return number

    def whole(self, key: str, default: int | None = None) -> int:
        """An integer; 1e6 is one."""
        number = self.number(key, default)
        if number != math.floor(number) or abs(number) >= _WHOLE_LIMIT:
            raise self._bad(key, "give an integer")
        value = self._value(key, default)
        return int(value if isinstance(value, int) else number)

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false, or a number: 0 is false."""
        value = self._value(key, default)
        return value if isinstance(value, bool) else self.number(key) != 0

    def text(self, key: str, default: str | None = None) -> str:
        """A text."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self._bad(key, "give a text")
        return value

    def numbers(self, key: str, least: int, most: int, default: Sequence[float] | None = None) -> tuple[float, ...]:
        """A list of ``least`` to ``most`` finite numbers."""
        return checked_numbers(self._value(key, default), f"{self.name}.{key}", least, most)

    def any_numbers(self, key: str, least: int, most: int) -> tuple[float, ...]:
        """A list of numbers, which may be JData's ``_NaN_``, ``_Inf_`` and ``-_Inf_``."""
        return _checked_list(self._value(key, None), f"{self.name}.{key}", least, most)

    def wholes(self, key: str, count: int) -> tuple[int, ...]:
        """A list of ``count`` integers."""
        return checked_wholes(self._value(key, None), f"{self.name}.{key}", count)

    def _value(self, key: str, default: Any) -> Any:
        value = self.get(key)
        if value is None and default is None:
            raise InvalidInput(f"{self.name}.{key} is missing; add it")
        return default if value is None else value

    def _bad(self, key: str, advice: str) -> InvalidInput:
        return InvalidInput(f"{self.name}.{key} is {shown(self.get(key))}; {advice}")


def checked_numbers(value: Any, place: str, least: int, most: int) -> tuple[float, ...]:
    """Return a list of ``least`` to ``most`` finite numbers, or say what stands at this place instead."""
    numbers = _checked_list(value, place, least, most)
    if not all(math.isfinite(number) for number in numbers):
        raise InvalidInput(f"{place} is {shown(value)}; give finite numbers")
    return numbers


def checked_wholes(value: Any, place: str, count: int) -> tuple[int, ...]:
    """Return a list of ``count`` integers, or say what stands at this place instead."""
    numbers = checked_numbers(value, place, count, count)
    if not all(number == math.floor(number) and abs(number) < 2**31 for number in numbers):
        raise InvalidInput(f"{place} is {shown(value)}; give integers")
    return tuple(int(number) for number in numbers)


def _checked_list(value: Any, place: str, least: int, most: int) -> tuple[float, ...]:
    wrong = InvalidInput(
        f"{place} is {shown(value)}; give a list of {least if least == most else f'{least} to {most}'} numbers"
    )
    if not isinstance(value, Sequence) or isinstance(value, str) or not least <= len(value) <= most:
        raise wrong
    numbers: list[Any] = [_SPECIAL.get(item.lower()) if isinstance(item, str) else item for item in value]
    if not all(_is_number(item) for item in numbers):
        raise wrong
    return tuple(as_float(item) for item in numbers)


def _find(fields: Mapping[str, Any], key: str) -> Any:
    if key in fields:
        return fields[key]
    return next((value for name, value in fields.items() if name.lower() == key.lower()), None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_float(value: float) -> float:
    """The number as a float; one of more than 308 digits is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
