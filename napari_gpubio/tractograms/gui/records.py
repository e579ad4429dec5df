"""What layers of fibers come from, as operations, and what layers of all results of tractography do."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.operations.records import Output
from napari_gpubio.diffusion.gui.records import known_outputs, path_of
from napari_gpubio.tractograms.gui.fibers import fibers_of
from napari_gpubio.tractograms.io.tractograms import tractogram_suffix
from napari_gpubio.tractograms.operations.sources import fibers_source


def finder(layer: Any) -> Callable[[], Output[Any]] | None:
    """Read a layer of fibers; see `core.operations.layer_sources.register_finder`."""
    fibers = fibers_of(layer)
    return None if fibers is None else partial(fiber_output, layer, fibers)


def fiber_output(layer: Any, fibers: Any) -> Output[Any]:
    """Return what the fibers of a layer come from."""
    if fibers in known_outputs:
        return known_outputs[fibers]
    path, bundle = path_of(layer), carried(layer, "bundle")
    if path is None and isinstance(bundle, str) and tractogram_suffix(bundle):
        path = Path(bundle)
    return fibers_source(fibers, layer.name, path, record_of(layer), carried(layer, "clusters_mm"))
