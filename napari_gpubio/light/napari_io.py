"""Light results and domains as napari layers, and the reader of MCX input and result files; needs no napari."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.archives import array_names
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import MOST_WHOLE, existing_bytes
from napari_gpubio.core.layer_files import MEDIA, STRUCTURES
from napari_gpubio.core.napari_io import (
    IN_MM,
    KEY,
    LayerData,
    carried,
    grid_of,
    read_each,
    series_layer,
    volume_layer,
    volume_of,
)
from napari_gpubio.core.operations.layers import keep_shown
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.core.operations.volumes import LogOf
from napari_gpubio.core.quantity import Quantity, log10_of, quantity_metadata
from napari_gpubio.core.reading import note
from napari_gpubio.light.io.jacobians import describe_jacobians, load_jacobians
from napari_gpubio.light.io.mcx.cases import read_mcx
from napari_gpubio.light.io.mcx.inp import begins_like_inp
from napari_gpubio.light.io.mcx.root import read_mcx_labels
from napari_gpubio.light.io.results import describe, fields_of, load_result, media_from
from napari_gpubio.light.io.trajectories import load_trajectories
from napari_gpubio.light.io.volumes import HIDDEN, fluence_arrays, fluence_values, fluence_word
from napari_gpubio.light.jacobians.model import Jacobian, Jacobians
from napari_gpubio.light.model import Domain
from napari_gpubio.light.result import UNITS, LightResult
from napari_gpubio.light.statistics import PER_PHOTON, FluenceUnit
from napari_gpubio.light.trajectory import Trajectories

Array = npt.NDArray[Any]
DECADES = 6
GATE_AXIS = "time gate"
OTHER_COLOR = "#c850a0"  # of labels that the user paints beside the tissues
TISSUE_COLORS = {
    "scalp": "#b5795a",
    "skull": "#e3d9b8",
    "CSF": "#3f8fbf",
    "gray matter": "#8a8a94",
    "white matter": "#ededed",
}


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


def log_name(name: str, quantity: str, unit: str) -> str:
    """Return the name of a layer of decimal logarithms: whose, of what, and in which unit the number is that has it."""
    return f"{name} {quantity}, log10 {unit}".strip()


def error_layer(result: LightResult, name: str, **keywords: Any) -> LayerData:
    """Return the image layer of the relative standard error of the fluence of all time gates, in per cent."""
    shown = 100 * result.relative_error
    shown[~np.isfinite(shown)] = np.nan
    metadata = {**quantity_metadata(Quantity("relative standard error of the fluence", "%")), "unit": "%"}
    keywords = {"contrast_limits": (0.0, 100.0), "colormap": "viridis", **keywords}
    return _result_layer(result, shown, f"{name} relative standard error (%)".strip(), metadata, keywords)


def jacobian_layer(
    jacobians: Jacobians, channel: int | str, name: str, *, part: Jacobian | None = None, **keywords: Any
) -> LayerData:
    """Return the image layer of one channel of a Jacobian, with its standard error; zero in the middle of the colors.

    Parameters
    ----------
    jacobians
        They travel with the layer.
    channel
        Index or name of a source and detector.
    name
        Beginning of the layer's name.
    part
        One of its parts; by default the first.
    **keywords
        What else the layer is given, for instance ``visible``.
    """
    part = jacobians.parts[0] if part is None else part
    index = jacobians.channel(channel)
    values, errors = part.values[index], part.errors[index]
    seen = np.abs(values[np.isfinite(values) & (values != 0)])
    most = float(np.percentile(seen, 99)) if seen.size else 1.0
    title = f"{name} {jacobians.channels[index].name} {part.name} ({part.unit})".strip()
    quantity = Quantity(part.name, part.unit, source=f"light, {jacobians.method}")
    metadata = {
        **quantity_metadata(quantity, standard_error=errors), **label_properties(jacobians.domain),
        "unit": part.unit, "jacobians": jacobians, "parameters": describe_jacobians(jacobians),
    }  # fmt: skip
    keywords = {"contrast_limits": (-most, most), "colormap": "PiYG", **keywords}
    return volume_layer(values, jacobians.domain.affine, title, metadata=metadata, **keywords)


def trajectories_layer(trajectories: Trajectories, name: str, *, kind: str = "tracks", **keywords: Any) -> LayerData:
    """Return a layer of the paths of photons.

    Parameters
    ----------
    trajectories
        They travel with the layer.
    name
        Of the layer.
    kind
        ``"tracks"``: the first axis is the time in ps, so that photons move with its slider; a photon that goes on at
        the other side of a cyclic grid has several tracks. ``"shapes"``: still paths, for some hundred photons.
    **keywords
        What else the layer is given.

    Raises
    ------
    InvalidInput
        If the kind is another, or no photon has gone anywhere.
    """
    if kind not in ("tracks", "shapes"):
        raise InvalidInput(f"kind is {kind!r}; choose 'tracks' or 'shapes'")
    lines = list(trajectories.lines())
    if not lines:
        raise InvalidInput("no photon has gone anywhere; choose photons that meet the tissue")
    places = np.ascontiguousarray(trajectories.position_mm[:, ::-1])
    photons = [int(trajectories.photon[number]) for number, _ in lines]
    about = {"name": name, "metadata": {KEY: {"trajectories": trajectories}}}
    if kind == "shapes":
        keywords = {"shape_type": "path", "edge_width": 0.1, "edge_color": "gold", **IN_MM, **keywords}
        return [places[line] for _, line in lines], {**about, "features": {"photon": photons}, **keywords}, "shapes"
    rows = np.concatenate([np.arange(line.start, line.stop) for _, line in lines])
    track = np.repeat(np.arange(len(lines)), [line.stop - line.start for _, line in lines])
    picoseconds = np.round(1000.0 * trajectories.time_ns[rows])
    axes = {"units": ("ps", *IN_MM["units"]), "axis_labels": ("time", *IN_MM["axis_labels"])}
    features = {"weight": trajectories.weight[rows], "photon": np.array(photons)[track]}
    keywords = {"tail_length": 300, "color_by": "weight", **axes, **keywords}
    return np.column_stack([track, picoseconds, places[rows]]), {**about, "features": features, **keywords}, "tracks"


def decade_limits(shown: Array, decades: int = DECADES) -> tuple[float, float]:
    """Contrast limits of a logarithm: the highest value rounded up to a whole decade, and so many decades below."""
    highest = float(np.nanmax(shown, initial=-np.inf))
    top = math.ceil(highest - 1e-6) if math.isfinite(highest) else 0  # 1e-6: rounding makes no new decade
    return float(top - decades), float(top)


def result_of(layer: Any) -> LightResult | None:
    """Return the result that a layer carries, or None."""
    value = carried(layer, "result")
    return value if isinstance(value, LightResult) else None


def domain_of(layer: Any) -> Domain | None:
    """Return the domain that a layer carries, by itself or in its result, or None.

    It is the domain that the layer was made of; `core.layers.volume_of` detects whether labels were painted since.
    """
    if (result := result_of(layer)) is not None:
        return result.domain
    value = carried(layer, "domain")
    return value if isinstance(value, Domain) else _domain_of_file(layer)


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


Paths = str | Sequence[str]


def get_reader(path: Paths) -> Callable[[Paths], list[LayerData]] | None:
    """Return the reader of MCX input files and saved results, Jacobians and trajectories, or None for other files."""
    paths = [Path(path)] if isinstance(path, str) else [Path(one) for one in path]
    return read_layers if paths and all(_is_mcx(one) or _is_result(one) for one in paths) else None


def read_layers(path: Paths) -> list[LayerData]:
    """Read MCX input files as labels, and results as labels with their fluence, Jacobians or trajectories.

    Raises
    ------
    InvalidInput
        If a file cannot be read.
    """
    return read_each(path, _read_one)


def _read_one(path: Path) -> list[LayerData]:
    if _holds(path, "part_0/values"):
        jacobians = load_jacobians(path)
        channels = range(len(jacobians.channels))
        return [labels_layer(jacobians.domain, f"{path.stem} labels")] + [
            jacobian_layer(jacobians, channel, path.stem, visible=channel == 0) for channel in channels
        ]
    if _holds(path, "vertices/kind"):
        found = load_trajectories(path)
        return [labels_layer(found.domain, f"{path.stem} labels"), trajectories_layer(found, path.stem)]
    if not _is_mcx(path):
        return _result_layers(path)
    try:
        case = read_mcx(path)
    except InvalidInput as error:
        try:
            labels, affine = read_mcx_labels(path)
        except InvalidInput:  # of which `error` is the better one
            raise error from None
        note(f"its labels alone are shown, not what is to be simulated: {error}")
        return [volume_layer(labels, affine, path.stem, kind="labels", metadata={"path": str(path)})]
    data, keywords, kind = labels_layer(case.domain, path.stem)
    keywords["metadata"][KEY]["case"] = case
    return [(data, keywords, kind)]


def _result_layers(path: Path) -> list[LayerData]:
    """The labels and the fluence of a saved result, which carries what makes it."""
    from napari_gpubio.light.operations import Fluence, OpenRun  # which need this module

    result, opened = load_result(path), OpenRun.at(path)
    fluence = fluence_layer(result, path.stem)
    fluence[1]["metadata"][KEY]["path"] = str(path)
    keep_shown(fluence, LogOf(volume=Fluence(run=opened)).output(), "cpu")
    STORE.keep(opened, "", result)
    return [labels_layer(result.domain, f"{path.stem} labels"), fluence]


def _is_mcx(path: Path) -> bool:
    """Whether a file has the sections, or the lines, that MCX's input files have; other programs use its suffixes."""
    try:
        if not path.is_file():
            return False
        if path.suffix.lower() == ".inp":
            return begins_like_inp(path)
        if path.suffix.lower() != ".json":
            return False
        text = existing_bytes(path, MOST_WHOLE)
    except (OSError, InvalidInput):  # it may not be read, so nobody knows
        return False
    return all(f'"{section}"'.encode() in text for section in ("Domain", "Optode", "Forward"))


def _is_result(path: Path) -> bool:
    """Whether a file of NumPy arrays holds a saved result, Jacobians or trajectories."""
    return any(_holds(path, name) for name in ("result/gates", "part_0/values", "vertices/kind"))


def _holds(path: Path, name: str) -> bool:
    """Whether a file of NumPy arrays holds one of this name."""
    return path.suffix.lower() == ".npz" and name in array_names(path)
