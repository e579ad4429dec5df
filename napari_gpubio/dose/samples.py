"""Sample doses and structures by formula, and as napari layers (without importing napari).

The treatment has a body, two lungs, a target and a spinal cord, and the dose of a field with a plateau: in the target
nearly all doses fall into few bins, which makes threads of a GPU wait for each other. The light comes from a point in a
diffuse medium, with two organs: a ball around the source and a shell around that. Nobody's body.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.napari_io import LayerData
from napari_gpubio.dose.closed_forms import ellipse, grid_affine, in_planes
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.napari_io import contours_layer, dose_layer, labels_layer
from napari_gpubio.dose.structures.contours import Color, ContourStructure
from napari_gpubio.dose.structures.raster import label_structures

Array = npt.NDArray[np.float64]
_SLICE_MM, _VOXEL_MM, _SHAPE = 3.0, 4.0, (116, 60, 84)
# name: center, half axes, planes, points of a contour, color; cylinders along z or ellipsoids, mm
_ORGANS: dict[str, tuple[tuple[float, float, float], tuple[float, float, float], int, int, Color]] = {
    "body": ((0.0, 0.0, 0.0), (170.0, 105.0, np.inf), 100, 120, (230, 200, 170)),
    "left lung": ((-85.0, 5.0, 9.0), (58.0, 78.0, 102.0), 68, 80, (90, 160, 230)),
    "right lung": ((85.0, 5.0, 9.0), (58.0, 78.0, 102.0), 68, 80, (60, 120, 200)),
    "target": ((-70.0, 10.0, 0.0), (30.0, 28.0, 39.0), 26, 48, (220, 60, 60)),
    "cord": ((0.0, -65.0, 0.0), (7.0, 7.0, np.inf), 100, 32, (240, 200, 40)),
}
STRENGTH, MU_EFF_PER_MM = 10.0, 0.3  # fluence = strength exp(-mu_eff r) / r, J/cm2
INNER_MM, OUTER_MM, STEP_MM = 8.0, 14.0, 0.4
_NEAREST_MM = 0.5  # the source is a little ball
PRESCRIPTION_GY = 90.0
_FINE = 2  # times finer than the dose are the labels of the treatment
_LIGHT_COLORS: tuple[Color, ...] = ((240, 90, 80), (90, 170, 240))


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


def light_dose() -> Dose:
    """The fluence on a grid of 0.4 mm."""
    n = round((OUTER_MM + 2) / STEP_MM)
    axis = STEP_MM * np.arange(-n, n + 1)
    x, y, z = np.meshgrid(axis, axis, axis, indexing="ij", sparse=True)
    r = np.maximum(np.sqrt(x**2 + y**2 + z**2), _NEAREST_MM)
    values = STRENGTH * np.exp(-MU_EFF_PER_MM * r) / r
    return Dose(
        values=values, affine=grid_affine(STEP_MM, [axis[0]] * 3), unit="J/cm2", quantity="fluence", name="point source"
    )


def light_structures() -> tuple[ContourStructure, ContourStructure]:
    """The ball (the target) and the shell around it."""
    inner = _circles(INNER_MM)
    return in_planes("target", inner), in_planes("around it", _circles(OUTER_MM) + inner)


def _circles(radius: float) -> list[tuple[float, np.ndarray]]:
    planes = round(2 * radius / STEP_MM)
    heights = (np.arange(planes) + 0.5 - planes / 2) * STEP_MM
    return [(float(z), ellipse(r, r)) for z in heights for r in [float(np.sqrt(radius**2 - z**2))]]


def treatment_layers() -> list[LayerData]:
    """Return a treatment: its dose, its organs as labels, and hidden the target's contours (napari's contribution).

    Organs in labels cannot overlap: the body is what is left of it beside the others.
    """
    dose, structures = treatment_dose(), treatment_structures()
    target = [one for one in structures if one.name == "target"]
    rest = dataclasses.replace(structures[0], name="body (rest)")  # of the body, without the others in it
    colors = {n: one.color for n, one in enumerate(structures, start=1) if one.color is not None}
    organs, notes = label_structures([rest, *structures[1:]], *_finer_grid(dose))
    return [
        dose_layer(dose, "dose", metadata={"prescription": PRESCRIPTION_GY}),
        contours_layer(target, "target contours", dose.affine, visible=False),
        labels_layer(organs, "organs", colors, metadata={"notes": notes}, opacity=0.35),
    ]


def light_layers() -> list[LayerData]:
    """Return light from a point in tissue, 1 J of it, and two organs (napari's sample-data contribution)."""
    dose, structures = light_dose(), light_structures()
    organs, _ = label_structures(structures, dose.affine, _shape(dose))
    light = dose_layer(dose, "light dose", gamma=0.4, metadata={"energy_j": 1.0})
    return [light, labels_layer(organs, "organs", dict(enumerate(_LIGHT_COLORS, start=1)), opacity=0.35)]


def _finer_grid(dose: Dose) -> tuple[npt.NDArray[np.float64], tuple[int, int, int]]:
    """Affine and shape of a grid that divides the voxels of a dose."""
    size = float(dose.voxel_sizes_mm[0]) / _FINE
    x, y, z = (_FINE * n for n in _shape(dose))
    return grid_affine(size, dose.affine[:3, 3] - size * (_FINE - 1) / 2), (x, y, z)


def _shape(dose: Dose) -> tuple[int, int, int]:
    x, y, z = dose.values.shape
    return x, y, z
