"""What a dose-volume histogram is made of: a dose volume, and structures of several kinds."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.quantity import LIGHT_DOSES, checked_unit
from napari_gpubio.core.space import checked_affine, voxel_sizes_mm
from napari_gpubio.dose.metrics.parameters import same_kind
from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.labels import LabelStructures, PointStructure

Array = npt.NDArray[Any]
Structures: TypeAlias = ContourStructure | LabelStructures | PointStructure
MM3_PER_CC = 1000.0
_LIGHT_QUANTITIES = (*LIGHT_DOSES, "absorbed energy", "absorbed energy density", "diffuse reflectance")
_UNSPECIFIC = ("", "dose", "values")
_LIGHT_UNITS = ("1/mm²", "1/mm³", "mW/mm²", "mW/mm³", "J/cm²", "J/cm³")  # and what can be converted to one of them
WHOLE_PLAN, OF_BEAMS = "PLAN", "BEAM"  # DICOM's words for the dose of all of a plan, and of beams of it
COMBINED = "COMBINED"  # our word for sums and differences that are no dose of a plan by what is known of their parts
ANY_FRAME = "register them, or choose any_frame=True if they are the same"  # advice where there are settings


@dataclass(frozen=True, eq=False, kw_only=True)
class Dose:
    """A dose volume: radiation dose, light dose, or any other quantity that is not counted by volume.

    Parameters
    ----------
    values
        Shape (X, Y, Z), any real type, none infinite. Voxels that are NaN count as no dose, with a note.
    affine
        Voxel centers to world mm (RAS), 4 x 4.
    unit
        For instance ``"Gy"`` or ``"J/cm2"``; it is kept as `napari_gpubio.core.quantity.checked_unit` returns it
        (``"J/cm²"``). It is never guessed.
    quantity
        What the values are, for instance ``"dose"`` or ``"fluence"``; empty if it is not known. Light is counted in
        other bins; see `napari_gpubio.dose.settings.DvhSettings`.
    frame_of_reference
        What the coordinates refer to (a DICOM UID), where that is known.
    name
        For tables and curves.
    notes
        What was done to the values, in sentences.
    summation
        Of what of a treatment it is the dose, as DICOM calls it (``"PLAN"``, ``"BEAM"``, ``"FRACTION"``), where that is
        known, or ``"COMBINED"`` of what was put together of other doses. A prescription is one of a plan.
    plans
        What its file names as plans that it is the dose of (their SOPInstanceUID).
    beams
        Numbers of the beams that it is the dose of, where that is known; one that was added twice is there twice.
    patient
        PatientID of its file.
    is_oriented
        Whether it is known where the voxels lie; else ``affine`` is an assumption of the file's reader.

    Attributes
    ----------
    least, largest
        Of all voxels, in the unit of the dose.
    """

    values: Array
    affine: Array
    unit: str
    quantity: str = ""
    frame_of_reference: str = ""
    name: str = ""
    notes: tuple[str, ...] = ()
    summation: str = ""
    plans: tuple[str, ...] = ()
    beams: tuple[int, ...] = ()
    patient: str = ""
    is_oriented: bool = True
    least: float = field(init=False)
    largest: float = field(init=False)

    def __post_init__(self) -> None:
        lacking: list[str] = []
        values, least, largest = checked_values(self.values, "the dose", lacking)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "notes", (*self.notes, *lacking))
        object.__setattr__(self, "affine", checked_affine(self.affine))
        object.__setattr__(self, "least", least)
        object.__setattr__(self, "largest", largest)
        if not self.unit.strip():
            raise InvalidInput("the unit of the dose is missing; give it, for instance unit='Gy'")
        object.__setattr__(self, "unit", checked_unit(self.unit))

    @property
    def is_light(self) -> bool:
        """Whether the values are of light, which falls by decades: by the quantity, or else by the unit."""
        return is_light(self.quantity, self.unit)

    @property
    def is_of_plan(self) -> bool:
        """Whether a prescription can be of it: not of beams, a fraction or several plans, nor of errors.

        Doses of beams may be that of a plan together; see `napari_gpubio.dose.io.Plan.prescription_of`.
        """
        return self.summation in ("", WHOLE_PLAN) and "error" not in self.quantity

    @property
    def voxel_sizes_mm(self) -> npt.NDArray[np.float64]:
        """Edge lengths of a dose voxel."""
        return voxel_sizes_mm(self.affine)


def is_light(quantity: str, unit: str) -> bool:
    """Whether values are of light: by the quantity, or where it is not known by the unit."""
    if quantity not in _UNSPECIFIC:
        return quantity in _LIGHT_QUANTITIES
    return any(same_kind(unit, light) for light in _LIGHT_UNITS)


def checked_values(values: npt.ArrayLike, what: str, lacking: list[str] | None = None) -> tuple[Array, float, float]:
    """A volume of finite real numbers, its least and its largest one, or InvalidInput; ``what`` names it.

    With ``lacking`` what is NaN becomes 0 as long as there are numbers; a note on it is put there.
    """
    array = np.asarray(values)
    if array.ndim != 3 or 0 in array.shape:
        raise InvalidInput(f"{what} has shape {array.shape}; give one volume (x, y, z), of a series one at a time")
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"{what} holds {array.dtype} values; give real numbers")
    least, largest = float(array.min()), float(array.max())
    if not (math.isfinite(least) and math.isfinite(largest)):  # NumPy lets NaN through to both
        missing, infinite = np.isnan(array), int(np.count_nonzero(np.isinf(array)))
        nan = int(np.count_nonzero(missing))
        if lacking is None or infinite or nan == array.size:
            raise InvalidInput(
                f"{nan + infinite} of the {array.size} voxels of {what} are not finite (NaN or infinite); give each of "
                "them a number"
            )
        lacking.append(f"{nan} of the {array.size} voxels of {what} are NaN and count as 0")
        array = np.where(missing, array.dtype.type(0), array)
        least, largest = float(array.min()), float(array.max())
    return array, least, largest


def check_frames(first: str, second: str, frames: Iterable[str], advice: str) -> None:
    """Refuse to compare positions in different frames of reference, of which an empty one fits all.

    The sentence names both parts and ends with the advice.
    """
    known = sorted({*frames} - {""})
    if len(known) > 1:
        raise InvalidInput(
            f"{first} and {second} have different frames of reference ({' and '.join(known)}), so their positions "
            f"cannot be compared; {advice}"
        )


def note_patients(first: str, second: str, patients: Iterable[str]) -> list[str]:
    """A note if two parts are of different patients, of whom an empty one fits all; their numbers stay private."""
    return [f"{first} and {second} are of different patients (PatientID)"] if len({*patients} - {""}) > 1 else []


def listed(structures: Structures | Iterable[Structures]) -> list[Structures]:
    """One structure, or several of them (a sequence, a structure set), as a list; or InvalidInput."""
    if isinstance(structures, Structures):
        return [structures]
    found = list(structures) if isinstance(structures, Iterable) else [structures]
    for one in found:
        if not isinstance(one, Structures):
            raise InvalidInput(
                f"{type(one).__name__} {str(one)[:40]!r} is no structure; give contours, labels or points, several of "
                "them, or a structure set"
            )
    return found


def is_turned(array: Array) -> bool:
    """Whether a volume is seen from its other end: in memory its first axis is the contiguous one.

    A napari layer's array is the transposed of a volume, so a volume in C order often is.
    """
    return bool(array.flags.f_contiguous and not array.flags.c_contiguous)
