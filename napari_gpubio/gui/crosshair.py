"""A crosshair around the viewer's point, in 2-D and 3-D."""

from typing import Any

import numpy as np
from napari.components.overlays import SceneOverlay

from napari_gpubio.gui import theme
from napari_gpubio.gui.overlays import can_draw
from napari_gpubio.gui.views import camera_of

OVERLAY = "napari-gpubio crosshair"
_FAR = 1e4  # mm: beyond every canvas
_GAP_PIXELS = 8.0  # around the point, so that one sees what is there


def crosshair_ends(point: Any, displayed: Any, gap: float) -> np.ndarray[Any, Any]:
    """Return the ends of lines to a point, shape (12, 3): the last displayed axis first, as vispy has it.

    ``gap``: how far from the point they end, in world units.
    """
    axes = list(displayed)[::-1]
    ends = np.zeros((12, 3))
    ends[:, : len(axes)] = np.asarray(point, np.float64)[axes]
    for line in range(len(axes)):
        ends[4 * line : 4 * line + 4, line] += (-_FAR, -gap, gap, _FAR)
    return ends


class CrosshairOverlay(SceneOverlay):
    """Lines along the axes that point at the viewer's point."""


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


def shows_crosshair(viewer: Any) -> bool:
    """Whether the crosshair is on a viewer's canvas."""
    return OVERLAY in viewer.scene.overlays and bool(viewer.scene.overlays[OVERLAY].visible)


def _visuals() -> dict[type[Any], type[Any]]:
    from napari._vispy.overlays.base import ViewerOverlayMixin, VispySceneOverlay
    from vispy.scene.visuals import Line

    class VispyCrosshairOverlay(ViewerOverlayMixin, VispySceneOverlay):
        """Draws the lines."""

        def __init__(self, font_info: Any = None, **keywords: Any) -> None:
            node = Line(pos=np.zeros((12, 3)), connect="segments", width=1, color=theme.CROSSHAIR)
            super().__init__(node=node, font_info=font_info, **keywords)
            dims, self._camera = self.viewer.dims.events, camera_of(self.viewer)
            self._events = (dims.point, dims.order, dims.ndisplay, self._camera.events.zoom)
            for event in self._events:
                event.connect(self._move)
            self.reset()
            self._move()

        def close(self) -> None:
            """Stop following the viewer."""
            for event in self._events:
                event.disconnect(self._move)
            super().close()

        def _move(self, *_: Any) -> None:
            dims, gap = self.viewer.dims, _GAP_PIXELS / max(self._camera.zoom, 1e-9)
            self.node.set_data(pos=crosshair_ends(dims.point, dims.displayed, gap))

    return {CrosshairOverlay: VispyCrosshairOverlay}
