"""The operation that made fibers of the tracking panel; its inputs are files, or copies of what no file holds."""

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.operations.layers import record_of
from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.operations.stores import Store, digest, file, run
from napari_gpubio.tracts.fods.model import FixelField, FodField
from napari_gpubio.tracts.gui.source import Field, Trackable
from napari_gpubio.tracts.model import DiffusionScan, TensorField
from napari_gpubio.tracts.operations import (
    FitTensors,
    HeldFixels,
    HeldFods,
    HeldRegion,
    HeldScan,
    HeldTensors,
    OpenFixels,
    OpenFods,
    OpenScan,
    OpenTensors,
    Track,
    TrackInFixels,
    TrackInFods,
)
from napari_gpubio.tracts.regions import Region
from napari_gpubio.tracts.seeds import AtPoints, InRegion

if TYPE_CHECKING:
    from napari_gpubio.tracts.gui.request import Request

_OPENS: dict[type, Any] = {TensorField: OpenTensors, FodField: OpenFods, FixelField: OpenFixels}
_HOLDS: dict[type, Any] = {TensorField: HeldTensors, FodField: HeldFods, FixelField: HeldFixels}
_TRACKS: dict[type, Any] = {TensorField: Track, FodField: TrackInFods, FixelField: TrackInFixels}
_known: "weakref.WeakKeyDictionary[Any, Output[Any]]" = weakref.WeakKeyDictionary()


def record_of_field(layer: Any) -> Output[Any] | None:
    """Return the tensors, FODs or fixels of the operation that made what a layer shows, if one did."""
    shown = record_of(layer)
    if shown is None:
        return None
    return next((Output(shown.of, name) for name, kind in shown.of.makes.items() if kind in _TRACKS), None)


def source_output(source: Trackable) -> Output[Any]:
    """Return what tensors, FODs or fixels come from, or the fit of a scan; files are read, which a worker does."""
    if source not in _known:
        made = _scan(source) if isinstance(source, DiffusionScan) else _field(source)
        _known[source] = FitTensors(scan=made).output() if isinstance(source, DiffusionScan) else made.output()
    return _known[source]


def _scan(scan: DiffusionScan) -> Operation:
    """What opens a scan as it was read, if its file still holds it."""
    if scan.path is not None:
        options = {name: file(one) if name in ("bval", "bvec") else one for name, one in scan.read_with.items()}
        return _opened(scan, OpenScan, options) or HeldScan.of(scan)
    return HeldScan.of(scan)


def _field(field: Field) -> Operation:
    held: Operation = _HOLDS[type(field)].of(field)
    return held if field.path is None else _opened(field, _OPENS[type(field)], {}) or held


def _opened(value: Any, opens: Any, options: dict[str, Any]) -> Operation | None:
    """The operation that opens the file of a value, if that gives the very value."""
    try:
        made: Operation = opens.at(value.path, **options)
        return made if digest(made.output().value_in(run(made, store=Store(), device="cpu"))) == digest(value) else None
    except (GpuBioError, OSError, TypeError):
        return None


def track_operation(request: "Request", field: Field, seeds_mm: Any) -> Operation | None:
    """Return the operation of a run, in a worker; None if it would not begin at the very seeds."""
    settings, source = request.settings, request.record or source_output(request.source)
    _known[field] = source  # of a scan, the tensors that were fitted now
    seeds, region, held = _seeds(request), None, None
    if request.region is not None:
        name = f"{settings.region} {settings.label}"
        region = Region(name=name, voxels=request.region.array == settings.label, affine=request.region.affine)
        held = HeldRegion.of(region)
    made: Operation = _TRACKS[source.kind](
        field=source, region=held, seeds=seeds, directions=settings.directions, method=settings.tracking
    )
    return made if np.array_equal(seeds.points_in(field, region), seeds_mm) else None


def _seeds(request: "Request") -> AtPoints | InRegion:
    seeds, center = request.settings.seeds, request.settings.center_mm
    if request.region is not None:
        return InRegion(per_voxel=seeds.per_voxel)
    assert center is not None, "there is a click or a region"
    if seeds.points == 1 or seeds.radius_mm == 0:
        return AtPoints(seed=(center,))
    return AtPoints(seed=(center,), radius_mm=seeds.radius_mm, points=seeds.points)
