"""A treatment: a body, two lungs, a target and a spinal cord, and the dose of a field with a Bragg-like plateau.

In the target nearly all doses fall into few bins, which makes threads of a GPU wait for each other.
"""

import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.phantom.shapes import ellipse, grid_affine, in_planes
from napari_gpubio.dose.structures.contours import Color, ContourStructure

_SLICE_MM, _VOXEL_MM, _SHAPE = 3.0, 4.0, (116, 60, 84)
# name: center, half axes, planes, points of a contour, color; cylinders along z or ellipsoids, mm
_ORGANS: dict[str, tuple[tuple[float, float, float], tuple[float, float, float], int, int, Color]] = {
    "body": ((0.0, 0.0, 0.0), (170.0, 105.0, np.inf), 100, 120, (230, 200, 170)),
    "left lung": ((-85.0, 5.0, 9.0), (58.0, 78.0, 102.0), 68, 80, (90, 160, 230)),
    "right lung": ((85.0, 5.0, 9.0), (58.0, 78.0, 102.0), 68, 80, (60, 120, 200)),
    "target": ((-70.0, 10.0, 0.0), (30.0, 28.0, 39.0), 26, 48, (220, 60, 60)),
    "cord": ((0.0, -65.0, 0.0), (7.0, 7.0, np.inf), 100, 32, (240, 200, 40)),
}


def treatment_structures() -> tuple[ContourStructure, ...]:
    """Contours of all structures, 3 mm apart; the first four of them have 262."""
    return tuple(_structure(name) for name in _ORGANS)


def _structure(name: str) -> ContourStructure:
    (cx, cy, cz), (a, b, c), planes, points, color = _ORGANS[name]
    heights = (np.arange(planes) + 0.5 - planes / 2) * _SLICE_MM
    shares = np.sqrt(np.maximum(1 - (heights / c) ** 2, 0.0))
    loops = [(cz + z, ellipse(a * s, b * s, points, (cx, cy))) for z, s in zip(heights, shares, strict=True)]
    return in_planes(name, loops, color=color)


def treatment_dose() -> Dose:
    """The dose on a grid of 4 mm, 0.5 to 99.8 Gy."""
    first = [-(n - 1) / 2 * _VOXEL_MM for n in _SHAPE]
    axes = (start + _VOXEL_MM * np.arange(n) for start, n in zip(first, _SHAPE, strict=True))
    x, y, z = np.meshgrid(*axes, indexing="ij", sparse=True)
    across = _edge(np.hypot((x + 70) / 34, z / 43) - 1, 1 / 14)
    plateau = 0.35 + 0.65 * _edge(-(y + 20), 2.5)
    depth = np.where(y < 44, plateau, np.exp(-np.maximum(y - 44, 0) / 4))
    ripple = 1 + 0.015 * np.sin(2 * np.pi * y / 12)
    values = np.asarray(98 * across * depth * ripple + 0.5, np.float32)
    return Dose(values=values, affine=grid_affine(_VOXEL_MM, first), unit="Gy", name="treatment")


def _edge(distance: npt.NDArray[np.float64], width: float) -> npt.NDArray[np.float64]:
    """From 1 (far inside, distance negative) to 0."""
    return np.asarray(1 / (1 + np.exp(distance / width)))
