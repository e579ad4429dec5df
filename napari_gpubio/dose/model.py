"""What a dose-volume histogram is made of: a dose volume, and structures of several kinds."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import checked_affine, voxel_sizes_mm
from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.labels import LabelStructures, PointStructure

Array = npt.NDArray[Any]
Structures: TypeAlias = ContourStructure | LabelStructures | PointStructure
MM3_PER_CC = 1000.0
ANY_FRAME = "register them, or choose any_frame=True if they are the same"  # advice where there are settings


@dataclass(frozen=True, eq=False, kw_only=True)
class Dose:
    """A dose volume: radiation dose, light dose, or any other quantity that is not counted by volume.

    Parameters
    ----------
    values
        Shape (X, Y, Z), any real type, finite.
    affine
        Voxel centers to world mm (RAS), 4 x 4.
    unit
        As it shall stand on an axis, for instance ``"Gy"`` or ``"J/cm2"``. It is never guessed.
    frame_of_reference
        What the coordinates refer to (a DICOM UID), where that is known.
    name
        For tables and curves.

    Attributes
    ----------
    least, largest
        Of all voxels, in the unit of the dose.
    """

    values: Array
    affine: Array
    unit: str
    frame_of_reference: str = ""
    name: str = ""
    least: float = field(init=False)
    largest: float = field(init=False)

    def __post_init__(self) -> None:
        values, least, largest = checked_values(self.values, "the dose")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "affine", checked_affine(self.affine))
        object.__setattr__(self, "least", least)
        object.__setattr__(self, "largest", largest)
        if not self.unit.strip():
            raise InvalidInput("the unit of the dose is missing; give it, for instance unit='Gy'")

    @property
    def voxel_sizes_mm(self) -> npt.NDArray[np.float64]:
        """Edge lengths of a dose voxel."""
        return voxel_sizes_mm(self.affine)


def checked_values(values: npt.ArrayLike, what: str) -> tuple[Array, float, float]:
    """A volume of finite real numbers, its least and its largest one, or InvalidInput; ``what`` names it."""
    array = np.asarray(values)
    if array.ndim != 3 or 0 in array.shape:
        raise InvalidInput(f"{what} has shape {array.shape}; give one volume (x, y, z), of a series one at a time")
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"{what} holds {array.dtype} values; give real numbers")
    least, largest = float(array.min()), float(array.max())
    if not (math.isfinite(least) and math.isfinite(largest)):  # NumPy lets NaN through to both
        bad = int(array.size - np.count_nonzero(np.isfinite(array)))
        raise InvalidInput(f"{bad} of the {array.size} voxels of {what} are not finite; replace them first")
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


def listed(structures: Structures | Sequence[Structures]) -> list[Structures]:
    """One structure, or several of them, as a list."""
    return [structures] if isinstance(structures, Structures) else list(structures)


def is_turned(array: Array) -> bool:
    """Whether a volume is seen from its other end: in memory its first axis is the contiguous one.

    A napari layer's array is the transposed of a volume, so a volume in C order often is.
    """
    return bool(array.flags.f_contiguous and not array.flags.c_contiguous)
