"""TrackVis (``.trk``, ``.trk.gz``): a header of 1000 bytes, then count, points with scalars, properties of each fiber.

Points lie in "voxel mm" from the corner of the first voxel; nibabel knows the way between them and the world (RAS),
and reads the header. There are up to ten named scalars of points and ten named properties of fibers, all float32,
with names of up to 20 letters; nibabel's way to keep a column of several numbers is a zero byte and the number of them
behind the name.
"""

import io
import logging
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from nibabel.orientations import aff2axcodes, axcodes2ornt, ornt_transform
from nibabel.streamlines import Field, TrkFile
from nibabel.streamlines.tractogram_file import DataError, HeaderError
from nibabel.streamlines.trk import (
    MAX_NB_NAMED_SCALARS_PER_POINT,
    decode_value_from_name,
    encode_value_in_name,
    get_affine_trackvis_to_rasmm,
    header_2_dtype,
)

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import checked_affine, voxel_sizes_mm
from napari_gpubio.tracts.io.parsed import FormatWriter, Parsed, Provenance, columns_of, numeric_columns
from napari_gpubio.tracts.io.validation import (
    DAMAGED,
    Grid,
    check_finite,
    checked_magic,
    checked_shape,
    load_bytes,
    offsets_of,
    walk_records,
)
from napari_gpubio.tracts.model import Tractogram

logger = logging.getLogger(__name__)
Array = npt.NDArray[Any]
DAMAGE = (*DAMAGED, HeaderError, DataError, KeyError, OverflowError, struct.error)  # as nibabel raises them
MAGIC = b"TRACK"
HEADER_BYTES = 1000
MOST_NAMES = MAX_NB_NAMED_SCALARS_PER_POINT
LONGEST_NAME = 20
_ROWS = 1_000_000  # points transformed at once


def read_trk(path: Path) -> Parsed:
    """Read a ``.trk`` or ``.trk.gz`` file; InvalidInput if it is damaged, cut off, or its header makes no sense."""
    data = load_bytes(path)
    checked_magic(data, MAGIC, "trk")
    if len(data) < HEADER_BYTES:
        raise InvalidInput(f"a trk header has {HEADER_BYTES} bytes, this file {len(data)}; copy or export it again")
    header = _header(data)
    grid = _grid(header)
    scalars, properties = int(header[Field.NB_SCALARS_PER_POINT]), int(header[Field.NB_PROPERTIES_PER_STREAMLINE])
    if scalars < 0 or properties < 0:
        raise InvalidInput(f"the header claims {scalars} scalars and {properties} properties; export the file again")
    counts, points, per_point, per_fiber = _body(data, header, scalars, properties)
    return Parsed(
        points=_to_world(points, get_affine_trackvis_to_rasmm(header)),
        offsets=offsets_of(counts),
        per_point=_named_columns(per_point, header["scalar_name"], "scalars"),
        per_fiber=_named_columns(per_fiber, header["property_name"], "properties"),
        grid=grid,
    )


def _header(data: bytes | bytearray) -> dict[str, Any]:
    """Read the header by nibabel, except for the count of fibers, which nibabel replaces by what it finds."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        header = TrkFile.load(io.BytesIO(data[:HEADER_BYTES]), lazy_load=True).header
    for warning in caught:
        logger.warning("%s", warning.message)
    sizes = np.asarray(header[Field.VOXEL_SIZES], np.float64)
    if not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise InvalidInput(f"the header has voxel sizes of {sizes.tolist()} mm; they must be above zero, export again")
    return dict(header)


def _grid(header: dict[str, Any]) -> Grid:
    """Affine of the header, with the dimensions in the order of the affine's axes."""
    affine = checked_affine(header[Field.VOXEL_TO_RASMM])
    stored = axcodes2ornt(header[Field.VOXEL_ORDER].decode("latin1").upper())
    turn = ornt_transform(stored, axcodes2ornt("".join(aff2axcodes(affine))))[:, 0].astype(int)
    shape = np.ones(3, int)
    shape[turn] = np.maximum(header[Field.DIMENSIONS], 1)
    return Grid(affine, checked_shape(shape))


def _body(
    data: bytes | bytearray, header: dict[str, Any], scalars: int, properties: int
) -> tuple[npt.NDArray[np.int64], Array, Array, Array]:
    """Counts (F,), points (P, 3) in voxel mm, scalars (P, s), properties (F, p)."""
    order = header[Field.ENDIANNESS]
    declared = int(np.frombuffer(data, header_2_dtype.newbyteorder(order), 1)[Field.NB_STREAMLINES][0])
    words = np.frombuffer(data, f"{order}i4", (len(data) - HEADER_BYTES) // 4, HEADER_BYTES).astype("=i4", copy=False)
    if declared < 0 or declared > len(words):
        raise InvalidInput(f"the header promises {declared} fibers for {len(words) * 4} bytes; copy or export it again")
    item = 3 + scalars
    starts, counts = walk_records(words, records=declared or None, words_per_item=item, words_after=properties)
    used = int(starts[-1] + 1 + counts[-1] * item + properties) if len(starts) else 0
    words = words[:used]
    tails = (starts + 1 + counts * item)[:, None] + np.arange(properties)
    keep = np.ones(used, bool)
    keep[starts] = keep[tails] = False
    numbers = words[keep].view(np.float32).reshape(-1, item)
    return counts, numbers[:, :3], numbers[:, 3:], words[tails].view(np.float32)


def _to_world(points: Array, matrix: Array) -> npt.NDArray[np.float32]:
    world = np.empty(points.shape, np.float32)
    for n in range(0, len(points), _ROWS):
        _move(matrix, points[n : n + _ROWS], world[n : n + _ROWS])
    check_finite(world)
    return world


def _move(matrix: Array, points: Array, moved: Array) -> None:
    """Take points, shape (P, 3), through a 4 x 4 matrix in float64; column by column is twice as fast as ``@``."""
    m, (x, y, z) = matrix.astype(np.float64), points.T
    for i in range(3):
        moved[:, i] = x * m[i, 0] + y * m[i, 1] + z * m[i, 2] + m[i, 3]


def _named_columns(values: Array, fields: Any, rest: str) -> dict[str, Array]:
    """Split columns, shape (rows, k), by the header's names; columns without a name are called ``rest``."""
    columns: list[tuple[str, Array]] = []
    at, width = 0, values.shape[1]
    for coded in fields:
        name, k = decode_value_from_name(coded)
        if k > 0 and at < width:
            columns.append((name.strip() or rest, values[:, at : at + k]))
            at += columns[-1][1].shape[1]
    if at < width:
        columns.append((rest, values[:, at:]))
    return {name: np.ascontiguousarray(column) for name, column in columns_of(columns).items()}


class TrkWriter(FormatWriter):
    """Writes a ``.trk`` file part by part."""

    def __init__(self, path: Path, provenance: Provenance) -> None:
        super().__init__(path, provenance)
        if self.provenance.parameters:
            logger.info("trk has no place for parameters; write trx or tck to keep them")
        self._header = empty_header(self.grid)
        self._to_file = np.linalg.inv(get_affine_trackvis_to_rasmm(self._header).astype(np.float64))
        self._file = path.open("wb")
        self._file.write(self._header.tobytes())

    def append(self, part: Tractogram) -> None:
        """Write points with scalars, and properties."""
        scalars, properties = _columns(part.per_point, "point"), _columns(part.per_fiber, "fiber")
        if not self.fibers:
            self._name_columns(scalars, properties)
        block = np.concatenate([part.points, *scalars.values()], axis=1, dtype="<f4", casting="unsafe")
        _move(self._to_file, part.points, block[:, :3])
        after = np.concatenate([np.empty((len(part), 0)), *properties.values()], axis=1).astype("<f4")
        self._file.write(_records(part.offsets, block, after).data)
        self.fibers += len(part)

    def finish(self, *, complete: bool) -> None:
        """Write the header with the true count."""
        if not complete:
            logger.warning("trk cannot store that the run was stopped before its end; write trx or tck to keep that")
        self._header[Field.NB_STREAMLINES] = self.fibers
        self._file.seek(0)
        self._file.write(self._header.tobytes())
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _name_columns(self, scalars: dict[str, Array], properties: dict[str, Array]) -> None:
        for key, count, table in (
            ("scalar_name", Field.NB_SCALARS_PER_POINT, scalars),
            ("property_name", Field.NB_PROPERTIES_PER_STREAMLINE, properties),
        ):
            for n, (name, values) in enumerate(table.items()):
                self._header[key][n] = encode_value_in_name(values.shape[1], name, LONGEST_NAME)
            self._header[count] = sum(values.shape[1] for values in table.values())


def empty_header(grid: Grid) -> Array:
    """Header of a trk file of no fibers on this grid; InvalidInput if trk cannot hold the grid."""
    affine = grid.affine.astype("<f4")
    codes = aff2axcodes(affine)
    if max(grid.shape) > np.iinfo(np.int16).max or None in codes:
        raise InvalidInput(f"trk cannot hold a volume of {grid.shape} voxels with axes {codes}; write trx instead")
    header = np.zeros((), header_2_dtype.newbyteorder("<"))
    header[Field.MAGIC_NUMBER] = MAGIC
    header[Field.DIMENSIONS] = grid.shape
    header[Field.VOXEL_SIZES] = voxel_sizes_mm(affine)
    header[Field.VOXEL_TO_RASMM] = affine
    header[Field.VOXEL_ORDER] = "".join(codes).encode()
    header["version"], header["hdr_size"] = 2, HEADER_BYTES
    return header


def _columns(table: Any, what: str) -> dict[str, Array]:
    """Return the columns that trk can hold, under the names that it can hold, shape (rows, k) each."""
    found = list(numeric_columns(table, what))
    if left := [name for name, _ in found[MOST_NAMES:]]:
        logger.warning("trk holds %d columns of each %s; left out: %s", MOST_NAMES, what, ", ".join(left))
    found = found[:MOST_NAMES]
    columns: dict[str, Array] = {}
    for name, values in found:
        short = _short(name, values.shape[1], set(columns))
        columns[short] = values
        if short != name:
            logger.warning("trk holds names of %d letters; %r is written as %r", LONGEST_NAME, name, short)
    return columns


def _short(name: str, k: int, taken: set[str]) -> str:
    """Cut a name of a column of ``k`` numbers to the letters there is room for, and number it if it is taken."""
    plain = name.encode("ascii", "replace").decode().replace("\0", "_") or "_"
    room = LONGEST_NAME - (len(str(k)) + 1 if k > 1 else 0)
    short, copy = plain[:room], 2
    while short in taken:
        ending = f"_{copy}"
        short, copy = plain[: room - len(ending)] + ending, copy + 1
    return short


def _records(offsets: npt.NDArray[np.int64], block: Array, after: Array) -> npt.NDArray[np.int32]:
    """Weave counts, points with scalars (P, 3 + s) and properties (F, p) into the words of the file."""
    fibers, counts = len(after), np.diff(offsets)
    item, extra = block.shape[1], after.shape[1]
    starts = offsets[:-1] * item + np.arange(fibers) * (1 + extra)
    tails = (starts + 1 + counts * item)[:, None] + np.arange(extra)
    words = np.empty(block.size + after.size + fibers, "<i4")
    keep = np.ones(len(words), bool)
    keep[starts] = keep[tails] = False
    words[starts] = counts
    words.view("<f4")[tails] = after
    words.view("<f4")[keep] = block.ravel()
    return words
