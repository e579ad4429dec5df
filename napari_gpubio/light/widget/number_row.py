"""Small inputs that the panel's boxes share: numbers beside each other, and one that the wheel leaves alone."""

from collections.abc import Sequence
from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QDoubleSpinBox, QHBoxLayout, QSizePolicy, QWidget


class NumberBox(QDoubleSpinBox):
    """A number; it speaks when the user is done, and the wheel scrolls the panel unless it was clicked before."""

    edited = Signal(float)

    def __init__(self, low: float, high: float, step: float, decimals: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setRange(low, high)
        self.setSingleStep(step)
        self.setDecimals(decimals)
        self.setKeyboardTracking(False)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.valueChanged.connect(self.edited)

    def show_value(self, value: float) -> None:
        """Show a number without a word."""
        was = self.blockSignals(True)
        self.setValue(value)
        self.blockSignals(was)

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


class NumberRow(QWidget):
    """Three numbers x, y, z."""

    edited = Signal(object)

    def __init__(self, step: float, decimals: int, tips: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._exact: tuple[float, ...] = (0.0, 0.0, 0.0)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(3)
        self.boxes = [NumberBox(-1e5, 1e5, step, decimals, self) for _ in tips]
        for axis, (box, tip) in enumerate(zip(self.boxes, tips, strict=True)):
            box.setToolTip(tip)
            share_width(box)
            box.setButtonSymbols(QDoubleSpinBox.ButtonSymbols.NoButtons)
            box.edited.connect(lambda value, axis=axis: self._on_edited(axis, value))
            row.addWidget(box, 1)

    def show_values(self, values: Sequence[float]) -> None:
        """Show numbers without a word; what is not edited keeps all its digits."""
        self._exact = tuple(float(v) for v in values)
        for box, value in zip(self.boxes, values, strict=True):
            box.show_value(value)

    def _on_edited(self, axis: int, value: float) -> None:
        self._exact = (*self._exact[:axis], value, *self._exact[axis + 1 :])
        self.edited.emit(self._exact)


def share_width(widget: QWidget) -> None:
    """Let an input be as narrow as its row has room for, instead of as wide as napari's style makes it."""
    widget.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    widget.setStyleSheet("min-width: 36px; padding: 1px 5px;")
