"""A `Source` as MCX writes it; see `napari_gpubio.light.io.mcx.source`."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.io.mcx.domain import McxFrame
from napari_gpubio.light.model import Domain
from napari_gpubio.light.source import Source

Vector = npt.NDArray[np.float64]
_EVERY_SIDE, _COSINE_LAW = "_NaN_", "-_Inf_"  # the fourth number of Dir


def write_source(source: Source, domain: Domain, frame: McxFrame) -> dict[str, Any]:
    """Return Optode.Source: positions and directions along the axes of the volume, in voxels.

    Raises
    ------
    InvalidInput
        If MCX has no such source.
    """
    if source.kind not in _WRITERS:
        raise InvalidInput(f"MCX has no source like {source.kind!r}; it has {', '.join(_WRITERS)}")
    width, height, direction = domain.direction_to_grid(source.frame())
    center = domain.world_to_grid(source.position_mm) / frame.unit_mm
    placed = _Placed(source, frame.unit_mm, center, width, height, direction)
    fields = {"Type": source.kind, "Pos": center, "Dir": direction} | _WRITERS[source.kind](placed)
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in fields.items()}


@dataclass(frozen=True, eq=False)
class _Placed:
    """A source, its center in voxels, and its axes along those of the volume."""

    source: Source
    unit_mm: float
    center: Vector
    width: Vector
    height: Vector
    direction: Vector


def _no_size(placed: _Placed) -> dict[str, Any]:  # noqa: ARG001 - as the other writers
    return {}


def _cone(placed: _Placed) -> dict[str, Any]:
    return {"Param1": [math.radians(placed.source.half_angle_deg), 0.0, 0.0, 0.0]}


def _round(placed: _Placed) -> dict[str, Any]:
    return {"Param1": [placed.source.radius_mm / placed.unit_mm, 0.0, 0.0, 0.0]}


def _lambertian(placed: _Placed) -> dict[str, Any]:
    return _round(placed) | {"Type": "disk", "Dir": [*placed.direction.tolist(), _COSINE_LAW]}


def _line(placed: _Placed) -> dict[str, Any]:
    along = placed.direction * placed.source.length_mm / placed.unit_mm
    return {
        "Type": "slit",
        "Pos": placed.center - along / 2,
        "Dir": [*placed.direction.tolist(), _EVERY_SIDE],
        "Param1": [*along.tolist(), 0.0],
    }


def _rectangle(placed: _Placed) -> dict[str, Any]:
    width = placed.width * placed.source.width_mm / placed.unit_mm
    height = placed.height * placed.source.height_mm / placed.unit_mm
    rows, columns = (0, 0) if placed.source.pattern is None else placed.source.pattern.shape
    return {
        "Pos": placed.center - (width + height) / 2,
        "Param1": [*width.tolist(), columns],
        "Param2": [*height.tolist(), rows],
    }


def _pattern(placed: _Placed) -> dict[str, Any]:
    image = np.asarray(placed.source.pattern)
    pattern = {"Nx": image.shape[1], "Ny": image.shape[0], "Data": image.ravel().tolist()}
    return _rectangle(placed) | {"Pattern": pattern}


_WRITERS: Mapping[str, Callable[[_Placed], dict[str, Any]]] = {
    "pencil": _no_size,
    "isotropic": _no_size,
    "cone": _cone,
    "gaussian": _round,
    "disk": _round,
    "planar": _rectangle,
    "pattern": _pattern,
    "line": _line,
    "lambertian": _lambertian,
}
