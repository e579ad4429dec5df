"""A result in the panel: its layers, which of them is seen, and its numbers."""

import dataclasses
import math
from functools import partial
from typing import Any

import numpy as np
from napari.utils.colormaps import Colormap
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QButtonGroup, QHBoxLayout, QPushButton, QWidget

from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.quantity import QUANTITY, Quantity, quantity_metadata
from napari_gpubio.denoise.fluence.model import PROVABLE_TIMES
from napari_gpubio.denoise.gui.inputs import PANEL, both_halves
from napari_gpubio.denoise.gui.run import Denoised, number_texts
from napari_gpubio.denoise.napari_io import LayerVolume, key_of
from napari_gpubio.denoise.operations import Denoise
from napari_gpubio.denoise.parts import Array
from napari_gpubio.gui.forms import text_button
from napari_gpubio.gui.layers import set_visible
from napari_gpubio.gui.number_table import Number
from napari_gpubio.gui.results import ResultBox
from napari_gpubio.gui.run_parts import Pieces

BEFORE, AFTER, RESIDUAL, NOISE, SCALE = "before", "after", "residual", "noise", "scale"
_INPUT = "input"  # the image, where not it but the mean of both halves was denoised
_WORD = "denoise {}"  # under which a layer carries its part
_VOLUMES = {AFTER: "denoised", RESIDUAL: "residual", NOISE: "noise", SCALE: "scale", BEFORE: "before"}  # of a result
_TITLES = {AFTER: "denoised {}", RESIDUAL: "residual {}", SCALE: "scale (mm) of {}", BEFORE: "{}"}
# Keys under which a result carries its image, the image's other half, and the meaning of its noise.
_SOURCE, _PARTNER, _NOISE = "source", "partner", "noise"
# Dark where there is nothing left over, so that structure in a residual stands out on napari's dark canvas.
_BLUES, _ORANGES = ([0.45, 0.78, 1.0], [0.1, 0.35, 0.8]), ([0.8, 0.3, 0.08], [1.0, 0.8, 0.4])
DIVERGING = Colormap([*_BLUES, [0.05, 0.05, 0.06], *_ORANGES], name="blue – black – orange")
KEY_TEXT = "B"
_FLIPS = f"{KEY_TEXT} flips between before and after"
_TIPS = {
    BEFORE: "The original image",
    AFTER: "The denoised image",
    RESIDUAL: "The original minus the denoised image: noise alone, without anatomy, if all is well",
    NOISE: "Standard deviation of the noise",
    SCALE: "Standard deviation of the smoothing window that was chosen for each voxel, mm",
}
_GROUP = f"Result  ({KEY_TEXT}: before / after)"
_NOISE_TIP = "Median over voxels with more signal than noise"
_TIMES_TIP = "10 to the power of gain / 10: so many times as many would do the same unfiltered"


_AT_MOST = "≤"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResultTexts:
    """Texts about the results of a mode."""

    noise_title: str  # name of the layer of the noise, with a place for that of the image
    noise: str  # what that layer holds
    gain: str
    gain_tip: str  # where the gain comes from
    times: str  # what so many times more of would do the same without a filter
    about: str = "≈"  # before the gain: about so much, or at most
    trusted_times: float = math.inf  # beyond which it is at most
    stopped: str  # status after a run that was stopped

    def before_gain(self, times: float) -> str:
        """What stands before a gain that is worth so many times as many photons."""
        return _AT_MOST if times > self.trusted_times else self.about


_ANLM_TEXTS = ResultTexts(
    noise_title="noise σ of {}",
    noise="standard deviation of the noise",
    gain="Gain (estimate)",
    times="photons or averages",
    gain_tip=(
        "From how much of a little added noise the filter removes in one block of the image; uncertain by about 1 dB. "
        "A change in bias is not included."
    ),
    stopped="stopped; the rest of the image is unchanged",
)
_FLUENCE_TEXTS = ResultTexts(
    noise_title="noise left in {}",
    noise="standard error that is left",
    gain="Gain",
    times="photons",
    gain_tip=(
        "From the noise before, and the noise and bias that are left, as the two halves show them, over voxels with "
        "more signal than noise; bright voxels count more. More than 15 times the photons is an upper bound: halves "
        "cannot show an error that is so much smaller than the noise."
    ),
    trusted_times=PROVABLE_TIMES,
    stopped="stopped; wider windows were not tried",
)
_FLUENCE_ALONE_TEXTS = dataclasses.replace(
    _FLUENCE_TEXTS,
    noise="remaining standard error, at least",
    gain="Gain, at most",
    gain_tip=(
        "From the noise before and after, estimated from the single volume, which reveals only part of what remains: "
        "on the sample, whose truth is known, the gain is about 5 dB less."
    ),
    about=_AT_MOST,
)


def texts_of(done: Denoised) -> ResultTexts:
    """Return the texts about the results of a run."""
    if isinstance(done.operation, Denoise):
        return _ANLM_TEXTS
    return _FLUENCE_TEXTS if done.made.has_halves else _FLUENCE_ALONE_TEXTS


class ResultLayers:
    """Shows results in layers of the panel; another run of the same image changes them in place."""

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self.source = ""  # key of the image whose result is shown

    def show_result(self, done: Denoised) -> Pieces:
        """Show a result, layer by layer; the input is hidden behind it."""
        image = done.draft.image
        self.source = image.key
        extremes = {RESIDUAL: (-done.residual_limit, done.residual_limit)}
        for part, name in [*_VOLUMES.items()][::-1]:
            if (volume := getattr(done.made, name)) is None:
                self._release(part)
            else:
                self._show_layer(part, done, image.shown(volume.array), _display_of(part, image, extremes.get(part)))
                yield
        self.show_only(AFTER)

    def show_only(self, part: str) -> None:
        """Make one of the input and its results visible, and hide the others."""
        for layer in self._viewer.layers:
            own = self._part_of(layer)
            if own is not None:
                set_visible(layer, own == part)

    def visible_part(self) -> str:
        """Which of them is visible, or an empty text."""
        visible = [self._part_of(layer) for layer in self._viewer.layers if layer.visible]
        return next((part for part in reversed(visible) if part is not None), "")

    def has_result(self) -> bool:
        """Whether there is a denoised image to be seen."""
        return self._layer(AFTER) is not None

    def keep(self) -> str:
        """Leave the layers to the user, so that the next run makes new ones; returns the name of the image."""
        names = []
        for part in _VOLUMES:
            if (layer := self._layer(part)) is not None:
                layer.metadata[KEY] = {**layer.metadata[KEY], PANEL: "kept"}
                names.append(layer.name)
        self.release_input()
        self.source = ""
        return names[0] if names else ""

    def release_input(self) -> None:
        """Show the image again, which the result lies on: nothing says any more why it was hidden."""
        for layer in self._viewer.layers:
            if self.source and key_of(layer) == self.source:
                set_visible(layer, True)

    def attach(self) -> None:
        """Do nothing: the viewer is not followed."""

    def detach(self) -> None:
        """Leave the layers to the user, the image not hidden."""
        self.release_input()

    def _show_layer(self, part: str, done: Denoised, data: Array, display: dict[str, Any]) -> None:
        layer, image, metadata = self._layer(part), done.draft.image, _carried(part, done)
        if layer is not None and layer.data.shape == data.shape and _is_like(layer, image, metadata):
            layer.data = data
            layer.metadata[KEY] = metadata
            if part != AFTER:
                layer.contrast_limits = display.get("contrast_limits", layer.contrast_limits)
            return
        self._release(part)
        self._viewer.add_image(
            data, name=_name(part, done), metadata={KEY: metadata}, visible=False, **image.place, **display
        )

    def _release(self, part: str) -> None:
        """Leave a layer to the user, where the new result has none of its kind in its place."""
        if (layer := self._layer(part)) is not None:
            layer.metadata[KEY] = {**layer.metadata[KEY], PANEL: "kept"}
            set_visible(layer, False)

    def _layer(self, part: str) -> Any | None:
        return next((layer for layer in reversed(self._viewer.layers) if self._result_part_of(layer) == part), None)

    def _part_of(self, layer: Any) -> str | None:
        """The part that a layer shows of the current result; ``before`` is the image, or the mean of its halves."""
        if not self.source:
            return None
        if key_of(layer) == self.source:
            return BEFORE if self._layer(BEFORE) is None else _INPUT
        return self._result_part_of(layer)

    def _result_part_of(self, layer: Any) -> str | None:
        """The part of the current result that a layer holds, or None."""
        if carried(layer, _SOURCE) != self.source:
            return None
        return next((part for part in _VOLUMES if carried(layer, PANEL) == _WORD.format(part)), None)


def _name(part: str, done: Denoised) -> str:
    """Name of a new layer."""
    image, partner = done.draft.image, done.draft.partner
    title = texts_of(done).noise_title if part == NOISE else _TITLES[part]
    return title.format(both_halves(image.name, partner) if partner else image.name)


def _display_of(part: str, image: LayerVolume, limits: tuple[float, float] | None) -> dict[str, Any]:
    """Colors of a layer; images before and after have those of the input."""
    if part in (BEFORE, AFTER):
        return dict(image.display)
    interpolation = {"interpolation2d": image.display["interpolation2d"]}
    if part == RESIDUAL:
        return {"colormap": DIVERGING, "contrast_limits": limits, **interpolation}
    return {"colormap": "viridis", **interpolation}


def _carried(part: str, done: Denoised) -> dict[str, Any]:
    """Metadata of a layer: its grid, its meaning, and its provenance."""
    image = done.draft.image
    metadata = {name: value for name, value in image.carried.items() if name != "scan"}
    metadata |= {
        PANEL: _WORD.format(part),
        _SOURCE: image.key,
        _PARTNER: done.draft.partner,
        _NOISE: texts_of(done).noise,
        "parameters": dict(done.made.result.parameters),
    }
    if part != BEFORE:
        metadata[RECORD] = record_of_output(done.operation.output(_VOLUMES[part]))
    if part == SCALE:
        metadata |= {"unit": "mm", "factor": 1.0}
    elif part == AFTER and (scan := _scan_with(image.carried.get("scan"), done.made.denoised.array)) is not None:
        metadata["scan"] = scan
    is_known = part not in (BEFORE, AFTER) or image.quantity is not None
    quantity: Quantity | None = getattr(done.made, _VOLUMES[part]).quantity if is_known else None
    if quantity is not None and part == NOISE:
        quantity = dataclasses.replace(quantity, name=texts_of(done).noise)
    error = done.standard_error if part == AFTER else None
    return metadata if quantity is None else {**metadata, **quantity_metadata(quantity, standard_error=error)}


def _scan_with(scan: Any, data: Array) -> Any | None:
    """The scan that an image came with, with other values, so that tensors can be fitted to them; None if it has none.

    A scan is a dataclass whose ``data`` are the image; the file it came from does not hold the new values.
    """
    if not dataclasses.is_dataclass(scan) or isinstance(scan, type):
        return None
    if np.shape(getattr(scan, "data", ())) != data.shape:
        return None
    changes: dict[str, Any] = {"data": data}
    if any(field.name == "path" for field in dataclasses.fields(scan)):
        changes["path"] = None
    return dataclasses.replace(scan, **changes)


def _is_like(layer: Any, image: LayerVolume, expected: dict[str, Any]) -> bool:
    """Whether a layer lies where an image lies, and was made in the same way."""
    if any(carried(layer, name) != expected.get(name) for name in (QUANTITY, _PARTNER, _NOISE)):
        return False
    same = (np.allclose(getattr(layer, name), image.place[name]) for name in ("scale", "translate", "rotate", "shear"))
    return all(same) and np.allclose(layer.affine.affine_matrix, image.place["affine"])


class DenoisedBox(ResultBox):
    """Numbers, before / after, and Keep; hidden until there is a result."""

    part_chosen = Signal(str)
    keep_requested = Signal()
    keeps_controls = False  # for undo: they are about what is visible

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", parent)
        self._buttons: dict[str, QPushButton] = {}
        group, row = QButtonGroup(self), QHBoxLayout()
        row.setSpacing(1)
        for part, tip in _TIPS.items():
            button = text_button(part.capitalize(), f"{tip}\n{_FLIPS}", self, partial(self.part_chosen.emit, part))
            button.setCheckable(True)
            group.addButton(button)
            self._buttons[part] = button
            row.addWidget(button)
        self.content.addLayout(row)
        keep_tip = "The next run adds new layers instead of replacing these"
        self.add_button("Keep these layers", keep_tip, self.keep_requested.emit)
        self.hide()

    def mark_part(self, part: str) -> None:
        """Check the button of the layer that is seen."""
        if part in self._buttons:
            self._buttons[part].setChecked(True)

    def show_result(self, done: Denoised) -> None:
        """Show the numbers of a result."""
        texts, image = texts_of(done), done.draft.image
        shown = number_texts(done.numbers, image, texts.times, texts.before_gain(done.numbers.times))
        rows = (
            ("noise", "Noise / signal" if image.is_log else "Noise σ", _NOISE_TIP),
            ("before", "Signal / noise before", _NOISE_TIP),
            ("gain", texts.gain, texts.gain_tip),
            ("times", "As good as", f"{_TIMES_TIP}. {texts.gain_tip}"),
        )
        self.show_numbers(Number(group=_GROUP, name=name, text=shown[key], note=tip) for key, name, tip in rows)
        what = f"{texts.noise[:1].upper()}{texts.noise[1:]}"
        self._buttons[NOISE].setToolTip(f"{what}, as it was found or given\n{_FLIPS}")
        self._buttons[SCALE].setVisible(done.made.scale is not None)
        self.show()
