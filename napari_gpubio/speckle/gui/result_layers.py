"""The maps of a whole stack as layers; another run that gives the same kind of map takes its place."""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.speckle.gui.live_layers import COLORMAP, limits_of, set_limits
from napari_gpubio.speckle.gui.offline import Done, Request
from napari_gpubio.speckle.gui.words import PANEL, RESULT, title_of
from napari_gpubio.speckle.model import EDGE, NAMES

Array = npt.NDArray[Any]
CONTRAST, INDEX, MASK = "contrast", "index", "mask"


def show(viewer: Any, done: Done) -> Any:
    """Show the maps of contrast; returns the layer of the chosen one."""
    settings = done.request.recipe.settings
    contrast_only = settings.index == "none"
    if done.maps.mask is not None:
        _show_mask(viewer, done)
    kind = dataclasses.replace(settings, index="none")
    told = {"part": CONTRAST, "title": title_of(kind), "unit": kind.unit, **_told(done)}
    chosen = show_map(viewer, done.request, done.maps.contrast, told, is_visible=contrast_only)
    if done.maps.index is not None and not contrast_only:
        told = {"part": INDEX, "title": title_of(settings), "unit": settings.unit, **_told(done)}
        chosen = show_map(viewer, done.request, done.maps.index, told, is_visible=True)
    return chosen


def step_back(viewer: Any, source: str) -> None:
    """Hide what an earlier run made of the same stack: it would lie over or under what is made now."""
    for layer in viewer.layers:
        if carried(layer, "source") == source and carried(layer, PANEL) == RESULT and carried(layer, "part") != MASK:
            layer.visible = False


def show_map(
    viewer: Any,
    request: Request,
    data: Array,
    told: dict[str, Any],
    *,
    is_visible: bool,
    limits: tuple[float, float] | None = None,
) -> Any:
    """Show one map, with the limits of its values where none are given; returns its layer.

    Parameters
    ----------
    viewer
        The napari viewer.
    request
        What was run.
    data
        The map (Y, X), or maps (T, Y, X).
    told
        What the layer carries: part, title, unit and more.
    is_visible
        Whether it is on screen at once.
    limits
        Of a new layer.
    """
    told = {PANEL: RESULT, "source": request.name, **told}
    layer = _same(viewer, told, data)
    if layer is not None:
        layer.data, layer.metadata[KEY], layer.visible = data, told, is_visible
        _move_within(layer, limits or limits_of(data))
        _lay(layer, _place(request, data.ndim))
        return layer
    return viewer.add_image(
        data, name=f"{told['title']} of {request.name}", colormap=COLORMAP, contrast_limits=limits or limits_of(data),
        metadata={KEY: told}, visible=is_visible, **_place(request, data.ndim),
    )  # fmt: skip


def _lay(layer: Any, place: dict[str, Any]) -> None:
    """Put a layer where its stack lies now, which may have been calibrated since."""
    for name, value in place.items():
        if not np.array_equal(getattr(layer, name), value):
            setattr(layer, name, value)


def _move_within(layer: Any, limits: tuple[float, float]) -> None:
    """Keep the limits that a map of the same kind had, unless all of the new values lie beyond them."""
    low, high = layer.contrast_limits
    if limits[1] < low or limits[0] > high:
        set_limits(layer, limits)


def _show_mask(viewer: Any, done: Done) -> None:
    """Where contrast does not mean flow, beyond the border, which is empty in the maps anyway."""
    data = done.maps.mask & np.uint8(0xFF ^ EDGE)
    name = done.request.name
    told = {PANEL: RESULT, "part": MASK, "title": MASK, "source": name, "bits": NAMES, **_told(done)}
    layer = _same(viewer, told, data)
    if layer is not None:
        layer.data, layer.metadata[KEY] = data, told
        _lay(layer, _place(done.request, data.ndim))
    elif data.any():
        viewer.add_labels(
            data, name=f"not valid in {name}", metadata={KEY: told}, visible=False, **_place(done.request, data.ndim)
        )


def _same(viewer: Any, told: dict[str, Any], data: Array) -> Any | None:
    """The layer of the same kind of map of the same stack, or None."""
    keys = (PANEL, "part", "title", "source")
    for layer in reversed(viewer.layers):
        if all(carried(layer, key) == told[key] for key in keys) and layer.data.shape == data.shape:
            return layer
    return None


def _told(done: Done) -> dict[str, Any]:
    recipe = done.request.recipe
    told = {"exposure_ms": recipe.settings.exposure_ms, "parameters": dict(done.maps.parameters)}
    if done.registered is not None:
        told["shifts_pixels"] = done.registered.shifts.tolist()
    if recipe.settings.index == "relative":
        told["baseline_frames"] = done.request.baseline_frames
    if recipe.dark:
        told["dark_frames"] = recipe.dark
    return told


def _place(request: Request, ndim: int) -> dict[str, Any]:
    """Where maps lie: each at the last frame of its window; a single map of a stack lies at all of its frames."""
    s, place = request.recipe.settings, request.place
    scale, translate = list(place["scale"]), list(place["translate"])
    if ndim == 3:
        translate[0] += scale[0] * (s.depth - 1)
        scale[0] *= s.step
    return {"scale": scale[-ndim:], "translate": translate[-ndim:], "units": place["units"][-ndim:]}
