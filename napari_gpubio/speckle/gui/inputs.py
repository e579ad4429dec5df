"""Inputs of the maps: settings, camera noise, and a multi-exposure fit."""

import dataclasses
import typing
from collections.abc import Mapping
from functools import partial
from typing import Any

from napari.layers import Image
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.operations.graphs import replaced_fields
from napari_gpubio.core.settings import field_names, kind_of, record_fields
from napari_gpubio.gui.connections import Follower, connect_all
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import Folded, ParamForm, aligned_form, fill_column, muted_label, row_label
from napari_gpubio.gui.jobs import LatestJob, Outcome, one_step
from napari_gpubio.gui.layers import LayerBox, LayerListener, why_not_array
from napari_gpubio.speckle.gui.fitting import MesiBox
from napari_gpubio.speckle.gui.panel_layers import frames_of, why_no_frames
from napari_gpubio.speckle.mesi.model import MesiRecipe, exposures_text
from napari_gpubio.speckle.operations import Contrast, Mesi
from napari_gpubio.speckle.settings import (
    ContrastSettings,
    DarkNoise,
    Index,
    InverseCorrelationTime,
    Noise,
    NoiseModel,
    Squared,
    WindowSettings,
    measure_dark,
)

INDEX_CLASSES = {kind_of(one): one for one in typing.get_args(Index)}
MESI = "mesi"  # among the maps: a fit of the whole stack, which is no index of a single map
INDEXES = {
    "sfi": "flow index SFI = 1/(2TK²)",
    "relative": "flow relative to baseline",
    "ict": "inverse correlation time 1/τ",
    "none": "contrast K",
    "squared": "K²",
    "inverse": "1/K²",
    MESI: "multi-exposure fit (MESI): 1/τ, ρ, β",
}
NUMBERS = "none: the numbers below"
MEASURING = "the dark frames are still being averaged; wait a moment and try again"
_CAMERA_FACTS = {"exposure_ms": "exposure_ms", "saturation_adu": "saturation"}  # metadata of a layer, settings
_MEASURED = ("dark_adu", "read_noise_adu", "quantization")  # rows that dark frames take the place of
_ROWS_OF_SOME_INDICES = ("beta", "nonfinite")
_DARK_TIP = "Frames taken with the light off, same exposure and camera region: mean and variance of every pixel"
_SPACING_PIXELS = 3
_REGISTRATION_TIP = (
    "Align every frame with the first one before contrast is computed, to correct for motion; by whole pixels, "
    "since interpolation would change the contrast"
)


def _why_no_dark_frames(layer: Any) -> str | None:
    return why_no_frames(layer) or why_not_array(layer, Image, (3,), "frames (frame, y, x) are needed")


class NoiseBox(QWidget, Follower):
    """What is subtracted from a camera's variance: numbers, or frames that were taken in the dark.

    Dark frames are averaged in a worker; ``changed`` is emitted when the model is another one.
    """

    changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.form = ParamForm(NoiseModel(), parent=self)
        self.dark_box = LayerBox(viewer, _why_no_dark_frames, nothing=NUMBERS, parent=self)
        self.dark_box.setMinimumContentsLength(8)
        self.description = muted_label(self)
        self._measured: DarkNoise | None = None
        self._error = ""
        self._job = LatestJob(self)
        self._listener = LayerListener(viewer, lambda layer: layer == self.layer, data_changed=self._measure)
        self.followers = (self.dark_box, self._listener)
        rows = aligned_form(None)
        rows.addRow(row_label("Dark frames", _DARK_TIP, self), self.dark_box)
        fill_column(self, rows, self.form, self.description, spacing=_SPACING_PIXELS)
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
    def numbers(self) -> NoiseModel:
        """What is typed; raises InvalidInput if a number makes no sense."""
        return self.form.value()

    @property
    def model(self) -> Noise:
        """The noise model; the maps of dark frames are the same arrays until other frames are measured.

        Raises
        ------
        InvalidInput
            If a number makes no sense, or dark frames cannot be used or are not averaged yet.
        """
        numbers = self.numbers
        if self.layer is None:
            return numbers
        if self._measured is None:
            raise InvalidInput(self._error or MEASURING)
        return self._measured.with_gain(numbers.gain)

    def detach(self) -> None:
        """Stop following them, and end the averaging."""
        self._job.abandon()
        super().detach()

    def _on_layer(self, *_: Any) -> None:
        self._listener.refresh()
        for name in _MEASURED:
            self.form.set_row_visible(name, visible=self.layer is None)
        if self.layer is None:
            self._forget()
            self._on_change()
        else:
            self._measure()

    def _forget(self) -> None:
        self._job.cancel()  # its frames are the old ones
        self._measured, self._error = None, ""

    def _measure(self, *_: Any) -> None:
        self._forget()
        self._job.submit(one_step("dark frames", partial(measure_dark, frames_of(self.layer))))
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


def noise_text(noise: Noise) -> str:
    """Describe in one sentence what is subtracted."""
    parts = []
    if isinstance(noise, DarkNoise):
        parts.append(f"the dark level of each pixel (mean {short_number(noise.dark_map.mean())} ADU)")
        if noise.variance_map is not None:
            mean = short_number(noise.variance_map.mean())
            parts.append(f"the variance in the dark of each pixel (mean {mean} ADU²)")
    else:
        if noise.dark_adu > 0:
            parts.append(f"a dark level of {short_number(noise.dark_adu)} ADU")
        if noise.read_noise_adu > 0:
            parts.append(f"read noise of {short_number(noise.read_noise_adu)} ADU")
        if noise.quantization:
            parts.append("rounding (1/12 ADU²)")
    if noise.gain > 0:
        parts.append(f"shot noise at {short_number(noise.gain)} ADU per electron")
    if not parts:
        return "Nothing is subtracted."
    return "Subtracted: " + ", ".join(parts) + ("." if noise.gain > 0 else "; not shot noise, which needs the gain.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MapRows(InverseCorrelationTime, WindowSettings):
    """Rows of the form: window and mask, and what indices have; the exposure is that of a live camera, too."""


class ContrastBox(QWidget, Follower):
    """How maps are made: map, exposures, registration, window, noise."""

    changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.form = ParamForm(MapRows(), parent=self)
        self.noise, self.mesi = NoiseBox(viewer, self), MesiBox(viewer, self)
        self.followers = (self.noise, self.mesi)
        self.index = ElidedComboBox(self, entries=INDEXES)
        self.registers = QCheckBox("rigid, by whole pixels", self, toolTip=_REGISTRATION_TIP)
        rows, more = aligned_form(None), aligned_form(None)
        rows.addRow(row_label("Map", "Quantity computed from K and displayed", self), self.index)
        more.addRow(row_label("Registration", _REGISTRATION_TIP, self), self.registers)
        noise = Folded("Camera noise", self)
        noise.fold(self.noise)
        fill_column(self, rows, self.mesi, more, self.form, noise, spacing=_SPACING_PIXELS)
        for signal in (
            self.form.changed, self.noise.changed, self.mesi.changed, self.index.currentIndexChanged,
            self.registers.toggled,
        ):  # fmt: skip
            signal.connect(self._on_change)
        self._show_rows()

    @property
    def settings(self) -> ContrastSettings:
        """The settings; raises InvalidInput if they make no sense. A multi-exposure fit begins with K²."""
        rows, index = self.form.value(), self._index
        own = {f.name: getattr(rows, f.name) for f in record_fields(index) if hasattr(rows, f.name)}
        return ContrastSettings(mode=rows.mode, mask=rows.mask, index=index(**own))

    @property
    def exposure_ms(self) -> float:
        """Exposure of the camera."""
        return self.form.value().exposure_ms

    @property
    def mesi_recipe(self) -> MesiRecipe | None:
        """The multi-exposure fit, or None if another map is chosen; see `MesiBox.recipe` for what is refused."""
        return self.mesi.recipe if self._is_mesi else None

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
        if (exposures_ms := carried(layer, "exposures_ms")) is not None:
            self.mesi.exposures.setText(exposures_text(exposures_ms))

    def show_draft(self, made: Contrast | Mesi, layers: Mapping[str, Any]) -> None:
        """Show the settings of an operation, and the layers of its inputs by their fields."""
        for name, box in (
            ("dark", self.noise.dark_box), ("static_target", self.mesi.target_box), ("within", self.mesi.region_box),
        ):  # fmt: skip
            box.choose(layers.get(name))
            box.settle()
        self.noise.form.set_value(made.noise)
        windows: Any = made.settings if isinstance(made, Contrast) else made
        shown = {"mode": windows.mode, "mask": windows.mask}
        if isinstance(made, Contrast):
            index = made.settings.index
            self.choose_index(kind_of(index))
            shown |= {name: getattr(index, name) for name in field_names(MapRows) & field_names(type(index))}
        else:
            self.choose_index(MESI)
            self.mesi.exposures.setText(", ".join(map(repr, made.recipe.exposures_ms)))
            self.mesi.form.set_value(made.recipe)
        self.form.set_value(replaced_fields(self.form.value(), shown))

    @property
    def _is_mesi(self) -> bool:
        return bool(self.index.currentData() == MESI)

    @property
    def _index(self) -> type[Any]:
        """The class of the index."""
        return Squared if self._is_mesi else INDEX_CLASSES[str(self.index.currentData())]

    def _on_change(self, *_: Any) -> None:
        self._show_rows()
        self.changed.emit()

    def _show_rows(self) -> None:
        """Show the rows that the map needs."""
        self.mesi.setVisible(self._is_mesi)
        self.form.set_row_visible("exposure_ms", visible=not self._is_mesi)  # a fit has its own
        for name in _ROWS_OF_SOME_INDICES:
            self.form.set_row_visible(name, visible=name in field_names(self._index))
