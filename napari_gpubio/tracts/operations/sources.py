"""Where values that are shown come from: operations that make exactly them, or hold them."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.kinds import digest
from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.operations.runs import run
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.core.reading import untold
from napari_gpubio.tracts.operations.dissection import FindClusters
from napari_gpubio.tracts.operations.fibers import OpenTractogram
from napari_gpubio.tracts.operations.held import HeldAtlas, HeldRegion, HeldTractogram
from napari_gpubio.tracts.operations.regions import BoxRegion, OpenAtlas, OpenRegion, SphereRegion
from napari_gpubio.tracts.regions import AnyRegion, Atlas, Box, Sphere
from napari_gpubio.tracts.tractogram import Tractogram


def fibers_source(
    fibers: Tractogram,
    name: str,
    path: Path | None,
    record: Output[Any] | None = None,
    clusters_mm: float | None = None,
) -> Output[Any]:
    """Return where fibers come from: what made them, a file, or the fibers as they are, which are copied.

    Parameters
    ----------
    fibers, name
        As they are shown.
    path
        The file that they were read from, as far as that is known.
    record
        What they say they were made by.
    clusters_mm
        Within which clusters were found in them, if they were.
    """
    kept = None if record is None else STORE.last_result(record.of)
    if record is not None and kept is not None and digest(record.value_in(kept[1])) == digest(fibers):
        return record

    def opened() -> Operation:
        read = OpenTractogram.at(path or "")
        return read if clusters_mm is None else FindClusters(fibers=read, within_mm=clusters_mm)

    return _first(fibers, opened, path) or HeldTractogram.of(fibers, name).output()


def region_source(region: AnyRegion, path: Path | None, key: int | str) -> Output[Any]:
    """Return where a region comes from: its numbers, a label of a file, or its voxels, which are copied.

    Parameters
    ----------
    region
        As it is used.
    path, key
        The file of labels that it was taken from, as far as that is known, and which of them.
    """
    if isinstance(region, Sphere):
        x, y, z = map(float, region.center_mm)
        return SphereRegion(center_mm=(x, y, z), radius_mm=region.radius_mm, name=region.name).output()
    if isinstance(region, Box):
        return BoxRegion(corner_mm=region.low_mm, opposite_mm=region.high_mm, name=region.name).output()
    opened = _first(region, lambda: OpenRegion.at(path or "", label=str(key)), path)
    return opened or HeldRegion.of(region).output()


def atlas_source(atlas: Atlas, name: str, path: Path | None) -> Output[Any]:
    """Return where an atlas comes from: a file, or its labels, which are copied; ``path``: of the file, if known."""
    return _first(atlas, lambda: OpenAtlas.at(path or ""), path) or HeldAtlas.of(atlas, name).output()


def _first(value: Any, opened: Callable[[], Operation], path: Path | None) -> Output[Any] | None:
    """What opens a file, if that holds exactly a value."""
    if path is not None and path.exists():
        with suppress(InvalidInput), untold():  # a file that has become something else since
            output = opened().output()
            if digest(run(output, device="cpu")) == digest(value):
                return output
    return None
