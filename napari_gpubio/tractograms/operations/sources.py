"""Where values that are shown come from: operations that make exactly them, or hold them."""

from pathlib import Path
from typing import Any

from napari_gpubio.core.operations.kinds import digest
from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.diffusion.operations.regions import opened_first
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.operations.dissection import FindClusters
from napari_gpubio.tractograms.operations.fibers import HeldTractogram, OpenTractogram


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

    return opened_first(fibers, opened, path) or HeldTractogram.of(fibers, name).output()
