"""Doses and labels as NIfTI files.

NIfTI has no place for what its numbers mean. A JSON file beside it has quantity, unit and scale (and names of labels)
where `napari_gpubio.core.layer_files` wrote it; `write_dose` writes the unit into the description.
"""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.label_volumes import as_labels
from napari_gpubio.core.layer_files import STRUCTURES, read_described
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.quantity import HALVES, QUANTITY, STANDARD_ERROR, ascii_unit
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.core.volumes import (
    has_orientation,
    nifti_affine,
    nifti_array,
    one_volume,
    open_nifti,
    read_volume,
    write_volume,
)
from napari_gpubio.dose.model import Dose, note_values
from napari_gpubio.dose.structures.labels import LabelStructures
from napari_gpubio.dose.volumes import dose_of_volume

_STATED = re.compile(r"dose in (\S+)")


@reads_file
def read_dose(path: str | Path, *, unit: str | None = None) -> Dose:
    """Read a dose from NIfTI.

    Parameters
    ----------
    path
        A ``.nii`` or ``.nii.gz`` file of one volume.
    unit
        Of the doses, for instance ``"Gy"``; None: as in the file, if `write_dose` has written it, or as beside it.
        Values whose unit is known are converted.

    Raises
    ------
    InvalidInput
        If the file cannot be read, the unit is not known, or it is of another kind than the file's.
    """
    file = Path(path)
    image = open_nifti(file)
    description = bytes(image.header["descrip"].tobytes()).rstrip(b"\0 ").decode("ascii", "replace")
    stated = _STATED.fullmatch(description)
    about = read_described(file, image.shape).get("metadata", {})
    known = about.get(QUANTITY)
    own = (known.unit if known else "") or (stated[1] if stated else "")
    if not (unit or own):
        raise InvalidInput(
            f"{file.name} does not state the unit of its dose; give it with unit= (--unit), for instance Gy"
        )
    volume = Volume(
        array=one_volume(nifti_array(image, file), file.name),
        affine=nifti_affine(image),
        name=file.name,
        quantity=known,
        halves=about.get(HALVES),
        oriented=has_orientation(file),
    )
    dose = dose_of_volume(volume, unit or own, standard_error=about.get(STANDARD_ERROR), values_unit=own)
    note_values(dose.values, dose.unit, dose.quantity)
    return dose


def write_dose(path: str | Path, dose: Dose) -> None:
    """Write a dose as NIfTI, with its unit in the description.

    Raises
    ------
    InvalidInput
        If the name ends otherwise than in .nii or .nii.gz, or the file cannot be written.
    """
    write_volume(path, dose.values, dose.affine, f"dose in {ascii_unit(dose.unit)}")


@reads_file
def read_labels(path: str | Path, structures: Mapping[int, str] | None = None) -> LabelStructures:
    """Read labels from NIfTI.

    Parameters
    ----------
    path
        A ``.nii`` or ``.nii.gz`` file of one volume of integers, which may be stored as floats; for NaN and -1 see
        `napari_gpubio.core.label_volumes.as_labels`.
    structures
        Names of the labels that are to be counted; None: all that occur, as the file beside it names them, or as
        ``label 1`` and so on.

    Raises
    ------
    InvalidInput
        If the file cannot be read or holds other numbers than labels.
    """
    labels, affine = read_volume(path)
    whole, about = as_labels(labels)
    if about:
        note(about)
    labels = labels if whole is None else whole
    found = LabelStructures(labels=labels, affine=affine, structures=structures, is_oriented=has_orientation(path))
    known = read_described(path, labels.shape).get("metadata", {}).get(STRUCTURES)
    if structures is not None or not known:
        return found
    named = {value: known.get(value, name) for value, name in zip(found.values, found.names, strict=True)}
    return dataclasses.replace(found, structures=named)
