"""Volumes as napari layers and back, without importing napari.

A layer tuple is ``(data, keyword arguments, kind)``. What an engine needs again later travels in the layer's metadata
under ``KEY``: the volume's true affine and shape always, and whatever the engine adds (a scan, a result).
"""

import functools
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import NOTES, ReadingNote, grouped, noted, reading
from napari_gpubio.core.space import is_oblique, layer_matrix, to_layer, world_order
from napari_gpubio.core.volumes import has_orientation
from napari_gpubio.core.world_aligned import WorldAligned

Array = npt.NDArray[Any]
LayerData = tuple[Any, dict[str, Any], str]
Box = tuple[slice, slice, slice]
Reader = Callable[[Path], tuple[Array, Array]]
Paths = str | Sequence[str]
LayerReader = Callable[[Paths], list[LayerData]]
Kind = TypeVar("Kind")
KEY = "napari_gpubio"
FOLLOWS = "follows"  # marks a layer that a panel draws anew as its inputs, the slice or the frame on screen change
STREAMLINES_KEY = "streamlines"  # where the settings of a streamlines layer travel in the metadata of tracks
ORIENTED = "is_oriented"  # where a layer's metadata tell whether its place is known, if its file does not tell it
AXES = ("z", "y", "x")
_lent_units: WeakKeyDictionary[Any, tuple[tuple[Any, ...], ...]] = WeakKeyDictionary()  # own and lent ones, by layer
_being_lent: WeakSet[Any] = WeakSet()
_here = threading.local()  # whether this thread holds notes back
IN_MM: dict[str, Any] = {"units": ("mm",) * 3, "axis_labels": AXES}  # keywords of a layer in the viewer's world


def volume_layer(array: Array, affine: Array, name: str, *, kind: str = "image", **keywords: Any) -> LayerData:
    """Return the layer of a volume (X, Y, Z) or of a color volume (X, Y, Z, 3).

    Parameters
    ----------
    array
        The volume, indexed as its file is.
    affine
        Voxel to world, mm.
    name
        Of the layer.
    kind
        ``"image"`` or ``"labels"``.
    **keywords
        What else the layer is given; ``metadata`` is what it carries under ``KEY``.
    """
    colors = array.ndim == 4
    data, place = _shown(array, affine, linear=kind == "image", colors=colors)
    return (
        data,
        {"name": name, **IN_MM, **place, **_carrying(array, affine, keywords)},
        kind,
    )


def series_layer(array: Array, affine: Array, name: str, first_axis: str, **keywords: Any) -> LayerData:
    """Return the image layer of volumes (X, Y, Z, N, ...), whose last axis comes first; the rest as `volume_layer`."""
    data, place = _shown(array, affine, linear=True, colors=False)
    more = array.ndim - len(AXES)
    names = [f"{first_axis} {n}" for n in range(more, 1, -1)] + [first_axis]  # napari wants each name once
    axes = {"units": (*["pixel"] * more, *IN_MM["units"]), "axis_labels": (*names, *AXES)}
    return data, {"name": name, **axes, **place, **_carrying(array, affine, keywords)}, "image"


def _shown(array: Array, affine: Array, *, linear: bool, colors: bool) -> tuple[Any, dict[str, Any]]:
    """What a layer holds of a volume, a series or colors, and the keywords that put it where it lies."""
    if is_oblique(affine):
        aligned = WorldAligned(array, affine, linear=linear, colors=colors)
        first = (1.0,) * (aligned.ndim - 3 - colors)
        return aligned, {
            "scale": (*first, *aligned.scale),
            "translate": (*np.zeros(len(first)), *aligned.translate),
        } | _contrast_limits(array, linear=linear, colors=colors)
    order = world_order(affine)
    shown = array.transpose(*order, *range(3, array.ndim))
    matrix = to_layer(affine[:, [*order, 3]])
    if colors:
        return shown.transpose(2, 1, 0, 3), {"affine": matrix}
    if more := array.ndim - 3:
        matrix = np.block([[np.eye(more), np.zeros((more, 4))], [np.zeros((4, more)), matrix]])
    return shown.T, {"affine": matrix}


def _contrast_limits(array: Array, *, linear: bool, colors: bool) -> dict[str, Any]:
    """Limits of an image that is sampled when it is drawn, so that napari does not look for them in all of it."""
    if not linear or colors:
        return {}
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return {"contrast_limits": (low, high if high > low else low + 1.0)}


def _carrying(array: Array, affine: Array, keywords: dict[str, Any]) -> dict[str, Any]:
    """The keywords of a layer, with its true grid in the metadata."""
    carried = {"affine": affine, "shape": array.shape[:3], **keywords.pop("metadata", {})}
    return {**keywords, "metadata": {KEY: carried}}


def listed(paths: Paths) -> list[Path]:
    """Return the files that napari gives to a reader: one, or several."""
    return [Path(one) for one in ([paths] if isinstance(paths, str) else paths)]


def reader_if(fits: Callable[[Path], bool], paths: Paths, read: LayerReader) -> LayerReader | None:
    """Return a reader of layers if there are files, and all of them fit; else None, so that napari asks others."""
    files = listed(paths)
    return read if files and all(map(fits, files)) else None


def read_each(path: Paths, read: Callable[[Path], list[LayerData]]) -> list[LayerData]:
    """Read files as layers, one after another; what was assumed is shown, and goes with the layers.

    Parameters
    ----------
    path
        A path or several, as napari gives them to a reader.
    read
        Reads one of them.

    Raises
    ------
    InvalidInput
        As of ``read``, with the name of the file.
    """
    layers: list[LayerData] = []
    notes: list[str] = []
    paths = listed(path)
    for one in paths:
        with reading(one), noted() as found:
            new = read(one)
        layers += with_notes(new, found)
        notes += found
    show_notes(grouped(notes, [one.name for one in paths]))
    return layers


def with_notes(layers: list[LayerData], notes: Sequence[str]) -> list[LayerData]:
    """Return layers that carry notes on what they were read from, beside those that they have."""
    for _, keywords, _ in layers if notes else ():
        ours = keywords.setdefault("metadata", {}).setdefault(KEY, {})
        own = ours.get(NOTES, ())  # as the result has them, without the name of the file
        ours[NOTES] = [*own, *(note for note in notes if not any(note.endswith(known) for known in own))]
    return layers


@contextmanager
def notes_held() -> Iterator[None]:
    """Let readers show no notes meanwhile, in this thread; whoever listens (`noted`) has them, and shows them."""
    before, _here.holds = getattr(_here, "holds", False), True
    try:
        yield
    finally:
        _here.holds = before


def show_notes(notes: Sequence[str]) -> None:
    """Show what readers assumed or left out: napari as a notification, Python as a warning."""
    if notes and not getattr(_here, "holds", False):
        warnings.warn("\n".join(dict.fromkeys(notes)), ReadingNote, stacklevel=3)


def carried(layer: Any, what: str) -> Any:
    """Return what a layer carries under a name, or None."""
    ours = layer.metadata.get(KEY)
    return ours.get(what) if isinstance(ours, dict) else None


def carried_as(layer: Any, what: str, kind: type[Kind]) -> Kind | None:
    """Return what a layer carries under a name if it is of a kind, else None."""
    value = carried(layer, what)
    return value if isinstance(value, kind) else None


def grid_of(layer: Any) -> tuple[Array, tuple[int, int, int]]:
    """Return the true affine (voxel to world, mm) and the shape (X, Y, Z) of an image or labels layer.

    A layer that some other plugin or the user made is taken by its own transform: data axes (z, y, x) in mm.
    """
    affine, shape = carried(layer, "affine"), carried(layer, "shape")
    if affine is not None and shape is not None:
        return np.asarray(affine), tuple(shape)
    rgb = bool(getattr(layer, "rgb", False))
    zyx = layer.data.shape[-4:-1] if rgb else layer.data.shape[-3:]
    attributes = {name: getattr(layer, name) for name in ("scale", "rotate", "shear", "translate")}
    matrix = layer_matrix({**attributes, "affine": layer.affine.affine_matrix}, layer.ndim)
    return to_layer(_last_three(matrix)), (zyx[2], zyx[1], zyx[0])


def affine_mm(layer: Any) -> npt.NDArray[np.float64]:
    """Return index (X, Y, Z) to world mm of a layer, whatever unit of length it is in.

    A layer whose unit is none of length (napari's default, pixels) is taken to be in mm.
    """
    affine, _ = grid_of(layer)
    if carried(layer, "affine") is not None:
        return np.asarray(affine, np.float64)
    return np.asarray(np.diag([*mm_per_unit(layer)[::-1], 1.0]) @ affine, np.float64)


def is_oriented(layer: Any) -> bool:
    """Whether the file of a layer says where its voxels lie; so it is taken where it has none, or it is gone."""
    if (known := carried(layer, ORIENTED)) is not None:
        return bool(known)
    path = carried(layer, "path") or layer.source.path
    try:
        return path is None or has_orientation(path)
    except InvalidInput:
        return True


def take_place(layer: Any, affine: Array, name: str) -> None:
    """Put a volume's layer of this package where what is called ``name`` lies (voxel to world, mm); it is renamed."""
    array, is_image, is_rgb = stored_array(layer), layer._type_string == "image", bool(getattr(layer, "rgb", False))
    data, place = _shown(array, affine, linear=is_image, colors=is_rgb)
    ones = np.ones(data.ndim - is_rgb)
    place = {"scale": ones, "translate": 0 * ones, "affine": np.eye(len(ones) + 1), **place}
    place.pop("contrast_limits", None)
    note = f"{layer.name!r} has no orientation of its own and was taken voxel by voxel as {name}"
    layer.metadata[KEY] |= {"affine": affine, ORIENTED: True, NOTES: [*(carried(layer, NOTES) or ()), note]}
    layer.data, layer.name = data, f"{layer.name} as {name}"  # no script is to save it in place of its own file
    for attribute, value in place.items():
        setattr(layer, attribute, value)


def own_units(layer: Any) -> tuple[Any, ...]:
    """Return the units of a layer, without those that it is only shown in; see `lend_units`."""
    now = tuple(layer.units)
    own, lent = _lent_units.get(layer, (now, now))
    return own if now == lent else now  # which it was given since


def lend_units(layer: Any, units: Sequence[Any]) -> None:
    """Show a layer in units of other layers, while `own_units` stay what they are; it can be given others any time."""
    own = own_units(layer)
    if tuple(layer.units) != tuple(units):
        _lent_units[layer] = own, tuple(units)
        _being_lent.add(layer)
        try:
            layer.units = units
        finally:
            _being_lent.discard(layer)
    if own == tuple(units):
        _lent_units.pop(layer, None)


def is_being_lent(layer: Any) -> bool:
    """Whether an event of a layer comes of units that it is lent or given back, which change nothing of it."""
    return layer in _being_lent


@functools.cache
def is_length(unit: Any) -> bool:
    """Whether a unit of a layer is one of length, and not pixels."""
    return hasattr(unit, "is_compatible_with") and bool(unit.is_compatible_with("mm"))


def mm_per_unit(layer: Any) -> tuple[float, float, float]:
    """How many mm a unit of the layer's world is along z, y, x."""
    z, y, x = (float((1.0 * unit).to("mm").magnitude) if is_length(unit) else 1.0 for unit in own_units(layer)[-3:])
    return z, y, x


def has_length_unit(layer: Any) -> bool:
    """Whether the lengths of a layer's voxels are known: always of ours, of others by a unit other than pixels."""
    return carried(layer, "affine") is not None or all(is_length(unit) for unit in own_units(layer)[-3:])


def taken_as_mm(layer: Any) -> str:
    """Return what is assumed of the lengths of a layer, or an empty text where it has a unit of length."""
    return "" if has_length_unit(layer) else "the layer is in pixels, taken as mm"


def notes_of(layer: Any) -> tuple[str, ...]:
    """Return what was assumed or left out when a layer was read, and what is assumed of the lengths of a volume."""
    notes = tuple(carried(layer, NOTES) or ())
    is_volume = (hasattr(layer, "rgb") or hasattr(layer, "selected_label")) and layer.ndim >= len(AXES)
    return (*notes, f"{layer.name} is in pixels, taken as mm") if is_volume and not has_length_unit(layer) else notes


def volume_of(layer: Any) -> Array:
    """Return the array (X, Y, Z) of a three-dimensional image or labels layer.

    Raises
    ------
    InvalidInput
        If the layer has another number of dimensions.
    """
    array = stored_array(layer)
    if array.ndim > 3 and array.dtype.kind in "iub" and not getattr(layer, "rgb", False):
        array = array.max(axis=tuple(range(3, array.ndim)))  # labels drawn while a series is open: on any volume of it
    if array.ndim != 3:
        raise InvalidInput(f"layer {layer.name!r} has {array.ndim} dimensions; choose a volume with three")
    return np.asarray(array)


def stored_array(layer: Any) -> Any:
    """Return the array of an image or labels layer as its file has it: (X, Y, Z), (X, Y, Z, N) or (X, Y, Z, 3).

    It is a view where that is possible.
    """
    data = layer.data
    if isinstance(data, WorldAligned):
        return data.source
    rgb = bool(getattr(layer, "rgb", False))
    return _stored(data.transpose(*range(data.ndim - 2, -1, -1), -1) if rgb else data.T, carried(layer, "affine"))


def stored_box(layer: Any, box: Box) -> Box:
    """Return the part of `volume_of` a layer that holds a box of the layer's last three axes (z, y, x)."""
    if isinstance(layer.data, WorldAligned):
        return layer.data.source_box(box)
    affine = carried(layer, "affine")
    order = (0, 1, 2) if affine is None else np.argsort(world_order(affine))
    i, j, k = (box[2 - axis] for axis in order)
    return i, j, k


def beside(layer: Any, array: Array, *, linear: bool) -> tuple[Any, dict[str, Any]]:
    """Return data and keywords of a layer that shows another volume (X, Y, Z) on the grid of a layer.

    ``linear``: the values may be interpolated, as those of labels may not.
    """
    affine = carried(layer, "affine")
    if affine is not None:
        data, place = _shown(array, np.asarray(affine), linear=linear, colors=False)
        place.pop("contrast_limits", None)
        return data, {**place, **IN_MM}
    attributes = {name: getattr(layer, name) for name in ("scale", "rotate", "shear", "translate")}
    matrix = _last_three(layer_matrix({**attributes, "affine": layer.affine.affine_matrix}, layer.ndim))
    names = {"axis_labels": tuple(layer.axis_labels)[-3:], "units": own_units(layer)[-3:]}
    return array.T, {"affine": matrix, **names}


def stored_volume(data: Any, attributes: dict[str, Any]) -> tuple[Array, Array]:
    """Return array and affine of a layer that a writer is given, as `stored_array` and `grid_of` of a layer.

    Raises
    ------
    InvalidInput
        If the layer has fewer than three dimensions.
    """
    ours = attributes.get("metadata", {}).get(KEY, {})
    if isinstance(data, WorldAligned):
        return data.source, np.asarray(ours["affine"])
    array = np.asarray(data)
    ndim = array.ndim - bool(attributes.get("rgb"))
    if ndim < 3:
        raise InvalidInput(f"a volume has at least 3 dimensions; this layer has {ndim}: save it as TIFF or PNG")
    array = array.transpose(2, 1, 0, 3) if attributes.get("rgb") else array.T
    affine = ours.get("affine") if isinstance(ours, dict) else None
    if affine is None:
        return array, to_layer(_last_three(layer_matrix(attributes, ndim)))  # (z, y, x) turned round is (x, y, z)
    return _stored(array, affine), np.asarray(affine)


def _stored(array: Array, affine: Array | None) -> Array:
    """Undo the order of axes that a layer of ours was given."""
    if affine is None:
        return array
    return array.transpose(*np.argsort(world_order(affine)), *range(3, array.ndim))


def _last_three(matrix: Array) -> Array:
    """The part of a layer's matrix that moves its last three axes, 4 x 4."""
    part = np.eye(4)
    part[:3, :3], part[:3, 3] = matrix[-4:-1, -4:-1], matrix[-4:-1, -1]
    return part
