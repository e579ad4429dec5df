"""Structures as the labels of a volume, or as points that each stand for the same volume."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import GriddedArray, Tabular
from napari_gpubio.core.space import checked_affine, voxel_volume_mm3

Array = npt.NDArray[Any]
_MAX_LABELS = 65535
_MIN_VOXELS_FOR_THREAD = 1 << 20


class AnyStructures(Tabular):
    """Base of what a dose is counted in: labels, contours, points, and sets of them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelStructures(AnyStructures, GriddedArray, array="labels"):
    """Structures that do not overlap, one for each label; overlapping ones come in several label volumes.

    Parameters
    ----------
    labels
        Integers from 0 (no structure) to 65535, shape (X, Y, Z).
    affine
        Voxel centers to world mm (RAS), 4 x 4.
    structures
        Name of each label that is to be counted; those of the others are left out. None: every label that occurs,
        named ``label 1`` and so on.
    is_oriented
        Whether it is known where the voxels lie; else ``affine`` is an assumption of the file's reader.
    frame_of_reference
        What the affine refers to (a DICOM UID), where that is known.
    notes
        What was assumed, in sentences.
    patient
        As `napari_gpubio.dose.Dose.patient`.

    Attributes
    ----------
    values
        Labels that are counted.
    names
        Their names.
    voxels
        How many voxels each label has that the array's type can hold.
    """

    labels: Array
    affine: Array
    structures: Mapping[int, str] | None = None
    is_oriented: bool = True
    frame_of_reference: str = ""
    notes: tuple[str, ...] = ()
    patient: str = ""
    values: tuple[int, ...] = field(init=False)
    names: tuple[str, ...] = field(init=False)
    voxels: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        labels = _checked_labels(self.labels, max(self.structures or (), default=0))
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "affine", checked_affine(self.affine))
        object.__setattr__(self, "voxels", _voxels_of(labels))
        named = self.structures
        if named is None:
            named = {int(value): f"label {value}" for value in np.flatnonzero(self.voxels) if value}
        if bad := [value for value in named if not 0 < value <= _MAX_LABELS]:
            raise InvalidInput(f"label {bad[0]} cannot be a structure; name labels from 1 (0 is none) to {_MAX_LABELS}")
        object.__setattr__(self, "values", tuple(int(value) for value in named))
        object.__setattr__(self, "names", tuple(named.values()))

    @property
    def voxel_mm3(self) -> float:
        """Volume of a voxel."""
        return voxel_volume_mm3(self.affine)


def whole_grid(shape: tuple[int, int, int], affine: npt.ArrayLike, name: str = "everything") -> LabelStructures:
    """All of a grid as one structure, for instance a dose's own, to know the volume of an isodose.

    Parameters
    ----------
    shape, affine
        Of the grid.
    name
        Of the structure.
    """
    ones = np.ones(shape, np.uint8)
    return LabelStructures(labels=ones, affine=np.asarray(affine, np.float64), structures={1: name})


def _voxels_of(labels: Array) -> npt.NDArray[np.int64]:
    """Voxels of every possible label."""
    from napari_gpubio.core.jit import read_only, run_blocks, thread_count
    from napari_gpubio.dose.structures.geometry import count_labels

    copies = max(1, min(thread_count(), labels.size // _MIN_VOXELS_FOR_THREAD))
    counts = np.zeros((copies, np.iinfo(labels.dtype).max + 1), np.int64)
    in_a_row = np.ascontiguousarray(labels.T if labels.flags.f_contiguous else labels).reshape(-1)
    run_blocks(count_labels, copies, read_only(in_a_row), counts)
    return np.asarray(counts.sum(axis=0))


def _checked_labels(labels: npt.ArrayLike, largest: int) -> Array:
    """Labels as uint8, or as uint16 if the largest that is there or named needs it; or InvalidInput."""
    array = np.asarray(labels)
    if array.ndim != 3 or 0 in array.shape:
        raise InvalidInput(f"the labels have shape {array.shape}; give one volume (x, y, z)")
    if array.dtype == np.uint16 or (array.dtype == np.uint8 and largest < 256):
        return array
    if array.dtype.kind not in "biu":
        raise InvalidInput(f"the labels hold {array.dtype} values; give integers")
    least, most = int(array.min()), int(array.max())
    if least < 0 or most > _MAX_LABELS:
        raise InvalidInput(f"the labels run from {least} to {most}; they must be from 0 to {_MAX_LABELS}")
    return array.astype(np.uint8 if max(most, largest) < 256 else np.uint16)


@dataclass(frozen=True, eq=False, kw_only=True)
class PointStructure(AnyStructures):
    """Samples of a structure that somebody else has made.

    Parameters
    ----------
    name
        For curves and tables.
    points
        World (RAS) mm, shape (N, 3).
    volume_cc
        Of the structure: each point stands for its share.
    """

    name: str
    points: npt.NDArray[Any]
    volume_cc: float

    def __post_init__(self) -> None:
        points = np.asarray(self.points, np.float64)
        if points.ndim != 2 or points.shape[1] != 3:
            raise InvalidInput(f"the points of {self.name!r} have shape {points.shape}; give (N, 3) in mm")
        if not np.isfinite(points).all():
            raise InvalidInput(f"{self.name!r} has points that are not finite; leave them out")
        if not (np.isfinite(self.volume_cc) and self.volume_cc > 0):
            raise InvalidInput(f"volume_cc of {self.name!r} is {self.volume_cc!r}; give a positive volume in cc")
        object.__setattr__(self, "points", points)
