"""The layers of the picture: fluence, and its relative error if wanted; changed in place while a run goes on."""

from typing import Any

import numpy as np
from napari.utils.colormaps import Colormap, ensure_colormap

from napari_gpubio.core.layers import KEY, LayerData, carried
from napari_gpubio.light.widget.request import Picture

_FADE = 0.35  # share of the colours, from the dark end, over which they fade into the labels below


def fading(name: str) -> Colormap:
    """Return a colormap whose dark end is transparent, so that weak light lets the anatomy be seen."""
    places = np.linspace(0.0, 1.0, 64)
    colours = ensure_colormap(name).map(places)
    colours[:, 3] = np.clip(places / _FADE, 0.0, 1.0)
    return Colormap(colours, name=f"{name}, fading", controls=places)


_OURS: dict[str, dict[str, Any]] = {
    "fluence": {"blending": "translucent_no_depth", "opacity": 0.85, "colormap": fading("inferno")},
    "error": {"blending": "translucent_no_depth", "opacity": 0.7},
}


class FluenceView:
    """Shows pictures in the panel's own layers; what the user set on a layer (colours, limits, opacity) stays.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self._limits: dict[str, tuple[float, float]] = {}  # as they were set here last
        self.picture: Picture | None = None

    @property
    def study(self) -> str:
        """With what the names of the layers begin."""
        return "" if self.picture is None else self.picture.study

    def show(self, picture: Picture) -> bool:
        """Show a picture in place of the last one; returns whether a new layer had to be made."""
        self.picture = picture
        is_new = self._show("fluence", picture.fluence)
        if picture.error is not None:
            return self._show("error", picture.error) or is_new
        if (layer := self.layer("error")) is not None:
            self._viewer.layers.remove(layer.name)
        return is_new

    def layer(self, part: str = "fluence") -> Any | None:
        """The layer of a part of the picture (``fluence`` or ``error``), or None."""
        return next((layer for layer in self._viewer.layers if carried(layer, "panel") == part), None)

    def keep(self) -> str:
        """Let go of the layers as they are, so that the next run makes new ones; returns the name of the fluence."""
        names = []
        for part in _OURS:
            layer = self.layer(part)
            if layer is not None:
                del layer.metadata[KEY]["panel"]
                names.append(layer.name)
        self.picture = None
        return names[0] if names else ""

    # -- the inside -----------------------------------------------------------------------------------------------

    def _show(self, part: str, made: LayerData) -> bool:
        data, keywords, _ = made
        keywords["metadata"][KEY]["panel"] = part
        layer = self.layer(part)
        if layer is not None and not _fits(layer, data, keywords):
            self._viewer.layers.remove(layer.name)
            layer = None
        if layer is None:
            self._add(part, data, keywords)
            return True
        self._change(part, layer, data, keywords)
        return False

    def _add(self, part: str, data: Any, keywords: dict[str, Any]) -> None:
        active = self._viewer.layers.selection.active
        layer = self._viewer.add_image(data, **{**keywords, **_OURS[part]})
        layer.colorbar.visible = True
        self._limits[part] = keywords["contrast_limits"]
        if active is not None and active in self._viewer.layers:
            self._viewer.layers.selection.active = active

    def _change(self, part: str, layer: Any, data: Any, keywords: dict[str, Any]) -> None:
        told, new = layer.metadata[KEY], keywords["metadata"][KEY]
        layer.data = data
        if told.get("unit") != new.get("unit"):
            layer.name = keywords["name"]
        limits = keywords["contrast_limits"]
        if np.allclose(layer.contrast_limits, self._limits.get(part, limits)):
            if not np.allclose(layer.contrast_limits, limits):
                layer.contrast_limits_range = limits
                layer.contrast_limits = limits
        elif (shift := _shift(told, new)) != 0:  # another unit: the user's own limits go with it
            own = tuple(limit + shift for limit in layer.contrast_limits)
            layer.contrast_limits_range = (min(own[0], limits[0]), max(own[1], limits[1]))
            layer.contrast_limits = own
        self._limits[part] = limits
        layer.metadata[KEY] = new


def _fits(layer: Any, data: Any, keywords: dict[str, Any]) -> bool:
    """Whether a layer can take other data: the same grid in the same place."""
    return layer.data.shape == data.shape and np.allclose(layer.affine.affine_matrix, keywords["affine"])


def _shift(told: dict[str, Any], new: dict[str, Any]) -> float:
    """By how much the logarithm moves from one unit to another."""
    return float(np.log10(new.get("factor", 1.0) / told.get("factor", 1.0)))
