"""Contours as voxels of a grid: which of them have their center in a structure."""

from collections.abc import Sequence
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parallel import cpu_threads
from napari_gpubio.core.space import checked_affine
from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.edges import Edges, edges_of
from napari_gpubio.dose.structures.labels import LabelStructures
from napari_gpubio.dose.structures.outlines import Outlines, slab_outlines
from napari_gpubio.dose.structures.shape import shape_outlines

Array = npt.NDArray[Any]
Shape = tuple[int, int, int]
_MOST_LABELS = 65535
_IN_PLANE = 1e-9  # sine of the angle below which rows of voxels run in the planes of contours
_jit_parallel = nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)


def inside(
    structure: ContourStructure,
    affine: npt.ArrayLike,
    shape: Shape,
    *,
    interpolation: str = "slab",
    caps: str = "half",
) -> npt.NDArray[np.bool_]:
    """Voxels whose center lies in a structure, by the even-odd rule.

    Parameters
    ----------
    structure
        Contours.
    affine, shape
        Of the grid: voxel centers to world mm, 4 x 4, and its size (X, Y, Z).
    interpolation, caps
        See `napari_gpubio.dose.settings.DvhSettings`.

    Raises
    ------
    InvalidInput
        If the structure has a single plane of unknown thickness, or the affine cannot be one.
    """
    found = np.zeros(shape, np.bool_)
    if not structure.planes:
        return found
    outlines = (shape_outlines if interpolation == "shape" else slab_outlines)(structure, caps)
    matrix = np.linalg.inv(structure.frame) @ checked_affine(affine)
    axis = _row_axis(matrix)
    if axis is None:  # every voxel is a row of its own
        _fill_rows(matrix[:3], 1.0, edges_of(outlines), found[..., None])
        return found
    turn = _turn_to_x(matrix[:2, axis])
    matrix[:2] = turn @ matrix[:2]
    others = [other for other in range(3) if other != axis]
    rows = np.moveaxis(found, axis, -1)[:, :, None]
    starts = np.column_stack([matrix[:3, others], np.zeros(3), matrix[:3, 3]])
    _fill_rows(starts, float(matrix[0, axis]), edges_of(_turned(outlines, turn)), rows)
    return found


def label_structures(
    structures: Sequence[ContourStructure], affine: npt.ArrayLike, shape: Shape
) -> tuple[LabelStructures, tuple[str, ...]]:
    """Contours as labels 1, 2, ... in their order, and in sentences what of them is lost where they overlap.

    Where structures overlap the smaller one counts, so that a target in a lung, and a lung in a body, stay whole.

    Parameters
    ----------
    structures
        At most 65535.
    affine, shape
        Of the grid, see `inside`.

    Raises
    ------
    InvalidInput
        As `inside`, or if there are too many structures.
    """
    if len(structures) > _MOST_LABELS:
        raise InvalidInput(f"{len(structures)} structures are more than labels can tell apart ({_MOST_LABELS})")
    labels = np.zeros(shape, np.uint8 if len(structures) < 256 else np.uint16)
    masks = [np.flatnonzero(inside(structure, affine, shape)) for structure in structures]
    for n in sorted(range(len(masks)), key=lambda n: -len(masks[n])):
        labels.reshape(-1)[masks[n]] = n + 1
    names = {n + 1: structure.name for n, structure in enumerate(structures)}
    found = LabelStructures(labels=labels, affine=np.asarray(affine, np.float64), structures=names)
    notes = tuple(
        f"{lost} of the {len(mask)} voxels of {name!r} belong to smaller structures too and are labeled as those"
        for (value, name), mask in zip(names.items(), masks, strict=True)
        if (lost := len(mask) - int(found.voxels[value]))
    )
    return found, notes


def _row_axis(matrix: Array) -> int | None:
    """The axis of the grid that runs in the planes of contours, if there is one."""
    across = np.abs(matrix[2, :3]) / np.linalg.norm(matrix[:3, :3], axis=0)
    axis = int(across.argmin())
    return axis if across[axis] < _IN_PLANE else None


def _turn_to_x(direction: Array) -> Array:
    """The rotation in the plane that brings a direction to the x axis, 2 x 2."""
    x, y = direction / np.linalg.norm(direction)
    return np.array([[x, y], [-y, x]])


def _turned(outlines: Outlines, turn: Array) -> Outlines:
    return outlines._replace(segments=(outlines.segments.reshape(-1, 2) @ turn.T).reshape(-1, 4))


def _fill_rows(starts: Array, step: float, edges: Edges, rows: Array) -> None:
    with cpu_threads():
        _fill(np.ascontiguousarray(starts), step, edges.table, edges.ends, edges.low, edges.high, rows)


@_jit_parallel
def _fill(starts: Array, step: float, table: Array, ends: Array, low: Array, high: Array, rows: Array) -> None:
    """Fill rows of voxels that run along x, shape (A, B, C, N).

    Parameters
    ----------
    starts
        x, y, z of the first voxel of a row: what one step along A, B, C adds to them, and theirs at 0; 3 x 4.
    step
        From one voxel of a row to the next.
    table, ends, low, high
        See `napari_gpubio.dose.structures.edges.Edges`.
    """
    for a in nb.prange(rows.shape[0]):
        for b in range(rows.shape[1]):
            for c in range(rows.shape[2]):
                x = starts[0, 0] * a + starts[0, 1] * b + starts[0, 2] * c + starts[0, 3]
                y = starts[1, 0] * a + starts[1, 1] * b + starts[1, 2] * c + starts[1, 3]
                z = starts[2, 0] * a + starts[2, 1] * b + starts[2, 2] * c + starts[2, 3]
                slab = np.searchsorted(low, z, side="right") - 1
                if slab >= 0 and z < high[slab]:
                    first = ends[slab - 1] if slab > 0 else 0
                    fill_row(x, y, step, table[first : ends[slab]], rows[a, b, c])


@nb.njit(cache=True, nogil=True, error_model="numpy")
def fill_row(x: float, y: float, step: float, table: Array, row: Array) -> None:
    """Mark the voxels of a row that have an odd number of crossings beyond them."""
    count = len(row)
    for e in range(len(table)):
        if table[e, 0] <= y and y < table[e, 1]:
            crossing = table[e, 2] + (y - table[e, 0]) * table[e, 3]
            before = min(max(int(np.ceil((crossing - x) / step)), 0), count)  # voxels before the crossing
            if before > 0:
                row[before - 1] = not row[before - 1]
    odd = False
    for n in range(count - 1, -1, -1):
        odd = odd != row[n]
        row[n] = odd
