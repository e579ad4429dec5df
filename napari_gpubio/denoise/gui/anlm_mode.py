"""The mode "adaptive non-local means": the filter's settings, and what is known of the noise."""

import dataclasses
import math
import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from napari.layers import Image
from qtpy.QtWidgets import QComboBox, QLineEdit, QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.gui.gain import answer_gain_steps, block_of
from napari_gpubio.denoise.gui.mode import Mode, Words
from napari_gpubio.denoise.gui.numbers import Numbers, numbers_of
from napari_gpubio.denoise.gui.request import Request
from napari_gpubio.denoise.kernels.anlm.problem import Windows, make_windows
from napari_gpubio.denoise.model import DenoiseResult
from napari_gpubio.denoise.napari_io import Array, LayerVolume, Part, Values, layer_values
from napari_gpubio.denoise.run import denoise_steps
from napari_gpubio.denoise.settings import DenoiseSettings
from napari_gpubio.gui.forms import ParamForm, aligned_form, row_label
from napari_gpubio.gui.layer_box import LayerBox
from napari_gpubio.gui.script import call_text

ESTIMATED, NUMBER, MAP = "estimated from the image", "a number", "a map"
_LEVEL_TIP = "Standard deviation of the noise, in the unit of the image; for Rician noise that of its two parts"
_WORDS = Words(
    noise_title="noise σ of {}",
    noise="standard deviation of the noise",
    gain="Gain (estimate)",
    times="photons or averages",
    gain_tip=(
        "From what the filter leaves of a little noise that is added to a block of the image; about 1 dB uncertain. A "
        "change of bias is not seen."
    ),
    stopped="stopped; what was not reached is as it was",
)


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AnlmRecipe:
    """Settings of the filter and the noise, which is estimated where it is None."""

    settings: DenoiseSettings
    noise: float | Values | None = None

    @property
    def partner(self) -> str:
        """No other layer."""
        return ""

    @property
    def words(self) -> Words:
        """The noise that is told is that before."""
        return _WORDS

    def steps(
        self,
        values: Array,
        mask: Any,
        *,
        voxel_size_mm: tuple[float, ...],
        device: str,
        stop: threading.Event,
    ) -> Generator[Step, None, DenoiseResult]:
        """Denoise; see `napari_gpubio.denoise.denoise_steps`."""
        noise = self.noise.linear() if isinstance(self.noise, Values) else self.noise
        return (
            yield from denoise_steps(
                values, self.settings, mask=mask, voxel_size_mm=voxel_size_mm, noise=noise, device=device, stop=stop
            )
        )

    def reach(self, voxel_size_mm: tuple[float, ...]) -> tuple[int, int, int]:
        """Search, patch and the box in which residuals are taken."""
        return _beside(make_windows(self.settings, voxel_size_mm), patches=1)

    def near(self, voxel_size_mm: tuple[float, ...]) -> tuple[int, int, int]:
        """All candidates; patches that go beyond are mirrored, which changes a result by some 2 % of the noise."""
        return _beside(make_windows(self.settings, voxel_size_mm), patches=0)

    def cut(self, part: Part) -> "AnlmRecipe":
        """Return the same for a part of the image."""
        if not isinstance(self.noise, Values):
            return self
        return dataclasses.replace(self, noise=self.noise.cut(part))

    def before(self, values: Array) -> None:
        """Nothing but the image itself."""

    def scale(self, result: DenoiseResult) -> None:
        """Nothing: windows are as large everywhere."""

    def numbers_steps(
        self, request: Request, result: DenoiseResult, stop: threading.Event
    ) -> Generator[Step, None, Numbers]:
        """Estimate the gain from the answer to added noise."""
        gain_db = math.nan
        if result.complete:
            yield Step(1, 1, "estimating the gain")
            block = block_of(request, result)
            gain_db = yield from answer_gain_steps(block, stop, magnitudes=self.settings.is_rician)
        return numbers_of(result.image, result.noise, gain_db)


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

    def recipe(self, image: LayerVolume) -> AnlmRecipe:
        """Read the settings and the noise."""
        return AnlmRecipe(settings=self.form.value(), noise=self._noise(image))

    def layers(self) -> list[Any]:
        """The noise map, if there is one."""
        return [self.map_box.layer] if self.level.currentText() == MAP and self.map_box.layer is not None else []

    def script(self, files: Mapping[str, Path], part: str) -> tuple[list[str], str]:
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
        """Hear no more of the viewer."""
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


def _is_map(layer: Any) -> bool:
    return isinstance(layer, Image) and layer.ndim in (3, 4) and not (layer.rgb or layer.multiscale)


def _beside(windows: Windows, *, patches: int) -> tuple[int, int, int]:
    """Voxels beside a slice: candidates, with so many patches around them, and at a border room for a patch."""
    x, y, z = (
        max(search + box + patches * patch, 2 * max(patch, box), 1)
        for search, patch, box in zip(windows.search, windows.largest_patch, windows.box, strict=True)
    )
    return x, y, z
