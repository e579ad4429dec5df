"""TRX files (zip archives of arrays), read and written."""

import json
import logging
import shutil
import struct
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import json_of
from napari_gpubio.core.space import checked_affine
from napari_gpubio.tracts.io.parsed import KEY, FormatWriter, Parsed, Provenance, columns_of, decode, numeric_columns
from napari_gpubio.tracts.io.validation import (
    BLOCK,
    DAMAGED,
    Grid,
    check_expansion,
    check_finite,
    checked_magic,
    checked_shape,
    unique_names,
)
from napari_gpubio.tracts.model import Tractogram

logger = logging.getLogger(__name__)
Array = npt.NDArray[Any]
DAMAGE = (  # beside DAMAGED: no zip file; of a kind that is not read (encrypted, too new); a header without an entry
    *DAMAGED, zipfile.BadZipFile, NotImplementedError, RuntimeError, struct.error, KeyError, OverflowError,
)  # fmt: skip
GROUP = "group/"
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")  # of a member of a zip file
DTYPES = {
    f"{kind}int{bits}": np.dtype(f"<{kind[:1] or 'i'}{bits // 8}") for kind in ("", "u") for bits in (8, 16, 32, 64)
}
DTYPES |= {f"float{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)} | {"bit": np.dtype(bool)}


def read_trx(path: Path, *, mapped: bool = False) -> Parsed:
    """Read a ``.trx`` file; InvalidInput if it is damaged, or its arrays and its header do not fit each other.

    ``mapped``: arrays that are not compressed stay on the disk, and their points are not checked.
    """
    with path.open("rb") as stream:
        checked_magic(stream.read(4), b"PK", "trx (zip)")
    with zipfile.ZipFile(path) as archive:
        members = _Members(archive, path.stat().st_size, path if mapped else None)
        header = members.header()
        grid = Grid(
            checked_affine(_numbers(header, "VOXEL_TO_RASMM")), checked_shape(_numbers(header, "DIMENSIONS").ravel())
        )
        vertices, fibers = _count(header, "NB_VERTICES"), _count(header, "NB_STREAMLINES")
        if vertices == 0 or fibers == 0:
            points, offsets = np.empty((0, 3), np.float32), np.zeros(1, np.int64)
        else:
            points = members.array("", "positions", vertices, columns=3)
            offsets = _offsets(members.array("", "offsets"), vertices, fibers)
        points = points.astype(np.float32, copy=False)
        if not mapped:
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


def _numbers(header: dict[str, Any], key: str) -> npt.NDArray[np.float64]:
    try:
        return np.asarray(header[key], np.float64)
    except (TypeError, ValueError, OverflowError) as error:  # any other JSON
        raise InvalidInput(f"the header has {key} = {header[key]!r}; it must be numbers, export again") from error


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
    """The arrays of an archive of ``size`` bytes, found by folder and name; ``path``: they stay in that file."""

    def __init__(self, archive: zipfile.ZipFile, size: int, path: Path | None = None) -> None:
        self._archive, self._path = archive, path
        self._infos = {i.filename: i for i in archive.infolist() if not i.filename.endswith("/")}
        check_expansion(sum(info.file_size for info in archive.infolist()), size)

    def header(self) -> dict[str, Any]:
        """Return the JSON header."""
        if "header.json" not in self._infos:
            raise InvalidInput("a trx file holds a header.json, this zip file does not; is it a tractogram?")
        header = json_of(self._bytes(self._infos["header.json"]).tobytes(), "header.json")
        if not isinstance(header, dict):
            raise InvalidInput("header.json is no table of names and values; export the file again")
        return header

    def array(self, folder: str, name: str, rows: int | None = None, columns: int = 1) -> Array:
        """Return one array, shape (rows, columns)."""
        for member, stem, k, dtype in self._in(folder):
            if stem == name and k == columns:
                return self._values(member, k, dtype, rows)
        raise InvalidInput(f"there is no array {name!r} with {columns} columns; export the file again")

    def table(self, folder: str, rows: int) -> dict[str, Array]:
        """Return all arrays of a folder, shape (rows,) or (rows, k), by name."""
        return columns_of([(stem, self._values(info, k, dtype, rows)) for info, stem, k, dtype in self._in(folder)])

    def groups(self, fibers: int) -> dict[str, Array]:
        """Return the groups as columns of booleans, shape (fibers,)."""
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
        if self._path is not None and member.compress_type == zipfile.ZIP_STORED and member.file_size:
            return np.memmap(self._path, np.uint8, "r", _data_offset(self._path, member), (member.file_size,))
        values, at = np.empty(member.file_size, np.uint8), 0
        with self._archive.open(member) as stream:
            while block := stream.read(BLOCK):
                values[at : at + len(block)] = np.frombuffer(block, np.uint8)
                at += len(block)
        if at != member.file_size:
            raise InvalidInput(f"{member.filename} ends after {at} of {member.file_size} bytes; copy the file again")
        return values


def _data_offset(path: Path, member: zipfile.ZipInfo) -> int:
    """Where the bytes of a member begin: behind its own header, whose length the archive's list does not tell."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        fixed = file.read(_LOCAL_HEADER.size)
    *_, name_length, extra_length = _LOCAL_HEADER.unpack(fixed)
    return int(member.header_offset + _LOCAL_HEADER.size + name_length + extra_length)


LONGEST_SIDE = np.iinfo(np.uint16).max


class TrxWriter(FormatWriter):
    """Writes a ``.trx`` file part by part."""

    def __init__(self, path: Path, provenance: Provenance) -> None:
        super().__init__(path, provenance)
        if max(self.grid.shape) > LONGEST_SIDE:
            raise InvalidInput(
                f"trx cannot hold a volume of {self.grid.shape} voxels; a side has at most {LONGEST_SIDE}"
            )
        self._gathered: dict[str, IO[bytes]] = {}
        self._archive = zipfile.ZipFile(path, "w")
        self._positions = self._archive.open("positions.3.float32", "w", force_zip64=True)
        self._gather("offsets.uint64", np.zeros(1, "<u8"))

    def append(self, part: Tractogram) -> None:
        """Write points; gather offsets, columns and groups."""
        self._positions.write(np.ascontiguousarray(part.points, "<f4").data)
        self._gather("offsets.uint64", (part.offsets[1:] + self.points).astype("<u8"))
        self._gather_columns("dpv", part.per_point, "point")
        groups = {name: np.asarray(v) for name, v in part.per_fiber.items() if name.startswith(GROUP)}
        groups = {name: v for name, v in groups.items() if v.dtype == bool and v.ndim == 1}
        self._gather_columns("dps", {n: v for n, v in part.per_fiber.items() if n not in groups}, "fiber")
        names = unique_names([_plain(name.removeprefix(GROUP)) for name in groups])
        for name, mask in zip(names, groups.values(), strict=True):
            which = np.flatnonzero(mask) + self.fibers
            self._gather(f"groups/{name}.uint32", which.astype("<u4"))
        self.fibers += len(part)
        self.points += len(part.points)

    def finish(self, *, complete: bool) -> None:
        """Write what was gathered, and the header."""
        self._positions.close()
        for name, gathered in self._gathered.items():
            gathered.seek(0)
            with self._archive.open(name, "w", force_zip64=True) as member:
                shutil.copyfileobj(gathered, member, BLOCK)
        header = {
            "VOXEL_TO_RASMM": self.grid.affine.tolist(),
            "DIMENSIONS": list(self.grid.shape),
            "NB_VERTICES": self.points,
            "NB_STREAMLINES": self.fibers,
            KEY: Provenance(self.provenance.parameters, complete).encode(),
        }
        self._archive.writestr("header.json", json.dumps(header))
        self._archive.close()

    def close(self) -> None:
        """Close every file; on a full disk, what they cannot write any more is not needed."""
        files: tuple[Any, ...] = (*self._gathered.values(), self._positions, self._archive)
        for file in files:
            with suppress(OSError, ValueError):
                file.close()

    def _gather_columns(self, folder: str, table: Any, what: str) -> None:
        columns = list(numeric_columns(table, what))
        names = unique_names([_plain(name) for name, _ in columns])
        for name, (_, values) in zip(names, columns, strict=True):
            k = values.shape[1]
            kind = "bit" if values.dtype == bool else values.dtype.name
            little = values.astype(values.dtype.newbyteorder("<"), copy=False)
            self._gather(f"{folder}/{name}{f'.{k}' if k > 1 else ''}.{kind}", little)

    def _gather(self, member: str, values: Array) -> None:
        if member not in self._gathered:
            self._gathered[member] = tempfile.TemporaryFile(dir=self.path.parent)  # noqa: SIM115 - closed in close()
        self._gathered[member].write(np.ascontiguousarray(values).data)


def _plain(name: str) -> str:
    """Return a name that a member can have: dots and slashes have a meaning there, and Windows drops blanks at ends."""
    plain = "".join(c if c.isalnum() or c in "_-+ " else "_" for c in name).strip() or "_"
    if plain != name:
        logger.info("trx cannot hold the name %r; it is written as %r", name, plain)
    return plain
