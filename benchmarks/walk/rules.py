"""The rule of the walk: what a panel has made changes only when that panel was told to.

A layer is a panel's if a method of the panel, or of a part of it, was under way when the layer came into the viewer.
"""

import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from napari.layers import Surface
from qtpy.QtCore import QObject, QTimer
from qtpy.QtWidgets import QTableWidget, QTreeWidget, QTreeWidgetItemIterator

from napari_gpubio.core.napari_io import carried
from napari_gpubio.gui.front import front_of
from napari_gpubio.gui.history import history_of
from napari_gpubio.gui.jobs import LatestJob
from napari_gpubio.gui.panel_frame import PanelFrame
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.gui.switcher import name_of
from napari_gpubio.light.gui import LightPanel

NOBODY = ""  # who made what files and menus opened
_DRAWN = "optodes"  # what is meant by them is looked at in the panel
_DESCRIBED = "whose layer the numbers are of"
_MANY_BYTES = 64_000_000  # of an array, of which a part is compared


@dataclass
class Allowed:
    """Who may change what by an event.

    ``panels`` by their names; ``layers`` that the user deletes, or paints with napari's own tools; ``everything`` for
    undo and redo.
    """

    panels: set[str] = field(default_factory=set)
    layers: list[Any] = field(default_factory=list)
    everything: bool = False


@dataclass
class Seen:
    """What a layer was when it was looked at; arrays are held, so that another one cannot get their place."""

    owner: str
    name: str
    arrays: tuple[Any, ...]
    metadata: dict[str, Any]
    users: frozenset[str] = frozenset()  # panels that it is an input of
    sums: tuple[int, ...] = ()


class Ledger:
    """Knows who made the layers of a viewer, and what they were when they were looked at last."""

    def __init__(self, viewer: Any) -> None:
        self._viewer, self._front = viewer, front_of(viewer)
        self._owners: list[tuple[Any, str]] = []
        self._layers: list[tuple[Any, Seen]] = []
        self._texts: dict[str, dict[str, tuple[str, ...]]] = {}
        self._active: Any = None
        viewer.layers.events.inserted.connect(self._on_inserted)

    def panels(self) -> dict[str, Any]:
        """The open panels by their names."""
        return {name_of(panel): panel for panel in self._front.panels}

    def busy(self) -> set[str]:
        """Names of the panels that run, or will as soon as the event loop is idle; all while something is undone."""
        is_undoing = history_of(self._viewer).is_undoing
        return {name for name, panel in self.panels().items() if is_undoing or _is_busy(panel)}

    def owner(self, layer: Any) -> str:
        """The panel that made a layer, or `NOBODY`."""
        return next((owner for known, owner in self._owners if known is layer), NOBODY)

    def look(self) -> tuple[list[tuple[Any, Seen]], dict[str, dict[str, tuple[str, ...]]], Any]:
        """Return the layers, the texts of panels' tables, and the active layer; in the GUI thread."""
        chosen = {name: panel.chosen_layers() for name, panel in self.panels().items()}
        layers = []
        for layer in self._viewer.layers:
            users = frozenset(name for name, inputs in chosen.items() if any(layer == one for one in inputs))
            seen = Seen(self.owner(layer), layer.name, tuple(_arrays(layer)), dict(layer.metadata), users)
            layers.append((layer, seen))
        texts = {name: dict(_texts(panel)) for name, panel in self.panels().items()}
        for name, panel in self.panels().items():
            described = getattr(getattr(panel, "results", None), "layer", None)
            texts[name][_DESCRIBED] = (self.owner(described),)
        return layers, texts, self._viewer.layers.selection.active

    def compare(self, looked: Any, allowed: Allowed) -> list[str]:
        """Return what has changed unasked since the last look; in any thread, since arrays take a while."""
        layers, texts, active = looked
        for _, seen in layers:
            seen.sums = tuple(_sum(array) for array in seen.arrays)
        wrong = (
            []
            if allowed.everything
            else [*self._changes(layers, allowed), *self._other_numbers(texts, allowed, active)]
        )
        self._layers, self._texts, self._active = layers, texts, active
        return wrong

    def _changes(self, layers: list[tuple[Any, Seen]], allowed: Allowed) -> Iterator[str]:
        now = {id(layer): seen for layer, seen in layers}
        before = {id(layer) for layer, _ in self._layers}
        for layer, was in self._layers:
            seen = now.get(id(layer))
            may_change = was.owner in allowed.panels or (
                was.owner == NOBODY and allowed.panels
            )  # inputs, by any panel allowed
            may_change = may_change or bool(was.users & allowed.panels)  # which hides some of the fibers that it counts
            if may_change or any(layer is one for one in allowed.layers):
                continue
            if what := "was deleted" if seen is None else _differences(was, seen):
                yield f"{was.name!r} of {was.owner or 'nobody'}: {what}"
        for layer, seen in layers:
            if id(layer) not in before and seen.owner not in (NOBODY, *allowed.panels):
                yield f"{seen.name!r} was made by {seen.owner}"

    def _other_numbers(
        self, texts: dict[str, dict[str, tuple[str, ...]]], allowed: Allowed, active: Any
    ) -> Iterator[str]:
        """Tables that show something else, though not the numbers of another active layer."""
        if active is not self._active:
            return
        for name, tables in self._texts.items():
            now = texts.get(name)
            if now is None or name in allowed.panels or allowed.panels.intersection(now[_DESCRIBED]):
                continue
            for table, rows in tables.items():
                if now.get(table, rows) != rows:
                    gone = [row for row in rows if row not in now[table]][:2]
                    come = [row for row in now[table] if row not in rows][:2]
                    yield f"a table of {name} ({table}): {gone} -> {come}"

    def _on_inserted(self, event: Any) -> None:
        self._owners.append((event.value, _panel_under_way()))


def edited(viewer: Any) -> list[Any]:
    """The layer that napari's own tools paint or move, if there is one."""
    active = viewer.layers.selection.active
    return [active] if active is not None and str(active.mode) != "pan_zoom" else []


def panel_of(widget: Any) -> Any:
    """The panel that a widget or a part belongs to, or None."""
    while widget is not None and not isinstance(widget, PanelFrame):
        widget = widget.parent()
    return widget


def _panel_under_way() -> str:
    """The name of the panel whose method is being called."""
    frame = sys._getframe()
    while frame is not None:
        part = frame.f_locals.get("self")
        if isinstance(part, QObject) and (panel := panel_of(part)) is not None:
            return name_of(panel)
        frame = frame.f_back
    return NOBODY


def _is_busy(panel: Any) -> bool:
    is_live = getattr(getattr(panel, "runner", None), "is_live", False)  # a camera, whose frames come by themselves
    if is_live or getattr(panel, "running", False) or getattr(panel, "waiting", False):
        return True
    timers = (timer.isSingleShot() and timer.isActive() for timer in panel.findChildren(QTimer))
    return any(job.is_busy for job in panel.findChildren(LatestJob)) or any(timers)


def _arrays(layer: Any) -> Iterator[Any]:
    """What a layer holds: its values or places, what is drawn of fibers, and where it lies."""
    if isinstance(layer, Surface) or carried(layer, _DRAWN) is not None:
        return  # glyphs, ellipsoids and markers of the slice on screen, which are drawn anew with it
    if isinstance(layer, Streamlines):
        yield from (layer.points, layer.offsets, layer.shown)
    else:
        data = layer.data
        yield from data if isinstance(data, (list, tuple)) else (data,)
    yield np.array(layer.affine.affine_matrix)
    yield np.array([*layer.scale, *layer.translate])


def _sum(array: Any) -> int:
    """A checksum of an array in memory, or of a part of a large one; 0 of what is read when it is needed."""
    if not isinstance(array, np.ndarray):
        return 0
    return zlib.crc32(np.ascontiguousarray(array[:: 1 + array.nbytes // _MANY_BYTES]).tobytes())


def _differences(was: Seen, seen: Seen) -> str:
    """What is another one in a layer, in words; "" if nothing is."""
    found = []
    if was.sums != seen.sums or [np.shape(one) for one in was.arrays] != [np.shape(one) for one in seen.arrays]:
        found.append("data changed")
    keys = [key for key in {**was.metadata, **seen.metadata} if not _is_same(was.metadata, seen.metadata, key)]
    if keys:
        found.append(f"metadata changed ({', '.join(map(str, keys))})")
    return ", ".join(found)


def _is_same(one: dict[str, Any], other: dict[str, Any], key: str) -> bool:
    if one.get(key) is other.get(key):
        return key in one and key in other
    try:
        return bool(one.get(key) == other.get(key))
    except (TypeError, ValueError):  # arrays
        return repr(one.get(key)) == repr(other.get(key))


def _texts(panel: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The rows of every table in a panel, and where light comes from."""
    if isinstance(panel, LightPanel):
        yield "sources and detectors", (repr(panel.voxels.controller.optodes),)
    for number, table in enumerate(panel.findChildren(QTableWidget)):
        columns = range(table.columnCount())
        rows = ([table.item(row, column) for column in columns] for row in range(table.rowCount()))
        yield (
            f"table {number} {type(table).__name__}",
            tuple(" | ".join(item.text() if item else "" for item in row) for row in rows),
        )
    for number, tree in enumerate(panel.findChildren(QTreeWidget)):
        items, rows = QTreeWidgetItemIterator(tree), []
        while (item := items.value()) is not None:
            rows.append(" | ".join(item.text(column) for column in range(tree.columnCount())))
            items += 1
        yield f"tree {number} {type(tree).__name__}", tuple(rows)
