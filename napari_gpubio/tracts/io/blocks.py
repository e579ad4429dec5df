"""Tractogram files of any size, read part by part: ``.tck`` and uncompressed ``.trx``; other files are read whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Protocol

import numpy as np

from napari_gpubio.core.files import existing_file
from napari_gpubio.tracts.io import tck
from napari_gpubio.tracts.io.parsed import KEY, decode
from napari_gpubio.tracts.io.tractograms import map_tractogram, read_tractogram, tractogram_suffix
from napari_gpubio.tracts.io.validation import box_grid, check_finite, checked_magic, offsets_of, reading
from napari_gpubio.tracts.model import Tractogram


class Blocks(Protocol):
    """Fibers of which some are read at a time."""

    def __len__(self) -> int:
        """Number of fibers."""

    def part(self, first: int, last: int) -> Tractogram:
        """The fibers from one up to, not including, another."""


@contextmanager
def open_blocks(path: str | PathLike[str]) -> Iterator[Blocks]:
    """Open a tractogram file; InvalidInput as of `read_tractogram`."""
    suffix = tractogram_suffix(path)
    if suffix == ".tck":
        file = existing_file(path)
        with reading(file, tck.DAMAGE):
            yield _Tck(file)
    else:
        yield map_tractogram(path) if suffix == ".trx" else read_tractogram(path)


class _Tck:
    """A ``.tck`` file; its points stay on the disk."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            start = file.read(tck.LONGEST_HEADER)
        checked_magic(start, tck.MAGIC, "tck")
        header, offset, dtype = tck.header_of(start)
        self._grid = decode(header[KEY]).grid if KEY in header else None
        rows = (path.stat().st_size - offset) // (3 * dtype.itemsize)
        self._rows = np.memmap(path, dtype, "r", offset, (rows, 3)) if rows else np.empty((0, 3), dtype)
        self._ends = tck.fiber_ends(self._rows)

    def __len__(self) -> int:
        return len(self._ends)

    def part(self, first: int, last: int) -> Tractogram:
        """The fibers from one up to, not including, another."""
        begin = int(self._ends[first - 1]) + 1 if first else 0
        ends = self._ends[first:last] - begin
        rows = np.asarray(self._rows[begin : begin + (int(ends[-1]) + 1 if len(ends) else 0)], np.float32)
        keep = np.ones(len(rows), bool)
        keep[ends] = False
        points = rows[keep]
        check_finite(points)
        grid = self._grid or box_grid(points)
        return Tractogram(
            points=points, offsets=offsets_of(np.diff(ends, prepend=-1) - 1), affine=grid.affine, shape=grid.shape
        )
