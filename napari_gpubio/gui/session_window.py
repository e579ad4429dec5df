"""A viewer as the state of a session, and back: its layers with what made them and how they look, and its view."""

import math
from collections.abc import Generator, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from napari.layers import Labels, Layer

from napari_gpubio.core.operations.layers import shown_as
from napari_gpubio.core.operations.records import Output, Reading
from napari_gpubio.core.operations.sessions import Shown
from napari_gpubio.core.operations.stores import STORE, Store, digest, run_steps
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.operation_form import Source, offers, source_shown
from napari_gpubio.gui.views import camera_of

# How a layer looks, as far as plain values say it; the names are napari's.
_LOOK = (
    "visible", "opacity", "blending", "gamma", "contrast_limits", "colormap", "rendering", "interpolation2d",
    "interpolation3d", "iso_threshold", "attenuation", "contour", "color_by", "style", "width",
)  # fmt: skip
_TYPE, _LABELS = "type", "labels"
_VIEW = {"dims": ("order", "point", "ndisplay"), "camera": ("center", "zoom", "angles")}
_PLAIN = (bool, int, float, str)


class Taken(NamedTuple):
    """A layer as it is now: where it comes from, its name, and how it looks."""

    source: Source
    name: str
    display: tuple[tuple[str, Any], ...]


# -- from a viewer ----------------------------------------------------------------------------------------------------


def take_layers(viewer: Any) -> tuple[list[Taken], list[str]]:
    """Return the layers of a viewer that a session can hold, and the names of the others; in the GUI thread."""
    taken, others = list[Taken](), list[str]()
    for layer in viewer.layers:
        if offers(layer, Volume) or offers(layer, object):
            taken.append(Taken(source_shown(layer), layer.name, display_of(layer)))
        else:
            others.append(layer.name)
    return taken, others


def display_of(layer: Any) -> tuple[tuple[str, Any], ...]:
    """Return how a layer looks as names and plain values."""
    found = {name: _plain(getattr(getattr(layer, name, None), "name", getattr(layer, name, None))) for name in _LOOK}
    found[_TYPE] = _LABELS if isinstance(layer, Labels) else "image"
    return tuple((name, value) for name, value in found.items() if value is not None)


def view_of(viewer: Any) -> tuple[tuple[str, Any], ...]:
    """Return what a viewer looks at as names and plain values."""
    parts = _parts_of(viewer)
    found = {f"{part}.{name}": _plain(getattr(parts[part], name)) for part, name in _view_names()}
    return tuple((name, value) for name, value in found.items() if value is not None)


def _parts_of(viewer: Any) -> dict[str, Any]:
    return {"dims": viewer.dims, "camera": camera_of(viewer)}


def _view_names() -> list[tuple[str, str]]:
    return [(part, name) for part, names in _VIEW.items() for name in names]


def _plain(value: Any) -> Any:
    """A value as a session holds it; None of others."""
    value = getattr(value, "value", value)  # of an enumeration
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (tuple, list)):
        values = tuple(map(_plain, value))
        return None if None in values else values
    is_number = not isinstance(value, float) or math.isfinite(value)
    return value if isinstance(value, _PLAIN) and is_number else None


def shown_steps(taken: Iterable[Taken], store: Store = STORE) -> Generator[Step, None, list[Shown]]:
    """Find out what layers show, for a session; files are read and arrays looked through, which a worker does."""
    found, every = list[Shown](), [*taken]
    for number, (source, name, display) in enumerate(every):
        yield Step(number, len(every), f"looking through {name}")
        output = source if isinstance(source, Output) else source.output(store)
        kept = store.last_result(output.of)
        if kept is None and isinstance(output.of, Reading):
            kept = "cpu", (yield from run_steps(output.of, device="cpu", store=store))
        device, told = ("", "") if kept is None else (kept[0] or "cpu", digest(output.value_in(kept[1])))
        found.append(Shown(output, name, device, told, display=display))
    return found


# -- back into a viewer -----------------------------------------------------------------------------------------------


def show_layers(viewer: Any, shown: Shown, value: Any) -> list[Any]:
    """Add the layers of a result to a viewer as they looked when they were saved; returns them."""
    look, made = dict(shown.display), list[Any]()
    for data, keywords, kind in shown_as(value, shown.output, shown.name):
        kind = str(look[_TYPE]) if kind in ("image", _LABELS) and look.get(_TYPE) in ("image", _LABELS) else kind
        if kind == _LABELS:
            keywords = {name: one for name, one in keywords.items() if name not in ("colormap", "contrast_limits")}
            data = data if np.asarray(data).dtype.kind in "iu" else np.asarray(data).astype(np.uint8)
        made.append(data if isinstance(data, Layer) else Layer.create(data, {**keywords, "name": shown.name}, kind))
    for layer in made:
        viewer.add_layer(layer)
        _set_each(layer, look)
    return made


def show_view(viewer: Any, view: Iterable[tuple[str, Any]]) -> None:
    """Let a viewer look at what it looked at when its view was saved."""
    known = dict(view)
    for part in _VIEW:
        names = {name: known[f"{part}.{name}"] for name in _VIEW[part] if f"{part}.{name}" in known}
        _set_each(_parts_of(viewer)[part], names)


def _set_each(target: Any, values: Mapping[str, Any]) -> None:
    """Set what can be set; a session of another program may name what this napari does not have."""
    for name, value in values.items():
        if name in (*_LOOK, *(own for _, own in _view_names())) and hasattr(target, name):
            with suppress(ValueError, TypeError, KeyError, AttributeError, IndexError):
                setattr(target, name, value)
