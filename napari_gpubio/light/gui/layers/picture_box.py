"""The part of the panel that says what is drawn, and how."""

from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QComboBox, QWidget

from napari_gpubio.core.napari_io import carried
from napari_gpubio.gui.forms import aligned_form, row_label
from napari_gpubio.light.gui.decade_bar import DecadeBar
from napari_gpubio.light.gui.picture_inputs import decades_input, keep_button

_QUANTITIES = {"fluence": "fluence", "absorbed energy": "absorbed"}


class PictureBox(QWidget):
    """Quantity, decades, noise and borders of the picture, with its legend."""

    changed = Signal()
    borders_changed = Signal()
    keep_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bar = DecadeBar(self)
        self._quantity = QComboBox(self)
        for text, quantity in _QUANTITIES.items():
            self._quantity.addItem(text, quantity)
        self._quantity.setToolTip(
            "Fluence, or what is absorbed in a volume; not known are fluence where nothing absorbs"
        )
        self._decades, decades = decades_input("bin", self)
        self._mask = QCheckBox("hide errors above 50 %", self)
        self._mask.setToolTip("The standard error relative to the value, from the spread of batches of photons")
        self._borders = QCheckBox("draw the layers' borders", self)
        self._borders.setChecked(True)
        keep = keep_button(self)
        keep.clicked.connect(lambda: self.keep_wanted.emit())
        form = aligned_form(self)
        form.addRow(self._bar)
        form.addRow(row_label("Show", self._quantity.toolTip(), self), self._quantity)
        form.addRow(row_label("Colors", self._decades.toolTip(), self), decades)
        form.addRow(row_label("Noise", self._mask.toolTip(), self), self._mask)
        form.addRow(row_label("Borders", "Lines where layers meet, and their names", self), self._borders)
        form.addRow("", keep)
        for signal in (self._quantity.activated, self._decades.valueChanged, self._mask.toggled):
            signal.connect(lambda *_: self.changed.emit())
        self._borders.toggled.connect(lambda *_: self.borders_changed.emit())

    @property
    def quantity(self) -> str:
        """What is drawn."""
        return str(self._quantity.currentData())

    @property
    def decades(self) -> int:
        """How many powers of ten the colors span."""
        return int(self._decades.value())

    @property
    def masks(self) -> bool:
        """Whether noisy bins are hidden."""
        return self._mask.isChecked()

    @property
    def borders(self) -> bool:
        """Whether the layers' borders are drawn."""
        return self._borders.isChecked()

    def set_quantity(self, quantity: str) -> None:
        """Draw another quantity."""
        self._quantity.setCurrentIndex(self._quantity.findData(quantity))
        self.changed.emit()

    def show_legend(self, layer: Any | None) -> None:
        """Say what the colors of a layer stand for."""
        told = "" if layer is None else f"{carried(layer, 'quantity')}, {carried(layer, 'meaning')}"
        self._bar.show_layer(layer, told)
