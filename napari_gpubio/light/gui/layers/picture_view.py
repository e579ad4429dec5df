"""The layers of the picture: fluence or absorption over r and z, and the borders of the layers, changed in place."""

from collections.abc import Callable
from typing import Any

import numpy as np

from napari_gpubio.core.napari_io import KEY, LayerData, carried
from napari_gpubio.gui.views import camera_of
from napari_gpubio.light.gui.layers.request import Picture
from napari_gpubio.light.layers.napari_io import AXIS_UNITS, border_layers

_LINE_PIXELS = 1.25
_NO_UNITS = ("pixel", "pixel")
_PICTURE = "layered picture"
_BORDERS = {"vectors": "layered borders", "points": "layered names"}


class PictureView:
    """Shows pictures in the panel's own layers; what the user set on a layer (colors, limits) stays.

    Parameters
    ----------
    viewer
        The napari viewer.
    show_legend
        Called with the picture's layer (or None) whenever it may be another.
    """

    def __init__(self, viewer: Any, show_legend: Callable[[Any], None]) -> None:
        self._viewer, self._show_legend = viewer, show_legend
        self._limits: tuple[float, float] = (0.0, 1.0)  # as they were set here last
        self._bordered: tuple[Any, ...] | None = None  # what the borders were drawn of
        self.picture: Picture | None = None

    def show(self, picture: Picture, *, borders: bool) -> None:
        """Show a picture in place of the last one."""
        before = self.layer()
        if picture.layer is None:
            self._remove(_PICTURE)
        else:
            self._show_picture(picture.layer)
        self.picture = picture
        self.show_borders(borders and picture.layer is not None)
        self._show_legend(self.layer())
        if before is not None and self.layer() not in (before, None):
            self._viewer.reset_view()  # it lies elsewhere

    def show_borders(self, wanted: bool) -> None:
        """Draw the borders of the picture's layers, or take them away."""
        if self.picture is None or not wanted:
            for part in _BORDERS.values():
                self._remove(part)
            self._bordered = None
            return
        result = self.picture.result
        wanted_of = (result.medium, result.settings.depth_bins * result.settings.dz_mm, result.settings.dr_mm)
        if wanted_of == self._bordered and all(self.layer(part) is not None for part in _BORDERS.values()):
            return
        self._bordered = wanted_of
        for data, keywords, kind in border_layers(result.medium, result.settings):
            self._remove(_BORDERS[kind])
            self._add(_BORDERS[kind], data, keywords, kind)
        self._on_zoom()

    def layer(self, part: str = _PICTURE) -> Any | None:
        """The picture's layer, or None."""
        return next((layer for layer in self._viewer.layers if carried(layer, "panel") == part), None)

    def keep(self) -> str:
        """Let go of the picture as it is, so that the next run makes a new one; returns its name."""
        layer = self.layer()
        if layer is None:
            return ""
        del layer.metadata[KEY]["panel"]
        layer.colorbar.visible = False  # that of the next one takes its place
        self.picture = None
        self._show_legend(None)
        return str(layer.name)

    def hide(self) -> None:
        """Make room in the view for a volume, whose layers have no units."""
        self._set_units(_NO_UNITS)
        for layer in self._own():
            layer.visible = False

    def attach(self) -> None:
        """Follow layers that come and go, and the zoom."""
        self._viewer.layers.events.inserted.connect(self._on_inserted)
        self._viewer.layers.events.removed.connect(self._on_removed)
        camera_of(self._viewer).events.zoom.connect(self._on_zoom)
        self._show_legend(self.layer())

    def detach(self) -> None:
        """Hear no more of the viewer, and hold none of its layers."""
        self._viewer.layers.events.inserted.disconnect(self._on_inserted)
        self._viewer.layers.events.removed.disconnect(self._on_removed)
        camera_of(self._viewer).events.zoom.disconnect(self._on_zoom)
        self._show_legend(None)

    # -- the inside -----------------------------------------------------------------------------------------------

    def _show_picture(self, made: LayerData) -> None:
        data, keywords, _ = made
        layer = self.layer()
        if layer is not None and not _fits(layer, data, keywords):
            self._remove(_PICTURE)
            layer = None
        if layer is None:
            layer = self._add(_PICTURE, data, keywords, "image")
            layer.colorbar.visible = True
            self._limits = keywords["contrast_limits"]
        else:
            self._change(layer, data, keywords)

    def _add(self, part: str, data: Any, keywords: dict[str, Any], kind: str) -> Any:
        """Add a layer below the other parts, without taking the user's active layer away."""
        keywords.setdefault("metadata", {}).setdefault(KEY, {})["panel"] = part
        keywords["units"] = self._agreed_units()
        active = self._viewer.layers.selection.active
        layer = getattr(self._viewer, f"add_{kind}")(data, **keywords)
        if part == _PICTURE and (lines := self.layer(_BORDERS["vectors"])) is not None:
            self._viewer.layers.move(self._viewer.layers.index(layer), self._viewer.layers.index(lines))
        if part != _PICTURE or (active is not None and active in self._viewer.layers):
            picture = self.layer()
            self._viewer.layers.selection.active = active if active in self._viewer.layers else picture
        return layer

    def _remove(self, part: str) -> None:
        layer = self.layer(part)
        if layer is not None:
            self._viewer.layers.remove(layer.name)

    def _change(self, layer: Any, data: Any, keywords: dict[str, Any]) -> None:
        told, new = layer.metadata[KEY], keywords["metadata"][KEY]
        new["panel"] = _PICTURE
        layer.data = data
        if told["unit"] != new["unit"] or told["quantity"] != new["quantity"]:
            layer.name = keywords["name"]
        limits = keywords["contrast_limits"]
        if told["quantity"] != new["quantity"] or np.allclose(layer.contrast_limits, self._limits):
            _set_limits(layer, limits, limits)
        elif told["factor"] != new["factor"]:  # another unit: the user's own limits go with it
            shift = float(np.log10(new["factor"] / told["factor"]))
            own = tuple(limit + shift for limit in layer.contrast_limits)
            _set_limits(layer, own, (min(own[0], limits[0]), max(own[1], limits[1])))
        self._limits = limits
        layer.metadata[KEY] = new

    def _own(self) -> list[Any]:
        """The layers of the picture that are there."""
        return [layer for part in (_PICTURE, *_BORDERS.values()) if (layer := self.layer(part)) is not None]

    def _agreed_units(self) -> tuple[str, str]:
        """Millimeters, but none beside layers without units, of which napari would complain; the same for all of ours.

        A scale bar is shown as long as it can say millimeters.
        """
        own = self._own()
        others = [layer for layer in self._viewer.layers if layer not in own]
        units = _NO_UNITS if any(str(unit) == "pixel" for layer in others for unit in layer.units) else AXIS_UNITS
        self._set_units(units)
        return units

    def _set_units(self, units: tuple[str, str]) -> None:
        for layer in self._own():
            layer.units = units
        self._viewer.canvas.overlays.scale_bar.visible = units == AXIS_UNITS

    def _on_inserted(self, *_: Any) -> None:
        if self._own():
            self._agreed_units()

    def _on_removed(self, event: Any) -> None:
        """Forget the picture if the user removed its layer: the next run shows it again."""
        if carried(event.value, "panel") == _PICTURE:
            self.picture = None
            self._show_legend(None)

    def _on_zoom(self, *_: Any) -> None:
        """Keep lines equally wide on screen, so that they neither vanish nor hide thin layers."""
        lines = self.layer(_BORDERS["vectors"])
        if lines is not None:
            lines.edge_width = _LINE_PIXELS / camera_of(self._viewer).zoom


def _set_limits(layer: Any, limits: tuple[float, ...], around: tuple[float, ...]) -> None:
    if not np.allclose(layer.contrast_limits, limits):
        layer.contrast_limits_range = around
        layer.contrast_limits = limits


def _fits(layer: Any, data: Any, keywords: dict[str, Any]) -> bool:
    """Whether a layer can take other data: the same grid in the same place."""
    same_place = np.allclose(layer.scale, keywords["scale"]) and np.allclose(layer.translate, keywords["translate"])
    return layer.data.shape == data.shape and same_place
