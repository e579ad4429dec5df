"""Layers of the panel: their roles, where they lie, and those of the live view."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image

from napari_gpubio.core.napari_io import FOLLOWS, KEY, carried, is_length, own_units
from napari_gpubio.core.settings import plain_fields
from napari_gpubio.gui.layers import set_visible, why_not_array
from napari_gpubio.speckle.gui.live import LiveMap
from napari_gpubio.speckle.settings import (
    ContrastSettings,
    FlowIndex,
    Inverse,
    InverseCorrelationTime,
    NoIndex,
    RelativeFlow,
    Squared,
)

Array = npt.NDArray[Any]
Place = Mapping[str, Any]  # scale, translation and units of (y, x), as far as they are known
PANEL = "panel"  # the metadata key for the role of a layer that the panel made
LIVE_MAP, LIVE_RAW, RESULT, REGIONS = "speckle live map", "speckle live raw", "speckle map", "speckle regions"
MAPS = (LIVE_MAP, RESULT)
AXES = ("frame", "y", "x")
COLORMAP = "inferno"
_SHORT = {
    FlowIndex: "SFI",
    RelativeFlow: "relative flow",
    InverseCorrelationTime: "1/τ",
    NoIndex: "K",
    Squared: "K²",
    Inverse: "1/K²",
}
_LIMIT_PERCENTS = (1.0, 99.0)
_MAX_SAMPLED_PIXELS = 200_000
_UNKNOWN_PLACE: Place = {"scale": (1.0, 1.0), "translate": (0.0, 0.0), "units": ("pixel", "pixel")}


def title_of(settings: ContrastSettings) -> str:
    """Return the short name of the map that is made, with its unit."""
    return _SHORT[type(settings.index)] + (f" ({settings.unit})" if settings.unit else "")


def frames_of(layer: Any) -> Any:
    """Return the frames of an image layer, as they are: NumPy, dask or whatever it holds."""
    return layer.data[0] if layer.multiscale else layer.data


def is_raw_stack(layer: Any) -> bool:
    """Whether a layer may hold raw frames: an image that is neither in colors nor a map, a truth or a result."""
    ours = carried(layer, PANEL) is not None or carried(layer, "quantity") is not None
    return isinstance(layer, Image) and layer.ndim >= 2 and not (layer.rgb or ours)


def why_no_frames(layer: Any) -> str | None:
    """Why a layer cannot hold raw frames."""
    if is_raw_stack(layer) or not isinstance(layer, Image):
        return None if isinstance(layer, Image) else ""
    return why_not_array(layer, Image, ()) if layer.rgb else "not raw frames"


def may_be_frames(layer: Any) -> bool:
    """Whether a layer may be taken as frames unasked: no volume in mm, such as a scan of a head."""
    return layer.ndim < len(AXES) or carried(layer, "affine") is None


def is_map(layer: Any) -> bool:
    """Whether a layer is a map that the panel made."""
    return isinstance(layer, Image) and carried(layer, PANEL) in MAPS


def find_layer(viewer: Any, role: str) -> Any | None:
    """Return the newest layer that the panel made for a role, or None."""
    return next((layer for layer in reversed(viewer.layers) if carried(layer, PANEL) == role), None)


# -- values and limits ------------------------------------------------------------------------------------------------


def update_data(layer: Any, values: Array) -> None:
    """Copy other values into a layer's own memory: a new array would cost several times as much.

    What napari has of a layer of two axes for the screen is a view of this memory. It is therefore not sliced again,
    which `refresh` would do at the same price as everything else here; only the upload is requested.
    """
    data = layer.data
    if data.shape == values.shape and data.dtype == values.dtype:
        np.copyto(data, values)
        if layer.visible:  # napari slices a hidden layer when it is shown again
            layer.events.set_data()
    else:
        layer.data = values.copy()


def limits_of(values: Any, percent: tuple[float, float] = _LIMIT_PERCENTS) -> tuple[float, float]:
    """Return two percentiles of the finite values as contrast limits."""
    flat = np.asarray(values).reshape(-1)
    flat = flat[:: max(1, flat.size // _MAX_SAMPLED_PIXELS)]
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return 0.0, 1.0
    low, high = (float(value) for value in np.percentile(flat, percent))
    return (low, high) if high > low else (low, low + max(abs(low), 1.0))


def set_limits(layer: Any, limits: tuple[float, float]) -> None:
    """Set the contrast limits; the range of napari's slider grows with them."""
    low, high = layer.contrast_limits_range
    layer.contrast_limits_range = (min(low, limits[0]), max(high, limits[1]))
    layer.contrast_limits = limits


# -- places -----------------------------------------------------------------------------------------------------------


def place_of(layer: Any) -> dict[str, Any]:
    """Return scale, translation and units of a layer's last two axes."""
    return {name: values[-2:] for name, values in whole_place_of(layer).items()}


def whole_place_of(layer: Any) -> dict[str, Any]:
    """Return scale, translation and units of a layer."""
    return {"scale": tuple(layer.scale), "translate": tuple(layer.translate), "units": own_units(layer)}


def pixel_note(layer: Any) -> str:
    """Return what frames without a pixel size are taken as, or an empty text."""
    known = all(map(is_length, place_of(layer)["units"]))
    return "" if known else f"{layer.name} has no pixel size; maps and regions are in pixels"


def move_to(layer: Any, place: Place) -> bool:
    """Move a layer to a place; returns whether it was elsewhere."""
    now = place_of(layer)
    is_moved = not _is_same_place(now, place)
    if is_moved:
        layer.scale, layer.translate = place["scale"], place["translate"]
    if _unit_names(now["units"]) != _unit_names(place["units"]):
        layer.units = place["units"]
    return is_moved


def _is_same_place(one: Place, other: Place) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in ("scale", "translate"))


def _unit_names(units: Any) -> tuple[str, ...]:
    return tuple({"um": "micrometer"}.get(str(unit), str(unit)) for unit in units)


# -- the live view ----------------------------------------------------------------------------------------------------


class LiveLayers:
    """The layers of the live view: the map, and hidden behind it the raw frame. They are kept over starts and stops."""

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self._known: Place = {}
        self._is_moved = False  # since the last map

    @property
    def map(self) -> Any | None:
        """The layer of the map, or None."""
        return find_layer(self._viewer, LIVE_MAP)

    @property
    def geometry(self) -> Any:
        """What has the scale and translation of live maps: the layer of the map, or what it will have."""
        return self.map or SimpleNamespace(**self._place())

    def set_place(self, known: Place) -> None:
        """Set where live maps lie, as far as their source knows it; existing layers are moved."""
        self._known = known
        self._move()

    def show_map(self, live: LiveMap) -> bool:
        """Show a map, which is copied; returns whether its layer is new, or of another size, or lies elsewhere."""
        raw, layer = find_layer(self._viewer, LIVE_RAW), self.map
        if raw is None:
            self._add(live.raw.copy(), LIVE_RAW, "live raw frame", "gray", visible=False)
        elif raw.visible:
            update_data(raw, live.raw)
        if layer is None:
            layer = self._add(live.shown.copy(), LIVE_MAP, "", COLORMAP)
            self._describe(layer, live.settings)
            return True
        is_resized, is_moved = layer.data.shape != live.shown.shape, self._is_moved
        self._is_moved = False
        update_data(layer, live.shown)
        if is_resized:
            set_limits(layer, limits_of(live.shown))
        if carried(layer, "settings") is not live.settings:
            self._describe(layer, live.settings)
        return is_resized or is_moved

    def show_last_frame(self, live: LiveMap) -> None:
        """Put the last frame into the raw layer too, which was not updated while it was hidden."""
        if (raw := find_layer(self._viewer, LIVE_RAW)) is not None:
            update_data(raw, live.raw)

    def show_instead_of_results(self) -> None:
        """Show the live map and hide the maps of stacks."""
        for layer in self._viewer.layers:
            if carried(layer, PANEL) == RESULT:
                set_visible(layer, False)
        if self.map is not None:
            set_visible(self.map, True)

    def hide_map(self) -> None:
        """Hide the live map, which lies where maps of a stack are to be seen."""
        if self.map is not None:
            set_visible(self.map, False)

    def _add(self, data: Array, role: str, name: str, colormap: str, **more: Any) -> Any:
        return self._viewer.add_image(
            data, name=name, colormap=colormap, contrast_limits=limits_of(data),
            metadata={KEY: {PANEL: role, FOLLOWS: True}}, axis_labels=AXES[-data.ndim :], **self._place(), **more,
        )  # fmt: skip

    def _place(self) -> dict[str, Any]:
        return {**_UNKNOWN_PLACE, **self._known}

    def _move(self) -> None:
        """Move live maps to where they belong now, and with them the regions that were drawn over them."""
        shown = self.map
        if shown is None:
            return
        place = self._place()
        for layer in self._viewer.layers:
            role = carried(layer, PANEL)
            if role == LIVE_RAW or (role == REGIONS and _is_same_place(place_of(layer), place_of(shown))):
                move_to(layer, place)
        self._is_moved |= move_to(shown, place)

    def _describe(self, layer: Any, settings: ContrastSettings) -> None:
        """Write into the layer how its map is made; another quantity gets limits of its own."""
        title = f"live {title_of(settings)}"
        is_other = carried(layer, "title") != title
        layer.metadata[KEY] = {
            PANEL: LIVE_MAP, FOLLOWS: True, "title": title, "unit": settings.unit, "settings": settings,
            "parameters": {"speckle": plain_fields(settings)},
        }  # fmt: skip
        if is_other:  # last, because listeners to the name read the rest
            layer.name = title
            set_limits(layer, limits_of(layer.data))
