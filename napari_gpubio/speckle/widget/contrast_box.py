"""The part of the panel that says how maps are made: window, map, exposure, noise, registration."""

import dataclasses
from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QComboBox, QVBoxLayout, QWidget

from napari_gpubio.core.layers import carried
from napari_gpubio.speckle.noise import NoiseModel
from napari_gpubio.speckle.settings import ContrastSettings
from napari_gpubio.speckle.widget.words import CHOICES
from napari_gpubio.viewer.forms import Folded, ParamForm, aligned_form, row_label

_TOLD = {"exposure_ms": "exposure_ms", "saturation_adu": "saturation"}  # by a layer, and the settings' names


class ContrastBox(QWidget):
    """Settings of the engine, as the user sets them."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.form = ParamForm(ContrastSettings(), skip=("index",), parent=self)
        self.noise = ParamForm(NoiseModel(), parent=self)
        self.index = QComboBox(self)
        self.index.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.index.setMinimumContentsLength(12)
        for name, text in CHOICES.items():
            self.index.addItem(text, name)
        self.registers = QCheckBox("rigid, by whole pixels", self)
        self.registers.setToolTip(
            "Shift every frame onto the first one before contrast is taken, against movement of the animal; by whole "
            "pixels, since interpolation would change the contrast"
        )
        self._fill()
        for signal in (self.form.changed, self.noise.changed, self.index.currentIndexChanged, self.registers.toggled):
            signal.connect(lambda *_: self.changed.emit())
        self.form.widget("mode").changed.connect(self._on_mode)
        self._on_mode()

    @property
    def settings(self) -> ContrastSettings:
        """The settings.

        Raises
        ------
        InvalidInput
            If they make no sense, for instance an exposure of 0 ms.
        """
        return dataclasses.replace(self.form.value(), index=str(self.index.currentData()))

    @property
    def noise_model(self) -> NoiseModel:
        """The noise of the camera."""
        return self.noise.value()

    def choose_index(self, index: str) -> None:
        """Choose the map."""
        self.index.setCurrentIndex(self.index.findData(index))

    def take_from(self, layer: Any) -> None:
        """Set what a layer tells of its camera: exposure, saturation, dark level."""
        told = {own: carried(layer, name) for name, own in _TOLD.items() if carried(layer, name)}
        for name, value in told.items():
            widget = self.form.widget(name)
            widget.value = type(widget.value)(value)
        if (dark := carried(layer, "dark_adu")) is not None:
            self.noise.widget("dark_adu").value = float(dark)

    def _fill(self) -> None:
        rows = aligned_form(None)
        tip = "What is shown and calculated of K"
        rows.addRow(row_label("Map", tip, self), self.index)
        more = aligned_form(None)
        more.addRow(row_label("Registration", self.registers.toolTip(), self), self.registers)
        noise = Folded("Camera noise", self)
        noise.fold(self.noise)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        layout.addLayout(rows)
        layout.addLayout(more)
        layout.addWidget(self.form)
        layout.addWidget(noise)

    def _on_mode(self, *_: Any) -> None:
        mode = self.form.widget("mode").value
        self.form.set_row_visible("window", visible=mode != "temporal")
        self.form.set_row_visible("frames", visible=mode != "spatial")
