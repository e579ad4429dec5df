"""Controls of a streamlines layer in napari's layer panel: color, colormap, slab and line width.

napari has no public way to add layer controls either. Where its internals have moved, its Tracks controls are shown:
they change colors and line width, and their time sliders do nothing.
"""

import logging
from contextlib import ExitStack
from typing import Any

from napari_gpubio.gui.lines import DIRECTION, UNIFORM
from napari_gpubio.gui.streamlines.layer import Streamlines

logger = logging.getLogger(__name__)


def register_controls() -> bool:
    """Give `Streamlines` layers their own controls in napari's panel; doing it again changes nothing.

    Returns
    -------
    bool
        Whether it worked. Without Qt it cannot, and need not.
    """
    try:
        from napari._qt.layer_controls.qt_layer_controls_container import layer_to_controls

        create_controls = _controls_factory()
        layer_to_controls[Streamlines] = create_controls
    except (ImportError, AttributeError, TypeError) as error:
        logger.info("streamlines have the controls of napari's Tracks layer: %s", error)
        return False
    return True


def _controls_factory() -> Any:
    """Return a function that makes the controls of a layer, or napari's own ones if that fails."""
    from napari._qt.layer_controls.qt_layer_controls_base import QtLayerControls
    from napari._qt.layer_controls.qt_tracks_controls import QtTracksControls
    from napari.utils.colormaps import AVAILABLE_COLORMAPS
    from qtpy.QtCore import QSignalBlocker
    from qtpy.QtWidgets import QComboBox

    from napari_gpubio.gui.fields import NumberBox

    class QtStreamlinesControls(QtLayerControls):
        """Opacity and blending as for every layer, then what is particular to streamlines."""

        PAN_ZOOM_ACTION_NAME = QtTracksControls.PAN_ZOOM_ACTION_NAME
        TRANSFORM_ACTION_NAME = QtTracksControls.TRANSFORM_ACTION_NAME

        def __init__(self, layer: Streamlines) -> None:
            super().__init__(layer)
            self.color_by = QComboBox()
            self.colormap = QComboBox()
            self.colormap.addItems(list(AVAILABLE_COLORMAPS))
            self.slab_mm = NumberBox(0.0, 1000.0, 0.0, 2, unit="mm", arrows=True)
            self.slab_mm.setSpecialValueText("all")
            self.line_width = NumberBox(1.0, 20.0, 1.0, 2, unit="px", arrows=True)
            for label, widget in (
                ("color by:", self.color_by),
                ("colormap:", self.colormap),
                ("slab:", self.slab_mm),
                ("line width:", self.line_width),
            ):
                self.layout().addRow(label, widget)
            self._connect_layer()
            self._show_choices()
            self._show_values()
            self._connect_widgets()

        def _connect_layer(self) -> None:
            events = self.layer.events
            events.properties.connect(self._show_choices)
            for event in (events.coloring, events.color_by, events.colormap, events.slab_mm, events.tail_width):
                event.connect(self._show_values)

        def _connect_widgets(self) -> None:
            self.color_by.currentTextChanged.connect(lambda choice: _set(self.layer, "color_by", choice))
            self.colormap.currentTextChanged.connect(lambda name: _set(self.layer, "colormap", name))
            self.slab_mm.valueChanged.connect(lambda value: _set(self.layer, "slab_mm", value))
            self.line_width.valueChanged.connect(lambda value: _set(self.layer, "line_width", value))

        def _show_choices(self) -> None:
            with QSignalBlocker(self.color_by):
                self.color_by.clear()
                self.color_by.addItems(self.layer.color_choices)
            self._show_values()

        def _show_values(self) -> None:
            with ExitStack() as silence:
                for widget in (self.color_by, self.colormap, self.slab_mm, self.line_width):
                    silence.enter_context(QSignalBlocker(widget))
                if self.colormap.findText(self.layer.colormap) < 0:
                    self.colormap.addItem(self.layer.colormap)
                self.color_by.setCurrentText(self.layer.color_by)
                self.colormap.setCurrentText(self.layer.colormap)
                self.colormap.setEnabled(self.layer.color_by not in (DIRECTION, UNIFORM))
                self.slab_mm.setValue(self.layer.slab_mm)
                self.line_width.setValue(self.layer.line_width)

    def create(layer: Streamlines) -> Any:
        try:
            return QtStreamlinesControls(layer)
        except (ImportError, AttributeError, TypeError) as error:
            logger.warning("%s has the controls of napari's Tracks layer: %s", layer.name, error)
            return QtTracksControls(layer)

    return create


def _set(layer: Streamlines, name: str, value: Any) -> None:
    """Set a display setting, unless it is that already."""
    if getattr(layer, name) != value:
        setattr(layer, name, value)
