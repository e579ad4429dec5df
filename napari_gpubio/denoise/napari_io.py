"""Layers as what the filter takes, and results as layers that lie where their input lies; without importing napari.

A layer holds the axes (n, z, y, x), the engine (x, y, z, n) in the order of the file; see `core.space`. A plane (y, x)
is a volume (x, y, 1).
"""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried, volume_of
from napari_gpubio.core.operations.layer_sources import array_of, layer_grid, place_of
from napari_gpubio.core.quantity import Quantity, quantity_of
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import layer_matrix, same_grid, voxel_sizes_mm, world_order
from napari_gpubio.core.world_aligned import WorldAligned

Array = npt.NDArray[Any]
_LOG = "log10"
# What a result has from its image: halves and the standard error of the image are not those of the result.
_KEPT = ("affine", "shape", "unit", "meaning", "factor", "hidden", "structures", "media", "outside_n", "scan")
_PLACE = ("scale", "translate", "rotate", "shear")


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LayerVolume(ShortRepr):
    """An image layer as it was when it was read; the layer itself may be gone since."""

    name: str
    key: str  # the layer's own, which no other has, whatever their names
    array: Any  # as its file has it, shape (X, Y, Z) or (X, Y, Z, N)
    is_log: bool  # whether it holds decimal logarithms of what is meant
    affine: Array  # voxel to world, mm, of the stored order
    order: tuple[int, int, int]  # of the stored axes in which they follow x, y, z: how the layer shows them
    is_oblique: bool  # shown along the world's axes, which are not those of the stored array
    place: dict[str, Any]  # keywords that put a napari layer where this one is
    display: dict[str, Any]  # keywords that draw a napari layer as this one is
    carried: dict[str, Any]
    quantity: Quantity | None = None  # what the values mean, as far as it is known

    @property
    def unit(self) -> str:
        """Of the linear values; empty if it is not known."""
        return "" if self.quantity is None else self.quantity.unit

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the stored array."""
        return tuple(self.array.shape)

    @property
    def voxel_size_mm(self) -> tuple[float, ...]:
        """Edge lengths of a voxel along the stored axes."""
        return tuple(map(float, voxel_sizes_mm(self.affine)))

    @property
    def is_plane(self) -> bool:
        """Whether the layer has two axes."""
        return len(self.place["scale"]) == 2

    def shown(self, array: Array) -> Any:
        """Return what a layer in this one's place holds of a stored array."""
        if self.is_plane:
            return array[..., 0].T
        if self.is_oblique:
            return WorldAligned(array, self.affine)
        return array.transpose(*self.order, *range(3, array.ndim)).T

    def stored_axis(self, axis: int) -> int:
        """The stored axis of the layer's axis, which is counted from its end: -3 is z, -2 is y, -1 is x."""
        return self.order[-1 - axis]

    def check_same_grid(self, layer: Any, what: str) -> None:
        """Raise InvalidInput unless a layer lies on the grid of this image."""
        affine, shape = layer_grid(layer)
        if not same_grid(shape, affine, self.shape, self.affine):
            raise InvalidInput(
                f"the {what} {layer.name!r} has shape {shape} or another place in space than the image {self.name!r}, "
                f"{self.shape[:3]}; use one on this image's grid"
            )


def layer_volume(layer: Any, *, is_log: bool) -> LayerVolume:
    """Read an image layer; nothing is copied."""
    affine, _ = layer_grid(layer)
    own = carried(layer, "affine")
    return LayerVolume(
        name=layer.name,
        key=key_of(layer),
        array=array_of(layer),
        is_log=is_log,
        affine=np.asarray(affine),
        order=(0, 1, 2) if own is None else world_order(np.asarray(own)),
        is_oblique=isinstance(layer.data, WorldAligned),
        place=place_of(layer),
        display={
            "colormap": layer.colormap,
            "contrast_limits": tuple(layer.contrast_limits),
            "gamma": layer.gamma,
            "interpolation2d": layer.interpolation2d,
        },
        carried={name: value for name in _KEPT if (value := carried(layer, name)) is not None},
        quantity=quantity_of(layer),
    )


def key_of(layer: Any) -> str:
    """Return the identifier of a layer, which no other has."""
    return str(layer.unique_id)


def mask_of(layer: Any) -> npt.NDArray[np.bool_]:
    """Return where a volume or a plane is not 0, shape (X, Y, Z) or (X, Y, 1)."""
    return np.asarray((array_of(layer) if layer.ndim == 2 else volume_of(layer)) != 0)


def place_of_part(place: dict[str, Any], first: tuple[int, ...]) -> dict[str, Any]:
    """Keywords of a layer that holds a part which begins at an index (in the layer's axes)."""
    ndim = len(first)
    shift = np.eye(ndim + 1)
    shift[:ndim, ndim] = first
    matrix = layer_matrix(place, ndim) @ shift
    return {"affine": matrix, "axis_labels": place["axis_labels"], "units": place["units"]}
