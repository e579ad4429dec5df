"""The controls of a streamlines layer in napari's panel; imported where napari's own controls are where they were."""

import functools
from contextlib import ExitStack
from typing import Any

import numpy as np
from napari._qt.layer_controls.qt_layer_controls_base import QtLayerControls
from napari._qt.layer_controls.qt_tracks_controls import QtTracksControls
from napari._qt.widgets.qt_color_swatch import QColorSwatchEdit
from napari.utils.colormaps import AVAILABLE_COLORMAPS
from qtpy.QtCore import QSignalBlocker
from qtpy.QtWidgets import QCheckBox, QComboBox, QHBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.forms import Label, text_button
from napari_gpubio.gui.guards import WheelGuard
from napari_gpubio.gui.lines.paint import AUTO, LINES, LIT, TUBES, UNIFORM
from napari_gpubio.gui.streamlines.color_box import ColorByBox
from napari_gpubio.gui.streamlines.layer import ALL, SHOWN, Streamlines

_EVENTS = ("coloring", "color_by", "colormap", "slab_mm", "tail_width", "line_style", "shown", "saves", "legend")
_STYLES = {AUTO: "auto", LINES: "flat lines", LIT: "lit lines", TUBES: "tubes"}
_LARGEST = 1e30  # limit of a color, of any unit


class LimitsRow(QWidget):
    """The values at the ends of the colormap, and a button that makes them automatic again."""

    def __init__(self, layer: Streamlines, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._layer = layer
        self.low, self.high = (
            NumberBox(-_LARGEST, _LARGEST, 0.0, 4, self, toolTip=f"The value at the {end} end of the colormap")
            for end in ("lower", "upper")
        )
        self.auto = text_button("auto", "From the 2nd to the 98th percentile", self, self._set_automatic)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        for part, stretch in ((self.low, 2), (Label("to", self), 0), (self.high, 2), (self.auto, 1)):
            row.addWidget(part, stretch)
        for box in (self.low, self.high):
            box.edited.connect(self._on_edited)

    def show_limits(self) -> None:
        """Show the limits of the layer; without a number that colors it there is nothing to change."""
        limits = self._layer.contrast_limits
        self.setEnabled(limits is not None)
        for box, value in zip((self.low, self.high), limits or (0.0, 1.0), strict=True):
            box.show_value(value)

    def _on_edited(self, _: float) -> None:
        try:
            self._layer.contrast_limits = (self.low.value(), self.high.value())
        except InvalidInput:  # the first is not smaller: what was is shown again
            self.show_limits()

    def _set_automatic(self) -> None:
        self._layer.contrast_limits = None


class QtStreamlinesControls(QtLayerControls):
    """Opacity and blending as for every layer, then what is particular to streamlines."""

    PAN_ZOOM_ACTION_NAME = QtTracksControls.PAN_ZOOM_ACTION_NAME
    TRANSFORM_ACTION_NAME = QtTracksControls.TRANSFORM_ACTION_NAME

    def __init__(self, layer: Streamlines) -> None:
        super().__init__(layer)
        self.color_by = ColorByBox(self._layers_of_viewer)
        self.color = QColorSwatchEdit(initial_color=layer.color, tooltip="The color of all fibers, if it is uniform")
        self.colormap = QComboBox()
        self.colormap.addItems(list(AVAILABLE_COLORMAPS))
        self.limits = LimitsRow(layer)
        self.legend = QCheckBox(
            "", None, toolTip="On the canvas: a color bar, or a sphere that shows the colors of directions"
        )
        tip = "Slices show fibers within this distance on either side"
        self.slab_mm = NumberBox(0.0, 1000.0, 0.0, 2, unit="mm", arrows=True, toolTip=tip, specialValueText="all")
        self.line_style = QComboBox()
        for style, text in _STYLES.items():
            self.line_style.addItem(text, style)
        self.line_style.setToolTip("In 3-D; auto: tubes while at most 20,000 fibers are shown, else lit lines")
        self.line_width = NumberBox(1.0, 20.0, 1.0, 2, unit="px", arrows=True)
        self.saves = QComboBox(toolTip="Which fibers File > Save and the panel write")
        tip = "Show the fibers that filters, dissections and chosen cells or routes hide"
        self.show_all = text_button("Show all fibers", tip, self, lambda: setattr(layer, "shown", None))
        for label, widget in (
            ("color by:", self.color_by),
            ("color:", self.color),
            ("colormap:", self.colormap),
            ("limits:", self.limits),
            ("legend:", self.legend),
            ("slab:", self.slab_mm),
            ("line width:", self.line_width),
            ("3-D style:", self.line_style),
            ("saves:", self.saves),
            ("", self.show_all),
        ):
            self.layout().addRow(label, widget)
        WheelGuard(self)
        self._show_choices()
        self._connect()

    def _connect(self) -> None:
        events = self.layer.events
        events.properties.connect(self._show_choices)
        events.streamlines.connect(self._show_values)
        for name in _EVENTS:
            getattr(events, name).connect(self._show_values)
        for name, signal in (
            ("colormap", self.colormap.currentTextChanged),
            ("legend", self.legend.toggled),
            ("slab_mm", self.slab_mm.valueChanged),
            ("line_width", self.line_width.valueChanged),
        ):
            signal.connect(functools.partial(_set, self.layer, name))
        self.color.color_changed.connect(self._on_color)
        self.line_style.currentIndexChanged.connect(
            lambda _: _set(self.layer, "line_style", self.line_style.currentData())
        )
        self.saves.currentIndexChanged.connect(lambda _: _set(self.layer, "saves", self.saves.currentData()))

    def _layers_of_viewer(self) -> list[Any]:
        """The layers of the viewer whose panel this is in; none while it is in none."""
        viewer = getattr(self.parent(), "viewer", None)
        return [] if viewer is None else list(viewer.layers)

    def _on_color(self, color: Any) -> None:
        if not np.allclose(self.layer.color, color[:3], atol=1e-3):
            self.layer.color = color

    def _show_choices(self) -> None:
        self.color_by.set_layer(self.layer)
        self._show_values()

    def _show_values(self) -> None:
        layer, widgets = (
            self.layer,
            (self.color, self.colormap, self.legend, self.slab_mm, self.line_width, self.line_style),
        )
        self.color_by.show_choice()
        self.limits.show_limits()
        self._show_saved()
        with ExitStack() as silence:
            for widget in widgets:
                silence.enter_context(QSignalBlocker(widget))
            self.color.setColor(layer.color)
            self.color.setEnabled(layer.color_by == UNIFORM)
            if self.colormap.findText(layer.colormap) < 0:
                self.colormap.addItem(layer.colormap)
            self.colormap.setCurrentText(layer.colormap)
            self.colormap.setEnabled(layer.contrast_limits is not None)
            self.legend.setChecked(layer.legend)
            self.slab_mm.setValue(layer.slab_mm)
            self.line_width.setValue(layer.line_width)
            self.line_style.setCurrentIndex(self.line_style.findData(layer.line_style))

    def _show_saved(self) -> None:
        """Say how many fibers each choice writes."""
        shown, total = int(self.layer.shown.sum()), len(self.layer.lines)
        with QSignalBlocker(self.saves):
            self.saves.clear()
            self.saves.addItem(f"shown fibers ({shown:,})", SHOWN)
            self.saves.addItem(f"all fibers ({total:,})", ALL)
            self.saves.setCurrentIndex(self.saves.findData(self.layer.saves))
        self.show_all.setVisible(shown < total)


def _set(layer: Streamlines, name: str, value: Any) -> None:
    """Set a display setting, unless it is that already."""
    if getattr(layer, name) != value:
        setattr(layer, name, value)
