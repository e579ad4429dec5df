"""The modes of the panel, and the inputs of each."""

import math
from typing import Any, ClassVar

import numpy as np
from napari.layers import Image, Labels
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.label_volumes import holds_labels, label_volume
from napari_gpubio.core.layer_files import MEDIA
from napari_gpubio.core.napari_io import carried, stored_array, volume_of
from napari_gpubio.core.operations.layer_sources import LayerSource, layer_source
from napari_gpubio.core.operations.records import input_infos
from napari_gpubio.core.quantity import guide_of, halves_of
from napari_gpubio.denoise.fluence import FluenceSettings
from napari_gpubio.denoise.gui.inputs import add_row, is_image, other_half, why_no_image, why_no_volume
from napari_gpubio.denoise.napari_io import LayerVolume, key_of
from napari_gpubio.denoise.operations import Denoise, DenoiseFluence
from napari_gpubio.denoise.settings import DenoiseSettings
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import ParamForm, aligned_form, muted_label
from napari_gpubio.gui.layers import VOLUME, LayerBox, LayerListener, why_not_array
from napari_gpubio.gui.operation_form import choose_output

ESTIMATED, NUMBER, MAP = "estimated from the image", "a number", "a map"
_NO_MAP = "there is no noise map; open one as an image layer, or have the noise estimated"
_OWN_HALVES = "The image carries both halves of its photons, which are used."
_OWN_GUIDE = (
    "The image carries both halves of its photons and the guide of its run, which are used. With the labels of the "
    "run, vessels and other thin, strong absorbers are denoised, too."
)
_ALONE = "With a single volume, the noise is estimated from it; two halves of the photons give a better result."


class DenoiseMode(QWidget):
    """The inputs of one mode; ``parts`` follow the viewer while the panel is open."""

    title: ClassVar[str]
    tip: ClassVar[str]
    verb: ClassVar[type[Denoise | DenoiseFluence]]
    warms: ClassVar[tuple[str, ...]]
    changed = Signal()

    def __init__(self, viewer: Any, form: ParamForm[Any], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.viewer, self.form = viewer, form
        self.parts: list[Any] = []

    @property
    def boxes(self) -> dict[str, LayerBox]:
        """The inputs of the operation beside the image that are chosen here, by their fields."""
        raise NotImplementedError

    def set_image(self, layer: Any | None) -> None:
        """Set the image that was chosen; a mode may choose what belongs to it."""

    def read(self, image: LayerVolume) -> tuple[dict[str, Any], dict[str, LayerSource]]:
        """Read settings and numbers, and inputs, by the fields of the operation; in the GUI thread.

        Raises
        ------
        InvalidInput
            If something is missing or does not fit the image.
        """
        sources = dict[str, LayerSource]()
        for name, layer in ((name, box.layer) for name, box in self.boxes.items() if box.layer is not None):
            image.check_same_grid(layer, f"{input_infos(self.verb)[name].label.lower()}{' layer' * (name == 'labels')}")
            sources[name] = layer_source(layer, label_volume(layer) if name == "labels" else None)
        return {"settings": self.form.value()}, sources

    def show_draft(self, operation: Any) -> bool:
        """Show an operation of the mode's verb; returns whether layers show all its inputs."""
        self.form.set_value(operation.settings)
        found = [choose_output(box, self.viewer, getattr(operation, name)) for name, box in self.boxes.items()]
        return all(found)

    def _emit_changed(self, *_: Any) -> None:
        self.changed.emit()


class AnlmMode(DenoiseMode):
    """Patches, search radius, noise model, noise level; the finer rules are folded away."""

    title = "adaptive non-local means"
    tip = "Weighted means of voxels whose surroundings look alike (Yuan et al. 2018)"
    verb = Denoise
    warms = "denoise/anlm", "denoise/Rician noise"

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(viewer, ParamForm(DenoiseSettings()), parent)
        self.level, self.number = ElidedComboBox(self, entries=(ESTIMATED, NUMBER, MAP)), QLineEdit(self)
        self.number.setPlaceholderText("standard deviation")
        self.map_box = LayerBox(viewer, why_no_volume, empty="open a noise map", parent=self)
        self.parts = [self.map_box]
        level = QWidget(self)
        self._rows = aligned_form(level)
        for name, widget in (("sigma", self.level), ("sigma", self.number), ("noise", self.map_box)):
            add_row(self._rows, self.verb, name, widget, "Noise level" if widget is self.level else "")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.form)
        self.form.layout().insertWidget(1, level)  # between the plain settings and the folded ones
        self.level.currentIndexChanged.connect(self._on_level)
        signals = (self.form.changed, self.number.editingFinished, self.map_box.currentIndexChanged)
        connect_all((signal, self._emit_changed) for signal in signals)
        self._show_level()

    @property
    def boxes(self) -> dict[str, LayerBox]:
        """The map of the noise, where there is to be one."""
        return {"noise": self.map_box} if self.level.currentText() == MAP else {}

    def read(self, image: LayerVolume) -> tuple[dict[str, Any], dict[str, LayerSource]]:
        """Read settings, and the noise level or its map."""
        for box in self.boxes.values():
            box.needed(_NO_MAP)
        fields, sources = super().read(image)
        return (fields | {"sigma": self._number()} if self.level.currentText() == NUMBER else fields), sources

    def show_draft(self, operation: Denoise) -> bool:
        """Show an operation of the mode's verb; returns whether layers show all its inputs."""
        self.number.setText("" if operation.sigma is None else repr(operation.sigma))
        known = ESTIMATED if operation.sigma is None else NUMBER
        self.level.setCurrentText(known if operation.noise is None else MAP)
        return super().show_draft(operation)

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


class FluenceMode(DenoiseMode):
    """The other half, labels, and the scales; the finer rules are folded away."""

    title = "fluence (two half-buffers)"
    tip = "Monte Carlo fluence, smoothed voxel by voxel as far as two halves of the photons allow"
    verb = DenoiseFluence
    warms = ("denoise/fluence",)

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        form = ParamForm(FluenceSettings(), skip=("cap",))  # mu_eff is not known here, so that there is no cap
        super().__init__(viewer, form, parent)
        self.second_box = LayerBox(viewer, why_no_image, nothing="none: there is one buffer", parent=self)
        self.labels_box = LayerBox(viewer, _why_no_labels, nothing="none", parent=self)
        self.alone = muted_label(self, _ALONE)
        self._image_key = ""
        self._halves, self._guide, self._media = None, None, None  # as the image carries them
        others = LayerListener(viewer, _may_belong, layers_added=self._choose_what_belongs)
        self.parts = [self.second_box, self.labels_box, others]
        self._rows = aligned_form(None)
        add_row(self._rows, self.verb, "second", self.second_box)
        self._rows.addRow("", self.alone)
        add_row(self._rows, self.verb, "labels", self.labels_box)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(self._rows)
        layout.addWidget(self.form)
        self.second_box.currentIndexChanged.connect(self._show_alone)
        signals = (self.form.changed, self.second_box.currentIndexChanged, self.labels_box.currentIndexChanged)
        connect_all((signal, self._emit_changed) for signal in signals)

    @property
    def boxes(self) -> dict[str, LayerBox]:
        """The second half, unless the image carries both, and the labels."""
        labels = {"labels": self.labels_box}
        return labels if self.has_own_halves else {"second": self.second_box, **labels}

    @property
    def has_own_halves(self) -> bool:
        """Whether the image carries both halves of its photons."""
        return self._halves is not None

    @property
    def has_own_guide(self) -> bool:
        """Whether the image carries the guide of its run, beside both halves."""
        return self.has_own_halves and self._guide is not None

    def set_image(self, layer: Any | None) -> None:
        """Choose the other half of another image, by its name."""
        key = "" if layer is None else key_of(layer)
        if key and key == self._image_key:
            return
        self._image_key = key
        self._media = None if layer is None else carried(layer, MEDIA)
        self._halves, self._guide = (None, None) if layer is None else _carried_on_grid(layer)
        self._rows.setRowVisible(self.second_box, not self.has_own_halves)
        self._show_alone()
        self.second_box.setCurrentIndex(0)
        for box in (self.second_box, self.labels_box):
            box.unsettle()
        self._choose_what_belongs()

    def _show_alone(self, *_: Any) -> None:
        own = _OWN_GUIDE if self.has_own_guide else _OWN_HALVES
        self.alone.setText(own if self.has_own_halves else _ALONE)
        self._rows.setRowVisible(self.alone, self.has_own_halves or self.second_box.layer is None)

    def _choose_what_belongs(self) -> None:
        self._choose_other_half()
        self._choose_labels()

    def _choose_labels(self) -> None:
        """Choose the labels of the run that the guide is of, which its optical properties tell, unless some are."""
        self.labels_box.refresh()
        if self.labels_box.layer is not None or not self.has_own_guide or not self._media:
            return
        for layer in self.viewer.layers:
            is_of_run = isinstance(layer, Labels) and carried(layer, MEDIA) == self._media
            if is_of_run and volume_of(layer).shape == self._guide.shape:
                self.labels_box.suggest(layer)
                return

    def _choose_other_half(self) -> None:
        """Choose the layer whose name is that of the other half, unless one is chosen or the user wants none."""
        self.second_box.refresh()
        if self.second_box.layer is not None:
            return
        halves = {layer.name: layer for layer in self.viewer.layers if is_image(layer)}
        image = next((layer for layer in halves.values() if key_of(layer) == self._image_key), None)
        others = {name: layer for name, layer in halves.items() if layer is not image}
        if image is not None and (name := other_half(image.name, others)) is not None:
            self.second_box.suggest(others[name])


def _why_no_labels(layer: Any) -> str | None:
    if isinstance(layer, Image):
        return None if holds_labels(layer) else ""
    return why_not_array(layer, Labels, VOLUME)


def _may_belong(layer: Any) -> bool:
    return is_image(layer) or isinstance(layer, Labels)


def _carried_on_grid(layer: Any) -> tuple[Any | None, Any | None]:
    """The halves and the guide that a layer carries, those of them that have its shape."""
    halves, guide, shape = halves_of(layer), guide_of(layer), np.shape(stored_array(layer))
    is_halves = halves is not None and halves.shape[1:] == shape
    is_guide = guide is not None and guide.shape == shape
    return halves if is_halves else None, guide if is_guide else None


MODES: tuple[type[DenoiseMode], ...] = (AnlmMode, FluenceMode)
