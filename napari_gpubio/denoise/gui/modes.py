"""The modes of the panel, and the inputs of each."""

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from napari.layers import Image, Labels
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QLabel, QLineEdit, QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import volume_of
from napari_gpubio.denoise.fluence import FluenceSettings
from napari_gpubio.denoise.gui.inputs import is_ours, other_half
from napari_gpubio.denoise.gui.recipes import AnlmRecipe, FluenceRecipe, Recipe
from napari_gpubio.denoise.napari_io import LayerVolume, Values, key_of, layer_values
from napari_gpubio.denoise.settings import DenoiseSettings
from napari_gpubio.gui.forms import ParamForm, aligned_form, row_label
from napari_gpubio.gui.layer_box import LayerBox
from napari_gpubio.gui.script import call_text
from napari_gpubio.gui.theme import MUTED_STYLE

ESTIMATED, NUMBER, MAP = "estimated from the image", "a number", "a map"
_LEVEL_TIP = "Standard deviation of the noise, in the unit of the image; for Rician noise that of its two parts"
_SECOND_TIP = "Fluence of the other half of the photons, per photon of its own half; the image is the first half"
_LABELS_TIP = "Refractive index or tissue of each voxel: nothing is averaged across borders"
_ALONE = "With one buffer only, its noise is measured; two halves of the photons are denoised better."


class Mode(QWidget):
    """The inputs of one mode.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    title: ClassVar[str]
    tip: ClassVar[str] = ""
    changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.viewer = viewer

    @abstractmethod
    def read_recipe(self, image: LayerVolume) -> Recipe:
        """Read the inputs, in the GUI thread.

        Raises
        ------
        InvalidInput
            If something is missing or does not fit the image.
        """

    @abstractmethod
    def script_lines(self, files: Mapping[str, Path], part: str) -> tuple[list[str], str]:
        """Return lines that read the mode's own inputs, and the call that denoises ``values``, without its bracket.

        Parameters
        ----------
        files
            Where the layers of `layers` and `labels` are, by their name.
        part
            Which volumes of a series are denoised, as the index of an array; empty for all of them.
        """

    def layers(self) -> list[Any]:
        """Image layers that are inputs of the mode, besides the image itself."""
        return []

    def labels(self) -> list[Any]:
        """Labels layers that are inputs of the mode."""
        return []

    def set_image(self, layer: Any | None) -> None:
        """Set the image that was chosen; a mode may choose what belongs to it."""

    def attach(self) -> None:
        """Follow the viewer's layers."""

    def detach(self) -> None:
        """Stop following the viewer's layers."""


class AnlmMode(Mode):
    """Patches, search radius, noise model, noise level; the finer rules are folded away."""

    title = "adaptive non-local means"
    tip = "Weighted means of voxels whose surroundings look alike (Yuan et al. 2018)"

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(viewer, parent)
        self.form = ParamForm(DenoiseSettings(), parent=self)
        self.level = QComboBox(self)
        self.level.addItems([ESTIMATED, NUMBER, MAP])
        self.level.setToolTip(_LEVEL_TIP)
        self.number = QLineEdit(self)
        self.number.setPlaceholderText("standard deviation")
        self.number.setToolTip(_LEVEL_TIP)
        self.map_box = LayerBox(viewer, _is_map, empty="open a noise map", parent=self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        level = QWidget(self)
        self._rows = aligned_form(level)
        for text, widget in (("Noise level", self.level), ("σ", self.number), ("Noise map", self.map_box)):
            self._rows.addRow(row_label(text, _LEVEL_TIP, self), widget)
        layout.addWidget(self.form)
        self.form.layout().insertWidget(1, level)  # between the plain settings and the folded ones
        self.level.currentIndexChanged.connect(self._on_level)
        for signal in (self.form.changed, self.number.editingFinished, self.map_box.currentIndexChanged):
            signal.connect(lambda *_: self.changed.emit())
        self._show_level()

    def read_recipe(self, image: LayerVolume) -> AnlmRecipe:
        """Read the settings and the noise."""
        return AnlmRecipe(settings=self.form.value(), noise=self._noise(image))

    def layers(self) -> list[Any]:
        """The noise map, if there is one."""
        return [self.map_box.layer] if self.level.currentText() == MAP and self.map_box.layer is not None else []

    def script_lines(self, files: Mapping[str, Path], part: str) -> tuple[list[str], str]:
        """Return the line that reads the noise map, and the call."""
        lines, noise = [], ""
        if self.level.currentText() == NUMBER:
            noise = f", noise={self._number()!r}"
        for layer in self.layers():
            read = f"denoise.io.read_on_grid({str(files[layer.name])!r}, image){part if layer.ndim == 4 else ''}"
            lines.append(f"noise = denoise.io.from_log10({read})" if layer_values(layer).is_log else f"noise = {read}")
            noise = ", noise=noise"
        return lines, f"denoise.denoise(values, {call_text('denoise', self.form.value())}{noise}"

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self.map_box.attach()

    def detach(self) -> None:
        """Stop following the viewer's layers."""
        self.map_box.detach()

    def _noise(self, image: LayerVolume) -> float | Values | None:
        if self.level.currentText() == NUMBER:
            return self._number()
        if self.level.currentText() == ESTIMATED:
            return None
        layer = self.map_box.layer
        if layer is None:
            raise InvalidInput("there is no noise map; open one as an image layer, or have the noise estimated")
        image.check_same_grid(layer, "noise map")
        return layer_values(layer)

    def _number(self) -> float:
        text = self.number.text().strip()
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number > 0):
            raise InvalidInput(f"the noise level is {text!r}; give a positive number, or have the noise estimated")
        return number

    def _on_level(self, *_: Any) -> None:
        self._show_level()
        if self.level.currentText() != NUMBER or self.number.text():
            self.changed.emit()

    def _show_level(self) -> None:
        self._rows.setRowVisible(self.number, self.level.currentText() == NUMBER)
        self._rows.setRowVisible(self.map_box, self.level.currentText() == MAP)


class FluenceMode(Mode):
    """The other half, labels, and the scales; the finer rules are folded away."""

    title = "fluence (two half-buffers)"
    tip = "Monte Carlo fluence, smoothed voxel by voxel as far as two halves of the photons allow"

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(viewer, parent)
        self.second_box = LayerBox(viewer, _is_half, nothing="none: there is one buffer", parent=self)
        self.labels_box = LayerBox(viewer, _is_labels, nothing="none", parent=self)
        self.alone = QLabel(_ALONE, self)
        # mu_eff is not known here, so that there is no cap
        self.form = ParamForm(FluenceSettings(), skip=("cap",), parent=self)
        self._image: Any = None
        self._is_own_choice = False  # of the user
        self._fill()
        self._connect()

    def read_recipe(self, image: LayerVolume) -> FluenceRecipe:
        """Read the settings, the second half and the labels."""
        second, labels = self.second_box.layer, self.labels_box.layer
        for layer, what in ((second, "second half"), (labels, "labels layer")):
            if layer is not None:
                image.check_same_grid(layer, what)
        return FluenceRecipe(
            settings=self.form.value(),
            second=None if second is None else layer_values(second),
            partner="" if second is None else second.name,
            labels=None if labels is None else volume_of(labels),
        )

    def layers(self) -> list[Any]:
        """The second half, if there is one."""
        return [] if self.second_box.layer is None else [self.second_box.layer]

    def labels(self) -> list[Any]:
        """The labels, if there are any."""
        return [] if self.labels_box.layer is None else [self.labels_box.layer]

    def script_lines(self, files: Mapping[str, Path], part: str) -> tuple[list[str], str]:
        """Return the lines that read the second half and the labels, and the call."""
        lines, call = [], "denoise.denoise_fluence(values"
        for layer in self.layers():
            read = f"denoise.io.read_on_grid({str(files[layer.name])!r}, image){part}"
            lines.append(
                f"second = denoise.io.from_log10({read})" if layer_values(layer).is_log else f"second = {read}"
            )
            call += ", second"
        keyword = "" if self.layers() else "settings="
        call += f", {keyword}{call_text('denoise', self.form.value())}"
        for layer in self.labels():
            lines.append(f"labels = denoise.io.read_on_grid({str(files[layer.name])!r}, image)")
            call += ", labels=labels"
        return lines, call

    def set_image(self, layer: Any | None) -> None:
        """Choose the other half of another image, by its name."""
        if layer is not None and self._is_image(layer):
            return
        self._image, self._is_own_choice = layer, False
        self.second_box.setCurrentIndex(0)
        self._choose_other_half(self.viewer.layers)

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self.second_box.attach()
        self.labels_box.attach()
        self.viewer.layers.events.inserted.connect(self._on_inserted)

    def detach(self) -> None:
        """Stop following the viewer's layers."""
        self.viewer.layers.events.inserted.disconnect(self._on_inserted)
        self.second_box.detach()
        self.labels_box.detach()
        self._image = None

    def _fill(self) -> None:
        self.alone.setWordWrap(True)
        self.alone.setStyleSheet(MUTED_STYLE)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        self._rows = aligned_form(None)
        for text, tip, widget in (
            ("Second half", _SECOND_TIP, self.second_box),
            ("", _SECOND_TIP, self.alone),
            ("Labels", _LABELS_TIP, self.labels_box),
        ):
            widget.setToolTip(tip)
            self._rows.addRow(row_label(text, tip, self), widget)
        layout.addLayout(self._rows)
        layout.addWidget(self.form)

    def _connect(self) -> None:
        self.second_box.activated.connect(self._on_own_choice)
        self.second_box.currentIndexChanged.connect(self._show_alone)
        for signal in (self.form.changed, self.second_box.currentIndexChanged, self.labels_box.currentIndexChanged):
            signal.connect(lambda *_: self.changed.emit())

    def _on_own_choice(self, *_: Any) -> None:
        self._is_own_choice = True

    def _show_alone(self, *_: Any) -> None:
        self._rows.setRowVisible(self.alone, self.second_box.layer is None)

    def _on_inserted(self, event: Any) -> None:
        """Choose a new layer if it is the other half, unless one is chosen."""
        if not self._is_own_choice and self.second_box.layer is None:
            self._choose_other_half([event.value])

    def _choose_other_half(self, layers: Iterable[Any]) -> None:
        """Choose the layer whose name is that of the other half."""
        if self._image is None:
            return
        others = {layer.name: layer for layer in layers if _is_half(layer) and not self._is_image(layer)}
        name = other_half(self._image.name, others)
        if name is not None:
            self.second_box.choose(others[name])

    def _is_image(self, layer: Any) -> bool:
        return self._image is not None and key_of(layer) == key_of(self._image)


def _is_map(layer: Any) -> bool:
    return isinstance(layer, Image) and layer.ndim in (3, 4) and not (layer.rgb or layer.multiscale)


def _is_half(layer: Any) -> bool:
    is_volume = isinstance(layer, Image) and layer.ndim in (3, 4) and not (layer.rgb or layer.multiscale)
    return is_volume and not is_ours(layer)


def _is_labels(layer: Any) -> bool:
    return isinstance(layer, Labels) and layer.ndim >= 3


MODES: tuple[type[Mode], ...] = (AnlmMode, FluenceMode)
