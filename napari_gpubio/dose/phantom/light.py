"""Light from a point in a diffuse medium, with two organs: a ball around the source and a shell around that."""

import numpy as np

from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.phantom.shapes import ellipse, grid_affine, in_planes
from napari_gpubio.dose.structures.contours import ContourStructure

STRENGTH, MU_EFF_PER_MM = 10.0, 0.3  # fluence = strength exp(-mu_eff r) / r, J/cm2
INNER_MM, OUTER_MM, STEP_MM = 8.0, 14.0, 0.4
_NEAREST_MM = 0.5  # the source is a little ball


def light_dose() -> Dose:
    """The fluence on a grid of 0.4 mm."""
    n = round((OUTER_MM + 2) / STEP_MM)
    axis = STEP_MM * np.arange(-n, n + 1)
    x, y, z = np.meshgrid(axis, axis, axis, indexing="ij", sparse=True)
    r = np.maximum(np.sqrt(x**2 + y**2 + z**2), _NEAREST_MM)
    values = STRENGTH * np.exp(-MU_EFF_PER_MM * r) / r
    return Dose(values=values, affine=grid_affine(STEP_MM, [axis[0]] * 3), unit="J/cm2", name="point source")


def light_structures() -> tuple[ContourStructure, ContourStructure]:
    """The ball (the target) and the shell around it."""
    inner = _circles(INNER_MM)
    return in_planes("target", inner), in_planes("around it", _circles(OUTER_MM) + inner)


def _circles(radius: float) -> list[tuple[float, np.ndarray]]:
    planes = round(2 * radius / STEP_MM)
    heights = (np.arange(planes) + 0.5 - planes / 2) * STEP_MM
    return [(float(z), ellipse(r, r)) for z in heights for r in [float(np.sqrt(radius**2 - z**2))]]
