"""A copy of a layer of the main viewer in a pane: it shares the arrays and follows the settings; painted in like it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from napari.layers import Image, Labels, Layer, Points, Shapes, Surface
from qtpy.QtCore import QObject

from napari_gpubio.gui.connections import Connections, single_shot
from napari_gpubio.gui.layers import set_mesh
from napari_gpubio.gui.streamlines import Streamlines

_STROKE_MS = 50  # between two looks of the main viewer at a stroke in a pane
_ALL = ("visible", "opacity", "blending", "name", "units")
_FOLLOWED: dict[type[Layer], tuple[str, ...]] = {
    Image: ("contrast_limits", "colormap", "gamma", "interpolation2d"),
    Labels: ("colormap", "contour", "show_selected_label", "selected_label", "brush_size", "preserve_labels", "mode"),
    Points: ("size", "face_color", "border_color", "symbol"),
    Shapes: ("edge_color", "edge_width"),
    Surface: ("contrast_limits", "colormap"),
    Streamlines: ("slab_mm", "line_width", "line_style"),
}


class LinkedLayer:
    """A layer of a pane that follows a layer of the main viewer.

    Images and labels share their array with it, labels their history, too, and streamlines their packed lines.
    """

    def __init__(self, layer: Any, main: Any, parent: QObject) -> None:
        self.layer = layer
        self._main = main
        self.copy = _copy_of(layer)
        self._stroke = single_shot(_STROKE_MS, self._show_stroke, parent)
        if isinstance(layer, Labels):
            self._share_history()
            self.copy.bind_key("Control-Z", lambda _: layer.undo(), overwrite=True)
            self.copy.bind_key("Control-Shift-Z", lambda _: layer.redo(), overwrite=True)
        self._names = (*_ALL, *next((names for kind, names in _FOLLOWED.items() if isinstance(layer, kind)), ()))
        self._following = False
        self._slice = self._slice_now()
        self._connections = Connections(self._pairs)
        self._connections.attach()

    def detach(self) -> None:
        """Follow the layer no longer."""
        self._stroke.stop()
        self._connections.detach()

    def _pairs(self) -> list[tuple[Any, Callable[..., Any]]]:
        events = self.layer.events
        pairs = [(events[name], self._follower(name)) for name in self._names if name in events.emitters]
        if isinstance(self.layer, Streamlines):
            pairs += [
                (events.streamlines, self._follow_lines),
                (events.shown, self._follow_shown),
                (events.coloring, self._follow_coloring),
            ]
            return pairs
        pairs += [(events.data, self._follow_data), (events.set_data, self._redraw)]
        if isinstance(self.layer, Labels):
            painted = self.copy.events
            pairs += [
                (events.labels_update, self._redraw),
                (painted.labels_update, self._on_painted),
                (painted.paint, self._on_stroke_end),
            ]
        return pairs

    def _follower(self, name: str) -> Callable[..., None]:
        def follow(*_: Any) -> None:
            value = getattr(self.layer, name)
            if not np.array_equal(getattr(self.copy, name), value):
                setattr(self.copy, name, value)

        return follow

    def _follow_data(self, *_: Any) -> None:
        if isinstance(self.layer, Surface):
            set_mesh(self.copy, self.layer.data, self.layer.vertex_colors)
        elif self.copy.data is not self.layer.data:
            self.copy.data = self.layer.data
            if isinstance(self.layer, Labels):
                self._share_history()

    def _follow_lines(self, *_: Any) -> None:
        self.copy.set_lines(self.layer.lines)

    def _follow_shown(self, *_: Any) -> None:
        self.copy.shown = self.layer.shown

    def _follow_coloring(self, *_: Any) -> None:
        self.copy.follow_coloring(self.layer)

    def _slice_now(self) -> object:
        dims = self._main.dims
        return dims.point, dims.order, dims.ndisplay

    def _redraw(self, *_: Any) -> None:
        """Show what was changed in the layer's array; napari emits the same event for another slice of it."""
        before, self._slice = self._slice, self._slice_now()
        if before == self._slice and not self._following:
            self._following = True
            try:
                self.copy.refresh()
            finally:
                self._following = False

    # -- painting in the pane --------------------------------------------------------------------------------------

    def _share_history(self) -> None:
        """Let both layers undo the same strokes; napari offers no public way to it."""
        self.copy._undo_history, self.copy._redo_history = self.layer._undo_history, self.layer._redo_history

    def _on_painted(self, *_: Any) -> None:
        """A stroke goes on: the main viewer follows while it does, but not at every move, which redraws a volume."""
        if not self._following and not self._stroke.isActive():
            self._stroke.start()

    def _show_stroke(self) -> None:
        self._following = True  # the copy has drawn it already
        try:
            self.layer.refresh()
        finally:
            self._following = False

    def _on_stroke_end(self, event: Any) -> None:
        """Show the stroke in the main viewer, and tell all who listen to the layer."""
        self._stroke.stop()
        self._show_stroke()
        self.layer.events.paint(value=event.value)


def _copy_of(layer: Any) -> Any:
    """A layer that looks like another and shares its data."""
    if isinstance(layer, Streamlines):
        settings = {name: getattr(layer, name) for name in ("slab_mm", "line_width", "line_style", "name", "units")}
        copy = Streamlines(lines=layer.lines, color_by=layer.color_by, legend=False, **settings)
        copy.follow_coloring(layer)
        return copy
    data, state, kind = layer.as_layer_data_tuple()
    return Layer.create(data, state, kind)
