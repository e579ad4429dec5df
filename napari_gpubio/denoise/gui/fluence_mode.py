"""The mode "fluence": the image is one half of the photons of a Monte Carlo run, another layer the other half."""

import dataclasses
import threading
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Image, Labels
from qtpy.QtWidgets import QLabel, QVBoxLayout, QWidget

from napari_gpubio.core.napari_io import volume_of
from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.fluence import FluenceResult, FluenceSettings, denoise_fluence_steps
from napari_gpubio.denoise.gui.halves import other_half
from napari_gpubio.denoise.gui.image_box import is_ours
from napari_gpubio.denoise.gui.mode import Mode, Words
from napari_gpubio.denoise.gui.numbers import Numbers, numbers_of
from napari_gpubio.denoise.gui.request import Request
from napari_gpubio.denoise.napari_io import EVERYTHING, Array, LayerVolume, Part, Values, key_of, layer_values
from napari_gpubio.gui.forms import ParamForm, aligned_form, row_label
from napari_gpubio.gui.layer_box import LayerBox
from napari_gpubio.gui.script import call_text

_SECOND_TIP = "Fluence of the other half of the photons, per photon of its own half; the image is the first half"
_LABELS_TIP = "Refractive index or tissue of each voxel: nothing is averaged across borders"
_ALONE = "With one buffer only, its noise is measured; two halves of the photons are denoised better."
_REACH = 2.5  # largest scales around a voxel: what lies farther away changes fluence of 100 000 photons by < 2 %
_WORDS = Words(
    noise_title="noise left in {}",
    noise="standard error that is left",
    gain="Gain",
    times="photons",
    gain_tip=(
        "From the noise before and after, as the halves tell it, median over voxels with more signal than noise. A "
        "change of bias is not seen; with it the gain is about 2 dB less on the sample, whose truth is known."
    ),
    stopped="stopped; wider windows were not tried",
)
_WORDS_ALONE = dataclasses.replace(
    _WORDS,
    noise="standard error that is left, at least",
    gain="Gain, at most",
    gain_tip=(
        "From the noise before and after, as it was measured in one buffer, which does not tell all of what is left: "
        "on the sample, whose truth is known, the gain is about 5 dB less."
    ),
    about="≤",
)


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FluenceRecipe:
    """Settings, the second half and its name if there is one, labels; ``is_part`` of a slice and what is around it."""

    settings: FluenceSettings
    second: Values | None = None
    partner: str = ""
    labels: Array | None = None
    is_part: bool = False

    @property
    def words(self) -> Words:
        """The noise that is told is that after; one buffer does not tell all of it."""
        return _WORDS if self.partner else _WORDS_ALONE

    def steps(
        self,
        values: Array,
        mask: Any,
        *,
        voxel_size_mm: tuple[float, ...],
        device: str,
        stop: threading.Event,
    ) -> Generator[Step, None, FluenceResult]:
        """Denoise; see `napari_gpubio.denoise.denoise_fluence_steps`."""
        second = None if self.second is None else self.second.linear()
        if self.is_part and second is not None and not (values.any() and second.any()):
            return _as_it_is(_mean(values, second))  # no photon of one half came here; elsewhere there may be some
        return (
            yield from denoise_fluence_steps(
                values,
                second,
                self.settings,
                labels=self.labels,
                mask=mask,
                voxel_size_mm=voxel_size_mm,
                device=device,
                stop=stop,
            )
        )

    def reach(self, voxel_size_mm: tuple[float, ...]) -> tuple[int, int, int]:
        """What the widest window holds, nearly all of it."""
        finest = min(voxel_size_mm)
        x, y, z = (int(np.ceil(_REACH * self.settings.largest_scale * finest / size)) for size in voxel_size_mm)
        return x, y, z

    def near(self, voxel_size_mm: tuple[float, ...]) -> tuple[int, int, int]:
        """The same: without it whole scales would be missing."""
        return self.reach(voxel_size_mm)

    def cut(self, part: Part) -> "FluenceRecipe":
        """Return the same for a part of the image."""
        return dataclasses.replace(
            self,
            second=None if self.second is None else self.second.cut(part),
            labels=None if self.labels is None else self.labels[part.box].transpose(part.axes),
            is_part=self.is_part or part.box != EVERYTHING,
        )

    def before(self, values: Array) -> Array | None:
        """Return the mean of both halves: all photons."""
        second = None if self.second is None else self.second.linear()
        return None if second is None or second.shape != values.shape else _mean(values, second)

    def scale(self, result: FluenceResult) -> Array:
        """Return the windows that were chosen."""
        return result.scale_mm

    def numbers_steps(
        self,
        request: Request,  # noqa: ARG002 - as every recipe
        result: FluenceResult,
        stop: threading.Event,  # noqa: ARG002
    ) -> Generator[Step, None, Numbers]:
        """Tell what the halves told."""
        yield Step(1, 1, "the numbers")
        left = result.noise if self.partner else None
        return numbers_of(result.image, result.raw_noise, result.snr_gain_db, left)


class FluenceMode(Mode):
    """The other half, labels, and the scales; the finer rules are folded away."""

    title = "fluence (two half-buffers)"
    tip = "Monte Carlo fluence: two halves of the photons tell voxel by voxel how far to smooth"

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

    def recipe(self, image: LayerVolume) -> FluenceRecipe:
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

    def script(self, files: Mapping[str, Path], part: str) -> tuple[list[str], str]:
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
        """Hear no more of the viewer."""
        self.viewer.layers.events.inserted.disconnect(self._on_inserted)
        self.second_box.detach()
        self.labels_box.detach()
        self._image = None

    def _fill(self) -> None:
        self.alone.setWordWrap(True)
        self.alone.setStyleSheet("color: #9a9a9a;")
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
        """Choose the layer whose name says that it is the other half."""
        if self._image is None:
            return
        others = {layer.name: layer for layer in layers if _is_half(layer) and not self._is_image(layer)}
        name = other_half(self._image.name, others)
        if name is not None:
            self.second_box.choose(others[name])

    def _is_image(self, layer: Any) -> bool:
        return self._image is not None and key_of(layer) == key_of(self._image)


def _mean(first: Array, second: Array) -> Array:
    return np.add(first, second, dtype=np.result_type(first, second, np.float32)) / 2  # integers may overflow


def _as_it_is(image: Array) -> FluenceResult:
    """What is given back where there is nothing to denoise."""
    zero = np.zeros_like(image)
    return FluenceResult(image=image, noise=zero, raw_noise=zero, scale_mm=np.zeros(image.shape, np.float32))


def _is_half(layer: Any) -> bool:
    is_volume = isinstance(layer, Image) and layer.ndim in (3, 4) and not (layer.rgb or layer.multiscale)
    return is_volume and not is_ours(layer)


def _is_labels(layer: Any) -> bool:
    return isinstance(layer, Labels) and layer.ndim >= 3
