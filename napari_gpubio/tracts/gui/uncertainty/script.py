"""Copy as Python of a bootstrap: the scan, the seeds, the repeats, the map of visits, and the fibers colored by it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.script import call_text
from napari_gpubio.tracts.gui.layers import settings_of
from napari_gpubio.tracts.gui.script import region_seeds, script_text, seed_lines, seeds_name
from napari_gpubio.tracts.napari_io import scan_of
from napari_gpubio.tracts.tensors.settings import FitSettings
from napari_gpubio.tracts.uncertainty import BootstrapSettings

MAP: dict[str, Any] = {"colormap": "inferno", "blending": "additive", "contrast_limits": (0.0, 1.0)}


def probability_name(fibers: str) -> str:
    """Name of the layer that shows how probable it is that fibers pass a voxel; ``fibers``: name of their layer."""
    return f"{fibers} visit probability"


def uncertainty_script(
    layer: Any,
    scan_layer: Any,
    layers: Sequence[Any],
    resampling: BootstrapSettings,
    fit: FitSettings,
    device: str,
    saved: Mapping[str, Path],
) -> str:
    """Return a script that does a bootstrap of the fibers of a layer.

    Parameters
    ----------
    layer, scan_layer, layers
        The layers of the fibers and of their scan, and all layers of the viewer.
    resampling, fit, device
        Of the bootstrap, as the API takes them.
    saved
        Files of seeds that were written for it, by names of layers.

    Raises
    ------
    InvalidInput
        If no file holds the scan.
    """
    scan, settings, name = scan_of(scan_layer), settings_of(layer), probability_name(layer.name)
    if scan is None or scan.path is None or settings is None:
        raise InvalidInput(f"no file holds the scan of layer {scan_layer.name!r}; save it and open the file")
    options = ", ".join(f"{key}={value!r}" for key, value in MAP.items())
    lines = [
        "from napari_gpubio.core.napari_io import volume_layer",
        "",
        f"scan = tracts.io.read_dwi({str(scan.path)!r})",
        *seed_lines(settings, region_seeds(layer, layers)),
        f"directions = {call_text('tracts', settings.directions)}",
        f"settings = {call_text('tracts', settings.tracking)}",
        f"resampling = {call_text('tracts', resampling)}",
        f"fit = {call_text('tracts', fit)}",
        f"found = tracts.bootstrap(scan, seeds, directions, settings, resampling, fit=fit, device={device!r})",
        "print(found.table())",
        f"data, keywords, _ = volume_layer(found.probability, found.fibers.affine, {name!r}, {options})",
        "image = viewer.add_image(data, **keywords)",
        f"layer = tracts.show(viewer, found.fibers, {layer.name!r})",
        "layer.color_by_image(image)",
    ]
    files = {seeds_name(layer): saved[layer.name]} if layer.name in saved else {}
    return script_text(lines, files)
