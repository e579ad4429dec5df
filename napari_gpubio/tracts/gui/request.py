"""Inputs of a tracking run, read in the GUI thread; the run itself, made in a worker."""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Generator
from typing import Any

import numpy as np

from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.lines import Lines, Paint
from napari_gpubio.tracts.directions import Directions, Principal, Usual
from napari_gpubio.tracts.gui.bundles import Position
from napari_gpubio.tracts.gui.fibers import pack_fibers
from napari_gpubio.tracts.gui.records import field_steps, remember, track_operation
from napari_gpubio.tracts.gui.source import Field, Trackable
from napari_gpubio.tracts.model import Tractogram
from napari_gpubio.tracts.regions import Region
from napari_gpubio.tracts.run import track_steps
from napari_gpubio.tracts.seeds import SeedSettings, check_seed, label_points
from napari_gpubio.tracts.settings import Method
from napari_gpubio.tracts.tensors.run import check_same_grid

PREVIEW_FIBERS = 3000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BundleSettings:
    """The settings that make a bundle's fibers, and stay with them.

    ``region``: name of the labels layer whose ``label`` is seeded from, or an empty text for the seed ``center_mm``.
    """

    center_mm: Position | None
    region: str
    label: int
    seeds: SeedSettings
    directions: Directions
    tracking: Method
    device: str

    def is_traced_like(self, other: "BundleSettings") -> bool:
        """Whether another bundle is traced in the same way, wherever its seeds are."""
        return (self.seeds, self.directions, self.tracking) == (other.seeds, other.directions, other.tracking)


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Everything that one run needs, read from the panel in the GUI thread.

    ``region``: as it was when the run was requested. ``record``: the result that the tensors, FODs or fixels are, if an
    operation made them.
    """

    key: object
    name: str
    study: str
    source: Trackable
    settings: BundleSettings
    region: Region | None = None
    record: Output[Any] | None = None
    paint: Paint | None = None

    def seed_points(self, field: Field) -> Any:
        """Seed points, shape (S, 3), world mm."""
        settings = self.settings
        if self.region is None:
            points = settings.seeds.points_around(settings.center_mm)
            if settings.center_mm is not None:
                check_seed(field, settings.center_mm, points)
            return points
        voxels, affine = self.region.voxels, self.region.affine
        check_same_grid(field, voxels.shape, affine, f"the label layer {settings.region!r}")
        return label_points(voxels, affine, 1, per_voxel=settings.seeds.per_voxel)

    def thinned(self, fibers: int) -> "Request":
        """Return a request for at most so many fibers: fewer seed points and fewer directions alike."""
        seeds, directions = self.settings.seeds, self.settings.directions
        launched = directions.per_seed * seeds.points
        if launched <= fibers:
            return self
        points = max(1, int(seeds.points * (fibers / launched) ** 0.5))
        thinned = dataclasses.replace(
            self.settings,
            seeds=dataclasses.replace(seeds, points=points),
            directions=directions
            if isinstance(directions, Principal | Usual)
            else dataclasses.replace(directions, count=max(1, min(directions.count, fibers // points))),
        )
        return dataclasses.replace(self, settings=thinned)


@dataclasses.dataclass(frozen=True, slots=True)
class Traced:
    """Result of one run: tensors if they had to be fitted first, and fibers unless it was stopped before.

    ``seeds_mm``: the seed points of the fibers, shape (S, 3); ``record``: the operation that made all of them.
    """

    request: Request
    field: Field
    fibers: Tractogram | None = None
    lines: Lines | None = None
    seeds_mm: Any | None = None
    record: Operation | None = None


def traced_steps(request: Request, stop: threading.Event) -> Generator[Step, None, Traced]:
    """Fit if there is only a scan, find the seeds, track; the preview of a step is the fibers so far."""
    settings = request.settings
    field = yield from field_steps(request.source, settings.device, stop)
    if not field.complete:
        return Traced(request, field)
    seeds = request.seed_points(field)
    steps = track_steps(field, seeds, settings.directions, settings.tracking, device=settings.device, stop=stop)
    pieces = list[Tractogram]()
    with contextlib.closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                record = track_operation(request, field, seeds) if end.value.complete else None
                if record is not None:
                    remember(record.output(), end.value, settings.device)
                return Traced(request, field, end.value, pack_fibers(end.value, request.paint), seeds, record)
            pieces += step.preview or []
            make = functools.partial(_fibers_so_far, request, field, seeds, tuple(pieces)) if pieces else None
            yield dataclasses.replace(step, make_preview=make)


def _fibers_so_far(request: Request, field: Field, seeds: Any, pieces: tuple[Tractogram, ...]) -> Traced:
    """Some of the fibers that were traced so far, to be looked at while there are more to come."""
    fibers = Tractogram.join(list(pieces))
    if len(fibers) > PREVIEW_FIBERS:
        fibers = fibers.select(np.linspace(0, len(fibers) - 1, PREVIEW_FIBERS).astype(np.int64))
    return Traced(request, field, fibers, pack_fibers(fibers, request.paint), seeds)
