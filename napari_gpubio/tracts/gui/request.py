"""Inputs of a tracking run, read in the GUI thread, and the run itself, made in a worker."""

import dataclasses
import threading
import time
from collections.abc import Generator
from typing import Any

import numpy as np

from napari_gpubio.core.space import world_layer_affine
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.lines import ByDirection, Lines, Paint, pack_lines
from napari_gpubio.tracts.model import DiffusionScan, TensorField, Tractogram
from napari_gpubio.tracts.run import track_steps
from napari_gpubio.tracts.seeds import SeedSettings, label_points
from napari_gpubio.tracts.settings import Directions, TrackSettings
from napari_gpubio.tracts.tensors.maps import scalar_map
from napari_gpubio.tracts.tensors.run import check_same_grid, fit_steps

Position = tuple[float, float, float]
PREVIEW_SECONDS, PREVIEW_FIBERS = 0.5, 3000
NOT_SHOWN = ("seed", "stop_reason_back")  # numbers that are kept and saved but mean little as a color


@dataclasses.dataclass(frozen=True, slots=True)
class Region:
    """A label region to seed from, as it was when the run was requested."""

    array: Any
    affine: Any
    label: int
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Everything that one run needs, read from the panel in the GUI thread."""

    key: object
    name: str
    study: str
    source: DiffusionScan | TensorField
    seeds: SeedSettings
    center_mm: Position | None
    region: Region | None
    directions: Directions
    settings: TrackSettings
    device: str
    paint: Paint | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Traced:
    """Result of one run: tensors if they had to be fitted first, and fibers unless it was stopped before."""

    request: Request
    field: TensorField
    fibers: Tractogram | None
    lines: Lines | None


class PartialFibers:
    """Gathers the fibers of a run that is under way; returns them twice a second, as a preview.

    Parameters
    ----------
    request
        What is being traced.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self._pieces: list[Tractogram] = []
        self._shown = time.monotonic()

    def add(self, fresh: list[Tractogram]) -> Tractogram | None:
        """Take fresh fibers; return all so far (at most some thousand of them) when it is time to show them."""
        self._pieces += fresh
        if time.monotonic() - self._shown < PREVIEW_SECONDS or not self._pieces:
            return None
        self._shown = time.monotonic()
        fibers = Tractogram.join(self._pieces)
        if len(fibers) <= PREVIEW_FIBERS:
            return fibers
        return fibers.select(np.linspace(0, len(fibers) - 1, PREVIEW_FIBERS).astype(np.int64))


def thinned(request: Request, fibers: int) -> Request:
    """Return a request for at most so many fibers: fewer seed points and fewer directions alike."""
    seeds, directions = request.seeds, request.directions
    wanted = directions.per_seed * seeds.points
    if wanted <= fibers:
        return request
    seeds = dataclasses.replace(seeds, points=max(1, int(seeds.points * (fibers / wanted) ** 0.5)))
    count = max(1, min(directions.count, fibers // seeds.points))
    return dataclasses.replace(request, seeds=seeds, directions=dataclasses.replace(directions, count=count))


def traced_steps(request: Request, stop: threading.Event) -> Generator[Step, None, Traced]:
    """Fit if there is only a scan, find the seeds, track."""
    field = request.source
    if isinstance(field, DiffusionScan):
        field = yield from fit_steps(field, device=request.device, stop=stop)
        if not field.complete:
            return Traced(request, field, None, None)
        for name in ("FA", "DEC"):
            scalar_map(field, name)  # made here, kept with the field, and only shown in the GUI thread
    fibers = yield from track_steps(
        field, seed_points(request, field), request.directions, request.settings, device=request.device, stop=stop
    )
    return Traced(request, field, fibers, pack_fibers(fibers, request.paint))


def pack_fibers(fibers: Tractogram, paint: Paint | None) -> Lines:
    """Bring fibers into the layout of the graphics card; ``paint`` is the layer's, None for a new layer."""
    return pack_lines(
        fibers.points[:, ::-1],
        fibers.offsets,
        per_fiber={n: v for n, v in fibers.per_fiber.items() if n not in NOT_SHOWN and np.ndim(v) == 1},
        per_point={n: v for n, v in fibers.per_point.items() if np.ndim(v) == 1},
        paint=paint or ByDirection(world_layer_affine(fibers.affine, fibers.shape)),
    )


def seed_points(request: Request, field: TensorField) -> Any:
    """Seed points of a request, world mm."""
    region = request.region
    if region is not None:
        check_same_grid(field, region.array.shape, region.affine, f"the label layer {region.name!r}")
        return label_points(region.array, region.affine, region.label)
    return request.seeds.points_around(request.center_mm)
