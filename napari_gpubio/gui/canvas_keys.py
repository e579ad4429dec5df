"""The canvas by keys: arrows move a marker or the crosshair, Enter runs, Escape stops, pages are slices."""

import weakref
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from qtpy.QtCore import Qt

from napari_gpubio.gui.anatomy import POSITIVE, orientation_of, screen_axes
from napari_gpubio.gui.crosshair import shows_crosshair
from napari_gpubio.gui.front import front_of
from napari_gpubio.gui.picking import MarkerTool, is_edited
from napari_gpubio.gui.views import camera_of, show_slices_at

_ARROWS = {"Left": (-1, 0), "Right": (1, 0), "Up": (0, 1), "Down": (0, -1)}  # right and up on the screen
_PAGES = {"PageUp": 1, "PageDown": -1}
_ACTS = {"Enter": Qt.Key.Key_Enter, "Escape": Qt.Key.Key_Escape}


class CanvasKeys:
    """The keys of one viewer; napari has them back while no panel is in front and there is no crosshair."""

    def __init__(self, viewer: Any) -> None:
        self._viewer, self._front, self._are_bound = weakref.proxy(viewer), front_of(viewer), False
        self._front.changed.connect(self._follow)
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()  # layers whose own keys ask first

    def _follow(self) -> None:
        wanted = self._front.panel is not None or shows_crosshair(self._viewer)
        if wanted == self._are_bound:
            return
        self._are_bound = wanted
        acts: dict[str, Any] = {key: partial(self._move, key) for key in _ARROWS}
        acts |= {key: partial(self._page, by) for key, by in _PAGES.items()}
        acts |= {key: partial(self._act, which) for key, which in _ACTS.items()}
        for key, act in acts.items():
            act.__name__ = f"napari_gpubio_{key.lower()}"  # which napari asks for
            self._viewer.bind_key(key, act if wanted else None, overwrite=True)
        active = self._viewer.layers.selection.events.active
        if wanted:
            active.connect(self._follow_layer)
            self._follow_layer()
        else:
            active.disconnect(self._follow_layer)
            self._release_layers()

    def _follow_layer(self, *_: Any) -> None:
        """Let Enter and Escape of the active layer, which end what is drawn, be the panel's while nothing is."""
        layer = self._viewer.layers.selection.active
        if layer is None or layer in self._known:
            return
        self._known.add(layer)
        for key, which in _ACTS.items():
            own = next((act for bound, act in type(layer).class_keymap.items() if str(bound) == key), None)
            if own is not None:
                act: Any = partial(self._act_on_layer, own, which)
                act.__name__ = f"napari_gpubio_{key.lower()}"
                layer.bind_key(key, act, overwrite=True)

    def _release_layers(self) -> None:
        for layer in self._known:
            for key in [key for key in layer.keymap if str(key) in _ACTS]:
                layer.bind_key(key, None, overwrite=True)
        self._known.clear()

    def _act_on_layer(self, own: Any, which: Qt.Key, layer: Any) -> Any:
        panel = self._front.panel
        return own(layer) if panel is None or is_edited(layer) else panel.on_key(which)

    def _act(self, key: Qt.Key, _viewer: Any) -> None:
        if self._front.panel is not None:
            self._front.panel.on_key(key)

    def bind_arrows(self, seen: Any) -> None:
        """Let the arrows on another canvas, of the same points in another view, do what they do here."""
        for key in _ARROWS:
            act: Any = partial(self._move, key)
            act.__name__ = f"napari_gpubio_{key.lower()}"
            seen.bind_key(key, act, overwrite=True)

    def _move(self, key: str, seen: Any) -> None:
        """Move a marker, else the crosshair, as seen; else Left and Right step a slider, as they do in napari."""
        panel, (right, up), viewer = self._front.panel, _ARROWS[key], self._viewer
        tools = [] if panel is None else [tool for tool in panel.findChildren(MarkerTool) if tool.is_attached]
        offset = _step_on_screen(seen, right, up)
        if any(tool.nudge(offset) for tool in tools):
            return
        if shows_crosshair(viewer):
            show_slices_at(viewer, np.asarray(viewer.dims.point)[-3:] + offset)
        elif right:
            _step_slider(viewer, viewer.dims.last_used, right)

    def _page(self, by: int, viewer: Any) -> None:
        hidden = [axis for axis in viewer.dims.not_displayed if axis >= viewer.dims.ndim - 3]
        if hidden:
            _step_slider(viewer, hidden[0], by)


def _step_slider(viewer: Any, axis: int, by: int) -> None:
    viewer.dims.set_current_step(axis, viewer.dims.current_step[axis] + by)


def _step_on_screen(viewer: Any, right: int, up: int) -> npt.NDArray[np.float64]:
    """One voxel along the axis of (z, y, x) that runs most in a direction of the screen."""
    dims, camera, offset = viewer.dims, camera_of(viewer), np.zeros(3)
    axes = [axis - (dims.ndim - 3) for axis in dims.displayed]
    if len(axes) == 2:
        _, vertical, horizontal = orientation_of(camera)
        number, sign = (1, right * POSITIVE[horizontal]) if right else (0, up * POSITIVE[vertical])
    else:
        along = screen_axes(camera)[:, 0 if right else 1]
        number = int(np.abs(along).argmax())
        sign = int(np.sign(along[number])) * (right or up)
    if axes[number] >= 0:
        offset[axes[number]] = sign * dims.range[dims.displayed[number]].step
    return offset


_bound: dict[int, CanvasKeys] = {}  # by the viewer's id


def bind_canvas_keys(viewer: Any) -> CanvasKeys:
    """Give the keys of a viewer's canvas to the panel in front, and to the crosshair, from now on; returns them."""
    viewer = getattr(viewer, "__wrapped__", viewer)  # napari's proxy
    if id(viewer) not in _bound:
        _bound[id(viewer)] = CanvasKeys(viewer)
        weakref.finalize(viewer, _bound.pop, id(viewer), None)
    return _bound[id(viewer)]
