"""Sources and detectors with the mouse: click to place, drag to move; in 2-D and 3-D."""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gpubio.light.widget.tissue import Position, Sight
from napari_gpubio.viewer.orientation import camera_of
from napari_gpubio.viewer.picking import screen_distance

GRAB_PIXELS = 14.0


class OptodeTool(QObject):
    """Turns mouse events of a viewer into places.

    Parameters
    ----------
    viewer
        The napari viewer.
    markers
        Gives the viewer positions (z, y, x) of what can be grabbed, shape (N, 3).
    reach
        Gives how far from a slice a marker is still drawn in it, in world units.
    """

    placed = Signal(object, bool)  # sight; whether Shift was held
    grabbed = Signal(int)
    dragged = Signal(int, object)  # marker; sight, as if the mouse pointed at the marker itself
    dropped = Signal(int, object)

    def __init__(
        self,
        viewer: Any,
        markers: Callable[[], Position],
        reach: Callable[[], float],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.placing = True
        self._viewer, self._markers, self._reach = viewer, markers, reach

    def attach(self) -> None:
        """Listen to the viewer's mouse."""
        if self._on_press not in self._viewer.mouse_drag_callbacks:
            self._viewer.mouse_drag_callbacks.append(self._on_press)

    def detach(self) -> None:
        """Hear no more of the mouse."""
        if self._on_press in self._viewer.mouse_drag_callbacks:
            self._viewer.mouse_drag_callbacks.remove(self._on_press)

    def _on_press(self, _viewer: Any, event: Any) -> Generator[None, None, None]:
        """Napari's drag callback: runs to the first yield on press, on at each move, and past the last on release."""
        if event.button != 1 or not self.placing or self._is_editing():
            return
        marker = self._marker_under(event)
        if marker is not None:
            yield from self._drag(event, marker)
            return
        yield
        if event.type == "mouse_move":
            return  # the view is being moved
        self.placed.emit(sight_of(event), "Shift" in event.modifiers)

    def _is_editing(self) -> bool:
        """Whether clicks belong to the active layer, because it is being painted or drawn on."""
        active = self._viewer.layers.selection.active
        return active is not None and str(getattr(active, "mode", "pan_zoom")) not in ("pan_zoom", "transform")

    def _drag(self, event: Any, marker: int) -> Generator[None, None, None]:
        self.grabbed.emit(marker)
        offset = _offset(sight_of(event), self._markers()[marker])
        moved = False
        camera = camera_of(self._viewer)
        could_pan, camera.mouse_pan = camera.mouse_pan, False
        try:
            yield
            while event.type == "mouse_move":
                moved = True
                self.dragged.emit(marker, sight_of(event).moved(offset))
                yield
        finally:
            camera.mouse_pan = could_pan
        if moved:  # the last move may be some way before the release
            self.dropped.emit(marker, sight_of(event).moved(offset))

    def _marker_under(self, event: Any) -> int | None:
        """The marker that is drawn where the mouse is; in 2-D only one that the slice cuts."""
        distances = [
            screen_distance(event, marker) if self._is_drawn(event, marker) else np.inf for marker in self._markers()
        ]
        nearest = int(np.argmin(distances)) if distances else -1
        return nearest if distances and distances[nearest] <= GRAB_PIXELS else None

    def _is_drawn(self, event: Any, marker: Position) -> bool:
        sight = sight_of(event)
        if sight.hidden is None:
            return True
        return bool(abs(marker[sight.hidden] - sight.position[sight.hidden]) <= self._reach())


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
