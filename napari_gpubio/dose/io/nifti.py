"""Doses and labels as NIfTI files.

NIfTI has no place for the unit of a dose: it is written into the description, and read from there only as this module
writes it.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.quantity import ascii_unit
from napari_gpubio.core.volumes import nifti_affine, nifti_array, one_volume, open_nifti, read_volume, write_volume
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.structures.labels import LabelStructures

_STATED = re.compile(r"dose in (\S+)")


def read_dose(path: str | Path, *, unit: str | None = None) -> Dose:
    """Read a dose from NIfTI.

    Parameters
    ----------
    path
        A ``.nii`` or ``.nii.gz`` file of one volume.
    unit
        Of the doses, for instance ``"Gy"``; None: as in the file, if `write_dose` has written it.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or the unit is not known.
    """
    file = Path(path)
    image = open_nifti(file)
    description = bytes(image.header["descrip"].tobytes()).rstrip(b"\0 ").decode("ascii", "replace")
    stated = _STATED.fullmatch(description)
    if unit is None and stated is None:
        raise InvalidInput(
            f"{file.name} does not state the unit of its dose; give it with unit= (--unit), for instance Gy"
        )
    values = one_volume(nifti_array(image, file), file.name)
    return Dose(
        values=values, affine=nifti_affine(image, file), unit=unit or (stated[1] if stated else ""), name=file.name
    )


def write_dose(path: str | Path, dose: Dose) -> None:
    """Write a dose as NIfTI, with its unit in the description.

    Raises
    ------
    InvalidInput
        If the name ends otherwise than in .nii or .nii.gz, or the file cannot be written.
    """
    write_volume(path, dose.values, dose.affine, f"dose in {ascii_unit(dose.unit)}")


def read_labels(path: str | Path, structures: Mapping[int, str] | None = None) -> LabelStructures:
    """Read labels from NIfTI.

    Parameters
    ----------
    path
        A ``.nii`` or ``.nii.gz`` file of one volume of integers, which may be stored as floats.
    structures
        Names of the labels that are to be counted; None: all that occur, as ``label 1`` and so on.

    Raises
    ------
    InvalidInput
        If the file cannot be read or holds other numbers than labels.
    """
    labels, affine = read_volume(path)
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == np.round(labels)).all():
        labels = labels.astype(np.int64)
    return LabelStructures(labels=labels, affine=affine, structures=structures)


def write_labels(path: str | Path, structures: LabelStructures) -> None:
    """Write labels as NIfTI; their names have no place there.

    Raises
    ------
    InvalidInput
        If the name ends otherwise than in .nii or .nii.gz, or the file cannot be written.
    """
    write_volume(path, structures.labels, structures.affine)
