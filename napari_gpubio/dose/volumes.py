"""Volumes as doses and as labels of structures: their unit, which of a series, and what is known of their errors."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.label_volumes import as_labels
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.quantity import Quantity, checked_unit, is_unit, to_linear
from napari_gpubio.dose.metrics.parameters import dose_factor, same_kind
from napari_gpubio.dose.model import Dose, is_turned
from napari_gpubio.dose.structures.labels import LabelStructures

Array = npt.NDArray[Any]
_FLOAT32_LOGARITHM = 38.0
_UNKNOWN_QUANTITY = "values"


def dose_of_volume(
    volume: Volume,
    unit: str,
    *,
    frame: int | None = None,
    standard_error: Array | None = None,
    values_unit: str = "",
    quantity: str = "",
    frame_of_reference: str = "",
    is_oriented: bool = True,
) -> Dose:
    """Return the dose of a volume, on its own grid and on the linear scale.

    Parameters
    ----------
    volume
        Shape (X, Y, Z), or (X, Y, Z, N) of a series. Halves of its data and its standard error go with it as far as
        they are of its shape and finite.
    unit
        Of the dose; values whose unit is known are converted.
    frame
        Which volume of a series.
    standard_error
        Of the linear values, in their unit.
    values_unit, quantity
        What the values are, where the volume does not say so itself.
    frame_of_reference, is_oriented
        As of `napari_gpubio.dose.Dose`.

    Raises
    ------
    InvalidInput
        If the values cannot be a dose, or the unit is missing, not known, or of another kind than theirs; or if the
        volume says itself what something else is given for.
    """
    if not unit.strip():
        raise InvalidInput(
            f"the unit of {volume.name!r} is not known; type it, for instance Gy or J/cm2 (it is never guessed)"
        )
    known = volume.quantity
    _check_own(volume, "values_unit", values_unit, known.unit if known else "")
    _check_own(volume, "quantity", quantity, known.name if known else "")
    factor = factor_to(unit, (known.unit if known else "") or values_unit, volume.name)
    values = _linear(_one_volume(volume, frame), known, volume.name)
    values = values if factor == 1 else values * factor

    def fitting(array: Array) -> Array | None:
        """Errors of the voxels, laid out as the dose, so that samples lie as there; None if they do not fit."""
        chosen = array if frame is None or array.ndim == 3 else array[..., frame]
        if chosen.shape != values.shape or not np.isfinite(chosen).all():
            return None
        return (np.asfortranarray if is_turned(values) else np.ascontiguousarray)(
            chosen if factor == 1 else chosen * factor
        )

    halves = [one for half in ([] if volume.halves is None else volume.halves) if (one := fitting(half)) is not None]
    name = quantity or (known.name if known else "")
    return Dose(
        values=values,
        affine=volume.affine,
        unit=unit.strip(),
        quantity="" if name == _UNKNOWN_QUANTITY else name,
        frame_of_reference=frame_of_reference,
        name=volume.name if frame is None else f"{volume.name} [{frame}]",
        is_oriented=is_oriented and volume.oriented,
        halves=(halves[0], halves[1]) if len(halves) == 2 else None,
        standard_error=None if standard_error is None else fitting(standard_error),
    )


def _check_own(volume: Volume, name: str, given: str, own: str) -> None:
    """Raise InvalidInput if something else is given than what a volume says itself, which would count."""
    if given and own not in ("", _UNKNOWN_QUANTITY, given):
        raise InvalidInput(f"{name} is {given!r}, and {volume.name!r} says itself that it is {own!r}; leave {name} out")


def factor_to(unit: str, own: str, name: str) -> float:
    """Return what values in a unit of their own, which may be unknown, are multiplied by, to be in another.

    Raises
    ------
    InvalidInput
        If a unit is not known, or they measure different things; ``name`` says whose.
    """
    wanted = checked_unit(unit)
    if not own or not is_unit(own) or checked_unit(own) == wanted:
        return 1.0
    if not same_kind(own, wanted):
        raise InvalidInput(f"the values of {name!r} are in {own}, which cannot be given in {wanted}; use {own}")
    return dose_factor(own, wanted)


def _linear(values: Array, quantity: Quantity | None, name: str) -> Array:
    """The values that logarithms stand for; 0 where they are NaN or -infinity."""
    if quantity is None or not quantity.is_log:
        return values
    if values.dtype.kind == "f" and not np.isfinite(values).any():
        raise InvalidInput(
            f"none of the {values.size} voxels of {name!r} holds a number; choose another image, or make it anew"
        )
    if (largest := float(np.nanmax(values))) > _FLOAT32_LOGARITHM:
        raise InvalidInput(
            f"{name!r} holds values up to {largest:.4g}, too large for decimal logarithms; choose linear"
        )
    return to_linear(values, Quantity(_UNKNOWN_QUANTITY, scale="log10"))


def _one_volume(volume: Volume, frame: int | None) -> Array:
    """One volume (X, Y, Z) of a series; a view where that is possible."""
    array = volume.array
    if array.ndim not in (3, 4):
        raise InvalidInput(f"{volume.name!r} has {array.ndim} dimensions; choose a dose with three, or a series")
    if array.ndim == 4:
        if frame is None or not 0 <= frame < array.shape[3]:
            raise InvalidInput(f"{volume.name!r} has {array.shape[3]} volumes; choose one of them, not {frame}")
        return np.asarray(array[..., frame])
    if frame is not None:
        raise InvalidInput(f"frame is {frame}, and {volume.name!r} is no series; leave frame out")
    return np.asarray(array)


# -- labels -----------------------------------------------------------------------------------------------------------


def labels_of_volume(
    volume: Volume,
    names: Mapping[int, str] | None = None,
    *,
    frame_of_reference: str = "",
    is_oriented: bool = True,
) -> LabelStructures:
    """Return the structures of a volume of labels.

    Parameters
    ----------
    volume
        Of whole numbers, which may be stored as floats.
    names
        Of the labels that are counted; None: all that occur, as ``label 1`` and so on.
    frame_of_reference, is_oriented
        As of `napari_gpubio.dose.LabelStructures`.

    Raises
    ------
    InvalidInput
        If it holds other numbers than labels.
    """
    whole = volume.array if volume.array.dtype.kind in "biu" else as_labels(volume.array)[0]
    if whole is None:
        raise InvalidInput(f"{volume.name!r} holds fractions, not labels; give a volume of whole numbers")
    return LabelStructures(
        labels=whole,
        affine=volume.affine,
        structures=names,
        frame_of_reference=frame_of_reference,
        is_oriented=is_oriented and volume.oriented,
    )


def named_labels(texts: Sequence[str]) -> dict[int, str]:
    """Return names of labels, each written as ``3=Heart``.

    Raises
    ------
    InvalidInput
        If one is written otherwise, or a label has two names.
    """
    found: dict[int, str] = {}
    for text in texts:
        pair = re.fullmatch(r"(\d{1,5})=(.+)", text, re.DOTALL)
        if pair is None or int(pair[1]) in found:
            raise InvalidInput(f"the name of a label is {text[:40]!r}; write each label once, for instance 3=Heart")
        found[int(pair[1])] = pair[2]
    return found
