"""Files and samples as napari layers, without importing napari: MCX input files, saved results, the head phantom."""

import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from napari_gpubio.core.napari_io import KEY, LayerData
from napari_gpubio.light.io.mcx.cases import read_mcx
from napari_gpubio.light.io.results import load_result
from napari_gpubio.light.napari_io import fluence_layer, labels_layer
from napari_gpubio.light.phantom import load_head_phantom

Paths = str | Sequence[str]


def get_reader(path: Paths) -> Callable[[Paths], list[LayerData]] | None:
    """Return the reader of MCX input files and saved results (napari's reader contribution), or None for others."""
    paths = [Path(path)] if isinstance(path, str) else [Path(one) for one in path]
    return read_layers if paths and all(_is_mcx(one) or _is_result(one) for one in paths) else None


def read_layers(path: Paths) -> list[LayerData]:
    """Read MCX input files as labels, and results as labels with their fluence.

    Raises
    ------
    InvalidInput
        If a file cannot be read.
    """
    layers: list[LayerData] = []
    for one in [path] if isinstance(path, str) else path:
        name = Path(one).stem
        if _is_mcx(Path(one)):
            case = read_mcx(one)
            data, keywords, kind = labels_layer(case.domain, name)
            keywords["metadata"][KEY]["case"] = case
            layers.append((data, keywords, kind))
        else:
            result = load_result(one)
            layers += [labels_layer(result.domain, f"{name} labels"), fluence_layer(result, name)]
    return layers


def head_sample_layers() -> list[LayerData]:
    """Return the head phantom's labels with their optical properties (napari's sample-data contribution)."""
    return [labels_layer(load_head_phantom(), "head phantom")]


def _is_mcx(path: Path) -> bool:
    """Whether a JSON file has the sections that MCX's input files have; other programs write JSON too."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    text = path.read_bytes()
    return all(f'"{section}"'.encode() in text for section in ("Domain", "Optode", "Forward"))


def _is_result(path: Path) -> bool:
    """Whether a file of NumPy arrays holds a saved result."""
    if path.suffix.lower() != ".npz" or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return "result/gates.npy" in archive.namelist()
