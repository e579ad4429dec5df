"""Where the voxels of a napari layer are, in mm, whatever unit and order of axes it has; without importing napari."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.napari_io import carried, grid_of
from napari_gpubio.core.space import layer_matrix, world_order

_MM = "mm"


def affine_mm(layer: Any) -> npt.NDArray[np.float64]:
    """Return index (X, Y, Z) to world mm of a layer, whatever unit of length it is in.

    A layer whose unit is none of length (napari's default, pixels) is taken to be in mm.
    """
    affine, _ = grid_of(layer)
    if carried(layer, "affine") is not None:
        return np.asarray(affine, np.float64)
    return np.asarray(np.diag([*mm_per_unit(layer)[::-1], 1.0]) @ affine, np.float64)


def mm_per_unit(layer: Any) -> tuple[float, float, float]:
    """How many mm a unit of the layer's world is along z, y, x."""
    z, y, x = (_mm(unit) for unit in tuple(layer.units)[-3:])
    return z, y, x


def has_length_unit(layer: Any) -> bool:
    """Whether a layer says how long its voxels are: ours do, others by a unit other than pixels."""
    return carried(layer, "affine") is not None or all(_is_length(unit) for unit in tuple(layer.units)[-3:])


def _mm(unit: Any) -> float:
    return float((1.0 * unit).to(_MM).magnitude) if _is_length(unit) else 1.0


def _is_length(unit: Any) -> bool:
    return hasattr(unit, "is_compatible_with") and bool(unit.is_compatible_with(_MM))


def stored_axes(layer: Any) -> tuple[int, int, int]:
    """Return which of a layer's last three axes (0 is z) each axis of its file's array is."""
    own = carried(layer, "affine")
    order = (0, 1, 2) if own is None else tuple(np.argsort(world_order(np.asarray(own))))
    i, j, k = (2 - int(axis) for axis in order)
    return i, j, k


def index_to_world(layer: Any) -> npt.NDArray[np.float64]:
    """Return index along a layer's last three axes (z, y, x) to world mm (x, y, z), 4 x 4."""
    matrix = affine_mm(layer)
    turned = matrix.copy()
    for stored, axis in enumerate(stored_axes(layer)):
        turned[:, axis] = matrix[:, stored]
    return turned


def place_of(layer: Any) -> dict[str, Any]:
    """Keywords that put a volume with a layer's last three axes where the layer is."""
    attributes = {name: getattr(layer, name) for name in ("scale", "rotate", "shear", "translate")}
    matrix = layer_matrix({**attributes, "affine": layer.affine.affine_matrix}, layer.ndim)
    part = np.eye(4)
    part[:3, :3], part[:3, 3] = matrix[-4:-1, -4:-1], matrix[-4:-1, -1]
    return {"affine": part, "axis_labels": tuple(layer.axis_labels)[-3:], "units": tuple(layer.units)[-3:]}
