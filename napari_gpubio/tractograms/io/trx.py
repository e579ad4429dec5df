"""TRX files (zip archives or folders of arrays), read and written."""

import dataclasses
import json
import shutil
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.core.space import checked_affine
from napari_gpubio.diffusion.io.grids import Grid, checked_shape
from napari_gpubio.diffusion.model import GROUP
from napari_gpubio.tractograms.io.parsed import KEY, FormatWriter, Parsed, Provenance, decode, numeric_columns
from napari_gpubio.tractograms.io.trx_members import DAMAGE, Members, is_folder, opened
from napari_gpubio.tractograms.io.validation import BLOCK, in_order, note_broken, offsets_of, rows_of, unique_names
from napari_gpubio.tractograms.model import Tractogram

__all__ = ["DAMAGE", "TrxWriter", "is_folder", "read_trx"]
Array = npt.NDArray[Any]


def read_trx(path: Path, *, mapped: bool = False) -> Parsed:
    """Read a ``.trx`` file or folder; InvalidInput if it is damaged, or no fiber is whole.

    ``mapped``: arrays that are not compressed stay on the disk.
    """
    with opened(path) as files:
        members = Members(files, mapped=mapped)
        header = members.header()
        vertices, fibers = _count(header, "NB_VERTICES"), _count(header, "NB_STREAMLINES")
        points = members.array("positions", vertices, 3).astype(np.float32, copy=False)
        first = members.array("offsets", fibers)
        is_closed = len(first) - 1 == fibers and not members.have("dps", len(first))
        offsets = _offsets(first, len(points), fibers, is_closed=is_closed)
        for counted, there, what in ((vertices, len(points), "points"), (fibers, len(offsets) - 1, "fibers")):
            if counted not in (there, None):
                note(f"the header counts {counted} {what} and the arrays have {there}; the arrays are right")
        found = Parsed(
            points=points,
            offsets=offsets,
            per_point=members.table("dpv", len(points)),
            per_fiber=members.table("dps", len(offsets) - 1) | members.groups(len(offsets) - 1),
            grid=_grid(header),
            provenance=decode(header[KEY]) if KEY in header else Provenance(),
            per_group=members.per_group(),
        )
        members.note_others()
        return _in_order(found)


def _in_order(found: Parsed) -> Parsed:
    """Leave out fibers whose offsets are not in order, and points that belong to no fiber."""
    offsets, points = found.offsets, len(found.points)
    keep = in_order(offsets, points)
    if keep.all() and offsets[0] == 0 and offsets[-1] == points:
        return found
    note_broken(keep, "have offsets that are not in order or beyond the points")
    counts = np.diff(offsets)[keep]
    rows = rows_of(offsets[:-1][keep], counts)
    if keep.all():
        note(f"{points - len(rows)} points belong to no fiber and were left out")
    return dataclasses.replace(
        found,
        points=found.points[rows],
        offsets=offsets_of(counts),
        per_point={name: values[rows] for name, values in found.per_point.items()},
        per_fiber={name: values[keep] for name, values in found.per_fiber.items()},
    )


def _count(header: dict[str, Any], key: str) -> int | None:
    """A number of the header, or None with a note."""
    count = header.get(key)
    if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
        return count
    note(f"the header has {key} = {str(count)[:40]}; the arrays tell it")
    return None


def _grid(header: dict[str, Any]) -> Grid | None:
    """The volume of the fibers, or None with a note; points are in world mm without it."""
    try:
        affine, shape = (np.asarray(header[key], np.float64) for key in ("VOXEL_TO_RASMM", "DIMENSIONS"))
        return Grid(checked_affine(affine), checked_shape(shape.ravel()))
    except (InvalidInput, KeyError, TypeError, ValueError, OverflowError) as error:  # any other JSON
        note(f"the header has no volume that can be used ({str(error)[:200]}); the points are in world mm without it")
        return None


def _offsets(first: Array, vertices: int, fibers: int | None, *, is_closed: bool) -> npt.NDArray[np.int64]:
    """Offsets, shape (F + 1,), from an array with or without the closing one.

    The closing offset was added to the format later. Tools have since taken its place from the header alone, and
    written one fiber too few into it: where the last offset is not the number of points, it is the closing one only if
    the header and the numbers of fibers say so (``is_closed``).
    """
    if first.dtype.kind not in "iu":
        raise InvalidInput(f"the offsets have type {first.dtype}; they must be integers, export the file again")
    if vertices and not len(first):
        raise InvalidInput(f"there are {vertices} points and no offsets of fibers; export the file again")
    offsets = first.reshape(-1).astype(np.int64)
    is_open = not len(offsets) or len(offsets) == fibers or (offsets[-1] < vertices and not is_closed)
    return np.append(offsets, vertices) if is_open else offsets


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
        self._per_group: dict[str, Any] = {}
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
        self._per_group |= part.per_group
        self.fibers += len(part)
        self.points += len(part.points)

    def finish(self, *, complete: bool) -> None:
        """Write what was gathered, and the header."""
        self._positions.close()
        for group, numbers in self._per_group.items():
            if f"groups/{_plain(group)}.uint32" not in self._gathered:
                self._gather(f"groups/{_plain(group)}.uint32", np.empty(0, "<u4"))  # trx-python wants it to be there
            rows = {name: np.asarray(values).reshape(1, -1) for name, values in numbers.items()}
            self._gather_columns(f"dpg/{_plain(group)}", rows, "group")
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
        note(f"trx cannot hold the name {name!r}; it is written as {plain!r}")
    return plain
