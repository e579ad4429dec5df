"""Which of several structures can be counted on a dose: one that cannot does not keep the others from it."""

import dataclasses
from collections.abc import Sequence

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import as_many_voxels, same_grid
from napari_gpubio.dose.model import ANY_FRAME, Dose, Structures, check_frames, note_patients
from napari_gpubio.dose.structures.contours import ContourStructure, emptied
from napari_gpubio.dose.structures.labels import LabelStructures, PointStructure
from napari_gpubio.dose.structures.outlines import usual_distance_mm


def countable(structures: Sequence[Structures], dose: Dose, *, any_frame: bool) -> list[Structures]:
    """Structures in their order, as they are counted on a dose; notes say what was done.

    Contours that cannot be counted are emptied. Labels are taken voxel by voxel as those of the dose where only one of
    both says where its voxels lie and both have as many.

    Parameters
    ----------
    structures
        Of one calculation.
    dose
        On which they are counted.
    any_frame
        Take different frames of reference for the same.

    Raises
    ------
    InvalidInput
        If none of the structures can be counted, or labels lie in another frame of reference.
    """
    found: list[Structures] = []
    refusals = []
    for one in structures:
        try:
            found.append(_checked(one, dose, any_frame=any_frame))
        except InvalidInput as error:
            if not isinstance(one, ContourStructure):
                raise
            refusals.append(error)
            found.append(emptied(one, error))
    if refusals and len(refusals) == len(found):
        raise refusals[0]
    return found


def _checked(structure: Structures, dose: Dose, *, any_frame: bool) -> Structures:
    """A structure as it is counted; InvalidInput if it cannot be."""
    if isinstance(structure, PointStructure):
        return structure
    frames = ("",) if any_frame else (structure.frame_of_reference, dose.frame_of_reference)
    if isinstance(structure, LabelStructures):
        check_frames(f"the labels ({', '.join(structure.names)})", "the dose", frames, ANY_FRAME)
        structure = _by_index(structure, dose)
    else:
        check_frames(repr(structure.name), "the dose", frames, ANY_FRAME)
        if structure.planes:
            usual_distance_mm(structure)
    others = note_patients("the structures", "the dose", (structure.patient, dose.patient))
    return dataclasses.replace(structure, notes=(*structure.notes, *others)) if others else structure


def _by_index(labels: LabelStructures, dose: Dose) -> LabelStructures:
    """Labels on the grid of a dose, where that is the only way to know where they lie."""
    grids = labels.labels.shape, labels.affine, dose.values.shape, dose.affine
    if labels.is_oriented == dose.is_oriented or same_grid(*grids) or not as_many_voxels(*grids):
        return labels
    lacking = "the dose has" if labels.is_oriented else "the labels have"
    text = f"{lacking} no orientation; dose and labels have as many voxels and are taken voxel by voxel"
    return dataclasses.replace(labels, affine=dose.affine, notes=(*labels.notes, text))
