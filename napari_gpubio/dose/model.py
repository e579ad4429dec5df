"""What a dose-volume histogram is made of: a dose volume, and structures of several kinds."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import GriddedArray
from napari_gpubio.core.quantity import LIGHT_DOSES, checked_unit
from napari_gpubio.core.reading import note
from napari_gpubio.core.space import checked_affine, voxel_sizes_mm
from napari_gpubio.dose.metrics.parameters import dose_factor, same_kind
from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.labels import AnyStructures, LabelStructures, PointStructure

Array = npt.NDArray[Any]
Structures: TypeAlias = ContourStructure | LabelStructures | PointStructure
MM3_PER_CC = 1000.0
_LIGHT_QUANTITIES = (*LIGHT_DOSES, "absorbed energy", "absorbed energy density", "diffuse reflectance")
_UNSPECIFIC = ("", "dose", "values")
_LIGHT_UNITS = ("1/mm²", "1/mm³", "mW/mm²", "mW/mm³", "J/cm²", "J/cm³")  # and what can be converted to one of them
WHOLE_PLAN, OF_BEAMS = "PLAN", "BEAM"  # DICOM's words for the dose of all of a plan, and of beams of it
COMBINED = "COMBINED"  # our word for sums and differences that are no dose of a plan by what is known of their parts
EFFECTIVE = "biologically effective dose"  # the quantity of doses of DoseType EFFECTIVE
PATIENT_KEYS = "PatientID", "PatientName", "PatientBirthDate"  # the lines of `Dose.patient`
_MAX_TREATMENT_GY = 1000.0
_PLAUSIBLE = 0.5, 2.1  # largest dose by prescription: 2 where it is of the isodose of 50 %
ANY_FRAME = "register them, or choose any_frame=True if they are the same"  # advice where there are settings


@dataclass(frozen=True, eq=False, kw_only=True)
class Dose(GriddedArray, array="values"):
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
        PatientID, PatientName and PatientBirthDate of its file, each in a line, which is empty or missing where that is
        not known.
    is_oriented
        Whether it is known where the voxels lie; else ``affine`` is an assumption of the file's reader.
    halves
        The doses of two halves of the photons of a Monte Carlo run, of the same shape, where they are known.
    standard_error
        Of each voxel, of the same shape, where it is known.

    Attributes
    ----------
    least
        Smallest dose of all voxels, in the unit of the dose.
    largest
        Largest dose of all voxels, in that unit.
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
    halves: tuple[Array, Array] | None = None
    standard_error: Array | None = None
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
    def word(self) -> str:
        """What the values are called: light by its own quantity, else dose."""
        if not self.is_light:
            return "dose"
        if self.quantity not in _UNSPECIFIC:
            return self.quantity
        known = {"1/mm²": "fluence", "J/cm²": "fluence", "mW/mm²": "fluence rate"}
        return next((word for unit, word in known.items() if same_kind(self.unit, unit)), "light dose")

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


def note_patients(first: str, second: str, patients: tuple[str, str]) -> list[str]:
    """A note if two parts are of different patients; who they are stays private."""
    by = differing(*patients)
    return [f"{first} and {second} are of different patients ({by})"] if by else []


def differing(one: str, other: str) -> str:
    """By what two patients differ, see `Dose.patient`; empty if by nothing.

    Name and date of birth are compared where a number is missing.
    """
    lines = zip(PATIENT_KEYS, one.casefold().split("\n"), other.casefold().split("\n"), strict=False)
    known = [(key, own != another) for key, own, another in lines if own and another]
    if known and known[0][0] == PATIENT_KEYS[0]:
        known = known[:1]
    return ", ".join(key for key, is_other in known if is_other)


def note_values(values: Array, unit: str, quantity: str) -> None:
    """Say where the values of a dose are none of a treatment; those of errors and differences may be."""
    if "error" in quantity or "difference" in quantity:
        return
    least, largest = (float(best.reduce(values, axis=None)) for best in (np.fmin, np.fmax))  # of what is not NaN
    if least == largest == 0:
        note("the dose is 0 everywhere")
    if least < 0:
        note(f"{np.count_nonzero(values < 0)} voxels have a negative dose, down to {f'{least:.4g} {unit}'.strip()}")
    if same_kind(unit, "Gy") and (gray := largest * dose_factor(unit, "Gy")) > _MAX_TREATMENT_GY:
        note(f"the largest dose is {gray:.4g} Gy, which no treatment has; see whether the values are in cGy")


def note_reference(dose: Dose, reference: float, source: str) -> None:
    """Say where a dose that % are of, in the dose's unit, is far from the largest dose; ``source`` says whose it is."""
    if dose.is_light or "difference" in dose.quantity or min(reference, dose.largest) <= 0:
        return
    share, given = dose.largest / reference, f"{reference:.4g} {dose.unit} ({source})"
    if not _PLAUSIBLE[0] <= share <= _PLAUSIBLE[1]:
        largest = f"the largest dose of {dose.name or 'the dose'} is {dose.largest:.4g} {dose.unit}"
        note(f"{largest}, {100 * share:.3g} % of {given}; see whether both are of one plan and in one unit")


def listed(structures: Structures | Iterable[Structures]) -> list[Structures]:
    """One structure, or several of them (a sequence, structure sets), as a list; or InvalidInput."""
    if isinstance(structures, Structures):
        return [structures]
    found: list[Structures] = []
    for one in structures if isinstance(structures, Iterable) else [structures]:
        if isinstance(one, AnyStructures) and isinstance(one, Iterable):
            found += one
        elif isinstance(one, Structures):
            found.append(one)
        else:
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
