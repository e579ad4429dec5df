"""Do directions agree with the tensors? A check for a wrong basis, a wrong frame, and flipped or swapped axes.

Neither an image of peaks nor one of harmonics says in which axes, or of which basis, it is, and every reader has to
assume it. Where the tensors of the same scan are strongly anisotropic (FA above 0.5) there is mostly one fiber, so the
largest fixel, or the direction in which a fiber orientation distribution is largest, must lie along the tensor's first
eigenvector. A fixel is an axis without a sign: angles are those between lines, 0 to 90 degrees.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine, fsl_axes, in_grid, same_grid, same_voxels
from napari_gpubio.core.tensor_components import axes_of, fractional_anisotropy
from napari_gpubio.diffusion.fods.frames import FRAMES, USUAL_FRAMES, to_world_matrix
from napari_gpubio.diffusion.fods.harmonics import BASES, half_sphere, harmonics
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.model import Cache, TensorField
from napari_gpubio.diffusion.tensors.gradient_check import CHANGES, UNCHANGED

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Tensors = TensorField | Sequence[TensorField] | None
FA_LIMIT = 0.5
LARGEST_ANGLE_DEG = 10.0
MIN_VOXELS = 20  # for the median to mean anything
_MARGIN = 0.5  # another cause is named if it halves the median angle
_AS_GOOD_DEG = 1.0  # causes that differ by less are equally good; the more usual one, which is tried first, is named
_DIRECTIONS = 724  # on a half sphere, about 5 degrees apart
_ROWS = 20_000  # voxels at once, whose amplitudes take 60 MB
_MAX_TRIED = 3000  # voxels on which other causes are tried


@dataclasses.dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class AxisCheck:
    """What `check_axes` or `check_fods` found.

    Parameters
    ----------
    median_angle_deg
        Between the directions and the tensors' first eigenvectors, degrees; NaN if there are none to compare.
    voxels
        How many were compared: FA above 0.5, and a direction.
    ok
        False if the median is 10 degrees or more. True also where fewer than 20 voxels could be compared.
    cause
        What is wrong, if a cause fits clearly; else empty.
    message
        One to three sentences for the user.
    """

    median_angle_deg: float
    voxels: int
    ok: bool
    cause: str
    message: str

    @property
    def sure(self) -> bool:
        """Whether enough voxels could be compared."""
        return self.voxels >= MIN_VOXELS


def check_axes(fixels: FixelField, field: TensorField) -> AxisCheck:
    """Compare the largest fixel of each voxel with the tensors; if they disagree, find flips, swaps and frames.

    Parameters
    ----------
    fixels
        What was read or made; the first fixel of each voxel is its largest.
    field
        Tensors of the same scan; each is compared with the voxel in which its middle lies.

    Raises
    ------
    InvalidInput
        If the grids do not overlap.
    """
    chosen, v1 = _compared(fixels.shape, fixels.affine, fixels.mask, field)
    directions = fixels.directions[fixels.first[chosen]].astype(np.float64)
    given = _median_angle(directions, v1)
    tried = ((cause, _median_angle(directions @ matrix.T, v1)) for cause, matrix in _axis_causes(fixels))
    return _result("fixels", given, len(v1), tried)


def check_fods(fods: FodField, field: TensorField) -> AxisCheck:
    """Compare the direction of each FOD's largest amplitude with the tensors; if they disagree, find basis and frame.

    Parameters
    ----------
    fods
        What was read or made. ``parameters`` tell the basis and the frame that it was read in, if they are not those of
        MRtrix 3.
    field
        Tensors of the same scan; each is compared with the voxel in which its middle lies.

    Raises
    ------
    InvalidInput
        If the grids do not overlap.
    """
    chosen, v1 = _compared(fods.shape, fods.affine, fods.mask, field)
    rows, directions = fods.coefficients[chosen], half_sphere(_DIRECTIONS)
    given = _median_angle(_largest(rows, harmonics(directions, fods.lmax), directions), v1)
    every = max(1, -(-len(v1) // _MAX_TRIED))
    rows, v1_tried = rows[::every], v1[::every]
    tried = (
        (cause, _median_angle(_largest(rows, matrix, directions), v1_tried))
        for cause, matrix in _basis_causes(fods, directions)
    )
    return _result("FODs", given, len(v1), tried)


def agreeing(fixels: FixelField, field: TensorField) -> FixelField:
    """Return fixels in the frame under which they agree with the tensors, with a note where it is another one.

    They stay as they are where the file or the user gave the frame, or no frame is clearly better: the median angle to
    the tensors' first eigenvectors must be below 10 degrees and less than half of the one that was assumed.

    Raises
    ------
    InvalidInput
        If the grids do not overlap.
    """
    if not fixels.parameters.get("frame_assumed"):
        return fixels
    chosen, v1 = _compared(fixels.shape, fixels.affine, fixels.mask, field)
    if len(v1) < MIN_VOXELS:
        return fixels
    assumed = str(fixels.parameters["frame"])
    directions = fixels.directions[fixels.first[chosen]].astype(np.float64)
    turns = {frame: axes_of(frame, fixels.affine) @ axes_of(assumed, fixels.affine).T for frame in FRAMES}
    angles = {frame: _median_angle(directions @ turn.T, v1) for frame, turn in turns.items()}
    best = min(angles, key=lambda frame: angles[frame])
    if not angles[best] < min(LARGEST_ANGLE_DEG, _MARGIN * angles[assumed]):
        return fixels
    taken = (
        f"directions were then taken in {FRAMES[best]}, since so they agree with the tensors: the median angle is "
        f"{angles[best]:.1f} degrees, not {angles[assumed]:.1f}"
    )
    return dataclasses.replace(
        fixels,
        directions=(fixels.directions @ turns[best].T).astype(np.float32),
        notes=(*fixels.notes, taken),
        parameters={**fixels.parameters, "frame": best, "frame_assumed": False},
        cache=Cache(),
    )


def tensors_of(made: FixelField | FodField, tensors: Tensors) -> TensorField | None:
    """The tensors that are given; of several those of the grid of fixels or FODs, or else of their voxels, if any."""
    if tensors is None or isinstance(tensors, TensorField):
        return tensors
    fields = sorted(tensors, key=lambda field: not same_grid(field.shape, field.affine, made.shape, made.affine))
    of_them = (field for field in fields if same_voxels(field.shape, field.affine, made.shape, made.affine))
    return next(of_them, None)


def _compared(
    shape: tuple[int, ...], affine: Floats, mask: Mask, field: TensorField
) -> tuple[tuple[Array, ...], Floats]:
    """Voxels of the directions to compare, as three rows of indices, and the first eigenvectors of tensors there.

    MRtrix turns the axes of a volume round until they follow x, y, z, so the same scan can lie on two grids.
    """
    anisotropic = np.zeros(field.shape, bool)
    anisotropic[field.mask] = fractional_anisotropy(field.eigen.values[field.mask].astype(np.float64)) > FA_LIMIT
    tensors = np.argwhere(anisotropic)
    places = np.rint(apply_affine(np.linalg.inv(affine) @ field.affine, tensors)).astype(np.int64)
    inside = in_grid(places, shape)
    if len(tensors) and not inside.any():
        raise InvalidInput(
            "the directions lie elsewhere than the tensors: no voxel of one is in the other; give those of one scan"
        )
    tensors, places = tensors[inside], places[inside]
    held = mask[tuple(places.T)]
    return tuple(places[held].T), field.eigen.vectors[tuple(tensors[held].T)][:, 0].astype(np.float64)


def _median_angle(directions: Floats, v1: Floats) -> float:
    """Median angle between lines, degrees; NaN without any."""
    if not len(v1):
        return float("nan")
    cosines = np.abs(np.einsum("ij,ij->i", directions, v1))
    return float(np.degrees(np.median(np.arccos(np.clip(cosines, 0.0, 1.0)))))


def _largest(rows: Array, matrix: Floats, directions: Floats) -> Floats:
    """Direction of the largest amplitude of each row of coefficients; ``matrix`` takes them to amplitudes."""
    transposed = matrix.T.astype(rows.dtype)
    places = [np.argmax(rows[n : n + _ROWS] @ transposed, axis=1) for n in range(0, len(rows), _ROWS)]
    return directions[np.concatenate(places)] if places else np.zeros((0, 3))


def _axis_causes(fixels: FixelField) -> Iterator[tuple[str, Floats]]:
    """What can be wrong with directions, and the matrix that puts it right; frames first, which also flip and swap."""
    frame = str(fixels.parameters.get("frame", "world"))
    read = axes_of(frame, fixels.affine)
    for other in FRAMES:
        if other != frame:
            yield f"they are in {FRAMES[other]}; read them with frame={other!r}", axes_of(other, fixels.affine) @ read.T
    for name, axes in (("the world", np.eye(3)), ("the bvec file", fsl_axes(fixels.affine))):
        for change in CHANGES:
            if change != UNCHANGED:
                cause = f"in the axes of {name} their x, y, z should be {change.rows}; change them so"
                yield cause, axes @ change.matrix @ axes.T


def _basis_causes(fods: FodField, directions: Floats) -> Iterator[tuple[str, Floats]]:
    """Other bases and frames, and what then takes the coefficients as they were read to the right amplitudes."""
    basis, frame = (
        str(fods.parameters.get(key, default)) for key, default in (("basis", "mrtrix"), ("frame", "world"))
    )
    as_written = np.linalg.inv(to_world_matrix(fods.lmax, basis, frame, fods.affine))
    amplitudes = harmonics(directions, fods.lmax)
    pairs = [
        (other, USUAL_FRAMES[other]) for other in BASES
    ]  # the conventions first: they are named if another frame fits as well
    pairs += [(other, axes) for other in BASES for axes in FRAMES if axes != USUAL_FRAMES[other]]
    for other, axes in pairs:
        if (other, axes) != (basis, frame):
            matrix = to_world_matrix(fods.lmax, other, axes, fods.affine)
            cause = f"they are of the basis {other} ({BASES[other]}) in {FRAMES[axes]}"
            yield f"{cause}; read them with basis={other!r}, frame={axes!r}", amplitudes @ matrix @ as_written


def _result(what: str, given: float, voxels: int, tried: Iterator[tuple[str, float]]) -> AxisCheck:
    """The check; ``tried`` is used only if the directions disagree."""
    where = f"in {voxels} voxels with FA above {FA_LIMIT:g}"
    ok, cause = True, ""
    if voxels < MIN_VOXELS:
        message = (
            f"The directions of the {what} could not be checked: there are tensors to compare with only {where}. "
            "Compare them with known anatomy."
        )
    elif given < LARGEST_ANGLE_DEG:
        message = f"The {what} agree with the tensors: the median angle {where} is {given:.1f} degrees."
    else:
        ok = False
        causes = list(tried)
        least = min(angle for _, angle in causes)
        best, angle = next(pair for pair in causes if pair[1] < least + _AS_GOOD_DEG)
        cause = best if angle < LARGEST_ANGLE_DEG and angle < _MARGIN * given else ""
        advice = (
            f"It is {angle:.1f} degrees if {cause}."
            if cause
            else (
                "No other basis, frame or order of the axes explains it. Check that both are of one scan, and the "
                "gradient table."
            )
        )
        message = f"The {what} disagree with the tensors: the median angle {where} is {given:.1f} degrees. {advice}"
    return AxisCheck(median_angle_deg=given, voxels=voxels, ok=ok, cause=cause, message=message)
