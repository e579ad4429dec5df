"""Numbers beside each other."""

from collections.abc import Sequence

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QHBoxLayout, QWidget

from napari_gpubio.gui.number_field import NumberBox


class NumberRow(QWidget):
    """Three numbers x, y, z."""

    edited = Signal(object)

    def __init__(self, step: float, decimals: int, tips: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(3)
        self.boxes = [NumberBox(-1e5, 1e5, 0.0, decimals, self, step=step) for _ in tips]
        for box, tip in zip(self.boxes, tips, strict=True):
            box.setToolTip(tip)
            box.edited.connect(self._on_edited)
            row.addWidget(box, 1)

    def show_values(self, values: Sequence[float]) -> None:
        """Show numbers without a word; what is not edited keeps all its digits."""
        for box, value in zip(self.boxes, values, strict=True):
            box.show_value(value)

    def _on_edited(self, _: float) -> None:
        self.edited.emit(tuple(box.value() for box in self.boxes))
