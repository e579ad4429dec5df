"""Does the gradient table fit the fibers? A check for flipped and swapped axes, in a fraction of a second.

In a voxel with fibers, the neighbor toward which they run has fibers of the same direction. A table with a flipped or
swapped axis turns every direction but leaves the voxels where they are, and so destroys this. The share of pairs of
neighbors whose principal directions both point along the line between them is compared for the table as given and for
the 23 others that follow from it by swapping and flipping axes (Schilling et al. 2019, Magnetic Resonance in Medicine
82, "fiber coherence index").

Axes are those of FSL's bvec file, one for each of its rows: the voxel axes, the first one reversed if the affine has a
positive determinant. A change is known up to the sign of all three, which a diffusion signal does not see.
"""

import itertools
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import checked_affine, fsl_axes, rotation_of, voxel_sizes_mm
from napari_gpubio.core.tensor_components import fractional_anisotropy
from napari_gpubio.diffusion.model import DiffusionScan, TensorField

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
FA_LIMIT = 0.2
CONE_DEGREES = 30.0
_MARGIN = 1.1  # how many times better another table must be,
_Z_LIMIT = 4.0  # and by how many standard errors over blocks: random smooth directions reach 3.4, a whole brain 8
_BLOCK_MM, _BLOCK_VOXELS = 20.0, (8, 16)  # edge of a block; smaller ones would not be independent of each other
_SIDES = ("left-right", "front-back", "up-down")


class AxisChange(NamedTuple):
    """A swap and flip of a bvec file's rows: new row r is old row ``permutation[r]``, negated if ``flips[r]``."""

    permutation: tuple[int, int, int] = (0, 1, 2)
    flips: tuple[bool, bool, bool] = (False, False, False)

    @property
    def matrix(self) -> Floats:
        """The 3 x 3 matrix that turns old columns of the file into new ones."""
        matrix = np.zeros((3, 3))
        matrix[range(3), self.permutation] = np.where(self.flips, -1.0, 1.0)
        return matrix

    @property
    def rows(self) -> str:
        """The new rows in terms of the old ones, for instance ``"-x, y, z"``."""
        return ", ".join("-" * flip + "xyz"[p] for p, flip in zip(self.permutation, self.flips, strict=True))


UNCHANGED = AxisChange()
CHANGES = tuple(
    AxisChange((p[0], p[1], p[2]), flips)
    for p in itertools.permutations(range(3))
    for flips in ((False,) * 3, (True, False, False), (False, True, False), (False, False, True))
)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class GradientCheck:
    """What `check_gradients` found.

    Parameters
    ----------
    best
        The change of the bvec file's rows that fits the fibers best; `UNCHANGED` if ``ok``.
    score_given, score_best
        Share of neighbors that agree, weighted by FA, for the table as given and for the best change of it.
    ok
        False if another table fits clearly better.
    sure
        Whether the volume shows enough fibers to distinguish the best table from every other.
    message
        Two or three sentences for the user.
    """

    best: AxisChange
    score_given: float
    score_best: float
    ok: bool
    sure: bool
    message: str


def check_gradients(field: TensorField) -> GradientCheck:
    """Check the gradient table that a tensor field was fitted with.

    Parameters
    ----------
    field
        The tensors; its eigenvectors are computed if they are not known yet.

    Returns
    -------
    GradientCheck
        ``ok`` is False only if another table is 1.1 times better, and better by 4 standard errors over blocks of 20 mm;
        on small or noisy volumes the check is inconclusive.
    """
    values = field.eigen.values[field.mask].astype(np.float64)
    fa = np.zeros(field.shape, np.float32)
    fa[field.mask] = fractional_anisotropy(values)
    return evaluate_directions(field.eigen.vectors[..., 0, :], fa, field.affine)


def evaluate_directions(v1_world: Array, fa: Array, affine: npt.ArrayLike) -> GradientCheck:
    """Check the gradient table behind principal directions; parameters as `coherence_scores`, result as above."""
    blocks, possible = _block_scores(v1_world, fa, affine)
    totals = blocks.sum(axis=0)
    given, best = CHANGES.index(UNCHANGED), int(np.argmax(totals))
    share = totals / max(possible, 1e-300)
    wrong = best != given and _clearly_better(blocks, best, given)
    others = [k for k in range(len(CHANGES)) if k != best]
    sure = all(_clearly_better(blocks, best, k) for k in others)
    chosen = best if wrong else given
    second = max(totals[k] for k in others)
    ratio = totals[best] / max(totals[given] if best != given else second, 1e-300)
    return GradientCheck(
        best=CHANGES[chosen],
        score_given=float(share[given]),
        score_best=float(share[chosen]),
        ok=not wrong,
        sure=sure,
        message=_wrong_message(CHANGES[best], ratio, affine)
        if wrong
        else _good_message(ratio, sure=sure, first=best == given),
    )


def coherence_scores(v1_world: Array, fa: Array, affine: npt.ArrayLike) -> dict[AxisChange, float]:
    """Share of neighbors whose principal directions agree, for each of the 24 changes of the gradient table.

    Parameters
    ----------
    v1_world
        Unit principal directions in world axes, shape (X, Y, Z, 3).
    fa
        Fractional anisotropy, shape (X, Y, Z), 0 outside the mask; voxels above 0.2 take part.
    affine
        Voxel to world, mm.

    Returns
    -------
    dict
        For each change the sum of FA x FA over the pairs of neighbors whose directions both lie within 30 degrees of
        the line between them, divided by that of all pairs.
    """
    blocks, possible = _block_scores(v1_world, fa, affine)
    return dict(zip(CHANGES, (blocks.sum(axis=0) / max(possible, 1e-300)).tolist(), strict=True))


def corrected_scan(scan: DiffusionScan, check: GradientCheck) -> DiffusionScan:
    """Return the scan with its directions changed as in `GradientCheck.best`, and a note of it."""
    axes = fsl_axes(scan.affine)
    directions = scan.directions @ (axes @ check.best.matrix @ axes.T).T
    note = f"gradient table corrected: its bvec rows are ({check.best.rows}) of those read"
    return replace(scan, directions=directions, notes=scan.notes if check.ok else (*scan.notes, note))


def _block_scores(v1_world: Array, fa: Array, affine: npt.ArrayLike) -> tuple[Floats, float]:
    """Weights of agreeing pairs by block and change, shape (blocks, 24), and of all pairs."""
    if fa.ndim != 3 or v1_world.shape != (*fa.shape, 3):
        raise InvalidInput(f"directions of shape {v1_world.shape} and FA of shape {fa.shape} do not fit each other")
    from napari_gpubio.core.jit import run_blocks
    from napari_gpubio.diffusion.kernels.coherence import Directions, count_pairs

    matrix = checked_affine(affine)
    axes = fsl_axes(matrix)
    offsets, lines = _neighbors(matrix, axes)
    # |C v . line| = |v . C^T line|: instead of every direction, the lines are turned, and from FSL's axes to the world.
    turned = np.stack([lines @ change.matrix @ axes.T for change in CHANGES])
    edges = np.clip(np.rint(_BLOCK_MM / voxel_sizes_mm(matrix)), *_BLOCK_VOXELS).astype(np.int64)
    directions = Directions(
        np.ascontiguousarray(v1_world, np.float32),
        np.ascontiguousarray(fa, np.float32),
        offsets,
        turned.astype(np.float32),
        edges,
        np.float32(np.cos(np.deg2rad(CONE_DEGREES))),
        np.float32(FA_LIMIT),
    )
    blocks = [-(-n // int(edge)) for n, edge in zip(fa.shape, edges, strict=True)]
    agree, possible = np.zeros((*blocks, len(CHANGES))), np.zeros(blocks[0])
    run_blocks(count_pairs, blocks[0], directions, agree, possible)
    return agree.reshape(-1, len(CHANGES)), float(possible.sum())


def _neighbors(affine: Floats, axes: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """Steps to 13 neighbors in voxels, and the unit lines to them in FSL's axes, each of shape (13, 3).

    Where voxels are longer along one axis, the steps along the others are as many voxels as come nearest to its length:
    neighbors crowded around the long axis would favor directions along it.
    """
    sizes = voxel_sizes_mm(affine)
    half = np.array([step for step in itertools.product((-1, 0, 1), repeat=3) if step > (0, 0, 0)])
    offsets = np.rint(half * sizes.max() / sizes).astype(np.int64)
    lines = offsets @ affine[:3, :3].T @ axes
    return offsets, lines / np.linalg.norm(lines, axis=1, keepdims=True)


def _clearly_better(blocks: Floats, one: int, other: int) -> bool:
    """Whether a change beats another by the margin, and by the spread of their difference over the blocks."""
    totals = blocks.sum(axis=0)
    difference = blocks[:, one] - blocks[:, other]
    error = np.sqrt((difference**2).sum())
    return bool(totals[one] > _MARGIN * totals[other] and difference.sum() > _Z_LIMIT * error)


def _wrong_message(change: AxisChange, ratio: float, affine: npt.ArrayLike) -> str:
    return (
        f"The gradient table looks wrong: {_describe(change, affine)}. Fiber directions agree with their neighbors "
        f"{ratio:.2f} times better after correcting it. Check the bvec file; a corrected one has the rows "
        f"({change.rows}) of this one. To correct the scan use tensors.corrected_scan; to write the corrected file, "
        "io.write_fsl_gradients (both in napari_gpubio.diffusion)."
    )


def _good_message(ratio: float, *, sure: bool, first: bool) -> str:
    if sure:
        return f"The gradient table fits the fibers {ratio:.2f} times better than any with flipped or swapped axes."
    if first:
        return (
            "The gradient table as given fits the fibers best, but with so few fibers or so much noise that a flipped "
            "axis cannot be excluded. Compare the directions with known anatomy."
        )
    return (
        "This volume does not show whether the gradient table fits the fibers: it has too few fibers, or too much "
        "noise. Compare the directions with known anatomy."
    )


def _describe(change: AxisChange, affine: npt.ArrayLike) -> str:
    """Describe what is wrong with a table that the change corrects."""
    cosines = np.abs(rotation_of(checked_affine(affine)))
    names = [f"{'xyz'[axis]} ({_SIDES[int(np.argmax(cosines[:, axis]))]})" for axis in range(3)]
    moved = [names[axis] for axis in range(3) if change.permutation[axis] != axis]
    words = [f"{names[axis]} is flipped" for axis in range(3) if change.flips[axis]]
    if len(moved) == 2:
        words.append(f"{moved[0]} and {moved[1]} are swapped")
    if len(moved) == 3:
        words.append("x, y and z are in another order")
    return ", and ".join(words)
