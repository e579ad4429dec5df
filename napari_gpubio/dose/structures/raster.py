"""Structures and doses on the voxels of a grid: which voxels are inside contours, and the dose at labeled voxels."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import checked_affine, voxel_sizes_mm
from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.labels import LabelStructures
from napari_gpubio.dose.structures.outlines import Edges, edges_of
from napari_gpubio.dose.structures.tips import outlines_of

Array = npt.NDArray[Any]
Shape = tuple[int, int, int]
if TYPE_CHECKING:
    from napari_gpubio.dose.model import Dose

_MAX_LABELS = 65535
_IN_PLANE = 1e-9  # sine of the angle below which rows of voxels run in the planes of contours
_MIN_ROWS = 1 << 10  # worth a call of their own
_MIN_VOXELS = 1 << 15  # worth a call of their own


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
    outlines = outlines_of(structure, interpolation, caps)
    matrix = np.linalg.inv(structure.frame) @ checked_affine(affine)
    axis = _row_axis(matrix)
    if axis is None:  # every voxel is a row of its own
        _fill_rows(matrix[:3], 1.0, edges_of(outlines), found[..., None], found)
        return found
    x, y = matrix[:2, axis] / np.linalg.norm(matrix[:2, axis])
    turn = np.array([[x, y], [-y, x]])  # brings the rows to the x axis
    matrix[:2] = turn @ matrix[:2]
    turned = outlines._replace(segments=(outlines.segments.reshape(-1, 2) @ turn.T).reshape(-1, 4))
    others = [other for other in range(3) if other != axis]
    rows = np.moveaxis(found, axis, -1)[:, :, None]
    starts = np.column_stack([matrix[:3, others], np.zeros(3), matrix[:3, 3]])
    _fill_rows(starts, float(matrix[0, axis]), edges_of(turned), rows, found)
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
    if len(structures) > _MAX_LABELS:
        raise InvalidInput(f"{len(structures)} structures are more than there are labels ({_MAX_LABELS})")
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


def _fill_rows(origins: Array, step: float, edges: Edges, rows: Array, filled: Array) -> None:
    """Fill rows of voxels, shape (A, B, C, N), a view of ``filled``, that run along x; see `fill_inside`."""
    from napari_gpubio.core.jit import run_blocks
    from napari_gpubio.dose.structures.geometry import fill_inside

    layout = np.array([rows.shape, rows.strides], np.int64)
    arguments = (np.ascontiguousarray(origins), step, edges, layout, filled.reshape(-1))
    run_blocks(fill_inside, len(rows), *arguments, least=max(1, _MIN_ROWS // (rows[0].size // rows.shape[3])))


def dose_at_voxels(
    dose: "Dose",
    labels: Array,
    to_world: npt.ArrayLike,
    chosen: npt.ArrayLike,
    out: Array,
    *,
    constant: bool = False,
) -> None:
    """Fill ``out`` with the dose at the centers of voxels that have a chosen label, and with NaN elsewhere.

    Outside the grid of the dose it is NaN.

    Parameters
    ----------
    dose
        On a grid of its own.
    labels
        Integers from 0, shape (A, B, C).
    to_world
        Index of ``labels`` to world mm, 4 x 4.
    chosen
        Of each label whether it is chosen, shape (L,); larger labels are not.
    out
        Shape (A, B, C), float32.
    constant
        Whether the dose is constant in each of its voxels instead of interpolated linearly between their centers, as
        `napari_gpubio.dose.settings.DvhSettings` says for histograms.
    """
    from napari_gpubio.core.jit import read_only, run_blocks
    from napari_gpubio.dose.structures.geometry import fill_doses

    given, is_chosen = labels, np.asarray(chosen, np.bool_)
    if given.dtype not in (np.uint8, np.uint16):
        beyond = (given < 0) | (given >= len(is_chosen))
        given = (is_chosen[np.where(beyond, 0, given)] & ~beyond).astype(np.uint8)
        is_chosen = np.array([False, True])
    values = dose.values if dose.values.dtype in (np.float32, np.float64) else dose.values.astype(np.float64)
    matrix = np.linalg.inv(dose.affine) @ np.asarray(to_world, np.float64)
    least = max(1, _MIN_VOXELS // max(out.shape[1] * out.shape[2], 1))
    run_blocks(
        fill_doses, len(out), read_only(values), int(constant), matrix, read_only(given), is_chosen, out, least=least
    )


def thickness_along(affine: npt.ArrayLike, normal: npt.ArrayLike) -> float:
    """Distance of the slices of a grid along the voxel axis nearest to a direction, mm."""
    matrix = np.asarray(affine, np.float64)
    sizes = voxel_sizes_mm(matrix)
    nearest = int(np.abs(np.asarray(normal, np.float64) @ (matrix[:3, :3] / sizes)).argmax())
    return float(sizes[nearest])
