"""What layers of scans, tensors, FODs and fixels come from, as operations: files, or copies of what no file holds."""

import threading
import weakref
from collections.abc import Callable, Generator, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Labels

from napari_gpubio.core.device import choose_device
from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.napari_io import LayerData, carried, carried_as, grid_of, volume_of
from napari_gpubio.core.operations.kinds import digest
from napari_gpubio.core.operations.layer_sources import finder_of, record_of
from napari_gpubio.core.operations.records import Operation, Output, file
from napari_gpubio.core.operations.runs import run
from napari_gpubio.core.operations.states import Shown
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.operations.volumes import Volume, source_of
from napari_gpubio.core.space import same_grid
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.fods.napari_io import fixels_of, fods_of
from napari_gpubio.diffusion.gui.source import Field, Source, Trackable, mask_in, trackable_of
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.napari_io import field_of, map_layer, of_result, scan_of, shows_signal_of
from napari_gpubio.diffusion.operations import (
    FitTensors,
    HeldFixels,
    HeldFods,
    HeldScan,
    HeldTensors,
    OpenFixels,
    OpenFods,
    OpenScan,
    OpenTensors,
    TensorsWithMaps,
)
from napari_gpubio.diffusion.operations.tensors import FittedTensors
from napari_gpubio.diffusion.tensors.run import fit_tensors_steps
from napari_gpubio.diffusion.tensors.scalar_maps import scalar_map
from napari_gpubio.gui.layers import LayerBox, set_visible
from napari_gpubio.gui.looks import pictures_of

_ENGINES = tuple(f"napari_gpubio.{name}." for name in ("diffusion", "tractograms", "fibers"))  # of tractography

_OPENS: dict[type, Any] = {
    DiffusionScan: OpenScan, TensorField: OpenTensors, FodField: OpenFods, FixelField: OpenFixels
}  # fmt: skip
_HOLDS: dict[type, Any] = {
    DiffusionScan: HeldScan, TensorField: HeldTensors, FodField: HeldFods, FixelField: HeldFixels
}  # fmt: skip
_FIELDS = (TensorField, FodField, FixelField)
known_outputs: "weakref.WeakKeyDictionary[Any, Output[Any]]" = weakref.WeakKeyDictionary()


def remember(output: Output[Any], made: Any, device: str, *, is_kept: bool = True) -> None:
    """Know what made a result while that is there, and keep the result in the store, or not. Not if it was stopped."""
    if getattr(made, "complete", True):
        known_outputs[output.value_in(made)] = output
        if is_kept:
            STORE.keep(output.of, choose_device(device).kind, made)


def with_record(layer: LayerData, value: DiffusionScan | Field) -> LayerData:
    """Let a layer of a scan, tensors, FODs or fixels carry what made these, if that is known."""
    return of_result(layer, known_outputs[value]) if value in known_outputs else layer


def output_of(value: DiffusionScan | Field) -> Output[Any]:
    """Return what a scan, tensors, FODs or fixels come from; files are read, which a worker does."""
    if value not in known_outputs:
        made: Operation = _opened(value) or _HOLDS[type(value)].of(value)
        kept: Any = value
        STORE.keep(made, "", TensorsWithMaps(kept) if isinstance(made, OpenTensors) else kept)
        known_outputs[value] = made.output()
    return known_outputs[value]


def field_output(source: Trackable) -> Output[Any]:
    """Return what fibers are tracked in, as an operation: of a scan, the fit of its tensors; see `output_of`."""
    return FitTensors(scan=output_of(source)).output() if isinstance(source, DiffusionScan) else output_of(source)


def record_of_field(layer: Any) -> Output[Any] | None:
    """Return the tensors, FODs or fixels of the operation that made what a layer shows, if one did."""
    shown = record_of(layer)
    if shown is None:
        return None
    return next((Output(shown.of, name) for name, kind in shown.of.makes.items() if kind in _FIELDS), None)


def field_of_layer(layer: Any) -> Output[Any] | None:
    """Return what fibers are tracked in if a layer is chosen; None if it is none of these layers."""
    source = trackable_of(layer)
    return record_of_field(layer) or (None if source is None else field_output(source))


def show_fods(box: LayerBox, wanted: Output[Any] | Operation | None) -> bool:
    """Choose the layer of FODs in their box, or none; returns whether a layer has them."""
    box.setCurrentIndex(0)
    box.settle()
    return wanted is None or box.choose_where(lambda layer: field_of_layer(layer) == wanted)


def _opened(value: Any) -> Operation | None:
    """The operation that opens the file of a value as it was read, if that gives the very value."""
    if value.path is None:
        return None
    options = getattr(value, "read_with", None) or {}
    options = {name: file(one) if name in ("bval", "bvec") else one for name, one in options.items()}
    try:
        made: Operation = _OPENS[type(value)].at(value.path, **options)
        return made if digest(made.output().value_in(run(made, store=Store(), device="cpu"))) == digest(value) else None
    except (GpuBioError, OSError, TypeError):
        return None


class MaskSource:
    """A mask as it was when it was read from its layer, and the file that may hold it."""

    def __init__(self, layer: Any) -> None:
        array = np.array(volume_of(layer))
        self._volume = Volume(array=np.nan_to_num(array), affine=np.asarray(grid_of(layer)[0]), name=layer.name)
        self._path = path_of(layer)

    def output(self) -> Output[Volume]:
        """Return where it comes from; files are read, which a worker does."""
        return source_of(self._volume, self._path)


def mask_source(layer: Any | None, scan: DiffusionScan) -> MaskSource | None:
    """Read a mask's layer, in the GUI thread; InvalidInput if it is not on the grid of the scan."""
    mask_in(layer, scan)
    return None if layer is None else MaskSource(layer)


def path_of(layer: Any) -> Path | None:
    """Return the file that a layer was read from, as far as that is known."""
    record = record_of(layer)
    read = None if record is None else getattr(record.of, "file", None)
    path = carried(layer, "path") or layer.source.path or (read and read.path)
    return Path(path) if path else None


# -- layers -----------------------------------------------------------------------------------------------------------


def finder(layer: Any) -> Callable[[], Output[Any]] | None:
    """Read a layer of scan, tensors, FODs or fixels; see `core.operations.layer_sources.register_finder`."""
    if (record := record_of(layer)) is not None:
        return lambda: record
    value = scan_of(layer) or field_of(layer) or fods_of(layer) or fixels_of(layer)
    value = value or carried_as(layer, "glyphs_of", FodField)
    return None if value is None else partial(output_of, value)


# -- tensors --------------------------------------------------------------------------------------------------------


def field_steps(source: Trackable, device: str, stop: threading.Event) -> Generator[Step, None, Field]:
    """Return what is tracked in: FODs and fixels as they are, or tensors; see `tensor_steps`."""
    if isinstance(source, FodField | FixelField):
        return source
    return (yield from tensor_steps(source, device, stop))


def tensor_steps(source: Source, device: str, stop: threading.Event) -> Generator[Step, None, TensorField]:
    """Return the tensors of a source, fitted if it is a scan, with the maps that are shown of them.

    They are not complete if the fit was stopped.
    """
    if isinstance(source, TensorField):
        return source
    field = yield from fit_tensors_steps(source, device=device, stop=stop)
    if field.complete:
        remember(field_output(source), FittedTensors(field), device)
        for name in ("FA", "DEC"):
            scalar_map(field, name)  # made here, kept with the field, and only shown in the GUI thread
    return field


def add_maps(viewer: Any, field: TensorField, scan: DiffusionScan, study: str) -> Any:
    """Show FA and direction of fitted tensors, in place of their scan and below regions; return the layer of the FA."""
    layers = []
    for name in ("FA", "DEC"):
        data, keywords, _ = with_record(map_layer(field, name, study), field)
        layers.append(viewer.add_image(data, **keywords))
        regions = [n for n, layer in enumerate(viewer.layers) if isinstance(layer, Labels)]
        viewer.layers.move(len(viewer.layers) - 1, min(regions, default=len(viewer.layers)))
    hide_signal(viewer, scan)
    return layers[0]


def hide_signal(viewer: Any, scan: DiffusionScan | None) -> None:
    """Hide the layers that show a scan's signal."""
    for layer in viewer.layers:
        if scan is not None and shows_signal_of(layer, scan):
            set_visible(layer, False)


def scan_behind(layers: Iterable[Any], chosen: Any | None) -> DiffusionScan | None:
    """Return the scan of a layer, or the one that its tensors, FODs or fixels were made of, or one of their grid.

    None if no layer has it.
    """
    source = trackable_of(chosen)
    if source is None or isinstance(source, DiffusionScan):
        return source
    scans = [scan for layer in reversed(list(layers)) if (scan := scan_of(layer)) is not None]
    scans = [scan for scan in scans if same_grid(scan.shape, scan.affine, source.shape, source.affine)]
    record = record_of_field(chosen)
    made = None if record is None else getattr(record.of, "scan", None)
    scans.sort(key=lambda scan: made is None or known_outputs.get(scan) != made)
    return scans[0] if scans else None


def fods_on(layers: Iterable[Any], grid: Any) -> Any | None:
    """Return the topmost layer whose FODs have the grid of a scan, a field or a tractogram; None if there is none."""
    there = ((layer, fods_of(layer)) for layer in reversed(list(layers)))
    return next(
        (one for one, fods in there if fods and same_grid(fods.shape, fods.affine, grid.shape, grid.affine)), None
    )


# -- tracking ---------------------------------------------------------------------------------------------------------


def pictures(layers: Iterable[Any]) -> list[Shown]:
    """Return the layers of a viewer that show results of tractography, as a script has them; files are read."""
    found = [(layer, output_of_layer(layer)) for layer in layers]
    ours = [(layer, one) for layer, one in found if one and type(one.of).__module__.startswith(_ENGINES)]
    return pictures_of(ours)


def output_of_layer(layer: Any) -> Output[Any] | None:
    """Return what a layer shows, as its engine finds out, or as the layer says; None for an opened scan and for others.

    Files are read, and fibers that no operation has made are copied.
    """
    if (find := finder_of(layer)) is not None:
        return None if record_of(layer) is None and scan_of(layer) is not None else find()
    return record_of(layer)
