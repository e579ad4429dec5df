"""Doses and structures to try histograms on, as napari layers and without importing napari; nobody's body."""

import dataclasses

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.napari_io import LayerData
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.napari_io import contours_layer, dose_layer, labels_layer
from napari_gpubio.dose.phantom.light import light_dose, light_structures
from napari_gpubio.dose.phantom.shapes import grid_affine
from napari_gpubio.dose.phantom.treatment import treatment_dose, treatment_structures
from napari_gpubio.dose.structures.contours import Color, ContourStructure
from napari_gpubio.dose.structures.raster import label_structures

PRESCRIPTION_GY = 90.0
_FINE = 2  # times finer than the dose are the labels of the treatment
_LIGHT_COLORS: tuple[Color, ...] = ((240, 90, 80), (90, 170, 240))


def treatment_layers() -> list[LayerData]:
    """Return a treatment: its dose, its organs as labels, and hidden the target's contours (napari's contribution).

    Organs in labels cannot overlap: the body is what is left of it beside the others.
    """
    dose, structures = treatment_dose(), treatment_structures()
    target = [one for one in structures if one.name == "target"]
    organs, notes = label_structures([_renamed(one) for one in structures], *_finer_grid(dose))
    return [
        dose_layer(dose, "dose", metadata={"prescription": PRESCRIPTION_GY}),
        contours_layer(target, dose, "target contours", visible=False),
        labels_layer(organs, "organs", _colors(structures), metadata={"notes": notes}, opacity=0.35),
    ]


def light_layers() -> list[LayerData]:
    """Return light from a point in tissue, 1 J of it, and two organs (napari's sample-data contribution)."""
    dose, structures = light_dose(), light_structures()
    organs, _ = label_structures(structures, dose.affine, _shape(dose))
    light = dose_layer(dose, "light dose", gamma=0.4, metadata={"energy_j": 1.0})
    return [light, labels_layer(organs, "organs", dict(enumerate(_LIGHT_COLORS, start=1)), opacity=0.35)]


def _renamed(structure: ContourStructure) -> ContourStructure:
    """The body without the others in it has another name."""
    return dataclasses.replace(structure, name="body (rest)") if structure.name == "body" else structure


def _finer_grid(dose: Dose) -> tuple[npt.NDArray[np.float64], tuple[int, int, int]]:
    """Affine and shape of a grid that divides the voxels of a dose."""
    size = float(dose.voxel_sizes_mm[0]) / _FINE
    x, y, z = (_FINE * n for n in _shape(dose))
    return grid_affine(size, dose.affine[:3, 3] - size * (_FINE - 1) / 2), (x, y, z)


def _colors(structures: tuple[ContourStructure, ...]) -> dict[int, Color]:
    return {n: one.color for n, one in enumerate(structures, start=1) if one.color is not None}


def _shape(dose: Dose) -> tuple[int, int, int]:
    x, y, z = dose.values.shape
    return x, y, z
