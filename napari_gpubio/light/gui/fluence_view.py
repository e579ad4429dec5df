"""The layers of the picture: fluence, and its relative error if wanted; changed in place while a run goes on."""

from collections.abc import Callable
from typing import Any

import numpy as np
from napari.utils.colormaps import Colormap, ensure_colormap

from napari_gpubio.core.napari_io import KEY, LayerData, carried
from napari_gpubio.light.gui.request import Picture

KEPT = "kept"  # a layer that was the panel's and is the user's
_FADE = 0.35  # share of the colors, from the dark end, over which they fade into the labels below


def fading(name: str) -> Colormap:
    """Return a colormap whose dark end is transparent, so that weak light lets the anatomy be seen."""
    places = np.linspace(0.0, 1.0, 64)
    colors = ensure_colormap(name).map(places)
    colors[:, 3] = np.clip(places / _FADE, 0.0, 1.0)
    return Colormap(colors, name=f"{name}, fading", controls=places)


_OURS: dict[str, dict[str, Any]] = {
    "fluence": {"blending": "translucent_no_depth", "opacity": 0.85, "colormap": fading("inferno")},
    "error": {"blending": "translucent_no_depth", "opacity": 0.7},
}


class FluenceView:
    """Shows pictures in the panel's own layers; what the user set on a layer (colors, limits, opacity) stays.

    Parameters
    ----------
    viewer
        The napari viewer.
    show_legend
        Called with the fluence layer (or None) and the time gate on screen whenever they may be others.
    """

    def __init__(self, viewer: Any, show_legend: Callable[[Any, str], None]) -> None:
        self._viewer, self._show_legend = viewer, show_legend
        self._limits: dict[str, tuple[float, float]] = {}  # as they were set here last
        self._aside = False
        self.picture: Picture | None = None

    def show(self, picture: Picture) -> bool:
        """Show a picture in place of the last one; returns whether a new layer had to be made."""
        is_new = self._show("fluence", picture.fluence)
        if picture.error is not None:
            is_new |= self._show("error", picture.error)
        elif (layer := self.layer("error")) is not None:
            self._viewer.layers.remove(layer.name)
        if self._aside and (self.picture is None or picture.result is not self.picture.result):
            self._aside, self.layer().visible = False, True
        self.picture = picture  # at the end: a layer that is replaced counts as removed by the user
        self._tell()
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
                layer.metadata[KEY]["panel"] = KEPT
                layer.colorbar.visible = False  # that of the next one takes its place
                names.append(layer.name)
        self.picture = None
        self._tell()
        return names[0] if names else ""

    def set_aside(self) -> None:
        """Hide the fluence, until there is another one, so that what is drawn over it can be seen."""
        layer = self.layer()
        if layer is not None and layer.visible:
            layer.visible, self._aside = False, True

    def adopt(self, layer: Any) -> None:
        """Take a fluence layer that came from a file as the panel's own; one that is there stays with the user."""
        self.keep()
        layer.metadata[KEY]["panel"] = "fluence"
        for name, value in _OURS["fluence"].items():
            setattr(layer, name, value)
        layer.colorbar.visible = True
        self._limits["fluence"] = tuple(layer.contrast_limits)

    def attach(self) -> None:
        """Follow the time gate on screen, and layers that the user removes."""
        self._viewer.dims.events.point.connect(self._tell)
        self._viewer.layers.events.removed.connect(self._on_removed)
        self._tell()

    def detach(self) -> None:
        """Hear no more of the viewer, and hold none of its layers."""
        self._viewer.dims.events.point.disconnect(self._tell)
        self._viewer.layers.events.removed.disconnect(self._on_removed)
        self._show_legend(None, "")

    # -- the inside -----------------------------------------------------------------------------------------------

    def _show(self, part: str, made: LayerData) -> bool:
        data, keywords, _ = made
        keywords["metadata"][KEY]["panel"] = part
        layer = self.layer(part)
        if layer is not None and not _same_place(layer, data, keywords):
            self.keep()  # it is of other labels, and stays with the user
            layer = None
        elif layer is not None and layer.data.shape != data.shape:  # other time gates
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

    def _on_removed(self, *_: Any) -> None:
        """Forget the picture if the user removed its layer: the next run shows it again."""
        if self.layer() is None:
            self.picture = None
        self._tell()

    def _tell(self, *_: Any) -> None:
        self._show_legend(self.layer(), self._gate())

    def _gate(self) -> str:
        """The time gate on screen, or an empty text."""
        if self.picture is None or self.picture.result.settings.gate_count == 1 or self._viewer.dims.ndim < 4:
            return ""
        edges = self.picture.result.settings.time_gates_ns
        index = int(np.clip(round(self._viewer.dims.point[-4]), 0, len(edges) - 2))
        return f"{edges[index]:g} to {edges[index + 1]:g} ns"


def _same_place(layer: Any, data: Any, keywords: dict[str, Any]) -> bool:
    """Whether a layer lies on the same grid as other data; time gates do not count."""
    own, new = layer.affine.affine_matrix, np.asarray(keywords["affine"])
    return layer.data.shape[-3:] == data.shape[-3:] and np.allclose(own[-4:, -4:], new[-4:, -4:])


def _shift(told: dict[str, Any], new: dict[str, Any]) -> float:
    """By how much the logarithm moves from one unit to another."""
    return float(np.log10(new.get("factor", 1.0) / told.get("factor", 1.0)))
