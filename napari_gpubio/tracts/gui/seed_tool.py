"""Seeds with the mouse: click to place, drag to move, click a fiber to pick it; in 2-D and 3-D."""

from collections.abc import Callable
from typing import Any, Literal

from qtpy.QtCore import QObject, Signal

from napari_gpubio.gui.picking import MarkerTool, Position, clicked_position, drag_on_plane
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.tracts.napari_io import field_of

MARKER_MM = 4.0  # diameter of a marker


class SeedTool(MarkerTool):
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

    placed = Signal(object, bool)  # position, whether to start a new bundle
    picked = Signal(object, object)  # layer, fiber
    missed = Signal()

    def __init__(
        self, viewer: Any, markers: Callable[[], Position], target: Callable[[], Any], parent: QObject | None = None
    ) -> None:
        super().__init__(viewer, markers, lambda: MARKER_MM / 2, parent)
        self._target = target

    def may_grab(self, event: Any) -> bool:
        """A seed, unless a fiber is to be picked."""
        return not self._is_picking(event)

    def clicked(self, event: Any) -> None:
        """Place a seed, or pick a fiber."""
        if self._is_picking(event):
            self._pick(event)
        else:
            self._place(event)

    def target_of(self, _event: Any, anchor: Position) -> Callable[[Any], Position]:
        """A seed is moved in the slice, or on the plane that faces the viewer."""
        return lambda later: drag_on_plane(later, anchor)

    def _is_picking(self, event: Any) -> bool:
        return not self.placing or "Control" in event.modifiers

    def _place(self, event: Any) -> None:
        layer = self._target()
        position = None
        if layer is not None:
            mode: Literal["first", "maximum"] = (
                "maximum" if "mip" in str(getattr(layer, "rendering", "mip")) else "first"
            )
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
