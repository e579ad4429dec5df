"""Seeds with the mouse: click to place, drag to move, click a fiber to pick it; in 2-D and 3-D."""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import numpy.typing as npt
from qtpy.QtCore import QObject, Signal

from napari_gpubio.tracts.layers import field_of
from napari_gpubio.viewer.orientation import camera_of
from napari_gpubio.viewer.picking import clicked_position, drag_on_plane, screen_distance
from napari_gpubio.viewer.streamlines import Streamlines

Position = npt.NDArray[np.float64]
GRAB_PIXELS = 14.0
MARKER_MM = 4.0  # diameter of a marker


class SeedTool(QObject):
    """Turns mouse events of a viewer into seeds.

    Positions are viewer positions (z, y, x).

    Parameters
    ----------
    viewer
        The napari viewer.
    markers
        Gives the positions of the seeds that can be grabbed, shape (S, 3).
    target
        Gives the layer whose volume is clicked, or None.
    """

    placed = Signal(object, bool)  # position, whether a new bundle is wanted
    grabbed = Signal(int)
    dragged = Signal(object)
    dropped = Signal(object)
    picked = Signal(object, object)  # layer, fiber
    missed = Signal()

    def __init__(
        self, viewer: Any, markers: Callable[[], Position], target: Callable[[], Any], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.placing = True
        self._viewer, self._markers, self._target = viewer, markers, target

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
        if event.button != 1 or self._is_editing():
            return
        picking = not self.placing or "Control" in event.modifiers
        marker = None if picking else self._marker_under(event)
        if marker is not None:
            yield from self._drag(event, marker)
            return
        yield
        if event.type == "mouse_move":
            return  # the view is being moved
        if picking:
            self._pick(event)
        else:
            self._place(event)

    def _is_editing(self) -> bool:
        """Whether clicks belong to the active layer, because it is being painted or drawn on."""
        active = self._viewer.layers.selection.active
        return active is not None and str(getattr(active, "mode", "pan_zoom")) not in ("pan_zoom", "transform")

    def _drag(self, event: Any, marker: int) -> Generator[None, None, None]:
        self.grabbed.emit(marker)
        anchor = self._markers()[marker]
        position = None
        camera = camera_of(self._viewer)
        could_pan, camera.mouse_pan = camera.mouse_pan, False
        try:
            yield
            while event.type == "mouse_move":
                position = drag_on_plane(event, anchor)
                self.dragged.emit(position)
                yield
        finally:
            camera.mouse_pan = could_pan
        if position is not None:
            self.dropped.emit(drag_on_plane(event, anchor))  # the last move may be some way before the release

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
        return all(abs(distance) <= MARKER_MM / 2 for distance in away)

    def _place(self, event: Any) -> None:
        layer = self._target()
        position = None
        if layer is not None:
            mode = "maximum" if "mip" in str(getattr(layer, "rendering", "mip")) else "first"
            position = clicked_position(event, layer, mode=mode)
        if position is None:
            self.missed.emit()
        else:
            self.placed.emit(position, "Shift" in event.modifiers)

    def _pick(self, event: Any) -> None:
        for layer in reversed(self._viewer.layers):
            if isinstance(layer, Streamlines) and layer.visible:
                fiber = layer.pick(event.position, event.view_direction, event.dims_displayed)
                if fiber is not None:
                    self.picked.emit(layer, fiber)
                    return


def volume_to_click(viewer: Any, field: Any) -> Any | None:
    """Return a layer of a tensor field that can be clicked in 3-D too: a scalar map, a visible one first."""
    maps = [layer for layer in viewer.layers if field_of(layer) is field and not getattr(layer, "rgb", False)]
    return next((layer for layer in maps if layer.visible), maps[0] if maps else None)
