"""Spheres and boxes of rules are moved with the mouse."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from napari.layers import Points, Shapes
from qtpy.QtCore import QObject

from napari_gpubio.diffusion.layer_regions import mm_of_size
from napari_gpubio.gui.picking import MarkerTool, Position, drag_on_plane
from napari_gpubio.tractograms.gui.dissection.rules import Rule


class ShapeTool(MarkerTool):
    """Drags the spheres and drawn shapes of rules by their middle; ``rules`` returns the rules."""

    def __init__(self, viewer: Any, rules: Callable[[], Sequence[Rule]], parent: QObject | None = None) -> None:
        super().__init__(viewer, self._middles, self._reach_mm, parent)
        self._rules = rules
        self.dragged.connect(self._move)
        self.dropped.connect(self._move)

    @property
    def hint(self) -> str:
        """What a drag does."""
        return "Drag the middle of a sphere or box: move it" if self._drawn() else ""

    def clicked(self, event: Any) -> None:
        """Nothing: a click beside them means nothing."""

    def target_of(self, _event: Any, anchor: Position) -> Callable[[Any], Position]:
        """They are moved in the slice, or on the plane that faces the viewer."""
        return lambda later: drag_on_plane(later, anchor)

    def _drawn(self) -> list[tuple[Any, int]]:
        """Layers of spheres and shapes, and which point of the layer is meant."""
        layers = [(rule.layer, rule.key) for rule in self._rules() if isinstance(rule.layer, Points | Shapes)]
        return [
            (layer, int(key) if isinstance(layer, Points) else 0)
            for layer, key in layers
            if key is not None and layer in self._viewer.layers and layer.visible and len(layer.data)
        ]

    def _middles(self) -> Any:
        return [self._middle(layer, point) for layer, point in self._drawn()]

    def _middle(self, layer: Any, point: int) -> Position:
        """Viewer position (z, y, x) of the middle of a sphere, or of all shapes of a layer."""
        place = layer.data[point] if isinstance(layer, Points) else np.concatenate(layer.data).mean(axis=0)
        return np.asarray(layer.data_to_world(place), np.float64)[-3:]

    def _reach_mm(self) -> float:
        """How far from a slice the largest sphere is still seen in it."""
        sizes = [float(np.max(x.size)) * mm_of_size(x) for x, _ in self._drawn() if isinstance(x, Points)]
        return max(sizes, default=2.0) / 2

    def _move(self, index: int, position: Position) -> None:
        layer, point = self._drawn()[index]
        way = np.asarray(layer.world_to_data(position)) - np.asarray(layer.world_to_data(self._middle(layer, point)))
        if isinstance(layer, Points):
            moved = layer.data.copy()
            moved[point, -3:] += way[-3:]
            layer.data = moved
        else:
            layer.data = [shape + way for shape in layer.data]
