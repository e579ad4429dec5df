"""MRtrix images (``.mif``, ``.mif.gz``) out; the layout is described in `napari_gpubio.core.mif`."""

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.space import checked_affine, voxel_sizes_mm

Array = npt.NDArray[Any]
MIF_WRITE_SUFFIXES = (".mif", ".mif.gz")
_STRUCTURE = ("dim", "vox", "layout", "datatype", "transform", "file", "scaling", "END")  # lines made from the array
_ALIGNMENT = 16  # bytes; MRtrix itself needs that of the type
_TYPES = {"b": "UInt8", "f2": "Float32LE", "f4": "Float32LE", "f8": "Float64LE", "i1": "Int8", "u1": "UInt8"}
_TYPES |= {f"{kind}{size}": f"{name}{8 * size}LE" for kind, name in (("i", "Int"), ("u", "UInt")) for size in (2, 4, 8)}
_CODES = {"UInt8": "u1", "Int8": "i1", "Float32LE": "<f4", "Float64LE": "<f8"}


def write_mif(path: str | Path, data: Array, affine: npt.ArrayLike, *, header: Mapping[str, str] | None = None) -> None:
    """Write an MRtrix image; an older file is replaced only when the new one is complete.

    Parameters
    ----------
    path
        Ends in ``.mif`` or ``.mif.gz``.
    data
        Three dimensions or more. Booleans are written as UInt8, float16 as Float32.
    affine
        Voxel to world, mm.
    header
        Further lines, key to value.

    Raises
    ------
    InvalidInput
        If the array cannot be stored, the name ends otherwise, a line of the header would not be read back, or the
        folder does not exist.
    """
    path = Path(path)
    if not path.name.lower().endswith(MIF_WRITE_SUFFIXES):
        raise InvalidInput(f"{path.name} does not end in .mif or .mif.gz; give it one of these endings")
    data = np.asarray(data)
    if data.ndim < 3 or min(data.shape) < 1:
        raise InvalidInput(f"an MRtrix image has three dimensions or more, none of them 0; this has {data.shape}")
    datatype = _TYPES.get("b" if data.dtype == bool else data.dtype.str[1:])
    if datatype is None:
        raise InvalidInput(f"values of type {data.dtype} cannot be written as .mif; convert them to real numbers")
    text = _header(data.shape, checked_affine(affine), datatype, header or {})
    code = _CODES.get(datatype, f"<{data.dtype.str[1:]}")
    with atomic_write(path) as part, _open(part, path) as stream:
        stream.write(text)
        for n in range(data.shape[-1]):  # the last axis is the slowest, so no second copy of the array is needed
            stream.write(np.asarray(data[..., n], code).tobytes(order="F"))


def _open(part: Path, path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return cast("IO[bytes]", gzip.open(part, "wb", compresslevel=6))
    return part.open("wb")


def _header(
    shape: tuple[int, ...], affine: npt.NDArray[np.float64], datatype: str, further: Mapping[str, str]
) -> bytes:
    """The header, filled up with zeros to where the values begin."""
    sizes = voxel_sizes_mm(affine)
    rows = affine[:3] / [*sizes, 1.0]
    lines = [
        ("dim", ",".join(map(str, shape))),
        ("vox", ",".join([*(repr(float(size)) for size in sizes), *["nan"] * (len(shape) - 3)])),
        ("layout", ",".join(f"+{axis}" for axis in range(len(shape)))),
        ("datatype", datatype),
        *[("transform", ",".join(repr(float(number)) for number in row)) for row in rows],
    ]
    for key, value in further.items():
        if key in _STRUCTURE or any(sign in f"{key}{value}" for sign in "\n\r\0") or ":" in key or not key.strip():
            raise InvalidInput(f"the line {f'{key}: {value}'[:80]!r} cannot be in a .mif header; leave it out")
        lines.append((key, value))
    text = "mrtrix image\n" + "".join(f"{key}: {value}\n" for key, value in lines)
    length = len(text.encode()) + len("file: . 1000000000\nEND\n")
    offset = -(-length // _ALIGNMENT) * _ALIGNMENT
    return f"{text}file: . {offset}\nEND\n".encode().ljust(offset, b"\0")
