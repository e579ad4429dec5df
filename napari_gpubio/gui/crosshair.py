"""A crosshair at the viewer's point, in 2-D and 3-D."""

import logging
from typing import Any

import numpy as np

from napari_gpubio.gui import theme

logger = logging.getLogger(__name__)
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


def show_crosshair(viewer: Any) -> bool:
    """Show the crosshair on a viewer's canvas; returns whether napari could, and logs why not."""
    if OVERLAY in viewer.scene.overlays:
        viewer.scene.overlays[OVERLAY].visible = True
        return True
    try:
        viewer.scene.overlays[OVERLAY] = _overlay_class()(visible=True)
    except (ImportError, AttributeError, TypeError) as error:  # what comes where napari's internals are others
        logger.warning("the crosshair cannot be drawn: %s", error)
        return False
    return True


def hide_crosshair(viewer: Any) -> None:
    """Hide the crosshair."""
    if OVERLAY in viewer.scene.overlays:
        viewer.scene.overlays[OVERLAY].visible = False


_overlay: list[type[Any]] = []


def _overlay_class() -> type[Any]:
    """The overlay's model, whose visual napari finds from then on."""
    if not _overlay:
        from napari._vispy.overlays.base import ViewerOverlayMixin, VispySceneOverlay
        from napari._vispy.utils.visual import overlay_to_visual
        from napari.components.overlays import SceneOverlay
        from vispy.scene.visuals import Line

        class CrosshairOverlay(SceneOverlay):
            """Three lines through the viewer's point."""

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

        overlay_to_visual[CrosshairOverlay] = VispyCrosshairOverlay
        _overlay.append(CrosshairOverlay)
    return _overlay[0]
