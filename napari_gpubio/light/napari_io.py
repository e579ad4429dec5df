"""Light in voxels as napari layers: labels with optical properties, results, and their reader; needs no napari."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import MEDIA, STRUCTURES
from napari_gpubio.core.napari_io import (
    KEY,
    LayerData,
    carried,
    carried_as,
    grid_of,
    series_layer,
    volume_layer,
    volume_of,
)
from napari_gpubio.core.quantity import Quantity, log10_of, quantity_metadata
from napari_gpubio.light.io.results import describe, media_from
from napari_gpubio.light.io.volumes import HIDDEN, fluence_arrays, fluence_values
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.settings import LightCase
from napari_gpubio.optics.estimates import PER_PHOTON, UNITS, FluenceUnit
from napari_gpubio.optics.io.archive import fields_of
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.pictures import (
    DECADES,
    OTHER_COLOR,
    TISSUE_COLORS,
    decade_limits,
    fluence_word,
    layer_colors,
    log_name,
)

Array = npt.NDArray[Any]
GATE_AXIS = "time gate"


def labels_layer(domain: Domain, name: str) -> LayerData:
    """Return the labels layer of a domain, which travels with it; painting does not change the domain itself."""
    metadata: dict[str, Any] = {"domain": domain, **label_properties(domain)}
    if domain.path is not None:
        metadata["path"] = str(domain.path)
    colors = _tissue_colors(domain)
    keywords = {"colormap": colors} if colors else {}
    return volume_layer(domain.labels.copy(), domain.affine, name, kind="labels", metadata=metadata, **keywords)


def label_properties(domain: Domain) -> dict[str, Any]:
    """Return names and optical properties of labels as plain data, which layers carry and files keep."""
    return {
        STRUCTURES: {medium.label: medium.name for medium in domain.media if medium.name},
        MEDIA: [fields_of(medium) for medium in domain.media],
        "outside_n": domain.outside_n,
    }


def _tissue_colors(domain: Domain) -> dict[int | None, str]:
    """Color of each label, where all of them are tissues of the head; else none, and napari chooses."""
    names = {label: domain.medium(label).name for label in domain.labels_present}
    if not set(names.values()) <= TISSUE_COLORS.keys():
        return {}
    return {None: OTHER_COLOR, 0: "transparent"} | {label: TISSUE_COLORS[name] for label, name in names.items()}


def fluence_layer(
    result: LightResult,
    name: str,
    *,
    unit: FluenceUnit = PER_PHOTON,
    gates: bool = False,
    hide_uncertain: bool = False,
    decades: int = DECADES,
    **keywords: Any,
) -> LayerData:
    """Return the image layer of log10 fluence; the result travels with it.

    Parameters
    ----------
    result
        What a simulation gave, complete or not.
    name
        Beginning of the layer's name.
    unit
        Per launched photon, or by the source's power or energy; see `napari_gpubio.light.statistics.fluence_units`.
    gates
        Each time gate along a first axis, instead of all of them together.
    hide_uncertain
        Hide voxels whose relative standard error is more than 50 %. Where the error is not known yet, because there
        are fewer than two whole batches, nothing is hidden.
    decades
        How many are shown, below the highest value rounded up to a whole decade.
    **keywords
        What else the layer is given, for instance ``visible``.
    """
    shown = log10_of(fluence_values(result, unit, gates=gates, hide_uncertain=hide_uncertain))
    word = fluence_word(unit)
    metadata = {
        **quantity_metadata(
            Quantity(word, unit.name, "log10", f"light, {result.launched:,} photons"),
            **fluence_arrays(result, unit, gates=gates),
        ),
        **label_properties(result.domain),
        "unit": unit.name, "meaning": UNITS[unit.name], "factor": unit.factor,
    }  # fmt: skip
    if hide_uncertain:
        metadata["hidden"] = HIDDEN
    keywords = {"contrast_limits": decade_limits(shown, decades), "colormap": "inferno", **keywords}
    title = log_name(name, word + (" in time gates" if gates else ""), unit.name)
    return _result_layer(result, shown, title, metadata, keywords)


def error_layer(result: LightResult, name: str, **keywords: Any) -> LayerData:
    """Return the image layer of the relative standard error of the fluence of all time gates, in per cent."""
    shown = 100 * result.relative_error
    shown[~np.isfinite(shown)] = np.nan
    metadata = {**quantity_metadata(Quantity("relative standard error of the fluence", "%")), "unit": "%"}
    keywords = {"contrast_limits": (0.0, 100.0), "colormap": "viridis", **keywords}
    return _result_layer(result, shown, f"{name} relative standard error (%)".strip(), metadata, keywords)


def result_of(layer: Any) -> LightResult | None:
    """Return the result that a layer carries, or None."""
    return carried_as(layer, "result", LightResult)


def domain_of(layer: Any) -> Domain | None:
    """Return the domain that a layer carries, by itself or in its result, or None.

    It is the domain that the layer was made of; `core.napari_io.volume_of` detects whether labels were painted since.
    """
    if (result := result_of(layer)) is not None:
        return result.domain
    return carried_as(layer, "domain", Domain) or _domain_of_file(layer)


def _domain_of_file(layer: Any) -> Domain | None:
    """The domain of a labels layer that came from a file with its optical properties."""
    media = carried(layer, MEDIA)
    if media is None or carried(layer, "quantity") is not None:
        return None
    try:
        outside_n = float(carried(layer, "outside_n") or 1.0)
        domain = Domain(labels=volume_of(layer), affine=grid_of(layer)[0], media=media_from(media), outside_n=outside_n)
    except InvalidInput:  # labels were painted since that have no properties yet
        return None
    layer.metadata[KEY]["domain"] = domain  # the same one each time it is asked for
    return domain


def _result_layer(
    result: LightResult, shown: Array, name: str, metadata: dict[str, Any], keywords: dict[str, Any]
) -> LayerData:
    """The layer of a quantity of a result."""
    metadata, affine = {**metadata, "result": result, "parameters": describe(result)}, result.domain.affine
    if shown.ndim == 3:
        return volume_layer(shown, affine, name, metadata=metadata, **keywords)
    return series_layer(shown, affine, name, GATE_AXIS, metadata=metadata, **keywords)


def phantom_layer(case: LightCase) -> LayerData:
    """Return the labels layer of a voxel phantom of layers, in their colors, with all that the voxel engine needs."""
    media = case.domain.media
    colors = layer_colors([medium.name for medium in media])
    data, keywords, kind = labels_layer(case.domain, case.name)
    keywords["metadata"][KEY]["case"] = case
    labeled = {medium.label: color for medium, color in zip(media, colors, strict=True)}
    return data, {**keywords, "colormap": {None: OTHER_COLOR, 0: "transparent"} | labeled}, kind
