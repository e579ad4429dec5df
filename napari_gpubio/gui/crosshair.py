"""A crosshair at the viewer's point, in 2-D and 3-D."""

from typing import Any

import numpy as np
from napari.components.overlays import SceneOverlay

from napari_gpubio.gui import theme
from napari_gpubio.gui.overlays import can_draw

OVERLAY = "napari-gpubio crosshair"
_FAR = 1e4  # mm: beyond every canvas


def crosshair_ends(point: Any, displayed: Any) -> np.ndarray[Any, Any]:
    """Return the ends of three lines through a point, shape (6, 3): the last displayed axis first, as vispy has it."""
    axes = list(displayed)[::-1]
    ends = np.zeros((6, 3))
    ends[:, : len(axes)] = np.asarray(point, np.float64)[axes]
    for line in range(len(axes)):
        ends[2 * line, line] -= _FAR
        ends[2 * line + 1, line] += _FAR
    return ends


class CrosshairOverlay(SceneOverlay):
    """Three lines through the viewer's point."""


def show_crosshair(viewer: Any) -> bool:
    """Show the crosshair on a viewer's canvas; returns whether napari can."""
    if not can_draw("the crosshair", _visuals):
        return False
    if OVERLAY not in viewer.scene.overlays:
        viewer.scene.overlays[OVERLAY] = CrosshairOverlay()
    viewer.scene.overlays[OVERLAY].visible = True
    return True


def hide_crosshair(viewer: Any) -> None:
    """Hide the crosshair."""
    if OVERLAY in viewer.scene.overlays:
        viewer.scene.overlays[OVERLAY].visible = False


def _visuals() -> dict[type[Any], type[Any]]:
    from napari._vispy.overlays.base import ViewerOverlayMixin, VispySceneOverlay
    from vispy.scene.visuals import Line

    class VispyCrosshairOverlay(ViewerOverlayMixin, VispySceneOverlay):
        """Draws the lines."""

        def __init__(self, font_info: Any = None, **keywords: Any) -> None:
            node = Line(pos=np.zeros((6, 3)), connect="segments", width=1, color=theme.CROSSHAIR)
            super().__init__(node=node, font_info=font_info, **keywords)
            self._events = self.viewer.dims.events
            for event in (self._events.point, self._events.order, self._events.ndisplay):
                event.connect(self._move)
            self.reset()
            self._move()

        def close(self) -> None:
            """Stop following the viewer."""
            for event in (self._events.point, self._events.order, self._events.ndisplay):
                event.disconnect(self._move)
            super().close()

        def _move(self, *_: Any) -> None:
            self.node.set_data(pos=crosshair_ends(self.viewer.dims.point, self.viewer.dims.displayed))

    return {CrosshairOverlay: VispyCrosshairOverlay}
