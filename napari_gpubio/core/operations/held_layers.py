"""Layers that no file holds and no operation made, such as markers, drawn regions and surfaces, as operations.

Such a layer is kept as napari describes it: its data, its place and its look, as plain values and arrays. Nothing else
is written, and nothing else is read.
"""

import enum
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.archives import holds, opened_npz
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.foreign import json_of
from napari_gpubio.core.layer_files import RECORD, is_colormap, plain_colormap
from napari_gpubio.core.napari_io import KEY, LayerData, LayerReader, Paths, own_units, read_each, reader_if
from napari_gpubio.core.operations.arrays import is_read_later, size_of
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import Held, Output, Reading
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import part

Array = npt.NDArray[Any]
_COMMON = (
    "data", "affine", "axis_labels", "blending", "metadata", "opacity", "projection_mode", "rotate", "scale", "shear",
    "translate", "units", "visible",
)  # fmt: skip
_DRAWN = ("features", "ndim", "text", "face_color", "edge_width", "edge_color", "shape_type", "z_index")
_ATTRIBUTES: dict[str, tuple[str, ...]] = {  # by the types of layers; the names are napari's
    "points": (
        "features", "ndim", "text", "size", "symbol", "shown", "shading", "antialiasing", "canvas_size_limits",
        "face_color", "border_color", "border_width", "border_width_is_relative",
    ),
    "shapes": _DRAWN,
    "surface": (
        "colormap", "contrast_limits", "features", "gamma", "shading", "texcoords", "texture", "vertex_colors",
        "wireframe",
    ),
    "vectors": ("features", "ndim", "length", "edge_width", "edge_color", "vector_style"),
    "tracks": (
        "features", "graph", "color_by", "colormap", "tail_width", "tail_length", "head_length",
        "hide_completed_tracks",
    ),
    "image": (
        "rgb", "colormap", "contrast_limits", "gamma", "rendering", "interpolation2d", "interpolation3d", "attenuation",
        "iso_threshold",
    ),
}  # fmt: skip
_COLORMAP = "colormap"  # which is plain in a way of its own
_ARRAY, _MAP = "array", "map"  # of what JSON does not have: arrays by their numbers, and pairs of names and values
_FEW, _MOST_ARRAYS, _MAX_TEXT, _MAX_BYTES, _DEEPEST, _SHOWN = 16, 1000, 8 << 20, 1 << 30, 8, 60
_UNIT = re.compile(r"[^\W\d]{1,40}")
_TEMPLATE = re.compile(r"([^{}]|\{\w{1,60}(:\.?\d{0,2}[a-z%]?)?\})*")  # of texts beside points, of their columns
_NUMBERS = "biuf"
_LAYERS = "layers"  # of a file, as JSON


class _NotPlain(Exception):
    """A value is of a kind that is not kept."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerParts:
    """A layer as it is written: plain values by napari's names of attributes, and their arrays.

    Parameters
    ----------
    kind
        ``points``, ``shapes``, ``surface``, ``vectors``, ``tracks`` or ``image``.
    values
        What JSON can hold; in the place of an array stands its number.
    arrays
        The arrays.
    name
        Of the layer.
    """

    kind: str
    values: Mapping[str, Any]
    arrays: tuple[Any, ...]
    name: str = "layer"

    def output(self) -> Output[Any]:
        """Return the operation that holds them; arrays are looked through and copied, which takes a moment."""
        return HeldLayer.of(self).output()


def parts_of(layer: Any) -> LayerParts | None:
    """Return the parts of a layer, as `parts_of_data`; None also of one at several resolutions."""
    if layer._type_string not in _ATTRIBUTES or getattr(layer, "multiscale", False):
        return None
    data, attributes, kind = layer.as_layer_data_tuple()
    return parts_of_data(data, {**attributes, "units": own_units(layer)}, kind)


def parts_of_data(data: Any, attributes: Mapping[str, Any], kind: str) -> LayerParts | None:
    """Return the parts of a layer as napari has it; None if it is of another type, too large, or no plain array.

    Of its metadata what is plain is kept, so that panels know it again; not so the record of what it does not show.
    """
    writer, found = _Writer(), dict[str, Any]()
    try:
        found["data"] = writer.data(data, kind)
    except _NotPlain:
        return None
    found["metadata"] = writer.metadata(attributes.get("metadata", {}))
    for name in (*_COMMON, *_ATTRIBUTES[kind]):
        if name in found or attributes.get(name) is None:
            continue
        value = attributes[name]
        plain = plain_colormap(value) if name == _COLORMAP else writer.plain_or_none(value)
        if plain is not None and _why_not(name, plain) is None:
            found[name] = plain
    is_small = len(json.dumps(found)) <= _MAX_TEXT and len(writer.arrays) <= _MOST_ARRAYS
    if not is_small or sum(map(size_of, writer.arrays)) > _MAX_BYTES:
        return None
    return LayerParts(kind=kind, values=found, arrays=tuple(writer.arrays), name=str(attributes["name"]))


class _Writer:
    """Makes plain values of what napari has, and gathers the arrays."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []

    def data(self, data: Any, kind: str) -> Any:
        """The data of a layer; shapes as all their corners, and how many each has."""
        if kind == "shapes":
            corners = np.concatenate(data) if len(data) else np.empty((0, 2))
            return [self._array(corners), self._array(np.array([len(one) for one in data], np.int64))]
        return [self._array(one) for one in data] if kind == "surface" else self._array(data)

    def metadata(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """What is plain of metadata, and of what layers carry."""
        ours = metadata.get(KEY)
        kept = {name: self.plain_or_none(value) for name, value in metadata.items() if name != KEY}
        if isinstance(ours, Mapping):
            known = {name: self.plain_or_none(value) for name, value in ours.items() if name != RECORD}
            kept[KEY] = {_MAP: [[name, value] for name, value in known.items() if value is not None]}
        return {_MAP: [[name, value] for name, value in kept.items() if value is not None and isinstance(name, str)]}

    def plain_or_none(self, value: Any) -> Any:
        before = len(self.arrays)
        try:
            return self._plain(value)
        except _NotPlain:
            del self.arrays[before:]
            return None

    def _array(self, array: Any) -> dict[str, int]:
        found = array if is_read_later(array) else np.asarray(array)
        if found.dtype.kind not in _NUMBERS:
            raise _NotPlain
        self.arrays.append(found)
        return {_ARRAY: len(self.arrays) - 1}

    def _plain(self, value: Any, depth: int = 0) -> Any:
        if depth > _DEEPEST:
            raise _NotPlain
        value = value.value if isinstance(value, enum.Enum) else value
        if isinstance(value, np.generic | np.ndarray):
            if value.ndim and value.dtype.kind in _NUMBERS and (value.size > _FEW or not np.isfinite(value).all()):
                return self._array(value)
            value = value.tolist()
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list | tuple):
            return [self._plain(one, depth + 1) for one in value]
        if isinstance(value, Mapping):
            return {_MAP: [[self._plain(key), self._plain(one, depth + 1)] for key, one in value.items()]}
        if hasattr(value, "columns"):  # a table
            return {_MAP: [[str(name), self._plain(np.asarray(value[name]), depth + 1)] for name in value.columns]}
        if hasattr(value, "dimensionality"):  # a unit
            return str(value)
        raise _NotPlain


def _why_not(name: str, value: Any) -> str | None:
    """Why an attribute may not be written, and is not read."""
    if name == "units" and not (
        isinstance(value, list) and all(isinstance(u, str) and _UNIT.fullmatch(u) for u in value)
    ):
        return "give the name of a unit for each axis"
    if name == _COLORMAP and not (isinstance(value, str) or is_colormap(value)):
        return "give the name of a colormap, or its colors"
    if name == "text" and not all(_TEMPLATE.fullmatch(one) for one in _texts(value)):
        return "give texts with names of columns in braces"
    return None


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        return [text for one in (value.values() if isinstance(value, dict) else value) for text in _texts(one)]
    return [value] if isinstance(value, str) else []


# -- the operation ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class HeldLayer(Reading, verb="held-layer", makes={"layer": LayerParts}):
    """A layer that no file holds, such as markers, drawn shapes, and surfaces, with its place and its look."""

    kind: str = param("points", "Kind", "Of the layer.", choices=tuple(_ATTRIBUTES))
    values: str = param("", "Values", "JSON: data, place and look, with arrays by their numbers.")
    arrays: tuple[Held, ...] = part("Arrays", "That the values name.")
    name: str = param("layer", "Name", "Of the layer.", compare=False)

    @classmethod
    def of(cls, parts: LayerParts, store: Store = STORE) -> "HeldLayer":
        """Return the operation of a layer as it is now, whose arrays are copied."""
        return cls(
            kind=parts.kind,
            values=json.dumps(parts.values),
            arrays=tuple(map(store.hold, parts.arrays)),
            name=parts.name,
        )

    def check(self) -> None:
        """Raise InvalidInput if the values are not those of such a layer."""
        _checked_values(self.kind, self.values, self.arrays)

    def read(self, data: Any) -> LayerParts:
        """Take it from where it is held."""
        made = LayerParts(kind=self.kind, values=json_of(self.values, self.name), arrays=data.arrays, name=self.name)
        layer_data(made)  # refuses what is none
        return made


def _checked_values(kind: str, text: str, arrays: Sequence[Any]) -> dict[str, Any]:
    """The values of a layer from their text; InvalidInput if they are not those of such a layer."""
    if len(text) > _MAX_TEXT or len(arrays) > _MOST_ARRAYS:
        raise InvalidInput(f"a layer has up to {_MAX_TEXT:,} characters and {_MOST_ARRAYS:,} arrays; save it anew")
    values = json_of(text, "the text of a layer")
    if not isinstance(values, dict):
        raise InvalidInput(f"values is {text[:_SHOWN]!r}; it must be an object of JSON")
    if strange := [name for name in values if name not in (*_COMMON, *_ATTRIBUTES[kind])]:
        raise InvalidInput(f"a layer of {kind} has no {strange[0][:_SHOWN]!r}; update napari-gpubio")
    if "data" not in values:
        raise InvalidInput("the layer has no data; save it again")
    for name, value in values.items():
        if (why := _why_not(name, value)) is not None:
            raise InvalidInput(f"{name} of the layer is {str(value)[:_SHOWN]}; {why}")
        _decoded(name, value, arrays)
    return values


def layer_data(parts: LayerParts) -> LayerData:
    """Return napari's data of a layer; InvalidInput if they do not fit each other."""
    arrays = [one if is_read_later(one) else np.array(one) for one in parts.arrays]  # which users may change
    found = {name: _decoded(name, value, arrays) for name, value in parts.values.items()}
    data = _checked_data(found.pop("data"), parts.kind)
    return data, {**found, "name": parts.name}, parts.kind


def _decoded(where: str, value: Any, arrays: Sequence[Any], depth: int = 0) -> Any:
    """A value as napari takes it."""
    if where == _COLORMAP:
        return value
    if depth > 2 * _DEEPEST:
        raise InvalidInput(f"{where} is nested too deep; save the layer again")
    if isinstance(value, list):
        return [_decoded(where, one, arrays, depth + 1) for one in value]
    if not isinstance(value, dict):
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidInput(f"{where} is {value}; give a finite number")
        return value
    number, pairs = value.get(_ARRAY), value.get(_MAP)
    if set(value) == {_ARRAY} and type(number) is int and 0 <= number < len(arrays):
        return arrays[number]
    if set(value) != {_MAP} or not isinstance(pairs, list) or not all(map(_is_pair, pairs)):
        raise InvalidInput(f"{where} has {str(value)[:_SHOWN]}; it must be a map, or one of {len(arrays)} arrays")
    return {key: _decoded(where, one, arrays, depth + 1) for key, one in pairs}


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str | int)


def _checked_data(data: Any, kind: str) -> Any:
    """The data of a layer as napari takes them."""
    each = data if isinstance(data, list) else [data]
    if not each or not all(hasattr(one, "dtype") and one.dtype.kind in _NUMBERS for one in each):
        raise InvalidInput(f"the data of the layer of {kind} are no arrays of numbers; save it again")
    shapes = [one.shape for one in each]
    first = shapes[0]
    fits = {
        "points": len(each) == 1 and len(first) == 2,
        "shapes": len(each) == 2 and len(first) == 2 and len(shapes[1]) == 1 and _are_counts(each[1], first[0]),
        "surface": len(each) in (2, 3) and len(first) == 2 and len(shapes[1]) == 2 and _are_faces(each[1], first[0]),
        "vectors": len(each) == 1 and len(first) == 3 and first[1] == 2,
        "tracks": len(each) == 1 and len(first) == 2 and first[1] >= 4,
        "image": len(each) == 1 and len(first) > 0,
    }[kind]
    if not fits:
        raise InvalidInput(f"the data of the layer of {kind} have shapes {shapes}, which do not fit; save it again")
    if kind == "shapes":
        return np.split(each[0], np.cumsum(each[1])[:-1]) if len(each[1]) else []
    return tuple(each) if kind == "surface" else each[0]


def _are_counts(counts: Array, total: int) -> bool:
    return counts.dtype.kind in "iu" and bool(np.all((counts >= 0) & (counts <= total))) and int(counts.sum()) == total


def _are_faces(faces: Array, vertices: int) -> bool:
    return faces.dtype.kind in "iu" and (not faces.size or (faces.min() >= 0 and faces.max() < vertices))


def layers_of_parts(parts: LayerParts, output: Output[Any], name: str, part: Any = None) -> list[LayerData]:  # noqa: ARG001
    """Return the layer under a name; see `Kind.shows`."""
    data, keywords, kind = layer_data(parts)
    return [(data, {**keywords, "name": name}, kind)]


register_kind(
    LayerParts,
    counts=lambda one: (one.kind, json.dumps(one.values, sort_keys=True), one.arrays),
    shows="napari_gpubio.core.operations.held_layers:layers_of_parts",
)


# -- files ------------------------------------------------------------------------------------------------------------


def write_layers(path: str, layers: Sequence[tuple[Any, dict[str, Any], str]]) -> list[str]:
    """Write points, shapes, surfaces, vectors and tracks with their places and their looks (napari's writer).

    Parameters
    ----------
    path
        Ends in ``.npz``.
    layers
        Data, attributes and kind of each, as napari gives them.

    Raises
    ------
    InvalidInput
        If a layer is too large, or the file cannot be written.
    """
    held, about = dict[str, Any](), list[dict[str, str]]()
    for number, (data, attributes, kind) in enumerate(layers):
        parts = parts_of_data(data, attributes, kind)
        if parts is None:
            raise InvalidInput(f"the layer {attributes['name']!r} is too large for one file; save parts of it")
        about.append({"kind": parts.kind, "name": parts.name, "values": json.dumps(parts.values)})
        held |= {f"{number}_{n}": np.asarray(one) for n, one in enumerate(parts.arrays)}
    with atomic_write(Path(path)) as file, file.open("wb") as stream:
        np.savez_compressed(stream, **{_LAYERS: np.array(json.dumps(about, ensure_ascii=False)), **held})
    return [path]


def get_reader(path: Paths) -> LayerReader | None:
    """Return the reader of what `write_layers` wrote (napari's reader), or None for other files."""
    return reader_if(lambda one: holds(one, _LAYERS), path, lambda paths: read_each(paths, _read_file))


def _read_file(path: Path) -> list[LayerData]:
    with opened_npz(path) as archive:
        archive.check_size()
        rows = json_of(str(archive.array(_LAYERS)), path.name)
        if not isinstance(rows, list) or not all(map(_is_row, rows)):
            raise InvalidInput(f"its layers are {str(rows)[:_SHOWN]}; save them again")
        found = list[LayerData]()
        for number, row in enumerate(rows):
            names = [name for name in archive.names if name.partition("_")[0] == str(number)]
            arrays = tuple(archive.array(f"{number}_{n}") for n in range(len(names)))
            values = _checked_values(row["kind"], row["values"], arrays)
            found.append(layer_data(LayerParts(kind=row["kind"], values=values, arrays=arrays, name=row["name"])))
        return found


def _is_row(row: Any) -> bool:
    is_plain = isinstance(row, dict) and {*row} == {"kind", "name", "values"} and all(map(_is_text, row.values()))
    return is_plain and row["kind"] in _ATTRIBUTES


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
