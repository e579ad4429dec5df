"""Copy as Python of a bootstrap: the scan, the seeds, the repeats, the map of visits, and the fibers colored by it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.script import call_text
from napari_gpubio.tracts.fods.napari_io import fods_of
from napari_gpubio.tracts.gui.layers import settings_of
from napari_gpubio.tracts.gui.script import (
    checked,
    fod_recipe,
    reading_line,
    region_seeds,
    script_text,
    seed_lines,
    seeds_name,
)
from napari_gpubio.tracts.napari_io import scan_of
from napari_gpubio.tracts.tensors.settings import FitSettings
from napari_gpubio.tracts.uncertainty import FodBootstrapSettings

MAP: dict[str, Any] = {"colormap": "inferno", "blending": "additive", "contrast_limits": (0.0, 1.0)}


def probability_name(fibers: str) -> str:
    """Name of the layer that shows how probable it is that fibers pass a voxel; ``fibers``: name of their layer."""
    return f"{fibers} visit probability"


class Made(NamedTuple):
    """What a bootstrap is made of: layers of fibers, scan and FODs (None for tensors), and its settings."""

    layer: Any
    scan_layer: Any
    fod_layer: Any | None
    resampling: FodBootstrapSettings
    fit: FitSettings


def uncertainty_script(made: Made, layers: Sequence[Any], device: str, saved: Mapping[str, Path]) -> str:
    """Return a script that does a bootstrap of the fibers of a layer.

    Parameters
    ----------
    made
        Layers and settings.
    layers
        All layers of the viewer.
    device
        Of the bootstrap, as the API takes it.
    saved
        Files of seeds that were written for it, by names of layers.

    Raises
    ------
    InvalidInput
        If no file holds the scan.
    """
    layer, scan_layer = made.layer, made.scan_layer
    scan, settings, name = scan_of(scan_layer), settings_of(layer), probability_name(layer.name)
    if scan is None or scan.path is None or settings is None:
        raise InvalidInput(f"no file holds the scan of layer {scan_layer.name!r}; save it and open the file")
    read, drawn = reading_line(scan), _fod_lines(made.fod_layer)
    of_field = "field=fods" if drawn else "fit=fit"
    options = ", ".join(f"{key}={value!r}" for key, value in MAP.items())
    lines = [
        "from napari_gpubio.core.napari_io import volume_layer",
        "",
        *([] if read in drawn else [read]),
        *drawn,
        *seed_lines(settings, region_seeds(layer, layers)),
        f"directions = {call_text('tracts', settings.directions)}",
        f"settings = {call_text('tracts', settings.tracking)}",
        f"resampling = {call_text('tracts', made.resampling)}",
        *([] if drawn else [f"fit = {call_text('tracts', made.fit)}"]),
        f"found = tracts.bootstrap(scan, seeds, directions, settings, resampling, {of_field}, device={device!r})",
        "print(found.table())",
        f"data, keywords, _ = volume_layer(found.probability, found.fibers.affine, {name!r}, {options})",
        "image = viewer.add_image(data, **keywords)",
        f"layer = tracts.show(viewer, found.fibers, {layer.name!r})",
        "layer.color_by_image(image)",
    ]
    files = {seeds_name(layer): saved[layer.name]} if layer.name in saved else {}
    return script_text(lines, files)


def _fod_lines(layer: Any | None) -> tuple[str, ...]:
    """Lines that make the FODs of a layer; none for tensors."""
    fods = None if layer is None else fods_of(layer)
    return () if fods is None else checked(fod_recipe(fods, layer))
