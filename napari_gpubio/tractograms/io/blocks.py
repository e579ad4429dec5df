"""Tractogram files of any size, read part by part: ``.tck`` and uncompressed ``.trx``; other files are read whole."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.files import existing_file
from napari_gpubio.diffusion.io.grids import Grid, Reference
from napari_gpubio.tractograms.io import tck, trx
from napari_gpubio.tractograms.io.parsed import KEY, Provenance, decode
from napari_gpubio.tractograms.io.tractograms import (
    NO_GRID,
    STREAMED_SUFFIXES,
    TractogramWriter,
    map_tractogram,
    read_tractogram,
    tractogram_suffix,
    write_tractogram,
)
from napari_gpubio.tractograms.io.validation import (
    box_grid,
    finite_fibers,
    format_of,
    near,
    note_broken,
    offsets_of,
    reading,
)
from napari_gpubio.tractograms.model import Tractogram

Source = Tractogram | str | PathLike[str]
BLOCK = 20_000  # fibers read together: less than a second of work with any of them
_ROWS = 1 << 22  # points looked at together


def source_of(path: str | PathLike[str], reference: Reference | None) -> Source:
    """Return a file of fibers as `blocks_of` takes it: the path, or all that it holds where a reference is given."""
    return path if reference is None else read_tractogram(path, reference=reference)


def blocks_of(fibers: Source, first: int = 0) -> Iterator[tuple[int, Tractogram]]:
    """Yield the number of all fibers, with each block from a fiber on; a file without fibers has one empty block.

    ``fibers``: a tractogram, or a file of one, of which not more than a block is held where the format allows it.
    """
    if isinstance(fibers, Tractogram):
        yield from _parts(fibers, first)
        return
    with open_blocks(fibers) as file:
        yield from _parts(file, first)


def _parts(blocks: "Blocks", first: int) -> Iterator[tuple[int, Tractogram]]:
    total = len(blocks)
    for start in range(first, max(total, 1), BLOCK):
        yield total, blocks.part(start, min(start + BLOCK, total))


def write_blocks(path: str | PathLike[str], blocks: Iterable[Tractogram]) -> None:
    """Write fibers that come in blocks, at least one, as one file; only vtk needs all of them in memory.

    InvalidInput as of `TractogramWriter`.
    """
    if tractogram_suffix(path) not in STREAMED_SUFFIXES:
        write_tractogram(path, Tractogram.join(list(blocks)))
        return
    rest = iter(blocks)
    one = next(rest)
    with TractogramWriter(path, one.affine, one.shape, one.parameters) as writer:
        for block in chain([one], rest):
            writer.append(block)


class Blocks(Protocol):
    """Fibers of which some are read at a time."""

    def __len__(self) -> int:
        """Number of fibers."""

    def part(self, first: int, last: int) -> Tractogram:
        """The fibers from one up to, not including, another."""


@contextmanager
def open_blocks(path: str | PathLike[str]) -> Iterator[Blocks]:
    """Open a tractogram file; the same fibers are left out as by `read_tractogram`, and InvalidInput is as of it."""
    suffix = format_of(Path(path), tractogram_suffix(path) or "")
    if suffix == ".tck":
        file = existing_file(path)
        with reading(file, tck.DAMAGE):
            tracks = _Tck(file)
            yield _whole(tracks, tracks.finite)
    elif suffix == ".trx" or Path(path).is_dir():
        fibers = map_tractogram(path)
        with reading(Path(path), trx.DAMAGE):
            yield _whole(fibers, finite_fibers(fibers.points, fibers.offsets))
    else:
        yield read_tractogram(path)


def _whole(blocks: "Blocks", keep: npt.NDArray[np.bool_]) -> "Blocks":
    note_broken(keep)
    return blocks if keep.all() else _Kept(blocks, np.flatnonzero(keep))


class _Kept:
    """Some of the fibers of a file, in its order."""

    def __init__(self, blocks: "Blocks", kept: npt.NDArray[np.int64]) -> None:
        self._blocks, self._kept = blocks, kept

    def __len__(self) -> int:
        return len(self._kept)

    def part(self, first: int, last: int) -> Tractogram:
        """The fibers from one up to, not including, another."""
        which = self._kept[first:last]
        if not len(which):
            return self._blocks.part(0, 0)
        return self._blocks.part(int(which[0]), int(which[-1]) + 1).select(which - which[0])


class _Tck:
    """A ``.tck`` file; its points stay on the disk."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            start = file.read(tck.LONGEST_HEADER)
        header, offset, dtype = tck.header_of(start)
        known = decode(header[KEY]) if KEY in header else Provenance()
        self._known, self._parameters = known.grid, {**known.parameters, **({} if known.grid else NO_GRID)}
        rows = (path.stat().st_size - offset) // (3 * dtype.itemsize)
        self._rows = np.memmap(path, dtype, "r", offset, (rows, 3)) if rows else np.empty((0, 3), dtype)
        self._ends = tck.fiber_ends(self._rows, header)

    def __len__(self) -> int:
        return len(self._ends)

    @cached_property
    def finite(self) -> npt.NDArray[np.bool_]:
        """Which fibers have finite points only, as `finite_fibers` tells."""
        keep = np.ones(len(self), bool)
        for first, rows in self._parts():
            begin, end = np.searchsorted(self._ends, [first, first + len(rows)])
            is_near = near(rows)
            if np.count_nonzero(is_near) < rows.size - 3 * (end - begin):
                odd = first + np.flatnonzero(~is_near.all(axis=1))
                odd = np.setdiff1d(odd, self._ends[begin:end], assume_unique=True)
                keep[np.searchsorted(self._ends, odd)] = False
        return keep

    def _parts(self) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        """Index of the first row, and some rows, up to the last fiber's end."""
        used = int(self._ends[-1]) + 1 if len(self) else 0
        for first in range(0, used, _ROWS):
            yield first, np.asarray(self._rows[first : min(first + _ROWS, used)], np.float32)

    def part(self, first: int, last: int) -> Tractogram:
        """The fibers from one up to, not including, another."""
        begin = int(self._ends[first - 1]) + 1 if first else 0
        ends = self._ends[first:last] - begin
        rows = self._rows[begin : begin + (int(ends[-1]) + 1 if len(ends) else 0)]
        return Tractogram(
            points=tck.points_of(rows, ends),
            offsets=offsets_of(np.diff(ends, prepend=-1) - 1),
            affine=self._grid.affine,
            shape=self._grid.shape,
            parameters=self._parameters,
        )

    @cached_property
    def _grid(self) -> Grid:
        """That of the file, or one that holds all points of its whole fibers."""
        if self._known is not None:
            return self._known
        corners = []
        for first, rows in self._parts():
            fiber = np.searchsorted(self._ends, np.arange(first, first + len(rows)))
            part = rows[self.finite[fiber] & near(rows).all(axis=1)]
            corners += [part.min(axis=0), part.max(axis=0)] if len(part) else []
        return box_grid(np.asarray(corners, np.float32).reshape(-1, 3))
