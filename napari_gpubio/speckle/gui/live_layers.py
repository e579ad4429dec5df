"""The layers of the live view: the map, and hidden behind it the raw frame. They are kept over starts and stops."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.speckle.gui.places import Place, fitting, lie_alike, move_to
from napari_gpubio.speckle.gui.recipe import LiveMap
from napari_gpubio.speckle.gui.words import LIVE_MAP, LIVE_RAW, PANEL, REGIONS, RESULT, title_of
from napari_gpubio.speckle.settings import ContrastSettings

Array = npt.NDArray[Any]
COLORMAP = "inferno"
_RANGE = (1.0, 99.0)  # percent of the values, between the limits
_MOST_LOOKED_AT = 200_000  # pixels, for the limits
_FITTED = (LIVE_MAP, LIVE_RAW, REGIONS)  # parts that go along with the units of others


class LiveLayers:
    """Shows live maps.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self._told: Place = {}
        self._is_moved = False  # since the last map

    @property
    def map(self) -> Any | None:
        """The layer of the map, or None."""
        return made(self._viewer, LIVE_MAP)

    @property
    def lies(self) -> Any:
        """What has the scale and translation of live maps: the layer of the map, or what it will have."""
        return self.map or SimpleNamespace(**self._place())

    def attach(self) -> None:
        """Follow the other layers, whose units live maps go along with."""
        for event in self._events():
            event.connect(self._fit)

    def detach(self) -> None:
        """Hear no more of the viewer."""
        for event in self._events():
            event.disconnect(self._fit)

    def place_at(self, told: Place) -> None:
        """Say where live maps lie, as far as their source knows it; those that are there are moved.

        Parameters
        ----------
        told
            Scale, translation, units of (y, x).
        """
        self._told = told
        self._fit()

    def show(self, live: LiveMap) -> bool:
        """Show a map, which is copied; returns whether its layer is new, or of another size, or lies elsewhere."""
        raw, layer = made(self._viewer, LIVE_RAW), self.map
        if raw is None:
            self._add(live.raw.copy(), LIVE_RAW, "live raw frame", "gray", visible=False)
        elif raw.visible:
            put(raw, live.raw)
        if layer is None:
            layer = self._add(live.shown.copy(), LIVE_MAP, "", COLORMAP)
            self._tell(layer, live.settings)
            return True
        is_resized, is_moved = layer.data.shape != live.shown.shape, self._is_moved
        self._is_moved = False
        put(layer, live.shown)
        if is_resized:
            set_limits(layer, limits_of(live.shown))
        if carried(layer, "settings") is not live.settings:
            self._tell(layer, live.settings)
        return is_resized or is_moved

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

    def _add(self, data: Array, part: str, name: str, colormap: str, **more: Any) -> Any:
        return self._viewer.add_image(
            data, name=name, colormap=colormap, contrast_limits=limits_of(data), metadata={KEY: {PANEL: part}},
            **self._place(), **more,
        )  # fmt: skip

    def _place(self) -> dict[str, Any]:
        return fitting(self._told, [layer for layer in self._viewer.layers if carried(layer, PANEL) not in _FITTED])

    def _fit(self, *_: Any) -> None:
        """Move live maps to where they belong now, and with them the regions that were drawn over them."""
        shown = self.map
        if shown is None:
            return
        place = self._place()
        for layer in self._viewer.layers:
            part = carried(layer, PANEL)
            if part == LIVE_RAW or (part == REGIONS and lie_alike(layer, shown)):
                move_to(layer, place)
        self._is_moved |= move_to(shown, place)

    def _events(self) -> tuple[Any, ...]:
        events = self._viewer.layers.events
        return events.inserted, events.removed

    def _tell(self, layer: Any, settings: ContrastSettings) -> None:
        """Say in the layer how its map is made; another quantity has limits of its own."""
        title = f"live {title_of(settings)}"
        is_other = carried(layer, "title") != title
        layer.metadata[KEY] = {
            PANEL: LIVE_MAP, "title": title, "unit": settings.unit, "settings": settings,
            "exposure_ms": settings.exposure_ms, "parameters": {"speckle": dataclasses.asdict(settings)},
        }  # fmt: skip
        if is_other:  # last, because who hears of the name reads the rest
            layer.name = title
            set_limits(layer, limits_of(layer.data))


def made(viewer: Any, part: str) -> Any | None:
    """Return the newest layer that the panel made for a purpose, or None."""
    return next((layer for layer in reversed(viewer.layers) if carried(layer, PANEL) == part), None)


def put(layer: Any, values: Array) -> None:
    """Show other values in a layer, in its own memory: a new array would cost several times as much.

    What napari has of a layer of two axes for the screen is a view of this memory. It is therefore not sliced again,
    which `refresh` would do at the same price as everything else here; only the upload is asked for.
    """
    data = layer.data
    if data.shape == values.shape and data.dtype == values.dtype:
        np.copyto(data, values)
        if layer.visible:  # napari slices a hidden layer when it is shown again
            layer.events.set_data()
    else:
        layer.data = values.copy()


def limits_of(values: Any, percent: tuple[float, float] = _RANGE) -> tuple[float, float]:
    """Return limits that nearly all finite values lie within, those between two percentages of them."""
    flat = np.asarray(values).reshape(-1)
    flat = flat[:: max(1, flat.size // _MOST_LOOKED_AT)]
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return 0.0, 1.0
    low, high = (float(value) for value in np.percentile(flat, percent))
    return (low, high) if high > low else (low, low + max(abs(low), 1.0))


def set_limits(layer: Any, limits: tuple[float, float]) -> None:
    """Show the values between these limits; the sliders' range grows with them."""
    low, high = layer.contrast_limits_range
    layer.contrast_limits_range = (min(low, limits[0]), max(high, limits[1]))
    layer.contrast_limits = limits
