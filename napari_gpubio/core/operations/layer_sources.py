"""Layers as values of operations, without importing napari: what a layer shows, and where that comes from.

A layer holds the axes (n, z, y, x), a volume (x, y, z, n) in the order of its file; see `core.space`. A plane (y, x) is
a volume (x, y, 1).
"""

import dataclasses
import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import (
    KEY,
    LayerData,
    carried,
    grid_of,
    own_units,
    series_layer,
    stored_array,
    volume_layer,
)
from napari_gpubio.core.operations.files import output_of_record, record_of_output
from napari_gpubio.core.operations.kinds import kind_registered
from napari_gpubio.core.operations.records import Output, words_of
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.operations.volumes import Volume, is_same, source_of
from napari_gpubio.core.quantity import Quantity, guide_of, halves_of, quantity_metadata, quantity_of
from napari_gpubio.core.space import layer_matrix

Array = npt.NDArray[Any]
PART = "picture"  # under which a layer carries which of several pictures of a result it is
PLANE = "plane"  # of a volume, that which has two axes
_LOG = "log10"
_PLACE = ("scale", "translate", "rotate", "shear")
_finders: dict[str, str] = {}  # functions by what layers carry


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LayerSource:
    """A layer as operations take it, and the file that it was read from, as far as that is known."""

    volume: Volume
    path: Path | None
    record: Output[Any] | None = None  # what it was made by, if it still shows that

    def output(self, store: Store = STORE) -> Output[Any]:
        """Return what it comes from: the operation that made it, a file, or its array, which is copied.

        That takes a moment: the file is read, or the array looked through.
        """
        value = None if self.record is None else store.last_value(self.record)
        if self.record is not None and isinstance(value, Volume) and is_same(value, self.volume):
            return self.record
        return source_of(self.volume, self.path, store)


def layer_source(layer: Any, array: Any = None) -> LayerSource:
    """Read where a layer comes from; ``array``: what is meant by it, if that is not what it stores."""
    affine, _ = layer_grid(layer)
    values, quantity = np.asarray(array_of(layer) if array is None else array), quantity_of(layer)
    if quantity is None and holds_log(layer):
        quantity = Quantity("values", scale="log10")
    halves, guide = halves_of(layer), guide_of(layer)
    path = carried(layer, "path") or layer.source.path
    volume = Volume(
        array=values,
        affine=np.asarray(affine),
        name=layer.name,
        quantity=quantity,
        halves=halves if halves is not None and halves.shape[1:] == values.shape else None,
        guide=guide if guide is not None and guide.shape == values.shape else None,
    )
    return LayerSource(volume, None if path is None else Path(path), record_of(layer) if array is None else None)


def record_of(layer: Any) -> Output[Any] | None:
    """Return the result that a layer says it shows, or None."""
    return output_of_record(carried(layer, RECORD))


def register_finder(names: Iterable[str], where: str) -> None:
    """Tell how to find out what makes a layer that carries something under one of these names, but no record.

    Parameters
    ----------
    names
        Of what such layers carry.
    where
        The function, as ``module:name``, so that nothing of napari is imported before. It takes the layer in the GUI
        thread, and returns None, or what returns the `Output` in a worker, which may read the layer again.
    """
    _finders.update(dict.fromkeys(names, where))


def finder_of(layer: Any) -> Callable[[], Output[Any]] | None:
    """Read a layer whose engine knows what makes it, in the GUI thread; returns what finds that out in a worker."""
    where = next((where for name, where in _finders.items() if carried(layer, name) is not None), None)
    if where is None:
        return None
    module, _, function = where.partition(":")
    found: Callable[[], Output[Any]] | None = getattr(importlib.import_module(module), function)(layer)
    return found


def layer_of(volume: Volume, output: Output[Any], **keywords: Any) -> LayerData:
    """Return the layer of a volume or a series that is a result."""
    metadata: dict[str, Any] = {RECORD: record_of_output(output)}
    if volume.quantity is not None:
        metadata |= quantity_metadata(volume.quantity, halves=volume.halves, guide=volume.guide)
    array = volume.array if volume.array.ndim > 2 else volume.array[..., np.newaxis]
    keywords["metadata"] = metadata
    if array.ndim == 3:
        return volume_layer(array, volume.affine, volume.name, **keywords)
    return series_layer(array, volume.affine, volume.name, "volume", **keywords)


def keep_shown(layer: LayerData, output: Output[Any], device: str) -> None:
    """Let the layer of a volume carry what made it on a kind of device, and keep that with the layer's own array."""
    data, keywords, _ = layer
    shown = SimpleNamespace(data=data, metadata=keywords["metadata"])
    shown.metadata[KEY][RECORD] = record_of_output(output)
    volume = Volume(
        array=stored_array(shown), affine=carried(shown, "affine"), name=keywords["name"], quantity=quantity_of(shown),
        halves=halves_of(shown), guide=guide_of(shown),
    )  # fmt: skip
    STORE.keep(output.of, device, volume)


def layers_of_volume(volume: Volume, output: Output[Any], name: str, part: Any = None) -> list[LayerData]:
    """Return the layer of a volume under a name, whatever picture of another result it was; see `Kind.shows`."""
    named = dataclasses.replace(volume, name=name)
    return [_plane_layer(named, output) if part == PLANE else layer_of(named, output)]


def _plane_layer(plane: Volume, output: Output[Any]) -> LayerData:
    """The layer of a plane, of two axes, in the place from which `layer_grid` has that of a volume."""
    _, keywords, kind = layer_of(dataclasses.replace(plane, affine=np.eye(4)), output)
    matrix = np.eye(3)
    matrix[:2, :2], matrix[:2, 2] = plane.affine[1::-1, 1::-1], plane.affine[1::-1, 3]
    about = {name: one for name, one in keywords["metadata"][KEY].items() if name not in ("affine", "shape")}
    axes = {name: keywords[name][1:] for name in ("units", "axis_labels")}
    keywords = {"name": plane.name, "affine": matrix, **axes, "metadata": {KEY: about}}
    return plane.array.reshape(plane.array.shape[:2]).T, keywords, kind


def check_shows(output: Output[Any]) -> None:
    """Raise InvalidInput if a result is shown in no layer."""
    if not kind_registered(output.kind).shows:
        raise InvalidInput(f"{words_of(output.kind)} is shown in no layer; open its panel, and run it there")


def shown_as(value: Any, output: Output[Any], name: str, part: Any = None) -> list[LayerData]:
    """Return the layers of a result, as its kind has them; InvalidInput if it is shown in no layer.

    Parameters
    ----------
    value, output
        The result, and what made it.
    name
        Of the layer.
    part
        Which of several pictures of it, as a layer carries that under `PART`; None where there is but one.
    """
    check_shows(output)
    module, _, function = kind_registered(type(value)).shows.partition(":")
    parts = () if part is None else (part,)
    made: list[LayerData] = getattr(importlib.import_module(module), function)(value, output, name, *parts)
    return made


def array_of(layer: Any) -> Any:
    """Return the array of a layer as its file has it, of a plane (X, Y, 1)."""
    return layer.data.T[..., np.newaxis] if layer.ndim == 2 else stored_array(layer)


def layer_grid(layer: Any) -> tuple[Array, tuple[int, ...]]:
    """Voxel to world in mm, and shape; a plane is as thick as its pixels are long."""
    if layer.ndim != 2:
        return grid_of(layer)
    matrix = layer_matrix(place_of(layer), 2)
    affine = np.eye(4)
    affine[:2, :2], affine[:2, 3] = matrix[1::-1, 1::-1], matrix[1::-1, 2]
    affine[2, 2] = max(np.linalg.norm(matrix[:2, :2], axis=0))
    return affine, (*layer.data.shape[::-1], 1)


def holds_log(layer: Any) -> bool:
    """Whether a layer holds decimal logarithms, by what it carries; where that is nothing, by its name."""
    quantity = quantity_of(layer)
    return _LOG in layer.name if quantity is None else quantity.is_log


def place_of(layer: Any) -> dict[str, Any]:
    """Keywords that put another layer of the same shape where this one is."""
    place = {name: getattr(layer, name) for name in _PLACE}
    place["affine"] = np.array(layer.affine.affine_matrix)
    return {**place, "axis_labels": layer.axis_labels, "units": own_units(layer)}
