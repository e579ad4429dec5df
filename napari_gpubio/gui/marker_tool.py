"""Markers with the mouse: click to place, drag to move; in 2-D and 3-D. What is placed, an engine knows."""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import numpy.typing as npt
from qtpy.QtCore import QObject, Signal

from napari_gpubio.gui.orientation import camera_of
from napari_gpubio.gui.picking import screen_distance

Position = npt.NDArray[np.float64]
GRAB_PIXELS = 14.0


class MarkerTool(QObject):
    """Turns mouse events of a viewer into clicks and drags of markers.

    A subclass implements `clicked`, `target_of`, and if it wants `may_begin` and `may_grab`. Signals carry what
    `target_of` gives: where the mouse is, in the terms of the subclass.

    Parameters
    ----------
    viewer
        The napari viewer.
    markers
        Gives the viewer positions (z, y, x) of what can be grabbed, shape (N, 3).
    reach
        Gives how far from a slice a marker is still drawn in it, in world units.
    """

    grabbed = Signal(int)
    dragged = Signal(int, object)
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

    # -- what a subclass gives ------------------------------------------------------------------------------------

    def clicked(self, event: Any) -> None:
        """Do what a click that grabs no marker means."""
        raise NotImplementedError

    def target_of(self, event: Any, anchor: Position) -> Callable[[Any], Any]:
        """Return what tells, of a later event of the same drag, whereto the marker that was at ``anchor`` is moved."""
        raise NotImplementedError

    def may_begin(self) -> bool:
        """Whether a press means anything."""
        return True

    def may_grab(self, _event: Any) -> bool:
        """Whether a press on a marker grabs it."""
        return True

    # -- the mouse ------------------------------------------------------------------------------------------------

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
        if event.button != 1 or not self.may_begin() or self._is_editing():
            return
        marker = self._marker_under(event) if self.may_grab(event) else None
        if marker is not None:
            yield from self._drag(event, marker)
            return
        yield
        if event.type == "mouse_move":
            return  # the view is being moved
        self.clicked(event)

    def _is_editing(self) -> bool:
        """Whether clicks belong to the active layer, because it is being painted or drawn on."""
        active = self._viewer.layers.selection.active
        return active is not None and str(getattr(active, "mode", "pan_zoom")) not in ("pan_zoom", "transform")

    def _drag(self, event: Any, marker: int) -> Generator[None, None, None]:
        self.grabbed.emit(marker)
        target = self.target_of(event, self._markers()[marker])
        moved = False
        camera = camera_of(self._viewer)
        could_pan, camera.mouse_pan = camera.mouse_pan, False
        try:
            yield
            while event.type == "mouse_move":
                moved = True
                self.dragged.emit(marker, target(event))
                yield
        finally:
            camera.mouse_pan = could_pan
        if moved:  # the last move may be some way before the release
            self.dropped.emit(marker, target(event))

    def _marker_under(self, event: Any) -> int | None:
        """The marker that is drawn where the mouse is; in 2-D only one that the slice cuts."""
        distances = [
            screen_distance(event, marker) if self._is_drawn(event, marker) else np.inf for marker in self._markers()
        ]
        nearest = int(np.argmin(distances)) if distances else -1
        return nearest if distances and distances[nearest] <= GRAB_PIXELS else None

    def _is_drawn(self, event: Any, marker: Position) -> bool:
        if event.view_direction is not None:
            return True
        first = len(event.position) - 3
        away = [marker[a] - event.position[first + a] for a in range(3) if first + a not in event.dims_displayed]
        return all(abs(distance) <= self._reach() for distance in away)
