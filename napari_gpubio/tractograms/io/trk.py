"""TrackVis (``.trk``, ``.trk.gz``): a header of 1000 bytes, then count, points with scalars, properties of each fiber.

Points lie in "voxel mm" from the corner of the first voxel, along its axes, whose directions ``voxel_order`` tells;
nibabel knows the way between them and the world (RAS). A header without a matrix (version 1, and what TrackVis and
Diffusion Toolkit write) leaves the place open, not the lengths. There are up to ten named scalars of points and ten
named properties of fibers, all float32, with names of up to 20 letters; nibabel's way to keep a column of several
numbers is a zero byte and the number of them behind the name.
"""

import logging
import struct
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from nibabel.orientations import aff2axcodes, axcodes2ornt, inv_ornt_aff, ornt_transform
from nibabel.streamlines import Field
from nibabel.streamlines.trk import (
    MAX_NB_NAMED_SCALARS_PER_POINT,
    encode_value_in_name,
    header_2_dtype,
)

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note, without_notes
from napari_gpubio.core.space import checked_affine, voxel_sizes_mm
from napari_gpubio.diffusion.io.grids import Grid, checked_shape
from napari_gpubio.tractograms.io.parsed import FormatWriter, Parsed, Provenance, columns_of, numeric_columns
from napari_gpubio.tractograms.io.validation import DAMAGED, checked_magic, load_bytes, offsets_of, walk_records
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.places import UNKNOWN_PLACE

logger = logging.getLogger(__name__)
Array = npt.NDArray[Any]
DAMAGE = (*DAMAGED, OverflowError, struct.error)
MAGIC = b"TRACK"
HEADER_BYTES = 1000
MAX_NAMES = MAX_NB_NAMED_SCALARS_PER_POINT
LONGEST_NAME = 20
_ROWS = 1_000_000  # points transformed at once
_VERSIONS = (1, 2, 3)
_AXIS = {"R": 0, "L": 0, "A": 1, "P": 1, "S": 2, "I": 2}
_SAME_SIZE = 0.01  # voxel sizes of header and matrix that differ by less are the same


def read_trk(path: Path) -> Parsed:
    """Read a ``.trk`` or ``.trk.gz`` file, as many whole fibers as it holds.

    InvalidInput if its header is cut off or makes no sense, or the first fiber is damaged.
    """
    data = load_bytes(path)
    checked_magic(data, MAGIC, "trk")
    if len(data) < HEADER_BYTES:
        raise InvalidInput(f"a trk header has {HEADER_BYTES} bytes, this file {len(data)}; copy or export it again")
    header = _header(data)
    matrix = _matrix(header)
    grid, to_world, is_placed = _place(header, matrix)
    scalars, properties = int(header[Field.NB_SCALARS_PER_POINT]), int(header[Field.NB_PROPERTIES_PER_STREAMLINE])
    if scalars < 0 or properties < 0:
        raise InvalidInput(f"the header claims {scalars} scalars and {properties} properties; export the file again")
    counts, points, per_point, per_fiber = _body(data, header, scalars, properties)
    return Parsed(
        points=_to_world(points, to_world),
        offsets=offsets_of(counts),
        per_point=_named_columns(per_point, header["scalar_name"], "scalars"),
        per_fiber=_named_columns(per_fiber, header["property_name"], "properties"),
        grid=grid,
        provenance=Provenance({} if is_placed else UNKNOWN_PLACE),
    )


def _header(data: bytes | bytearray) -> Any:
    """The header in the byte order in which it tells its own size; InvalidInput if it does in neither."""
    for order in "<>":
        header = np.frombuffer(data, header_2_dtype.newbyteorder(order), 1)[0]
        if header["hdr_size"] == HEADER_BYTES:
            return header
    raise InvalidInput(f"the last number of its header, hdr_size, is not {HEADER_BYTES}; is it a trk file?")


def _place(header: Any, matrix: npt.NDArray[np.float64] | None) -> tuple[Grid, npt.NDArray[np.float64], bool]:
    """The volume, its dimensions in the order of the affine's axes; the matrix from voxel mm to the world.

    And whether that is known: without the dimensions it is not if an axis runs the other way than the matrix has it.
    """
    axes, sizes = _axes(header), np.asarray(header[Field.VOXEL_SIZES], np.float64)
    shape = np.maximum(header[Field.DIMENSIONS], 1).astype(int)
    is_placed, has_sizes = matrix is not None, bool(np.isfinite(sizes).all() and (sizes > 0).all())
    if matrix is None:
        if not has_sizes:
            note(f"the header has voxel sizes of {sizes.tolist()} mm; 1 mm was taken, lengths do not depend on it")
            sizes = np.ones(3)
        turn = ornt_transform(axcodes2ornt(axes), axcodes2ornt("RAS"))
        matrix = np.diag([*sizes[np.argsort(turn[:, 0])], 1.0])
        note(
            f"the header has no matrix from voxels to the world: the voxel axes were taken as {axes}, and the first "
            "voxel of the volume in RAS order lies at 0"
        )
    else:
        turn = ornt_transform(axcodes2ornt(axes), axcodes2ornt("".join(aff2axcodes(matrix))))
        own = voxel_sizes_mm(matrix)[turn[:, 0].astype(int)]
        if not has_sizes:
            note(f"the header has voxel sizes of {sizes.tolist()} mm; those of its matrix were taken, {own.tolist()}")
            sizes = own
        elif not np.allclose(sizes, own, rtol=_SAME_SIZE):
            note(
                f"the header has voxel sizes of {sizes.tolist()} mm, its matrix {own.tolist()}: one of them is wrong, "
                "and lengths are those of the matrix"
            )
    if (header[Field.DIMENSIONS] < 1).any():
        note(f"the header has dimensions {header[Field.DIMENSIONS].tolist()}; one voxel was taken where there is none")
        is_placed = is_placed and bool((turn[:, 1] > 0).all())
    to_voxels = np.diag([*(1 / sizes), 1.0])
    to_voxels[:3, 3] = -0.5  # from the corner of the first voxel to its center
    to_world = matrix @ inv_ornt_aff(turn, tuple(header[Field.DIMENSIONS])) @ to_voxels
    return Grid(matrix, checked_shape(shape[np.argsort(turn[:, 0])])), to_world, is_placed


def _axes(header: Any) -> str:
    """Directions of the voxel axes, three letters."""
    axes = np.asarray(header[Field.VOXEL_ORDER]).item().decode("latin1").strip().upper()
    if sorted(_AXIS.get(letter, -1) for letter in axes) == [0, 1, 2]:
        return axes
    note(f"the header has the voxel order {axes!r}; it was taken as LPS, as TrackVis does")
    return "LPS"


def _matrix(header: Any) -> npt.NDArray[np.float64] | None:
    """Voxel to world, or None where the header has none: in version 1, if its last number is 0, or it is damaged."""
    matrix = np.asarray(header[Field.VOXEL_TO_RASMM], np.float64)
    if header["version"] not in _VERSIONS:
        note(f"the header has version {header['version']}; it was read as 2")
    if header["version"] == 1 or matrix[3, 3] == 0:
        return None
    try:
        matrix = checked_affine(matrix)
        if None not in aff2axcodes(matrix):
            return matrix
        why = "tells no direction of an axis"
    except InvalidInput as error:
        why = f"cannot be used ({error})"
    note(f"the matrix of the header {why}")
    return None


def _body(
    data: bytes | bytearray, header: Any, scalars: int, properties: int
) -> tuple[npt.NDArray[np.int64], Array, Array, Array]:
    """Counts (F,), points (P, 3) in voxel mm, scalars (P, s), properties (F, p)."""
    words = np.frombuffer(data, header.dtype["hdr_size"], (len(data) - HEADER_BYTES) // 4, HEADER_BYTES)
    words = words.astype("=i4", copy=False).view("=i4")
    item = 3 + scalars
    starts, counts = walk_records(
        words, records=int(header[Field.NB_STREAMLINES]), words_per_item=item, words_after=properties
    )
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
        name, _, more = bytes(coded).partition(b"\0")
        number = more.partition(b"\0")[0]
        k = int(number) if number.isdigit() else 1 if name else 0
        if k > 0 and at < width:
            columns.append((name.decode("latin1").strip() or rest, values[:, at : at + k]))
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
        self._to_file = np.linalg.inv(_place(self._header, self.grid.affine.astype("<f4"))[1])
        self._file = path.open("wb")
        self._file.write(self._header.tobytes())

    def append(self, part: Tractogram) -> None:
        """Write points with scalars, and properties."""
        with without_notes() if self.fibers else nullcontext():
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
            note("trk cannot store that the run was stopped before its end; write trx or tck to keep that")
        self._header[Field.NB_STREAMLINES] = self.fibers
        if UNKNOWN_PLACE.items() <= self.provenance.parameters.items():
            self._header[Field.VOXEL_TO_RASMM] = 0
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
    if left := [name for name, _ in found[MAX_NAMES:]]:
        note(f"trk holds {MAX_NAMES} columns of each {what}; left out: {', '.join(left)}")
    found = found[:MAX_NAMES]
    columns: dict[str, Array] = {}
    for name, values in found:
        short = _short(name, values.shape[1], set(columns))
        columns[short] = values
        if short != name:
            note(f"trk holds names of {LONGEST_NAME} letters; {name!r} is written as {short!r}")
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
