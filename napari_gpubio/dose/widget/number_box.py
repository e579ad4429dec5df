"""A number, and a slider beside it that moves it."""

import math
from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QDoubleSpinBox, QHBoxLayout, QSizePolicy, QSlider, QWidget

_STEPS = 1000  # of a slider


class NumberBox(QDoubleSpinBox):
    """A number that is typed; the wheel scrolls the panel unless it was clicked before."""

    def __init__(self, low: float, high: float, value: float, decimals: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setRange(low, high)
        self.setDecimals(decimals)
        self.setValue(value)
        self.setKeyboardTracking(False)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setButtonSymbols(QDoubleSpinBox.ButtonSymbols.NoButtons)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setStyleSheet("min-width: 48px; padding: 1px 5px;")

    def wheelEvent(self, event: Any) -> None:
        """Qt: the wheel was turned over it."""
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()

    def textFromValue(self, value: float) -> str:
        """Qt: the text of a number, without zeros at its end."""
        text = f"{value:.{self.decimals()}f}"
        return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


class SliderRow(QWidget):
    """A number and its slider, which speak at every move.

    Parameters
    ----------
    box
        The number.
    ends
        Range of the slider; the number may lie beyond it.
    logarithmic
        Whether the slider goes by factors.
    """

    changed = Signal(float)

    def __init__(
        self, box: NumberBox, ends: tuple[float, float], *, logarithmic: bool = False, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.box, self._ends, self._logarithmic = box, ends, logarithmic
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setRange(0, _STEPS)
        self.slider.wheelEvent = lambda event: event.ignore()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(box, 2)
        row.addWidget(self.slider, 3)
        self.slider.valueChanged.connect(self._on_slider)
        box.valueChanged.connect(self._on_box)
        self._show_slider()

    def set_ends(self, low: float, high: float) -> None:
        """Give the slider another range."""
        self._ends = low, high
        self._show_slider()

    def _on_slider(self, step: int) -> None:
        low, high = (math.log(end) if self._logarithmic else end for end in self._ends)
        value = low + (high - low) * step / _STEPS
        was = self.box.blockSignals(True)
        self.box.setValue(float(f"{math.exp(value) if self._logarithmic else value:.4g}"))
        self.box.blockSignals(was)
        self.changed.emit(self.box.value())

    def _on_box(self, value: float) -> None:
        self._show_slider()
        self.changed.emit(value)

    def _show_slider(self) -> None:
        low, high, value = *self._ends, self.box.value()
        if self._logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(max(value, 1e-300))
        share = (value - low) / (high - low) if high > low else 0.0
        was = self.slider.blockSignals(True)
        self.slider.setValue(round(_STEPS * min(max(share, 0.0), 1.0)))
        self.slider.blockSignals(was)
