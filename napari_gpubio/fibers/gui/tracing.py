"""A run of the tracking panel: its draft, read in the GUI thread, and its steps, which a worker takes."""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Generator, Iterable
from typing import Any

import numpy as np

from napari_gpubio.core.device import choose_device
from napari_gpubio.core.numbers import memory_text, seconds_text
from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.gui.records import field_output, field_steps, known_outputs, remember
from napari_gpubio.diffusion.gui.source import Field, Trackable
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.operations import HeldRegion
from napari_gpubio.diffusion.regions import Region
from napari_gpubio.diffusion.tensors.run import check_same_grid
from napari_gpubio.fibers.directions import Directions, Principal, Usual
from napari_gpubio.fibers.operations import Track, TrackInFixels, TrackInFods
from napari_gpubio.fibers.run import problem_of, track_steps
from napari_gpubio.fibers.seeds import AtPoints, InRegion, Launch, check_seed
from napari_gpubio.fibers.settings import Method
from napari_gpubio.gui.lines import Lines, Paint
from napari_gpubio.tractograms.gui.fibers import pack_fibers
from napari_gpubio.tractograms.model import Tractogram

PREVIEW_FIBERS = 3000
_BYTES_OF_A_POINT = 60  # in a tractogram with a number or two of each point, and in its layer
_TRACKS: dict[type, Any] = {TensorField: Track, FodField: TrackInFods, FixelField: TrackInFixels}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BundleSettings:
    """The settings of the operation that makes a bundle's fibers, which stay with them.

    ``region``: name of the region that is seeded from, if there is one.
    """

    seeds: AtPoints | InRegion
    directions: Directions
    method: Method
    region: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An operation that tracks, whose inputs are still values.

    ``key``, ``name``: of the fibers. ``study``: name of the layer that is tracked in. ``record``: the result that the
    tensors, FODs or fixels are, if an operation made them. ``region``: as it was when it was read.
    """

    key: object
    name: str
    study: str
    source: Trackable
    settings: BundleSettings
    device: str
    region: Region | None = None
    record: Output[Any] | None = None
    paint: Paint | None = None

    def operation(self) -> Operation:
        """Return the operation, in a worker."""
        how = {name: getattr(self.settings, name) for name in ("seeds", "directions", "method")}
        return tracking_in(self.source, self.record, self.region, **how)

    def seed_points(self, field: Field) -> Any:
        """Seed points, shape (S, 3), world mm."""
        seeds, region = self.settings.seeds, self.region
        if region is not None:
            check_same_grid(field, region.voxels.shape, region.affine, f"the region {region.name!r}")
        points = seeds.points_in(field, region)
        if isinstance(seeds, AtPoints):
            check_seed(field, seeds.seed[0], points)
        return points

    def launch_text(self, made: Iterable[Tractogram]) -> str:
        """Return how many fibers a region launches, about how long that takes, and how much memory.

        ``made``: fibers that were traced with this method, of which the most tell how long a fiber takes.
        """
        assert self.region is not None
        assert isinstance(self.settings.seeds, InRegion)
        method, voxels = self.settings.method, int(np.count_nonzero(self.region.voxels))
        directions = method.directions(self.settings.directions)
        launched = voxels * self.settings.seeds.per_voxel * directions.per_seed
        parts, needed = [f"{launched:,} fibers from {voxels:,} voxels"], 0
        last = max(made, key=lambda fibers: int(fibers.parameters.get("launched", 0)), default=None)
        if last is not None and (count := last.parameters.get("launched")) and last.parameters.get("seconds"):
            parts.append(f"about {seconds_text(launched * last.parameters['seconds'] / count)}")
            needed = int(launched / count * len(last.points)) * _BYTES_OF_A_POINT
        if not isinstance(self.source, DiffusionScan):
            launch = Launch(np.zeros((1, 3)), np.zeros((1, 3)), directions)
            needed += problem_of(method)(self.source, launch, method).memory(choose_device(self.device)).total
        if needed:
            parts.append(f"{memory_text(needed)} of memory{'' if last is not None else ' and the fibers'}")
        return ", ".join(parts)

    def thinned(self, fibers: int) -> "Draft":
        """Return one of at most so many fibers around a click: fewer seed points and fewer directions alike."""
        seeds, directions = self.settings.seeds, self.settings.directions
        assert isinstance(seeds, AtPoints)
        launched = directions.per_seed * seeds.points
        if launched <= fibers:
            return self
        points = max(1, int(seeds.points * (fibers / launched) ** 0.5))
        if not isinstance(directions, Principal | Usual):
            directions = dataclasses.replace(directions, count=max(1, min(directions.count, fibers // points)))
        fewer = dataclasses.replace(seeds, points=points, radius_mm=seeds.radius_mm if points > 1 else 0.0)
        return dataclasses.replace(
            self, settings=dataclasses.replace(self.settings, seeds=fewer, directions=directions)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Traced:
    """Result of one run: tensors if they had to be fitted first, and fibers unless it was stopped before.

    ``seeds_mm``: the seed points of the fibers, shape (S, 3); ``record``: the operation that made all of them.
    """

    draft: Draft
    field: Field
    fibers: Tractogram | None = None
    lines: Lines | None = None
    seeds_mm: Any | None = None
    record: Operation | None = None


def traced_steps(draft: Draft, stop: threading.Event) -> Generator[Step, None, Traced]:
    """Fit if there is only a scan, find the seeds, track; the preview of a step is the fibers so far.

    The tensors, FODs or fixels are those on screen, with all that is kept of them for the next drag. Their files are
    looked through for the operation once the fibers are there.
    """
    settings = draft.settings
    field = yield from field_steps(draft.source, draft.device, stop)
    if not field.complete:
        return Traced(draft, field)
    seeds = draft.seed_points(field)
    steps = track_steps(field, seeds, settings.directions, settings.method, device=draft.device, stop=stop)
    pieces = list[Tractogram]()
    with contextlib.closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                record = draft.operation() if end.value.complete else None
                if record is not None:
                    remember(record.output(), end.value, draft.device, is_kept=False)
                return Traced(draft, field, end.value, pack_fibers(end.value, draft.paint), seeds, record)
            pieces += step.preview or []
            make = functools.partial(_fibers_so_far, draft, field, seeds, tuple(pieces)) if pieces else None
            yield dataclasses.replace(step, make_preview=make)


def _fibers_so_far(draft: Draft, field: Field, seeds: Any, pieces: tuple[Tractogram, ...]) -> Traced:
    """Some of the fibers that were traced so far, to be looked at while there are more to come."""
    fibers = dataclasses.replace(Tractogram.join(list(pieces)), complete=False)
    if len(fibers) > PREVIEW_FIBERS:
        fibers = fibers.select(np.linspace(0, len(fibers) - 1, PREVIEW_FIBERS).astype(np.int64))
    return Traced(draft, field, fibers, pack_fibers(fibers, draft.paint), seeds)


def tracking_in(source: Trackable, record: Output[Any] | None, region: Region | None, **settings: Any) -> Operation:
    """Return the operation that tracks in what is on screen, in a worker; see `field_output`.

    Parameters
    ----------
    source
        What is tracked in.
    record
        The result that it is, if that is known.
    region
        To seed from, or None.
    **settings
        Other fields of the operation.
    """
    field, held = record or field_output(source), None if region is None else HeldRegion.of(region)
    made: Operation = _TRACKS[field.kind](field=field, region=held, **settings)
    if not isinstance(source, DiffusionScan):
        known_outputs[source] = field
    return made
