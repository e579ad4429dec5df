"""The layers of a result: denoised image, residual, noise and more; and which of them is seen."""

import dataclasses
from typing import Any

import numpy as np
from napari.utils.colormaps import Colormap

from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.denoise.gui.halves import both_halves
from napari_gpubio.denoise.gui.image_box import PANEL
from napari_gpubio.denoise.gui.request import Denoised
from napari_gpubio.denoise.napari_io import Array, LayerVolume, key_of

BEFORE, AFTER, RESIDUAL, NOISE, SCALE = "before", "after", "residual", "noise", "scale"
_INPUT = "input"  # the image, where not it but the mean of both halves was denoised
_PARTS = {
    AFTER: "denoise image", RESIDUAL: "denoise residual", NOISE: "denoise noise", SCALE: "denoise scale",
    BEFORE: "denoise before",
}  # fmt: skip
_TITLES = {AFTER: "denoised {}", RESIDUAL: "residual {}", SCALE: "scale (mm) of {}", BEFORE: "{}"}
# Under which a result says whose it is, whose else, and what its noise is.
_SOURCE, _PARTNER, _NOISE = "source", "partner", "noise"
# Dark where there is nothing left over, so that structure in a residual stands out on napari's dark canvas.
_BLUES, _ORANGES = ([0.45, 0.78, 1.0], [0.1, 0.35, 0.8]), ([0.8, 0.3, 0.08], [1.0, 0.8, 0.4])
DIVERGING = Colormap([*_BLUES, [0.05, 0.05, 0.06], *_ORANGES], name="blue – black – orange")


class ResultLayers:
    """Shows results in layers of the panel's own; another run of the same image changes them in place.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self.source = ""  # key of the image whose result is shown

    def show(self, done: Denoised) -> None:
        """Show a result; the input is hidden behind it."""
        image = done.request.image
        self.source = image.key
        extremes = {RESIDUAL: (-done.residual_limit, done.residual_limit)}
        for part, data in (
            (BEFORE, done.before), (SCALE, done.scale), (NOISE, done.noise), (RESIDUAL, done.residual),
            (AFTER, done.clean),
        ):  # fmt: skip
            if data is None:
                self._let_go(part)
            else:
                self._show(part, done, data, _look(part, image, extremes.get(part)))
        self.look_at(AFTER)

    def look_at(self, part: str) -> None:
        """Make one of the input and its results visible, and hide the others."""
        for layer in self._viewer.layers:
            own = self._part_of(layer)
            if own is not None:
                layer.visible = own == part

    def seen(self) -> str:
        """Which of them is visible, or an empty text."""
        visible = [self._part_of(layer) for layer in self._viewer.layers if layer.visible]
        return next((part for part in reversed(visible) if part is not None), "")

    def is_there(self) -> bool:
        """Whether there is a denoised image to be seen."""
        return self._layer(AFTER) is not None

    def keep(self) -> str:
        """Let go of the layers as they are, so that the next run makes new ones; returns the name of the image."""
        names = []
        for part in _PARTS:
            if (layer := self._layer(part)) is not None:
                layer.metadata[KEY] = {**layer.metadata[KEY], PANEL: "kept"}
                names.append(layer.name)
        self.source = ""
        return names[0] if names else ""

    def _show(self, part: str, done: Denoised, data: Array, look: dict[str, Any]) -> None:
        layer, image, told = self._layer(part), done.request.image, _carried(part, done)
        if layer is not None and layer.data.shape == data.shape and _is_like(layer, image, told):
            layer.data = data
            layer.metadata[KEY] = told
            if part != AFTER:
                layer.contrast_limits = look.get("contrast_limits", layer.contrast_limits)
            return
        self._let_go(part)
        self._viewer.add_image(data, name=_name(part, done), metadata={KEY: told}, visible=False, **image.place, **look)

    def _let_go(self, part: str) -> None:
        """Leave a layer to the user, where the new result has none of its kind in its place."""
        if (layer := self._layer(part)) is not None:
            layer.metadata[KEY] = {**layer.metadata[KEY], PANEL: "kept"}
            layer.visible = False

    def _layer(self, part: str) -> Any | None:
        return next((layer for layer in reversed(self._viewer.layers) if self._made(layer) == part), None)

    def _part_of(self, layer: Any) -> str | None:
        """What a layer is for the image whose result is shown; ``before`` is it itself, or the mean of its halves."""
        if not self.source:
            return None
        if key_of(layer) == self.source:
            return BEFORE if self._layer(BEFORE) is None else _INPUT
        return self._made(layer)

    def _made(self, layer: Any) -> str | None:
        """What a layer is that a run has made of the image."""
        parts = [part for part, word in _PARTS.items() if carried(layer, PANEL) == word]
        return parts[0] if parts and carried(layer, _SOURCE) == self.source else None


def _name(part: str, done: Denoised) -> str:
    """Name of a new layer."""
    image, recipe = done.request.image, done.request.recipe
    title = recipe.words.noise_title if part == NOISE else _TITLES[part]
    return title.format(both_halves(image.name, recipe.partner) if recipe.partner else image.name)


def _look(part: str, image: LayerVolume, limits: tuple[float, float] | None) -> dict[str, Any]:
    """Colors of a layer; images before and after have those of the input."""
    if part in (BEFORE, AFTER):
        return dict(image.look)
    interpolation = {"interpolation2d": image.look["interpolation2d"]}
    if part == RESIDUAL:
        return {"colormap": DIVERGING, "contrast_limits": limits, **interpolation}
    return {"colormap": "viridis", **interpolation}


def _carried(part: str, done: Denoised) -> dict[str, Any]:
    """What a layer carries: its grid, its meaning, and how it was made."""
    image = done.request.image
    told = {name: value for name, value in image.carried.items() if name != "scan"}
    told |= {
        PANEL: _PARTS[part],
        _SOURCE: image.key,
        _PARTNER: done.request.recipe.partner,
        _NOISE: done.request.recipe.words.noise,
        "parameters": dict(done.result.parameters),
    }
    quantity = str(told.pop("quantity", ""))
    if part == NOISE:
        quantity = f"{'log10 ' if image.values.is_log else ''}{done.request.recipe.words.noise}"
    elif part == RESIDUAL:
        quantity = "input minus denoised"
    elif part == SCALE:
        quantity = "standard deviation of the window"
        told |= {"unit": "mm", "factor": 1.0}
    elif part == AFTER and (scan := _scan_with(image.carried.get("scan"), done.stored)) is not None:
        told["scan"] = scan
    return {**told, "quantity": quantity} if quantity else told


def _scan_with(scan: Any, data: Array) -> Any | None:
    """The scan that an image came with, with other values, so that tensors can be fitted to them; None if it has none.

    A scan is a dataclass whose ``data`` are the image; the file it came from does not hold the new values.
    """
    if not dataclasses.is_dataclass(scan) or isinstance(scan, type):
        return None
    if np.shape(getattr(scan, "data", None)) != data.shape:
        return None
    changes: dict[str, Any] = {"data": data}
    if any(field.name == "path" for field in dataclasses.fields(scan)):
        changes["path"] = None
    return dataclasses.replace(scan, **changes)


def _is_like(layer: Any, image: LayerVolume, told: dict[str, Any]) -> bool:
    """Whether a layer lies where an image lies, and was made in the same way."""
    if any(carried(layer, name) != told.get(name) for name in ("quantity", _PARTNER, _NOISE)):
        return False
    same = (np.allclose(getattr(layer, name), image.place[name]) for name in ("scale", "translate", "rotate", "shear"))
    return all(same) and np.allclose(layer.affine.affine_matrix, image.place["affine"])
