"""The tools of the plot that are linked to the image, and what they say."""

from collections.abc import Sequence
from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QComboBox, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from napari_gpubio.dose.gui.request import Counted, Plan, Structure

_DOSE_TIP = (
    "A line at a dose: drag it, and its isodose is drawn in the slice (in 3-D as a surface); the voxels with at least "
    "this dose light up inside the structure"
)
_BAND_TIP = "An interval of doses: drag its ends or its middle, and the voxels with such a dose light up"
_VOLUME_TIP = "A line at a volume: drag it to read D_x of every structure"
_INSIDE_TIP = "Inside which structure voxels light up; a click on a curve or on a row of the table chooses it"
_PLAN_TIP = (
    "Of which plan the isodose, the lit voxels and a clicked voxel's dose are; a click on a curve or row chooses it"
)
_HINT = "Move the mouse over a curve, click a voxel in the image, or choose a tool above."


class ToolsBox(QWidget):
    """Buttons of the tools, the structure in which voxels light up, and the read-out."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.dose = self._button("Isodose", _DOSE_TIP)
        self.band = self._button("Interval", _BAND_TIP)
        self.volume = self._button("D at volume", _VOLUME_TIP)
        self.inside = QComboBox(self)
        self.inside.setToolTip(_INSIDE_TIP)
        self.inside.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.of_plan = QComboBox(self)
        self.of_plan.setToolTip(_PLAN_TIP)
        self.of_plan.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.readout = QLabel(_HINT, self)
        self.readout.setWordWrap(True)
        self.readout.setTextFormat(Qt.TextFormat.RichText)
        self.readout.setMinimumHeight(64)
        self.readout.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.readout.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        row, second = QHBoxLayout(), QHBoxLayout()
        for button in (self.dose, self.band, self.volume):
            row.addWidget(button, 1)
        second.addWidget(QLabel("lit inside", self))
        second.addWidget(self.inside, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        layout.addLayout(row)
        layout.addLayout(second)
        self._second = second
        self._third = QWidget(self)
        third = QHBoxLayout(self._third)
        third.setContentsMargins(0, 0, 0, 0)
        third.addWidget(QLabel("in the dose", self))
        third.addWidget(self.of_plan, 1)
        self._third.hide()
        layout.addWidget(self._third)
        layout.addWidget(self.readout)
        self.dose.toggled.connect(lambda on: self._on_toggled(self.band, on))
        self.band.toggled.connect(lambda on: self._on_toggled(self.dose, on))
        self.volume.toggled.connect(lambda _: self.changed.emit())
        for box in (self.inside, self.of_plan):
            box.currentIndexChanged.connect(lambda *_: self.changed.emit())

    @property
    def structures(self) -> tuple[Structure, ...]:
        """The structures in which voxels light up, all of one layer."""
        return self.inside.currentData() or ()

    @property
    def plan(self) -> int:
        """The plan in whose dose they light up."""
        return max(int(self.of_plan.currentIndex()), 0)

    def offer(self, counted: Counted | None) -> None:
        """Offer all structures of each layer, and each alone, and the plans; the chosen ones stay, by their text."""
        self._offer_plans(() if counted is None else counted.request.plans)
        chosen = self.inside.currentText()
        was = self.inside.blockSignals(True)
        self.inside.clear()
        for layer in () if counted is None else counted.request.layers:
            together = tuple(one for one in counted.structures if one.layer == layer) if counted else ()
            self.inside.addItem(f"all of {layer.name}", together)
        for one in () if counted is None else counted.structures:
            self.inside.addItem(one.name, (one,))
        self.inside.setCurrentIndex(max(self.inside.findText(chosen), 0))
        self.inside.blockSignals(was)

    def _offer_plans(self, plans: Sequence[Plan]) -> None:
        chosen = self.plan
        was = self.of_plan.blockSignals(True)
        self.of_plan.clear()
        self.of_plan.addItems([plan.name for plan in plans])
        self.of_plan.setCurrentIndex(chosen if chosen < len(plans) else 0)
        self.of_plan.blockSignals(was)
        self._third.setVisible(len(plans) > 1)

    def choose_plan(self, number: int) -> None:
        """Choose a plan by its number."""
        self.of_plan.setCurrentIndex(number)

    def add_button(self, button: QWidget) -> None:
        """Put a button beside the list of structures."""
        self._second.addWidget(button)

    def choose(self, name: str) -> None:
        """Choose a structure by its name."""
        self.inside.setCurrentText(name)

    def say(self, text: str) -> None:
        """Show a read-out, or how to get one."""
        self.readout.setText(text or _HINT)

    def _button(self, text: str, tip: str) -> QPushButton:
        button = QPushButton(text, self)
        button.setCheckable(True)
        button.setToolTip(tip)
        button.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        return button

    def _on_toggled(self, other: Any, on: bool) -> None:
        """Only one of two tools lights voxels."""
        if on and other.isChecked():
            was = other.blockSignals(True)
            other.setChecked(False)
            other.blockSignals(was)
        self.changed.emit()
