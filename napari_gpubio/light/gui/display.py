"""How results are displayed: a legend of powers of ten, the strength of the source, colors and noise."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from qtpy.QtCore import QRectF, Qt, Signal
from qtpy.QtGui import QColor, QImage, QPainter, QPalette
from qtpy.QtWidgets import QCheckBox, QSizePolicy, QWidget

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.quantity import power_of_ten, quantity_of
from napari_gpubio.gui import theme
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.forms import ParamForm, aligned_form, fill_column, row_label, text_button
from napari_gpubio.light.gui.displayed import DisplayOptions, DisplaySettings
from napari_gpubio.optics.estimates import UNITS, FluenceUnit

NOT_GIVEN = "not given"
_BAR, _GAP, _MARGIN = 12, 3, 16  # pixels
_STEPS, _MAX_TICKS = 256, 8


class DecadeBar(QWidget):
    """Legend of a layer of decimal logarithms; it follows the layer's colors and limits."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._layer: Any | None = None
        self._unit = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(_BAR + 2 * _GAP + 2 * self.fontMetrics().height())
        self.hide()

    def show_layer(self, layer: Any | None, unit: str) -> None:
        """Follow a layer, or none."""
        self._unit = unit
        if layer is not self._layer:
            for event in self._events():
                event.disconnect(self._on_event)
            self._layer = layer
            for event in self._events():
                event.connect(self._on_event)
        self.setVisible(layer is not None)
        self.update()

    @property
    def unit(self) -> str:
        """The text below the powers of ten."""
        return self._unit

    @property
    def texts(self) -> list[str]:
        """The powers of ten below the bar."""
        return [text for _, text in self._ticks()]

    def paintEvent(self, _event: Any) -> None:
        """Qt: draw it."""
        if self._layer is None:
            return
        painter = QPainter(self)
        bar = QRectF(_MARGIN, 0, self.width() - 2 * _MARGIN, _BAR)
        painter.drawImage(bar, self._colors(self._layer))
        painter.setPen(self.palette().color(QPalette.ColorRole.WindowText))
        line = self.fontMetrics().height()
        for place, text in self._ticks():
            x = bar.left() + place * bar.width()
            painter.drawLine(int(x), _BAR, int(x), _BAR + 2)
            painter.drawText(QRectF(x - 40, _BAR + _GAP, 80, line), Qt.AlignmentFlag.AlignHCenter, text)
        painter.setPen(QColor(theme.MUTED))
        below = QRectF(0, _BAR + _GAP + line, self.width(), line)
        painter.drawText(below, Qt.AlignmentFlag.AlignHCenter, self._unit)
        painter.end()

    def _events(self) -> list[Any]:
        return [] if self._layer is None else [self._layer.events.colormap, self._layer.events.contrast_limits]

    def _on_event(self, *_: Any) -> None:
        self.update()

    def _colors(self, layer: Any) -> QImage:
        rgba = (np.atleast_2d(layer.colormap.map(np.linspace(0, 1, _STEPS))) * 255).astype(np.uint8)
        return QImage(rgba.tobytes(), _STEPS, 1, 4 * _STEPS, QImage.Format.Format_RGBA8888).copy()

    def _ticks(self) -> list[tuple[float, str]]:
        """Places (0 to 1) and texts of whole decades."""
        if self._layer is None:
            return []
        low, high = (float(limit) for limit in self._layer.contrast_limits)
        decades = range(math.ceil(low - 1e-6), math.floor(high + 1e-6) + 1)
        every = -(-len(decades) // _MAX_TICKS)
        return [((n - low) / (high - low), power_of_ten(n)) for n in decades[::-1][::every]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strength:
    """Power (mW) and energy (J) of the source; None where unknown."""

    power_mw: float | None = None
    energy_j: float | None = None


class DisplayBox(QWidget):
    """Legend, power and energy of the source, decades and noise; ``skip`` is a setting that the mode does not have."""

    strength_changed = Signal()
    changed = Signal()
    keep_requested = Signal()

    def __init__(self, skip: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.legend = DecadeBar(self)
        self.form = ParamForm(DisplaySettings(), skip=(skip,), parent=self)
        self._above, self.below = aligned_form(None), aligned_form(None)
        self.power_box = self._strength_row("Source power", "mW", "Power of a continuous source, for mW/mm²")
        tip = "How long the source is on; with the power it gives the energy"
        self.exposure_box = self._strength_row("Exposure", "s", tip)
        self.energy_box = self._strength_row("Energy", "J", "Total energy of the source, for J/cm²")
        tip = "Leave the layers of this result unchanged; the next run adds new layers for comparison"
        keep = text_button("Keep these layers", tip, self, self.keep_requested.emit)
        fill_column(self, self.legend, self._above, self.form, self.below, keep, spacing=3)
        self.power_box.edited.connect(lambda _: self._on_power())
        self.exposure_box.edited.connect(lambda _: self._on_power())
        self.energy_box.edited.connect(self._on_energy)
        self.form.changed.connect(self.changed)

    @property
    def strength(self) -> Strength:
        """Power and energy of the source, as far as they are given."""
        return Strength(power_mw=self.power_box.value() or None, energy_j=self.energy_box.value() or None)

    def options(self, unit: FluenceUnit) -> DisplayOptions:
        """Return the display options as they stand, but for the beam."""
        return DisplayOptions(unit=unit, **dataclasses.asdict(self.form.value()))

    def _strength_row(self, label: str, unit: str, tip: str) -> NumberBox:
        box = NumberBox(0.0, 1e9, 0.0, 6, self, unit=unit, arrows=True, toolTip=tip, specialValueText=NOT_GIVEN)
        self._above.addRow(row_label(label, tip, self), box)
        return box

    def _on_power(self) -> None:
        """Energy is power times exposure, where both are given."""
        if self.power_box.value() and self.exposure_box.value():
            self.energy_box.show_value(1e-3 * self.power_box.value() * self.exposure_box.value())
        self.strength_changed.emit()

    def _on_energy(self, energy_j: float) -> None:
        """Where the power is given, the exposure follows the energy."""
        if self.power_box.value():
            self.exposure_box.show_value(energy_j / (1e-3 * self.power_box.value()))
        self.strength_changed.emit()


class VoxelDisplayBox(DisplayBox):
    """Display options of a volume."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("quantity", parent)

    def show_legend(self, layer: Any | None, gate: str = "") -> None:
        """Describe the colors of a layer, and the time gate on screen."""
        unit = None if layer is None else carried(layer, "unit")
        parts = [] if unit is None else [f"{unit} {UNITS[unit]}", *([gate] if gate else [])]
        self.legend.show_layer(layer, " · ".join(parts))


class LayerDisplayBox(DisplayBox):
    """Display options of a map over r and z."""

    borders_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("show_error", parent)
        self.borders_box = QCheckBox("draw layer boundaries", self, checked=True)
        self.borders_box.toggled.connect(lambda _: self.borders_changed.emit())
        tip = "Lines between layers, and the names of the layers"
        self.below.addRow(row_label("Boundaries", tip, self), self.borders_box)

    @property
    def borders(self) -> bool:
        """Whether the layers' borders are drawn."""
        return self.borders_box.isChecked()

    def show_legend(self, layer: Any | None) -> None:
        """Describe the colors of a layer."""
        quantity = None if layer is None else quantity_of(layer)
        text = "" if quantity is None else f"{quantity.name}, {carried(layer, 'meaning')}"
        self.legend.show_layer(layer, text)
