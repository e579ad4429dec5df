"""Doses of several plans as one: their sum, or the difference of two of them.

The result lies on the grid of the first dose. Others that lie on another grid are interpolated linearly at the centers
of its voxels; outside of their own grids, which end half a voxel beyond the outermost centers, they are 0. What of them
lies outside of the first grid is lost; a note says so. The result is as wide as the first grid for that reason: put the
largest dose first.

A sum is of physical doses. What doses of different fractions do to tissue does not add up like that. A sum of beams of
one plan knows which ones they are, so that a plan can tell whether they are all of it
(`napari_gpubio.dose.io.Plan.prescription_of`); any other sum, and a difference, is no dose of a plan.
"""

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.space import apply_affine, same_grid, voxel_volume_mm3
from napari_gpubio.dose.metrics.parameters import dose_factor, same_kind
from napari_gpubio.dose.model import (
    ANY_FRAME,
    COMBINED,
    EFFECTIVE,
    MM3_PER_CC,
    OF_BEAMS,
    Dose,
    check_frames,
    note_patients,
)

Array = npt.NDArray[np.float64]
_UNSPECIFIC = ("", "dose", "values", "absorbed dose")  # quantities that go together where the units do
_RADIATION = (*_UNSPECIFIC, EFFECTIVE)  # others that do, with a note
_IN_ROW = 1e-6  # voxels by which a center may lie beyond the border of a grid
_LOST = 1e-3  # of its largest dose: what a dose has outside of the first grid, to be worth a note


def sum_of_doses(
    doses: Iterable[Dose], weights: Sequence[float] | None = None, *, name: str = "", any_frame: bool = False
) -> Dose:
    """Sum of the doses of several plans, on the grid and in the unit of the first one.

    Parameters
    ----------
    doses
        At least two, of one quantity, in units of which one is a multiple of the other.
    weights
        What each dose is multiplied by, for instance fractions given by fractions planned; None: 1.
    name
        Of the sum; empty: those of all, joined by " + ".
    any_frame
        Take different frames of reference for the same.

    Returns
    -------
    dose
        Its notes say what was interpolated, converted or lost.

    Raises
    ------
    InvalidInput
        If there are fewer than two doses, if they do not go together, or if weights are no positive numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.dose import Dose, sum_of_doses
    >>> plans = [Dose(values=np.full((4, 4, 4), gray), affine=np.eye(4), unit="Gy", name="plan") for gray in (2.0, 3.0)]
    >>> float(sum_of_doses(plans, [1.0, 0.5]).largest)
    3.5
    """
    plans = list(doses)
    if len(plans) < 2:
        raise InvalidInput(f"a sum needs at least two doses, and there {'is one' if plans else 'is none'}; give more")
    factors = [1.0] * len(plans) if weights is None else [float(weight) for weight in weights]
    if len(factors) != len(plans):
        raise InvalidInput(f"there are {len(factors)} weights for {len(plans)} doses; give one for each")
    for factor, dose in zip(factors, plans, strict=True):
        if not (math.isfinite(factor) and factor > 0):
            raise InvalidInput(f"the weight of {_called(dose)} is {factor!r}; give a positive number")
    return _combined(plans, factors, name or " + ".join(one.name or "dose" for one in plans), "", any_frame=any_frame)


def difference_of_doses(first: Dose, second: Dose, *, name: str = "", any_frame: bool = False) -> Dose:
    """The first dose minus the second one, on the grid and in the unit of the first.

    Parameters
    ----------
    first, second
        Of one quantity, in units of which one is a multiple of the other.
    name
        Of the difference; empty: both names, joined by " - ".
    any_frame
        Take different frames of reference for the same.

    Returns
    -------
    dose
        Negative where the second dose is higher; its quantity is a difference, which is counted in linear bins. Its
        notes say what was interpolated, converted or lost.

    Raises
    ------
    InvalidInput
        If the doses do not go together.
    """
    named = name or f"{first.name or 'first'} - {second.name or 'second'}"
    return _combined([first, second], [1.0, -1.0], named, " difference", any_frame=any_frame)


def _combined(plans: Sequence[Dose], factors: Sequence[float], name: str, suffix: str, *, any_frame: bool) -> Dose:
    """The weighted sum of doses."""
    first, notes = plans[0], list(itertools.chain.from_iterable(dose.notes for dose in plans))
    total = factors[0] * np.asarray(first.values, np.float64)
    for dose in plans:
        if dose.halves is not None or dose.standard_error is not None:
            notes.append(f"{_called(dose)} carries its statistical error, which sums and differences do not")
    for dose, factor in zip(plans[1:], factors[1:], strict=True):
        if not any_frame:
            check_frames(_called(first), _called(dose), (first.frame_of_reference, dose.frame_of_reference), ANY_FRAME)
        unit = _unit_factor(dose, first)
        if unit != 1:
            notes.append(f"{_called(dose)} was converted from {dose.unit} to {first.unit}")
        notes += note_patients(_called(first), _called(dose), (first.patient, dose.patient))
        if (dose.quantity == EFFECTIVE) != (first.quantity == EFFECTIVE):
            one, other = (dose, first) if dose.quantity == EFFECTIVE else (first, dose)
            weighted = f"{_called(one)} is weighted by its biological effect (DoseType EFFECTIVE)"
            notes.append(f"{weighted} and {_called(other)} is not; they are combined as they are")
        values, more = on_grid(dose, first)
        total += factor * unit * values
        notes += more
    same_plan = all(dose.plans == first.plans and dose.summation == OF_BEAMS for dose in plans)
    of_beams = same_plan and all(dose.beams for dose in plans) and all(factor == 1 for factor in factors)
    quantity = next((one.quantity for one in plans if one.quantity not in _UNSPECIFIC), first.quantity)
    return Dose(
        values=total,
        affine=first.affine,
        unit=first.unit,
        quantity=f"{quantity or 'dose'}{suffix}" if suffix else quantity,
        frame_of_reference=first.frame_of_reference or next(filter(None, (d.frame_of_reference for d in plans)), ""),
        name=name,
        notes=tuple(dict.fromkeys(notes)),
        summation=OF_BEAMS if of_beams else COMBINED,
        plans=tuple(dict.fromkeys(itertools.chain.from_iterable(dose.plans for dose in plans))),
        beams=tuple(itertools.chain.from_iterable(dose.beams for dose in plans)) if of_beams else (),
        patient=next(filter(None, (dose.patient for dose in plans)), ""),
    )


def _unit_factor(dose: Dose, first: Dose) -> float:
    """What a dose is multiplied by to be in the unit of the first one; InvalidInput if they do not go together."""
    quantities = {dose.quantity, first.quantity}
    is_error = {"error" in quantity for quantity in quantities}  # of both or of none
    is_one = len(quantities) == 1 or quantities <= {*_RADIATION} or "" in quantities
    is_one = is_one and len(is_error) == 1
    if not is_one or not (dose.unit == first.unit or same_kind(dose.unit, first.unit)):
        both = " and ".join(f"{_called(one)} is {one.quantity or 'a dose'} in {one.unit}" for one in (first, dose))
        raise InvalidInput(f"{both}, which cannot be added or subtracted; give doses of one quantity")
    return dose_factor(dose.unit, first.unit)


def on_grid(dose: Dose, ground: Dose) -> tuple[Array, tuple[str, ...]]:
    """Values of a dose at the voxel centers of another one, float64, and notes on what was interpolated and lost."""
    values = np.asarray(dose.values, np.float64)
    if same_grid(dose.values.shape, dose.affine, ground.values.shape, ground.affine):
        return values, ()
    from scipy.ndimage import affine_transform

    matrix = np.linalg.inv(dose.affine) @ ground.affine
    found = np.empty(ground.values.shape)
    affine_transform(values, matrix[:3, :3], matrix[:3, 3], found.shape, found, order=1, mode="nearest")
    outside = _set_outside(found, matrix, values.shape)
    notes = [f"{_called(dose)} lies on another grid and was interpolated linearly to that of {_called(ground)}"]
    if outside:
        volume = short_number(outside * voxel_volume_mm3(ground.affine) / MM3_PER_CC)
        notes.append(
            f"{volume} cc of the grid of {_called(ground)} lie outside that of {_called(dose)}, which is 0 there"
        )
    if lost := _lost_cc(dose, ground):
        notes.append(f"{_called(dose)} has a dose in {short_number(lost)} cc outside that grid, which are lost")
    return found, tuple(notes)


def _set_outside(found: Array, matrix: Array, shape: Sequence[int]) -> int:
    """Set voxels to 0 that lie outside of a grid, by the matrix from their indices to its; returns how many."""
    j, k = np.ogrid[: found.shape[1], : found.shape[2]]
    count = 0
    for i in range(len(found)):
        outside = np.zeros(found.shape[1:], np.bool_)
        for row, size in zip(matrix, shape, strict=False):
            place = row[0] * i + row[1] * j + row[2] * k + row[3]
            outside |= (place < -0.5 - _IN_ROW) | (place > size - 0.5 + _IN_ROW)
        found[i][outside] = 0.0
        count += int(np.count_nonzero(outside))
    return count


def _lost_cc(dose: Dose, ground: Dose) -> float:
    """Volume of a dose's voxels that have a dose and whose centers lie outside of another grid."""
    threshold = _LOST * max(abs(dose.largest), abs(dose.least))
    places = np.argwhere(np.abs(dose.values) > threshold)
    at = apply_affine(np.linalg.inv(ground.affine) @ dose.affine, places)
    outside = ((at < -0.5 - _IN_ROW) | (at > np.array(ground.values.shape) - 0.5 + _IN_ROW)).any(axis=1)
    return int(np.count_nonzero(outside)) * voxel_volume_mm3(dose.affine) / MM3_PER_CC


def _called(dose: Dose) -> str:
    return repr(dose.name) if dose.name else "a dose"
