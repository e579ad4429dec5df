"""Results of a whole stack as layers; another run that gives the same kind of map takes its place."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.speckle.gui.layers import AXES, COLORMAP, PANEL, RESULT, limits_of, set_limits, title_of
from napari_gpubio.speckle.gui.request import FitResult, Request, StackResult
from napari_gpubio.speckle.mesi.model import MesiRecipe
from napari_gpubio.speckle.model import EDGE, NAMES

Array = npt.NDArray[Any]
CONTRAST, INDEX, MASK = "contrast", "index", "mask"
_FIT_RANGE = (5.0, 95.0)  # percent of the values between the limits: some pixels of noisy contrast fit to anything


class FitMap(NamedTuple):
    """One map of a multi-exposure fit: its part of the result, short name, unit, and limits where they are known."""

    part: str
    title: str
    unit: str = ""
    limits: tuple[float, float] | None = None


FIT_MAPS = (
    FitMap("ict", "MESI 1/τ", "1/s"),
    FitMap("tau_ms", "MESI τ", "ms"),
    FitMap("rho", "MESI ρ, moving fraction", limits=(0.0, 1.0)),
    FitMap("noise", "MESI ν, noise term of K²"),
    FitMap("beta", "MESI β", limits=(0.0, 1.0)),
    FitMap("residual", "MESI residual of K"),
)
_FREE = {"rho": "fit_rho", "noise": "fit_noise", "beta": "fit_beta"}  # maps that exist only where they are fitted


def fitted_maps(mesi: MesiRecipe) -> list[FitMap]:
    """Return the maps that a fit gives."""
    return [one for one in FIT_MAPS if one.part not in _FREE or getattr(mesi.settings, _FREE[one.part])]


def hide_earlier(viewer: Any, source: str) -> None:
    """Hide what an earlier run made of the same stack: it would lie over or under what is made now."""
    for layer in viewer.layers:
        if carried(layer, "source") == source and carried(layer, PANEL) == RESULT and carried(layer, "part") != MASK:
            layer.visible = False


def add_maps(viewer: Any, result: StackResult) -> Any:
    """Add or update the layers of contrast maps; returns that of the chosen map."""
    settings, request = result.request.recipe.settings, result.request
    more = {"exposure_ms": settings.exposure_ms, **_provenance(result, result.maps.parameters)}
    if settings.index == "relative":
        more["baseline_frames"] = request.baseline_frames
    if result.maps.mask is not None:
        _add_mask(viewer, request, result.maps.mask, more)
    kind = dataclasses.replace(settings, index="none")
    metadata = {"part": CONTRAST, "title": title_of(kind), "unit": kind.unit, **more}
    chosen = _add_map(viewer, request, result.maps.contrast, metadata, is_visible=settings.index == "none")
    if result.maps.index is not None:
        metadata = {"part": INDEX, "title": title_of(settings), "unit": settings.unit, **more}
        chosen = _add_map(viewer, request, result.maps.index, metadata, is_visible=True)
    return chosen


def add_fit(viewer: Any, result: FitResult) -> Any:
    """Add or update the layers of a multi-exposure fit that has begun; returns the first of them."""
    mesi, chosen = result.request.recipe.mesi, None
    assert mesi is not None
    more = {"exposures_ms": list(mesi.exposures_ms), "order": mesi.order, **_provenance(result, result.fit.parameters)}
    for one in reversed(fitted_maps(mesi)):
        title = f"{one.title} ({one.unit})" if one.unit else one.title
        values = np.asarray(getattr(result.fit, one.part))
        metadata = {"part": f"mesi {one.part}", "title": title, "unit": one.unit, **more}
        limits = one.limits or limits_of(values, _FIT_RANGE)
        is_first = one is FIT_MAPS[0]
        chosen = _add_map(viewer, result.request, values, metadata, limits=limits, is_visible=is_first)
    return chosen


def _add_map(
    viewer: Any,
    request: Request,
    data: Array,
    metadata: dict[str, Any],
    *,
    is_visible: bool,
    limits: tuple[float, float] | None = None,
) -> Any:
    """Add one map (Y, X) or (T, Y, X), or update the layer of the same kind; limits are those of a new layer."""
    metadata = {PANEL: RESULT, "source": request.name, **metadata}
    limits = limits or limits_of(data)
    if (layer := _updated(viewer, request, metadata, data)) is not None:
        layer.visible = is_visible
        low, high = layer.contrast_limits
        if limits[1] < low or limits[0] > high:  # all of the new values lie beyond those of before
            set_limits(layer, limits)
        return layer
    return viewer.add_image(
        data, name=f"{metadata['title']} of {request.name}", colormap=COLORMAP, contrast_limits=limits,
        metadata={KEY: metadata}, visible=is_visible, axis_labels=AXES[-data.ndim :], **_place(request, data.ndim),
    )  # fmt: skip


def _add_mask(viewer: Any, request: Request, mask: Array, more: dict[str, Any]) -> None:
    """Show where contrast does not mean flow, beyond the border, which is empty in the maps anyway."""
    data = mask & np.uint8(0xFF ^ EDGE)
    metadata = {PANEL: RESULT, "part": MASK, "title": MASK, "source": request.name, "bits": NAMES, **more}
    if _updated(viewer, request, metadata, data) is None and data.any():
        viewer.add_labels(
            data, name=f"not valid in {request.name}", metadata={KEY: metadata}, visible=False,
            axis_labels=AXES[-data.ndim :], **_place(request, data.ndim),
        )  # fmt: skip


def _updated(viewer: Any, request: Request, metadata: dict[str, Any], data: Array) -> Any | None:
    """Update the layer of the same kind of map of the same stack, which may have been calibrated since, or None."""
    keys = (PANEL, "part", "title", "source")
    for layer in reversed(viewer.layers):
        if all(carried(layer, key) == metadata[key] for key in keys) and layer.data.shape == data.shape:
            layer.data, layer.metadata[KEY] = data, metadata
            for name, value in _place(request, data.ndim).items():
                if not np.array_equal(getattr(layer, name), value):
                    setattr(layer, name, value)
            return layer
    return None


def _provenance(result: StackResult | FitResult, parameters: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"parameters": dict(parameters)}
    if result.registered is not None:
        facts["shifts_pixels"] = result.registered.shifts.tolist()
    if result.request.recipe.dark:
        facts["dark_frames"] = result.request.recipe.dark
    return facts


def _place(request: Request, ndim: int) -> dict[str, Any]:
    """Return where maps lie: each at the last frame of its window, a single map at all frames of its stack."""
    s, place = request.recipe.settings, request.place
    scale, translate = list(place["scale"]), list(place["translate"])
    if ndim == 3:
        translate[0] += scale[0] * (s.depth - 1)
        scale[0] *= s.step
    return {"scale": scale[-ndim:], "translate": translate[-ndim:], "units": place["units"][-ndim:]}
