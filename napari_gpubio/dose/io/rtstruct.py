"""Structures from a DICOM RTSTRUCT file."""

import dataclasses
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.io.dicom import decoded, read_dataset, required
from napari_gpubio.dose.io.geometry import LPS_TO_RAS
from napari_gpubio.dose.structures.contours import Color, ContourStructure, contour_structure
from napari_gpubio.dose.structures.slabs import usual_distance_mm

Array = npt.NDArray[Any]
_SOLID = ("CLOSED_PLANAR", "CLOSEDPLANAR_XOR")
_TO_RAS = np.diag(LPS_TO_RAS)[:3]


@dataclass(frozen=True, eq=False, kw_only=True)
class StructureSet:
    """The structures of a file.

    Parameters
    ----------
    structures
        In the order of the file; those without usable contours are there, and empty.
    numbers
        The file's number of each structure.
    notes
        What was left out, in sentences.
    """

    structures: tuple[ContourStructure, ...]
    numbers: tuple[int, ...]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> ContourStructure:
        for structure in self.structures:
            if structure.name == name:
                return structure
        known = ", ".join(structure.name for structure in self.structures)
        raise InvalidInput(f"there is no structure {name!r}; there are {known}")


def read_rtstruct(path: str | Path) -> StructureSet:
    """Read the closed planar contours of an RTSTRUCT file.

    Points and open contours are left out, with a note. Structures in a single plane get the slice thickness of the
    others.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, of another kind, or a structure is not drawn in parallel planes.
    """
    name = Path(path).name
    dataset = read_dataset(path, "RTSTRUCT")
    return decoded(name, lambda: _structure_set(dataset, name))


def _structure_set(dataset: Any, name: str) -> StructureSet:
    rois = list(required(dataset, "StructureSetROISequence", name))
    drawn = {int(item.ReferencedROINumber): item for item in dataset.get("ROIContourSequence") or ()}
    labels, renamed = _labels(rois)
    found = [_loops(drawn.get(int(roi.ROINumber)), label, name) for roi, label in zip(rois, labels, strict=True)]
    structures = [
        contour_structure(
            label,
            loops,
            color=_color(drawn.get(int(roi.ROINumber))),
            frame_of_reference=str(roi.get("ReferencedFrameOfReferenceUID", "")),
        )
        for roi, label, (loops, _) in zip(rois, labels, found, strict=True)
    ]
    thickness = _thickness(structures)
    return StructureSet(
        structures=tuple(dataclasses.replace(structure, thickness_mm=thickness) for structure in structures),
        numbers=tuple(int(roi.ROINumber) for roi in rois),
        notes=(*renamed, *(note for _, notes in found for note in notes)),
    )


def _labels(rois: list[Any]) -> tuple[list[str], list[str]]:
    """Names of all structures, each another one, and in sentences which had to be changed."""
    given = [str(roi.get("ROIName", "") or f"structure {roi.ROINumber}") for roi in rois]
    counts = Counter(given)
    labels = [
        f"{label} ({roi.ROINumber})" if counts[label] > 1 else label for roi, label in zip(rois, given, strict=True)
    ]
    return labels, [
        f"{count} structures are named {label!r} and are told apart by their numbers"
        for label, count in counts.items()
        if count > 1
    ]


def _loops(contours: Any, label: str, name: str) -> tuple[list[Array], list[str]]:
    """World points (RAS) of the closed contours of a structure, and what was left out."""
    loops, others = [], []
    for item in (contours.get("ContourSequence") if contours is not None else None) or ():
        kind = str(item.get("ContourGeometricType", ""))
        if kind in _SOLID:
            loops.append(_points(item, label, name))
        else:
            others.append(kind or "no type")
    if not others:
        return loops, []
    kinds = ", ".join(sorted(set(others)))
    return loops, [f"{len(others)} contours of {label!r} are not closed ({kinds}) and were left out"]


def _points(item: Any, label: str, name: str) -> Array:
    data = item.get("ContourData")
    values = np.asarray([] if data is None else data, np.float64)
    if values.size % 3:
        raise InvalidInput(f"a contour of {label!r} in {name} has {values.size} coordinates, not three a point")
    return values.reshape(-1, 3) * _TO_RAS


def _color(contours: Any) -> Color | None:
    values = contours.get("ROIDisplayColor") if contours is not None else None
    if values is None or len(values) != 3:
        return None
    red, green, blue = (min(max(int(value), 0), 255) for value in values)
    return red, green, blue


def _thickness(structures: list[ContourStructure]) -> float | None:
    """The least of the usual distances of planes; None if no structure has two."""
    distances = [usual_distance_mm(structure) for structure in structures if len(structure.planes) > 1]
    return min(distances, default=None)
