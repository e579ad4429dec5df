"""Probes, Jacobians and trajectories of photons as napari layers, and their reader; needs no napari."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.archives import holds
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import (
    IN_MM,
    KEY,
    LayerData,
    LayerReader,
    Paths,
    read_each,
    reader_if,
    volume_layer,
)
from napari_gpubio.core.quantity import Quantity, quantity_metadata
from napari_gpubio.light.napari_io import label_properties, labels_layer
from napari_gpubio.optics.io.bids_nirs import SUFFIX, read_optodes_tsv
from napari_gpubio.optics.io.nirs import read_nirs
from napari_gpubio.optics.io.snirf import Optodes, read_snirf
from napari_gpubio.probes.io.jacobians import describe_jacobians, load_jacobians
from napari_gpubio.probes.io.trajectories import load_trajectories
from napari_gpubio.probes.jacobians.model import Jacobian, Jacobians
from napari_gpubio.probes.trajectory_model import Trajectories

_COLORS = {"source": "#e69f00", "detector": "#56b4e9", "landmark": "#ffffff"}
_MARKER_SHARE = 0.03  # of the probe's extent
_SMALLEST_MM = 1e-3


def get_reader(path: Paths) -> LayerReader | None:
    """Return the reader of probes, of saved Jacobians and of trajectories, or None for other files."""
    return reader_if(lambda file: _reader(file) is not None, path, read_layers)


def read_layers(path: Paths) -> list[LayerData]:
    """Read probes as points, and Jacobians and trajectories with the labels that they belong to.

    Raises
    ------
    InvalidInput
        If a file cannot be read.
    """
    return read_each(path, _read)


def _reader(path: Path) -> Callable[[Path], list[LayerData]] | None:
    if path.name.lower().endswith(SUFFIX):
        return lambda file: [probe_layer(read_optodes_tsv(file), file.stem)]
    if holds(path, "part_0/values"):
        return _jacobian_layers
    if holds(path, "vertices/kind"):
        return _trajectory_layers
    readers: dict[str, Callable[[Path], list[LayerData]]] = {
        ".snirf": lambda file: [probe_layer(read_snirf(file), file.stem)],
        ".nirs": lambda file: [probe_layer(read_nirs(file), file.stem)],
    }
    return readers.get(path.suffix.lower())


def _read(path: Path) -> list[LayerData]:
    reader = _reader(path)
    if reader is None:
        raise InvalidInput(
            "it is neither a probe (.snirf, .nirs, *_optodes.tsv) nor saved Jacobians or trajectories (.npz)"
        )
    return reader(path)


def _jacobian_layers(path: Path) -> list[LayerData]:
    jacobians = load_jacobians(path)
    layers = [
        jacobian_layer(jacobians, channel, path.stem, visible=channel == 0)
        for channel in range(len(jacobians.channels))
    ]
    return [labels_layer(jacobians.domain, f"{path.stem} labels"), *layers]


def _trajectory_layers(path: Path) -> list[LayerData]:
    found = load_trajectories(path)
    return [labels_layer(found.domain, f"{path.stem} labels"), trajectories_layer(found, path.stem)]


def probe_layer(probe: Optodes, name: str) -> LayerData:
    """Return the points layer (z, y, x) of a probe in its own coordinates, mm; the probe travels with it.

    Its features are the name of each point and its kind: source, detector, or landmark.
    """
    kinds = [*("source" for _ in probe.sources), *("detector" for _ in probe.detectors)]
    kinds += ["landmark"] * len(probe.landmarks_mm)
    places = [*probe.source_positions_mm, *probe.detector_positions_mm, *map(np.array, probe.landmarks_mm.values())]
    points = np.array(places, np.float64).reshape(-1, 3)[:, ::-1]
    size = max(_MARKER_SHARE * float(np.ptp(points, axis=0).max(initial=0.0)), _SMALLEST_MM)
    features = {"name": [*probe.sources, *probe.detectors, *probe.landmarks_mm], "kind": kinds}
    text = {"string": "{name}", "size": 9, "color": "white", "anchor": "upper_left"}
    keywords = {
        "name": f"{name} optodes", **IN_MM, "features": features, "text": text, "size": size,
        "face_color": [_COLORS[kind] for kind in kinds], "border_width": 0.0, "out_of_slice_display": True,
        "metadata": {KEY: {"probe": probe}},
    }  # fmt: skip
    return points, keywords, "points"


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
