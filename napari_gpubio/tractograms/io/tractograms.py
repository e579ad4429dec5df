"""Read and write tractograms: TrackVis, MRtrix, TRX, VTK and DSI Studio files.

=========== ============ =========== ============== ============== ========================= ==========
suffix      points       grid        per point      per fiber      parameters, ``complete``  streamed
=========== ============ =========== ============== ============== ========================= ==========
``.trk``    float32      yes         10, as float32 10, as float32 no                        yes
``.tck``    float32      in our line no             no             in our line               yes
``.trx``    float32      yes         all            all, of groups in our header entry       yes
``.vtk``    float32      no          all            all            no                        no
=========== ============ =========== ============== ============== ========================= ==========

Only read are ``.trk.gz`` and ``.tck.gz``, folders of what a trx archive holds, ``.vtp``, DSI Studio's ``.tt.gz``, and
MRtrix's track scalars, ``.tsf``, with the tck file of the same name. Points of every file are world millimeters (RAS)
here. What a format has no place for is left out, and a note names it. Fibers without points are kept when read and left
out when written, because nibabel and trx-python mistake them for something else.

A fiber with a point that is not finite, or that a file does not hold whole, is left out, and a note counts them. Notes
also tell what a header leaves open or counts wrongly; see `napari_gpubio.core.reading`.

Where a file has no **grid** (tck files of others, every vtk file), or no place in the world (trk files without a
matrix), give ``reference``, an image file or (affine, shape). Without a grid and that it is a box of 1 mm voxels along
the world axes around the fibers, and the parameter ``reference`` is ``"none"``: the fibers lie right in world space,
but not in the voxels of any image.
"""

import dataclasses
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, check_folder, existing_file
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.core.space import checked_affine, same_grid
from napari_gpubio.diffusion.io.grids import Grid, Reference, checked_shape, reference_grid
from napari_gpubio.tractograms.io import tck, tiny_track, trx, tsf, vtk, vtp
from napari_gpubio.tractograms.io.parsed import FormatWriter, Parsed, Provenance
from napari_gpubio.tractograms.io.validation import (
    box_grid,
    check_finite,
    finite_fibers,
    format_of,
    note_broken,
    note_extent,
    reading,
)
from napari_gpubio.tractograms.io.vtk import Space
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.places import UNKNOWN_PLACE, has_place, in_reference

logger = logging.getLogger(__name__)
SUFFIXES = (".trk", ".trk.gz", ".tck", ".tck.gz", ".trx", ".vtk", ".vtp", ".tt.gz", ".tsf")
STREAMED_SUFFIXES = (".trk", ".tck", ".trx")
WRITTEN_SUFFIXES = (*STREAMED_SUFFIXES, ".vtk")
NO_GRID = {"reference": "none"}  # parameters of fibers whose grid is a box around them
PART_POINTS = 1_000_000  # points handed to a format at once


def tractogram_suffix(path: str | os.PathLike[str]) -> str | None:
    """Return the one of `SUFFIXES` that a path ends in (capitals do not count), or None."""
    name = Path(path).name.lower()
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


def is_tractogram(path: str | os.PathLike[str]) -> bool:
    """Whether a path ends as a tractogram's, or is a folder of what a trx archive holds."""
    return tractogram_suffix(path) is not None or trx.is_folder(path)


@reads_file
def read_tractogram(
    path: str | os.PathLike[str], *, reference: Reference | None = None, vtk_space: Space | None = None
) -> Tractogram:
    """Read a tractogram file.

    Parameters
    ----------
    path
        A file that ends, or begins, as one of `SUFFIXES`, or a folder of what a trx archive holds.
    reference
        The volume that the fibers belong to, for files without a grid: an image (NIfTI, MRtrix), or (affine, shape).
        It takes precedence over a tck file's grid; that of a trk or trx file is kept, unless it tells no place in the
        world: the fibers are then taken voxel by voxel in a reference of as many voxels.
    vtk_space
        Axes of a vtk or vtp file, ``"RAS"`` or ``"LPS"``; None for those that it states, or RAS.

    Returns
    -------
    tractogram
        Points in world mm, float32, with everything else that the file holds, and with notes on what was assumed or
        left out.

    Raises
    ------
    InvalidInput
        If the file is not there, of another kind, or holds no whole fiber where it has some, or the reference cannot
        be used.
    """
    file = _existing(path)
    wanted = None if reference is None else reference_grid(reference)
    read, damage = _reader(file, vtk_space)
    with reading(file, damage):
        found = read(file)
        return _assembled(_finite(found), wanted, reference)


@reads_file
def read_track_scalars(path: str | os.PathLike[str], tracks: str | os.PathLike[str] | None = None) -> Tractogram:
    """Read MRtrix track scalars (``.tsf``) with the fibers that they belong to.

    Parameters
    ----------
    path
        The scalars.
    tracks
        The ``.tck`` file that they were sampled along; None for the one of the same name.

    Returns
    -------
    tractogram
        That of the tck file, with a column of points that has the name of the scalars' file.

    Raises
    ------
    InvalidInput
        If one of the files is missing or damaged, or their fibers differ.
    """
    file = existing_file(path)
    with reading(file, tsf.DAMAGE):
        return _assembled(
            _finite(tsf.read_tsf(file, tsf.tracks_of(file) if tracks is None else Path(tracks))), None, None
        )


def map_tractogram(path: str | os.PathLike[str]) -> Tractogram:
    """Read a ``.trx`` file or folder whose arrays stay on the disk where they are not compressed.

    As `read_tractogram`, but fibers with points that are not finite are there, too.
    """
    file = _existing(path)
    with reading(file, trx.DAMAGE):
        return _assembled(trx.read_trx(file, mapped=True), None, None)


def _existing(path: str | os.PathLike[str]) -> Path:
    return Path(path) if trx.is_folder(path) else existing_file(path)


def _finite(found: Parsed) -> Parsed:
    """Leave out fibers with points that are not finite."""
    keep = finite_fibers(found.points, found.offsets)
    note_broken(keep)
    found = found if keep.all() else found.select(keep)
    note_extent(found.points)
    return found


def _reader(file: Path, vtk_space: Space | None) -> tuple[Callable[[Path], Parsed], tuple[type[Exception], ...]]:
    """Return the function that reads a file, and the errors that a damaged one leads to."""
    suffix = format_of(file, tractogram_suffix(file) or "").removesuffix(".gz")
    if suffix == ".trk":
        from napari_gpubio.tractograms.io import trk  # it needs nibabel, which is slow to import

        return trk.read_trk, trk.DAMAGE
    if suffix == ".tck":
        return tck.read_tck, tck.DAMAGE
    if suffix == ".trx" or file.is_dir():
        return trx.read_trx, trx.DAMAGE
    if suffix == ".vtk":
        return lambda path: vtk.read_vtk(path, vtk_space), vtk.DAMAGE
    if suffix == ".vtp":
        return lambda path: vtp.read_vtp(path, vtk_space), vtp.DAMAGE
    if suffix == ".tt":
        return tiny_track.read_tiny_track, tiny_track.DAMAGE
    if suffix == ".tsf":
        return lambda path: tsf.read_tsf(path, tsf.tracks_of(path)), tsf.DAMAGE
    known = "with DIPY, which can save it as trx" if file.suffix == ".dpy" else f"from {', '.join(SUFFIXES)}"
    raise InvalidInput(f"{file.name}: its suffix {file.suffix!r} is unknown; tractograms are read {known}")


def _writer(suffix: str) -> type[FormatWriter]:
    if suffix == ".trk":
        from napari_gpubio.tractograms.io.trk import TrkWriter

        return TrkWriter
    return tck.TckWriter if suffix == ".tck" else trx.TrxWriter


def _assembled(found: Parsed, wanted: Grid | None, reference: Reference | None) -> Tractogram:
    parameters, grid = dict(found.provenance.parameters), found.grid or found.provenance.grid
    is_placed = not UNKNOWN_PLACE.items() <= parameters.items()
    if found.grid is None and wanted is not None and is_placed:
        grid = wanted
        parameters["reference"] = "affine and shape" if isinstance(reference, tuple) else os.fspath(reference or "")
    if grid is None:
        grid = box_grid(found.points)
        parameters |= NO_GRID
        logger.info("the file has no grid; a box around the fibers is used instead, or give a reference")
    fibers = Tractogram(
        points=found.points,
        offsets=found.offsets,
        per_point=found.per_point,
        per_fiber=found.per_fiber,
        affine=grid.affine,
        shape=grid.shape,
        parameters=parameters,
        complete=found.provenance.complete,
        per_group=found.per_group,
    )
    if not is_placed:
        return in_reference(fibers, wanted)
    if wanted is not None and not _same(grid, wanted):
        note("the reference has another grid than the file; the file's is used")
    return fibers


def _same(one: Grid, other: Grid) -> bool:
    return same_grid(one.shape, one.affine, other.shape, other.affine)


def write_tractogram(path: str | os.PathLike[str], tractogram: Tractogram, *, vtk_space: Space = "RAS") -> None:
    """Write a tractogram file; the name appears only when all of it is written.

    Parameters
    ----------
    path
        A ``.trk``, ``.tck``, ``.trx`` or ``.vtk`` file; an older one is replaced.
    tractogram
        The fibers; those without points are left out.
    vtk_space
        Axes to write a vtk file in, ``"RAS"`` or ``"LPS"``.

    Raises
    ------
    InvalidInput
        If the suffix is unknown, a point is not finite, or the format cannot hold the volume.
    """
    target, suffix = tractogram_target(path)
    if suffix == ".vtk":
        with atomic_write(target) as part:
            _note_groups(tractogram, suffix)
            if not has_place(tractogram):
                note("vtk cannot store that the place of the fibers is not known; write trk, tck or trx to keep that")
            vtk.write_vtk(part, _writable(tractogram), space=vtk_space)
        return
    with TractogramWriter(target, tractogram.affine, tractogram.shape, tractogram.parameters) as writer:
        writer.append(tractogram)


class TractogramWriter:
    """Write a tractogram part by part; the file appears when the ``with`` block ends well, else nothing changes.

    Parameters
    ----------
    path
        A ``.trk``, ``.tck`` or ``.trx`` file (vtk cannot be streamed).
    affine, shape
        Grid of the volume that the fibers belong to (voxel to world, mm; dimensions).
    parameters
        How the fibers are made; only what JSON can hold.

    Raises
    ------
    InvalidInput
        If the suffix is unknown, or the format cannot hold the volume or the parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.tractograms import Tractogram
    >>> part = Tractogram(points=np.zeros((2, 3)), offsets=[0, 2], affine=np.eye(4), shape=(4, 4, 4))
    >>> with TractogramWriter("all.tck", np.eye(4), (4, 4, 4), {"step_mm": 0.5}) as writer:
    ...     for _ in range(3):
    ...         writer.append(part)
    >>> len(read_tractogram("all.tck"))
    3
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        affine: npt.ArrayLike,
        shape: tuple[int, int, int],
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self.path, self._suffix = tractogram_target(path)
        if self._suffix not in STREAMED_SUFFIXES:
            raise InvalidInput(
                f"{self.path.name}: vtk cannot be written part by part; use {', '.join(STREAMED_SUFFIXES)}"
            )
        self._grid = Grid(checked_affine(affine), checked_shape(shape))
        self._notes = Provenance(parameters=dict(parameters or {}), grid=self._grid)
        self._notes.encode()
        if NO_GRID.items() <= self._notes.parameters.items() and self._suffix != ".tck":
            note(f"the fibers belong to no volume, and {self._suffix} gets a box of 1 mm voxels around them as theirs")
        self._columns: dict[str, tuple[int, ...]] | None = None
        self._writer: FormatWriter | None = None
        self._stack = ExitStack()
        self._open = False

    @property
    def fibers(self) -> int:
        """Number of fibers written so far."""
        return 0 if self._writer is None else self._writer.fibers

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            part = stack.enter_context(atomic_write(self.path))
            self._writer = stack.enter_context(_writer(self._suffix)(part, self._notes))
            self._stack = stack.pop_all()
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        self._stack.__exit__(kind, error, trace)

    def append(self, tractogram: Tractogram) -> None:
        """Write some more fibers, with the same named numbers in every part.

        InvalidInput if the volume or the named numbers are others, a point is not finite, or the writer is not open.
        """
        if self._writer is None or not self._open:
            raise InvalidInput("the writer is not open; use it as `with TractogramWriter(...) as writer:`")
        if not _same(Grid(tractogram.affine, tractogram.shape), self._grid):
            raise InvalidInput("the fibers belong to another volume than the file; write them to a file of their own")
        self._writer.complete = self._writer.complete and tractogram.complete
        if self._suffix != ".trx":
            _note_groups(tractogram, self._suffix)
        writable = _writable(tractogram)
        if len(writable):
            self._check_columns(writable)
        for part in _parts(writable):
            self._writer.append(part)

    def _check_columns(self, part: Tractogram) -> None:
        columns = {f"{name} of a point": np.asarray(v) for name, v in part.per_point.items()}
        columns |= {f"{name} of a fiber": np.asarray(v) for name, v in part.per_fiber.items()}
        shapes = {f"{what} ({v.dtype})": v.shape[1:] for what, v in columns.items()}
        if self._columns is None:
            self._columns = shapes
        elif shapes != self._columns:
            odd = sorted({what for what, _ in self._columns.items() ^ shapes.items()})
            raise InvalidInput(f"the parts have different numbers: {', '.join(odd)}; give every part the same")


def tractogram_target(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """Return the path of a tractogram to be written, and its suffix; InvalidInput if none can be written there."""
    target, suffix = Path(path), tractogram_suffix(path)
    if suffix not in WRITTEN_SUFFIXES:
        raise InvalidInput(f"{target.name}: tractograms are written as {', '.join(WRITTEN_SUFFIXES)}; choose one")
    check_folder(target)
    if target.is_dir():
        raise InvalidInput(f"{target} is a folder; give the name of a file")
    return target, suffix


def _note_groups(tractogram: Tractogram, suffix: str) -> None:
    if tractogram.per_group:
        groups = ", ".join(tractogram.per_group)
        note(f"{suffix} has no place for the numbers of groups ({groups}); write trx to keep them")


def _writable(tractogram: Tractogram) -> Tractogram:
    check_finite(tractogram.points)
    filled = tractogram.counts > 0
    if filled.all():
        return tractogram
    note(f"{np.count_nonzero(~filled)} fibers without points were left out")
    return tractogram.select(filled)


def _parts(tractogram: Tractogram) -> Iterator[Tractogram]:
    """Cut a tractogram into parts of about `PART_POINTS` points that share its memory."""
    first = 0
    while first < len(tractogram):
        limit = tractogram.offsets[first] + PART_POINTS
        last = max(first + 1, int(np.searchsorted(tractogram.offsets, limit, "right")) - 1)
        yield _between(tractogram, first, last)
        first = last


def _between(tractogram: Tractogram, first: int, last: int) -> Tractogram:
    fibers, offsets = slice(first, last), tractogram.offsets[first : last + 1]
    points = slice(offsets[0], offsets[-1])
    return dataclasses.replace(
        tractogram,
        points=tractogram.points[points],
        offsets=offsets - offsets[0],
        per_fiber={name: np.asarray(v)[fibers] for name, v in tractogram.per_fiber.items()},
        per_point={name: np.asarray(v)[points] for name, v in tractogram.per_point.items()},
    )
