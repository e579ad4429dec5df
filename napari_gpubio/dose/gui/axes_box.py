"""The row of choices above the plot: what is on its axes."""

import dataclasses
from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QComboBox, QHBoxLayout, QSizePolicy, QWidget

from napari_gpubio.dose.gui.axes import Axes

CUMULATIVE, DIFFERENTIAL = "cumulative", "differential"


class AxesBox(QWidget):
    """Cumulative or differential, units of both axes, logarithm of the dose."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.kind = _choice((CUMULATIVE, DIFFERENTIAL), "Volume above each dose, or volume in dose intervals", self)
        self.volume = _choice(("%", "cc"), "Unit of volume: % of the structure, or cc", self)
        self.dose = _choice(("unit", "%"), "Unit of dose: as it is, or % of the prescription", self)
        self.log = QCheckBox("log dose", self)
        self.log.setToolTip("Logarithmic dose axis, for doses over many decades such as light")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        for widget, stretch in ((self.kind, 7), (self.volume, 3), (self.dose, 4), (self.log, 0)):
            row.addWidget(widget, stretch)
        for box in (self.kind, self.volume, self.dose):
            box.currentIndexChanged.connect(lambda *_: self.changed.emit())
        self.log.toggled.connect(lambda *_: self.changed.emit())

    def axes(self, reference: float | None, unit: str) -> Axes:
        """The axes as they are chosen."""
        return Axes(
            unit=unit,
            reference=reference,
            relative_dose=self.dose.currentIndex() == 1,
            relative_volume=self.volume.currentIndex() == 0,
            logarithmic=self.log.isChecked(),
            differential=self.kind.currentText() == DIFFERENTIAL,
        )

    def show_unit(self, unit: str) -> None:
        """Name the unit of the dose."""
        self.dose.setItemText(0, unit or "unit")

    def read(self, axes: Axes) -> None:
        """Choose axes."""
        was = self.blockSignals(True)
        self.dose.setCurrentIndex(int(axes.relative_dose))
        self.volume.setCurrentIndex(int(not axes.relative_volume))
        self.log.setChecked(axes.logarithmic)
        self.kind.setCurrentText(DIFFERENTIAL if axes.differential else CUMULATIVE)
        self.blockSignals(was)
        self.changed.emit()


def plain(axes: Axes) -> Axes:
    """The axes without % of a prescription that is not there."""
    return dataclasses.replace(axes, relative_dose=axes.relative_dose and axes.reference is not None)


def _choice(texts: tuple[str, ...], tip: str, parent: Any) -> QComboBox:
    box = QComboBox(parent)
    box.addItems(list(texts))
    box.setToolTip(tip)
    box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return box
