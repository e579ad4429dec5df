"""Loops and grids that phantoms are made of."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.structures.contours import ContourStructure, contour_structure

Array = npt.NDArray[np.float64]


def ellipse(half_x: float, half_y: float, points: int = 256, center: tuple[float, float] = (0.0, 0.0)) -> Array:
    """A polygon with the area of an ellipse, shape (points, 2), mm."""
    angles = 2 * np.pi * np.arange(points) / points
    grown = np.sqrt(2 * np.pi / (points * np.sin(2 * np.pi / points)))
    return np.column_stack([center[0] + grown * half_x * np.cos(angles), center[1] + grown * half_y * np.sin(angles)])


def in_planes(name: str, loops: Iterable[tuple[float, Array]], **more: Any) -> ContourStructure:
    """A structure of loops (N, 2), each in a plane z, mm."""
    return contour_structure(name, [np.column_stack([loop, np.full(len(loop), z)]) for z, loop in loops], **more)


def grid_affine(spacing: float, first: npt.ArrayLike) -> Array:
    """Index to world of a straight grid with equal edges, mm; ``first`` is the center of the first voxel."""
    affine = np.diag([spacing, spacing, spacing, 1.0])
    affine[:3, 3] = first
    return affine
