"""The part of the panel about the camera's noise: numbers, or frames that were taken in the dark."""

from collections.abc import Generator
from typing import Any

import numpy as np
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.forms import ParamForm, aligned_form, row_label
from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.gui.layer_box import LayerBox
from napari_gpubio.speckle.gui.form_parts import faint
from napari_gpubio.speckle.gui.source_pages import frames_of, is_raw_stack
from napari_gpubio.speckle.noise import NoiseModel, measure_dark

NUMBERS = "none: the numbers below"
MEASURING = "the dark frames are still being averaged; wait a moment and try again"
_MEASURED = ("dark_adu", "read_noise_adu", "quantization")  # rows that dark frames take the place of


class NoiseBox(QWidget):
    """What is taken off a camera's variance.

    Dark frames are averaged in a worker; ``changed`` comes when the model is another one.

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
        self.told = faint(self)
        self._measured: NoiseModel | None = None  # without gain
        self._with_gain: NoiseModel | None = None
        self._error = ""
        self._followed: Any = None
        self._job = LatestJob(self)
        self._job.finished.connect(self._on_measured)
        self._fill()
        self.form.changed.connect(self._on_change)
        self.dark_box.currentIndexChanged.connect(self._follow)
        self._tell()

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
            maps = {"dark_map": self._measured.dark_map, "variance_map": self._measured.variance_map}
            self._with_gain = NoiseModel(gain=gain, **maps)
        return self._with_gain

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self.dark_box.attach()

    def detach(self) -> None:
        """Hear no more of the viewer."""
        self._job.abandon()
        self._let_go()
        self.dark_box.detach()

    def _fill(self) -> None:
        rows = aligned_form(None)
        tip = "Frames taken with the light off, same exposure and camera region: mean and variance of every pixel"
        rows.addRow(row_label("Dark frames", tip, self), self.dark_box)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        layout.addLayout(rows)
        layout.addWidget(self.form)
        layout.addWidget(self.told)

    # -- dark frames ----------------------------------------------------------------------------------------------

    def _follow(self, *_: Any) -> None:
        self._let_go()
        self._followed = self.layer
        for name in _MEASURED:
            self.form.set_row_visible(name, visible=self._followed is None)
        if self._followed is None:
            self._on_change()
            return
        self._followed.events.data.connect(self._measure)
        self._measure()

    def _let_go(self) -> None:
        self._job.cancel()
        if self._followed is not None:
            self._followed.events.data.disconnect(self._measure)
        self._followed, self._measured, self._with_gain, self._error = None, None, None, ""

    def _measure(self, *_: Any) -> None:
        self._job.cancel()  # its frames are the old ones
        self._measured, self._with_gain, self._error = None, None, ""
        frames = frames_of(self._followed)
        self._job.submit(lambda _: _measure_steps(frames))
        self._tell()

    def _on_measured(self, outcome: Outcome) -> None:
        self._measured, self._error = outcome.result, outcome.error
        self._on_change()

    def _on_change(self, *_: Any) -> None:
        self._tell()
        self.changed.emit()

    def _tell(self) -> None:
        try:
            text = told_of(self.model)
        except InvalidInput as error:
            text = str(error)
        self.told.setText(text)


def told_of(noise: NoiseModel) -> str:
    """Say in one sentence what is taken off."""
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
        return "Nothing is taken off."
    return "Taken off: " + ", ".join(parts) + ("." if noise.gain > 0 else "; not shot noise, which needs the gain.")


def _is_dark(layer: Any) -> bool:
    return is_raw_stack(layer) and layer.ndim == 3


def _measure_steps(frames: Any) -> Generator[Step, None, NoiseModel]:
    yield Step(0, 1, "dark frames")
    return measure_dark(np.asarray(frames))
