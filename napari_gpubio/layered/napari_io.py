"""Layered results as napari layers, without importing napari: a picture over r and z, and where the layers lie in it.

The picture is mirrored in r, from -R to R, with z downwards, both in mm; the beam comes in at (0, 0). Values span
decades and are shown as their decimal logarithm. Where nothing is known they are NaN, which napari draws transparent:
bins that no light reached, fluence where nothing absorbs, and the outermost bins where they hold what lies beyond.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.napari_io import KEY, LayerData, carried_as
from napari_gpubio.core.quantity import Quantity, log10_of
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.quantities import quantity_rz, quantity_unit
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.optics.estimates import MAX_ERROR, PER_PHOTON, FluenceUnit
from napari_gpubio.optics.pictures import DECADES, decade_limits, log_name

Array = npt.NDArray[Any]
AXES, AXIS_UNITS = ("z", "r"), ("mm", "mm")
_NAMED = 0.06  # a layer that fills less of the picture is not named in it


def picture_layer(
    result: LayeredResult,
    name: str,
    *,
    quantity: str = "fluence",
    unit: FluenceUnit = PER_PHOTON,
    hide_uncertain: bool = False,
    decades: int = DECADES,
    **keywords: Any,
) -> LayerData:
    """Return the image layer, shape (depth, 2 radial), of a quantity's decimal logarithm; the result travels with it.

    Parameters
    ----------
    result
        What a simulation gave, complete or not, of a pencil beam or convolved.
    name
        Beginning of the layer's name, which ends in the quantity and its unit.
    quantity
        ``fluence`` or ``absorbed`` (energy per volume).
    unit
        Of fluence: per launched photon, or by the beam's power or energy.
    hide_uncertain
        Hide bins whose relative standard error is more than 50 %, where it is known.
    decades
        How many are shown, below the highest value rounded up to a whole decade.
    **keywords
        What else the layer is given.

    Raises
    ------
    InvalidInput
        If there is no such quantity, or the result has no absorption map.
    """
    value, error = quantity_rz(result, quantity, unit)
    shown = log10_of(value)
    if hide_uncertain:
        shown[error > MAX_ERROR * value] = np.nan
    units = quantity_unit(quantity, unit)
    carries = {
        "result": result, "quantity": Quantity(units.word, units.name, "log10"), "unit": units.name,
        "meaning": units.meaning, "factor": units.factor,
        "parameters": dict(result.parameters),
    }  # fmt: skip
    given = {
        "name": log_name(name, units.word, units.name),
        **_place(result.settings),
        "contrast_limits": decade_limits(shown, decades),
        "colormap": "inferno",
        "metadata": {KEY: carries},
    }
    return mirrored(shown), {**given, **keywords}, "image"


def mirrored(values: Array) -> Array:
    """Turn values over (r, z) into an image over (z, r) with r from -R to R."""
    return np.concatenate([values[::-1], values]).T


def border_layers(medium: LayeredMedium, settings: LayeredSettings) -> list[LayerData]:
    """Return lines where the layers meet, and the names of those that are thick enough in the picture to be named."""
    depth, radius = settings.depth_bins * settings.dz_mm, settings.radial_bins * settings.dr_mm
    tops = medium.tops_mm
    lines = np.array([[[z, -radius], [0.0, 2 * radius]] for z in tops if z <= depth]).reshape(-1, 2, 2)
    middles = (np.minimum(tops[1:], depth) + tops[:-1]) / 2
    named = [i for i, bottom in enumerate(tops[1:]) if min(bottom, depth) - tops[i] > _NAMED * depth]
    both = {"axis_labels": AXES, "units": AXIS_UNITS}
    line_keywords = {
        "name": "layer borders", **both, "edge_color": "white", "edge_width": depth / 500, "opacity": 0.6,
        "vector_style": "line",
    }  # fmt: skip
    text = {"string": "{name}", "size": 9, "color": "white", "anchor": "center"}
    name_keywords = {
        "name": "layer names", **both, "size": depth / 1e4, "features": {"name": [medium.layer_name(i) for i in named]},
        "text": text, "face_color": "transparent", "border_color": "transparent",
    }  # fmt: skip
    places = np.array([[middles[i], -0.75 * radius] for i in named]).reshape(-1, 2)
    return [(lines, line_keywords, "vectors"), (places, name_keywords, "points")]


def result_of(layer: Any) -> LayeredResult | None:
    """Return the result that a picture carries, or None."""
    return carried_as(layer, "result", LayeredResult)


def _place(settings: LayeredSettings) -> dict[str, Any]:
    """Where a picture lies: a layer's keywords."""
    s = settings
    return {
        "scale": (s.dz_mm, s.dr_mm),
        "translate": (s.dz_mm / 2, -(s.radial_bins - 0.5) * s.dr_mm),
        "axis_labels": AXES,
        "units": AXIS_UNITS,
    }
