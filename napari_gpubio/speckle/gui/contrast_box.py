"""The part of the panel that says how maps are made: window, map, exposure, fit, noise, registration."""

import dataclasses
from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QComboBox, QVBoxLayout, QWidget

from napari_gpubio.core.napari_io import carried
from napari_gpubio.gui.forms import Folded, ParamForm, aligned_form, row_label
from napari_gpubio.speckle.gui.mesi_box import MesiBox
from napari_gpubio.speckle.gui.noise_box import NoiseBox
from napari_gpubio.speckle.gui.words import CHOICES, MESI
from napari_gpubio.speckle.mesi.model import MesiRecipe
from napari_gpubio.speckle.noise import NoiseModel
from napari_gpubio.speckle.settings import ContrastSettings

_TOLD = {"exposure_ms": "exposure_ms", "saturation_adu": "saturation"}  # by a layer, and the settings' names


class ContrastBox(QWidget):
    """Settings of the engine, as the user sets them.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.form = ParamForm(ContrastSettings(), skip=("index",), parent=self)
        self.noise = NoiseBox(viewer, self)
        self.mesi = MesiBox(self)
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
        for signal in (
            self.form.changed, self.noise.changed, self.mesi.changed, self.index.currentIndexChanged,
            self.registers.toggled,
        ):  # fmt: skip
            signal.connect(lambda *_: self.changed.emit())
        self.form.widget("mode").changed.connect(self._on_mode)
        self.index.currentIndexChanged.connect(self._on_index)
        self._on_mode()
        self._on_index()

    @property
    def settings(self) -> ContrastSettings:
        """The settings; a multi-exposure fit begins with K².

        Raises
        ------
        InvalidInput
            If they make no sense, for instance an exposure of 0 ms.
        """
        index = "squared" if self.is_mesi else str(self.index.currentData())
        return dataclasses.replace(self.form.value(), index=index)

    @property
    def is_mesi(self) -> bool:
        """Whether a multi-exposure fit is chosen, which is of a whole stack."""
        return bool(self.index.currentData() == MESI)

    @property
    def mesi_recipe(self) -> MesiRecipe | None:
        """The multi-exposure fit, or None if another map is chosen; refuses what are no exposures."""
        return self.mesi.recipe if self.is_mesi else None

    @property
    def noise_model(self) -> NoiseModel:
        """The noise of the camera; see `NoiseBox.model` for what is refused."""
        return self.noise.model

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self.noise.attach()

    def detach(self) -> None:
        """Hear no more of the viewer."""
        self.noise.detach()

    def choose_index(self, index: str) -> None:
        """Choose the map."""
        self.index.setCurrentIndex(self.index.findData(index))

    def take_from(self, layer: Any) -> None:
        """Set what a layer tells of its camera: exposure or exposures, saturation, dark level."""
        told = {own: carried(layer, name) for name, own in _TOLD.items() if carried(layer, name)}
        for name, value in told.items():
            widget = self.form.widget(name)
            widget.value = type(widget.value)(value)
        if (dark := carried(layer, "dark_adu")) is not None:
            self.noise.form.widget("dark_adu").value = float(dark)
        self.mesi.take_from(layer)

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
        layout.addWidget(self.mesi)
        layout.addLayout(more)
        layout.addWidget(self.form)
        layout.addWidget(noise)

    def _on_index(self, *_: Any) -> None:
        self.mesi.setVisible(self.is_mesi)
        for name in ("exposure_ms", "beta"):  # a fit has its own
            self.form.set_row_visible(name, visible=not self.is_mesi)

    def _on_mode(self, *_: Any) -> None:
        mode = self.form.widget("mode").value
        self.form.set_row_visible("window", visible=mode != "temporal")
        self.form.set_row_visible("frames", visible=mode != "spatial")
