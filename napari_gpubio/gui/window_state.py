"""What a window shows, as a value: layers, and what was set in panels; taken, compared and brought back.

Layers are kept as they are, with what was set of them, so that a state costs next to nothing. Pixels that were painted
are not copied: their number of strokes is kept, and napari takes them back. How the volume is looked at (slices,
cameras, what is visible) is no part of what was done, though it comes back with it.

Of a panel the controls are kept (numbers, lists, boxes to tick, texts) without a word of its own. A part of it, or the
panel, that has more to keep names attributes in ``kept``, whose values are never changed in place; after they were set,
its ``show_kept`` is called. ``keeps_controls`` is false where controls come with what is kept, or are about the view.
"""

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from napari.layers import Labels, Points, Shapes
from qtpy.QtCore import QObject
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QScrollBar,
    QWidget,
)
from superqt import QCollapsible

from napari_gpubio.core.napari_io import FOLLOWS, KEY, carried, own_units
from napari_gpubio.gui.fields import SliderRow
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.lines import Lines
from napari_gpubio.gui.looks import LINES
from napari_gpubio.gui.switcher import name_of

if TYPE_CHECKING:
    import weakref

_SEEN = "visible"
_ANY = ("name", _SEEN, "opacity", "blending", "scale", "translate", "rotate", "shear", "affine", "units")
_IMAGE = (
    "colormap", "contrast_limits", "gamma", "rendering", "interpolation2d", "interpolation3d", "iso_threshold",
    "attenuation", "contour",
)  # fmt: skip
_MARKS = ("size", "symbol", "face_color", "border_color", "edge_color", "edge_width", "features")
_LINES = tuple(name for name in LINES if name not in (*_ANY, "contrast_limits"))
_COPIED = 1 << 20  # numbers of points and shapes, which are edited in place, that are copied at most
_PLAIN = (str, int, float, bool, type(None), enum.Enum)
_CONTROLS = (QAbstractButton, QAbstractSlider, QComboBox, QAbstractSpinBox, QLineEdit, QPlainTextEdit)
_roles: dict[type, tuple[bool, bool, type | None]] = {}
_PASSES = 3  # since what is brought back may change what was brought back before


@dataclass(frozen=True, slots=True, eq=False)
class WindowState:
    """Layers from the bottom to the top with what was set of them, and what is kept of parts of panels."""

    layers: tuple[tuple[Any, Mapping[str, Any]], ...]
    parts: Mapping["weakref.ref[Any]", tuple[Any, ...]]
    panels: Mapping["weakref.ref[Any]", str]
    active: Any | None  # the layer that napari's tools act upon


def take_state(viewer: Any, panels: Sequence[QWidget]) -> WindowState:
    """Return what a viewer and its panels show."""
    layers = [getattr(layer, "__wrapped__", layer) for layer in viewer.layers]
    shown = tuple((layer, _values_of(layer)) for layer in layers)
    names = {ref: name for panel in panels for name in [name_of(panel)] for ref in panel.kept_parts}
    kept = {ref: _kept_of(part) for ref in names if (part := ref()) is not None}
    return WindowState(shown, kept, names, viewer.layers.selection.active)


def changes(before: WindowState, after: WindowState) -> list[str]:
    """Return what was done between two states, as phrases; [] if nothing that counts was."""
    old, new = ({id(layer): values for layer, values in state.layers} for state in (before, after))
    found = [f"delete {layer.name}" for layer, _ in before.layers if id(layer) not in new]
    found += [f"add {layer.name}" for layer, _ in after.layers if id(layer) not in old]
    for layer, values in after.layers:
        if id(layer) in old:
            found += _layer_changes(layer, old[id(layer)], values)
    if not found and [*old] != [*new]:
        found.append("order of layers")
    if found:
        return found
    names = [after.panels[ref] for ref, values in after.parts.items() if _differs(before, ref, values)]
    return [f"inputs of {name}" for name in dict.fromkeys(names)]


def _differs(before: WindowState, ref: "weakref.ref[Any]", values: tuple[Any, ...]) -> bool:
    return ref in before.parts and not _same(before.parts[ref], values)


def _layer_changes(layer: Any, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    changed = [name for name, value in new.items() if name != _SEEN and not _same(old.get(name), value)]
    if not changed:
        return []
    if changed == ["name"]:
        return [f"rename {old['name']} to {new['name']}"]
    if changed == ["strokes"]:
        return [f"paint {layer.name}"]
    looks = {*_IMAGE, *_LINES, "opacity", "blending", "own_limits", "color_image"}
    what = "look of" if looks.issuperset(changed) else "filter" if changed == ["filters"] else "change"
    return [f"{what} {layer.name}"]


# -- layers -----------------------------------------------------------------------------------------------------------


def _values_of(layer: Any) -> dict[str, Any]:
    """What was set of a layer, in the order in which it is set again."""
    found: dict[str, Any] = {}
    if hasattr(layer, "color_by_image"):
        found = {"lines": layer.lines, "filters": dict(layer.filters), "color_image": layer.color_image}
        found |= {name: getattr(layer, name) for name in _LINES} | {"own_limits": layer.own_limits}
    elif isinstance(layer, Points | Shapes):
        found = {"data": _copied(layer)} | {name: _value(layer, name) for name in _MARKS if hasattr(layer, name)}
    else:
        found = {"data": layer.data} | {name: _value(layer, name) for name in _IMAGE if hasattr(layer, name)}
    if isinstance(layer, Labels):
        found["strokes"] = len(getattr(layer, "_undo_history", ()))
    found |= {name: _value(layer, name) for name in _ANY}
    if carried(layer, FOLLOWS):
        return {name: value for name, value in found.items() if name in (*_ANY[:4], "colormap", "gamma")}
    metadata = dict(layer.metadata)
    if isinstance(metadata.get(KEY), dict):
        metadata[KEY] = dict(metadata[KEY])
    return {**found, "metadata": metadata}


def _value(layer: Any, name: str) -> Any:
    value: Any = own_units(layer) if name == "units" else getattr(layer, name)
    if name == "affine":
        return value.affine_matrix
    return tuple(value) if isinstance(value, list) else value.copy() if isinstance(value, np.ndarray) else value


def _copied(layer: Any) -> Any:
    if isinstance(layer, Points):
        return layer.data.copy() if layer.data.size <= _COPIED else layer.data
    return tuple(map(np.array, layer.data)), tuple(layer.shape_type)


def _set_values(layer: Any, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name, value in new.items():
        if _same(old.get(name), value):
            continue
        if name == "strokes":
            _paint(layer, value - old.get(name, 0))
        elif name == "lines":
            layer.set_lines(value.with_shown(None))
            layer.filters = new["filters"]  # masks of the lines before went with them
        elif name == "color_image":
            if value is not None:
                layer.color_by_image(value)
        elif name == "own_limits":
            layer.contrast_limits = value
        elif name == "metadata":
            layer.metadata = {one: dict(held) if one == KEY else held for one, held in value.items()}
        elif name == "data" and isinstance(layer, Shapes):
            layer.data = []
            layer.add([*value[0]], shape_type=[*value[1]])
        else:
            with suppress(ValueError):  # of another number of axes or marks, which follow
                setattr(layer, name, value.copy() if isinstance(value, np.ndarray) and name != "data" else value)


def _paint(labels: Any, strokes: int) -> None:
    """Paint strokes that were taken back, or with a negative number take strokes back."""
    for _ in range(abs(strokes)):
        (labels.redo if strokes > 0 else labels.undo)()


def _bring_back_layers(viewer: Any, now: WindowState, wanted: WindowState) -> Iterator[None]:
    """Let the layers be those of a state, one at a time; napari collects garbage once for all that go."""
    layers, own = viewer.layers, [layer for layer, _ in wanted.layers]
    known = {id(layer): values for layer, values in now.layers}
    if going := [layer for layer, _ in now.layers if not any(layer is one for one in own)]:
        layers.events.begin_batch()
        try:
            for layer in going:
                if layer in layers:  # it may have gone with one before
                    layers.remove(layer)
                    yield
        finally:
            layers.events.end_batch()
        yield
    for place, (layer, values) in enumerate(wanted.layers):
        is_there = layer in layers
        _set_values(layer, known.get(id(layer)) or _values_of(layer), values)  # before it is sliced and drawn
        if not is_there:
            layers.insert(min(place, len(layers)), layer)
        yield
    for place, layer in enumerate(own):
        if layer in layers and (at := layers.index(layer)) != place:
            layers.move(at, place)
            yield


# -- panels -----------------------------------------------------------------------------------------------------------


def parts_of(panel: QObject) -> list[Any]:
    """What something is kept of, in a panel and in all that belongs to it."""
    keeps, has_controls, _ = _role_of(panel)
    found: list[Any] = [panel] if keeps else []
    for child in panel.children() if has_controls else ():
        keeps, has_controls, kind = _role_of(child)
        if has_controls and not keeps and _is_control(child, kind):
            found.append(child)
        elif kind is QCollapsible:  # whose button only folds it
            found += parts_of(child.content())
        elif keeps or kind not in (QComboBox, QAbstractSpinBox):
            found += parts_of(child)
    return found


def _role_of(part: QObject) -> tuple[bool, bool, type | None]:
    """Whether a class says what is kept, whether controls in it count, and which of Qt's it is; panels have a thousand.

    PyQt takes long to find that an object has no such attribute.
    """
    own = type(part)
    if own not in _roles:
        kind = next((kind for kind in (*_CONTROLS, QCollapsible) if issubclass(own, kind)), None)
        _roles[own] = bool(getattr(own, "kept", ())), getattr(own, "keeps_controls", True), kind
    return _roles[own]


def _is_control(child: Any, kind: type | None) -> bool:
    if kind is QAbstractButton:
        return bool(child.isCheckable())
    if kind is QAbstractSlider:
        return not isinstance(child, QScrollBar) and not isinstance(child.parent(), SliderRow)
    return kind in _CONTROLS


def _kept_of(part: Any) -> tuple[Any, ...]:
    if names := getattr(part, "kept", ()):
        return tuple(getattr(part, name) for name in names)
    if isinstance(part, LayerBox):
        return (part.layer,)
    if isinstance(part, QComboBox):
        return (part.currentText(),)
    if isinstance(part, QAbstractButton):
        return (part.isChecked(),)
    if isinstance(part, QAbstractSpinBox | QAbstractSlider):
        return (part.value(),)
    return (part.text() if isinstance(part, QLineEdit) else part.toPlainText(),)


def _show_kept(part: Any, kept: tuple[Any, ...]) -> None:
    if names := getattr(part, "kept", ()):
        for name, value in zip(names, kept, strict=True):
            setattr(part, name, value)
        part.show_kept()
        return
    (value,) = kept
    if isinstance(part, LayerBox):
        part.take_back(value)
    elif isinstance(part, QComboBox):
        if not value or part.findText(value) >= 0:  # else it is offered when other controls are as they were
            part.setCurrentIndex(part.findText(value))
    elif isinstance(part, QAbstractButton):
        part.setChecked(value)
    elif isinstance(part, QPlainTextEdit):
        part.setPlainText(value)
    elif isinstance(part, QLineEdit):
        part.setText(value)
        part.editingFinished.emit()
    else:
        part.setValue(value)


def bring_back(viewer: Any, panels: Sequence[QWidget], now: WindowState, wanted: WindowState) -> Iterator[None]:
    """Show a state again, in panels that are still open; a piece of the work for each item that is taken."""
    for number in range(_PASSES):
        if number:
            now = take_state(viewer, panels)
            yield
        yield from _bring_back_layers(viewer, now, wanted)
        differing = [ref for ref, kept in now.parts.items() if _differs(wanted, ref, kept)]
        for ref in sorted(differing, key=lambda ref: not getattr(ref(), "kept", ())):  # controls last
            if (part := ref()) is not None:
                _show_kept(part, wanted.parts[ref])
                yield
        if not differing and not changes(now, wanted):
            break
    if wanted.active is None or wanted.active in viewer.layers:
        viewer.layers.selection.active = wanted.active


def _same(one: Any, other: Any) -> bool:
    """Whether two values are one, or plain and equal; others may be large, or changed in place."""
    one, other = getattr(one, "__wrapped__", one), getattr(other, "__wrapped__", other)  # layers
    if one is other:
        return True
    if isinstance(one, Lines) and isinstance(other, Lines):  # whose colors change in place
        return one.vertices is other.vertices and _same(one.per_fiber, other.per_fiber)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.size <= _COPIED and one.shape == other.shape and bool(np.array_equal(one, other, equal_nan=False))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, pd.DataFrame) and isinstance(other, pd.DataFrame):
        return one.equals(other)
    if dataclasses.is_dataclass(one) and type(one) is type(other) and type(one).__eq__ is not object.__eq__:
        return all(_same(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one))
    return isinstance(one, _PLAIN) and isinstance(other, _PLAIN) and bool(one == other)
