"""The part of the panel that says how to run: photons, time gates, the settings of the engine, live preview."""

import dataclasses
from typing import Any

import numpy as np
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QSpinBox, QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.fields import NumberBox, share_width
from napari_gpubio.gui.forms import ParamForm, aligned_form, row_label
from napari_gpubio.light.gui.faces_box import FacesBox
from napari_gpubio.light.gui.photon_box import PhotonBox
from napari_gpubio.light.settings import Settings

MOST_GATES = 200


class RunBox(QWidget):
    """Settings of a run."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._given = Settings().time_gates_ns  # kept to the last digit, equal or not, until the user changes them
        self.photons = PhotonBox(Settings().photons, self)
        self.form = ParamForm(Settings(), skip=("photons",), parent=self)
        self.faces = FacesBox(self)
        self._build()
        for signal in (
            self.photons.changed,
            self.form.changed,
            self.faces.changed,
            self._end.edited,
            self._gates.valueChanged,
        ):
            signal.connect(lambda *_: self.changed.emit())

    @property
    def settings(self) -> Settings:
        """The settings as shown.

        Raises
        ------
        InvalidInput
            If they cannot be run.
        """
        return dataclasses.replace(
            self.form.value(),
            photons=self.photons.value(),
            time_gates_ns=self._edges(),
            faces=self.faces.faces,
        )

    @property
    def live(self) -> bool:
        """Whether a quick run follows every change."""
        return self._live.isChecked()

    def set_settings(self, settings: Settings) -> None:
        """Show other settings; ``changed`` is emitted once."""
        was = self.blockSignals(True)
        self._given = settings.time_gates_ns
        self._end.setValue(settings.time_gates_ns[-1])
        self._gates.setValue(settings.gate_count)
        self.photons.set_value(settings.photons)
        self.form.set_value(settings)
        self.faces.set_faces(settings.faces)
        self.blockSignals(was)
        self.changed.emit()

    def set_gates(self, end_ns: float, count: int) -> None:
        """Show another time window, in equal gates."""
        self._end.setValue(end_ns)
        self._gates.setValue(count)

    def say_need(self, text: str) -> None:
        """Show what a run needs."""
        self._need.setText(text)
        self._need.setVisible(bool(text))

    def _edges(self) -> tuple[float, ...]:
        end, count = self._end.value(), self._gates.value()
        if count == len(self._given) - 1 and end == self._given[-1]:
            return self._given
        if not end > 0:
            raise InvalidInput("the time window ends at 0 ns; let it end later, 5 ns for example")
        return tuple(float(f"{edge:.9g}") for edge in np.linspace(0.0, end, count + 1))

    def _build(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        top = QWidget(self)
        form = aligned_form(top)
        form.addRow(row_label("Photons", "Number of photon packets; more photons, less noise.", self), self.photons)
        tip = "Photons older than this are cut off (truncated)."
        form.addRow(row_label("Time window (ns)", tip, self), self._window())
        self._live = QCheckBox("quick run after every change", self)
        self._live.setChecked(True)
        self._live.setToolTip("At most 100,000 photons, as soon as the source is placed or moved or a property changes")
        form.addRow(row_label("Preview", self._live.toolTip(), self), self._live)
        self._need = QLabel(self)
        self._need.setStyleSheet("color: #9a9da5;")
        self._need.setWordWrap(True)
        self._need.hide()
        for part in (top, self.form, self.faces, self._need):
            layout.addWidget(part)

    def _window(self) -> QWidget:
        part = QWidget(self)
        row = QHBoxLayout(part)
        row.setContentsMargins(0, 0, 0, 0)
        self._end = NumberBox(0.0, 1000.0, Settings().time_gates_ns[-1], 4, self, arrows=True)
        self._end.setToolTip("End of the last time gate")
        share_width(self._end)
        self._gates = _Count(1, MOST_GATES, self)
        share_width(self._gates)
        self._gates.setToolTip("Number of equal time gates; a slider below the view steps through several")
        row.addWidget(self._end, 1)
        row.addWidget(QLabel("in", self))
        row.addWidget(self._gates, 1)
        row.addWidget(QLabel("gates", self))
        return part


class _Count(QSpinBox):
    """An integer that the wheel leaves alone unless it was clicked before."""

    def __init__(self, low: int, high: int, parent: QWidget) -> None:
        super().__init__(parent)
        self.setRange(low, high)
        self.setKeyboardTracking(False)

    def wheelEvent(self, event: Any) -> None:
        """Qt: the wheel was turned over it."""
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()
