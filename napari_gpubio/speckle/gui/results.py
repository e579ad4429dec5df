"""Results of a whole stack as layers; another run that gives the same kind of map takes its place."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY, LayerData, carried
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.records import Output
from napari_gpubio.speckle.gui.layers import AXES, COLORMAP, PANEL, RESULT, limits_of, set_limits, title_of
from napari_gpubio.speckle.gui.run import StackResult, StackRun
from napari_gpubio.speckle.mesi import MesiSettings
from napari_gpubio.speckle.mesi.files import UNITS
from napari_gpubio.speckle.mesi.recording import FrameFit
from napari_gpubio.speckle.mesi.result import NAMES as FIT_NAMES
from napari_gpubio.speckle.mesi.result import MesiResult
from napari_gpubio.speckle.model import EDGE, NAMES
from napari_gpubio.speckle.results import SpeckleMap
from napari_gpubio.speckle.settings import ContrastSettings, NoIndex

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


def fitted_maps(settings: MesiSettings, *, shows_errors: bool) -> list[FitMap]:
    """Return the maps that a fit gives, whose β is as it was measured."""
    fixed = {part for part, name in _FREE.items() if not getattr(settings, name)}
    return [one for one in FIT_MAPS if (one.error_of or one.part) not in fixed and (shows_errors or not one.error_of)]


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
    maps, run, output = result.maps, result.run, result.operation.output
    settings = maps.settings
    if maps.mask is not None:
        beyond_border = maps.mask & np.uint8(0xFF ^ EDGE)  # which is empty in the maps anyway
        _add_mask(viewer, result, beyond_border, CONTRAST_MASK)  # not all of the mask that the operation makes
    metadata = _about_map(settings, output(CONTRAST))
    chosen = _add_map(viewer, run, settings, maps.contrast, metadata, is_visible=not settings.has_index)
    if maps.index is not None:
        metadata = _about_map(settings, output(INDEX))
        chosen = _add_map(viewer, run, settings, maps.index, metadata, is_visible=True)
    return chosen


def add_fit(viewer: Any, result: StackResult, fit: FrameFit) -> Any:
    """Add or update the layers of a multi-exposure fit that has begun; returns the first of them."""
    output, chosen = result.operation.output, None
    _add_mask(viewer, result, fit.fit.mask.copy(), FIT_MASK, output(MASK))  # it may be painted on
    for one in reversed(fitted_maps(fit.recipe.settings, shows_errors=result.run.shows_errors)):
        values = np.asarray(getattr(fit.fit, one.part))
        metadata = _about_fit(one, fit.notes, fit.recipe.exposures_ms, output(one.part))
        limits = one.limits or limits_of(values, _FIT_RANGE)
        is_first = one is FIT_MAPS[0]
        settings = fit.maps.settings
        chosen = _add_map(viewer, result.run, settings, values, metadata, limits=limits, is_visible=is_first)
    return chosen


def layers_of_map(value: SpeckleMap, output: Output[Any], name: str) -> list[LayerData]:
    """Return the layer of one of the maps of an operation under a name; see `napari_gpubio.core.operations.Kind`."""
    made: Any = output.of
    data, source = value.array, made
    while hasattr(source, "recording"):
        source = source.recording.of
    metadata: dict[str, Any] = {PANEL: RESULT, "source": source.title}
    place: dict[str, Any] = {"scale": (1.0,) * 3, "translate": (0.0,) * 3, "units": ("pixel",) * 3}
    is_fit = isinstance(value.of, MesiResult)
    place = _place(place, ContrastSettings() if is_fit else value.of.settings, data.ndim)
    keywords = {"name": name, "metadata": {KEY: metadata}, "axis_labels": AXES[-data.ndim :], **place}
    if value.part == MASK:
        kind = FIT_MASK if is_fit else CONTRAST_MASK
        metadata |= {"part": kind.part, "title": kind.part, "bits": kind.bits, RECORD: record_of_output(output)}
        return [(data.copy(), keywords, "labels")]  # it may be painted on
    if is_fit:
        known = next(one for one in FIT_MAPS if one.part == value.part)
        metadata |= _about_fit(known, value.of.notes, made.recipe.exposures_ms, output)
        limits = known.limits or limits_of(data, _FIT_RANGE)
    else:
        metadata |= _about_map(value.of.settings, output)
        limits = limits_of(data)
    return [(data, {**keywords, "colormap": COLORMAP, "contrast_limits": limits}, "image")]


def _about_map(settings: ContrastSettings, output: Output[Any]) -> dict[str, Any]:
    """What the layer of a map of contrast or of an index carries."""
    kind = dataclasses.replace(settings, index=NoIndex()) if output.name == CONTRAST else settings
    return {"part": output.name, "title": title_of(kind), "unit": kind.unit, RECORD: record_of_output(output)}


def _about_fit(one: FitMap, notes: Sequence[str], exposures_ms: Sequence[float], output: Output[Any]) -> dict[str, Any]:
    """What the layer of a map of a multi-exposure fit carries."""
    return {
        "part": f"mesi {one.part}",
        "title": f"{one.title} ({one.unit})" if one.unit else one.title,
        "unit": one.unit,
        "notes": list(notes),
        "exposures_ms": list(exposures_ms),
        RECORD: record_of_output(output),
    }


def _add_map(
    viewer: Any,
    run: StackRun,
    settings: ContrastSettings,
    data: Array,
    metadata: dict[str, Any],
    *,
    is_visible: bool,
    limits: tuple[float, float] | None = None,
) -> Any:
    """Add one map (Y, X) or (T, Y, X), or update the layer of the same kind; limits are those of a new layer."""
    metadata = {PANEL: RESULT, "source": run.name, **metadata}
    place = _place(run.place, settings, data.ndim)
    limits = limits or limits_of(data)
    if (layer := _updated(viewer, place, metadata, data)) is not None:
        layer.visible = is_visible
        low, high = layer.contrast_limits
        if limits[1] < low or limits[0] > high:  # all of the new values lie beyond those of before
            set_limits(layer, limits)
        return layer
    return viewer.add_image(
        data, name=f"{metadata['title']} of {run.name}", colormap=COLORMAP, contrast_limits=limits,
        metadata={KEY: metadata}, visible=is_visible, axis_labels=AXES[-data.ndim :], **place,
    )  # fmt: skip


def _add_mask(viewer: Any, result: StackResult, mask: Array, kind: MaskKind, output: Output[Any] | None = None) -> None:
    """Show the pixels that have a bit of a mask, hidden at first; no new layer if there are none."""
    name, place = result.run.name, _place(result.run.place, result.maps.settings, mask.ndim)
    metadata = {PANEL: RESULT, "part": kind.part, "title": kind.part, "source": name, "bits": kind.bits}
    if output is not None:
        metadata[RECORD] = record_of_output(output)
    if _updated(viewer, place, metadata, mask) is None and mask.any():
        viewer.add_labels(
            mask, name=f"{kind.title} in {name}", metadata={KEY: metadata}, visible=False,
            axis_labels=AXES[-mask.ndim :], **place,
        )  # fmt: skip


def _updated(viewer: Any, place: dict[str, Any], metadata: dict[str, Any], data: Array) -> Any | None:
    """Update the layer of the same kind of map of the same stack, which may have been calibrated since, or None."""
    keys = (PANEL, "part", "title", "source")
    for layer in reversed(viewer.layers):
        if all(carried(layer, key) == metadata[key] for key in keys) and layer.data.shape == data.shape:
            layer.data, layer.metadata[KEY] = data, metadata
            for name, value in place.items():
                if not np.array_equal(getattr(layer, name), value):
                    setattr(layer, name, value)
            return layer
    return None


def _place(place: Mapping[str, Any], s: ContrastSettings, ndim: int) -> dict[str, Any]:
    """Return where maps lie: each at the last frame of its window, a single map at all frames of its stack."""
    scale, translate = list(place["scale"]), list(place["translate"])
    if ndim == 3:
        translate[0] += scale[0] * (s.depth - 1)
        scale[0] *= s.step
    return {"scale": scale[-ndim:], "translate": translate[-ndim:], "units": place["units"][-ndim:]}
