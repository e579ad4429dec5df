"""The controls around the plot: axes, prescription and scale, and the tools that are linked to the image."""

from collections.abc import Sequence
from typing import Any

from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtWidgets import QCheckBox, QComboBox, QPushButton, QSizePolicy, QWidget

from napari_gpubio.core.napari_io import carried
from napari_gpubio.dose.gui.curves import Axes
from napari_gpubio.dose.gui.histograms import LiveHistograms, Plan, Structure
from napari_gpubio.dose.napari_io import PRESCRIPTION, PRESCRIPTIONS
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.fields import ElidedComboBox, NumberBox, SliderRow
from napari_gpubio.gui.forms import Label, RichLabel, aligned_form, fill_column, row_label, row_of

CUMULATIVE, DIFFERENTIAL = "cumulative", "differential"
FACTOR, LIGHT = "factor", "power × time"
_PRESCRIPTION_TIP = "Dose that counts as 100 %, in the unit of the dose (0: none); metrics such as V95%[%] need it"
_PRESCRIBED_TIP = "What the plan prescribes to several targets: choose which one is 100 %"
_SCALE_TIP = "Factor for all doses, for instance for another number of fractions or another power of a light source"
_ENERGY_TIP = "Light energy that the dose image was computed for; doses are multiplied by power × time / energy"
_DOSE_TIP = (
    "A line at a dose: drag it to draw its isodose in the slice (in 3-D as a surface) and to highlight the voxels of "
    "the structure with at least this dose"
)
_INTERVAL_TIP = "An interval of doses: drag its ends or its middle to highlight the voxels whose dose lies in it"
_VOLUME_TIP = "A line at a volume: drag it to read D_x of every structure"
_INSIDE_TIP = "Structure in which voxels are highlighted; click a curve or a row of the table to choose it"
_PLAN_TIP = (
    "Plan of the isodose, the highlighted voxels and a clicked voxel's dose; click a curve or a row to choose it"
)
_HINT = "Move the mouse over a curve, click a voxel in the image, or choose a tool above."
_MIN_READOUT_PIXELS = 36


class AxesBox(QWidget):
    """Cumulative or differential, units of both axes, logarithm of the dose."""

    axes_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.kind = _choice_box("Volume above each dose, or volume in dose intervals", self, CUMULATIVE, DIFFERENTIAL)
        self.volume = _choice_box("Unit of volume: % of the structure, or cc", self, "%", "cc")
        self.dose = _choice_box("Unit of dose: that of the image, or % of the prescription", self, "unit", "%")
        self.log = QCheckBox(
            "log dose", self, toolTip="Logarithmic dose axis, for doses that span many decades, as light does"
        )
        row = row_of(self.kind, self.volume, self.dose, self.log, stretch=(7, 3, 4, 0))
        row.setSpacing(4)  # else there is no room for the words
        self.setLayout(row)
        signals = [box.currentIndexChanged for box in (self.kind, self.volume, self.dose)] + [self.log.toggled]
        connect_all((signal, lambda *_: self.axes_changed.emit()) for signal in signals)

    def axes(self, reference: float | None, unit: str, quantity: str = "dose") -> Axes:
        """Return the axes as they are chosen, for a prescription, a unit of dose, and what is counted."""
        return Axes(
            unit=unit,
            quantity=quantity,
            reference=reference,
            relative_dose=self.dose.currentIndex() == 1,
            relative_volume=self.volume.currentIndex() == 0,
            logarithmic=self.log.isChecked(),
            differential=self.kind.currentText() == DIFFERENTIAL,
        )

    def set_unit(self, unit: str, quantity: str = "") -> None:
        """Name the unit of the dose, and what is counted, if it is known."""
        self.dose.setItemText(0, unit or "unit")
        if quantity:
            self.log.setText("log dose" if quantity == "dose" else "log")  # the axis says of what


class ScaleBox(QWidget):
    """Prescription, and a factor for all doses: a number, or power times time of a light source.

    They change what is read off the histograms, which need not be counted anew.
    """

    scale_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.prescription = SliderRow(NumberBox(0.0, 1e9, 0.0, 4, self), (0.0, 1.0), parent=self)
        self.prescribed = _choice_box(_PRESCRIBED_TIP, self)
        self.mode = _choice_box(_SCALE_TIP, self, FACTOR, LIGHT)
        self.scale = SliderRow(NumberBox(1e-6, 1e6, 1.0, 6, self), (0.1, 10.0), logarithmic=True, parent=self)
        self.power = SliderRow(NumberBox(1e-3, 1e7, 100.0, 3, self), (1.0, 10_000.0), logarithmic=True, parent=self)
        self.time = SliderRow(NumberBox(1e-3, 1e7, 10.0, 3, self), (0.1, 10_000.0), logarithmic=True, parent=self)
        self.energy = NumberBox(1e-9, 1e9, 1.0, 6, self)
        self._largest_dose = 0.0
        self._fill()
        rows = (self.prescription, self.scale, self.power, self.time)
        connect_all(
            [
                (self.mode.currentTextChanged, self._on_mode),
                (self.prescribed.activated, lambda row: self.prescription.box.setValue(self.prescribed.itemData(row))),
                *((row.changed, lambda _: self.scale_changed.emit()) for row in rows),
                (self.energy.valueChanged, lambda _: self.scale_changed.emit()),
            ]
        )
        self._on_mode()

    @property
    def reference(self) -> float | None:
        """The prescription, in units of the dose, or None."""
        return self.prescription.box.value() or None

    @property
    def factor(self) -> float:
        """What all doses are multiplied by."""
        if not self.is_light:
            return float(self.scale.box.value())
        joules = 1e-3 * self.power.box.value() * self.time.box.value()
        return float(joules / self.energy.value())

    @property
    def is_light(self) -> bool:
        """Whether doses are scaled by power times time."""
        return str(self.mode.currentText()) == LIGHT

    def show_scale(self, factor: float, reference: float | None) -> None:
        """Show a factor, and a prescription or none."""
        self.mode.setCurrentText(FACTOR)
        self.scale.box.setValue(factor)
        self.prescription.box.setValue(reference or 0.0)

    def set_unit(self, unit: str) -> None:
        """Write the unit of the dose behind the prescription."""
        self.prescription.box.setSuffix(f" {unit}" if unit else "")

    def set_largest_dose(self, dose: float) -> None:
        """Let the slider of the prescription reach somewhat beyond the largest dose."""
        if dose > 0 and abs(dose - self._largest_dose) > 1e-9 * dose:
            self._largest_dose = dose
            self.prescription.set_ends(0.0, 1.25 * dose)

    def read_layer(self, layer: Any) -> None:
        """Take the prescription, all that the plan prescribes, and the energy of light from a dose layer's metadata."""
        prescription, energy = carried(layer, PRESCRIPTION), carried(layer, "energy_j")
        self.prescription.box.setValue(float(prescription or 0.0))
        self.prescribed.clear()
        for gray, source in carried(layer, PRESCRIPTIONS) or ():
            self.prescribed.addItem(f"{gray:g} Gy, {source}", gray)
        self._rows.setRowVisible(self.prescribed, self.prescribed.count() > 1)
        if energy:
            self.energy.setValue(float(energy))
        self.mode.setCurrentText(LIGHT if energy else FACTOR)

    def _fill(self) -> None:
        self.prescription.box.setSpecialValueText("none")
        self.power.box.setSuffix(" mW")
        self.time.box.setSuffix(" s")
        self.energy.setSuffix(" J")
        self._energy_row = _shared_row(self, Label("computed for", self), self.energy)
        self._rows = aligned_form(self)
        for text, tip, widget in (
            ("Prescription", _PRESCRIPTION_TIP, self.prescription),
            ("", _PRESCRIBED_TIP, self.prescribed),
            ("Scale", _SCALE_TIP, _shared_row(self, self.mode, self.scale)),
            ("Power", _SCALE_TIP, self.power),
            ("Time", _SCALE_TIP, self.time),
            ("", _ENERGY_TIP, self._energy_row),
        ):
            widget.setToolTip(tip)
            self._rows.addRow(row_label(text, tip, self), widget)
        self._rows.setRowVisible(self.prescribed, False)

    def _on_mode(self, *_: Any) -> None:
        light = self.is_light
        self.scale.setVisible(not light)
        for widget in (self.power, self.time, self._energy_row):
            self._rows.setRowVisible(widget, light)
        self.scale_changed.emit()


class ToolsBox(QWidget):
    """Buttons of the tools, the structure in which voxels are highlighted, and the readout, which a panel places."""

    tools_changed = Signal()
    keeps_controls = False  # for undo: they are about what is drawn over the image

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.dose = _toggle("Isodose", _DOSE_TIP, self)
        self.interval = _toggle("Interval", _INTERVAL_TIP, self)
        self.volume = _toggle("D at volume", _VOLUME_TIP, self)
        self.inside = _choice_box(_INSIDE_TIP, self)
        self.of_plan = _choice_box(_PLAN_TIP, self)
        self.readout = RichLabel("", self)
        self._fill()
        connect_all(
            [
                (self.dose.toggled, lambda on: self._on_toggled(self.interval, on)),
                (self.interval.toggled, lambda on: self._on_toggled(self.dose, on)),
                (self.volume.toggled, lambda _: self.tools_changed.emit()),
                (self.inside.currentIndexChanged, lambda _: self.tools_changed.emit()),
                (self.of_plan.currentIndexChanged, lambda _: self.tools_changed.emit()),
            ]
        )

    @property
    def structures(self) -> tuple[Structure, ...]:
        """The structures in which voxels are highlighted, all of one layer."""
        return self.inside.currentData() or ()

    @property
    def plan(self) -> int:
        """Number of the plan whose dose is highlighted."""
        return max(int(self.of_plan.currentIndex()), 0)

    def list_structures(self, live: LiveHistograms | None) -> None:
        """List the plans, all structures of each layer, and each alone; what is chosen stays, by its text."""
        self._list_plans(() if live is None else live.request.plans)
        chosen = self.inside.currentText()
        with QSignalBlocker(self.inside):
            self.inside.clear()
            if live is not None:
                for layer in live.request.layers:
                    together = tuple(one for one in live.structures if one.layer == layer)
                    self.inside.addItem(f"all of {layer.name}", together)
                for one in live.structures:
                    self.inside.addItem(one.name, (one,))
            self.inside.setCurrentIndex(max(self.inside.findText(chosen), 0))

    def select(self, structure: str, plan: int) -> None:
        """Choose a structure by its name, and a plan by its number."""
        self.of_plan.setCurrentIndex(plan)
        self.inside.setCurrentText(structure)

    def set_readout(self, text: str) -> None:
        """Write a readout, or how to get one if there are curves."""
        self.readout.setText(text or (_HINT if self.inside.count() else ""))

    def add_button(self, button: QWidget) -> None:
        """Put a button beside the list of structures."""
        self._inside_row.addWidget(button)

    def _list_plans(self, plans: Sequence[Plan]) -> None:
        chosen = self.plan
        with QSignalBlocker(self.of_plan):
            self.of_plan.clear()
            self.of_plan.addItems([plan.name for plan in plans])
            self.of_plan.setCurrentIndex(chosen if chosen < len(plans) else 0)
        self._plan_row.setVisible(len(plans) > 1)

    def _fill(self) -> None:
        self.readout.setWordWrap(True)
        self.readout.setMinimumHeight(_MIN_READOUT_PIXELS)
        self.readout.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.readout.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        buttons = row_of(self.dose, self.interval, self.volume, stretch=(1, 1, 1))
        self._inside_row = row_of(Label("Highlight in", self), self.inside, stretch=(0, 1))
        self._plan_row = QWidget(self)
        self._plan_row.setLayout(row_of(Label("Dose of", self), self.of_plan, stretch=(0, 1)))
        self._plan_row.hide()
        fill_column(self, buttons, self._inside_row, self._plan_row, spacing=3)

    def _on_toggled(self, other: QPushButton, on: bool) -> None:
        """Isodose and interval exclude each other, because one layer holds what they highlight."""
        if on and other.isChecked():
            with QSignalBlocker(other):
                other.setChecked(False)
        self.tools_changed.emit()


def _choice_box(tip: str, parent: QWidget, *texts: str) -> QComboBox:
    """A list that is as narrow as its row has room for."""
    box = ElidedComboBox(parent, entries=texts, tip=tip)
    box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return box


def _toggle(text: str, tip: str, parent: QWidget) -> QPushButton:
    button = QPushButton(text, parent, checkable=True, toolTip=tip)
    button.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return button


def _shared_row(parent: QWidget, left: QWidget, right: QWidget) -> QWidget:
    """Two inputs in one row of a form."""
    owner = QWidget(parent)
    owner.setLayout(row_of(left, right, stretch=(4, 5)))  # room for the word on the left
    return owner
