"""MRtrix images (``.mif``, ``.mif.gz``, ``.mih`` with its data file): array, affine and gradient table.

The format is described in MRtrix3's documentation under "Image formats": a text header of ``key: value`` lines that
begins with ``mrtrix image`` and ends with ``END``, then the values, axis by axis in the order of ``layout``.
"""

import gzip
import math
import re
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file, is_gzip
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.volumes import check_declared_size, check_memory, damaged, usable_affine

Array = npt.NDArray[Any]
Header = dict[str, list[str]]
MIF_SUFFIXES = (".mif", ".mif.gz", ".mih")
_MAGIC = b"mrtrix image"
_END = re.compile(rb"\r?\n *END[ \r]*\n")
_LONGEST_HEADER, _PIECE = 1 << 24, 1 << 16
_NO_TEXT = bytes(1 << 10)  # behind which no header goes on
_MAX_AXES = 16
_SMALLEST_MM, _LARGEST_MM = 1e-6, 1e6  # of a voxel
_CODES = {
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4", "int64": "i8",
    "uint64": "u8", "float16": "f2", "float32": "f4", "float64": "f8", "cfloat32": "c8", "cfloat64": "c16",
}  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class MifImage(ShortRepr):
    """What an MRtrix image holds.

    Parameters
    ----------
    data
        Values, axes in the order of ``dim``, scaled as the header requires; bool for the type Bit.
    affine
        Voxel to world, mm.
    gradients
        Rows x, y, z (world axes) and b (s/mm^2) of ``dw_scheme``, shape (N, 4), as written, NaN where it is no number;
        None without one, or with one of another number of rows, which is noted.
    header
        Every line of the header: key to the values in their order.
    """

    data: Array
    affine: npt.NDArray[np.float64]
    gradients: npt.NDArray[np.float64] | None
    header: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Storage:
    """Where the values lie and in which order."""

    files: tuple[tuple[Path, int], ...]  # with the first byte; all hold as many values
    shape: tuple[int, ...]
    fastest_first: tuple[int, ...]
    reversed_axes: tuple[int, ...]
    dtype: np.dtype[Any] | None  # None: one bit for each value

    @property
    def count(self) -> int:
        """Number of values, as an integer without limit."""
        return math.prod(self.shape)

    @property
    def bytes_each(self) -> int:
        """Length of the values in a file."""
        count = self.count // len(self.files)
        return (count + 7) // 8 if self.dtype is None else count * self.dtype.itemsize


@reads_file
def read_mif(path: str | Path) -> MifImage:
    """Read an MRtrix image.

    Parameters
    ----------
    path
        A ``.mif`` or ``.mif.gz`` file, or a ``.mih`` header with one data file beside it.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, shorter than its header declares, too large for the memory, or has its values
        in several files.
    """
    path = existing_file(path)
    if not path.name.lower().endswith(MIF_SUFFIXES):
        raise InvalidInput(f"{path.name} is not an MRtrix image; its name must end in .mif, .mif.gz or .mih")
    if is_gzip(path) != (path.suffix.lower() == ".gz"):
        note(f"it is {'' if is_gzip(path) else 'not '}compressed, whatever its name says")
    header, length = _read_header(path)
    shape = _shape(header, path.name)
    affine, gradients = _affine(header, shape), _gradients(header, shape)
    files = _data_files(path, header, length)
    storage = _Storage(files, shape, *_layout(header, len(shape), path.name), _dtype(header, path.name))
    if storage.count % len(files):
        raise _bad(path.name, "file", header["file"], f"{storage.count} values cannot lie in {len(files)} equal parts")
    if len(set(files)) < len(files):
        raise _bad(path.name, "file", header["file"], "each part of the values needs a file of its own")
    data = _scaled(_read_values(storage), header, path.name)
    return MifImage(data, affine, gradients, {key: tuple(values) for key, values in header.items()})


@reads_file
def read_mif_header(path: str | Path) -> Header:
    """Return the lines of the header of an MRtrix image: key to the values in their order; errors as `read_mif`."""
    return _read_header(existing_file(path))[0]


def _open(path: Path) -> IO[bytes]:
    has_header = path.name.lower().endswith(MIF_SUFFIXES)  # values alone may begin with any bytes
    is_packed = is_gzip(path) if has_header else path.suffix.lower() == ".gz"
    return cast("IO[bytes]", gzip.open(path, "rb")) if is_packed else path.open("rb")


def _read_header(path: Path) -> tuple[Header, int]:
    """Return the header's lines and the number of bytes it takes."""
    text, end = b"", None
    try:
        with _open(path) as stream:
            while len(text) < _LONGEST_HEADER:
                text += (piece := stream.read(_PIECE))
                end = _END.search(text if piece else text + b"\n", max(0, len(text) - 2 * _PIECE))
                if end or not piece or not text.startswith(_MAGIC[: len(text)]) or text.endswith(_NO_TEXT):
                    break
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, error) from error
    if not text.startswith(_MAGIC):
        raise InvalidInput(f"{path.name} does not begin with 'mrtrix image'; it is not an MRtrix image: convert it")
    if end is None and path.suffix.lower() == ".mih":  # which holds nothing but the header, and may do without its END
        header_bytes = length = len(text)
    elif end is None:
        raise InvalidInput(f"{path.name} has no END after its header; the file is damaged: copy or download it again")
    else:
        header_bytes, length = end.span()
    header: Header = {}
    for line in text[:header_bytes].decode("utf-8", "replace").split("\n")[1:]:
        key, _, value = line.partition(":")
        header.setdefault(key.strip(), []).append(value.strip())
    return header, length


def _one(header: Header, key: str, name: str) -> str:
    if key not in header:
        raise InvalidInput(f"the header of {name} has no line '{key}:'; the file is damaged: write it again")
    return header[key][0]


def _bad(name: str, key: str, value: object, wanted: str) -> InvalidInput:
    return InvalidInput(f"the header of {name} has '{key}: {str(value)[:80]}'; {wanted}. Write the file again")


def _numbers(text: str) -> list[float]:
    """Numbers of a line, separated by commas or blanks; a word that is no number becomes NaN."""
    numbers = []
    for word in re.split(r"[,\s]+", text.strip(", \t")):
        try:
            numbers.append(float(word))
        except ValueError:
            numbers.append(float("nan"))
    return numbers


def _shape(header: Header, name: str) -> tuple[int, ...]:
    text = _one(header, "dim", name)
    words = [word.strip() for word in text.split(",")]
    if not 2 <= len(words) <= _MAX_AXES or not all(re.fullmatch(r"[0-9]{1,18}", word) for word in words):
        raise _bad(name, "dim", text, f"2 to {_MAX_AXES} lengths are needed")
    shape = tuple(int(word) for word in words)
    if min(shape) < 1:
        raise _bad(name, "dim", text, "every length must be at least 1")
    return shape


def _layout(header: Header, axes: int, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes from the fastest to the slowest, and those stored backwards."""
    text = _one(header, "layout", name)
    words = [word.strip() for word in text.split(",")]
    if len(words) != axes or not all(re.fullmatch(r"[+-]?[0-9]{1,3}", word) for word in words):
        raise _bad(name, "layout", text, f"{axes} signed ranks are needed, as in +0,-1,+2")
    ranks = [int(word.lstrip("+-")) for word in words]
    if len(set(ranks)) != axes:
        raise _bad(name, "layout", text, "every axis needs its own rank")
    order = tuple(sorted(range(axes), key=lambda axis: ranks[axis]))
    return order, tuple(axis for axis in range(axes) if words[axis].startswith("-"))


def _data_files(path: Path, header: Header, header_length: int) -> tuple[tuple[Path, int], ...]:
    """Path and first byte of the values: ``file: . offset``, or names of other files beside the header, one a line.

    A name with ``[]`` stands for all files that have a number there, in the order of the numbers.
    """
    _one(header, "file", path.name)
    files: list[tuple[Path, int]] = []
    for text in header["file"]:
        match = re.fullmatch(r"(.+?)(?:\s+([0-9]{1,18}))?", text)
        if match is None or "\0" in text:
            raise _bad(path.name, "file", text, "the name of the data file and an offset are needed")
        name, offset = match[1], int(match[2] or 0)
        if name == "." and offset < header_length:
            wanted = f"the values cannot begin before the header ends, at byte {header_length}"
            raise _bad(path.name, "file", text, wanted)
        files += [(each, offset) for each in ([path] if name == "." else _numbered(path.parent / name))]
    return tuple(files)


def _numbered(path: Path) -> list[Path]:
    before, mark, after = path.name.partition("[]")
    if not mark:
        return [existing_file(path)]
    pattern = re.compile(f"{re.escape(before)}([0-9]{{1,18}}){re.escape(after)}")
    found = [(int(match[1]), file) for file in path.parent.glob("*") if (match := pattern.fullmatch(file.name))]
    return [file for _, file in sorted(found)] or [existing_file(path)]


def _dtype(header: Header, name: str) -> np.dtype[Any] | None:
    text = _one(header, "datatype", name)
    word = text.lower()
    if word == "bit":
        return None
    base, order = re.sub("(le|be)$", "", word), word[-2:]
    if base not in _CODES:
        raise _bad(name, "datatype", text, f"known are Bit and {', '.join(_CODES)}, with LE or BE behind")
    native = "<" if sys.byteorder == "little" else ">"
    return np.dtype({"le": "<", "be": ">"}.get(order, native) + _CODES[base])


def _affine(header: Header, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    text = header.get("vox", [""])[0]
    sizes = np.array([*_numbers(text), *[np.nan] * 3][:3])
    sizes[len(shape) :] = 1.0  # a slice is 1 mm thick
    if (unusable := ~((sizes > _SMALLEST_MM) & (sizes < _LARGEST_MM))).any():  # NaN, too
        note(f"its header has 'vox: {text[:80]}'; 1 mm is assumed where that is no length of a voxel in mm")
        sizes[unusable] = 1.0
    rows = [_numbers(line) for line in header.get("transform", [])][:3]
    affine = np.diag([*sizes, 1.0])
    if not rows:  # MRtrix then puts the world's origin into the middle of the volume
        affine[:3, 3] = -0.5 * (np.array([*shape, 1][:3]) - 1) * sizes
        return affine
    is_whole = len(rows) == 3 and all(len(row) == 4 for row in rows)
    affine[:3] = np.array(rows) * [*sizes, 1.0] if is_whole else np.nan
    return usable_affine(affine, list(sizes))


def _gradients(header: Header, shape: tuple[int, ...]) -> npt.NDArray[np.float64] | None:
    """The table, if it is one of this image: programs leave that of the scan in what they make from it."""
    volumes = math.prod(shape[3:])
    if "dw_scheme" not in header or len(shape) < 4:
        return None
    if max(shape[3:]) < volumes:
        note(f"its dw_scheme was left out, since its {volumes} volumes lie along several axes, {shape[3:]}")
        return None
    rows = [_numbers(line)[:4] for line in header["dw_scheme"]]
    if len(rows) != volumes or any(len(row) < 4 for row in rows):
        kind = "" if len(rows) != volumes else ", some of them short"
        note(f"its dw_scheme, {len(rows)} rows{kind}, is not one of its {volumes} volumes, and was left out")
        return None
    return np.array(rows, np.float64)


def _read_values(storage: _Storage) -> Array:
    """Read the values and turn them into an array whose axes run as the voxel indices do."""
    for path, offset in storage.files:
        check_declared_size(path, offset, storage.bytes_each)
    check_memory(storage.files[0][0], storage.bytes_each * len(storage.files))
    parts = [_read_part(path, offset, storage) for path, offset in storage.files]
    flat = parts[0] if len(parts) == 1 else np.concatenate(parts)
    slowest_first = storage.fastest_first[::-1]
    stored = flat.reshape([storage.shape[axis] for axis in slowest_first])
    array = np.flip(stored.transpose(np.argsort(slowest_first)), storage.reversed_axes)
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def _read_part(path: Path, offset: int, storage: _Storage) -> Array:
    try:
        with _open(path) as stream:
            stream.seek(offset)
            raw = stream.read(storage.bytes_each)
    except (OSError, EOFError, zlib.error, MemoryError) as error:
        raise damaged(path, error) from error
    if len(raw) < storage.bytes_each:
        raise InvalidInput(
            f"{path.name} ends after {len(raw)} of {storage.bytes_each} bytes of data; the file is incomplete: copy or "
            "download it again"
        )
    flat: Array = np.frombuffer(raw, np.uint8 if storage.dtype is None else storage.dtype)
    return flat if storage.dtype else np.unpackbits(flat, count=storage.count // len(storage.files)).view(bool)


def _scaled(data: Array, header: Header, name: str) -> Array:
    """Apply ``scaling: offset, factor``."""
    if "scaling" not in header:
        return data
    numbers = _numbers(header["scaling"][0])
    if len(numbers) != 2 or not np.isfinite(numbers).all() or numbers[1] == 0:
        raise _bad(name, "scaling", header["scaling"][0], "an offset and a factor other than 0 are needed")
    offset, factor = numbers
    if (offset, factor) == (0.0, 1.0):
        return data
    wide = data.astype(np.result_type(data.dtype, np.float32))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(wide * wide.dtype.type(factor) + wide.dtype.type(offset))
