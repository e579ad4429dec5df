"""Run inputs: photons, time gates, outer faces, engine settings, and quick runs after every change."""

import dataclasses
import math
from typing import Any

import numpy as np
from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QLineEdit,
    QSlider,
    QWidget,
)

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.fields import ElidedComboBox, NumberBox, share_width
from napari_gpubio.gui.forms import Folded, Label, ParamForm, aligned_form, fill_column, muted_label, row_label, row_of
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.light.gui.layer_inputs import FIELDS
from napari_gpubio.light.settings import FACE_RULES, MAX_PHOTONS, LightSettings

MAX_GATES = 200
LOWEST, HIGHEST = 4, 9  # powers of ten at the ends of the slider
_TICKS_PER_DECADE = 10
_SUFFIXES = {"k": 1e3, "M": 1e6, "G": 1e9}


class PhotonBox(QWidget):
    """A number of photons; any number can be typed, the slider goes from 1e4 to 1e9."""

    changed = Signal()

    def __init__(self, photons: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setRange(LOWEST * _TICKS_PER_DECADE, HIGHEST * _TICKS_PER_DECADE)
        tip = "Type any number: 2e6, 2,000,000 or 2M. Doubling the photons divides the noise by 1.4."
        self.text_box = QLineEdit(self, maximumWidth=104, toolTip=tip)
        self.text_box.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.slider.valueChanged.connect(self._on_slider)
        self.text_box.editingFinished.connect(self._on_text)
        self.setLayout(row_of(self.slider, self.text_box))
        self.set_value(photons)

    def value(self) -> int:
        """Return the number of photons; `InvalidInput` if the text is not one."""
        return photons_of(self.text_box.text())

    def set_value(self, photons: int) -> None:
        """Show another number; ``changed`` is emitted."""
        self.text_box.setText(f"{photons:,}")
        self._on_text()

    def _on_slider(self, tick: int) -> None:
        self.text_box.setText(f"{_rounded(10 ** (tick / _TICKS_PER_DECADE)):,}")
        self.changed.emit()

    def _on_text(self) -> None:
        try:
            photons = self.value()
        except InvalidInput:
            pass  # the text stays, and the run reports the problem
        else:
            self.text_box.setText(f"{photons:,}")
            with QSignalBlocker(self.slider):
                self.slider.setValue(round(math.log10(photons) * _TICKS_PER_DECADE))
        self.changed.emit()


def photons_of(text: str) -> int:
    """Return the number that a text such as ``2e6``, ``2,000,000`` or ``2M`` means.

    `InvalidInput` if it is not an integer from 1 to the most that can be run.
    """
    plain = text.replace(",", "").replace("_", "").replace(" ", "").strip()
    factor = _SUFFIXES.get(plain[-1:], 1.0)
    try:
        number = float(plain[:-1] if factor > 1 else plain) * factor
    except ValueError:
        number = math.nan
    if not (1 <= number <= MAX_PHOTONS):
        raise InvalidInput(f"photons is {text!r}; give a number from 1 to {MAX_PHOTONS:.0e}, such as 1e6 or 2,000,000")
    return round(number)


def _rounded(number: float) -> int:
    """Two figures, as a person would choose."""
    return round(float(f"{number:.1e}"))


AXES = ("x", "y", "z")
CYCLIC = "cyclic"
_TIP = (
    "What happens to light at the first and last face of this axis of the file: escape; fresnel: reflection at "
    "the index step to the outside; mirror; cyclic: it re-enters on the opposite side; default: fresnel with "
    "refraction, else escape. Both faces of an axis are cyclic, or neither."
)


class FacesBox(Folded):
    """Six rules, first and last face of each axis, folded away."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Outer faces", parent)
        self._boxes: list[QComboBox] = []
        rows = QWidget(self)
        form = aligned_form(rows)
        for name in AXES:
            first, last = self._box(rows), self._box(rows)
            row = row_of(first, last)
            row.setStretch(1, 1)
            form.addRow(row_label(f"{name}: first, last", _TIP, self), row)
        self.fold(rows)

    @property
    def faces(self) -> tuple[str, ...]:
        """The rules, in the order of `napari_gpubio.light.settings.FACES`."""
        return tuple(box.currentText() for box in self._boxes)

    def set_faces(self, faces: tuple[str, ...]) -> None:
        """Show other rules, without a word; they are unfolded if they are not the usual ones."""
        for box, rule in zip(self._boxes, faces, strict=True):
            with QSignalBlocker(box):
                box.setCurrentText(rule)
        if set(faces) != {FACE_RULES[0]}:
            self.expand(animate=False)

    def _box(self, parent: QWidget) -> QComboBox:
        index, box = len(self._boxes), ElidedComboBox(parent, entries=FACE_RULES, tip=_TIP)
        share_width(box)
        box.currentTextChanged.connect(lambda rule: self._on_chosen(index, rule))
        self._boxes.append(box)
        return box

    def _on_chosen(self, index: int, rule: str) -> None:
        """The opposite face follows into a cycle, and out of it."""
        opposite = self._boxes[index ^ 1]
        if (rule == CYCLIC) != (opposite.currentText() == CYCLIC):
            with QSignalBlocker(opposite):
                opposite.setCurrentText(rule)
        self.changed.emit()


class RunBox(QWidget):
    """Photons, quick runs, and a form of engine settings; ``live_tip`` describes a quick run."""

    changed = Signal()

    def __init__(self, defaults: Any, skip: tuple[str, ...], live_tip: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.photons = PhotonBox(defaults.photons, self)
        self.form: ParamForm[Any] = ParamForm(defaults, skip=("photons", *skip), parent=self)
        self.live_box = QCheckBox("quick run after every change", self, toolTip=live_tip)
        top = QWidget(self)
        form = aligned_form(top)
        tip = "Number of photon packets; more photons, less noise. Run adds photons to a result of the same inputs."
        form.addRow(row_label("Photons", tip, self), self.photons)
        self.add_rows(form)
        form.addRow(row_label("Preview", live_tip, self), self.live_box)
        fill_column(self, top, self.form, *self.parts_below(), spacing=3)
        for signal in (self.photons.changed, self.form.changed):
            signal.connect(lambda *_: self.changed.emit())

    def add_rows(self, form: QFormLayout) -> None:
        """Add the rows of one mode below the photons."""

    def parts_below(self) -> tuple[QWidget, ...]:
        """Make what one mode shows below the form."""
        return ()

    @property
    def live(self) -> bool:
        """Whether a quick run follows every change."""
        return self.live_box.isChecked()

    def set_live(self, live: bool) -> None:
        """Let a quick run follow every change, or not."""
        self.live_box.setChecked(live)


class VoxelRunBox(RunBox):
    """Run inputs of a simulation in voxels."""

    def __init__(self, parent: QWidget | None = None) -> None:
        tip = "At most 100,000 photons, as soon as the source is placed or moved or a property changes"
        super().__init__(LightSettings(halves=True), (), tip, parent)  # halves cost no time, and Clean needs them
        self._given = LightSettings().time_gates_ns  # kept to the last digit, equal or not, until the user changes them
        self.set_live(True)
        for signal in (self.faces.changed, self.end_box.edited, self.gates_box.edited):
            signal.connect(lambda *_: self.changed.emit())

    def add_rows(self, form: QFormLayout) -> None:
        """Add the time window."""
        tip = "Photons are followed up to this time."
        end, end_tip = LightSettings().time_gates_ns[-1], "End of the last time gate"
        self.end_box = NumberBox(0.0, 1000.0, end, 4, self, arrows=True, toolTip=end_tip)
        gates_tip = "Number of equal time gates; a slider below the view steps through several"
        self.gates_box = NumberBox(1, MAX_GATES, 1, 0, self, arrows=True, toolTip=gates_tip)
        for box in (self.end_box, self.gates_box):
            share_width(box)
        row = row_of(self.end_box, Label("in", self), self.gates_box, Label("gates", self))
        row.setStretch(2, 1)
        form.addRow(row_label("Time window (ns)", tip, self), row)

    def parts_below(self) -> tuple[QWidget, ...]:
        """Make the outer faces, and what a run needs."""
        self.faces = FacesBox(self)
        self._need = muted_label(self)
        self._need.hide()
        return self.faces, self._need

    @property
    def settings(self) -> LightSettings:
        """The settings as shown; `InvalidInput` if they cannot be run."""
        settings: LightSettings = self.form.value()
        faces: Any = self.faces.faces
        return dataclasses.replace(settings, photons=self.photons.value(), time_gates_ns=self._edges(), faces=faces)

    def set_settings(self, settings: LightSettings) -> None:
        """Show other settings; ``changed`` is emitted once."""
        with QSignalBlocker(self):
            self._given = settings.time_gates_ns
            self.end_box.setValue(settings.time_gates_ns[-1])
            self.gates_box.setValue(settings.gate_count)
            self.photons.set_value(settings.photons)
            self.form.set_value(settings)
            self.faces.set_faces(settings.faces)
        self.changed.emit()

    def show_need(self, text: str) -> None:
        """Show what a run needs."""
        self._need.setText(text)
        self._need.setVisible(bool(text))

    def _edges(self) -> tuple[float, ...]:
        end, count = self.end_box.value(), int(self.gates_box.value())
        if count == len(self._given) - 1 and end == self._given[-1]:
            return self._given
        if not end > 0:
            raise InvalidInput("the time window ends at 0 ns; enter a later end, such as 5 ns")
        return tuple(float(f"{edge:.9g}") for edge in np.linspace(0.0, end, count + 1))


class LayerRunBox(RunBox):
    """Run inputs of a simulation in layers, except for the grid."""

    def __init__(self, parent: QWidget | None = None) -> None:
        tip = "A few thousand photons, as soon as layers or the grid change"
        super().__init__(LayeredSettings(), FIELDS, tip, parent)
        self.live_box.toggled.connect(lambda _: self.changed.emit())

    @property
    def settings(self) -> LayeredSettings:
        """The settings as shown, with some grid; `InvalidInput` if they cannot be run."""
        settings: LayeredSettings = self.form.value()
        return dataclasses.replace(settings, photons=self.photons.value())

    def set_settings(self, settings: LayeredSettings) -> None:
        """Show other settings; ``changed`` is not emitted."""
        with QSignalBlocker(self):
            self.photons.set_value(settings.photons)
            self.form.set_value(settings)
