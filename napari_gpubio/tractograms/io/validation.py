"""Checks that every tractogram reader makes before it trusts a file.

A header may promise anything; memory is taken only for what the file's own size can hold. What a library raises on a
damaged file leaves this package as an `InvalidInput` with the name of the file. Fibers that are whole are read from a
damaged file, too; a note counts those that are not.
"""

import gzip
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import reading as core_reading
from napari_gpubio.core.archives import unpacked_gzip
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file, is_gzip
from napari_gpubio.core.reading import note
from napari_gpubio.core.volumes import check_memory
from napari_gpubio.diffusion.io.grids import Grid, checked_shape

Array = npt.NDArray[Any]

ALWAYS_UNPACKED = 64 * 2**20  # bytes; a compressed file may always unpack to this much
MAX_EXPANSION = 100  # times; coordinates compress 1.1 to 10 times, a zip bomb 1000 times
BLOCK = 4 * 2**20  # bytes read at once
FARTHEST_MM = 1e9
_BEGINNINGS: dict[str, bytes | tuple[bytes, ...]] = {
    ".trk": b"TRACK\0",
    ".tck": b"mrtrix tracks",
    ".tsf": b"mrtrix track scalars",
    ".trx": b"PK\3\4",
    ".vtk": b"# vtk DataFile",
    ".vtp": (b"<?xml", b"<VTKFile"),
}
_ENOUGH = 32  # bytes to know a format by
_ROWS = 1 << 20  # points looked at together
_SOME_POINTS = 100_000
_SMALLEST_MM, _LARGEST_MM = 0.5, 2000.0  # spreads of fibers that are in mm
# What a damaged file of any format can raise: a stream that ends early or does not unpack, a word that is no number.
DAMAGED: tuple[type[Exception], ...] = (EOFError, OSError, zlib.error, ValueError)


@contextmanager
def reading(path: Path, damage: tuple[type[Exception], ...]) -> Iterator[None]:
    """Turn the errors that a damaged file can lead to into `InvalidInput` with the file's name and the library's text.

    Any other error is a bug, and is raised as it is.
    """
    with core_reading.reading(path):
        try:
            yield
        except InvalidInput:
            raise
        except damage as error:
            text = str(error) or type(error).__name__
            raise InvalidInput(f"{path.name} cannot be read: {text}. Export or copy the file again") from error


def format_of(path: Path, suffix: str) -> str:
    """Return the suffix of the format of a file by how it begins, noted if its name has another ``suffix``, or that."""
    begin, packed = b"", False
    with suppress(*DAMAGED, InvalidInput):  # a folder, a pipe, or what its reader will name
        packed = is_gzip(existing_file(path))
        with gzip.open(path) if packed else path.open("rb") as stream:
            begin = stream.read(_ENOUGH)
    kinds = [kind for kind, beginnings in _BEGINNINGS.items() if begin.startswith(beginnings)]
    found = f"{kinds[0]}{'.gz' * packed}" if kinds else suffix
    if found != suffix:
        note(f"{path.name} has the content of a {found} file, and was read as one")
    return found


def load_bytes(path: Path) -> bytes | bytearray:
    """Read a whole file, unpacked if it is compressed; of one that is cut off, what is there.

    InvalidInput if it unpacks to more than 64 MB and more than 100 times its size, does not fit into the memory, or
    begins with zeros, as no tractogram does.
    """
    packed = path.stat().st_size
    if is_gzip(path):
        return unpacked_gzip(path, lambda unpacked: check_expansion(unpacked, packed))
    with path.open("rb") as stream:
        if not (begin := stream.read(_ENOUGH)).strip(b"\0"):
            raise InvalidInput(f"it begins with {len(begin)} zeros, as no tractogram does; copy or export it again")
    check_memory(path, packed)
    return path.read_bytes()


def check_expansion(unpacked: int, packed: int) -> None:
    """Refuse what grows as only a zip bomb does; sizes in bytes.

    InvalidInput if it unpacks to more than 64 MB and more than 100 times its size.
    """
    if unpacked > max(ALWAYS_UNPACKED, MAX_EXPANSION * packed):
        raise InvalidInput(
            f"{packed} compressed bytes unpack to {unpacked} or more, over {MAX_EXPANSION} times their size, as no "
            "tractogram does; if you trust the file, unpack it first"
        )


def checked_magic(data: bytes | bytearray, magic: bytes, what: str) -> None:
    """Make sure that the data begin with ``magic``; InvalidInput with the bytes that are there instead."""
    if not data.startswith(magic):
        begin = bytes(data[: max(12, len(magic))])
        raise InvalidInput(f"a {what} file begins with {magic!r}, this one with {begin!r}; is its suffix right?")


def walk_records(
    words: npt.NDArray[np.int32], *, records: int, words_per_item: int, words_after: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return start and count of records of the form [count, count items, some words] that follow one another.

    ``words``: int32 in native byte order; ``records``: how many a header counts, 0 where it does not tell. All whole
    records are found, those beyond the counted ones only if they have items, and a note tells what was expected.
    InvalidInput if there are words, and no whole record.
    """
    view, limit = words.data, len(words)
    starts, counts, position, damage = array("q"), array("q"), 0, ""
    while position < limit:
        count = view[position]
        end = position + 1 + count * words_per_item + words_after
        if count < 1 or end > limit:
            n = len(starts)
            if count < 0:
                damage = f"fiber {n} claims {count} points"
            elif end > limit:
                damage = f"the file ends inside fiber {n}, which claims {count} points"
            elif 0 < records <= n:
                damage = f"what follows fiber {n - 1} is no fiber"
            if damage:
                break
        starts.append(position)
        counts.append(count)
        position = end
    found = len(starts)
    if damage and not found:
        raise InvalidInput(f"{damage}; the file is damaged or cut off, copy or export it again")
    if damage:
        note(f"{damage}: the {found} whole fibers before it were read, the file is damaged or cut off")
    if found != records:
        counted = f"counts {records} fibers and the file holds {found}" if records > 0 else "does not count the fibers"
        note(f"the header {counted}; all {found} were read")
    return np.array(starts, np.int64), np.array(counts, np.int64)


def offsets_of(counts: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Offsets, shape (F + 1,), of fibers with these numbers of points, shape (F,)."""
    return np.concatenate([[0], np.cumsum(np.asarray(counts, np.int64))]).astype(np.int64)


def rows_of(starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Indices of some rows from each start on, one behind the other."""
    offsets = offsets_of(counts)
    return np.repeat(starts - offsets[:-1], counts) + np.arange(offsets[-1])


def in_order(offsets: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.bool_]:
    """Which of the parts between offsets, shape (F + 1,), are whole, (F,): those of the most that follow one another.

    ``most``: where the last one may end.
    """
    if len(offsets) and offsets.min() >= 0 and offsets.max() <= most and (np.diff(offsets) >= 0).all():
        return np.ones(len(offsets) - 1, bool)
    tops: list[int] = []  # the least last value of a rise of each length
    ends: list[int] = []  # and its index
    before = np.full(len(offsets), -1)
    for n, value in enumerate(offsets.tolist()):
        if 0 <= value <= most:
            length = bisect_right(tops, value)
            before[n] = ends[length - 1] if length else -1
            tops[length : length + 1], ends[length : length + 1] = [value], [n]
    rises, n = np.zeros(len(offsets), bool), ends[-1] if ends else -1
    while n >= 0:
        rises[n], n = True, int(before[n])
    return np.asarray(rises[:-1] & rises[1:])


def near(points: Array) -> npt.NDArray[np.bool_]:
    """Which coordinates are finite and not farther away than an affine may lead."""
    return np.asarray(np.abs(points) <= FARTHEST_MM)


def finite_fibers(points: Array, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which fibers have only points that are finite and near, shape (F,); they may lie on the disk."""
    keep = np.ones(len(offsets) - 1, bool)
    for first in range(0, len(points), _ROWS):
        is_near = near(points[first : first + _ROWS])
        if not is_near.all():
            odd = first + np.flatnonzero(~is_near.all(axis=1))
            keep[np.searchsorted(offsets, odd, "right") - 1] = False
    return keep


def note_broken(keep: npt.NDArray[np.bool_], why: str = "have points that are not finite or over 1e9 mm away") -> None:
    """Note how many fibers are left out, if any are; InvalidInput if all are."""
    if keep.all():
        return
    broken = np.flatnonzero(~keep)
    if len(broken) == len(keep):
        raise InvalidInput(f"all {len(keep)} fibers {why}; export the tractogram again")
    note(f"{len(broken)} of {len(keep)} fibers {why} and were left out (the first is fiber {broken[0]})")


def note_extent(points: Array) -> None:
    """Note points that spread as no brain's do if they are in mm; nine of ten count, along the longest axis."""
    some = points[:: max(1, len(points) // _SOME_POINTS)]
    low, high = np.quantile(some, (0.05, 0.95), axis=0) if len(some) else np.zeros((2, 3))
    extent = float((high - low).max())
    if extent > _LARGEST_MM or 0 < extent < _SMALLEST_MM:
        unit = "micrometers" if extent > _LARGEST_MM else "meters"
        note(f"its points spread over {extent:.3g} mm, as if they were in {unit}; formats of fibers have mm")


def check_finite(points: Array) -> None:
    """Make sure that every coordinate, shape (P, 3), is a number; InvalidInput with the first point that is not."""
    if np.isfinite(points).all():
        return
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    raise InvalidInput(
        f"{len(bad)} points are not finite (the first is point {bad[0]}, {points[bad[0]].tolist()}); "
        "remove their fibers or export the tractogram again"
    )


def unique_names(names: list[str]) -> list[str]:
    """Number names that occur again: a second ``fa`` becomes ``fa_2``."""
    taken: set[str] = set()
    for n, name in enumerate(names):
        choice, copy = name, 2
        while choice in taken:
            choice, copy = f"{name}_{copy}", copy + 1
        taken.add(choice)
        names[n] = choice
    return names


def box_grid(points: Array) -> Grid:
    """Grid of 1 mm voxels along the world axes that just holds the points, shape (P, 3), mm."""
    if not len(points):
        return Grid(np.eye(4), (1, 1, 1))
    low, high = np.floor(points.min(axis=0)), np.ceil(points.max(axis=0))
    affine = np.eye(4)
    affine[:3, 3] = low
    return Grid(affine, checked_shape(high.astype(np.float64) - low + 1))
