"""Structures as contours, labels or points; on grids; joined, cut and grown."""

from napari_gpubio.dose.structures.algebra import (
    Region,
    difference,
    intersection,
    label_region,
    margin,
    regions_on_grid,
    union,
)
from napari_gpubio.dose.structures.contours import ContourStructure, contour_structure
from napari_gpubio.dose.structures.labels import LabelStructures, PointStructure, whole_grid
from napari_gpubio.dose.structures.raster import dose_at_voxels, inside, label_structures

__all__ = [
    "ContourStructure",
    "LabelStructures",
    "PointStructure",
    "Region",
    "contour_structure",
    "difference",
    "dose_at_voxels",
    "inside",
    "intersection",
    "label_region",
    "label_structures",
    "margin",
    "regions_on_grid",
    "union",
    "whole_grid",
]
