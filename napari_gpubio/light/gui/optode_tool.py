"""Sources and detectors with the mouse: click to place, drag to move; in 2-D and 3-D."""

from collections.abc import Callable
from typing import Any

import numpy as np
from qtpy.QtCore import Signal

from napari_gpubio.gui.picking import MarkerTool
from napari_gpubio.light.gui.tissue import Position, Sight


class OptodeTool(MarkerTool):
    """Turns mouse events of a viewer into places; markers are dragged to a `Sight`, as if it pointed at them."""

    placed = Signal(object, bool)  # sight; whether Shift was held

    def may_begin(self) -> bool:
        """Nothing is placed or moved while the user wants to look only."""
        return self.placing

    def clicked(self, event: Any) -> None:
        """Place something."""
        self.placed.emit(sight_of(event), "Shift" in event.modifiers)

    def target_of(self, event: Any, anchor: Position) -> Callable[[Any], Sight]:
        """A marker keeps its distance from the mouse."""
        offset = _offset(sight_of(event), anchor)
        return lambda later: sight_of(later).moved(offset)


def sight_of(event: Any) -> Sight:
    """Where the mouse points, of a napari mouse event; axes before the last three (time gates) do not count."""
    position = np.array(event.position, np.float64)[-3:]
    if event.view_direction is not None:
        return Sight(position, np.array(event.view_direction, np.float64)[-3:])
    first = len(event.position) - 3
    hidden = [axis for axis in range(3) if first + axis not in event.dims_displayed]
    return Sight(position, hidden=hidden[0] if len(hidden) == 1 else None)


def _offset(sight: Sight, marker: Position) -> Position:
    """From where the mouse points to a marker, in the slice or across the line of sight."""
    offset = np.asarray(marker) - sight.position
    if sight.direction is not None:
        along = sight.direction / np.linalg.norm(sight.direction)
        offset -= along * (offset @ along)
    elif sight.hidden is not None:
        offset[sight.hidden] = 0.0
    return offset
