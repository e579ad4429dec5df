"""Results of a whole stack as layers; another run that gives the same kind of map takes its place."""

import dataclasses
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from napari.layers import Layer

from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY, LayerData, carried
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.records import Output
from napari_gpubio.gui.layers import set_visible
from napari_gpubio.speckle.gui.panel_layers import (
    AXES,
    COLORMAP,
    PANEL,
    RESULT,
    limits_of,
    set_limits,
    title_of,
    whole_place_of,
)
from napari_gpubio.speckle.gui.run import StackResult
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


class FitMapKind(NamedTuple):
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
    FitMapKind("ict", "MESI 1/τ"),
    FitMapKind("tau_ms", "MESI τ"),
    FitMapKind("rho", "MESI ρ, moving fraction", limits=(0.0, 1.0)),
    FitMapKind("noise", "MESI ν, noise term of K²"),
    FitMapKind("beta", "MESI β", limits=(0.0, 1.0)),
    FitMapKind("residual", "MESI residual of K"),
    FitMapKind("ict_error", "MESI standard error of 1/τ", error_of="ict"),
    FitMapKind("tau_error_ms", "MESI standard error of τ", error_of="tau_ms"),
    FitMapKind("rho_error", "MESI standard error of ρ", error_of="rho"),
    FitMapKind("noise_error", "MESI standard error of ν", error_of="noise"),
    FitMapKind("beta_error", "MESI standard error of β", error_of="beta"),
)
_FREE = {"rho": "fit_rho", "noise": "fit_noise", "beta": "fit_beta"}  # maps that exist only where they are fitted


def fitted_maps(settings: MesiSettings, *, shows_errors: bool) -> list[FitMapKind]:
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
            set_visible(layer, False)


def add_maps(viewer: Any, result: StackResult) -> Generator[None, None, Any]:
    """Add or update the layers of contrast maps, a piece each; returns that of the chosen map."""
    maps, run, output = result.maps, result.run, result.operation.output
    if maps.mask is not None:
        mask, keywords, kind = _layer_of(maps, output(MASK), run.name, run.place)
        mask &= np.uint8(0xFF ^ EDGE)  # beyond the border the maps are empty anyway
        del keywords["metadata"][KEY][RECORD]  # it is not all of the mask that the operation makes
        _add(viewer, (mask, keywords, kind), is_visible=False)
        yield
    has_index = maps.settings.has_index
    chosen = _add(viewer, _layer_of(maps, output(CONTRAST), run.name, run.place), is_visible=not has_index)
    yield
    if maps.index is not None:
        chosen = _add(viewer, _layer_of(maps, output(INDEX), run.name, run.place), is_visible=True)
    return chosen


def add_fit(viewer: Any, result: StackResult, fit: FrameFit) -> Generator[None, None, Any]:
    """Add or update the layers of a multi-exposure fit that has begun, a piece each; returns the first of them."""
    run, output, chosen = result.run, result.operation.output, None
    _add(viewer, _layer_of(fit.fit, output(MASK), run.name, run.place), is_visible=False)
    for one in reversed(fitted_maps(fit.recipe.settings, shows_errors=run.shows_errors)):
        layer = _layer_of(fit.fit, output(one.part), run.name, run.place, notes=fit.notes)
        yield
        chosen = _add(viewer, layer, is_visible=one is FIT_MAPS[0])
    return chosen


def layers_of_map(value: SpeckleMap, output: Output[Any], name: str) -> list[LayerData]:
    """Return the layer of one of the maps of an operation under a name; see `napari_gpubio.core.operations.Kind`."""
    source: Any = output.of
    while hasattr(source, "recording"):
        source = source.recording.of
    place = {"scale": (1.0,) * 3, "translate": (0.0,) * 3, "units": ("pixel",) * 3}
    data, keywords, kind = _layer_of(value.of, output, source.title, place)
    return [(data, {**keywords, "name": name}, kind)]


def _layer_of(
    of: Any, output: Output[Any], source: str, place: Mapping[str, Any], *, notes: Sequence[str] = ()
) -> LayerData:
    """Return the layer of one of the maps of contrast, or of a fit; ``source``, ``place``: of the layer of frames."""
    part, is_fit, made = output.name, isinstance(of, MesiResult), cast("Any", output.of)
    data = np.asarray(getattr(of, part))
    metadata: dict[str, Any] = {PANEL: RESULT, "source": source, RECORD: record_of_output(output)}
    keywords: dict[str, Any] = {"metadata": {KEY: metadata}, "axis_labels": AXES[-data.ndim :]}
    keywords |= _place(place, ContrastSettings() if is_fit else of.settings, data.ndim)
    if part == MASK:
        kind = FIT_MASK if is_fit else CONTRAST_MASK
        metadata |= {"part": kind.part, "title": kind.part, "bits": kind.bits}
        return data.copy(), {"name": f"{kind.title} in {source}", **keywords}, "labels"  # it may be painted on
    if is_fit:
        known = next(one for one in FIT_MAPS if one.part == part)
        title = f"{known.title} ({known.unit})" if known.unit else known.title
        metadata |= {"part": f"mesi {part}", "title": title, "unit": known.unit, "notes": list(notes or of.notes)}
        metadata["exposures_ms"] = list(made.recipe.exposures_ms)
        limits = known.limits or limits_of(data, _FIT_RANGE)
    else:
        shown = dataclasses.replace(of.settings, index=NoIndex()) if part == CONTRAST else of.settings
        metadata |= {"part": part, "title": title_of(shown), "unit": shown.unit}
        limits = limits_of(data)
    name = f"{metadata['title']} of {source}"
    return data, {"name": name, "colormap": COLORMAP, "contrast_limits": limits, **keywords}, "image"


def _add(viewer: Any, layer: LayerData, *, is_visible: bool) -> Any:
    """Add a layer, or update that of the same kind of map, whose limits stay where values are; no empty masks."""
    data, keywords, kind = layer
    if (known := _updated(viewer, data, keywords)) is None:
        is_empty = kind == "labels" and not data.any()
        return None if is_empty else viewer.add_layer(Layer.create(data, {**keywords, "visible": is_visible}, kind))
    if kind == "image":
        set_visible(known, is_visible)
        (low, high), limits = known.contrast_limits, keywords["contrast_limits"]
        if limits[1] < low or limits[0] > high:  # all of the new values lie beyond those of before
            set_limits(known, limits)
    return known


def _updated(viewer: Any, data: Array, keywords: Mapping[str, Any]) -> Any | None:
    """Update the layer of the same kind of map of the same stack, which may have been calibrated since, or None."""
    metadata = keywords["metadata"][KEY]
    for layer in reversed(viewer.layers):
        is_same = all(carried(layer, key) == metadata[key] for key in (PANEL, "part", "title", "source"))
        if is_same and layer.data.shape == data.shape:
            layer.data, layer.metadata[KEY] = data, metadata
            for name, now in whole_place_of(layer).items():
                if not np.array_equal(now, keywords[name]):
                    setattr(layer, name, keywords[name])
            return layer
    return None


def _place(place: Mapping[str, Any], s: ContrastSettings, ndim: int) -> dict[str, Any]:
    """Return where maps lie: each at the last frame of its window, a single map at all frames of its stack."""
    scale, translate = list(place["scale"]), list(place["translate"])
    if ndim == 3:
        translate[0] += scale[0] * (s.depth - 1)
        scale[0] *= s.step
    return {"scale": scale[-ndim:], "translate": translate[-ndim:], "units": place["units"][-ndim:]}
