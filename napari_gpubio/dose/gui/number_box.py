"""A number, and a slider beside it that moves it."""

import math

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QHBoxLayout, QSlider, QWidget

from napari_gpubio.gui.number_field import NumberBox

_STEPS = 1000  # of a slider


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
        self.box.show_value(float(f"{math.exp(value) if self._logarithmic else value:.4g}"))
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
