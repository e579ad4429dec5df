"""The layers of the live view: the map, and hidden behind it the raw frame. They are kept over starts and stops."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.layers import KEY, carried
from napari_gpubio.speckle.settings import ContrastSettings
from napari_gpubio.speckle.widget.recipe import LiveMap
from napari_gpubio.speckle.widget.words import LIVE_MAP, LIVE_RAW, PANEL, RESULT, title_of

Array = npt.NDArray[Any]
COLORMAP = "inferno"
_RANGE = (1.0, 99.0)  # percent of the values, between the limits
_MOST_LOOKED_AT = 200_000  # pixels, for the limits


class LiveLayers:
    """Shows live maps.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer

    @property
    def map(self) -> Any | None:
        """The layer of the map, or None."""
        return made(self._viewer, LIVE_MAP)

    def show(self, live: LiveMap, place: Mapping[str, Any]) -> bool:
        """Show a map; returns whether its layer is new, or of another size.

        Parameters
        ----------
        live
            What to show; it is copied.
        place
            Scale and units of a new layer.
        """
        raw, layer = made(self._viewer, LIVE_RAW), self.map
        if raw is None:
            self._add(live.raw.copy(), LIVE_RAW, "live raw frame", "gray", place, visible=False)
        elif raw.visible:
            put(raw, live.raw)
        if layer is None:
            layer = self._add(live.shown.copy(), LIVE_MAP, "", COLORMAP, place)
            self._tell(layer, live.settings)
            return True
        is_other = layer.data.shape != live.shown.shape
        put(layer, live.shown)
        if is_other:
            set_limits(layer, limits_of(live.shown))
        if carried(layer, "settings") is not live.settings:
            self._tell(layer, live.settings)
        return is_other

    def settle(self, live: LiveMap) -> None:
        """Show the last frame in the raw layer too, where it may be hidden."""
        if (raw := made(self._viewer, LIVE_RAW)) is not None:
            put(raw, live.raw)

    def come_forward(self) -> None:
        """Show the live map instead of those of a stack."""
        for layer in self._viewer.layers:
            if carried(layer, PANEL) == RESULT:
                layer.visible = False
        if self.map is not None:
            self.map.visible = True

    def step_back(self) -> None:
        """Hide the live map, which lies where maps of a stack are to be seen."""
        if self.map is not None:
            self.map.visible = False

    def _add(self, data: Array, part: str, name: str, colormap: str, place: Mapping[str, Any], **more: Any) -> Any:
        return self._viewer.add_image(
            data, name=name, colormap=colormap, contrast_limits=limits_of(data), metadata={KEY: {PANEL: part}},
            **place, **more,
        )  # fmt: skip

    def _tell(self, layer: Any, settings: ContrastSettings) -> None:
        """Say in the layer how its map is made; another quantity has limits of its own."""
        title = f"live {title_of(settings)}"
        if carried(layer, "title") != title:
            layer.name = title
            set_limits(layer, limits_of(layer.data))
        layer.metadata[KEY] = {
            PANEL: LIVE_MAP, "title": title, "unit": settings.unit, "settings": settings,
            "exposure_ms": settings.exposure_ms, "parameters": {"speckle": dataclasses.asdict(settings)},
        }  # fmt: skip


def made(viewer: Any, part: str) -> Any | None:
    """Return the newest layer that the panel made for a purpose, or None."""
    return next((layer for layer in reversed(viewer.layers) if carried(layer, PANEL) == part), None)


def put(layer: Any, values: Array) -> None:
    """Show other values in a layer, in its own memory: a new array would cost several times as much."""
    data = layer.data
    if data.shape == values.shape and data.dtype == values.dtype:
        np.copyto(data, values)
        layer.refresh(thumbnail=False, highlight=False, extent=False)
    else:
        layer.data = values.copy()


def limits_of(values: Any) -> tuple[float, float]:
    """Return limits that nearly all finite values lie within."""
    flat = np.asarray(values).reshape(-1)
    flat = flat[:: max(1, flat.size // _MOST_LOOKED_AT)]
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return 0.0, 1.0
    low, high = (float(value) for value in np.percentile(flat, _RANGE))
    return (low, high) if high > low else (low, low + max(abs(low), 1.0))


def set_limits(layer: Any, limits: tuple[float, float]) -> None:
    """Show the values between these limits; the sliders' range grows with them."""
    low, high = layer.contrast_limits_range
    layer.contrast_limits_range = (min(low, limits[0]), max(high, limits[1]))
    layer.contrast_limits = limits
