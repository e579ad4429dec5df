"""Sources of the flow in the viewer: a point with a size each, placed by a click and dragged; in 2-D and 3-D."""

from collections.abc import Callable
from typing import Any

import numpy as np
from napari.layers import Layer
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.core.space import viewer_to_world
from napari_gpubio.diffusion.layer_regions import region_layer
from napari_gpubio.diffusion.regions import Sphere
from napari_gpubio.gui import picking, theme
from napari_gpubio.tractograms.gui.fibers import slider_step

SOURCE, COMPARED = "source", "compared source"
RADIUS_MM = 4.0
_MARK = "flow_source"  # what a layer of a source carries: which of them it is
_COLORS = {SOURCE: theme.REGIONS[0], COMPARED: theme.REGIONS[1]}


class SourceTool(picking.MarkerTool):
    """Places and drags the two sources; positions are viewer positions (z, y, x).

    ``target`` gives the layer that a click in 3-D hits, or None. ``placed`` carries the layer of a source that was put
    somewhere.
    """

    placed = Signal(object)
    missed = Signal()

    def __init__(self, viewer: Any, target: Callable[[], Any], parent: QObject | None = None) -> None:
        super().__init__(viewer, self._positions, lambda: RADIUS_MM, parent)
        self._target = target
        self._chosen = SOURCE
        self.grabbed.connect(self._on_grabbed)
        self.dragged.connect(self._on_dragged)
        self.dropped.connect(self._on_dragged)
        self.nudged.connect(self._on_nudged)

    @property
    def hint(self) -> str:
        """What clicks do."""
        return "Click: source · Shift+click: source beside it"

    def layer_of(self, which: str) -> Any | None:
        """The layer of a source, or None."""
        return next((layer for layer in self._viewer.layers if carried(layer, _MARK) == which), None)

    def place(self, which: str, position: Any) -> Any:
        """Put a source somewhere, in a layer of its own; returns the layer."""
        layer = self.layer_of(which)
        if layer is not None:
            layer.data = np.asarray([layer.world_to_data(position)])
        else:
            x, y, z = map(float, viewer_to_world(position))
            data, keywords, kind = region_layer(Sphere(name=which, center_mm=(x, y, z), radius_mm=RADIUS_MM))
            step = slider_step(self._viewer.layers)
            if step is not None:  # or the sliders would stop between the slices of the images
                data, keywords = data / step, keywords | {"scale": step, "size": keywords["size"] / float(step.mean())}
            keywords |= {"face_color": "transparent", "border_color": _COLORS[which], "border_width": 0.1}
            keywords |= {"blending": "translucent_no_depth", "metadata": {KEY: {_MARK: which}}}
            active = self._viewer.layers.selection.active
            layer = self._viewer.add_layer(Layer.create(data, keywords, kind))
            if active is not None:
                self._viewer.layers.selection.active = active
        self.placed.emit(layer)
        return layer

    def clicked(self, event: Any) -> None:
        """Put a source where the click hits."""
        layer = self._target()
        position = None if layer is None else picking.clicked_position(event, layer, mode="maximum")
        if position is None:
            self.missed.emit()
        else:
            self._chosen = COMPARED if "Shift" in event.modifiers else SOURCE
            self.place(self._chosen, position)

    def target_of(self, _event: Any, anchor: picking.Position) -> Callable[[Any], picking.Position]:
        """A source is moved in the slice, or on the plane that faces the viewer."""
        return lambda later: picking.drag_on_plane(later, anchor)

    def _there(self) -> list[Any]:
        found = [layer for which in (SOURCE, COMPARED) if (layer := self.layer_of(which)) is not None]
        return [layer for layer in found if layer.visible and len(layer.data)]

    def _positions(self) -> Any:
        return [np.asarray(layer.data_to_world(layer.data[0]))[-3:] for layer in self._there()]

    def _on_grabbed(self, index: int) -> None:
        self._chosen = carried(self._there()[index], _MARK)

    def _on_dragged(self, _index: int, position: Any) -> None:
        self.place(self._chosen, position)

    def _on_nudged(self, offset: Any) -> None:
        layer = self.layer_of(self._chosen)
        if layer is not None:
            self.place(self._chosen, np.asarray(layer.data_to_world(layer.data[0]))[-3:] + offset)
