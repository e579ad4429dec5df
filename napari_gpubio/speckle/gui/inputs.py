"""Inputs of the maps: settings, camera noise, exposures of a multi-exposure fit."""

import dataclasses
from collections.abc import Generator
from typing import Any

import numpy as np
from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QLineEdit,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.connections import Connection, Connections, connect_all
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import Folded, ParamForm, aligned_form, muted_label, row_label
from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.gui.layer_box import LayerBox
from napari_gpubio.speckle.gui.layers import frames_of, is_raw_stack
from napari_gpubio.speckle.mesi import MesiSettings
from napari_gpubio.speckle.mesi.model import ORDERS, MesiRecipe, exposures_text, parse_exposures
from napari_gpubio.speckle.noise import NoiseModel, measure_dark
from napari_gpubio.speckle.settings import ContrastSettings

MESI = "mesi"  # among the maps: a fit of the whole stack, which is no index of a single map
INDEXES = {
    "sfi": "flow index SFI = 1/(2TK²)",
    "relative": "flow relative to baseline",
    "ict": "inverse correlation time 1/τ",
    "none": "contrast K",
    "squared": "K²",
    "inverse": "1/K²",
    MESI: "multi-exposure fit (MESI): 1/τ, ρ, ν",
}
NUMBERS = "none: the numbers below"
MEASURING = "the dark frames are still being averaged; wait a moment and try again"
_CAMERA_FACTS = {"exposure_ms": "exposure_ms", "saturation_adu": "saturation"}  # metadata of a layer, settings
_MEASURED = ("dark_adu", "read_noise_adu", "quantization")  # rows that dark frames take the place of
_MESI_HELP = (
    "Separates moving from static scatterers. Run stack makes the fit; β is best measured, with the same window."
)
_MESI_TIP = (
    "K² is taken of every frame in a square of pixels, averaged over the frames of each exposure, and fitted pixel by "
    "pixel. β is K² of a scatterer at rest, such as paper. A live view goes on with its map."
)
_EXPOSURES_TIP = "Exposure of each frame in ms, increasing; with several frames of each, every exposure once"
_DARK_TIP = "Frames taken with the light off, same exposure and camera region: mean and variance of every pixel"
_REGISTRATION_TIP = (
    "Shift every frame onto the first one before contrast is taken, against movement of the animal; by whole pixels, "
    "since interpolation would change the contrast"
)


# -- multi-exposure fit -----------------------------------------------------------------------------------------------


class MesiBox(QWidget):
    """Exposures of the frames, and settings of the fit."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.exposures = QLineEdit(self)
        self.exposures.setPlaceholderText("e.g. 0.5, 1, 2, 5, 10, 20")
        self.order = QComboBox(self)
        for name, tip in ORDERS.items():
            self.order.addItem(name)
            self.order.setItemData(self.order.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self.form = ParamForm(MesiSettings(), parent=self)
        self.form.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)  # not squeezed by the text
        text = muted_label(self, _MESI_HELP)
        text.setToolTip(_MESI_TIP)
        rows = aligned_form(None)
        rows.addRow(row_label("Exposures (ms)", _EXPOSURES_TIP, self), self.exposures)
        orders = "\n".join(f"{name}: {tip}" for name, tip in ORDERS.items())
        rows.addRow(row_label("Several of each", orders, self), self.order)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        layout.addWidget(text)
        layout.addLayout(rows)
        layout.addWidget(self.form)
        signals = (self.exposures.textChanged, self.order.currentIndexChanged, self.form.changed)
        connect_all((signal, self._on_change) for signal in signals)

    @property
    def recipe(self) -> MesiRecipe:
        """The fit.

        Raises
        ------
        InvalidInput
            If the text is not a list of exposures.
        """
        exposures = parse_exposures(self.exposures.text())
        return MesiRecipe(exposures_ms=exposures, order=self.order.currentText(), settings=self.form.value())

    def take_from(self, layer: Any) -> None:
        """Set the exposures that a layer carries."""
        if (exposures_ms := carried(layer, "exposures_ms")) is not None:
            self.exposures.setText(exposures_text(exposures_ms))

    def _on_change(self, *_: Any) -> None:
        self.changed.emit()


# -- camera noise -----------------------------------------------------------------------------------------------------


class NoiseBox(QWidget):
    """What is subtracted from a camera's variance: numbers, or frames that were taken in the dark.

    Dark frames are averaged in a worker; ``changed`` is emitted when the model is another one.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.form = ParamForm(NoiseModel(), parent=self)
        self.dark_box = LayerBox(viewer, _is_dark, nothing=NUMBERS, parent=self)
        self.dark_box.setMinimumContentsLength(8)
        self.description = muted_label(self)
        self._measured: NoiseModel | None = None  # without gain
        self._with_gain: NoiseModel | None = None
        self._error = ""
        self._job = LatestJob(self)
        self._layer_connections = Connections(self._layer_pairs)
        self._fill()
        connect_all((
            (self._job.finished, self._on_measured),
            (self.form.changed, self._on_change),
            (self.dark_box.currentIndexChanged, self._on_layer),
        ))  # fmt: skip
        self._describe()

    @property
    def layer(self) -> Any | None:
        """The layer of dark frames, or None."""
        return self.dark_box.layer

    @property
    def model(self) -> NoiseModel:
        """The noise model; the same object until something changes.

        Raises
        ------
        InvalidInput
            If a number makes no sense, or dark frames cannot be used or are not averaged yet.
        """
        if self.layer is None:
            return self.form.value()
        if self._measured is None:
            raise InvalidInput(self._error or MEASURING)
        gain = self.form.value().gain
        if self._with_gain is None or self._with_gain.gain != gain:
            measured = self._measured
            self._with_gain = NoiseModel(gain=gain, dark_map=measured.dark_map, variance_map=measured.variance_map)
        return self._with_gain

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self.dark_box.attach()

    def detach(self) -> None:
        """Disconnect from the viewer and its layers, and end the averaging."""
        self._job.abandon()
        self._layer_connections.detach()
        self.dark_box.detach()

    def _fill(self) -> None:
        rows = aligned_form(None)
        rows.addRow(row_label("Dark frames", _DARK_TIP, self), self.dark_box)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        layout.addLayout(rows)
        layout.addWidget(self.form)
        layout.addWidget(self.description)

    # -- dark frames ----------------------------------------------------------------------------------------------

    def _on_layer(self, *_: Any) -> None:
        self._forget()
        self._layer_connections.attach()
        for name in _MEASURED:
            self.form.set_row_visible(name, visible=self.layer is None)
        if self.layer is None:
            self._on_change()
        else:
            self._measure()

    def _layer_pairs(self) -> list[Connection]:
        return [] if self.layer is None else [(self.layer.events.data, self._measure)]

    def _forget(self) -> None:
        self._job.cancel()  # its frames are the old ones
        self._measured, self._with_gain, self._error = None, None, ""

    def _measure(self, *_: Any) -> None:
        self._forget()
        frames = frames_of(self.layer)
        self._job.submit(lambda _: _dark_steps(frames))
        self._describe()

    def _on_measured(self, outcome: Outcome) -> None:
        self._measured, self._error = outcome.result, outcome.error
        self._on_change()

    def _on_change(self, *_: Any) -> None:
        self._describe()
        self.changed.emit()

    def _describe(self) -> None:
        try:
            text = noise_text(self.model)
        except InvalidInput as error:
            text = str(error)
        self.description.setText(text)


def noise_text(noise: NoiseModel) -> str:
    """Describe in one sentence what is subtracted."""
    parts = []
    if noise.dark_map is not None:
        parts.append(f"the dark level of each pixel (mean {noise.dark_map.mean():.4g} ADU)")
    elif noise.dark_adu > 0:
        parts.append(f"a dark level of {noise.dark_adu:.4g} ADU")
    if noise.variance_map is not None:
        parts.append(f"the variance in the dark of each pixel (mean {noise.variance_map.mean():.4g} ADU²)")
    elif noise.read_noise_adu > 0:
        parts.append(f"read noise of {noise.read_noise_adu:.4g} ADU")
    if noise.quantization and noise.variance_map is None:
        parts.append("rounding (1/12 ADU²)")
    if noise.gain > 0:
        parts.append(f"shot noise at {noise.gain:.4g} ADU per electron")
    if not parts:
        return "Nothing is subtracted."
    return "Subtracted: " + ", ".join(parts) + ("." if noise.gain > 0 else "; not shot noise, which needs the gain.")


def _is_dark(layer: Any) -> bool:
    return is_raw_stack(layer) and layer.ndim == 3


def _dark_steps(frames: Any) -> Generator[Step, None, NoiseModel]:
    yield Step(0, 1, "dark frames")
    return measure_dark(np.asarray(frames))


# -- all of them ------------------------------------------------------------------------------------------------------


class ContrastBox(QWidget):
    """How maps are made: map, exposures, registration, window, noise.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.form = ParamForm(ContrastSettings(), skip=("index",), parent=self)
        self.noise, self.mesi = NoiseBox(viewer, self), MesiBox(self)
        self.index = ElidedComboBox(12, self)
        for name, text in INDEXES.items():
            self.index.addItem(text, name)
        self.registers = QCheckBox("rigid, by whole pixels", self)
        self.registers.setToolTip(_REGISTRATION_TIP)
        self._fill()
        connect_all((
            (self.form.changed, self._on_change),
            (self.noise.changed, self._on_change),
            (self.mesi.changed, self._on_change),
            (self.index.currentIndexChanged, self._on_index),
            (self.registers.toggled, self._on_change),
            (self.form.widget("mode").changed, self._show_mode_rows),
        ))  # fmt: skip
        self._show_mode_rows()
        self._show_index_rows()

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
        """The multi-exposure fit, or None if another map is chosen; see `MesiBox.recipe` for what is refused."""
        return self.mesi.recipe if self.is_mesi else None

    @property
    def noise_model(self) -> NoiseModel:
        """The noise of the camera; see `NoiseBox.model` for what is refused."""
        return self.noise.model

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self.noise.attach()

    def detach(self) -> None:
        """Disconnect from the viewer and its layers."""
        self.noise.detach()

    def choose_index(self, index: str) -> None:
        """Choose the map: a key of `INDEXES`."""
        self.index.setCurrentIndex(self.index.findData(index))

    def take_from(self, layer: Any) -> None:
        """Set what a layer carries about its camera: exposure or exposures, saturation, dark level."""
        for key, name in _CAMERA_FACTS.items():
            if value := carried(layer, key):
                widget = self.form.widget(name)
                widget.value = type(widget.value)(value)
        if (dark := carried(layer, "dark_adu")) is not None:
            self.noise.form.widget("dark_adu").value = float(dark)
        self.mesi.take_from(layer)

    def _fill(self) -> None:
        rows, more = aligned_form(None), aligned_form(None)
        rows.addRow(row_label("Map", "What is calculated of K and displayed", self), self.index)
        more.addRow(row_label("Registration", _REGISTRATION_TIP, self), self.registers)
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

    def _on_change(self, *_: Any) -> None:
        self.changed.emit()

    def _on_index(self, *_: Any) -> None:
        self._show_index_rows()
        self.changed.emit()

    def _show_index_rows(self) -> None:
        self.mesi.setVisible(self.is_mesi)
        for name in ("exposure_ms", "beta"):  # a fit has its own
            self.form.set_row_visible(name, visible=not self.is_mesi)

    def _show_mode_rows(self, *_: Any) -> None:
        mode = self.form.widget("mode").value
        self.form.set_row_visible("window", visible=mode != "temporal")
        self.form.set_row_visible("frames", visible=mode != "spatial")
