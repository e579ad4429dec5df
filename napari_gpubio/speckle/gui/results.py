"""Results of a whole stack as layers; another run that gives the same kind of map takes its place."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.speckle.gui.layers import AXES, COLORMAP, PANEL, RESULT, limits_of, set_limits, title_of
from napari_gpubio.speckle.gui.request import FitResult, Recipe, Request, StackResult
from napari_gpubio.speckle.mesi.files import UNITS
from napari_gpubio.speckle.mesi.result import NAMES as FIT_NAMES
from napari_gpubio.speckle.model import EDGE, NAMES

Array = npt.NDArray[Any]
CONTRAST, INDEX, MASK = "contrast", "index", "mask"
_FIT_RANGE = (5.0, 95.0)  # percent of the values between the limits: some pixels of noisy contrast fit to anything


class MaskKind(NamedTuple):
    """A mask: its part of the result, the begin of the layer's name, and the names of its bits."""

    part: str
    title: str
    bits: Mapping[int, str]


CONTRAST_MASK = MaskKind(MASK, "not valid", NAMES)
FIT_MASK = MaskKind("mesi mask", "poorly determined", FIT_NAMES)
_MASKS = (CONTRAST_MASK.part, FIT_MASK.part)


class FitMap(NamedTuple):
    """One map of a multi-exposure fit: its part of the result, short name, and limits where they are known.

    ``error_of`` is the part whose standard error it is.
    """

    part: str
    title: str
    limits: tuple[float, float] | None = None
    error_of: str = ""

    @property
    def unit(self) -> str:
        """Unit of the values."""
        return UNITS[self.part]


FIT_MAPS = (
    FitMap("ict", "MESI 1/τ"),
    FitMap("tau_ms", "MESI τ"),
    FitMap("rho", "MESI ρ, moving fraction", limits=(0.0, 1.0)),
    FitMap("noise", "MESI ν, noise term of K²"),
    FitMap("beta", "MESI β", limits=(0.0, 1.0)),
    FitMap("residual", "MESI residual of K"),
    FitMap("ict_error", "MESI standard error of 1/τ", error_of="ict"),
    FitMap("tau_error_ms", "MESI standard error of τ", error_of="tau_ms"),
    FitMap("rho_error", "MESI standard error of ρ", error_of="rho"),
    FitMap("noise_error", "MESI standard error of ν", error_of="noise"),
    FitMap("beta_error", "MESI standard error of β", error_of="beta"),
)
_FREE = {"rho": "fit_rho", "noise": "fit_noise", "beta": "fit_beta"}  # maps that exist only where they are fitted


def fitted_maps(recipe: Recipe) -> list[FitMap]:
    """Return the maps that a fit gives."""
    assert recipe.mesi is not None
    fixed = {part for part, name in _FREE.items() if not getattr(recipe.mesi.settings, name)}
    if recipe.target is not None:
        fixed.add("beta")
    return [
        one for one in FIT_MAPS if (one.error_of or one.part) not in fixed and (recipe.shows_errors or not one.error_of)
    ]


def hide_earlier(viewer: Any, source: str) -> None:
    """Hide what an earlier run made of the same stack: it would lie over or under what is made now."""
    for layer in viewer.layers:
        if (
            carried(layer, "source") == source
            and carried(layer, PANEL) == RESULT
            and carried(layer, "part") not in _MASKS
        ):
            layer.visible = False


def add_maps(viewer: Any, result: StackResult) -> Any:
    """Add or update the layers of contrast maps; returns that of the chosen map."""
    settings, request = result.request.recipe.settings, result.request
    more = {"exposure_ms": settings.exposure_ms, **_provenance(result, result.maps.parameters)}
    if settings.index == "relative":
        more["baseline_frames"] = request.baseline_frames
    if result.maps.mask is not None:
        beyond_border = result.maps.mask & np.uint8(0xFF ^ EDGE)  # which is empty in the maps anyway
        _add_mask(viewer, request, beyond_border, CONTRAST_MASK, more)
    kind = dataclasses.replace(settings, index="none")
    metadata = {"part": CONTRAST, "title": title_of(kind), "unit": kind.unit, **more}
    chosen = _add_map(viewer, request, result.maps.contrast, metadata, is_visible=settings.index == "none")
    if result.maps.index is not None:
        metadata = {"part": INDEX, "title": title_of(settings), "unit": settings.unit, **more}
        chosen = _add_map(viewer, request, result.maps.index, metadata, is_visible=True)
    return chosen


def add_fit(viewer: Any, result: FitResult) -> Any:
    """Add or update the layers of a multi-exposure fit that has begun; returns the first of them."""
    mesi, chosen = result.mesi, None
    more = {"exposures_ms": list(mesi.exposures_ms), "order": mesi.order, **_provenance(result, result.fit.parameters)}
    more["notes"] = list(result.notes)
    _add_mask(viewer, result.request, result.fit.mask, FIT_MASK, more)
    for one in reversed(fitted_maps(result.request.recipe)):
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


def _add_mask(viewer: Any, request: Request, mask: Array, kind: MaskKind, more: dict[str, Any]) -> None:
    """Show the pixels that have a bit of a mask, hidden at first; no new layer if there are none."""
    metadata = {PANEL: RESULT, "part": kind.part, "title": kind.part, "source": request.name, "bits": kind.bits, **more}
    if _updated(viewer, request, metadata, mask) is None and mask.any():
        viewer.add_labels(
            mask, name=f"{kind.title} in {request.name}", metadata={KEY: metadata}, visible=False,
            axis_labels=AXES[-mask.ndim :], **_place(request, mask.ndim),
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
