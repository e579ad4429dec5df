"""TRX (``.trx``): a zip file of raw little-endian arrays with the fibers in world mm (RAS), and a small JSON header.

The members are read and written here, with `zipfile`, and trx-python judges them in the tests. trx-python 0.6 itself
maps stored members for writing (a file that may only be read cannot be opened), unpacks compressed ones to a temporary
folder before any size is checked, takes a fiber without points for unused space, and needs all counts before the
first point is written.

Groups, which are lists of fibers, become columns ``group/<name>`` of booleans, and are groups again when written.
"""

import json
import logging
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import checked_affine
from napari_gpubio.tracts.io.parsed import Parsed, flat
from napari_gpubio.tracts.io.provenance import KEY, Provenance, decode
from napari_gpubio.tracts.io.validation import (
    BLOCK,
    Grid,
    check_expansion,
    check_finite,
    checked_magic,
    checked_shape,
    unique_names,
)

logger = logging.getLogger(__name__)
Array = npt.NDArray[Any]
GROUP = "group/"
DTYPES = {
    f"{kind}int{bits}": np.dtype(f"<{kind[:1] or 'i'}{bits // 8}") for kind in ("", "u") for bits in (8, 16, 32, 64)
}
DTYPES |= {f"float{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)} | {"bit": np.dtype(bool)}


def read_trx(path: Path) -> Parsed:
    """Read a ``.trx`` file.

    Raises
    ------
    InvalidInput
        If it is damaged, or its arrays and its header do not fit each other.
    """
    with path.open("rb") as stream:
        checked_magic(stream.read(4), b"PK", "trx (zip)")
    with zipfile.ZipFile(path) as archive:
        members = _Members(archive, path.stat().st_size)
        header = members.header()
        grid = Grid(checked_affine(header["VOXEL_TO_RASMM"]), checked_shape(header["DIMENSIONS"]))
        vertices, fibers = _count(header, "NB_VERTICES"), _count(header, "NB_STREAMLINES")
        if vertices == 0 or fibers == 0:
            points, offsets = np.empty((0, 3), np.float32), np.zeros(1, np.int64)
        else:
            points = members.array("", "positions", vertices, columns=3)
            offsets = _offsets(members.array("", "offsets"), vertices, fibers)
        points = points.astype(np.float32, copy=False)
        check_finite(points)
        fibers, vertices = len(offsets) - 1, len(points)
        return Parsed(
            points=points,
            offsets=offsets,
            per_point=members.table("dpv", vertices),
            per_fiber=members.table("dps", fibers) | members.groups(fibers),
            grid=grid,
            provenance=decode(header[KEY]) if KEY in header else Provenance(),
        )


def _count(header: dict[str, Any], key: str) -> int:
    count = header[key]
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise InvalidInput(f"the header has {key} = {count!r}; it must be an integer, export the file again")
    return count


def _offsets(first: Array, vertices: int, fibers: int) -> npt.NDArray[np.int64]:
    """Offsets, shape (F + 1,), from an array with or without the closing one.

    The closing offset was added to the format later. Tools have since taken its place from the header alone, and
    written one fiber too few into it: where the last offset is not the number of points, the array is right.
    """
    if first.dtype.kind not in "iu":
        raise InvalidInput(f"the offsets have type {first.dtype}; they must be integers, export the file again")
    offsets = first.reshape(-1).astype(np.int64)
    closed = len(offsets) == fibers + 1 and offsets[-1] == vertices
    if not closed and len(offsets) in (fibers, fibers + 1):
        offsets = np.append(offsets, vertices)
    if len(offsets) - 1 != fibers:
        logger.warning(
            "the trx header counts %d fibers and the arrays %d (the offsets have no closing one); the arrays are right",
            fibers,
            len(offsets) - 1,
        )
    if len(offsets) - 1 not in (fibers, fibers + 1) or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise InvalidInput(
            f"the header counts {fibers} fibers of {vertices} points, which the {len(first)} offsets do not fit; "
            "export the file again"
        )
    return offsets


class _Members:
    """The arrays of an archive of ``size`` bytes, found by folder and name."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self._archive = archive
        self._infos = {i.filename: i for i in archive.infolist() if not i.is_dir()}
        check_expansion(sum(info.file_size for info in archive.infolist()), size)

    def header(self) -> dict[str, Any]:
        """Give the JSON header."""
        if "header.json" not in self._infos:
            raise InvalidInput("a trx file holds a header.json, this zip file does not; is it a tractogram?")
        header = json.loads(self._bytes(self._infos["header.json"]).tobytes())
        if not isinstance(header, dict):
            raise InvalidInput("header.json is no table of names and values; export the file again")
        return header

    def array(self, folder: str, name: str, rows: int | None = None, columns: int = 1) -> Array:
        """Give one array, shape (rows, columns)."""
        for member, stem, k, dtype in self._in(folder):
            if stem == name and k == columns:
                return self._values(member, k, dtype, rows)
        raise InvalidInput(f"there is no array {name!r} with {columns} columns; export the file again")

    def table(self, folder: str, rows: int) -> dict[str, Array]:
        """Give all arrays of a folder, shape (rows,) or (rows, k), by name."""
        found = [(stem, flat(self._values(member, k, dtype, rows))) for member, stem, k, dtype in self._in(folder)]
        return dict(zip(unique_names([name for name, _ in found]), (values for _, values in found), strict=True))

    def groups(self, fibers: int) -> dict[str, Array]:
        """Give the groups as columns of booleans, shape (fibers,)."""
        columns: dict[str, Array] = {}
        for member, stem, k, dtype in self._in("groups"):
            which = self._values(member, k, dtype, None).reshape(-1).astype(np.int64)
            if which.size and not 0 <= which.min() <= which.max() < fibers:
                raise InvalidInput(f"group {stem!r} names fibers that are not there; export the file again")
            columns[GROUP + stem] = np.zeros(fibers, bool)
            columns[GROUP + stem][which] = True
        return columns

    def _in(self, folder: str) -> list[tuple[zipfile.ZipInfo, str, int, np.dtype[Any]]]:
        """Arrays of a folder: member, name, columns, type."""
        found = []
        for name, info in self._infos.items():
            parent, _, base = name.rpartition("/")
            parts = base.split(".")
            if parent == folder and len(parts) in (2, 3) and parts[-1] in DTYPES:
                k = int(parts[1]) if len(parts) == 3 else 1
                found.append((info, parts[0], k, DTYPES[parts[-1]]))
        return found

    def _values(self, member: zipfile.ZipInfo, k: int, dtype: np.dtype[Any], rows: int | None) -> Array:
        size = member.file_size
        if k < 1 or size % (k * dtype.itemsize) or (rows is not None and size != rows * k * dtype.itemsize):
            raise InvalidInput(
                f"{member.filename} has {size} bytes; {'whole' if rows is None else rows} rows of {k} {dtype.name} "
                "do not fit that, export the file again"
            )
        values = self._bytes(member)
        if dtype.kind == "b":
            return (values != 0).reshape(-1, k)
        return values.view(dtype).reshape(-1, k)

    def _bytes(self, member: zipfile.ZipInfo) -> npt.NDArray[np.uint8]:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InvalidInput(f"{member.filename} is compressed in a way that trx does not allow; export it again")
        values, at = np.empty(member.file_size, np.uint8), 0
        with self._archive.open(member) as stream:
            while block := stream.read(BLOCK):
                values[at : at + len(block)] = np.frombuffer(block, np.uint8)
                at += len(block)
        if at != member.file_size:
            raise InvalidInput(f"{member.filename} ends after {at} of {member.file_size} bytes; copy the file again")
        return values
