"""What users draw in a viewer and name there: labels with names, closed shapes.

Whoever wrote them: this package, another plugin, or a person with napari's own tools.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.layer_files import STRUCTURES
from napari_gpubio.core.napari_io import carried, mm_per_unit
from napari_gpubio.core.space import viewer_to_world

Array = npt.NDArray[Any]
NAMED_BY = ("structure", "name")  # columns of a layer's table that name what it holds
CLOSED_SHAPES = ("polygon", "rectangle", "ellipse")
_CORNERS_OF_ELLIPSE = 128


class Drawn(NamedTuple):
    """A closed shape: its name, its corners (N, 3) in world mm, and its color (red, green, blue, 0 to 255)."""

    name: str
    points_mm: npt.NDArray[np.float64]
    color: tuple[int, int, int]


def label_names(layer: Any) -> dict[int, str]:
    """Return the names that a labels layer gives its labels: in its metadata, or in its table of features."""
    names = carried(layer, STRUCTURES) or layer.metadata.get(STRUCTURES)
    if isinstance(names, Mapping):
        return {int(label): str(name) for label, name in names.items()}
    table = getattr(layer, "features", None)
    column = next((c for c in NAMED_BY if table is not None and c in table and "index" in table), None)
    if column is None or table is None:
        return {}
    return {int(label): str(name) for label, name in zip(table["index"], table[column], strict=True) if int(label) > 0}


def closed_shapes(layer: Any) -> tuple[list[Drawn], int]:
    """Return the closed shapes of a shapes layer, named by its table or as the layer, and how many are open."""
    to_world, factors, found, left_out = _data_to_world(layer), np.array(mm_per_unit(layer)), list[Drawn](), 0
    shapes = layer.data
    rows = _names(layer)[: len(shapes)], layer.edge_color[: len(shapes)]  # napari may leave those of shapes that went
    for data, kind, name, color in zip(shapes, layer.shape_type, *rows, strict=True):
        if kind not in CLOSED_SHAPES:
            left_out += 1
            continue
        points = _ellipse(data) if kind == "ellipse" else np.asarray(data, np.float64)
        shown = (points @ to_world[:, :-1].T + to_world[:, -1])[:, -3:] * factors
        red, green, blue = (round(255 * float(part)) for part in np.asarray(color)[:3])
        found.append(Drawn(name, viewer_to_world(shown), (red, green, blue)))
    return found, left_out


def _data_to_world(layer: Any) -> Array:
    """What napari does to one point at a time, as a matrix for many, shape (N, N + 1)."""
    origin = np.asarray(layer.data_to_world(np.zeros(layer.ndim)), np.float64)
    columns = [np.asarray(layer.data_to_world(unit), np.float64) - origin for unit in np.eye(layer.ndim)]
    return np.column_stack([*columns, origin])


def _names(layer: Any) -> list[str]:
    """The name of each shape: from its table, or the layer's."""
    table = getattr(layer, "features", None)
    column = next((c for c in NAMED_BY if table is not None and c in table), None)
    if column is None or table is None:
        return [layer.name] * len(layer.data)
    return [str(name) if _is_name(name) else layer.name for name in table[column]]


def _is_name(name: Any) -> bool:
    return name is not None and not (isinstance(name, float) and math.isnan(name)) and str(name) != ""


def _ellipse(corners: npt.ArrayLike) -> Array:
    """A polygon in the box of an ellipse, whose four corners napari keeps."""
    a, b, c, d = np.asarray(corners, np.float64)
    center, half_u, half_v = (a + b + c + d) / 4, (b - a) / 2, (d - a) / 2
    angles = 2 * np.pi * np.arange(_CORNERS_OF_ELLIPSE) / _CORNERS_OF_ELLIPSE
    return np.asarray(center + np.cos(angles)[:, None] * half_u + np.sin(angles)[:, None] * half_v)
