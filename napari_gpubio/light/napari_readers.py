"""Readers of napari for probes (SNIRF, HOMER, BIDS-NIRS) as points, and for MCML's input as labels; need no napari."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import IN_MM, KEY, LayerData, read_each
from napari_gpubio.core.reading import note
from napari_gpubio.light.io.bids_nirs import SUFFIX, read_optodes_tsv
from napari_gpubio.light.io.mci import MciRun, read_mci
from napari_gpubio.light.io.nirs import read_nirs
from napari_gpubio.light.io.snirf import Optodes, read_snirf
from napari_gpubio.light.layers.napari_io import phantom_layer
from napari_gpubio.light.layers.phantom import ended_mm, proposed_sizes, voxel_case, voxel_phantom

Paths = str | Sequence[str]
_COLORS = {"source": "#e69f00", "detector": "#56b4e9", "landmark": "#ffffff"}
_MARKER_SHARE = 0.03  # of the probe's extent
_SMALLEST_MM = 1e-3


def get_reader(path: Paths) -> Callable[[Paths], list[LayerData]] | None:
    """Return the reader of probes and of MCML's input files, or None for other files."""
    names = [path] if isinstance(path, str) else path
    return read_layers if names and all(_reader(Path(name)) for name in names) else None


def read_layers(path: Paths) -> list[LayerData]:
    """Read probes as points, and runs of MCML as labels in voxels with their optical properties.

    Raises
    ------
    InvalidInput
        If a file cannot be read.
    """
    return read_each(path, _read)


def _reader(path: Path) -> Callable[[Path], list[LayerData]] | None:
    name = path.name.lower()
    if name.endswith(SUFFIX):
        return lambda file: [probe_layer(read_optodes_tsv(file), file.stem)]
    readers: dict[str, Callable[[Path], list[LayerData]]] = {
        ".snirf": lambda file: [probe_layer(read_snirf(file), file.stem)],
        ".nirs": lambda file: [probe_layer(read_nirs(file), file.stem)],
        ".mci": _read_runs,
    }
    return readers.get(path.suffix.lower())


def _read(path: Path) -> list[LayerData]:
    reader = _reader(path)
    if reader is None:
        raise InvalidInput("it is neither a probe (.snirf, .nirs, *_optodes.tsv) nor an input file of MCML (.mci)")
    return reader(path)


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


def _read_runs(path: Path) -> list[LayerData]:
    runs = read_mci(path)
    if len(runs) > 1:
        note(f"of its {len(runs)} runs the first is visible")
    return [_run_layer(path, run, visible=number == 0) for number, run in enumerate(runs)]


def _run_layer(path: Path, run: MciRun, *, visible: bool) -> LayerData:
    """The layers of a run as labels in voxels, as the panel proposes them."""
    height, across, width = proposed_sizes(run.medium, run.settings)
    depth = ended_mm(run.medium, run.settings, height)
    try:
        domain = voxel_phantom(
            run.medium, voxel_mm=height, across_mm=across, width_mm=width, depth_mm=depth, source=path.name
        )
    except InvalidInput as error:
        raise InvalidInput(
            f"the layers of {run.output} make no volume of voxels ({error}); open the file in the panel Light "
            "transport, under Layers"
        ) from error
    name = f"{path.stem} {Path(run.output).stem}"
    case = voxel_case(domain, photons=run.settings.photons, seed=run.settings.seed, name=name)
    for text in case.notes:
        note(f"{run.output}: {text[:1].lower()}{text[1:].rstrip('.')}")
    data, keywords, kind = phantom_layer(case)
    return data, {**keywords, "visible": visible}, kind
