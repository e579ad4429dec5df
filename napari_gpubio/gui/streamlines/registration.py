"""What napari shows a streamlines layer with, its visual and its controls, put into napari's internals.

Where these have moved, napari draws the layer with its own (slower) Tracks visual and shows its Tracks controls, which
change colors and line width, and whose time sliders do nothing.
"""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from napari_gpubio.gui.lines.packed import display_matrix
from napari_gpubio.gui.streamlines.layer import Streamlines
from napari_gpubio.gui.streamlines.visual import Bundle

logger = logging.getLogger(__name__)
_MOVED = (ImportError, AttributeError, TypeError)  # what comes where napari's internals are others
_SLOWER = "is drawn with napari's own Tracks visual, which is slower"
_CONTROLS = "has the controls of napari's Tracks layer"


def register_visual() -> bool:
    """Let napari draw `Streamlines` layers with the visual of this module; returns whether it worked, and logs why not.

    Doing it again changes nothing.
    """
    try:
        from napari._vispy.utils.visual import layer_to_visual

        layer_to_visual[Streamlines] = _visual_factory()
    except _MOVED as error:
        logger.warning("a streamlines layer %s: %s", _SLOWER, error)
        return False
    return True


def _visual_factory() -> Any:
    """Return a function that makes the napari visual of a layer."""
    from napari._vispy.layers.base import VispyBaseLayer
    from napari._vispy.layers.tracks import VispyTracksLayer

    class VispyStreamlines(VispyBaseLayer):
        """What stands between a `Streamlines` layer and its visual."""

        def __init__(self, layer: Streamlines, *args: Any, **kwargs: Any) -> None:
            super().__init__(layer, Bundle(), *args, **kwargs)
            self._screen: Any = None
            self.node.events.canvas_change.connect(self._on_canvas_change)
            layer.events.streamlines.connect(self._on_streamlines_change)
            layer.events.coloring.connect(self._on_coloring_change)
            layer.events.shown.connect(self._on_shown_change)
            layer.events.picked.connect(self._on_picked)
            layer.events.slab_mm.connect(self._on_view_change)
            layer.events.tail_width.connect(self._on_line_width_change)
            layer.events.line_style.connect(self._on_line_style_change)
            self.reset()

        def reset(self) -> None:
            super().reset()
            self._on_streamlines_change()
            self._on_line_width_change()
            self._on_line_style_change()

        def _on_canvas_change(self, event: Any) -> None:
            if self._screen is not None:
                self._screen.stop()
            self._screen = _screen_of(event.new)
            self.node.set_screen(self._screen)

        def _on_data_change(self) -> None:
            # napari calls this for every other slice or order of axes
            self._on_matrix_change()

        def _on_matrix_change(self) -> None:
            super()._on_matrix_change()
            self._on_view_change()

        def _on_streamlines_change(self) -> None:
            self.node.set_lines(self.layer.lines)
            self._on_picked()

        def _on_coloring_change(self) -> None:
            self.node.set_colors(self.layer.lines)

        def _on_shown_change(self) -> None:
            self.node.set_shown(self.layer.lines)
            self._on_picked()

        def _on_picked(self) -> None:
            self.node.set_selected(self.layer.lines, self.layer.selected_fiber)

        def _on_line_width_change(self) -> None:
            self.node.line_width = self.layer.line_width

        def _on_line_style_change(self) -> None:
            self.node.style = self.layer.line_style

        def _on_view_change(self) -> None:
            linear, translate = self.layer.data_to_world_matrix()
            where = self.layer._slice_input
            plane, half_slab = np.zeros(4), 0.0
            if where.ndisplay == 2:
                axis = where.not_displayed[0]
                plane = np.append(linear[axis, ::-1], translate[axis] - where.world_slice.point[axis])
                half_slab = self.layer.slab_mm
            self.node.set_view(display_matrix(linear, where.displayed), plane, half_slab)

    return _falling_back(VispyStreamlines, VispyTracksLayer, _SLOWER)


def _falling_back(ours: Callable[..., Any], of_tracks: Callable[..., Any], why: str) -> Callable[..., Any]:
    """Return what calls ours, or what napari has for Tracks where that fails."""

    def create(layer: Streamlines, *args: Any, **kwargs: Any) -> Any:
        try:
            return ours(layer, *args, **kwargs)
        except _MOVED as error:
            logger.warning("%s %s: %s", layer.name, why, error)
            return of_tracks(layer, *args, **kwargs)

    return create


def _screen_of(canvas: Any) -> Any:
    """Return a `CanvasScreen`, or None if the canvas is no window of Qt's."""
    try:
        from qtpy.QtCore import QObject

        from napari_gpubio.gui.streamlines.visual import CanvasScreen
    except ImportError:
        return None
    return CanvasScreen(canvas) if isinstance(getattr(canvas, "native", None), QObject) else None


def register_controls() -> bool:
    """Give `Streamlines` layers their own controls in napari's panel; as `register_visual`, and needs Qt."""
    try:
        from napari._qt.layer_controls.qt_layer_controls_container import layer_to_controls

        layer_to_controls[Streamlines] = _controls_factory()
    except _MOVED as error:
        logger.info("a streamlines layer %s: %s", _CONTROLS, error)
        return False
    return True


def _controls_factory() -> Any:
    """Return a function that makes the controls of a layer."""
    from napari._qt.layer_controls.qt_tracks_controls import QtTracksControls

    from napari_gpubio.gui.streamlines.controls import QtStreamlinesControls

    return _falling_back(QtStreamlinesControls, QtTracksControls, _CONTROLS)
