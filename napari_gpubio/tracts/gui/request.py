"""Inputs of a tracking run, read in the GUI thread; the run itself, made in a worker; a script that repeats it."""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.lines import ByDirection, Lines, Paint, pack_lines
from napari_gpubio.gui.script import call_text, file_name, points_text
from napari_gpubio.tracts.gui.bundles import Position
from napari_gpubio.tracts.model import DiffusionScan, TensorField, Tractogram
from napari_gpubio.tracts.run import track_steps
from napari_gpubio.tracts.seeds import SeedSettings, check_seed, label_points
from napari_gpubio.tracts.settings import Directions, TrackSettings
from napari_gpubio.tracts.tensors.maps import scalar_map
from napari_gpubio.tracts.tensors.run import check_same_grid, fit_steps

PREVIEW_FIBERS = 3000
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

    def seed_points(self, field: TensorField) -> Any:
        """Seed points, shape (S, 3), world mm."""
        if self.region is None:
            points = self.seeds.points_around(self.center_mm)
            if self.center_mm is not None:
                check_seed(field, self.center_mm, points)
            return points
        region = self.region
        check_same_grid(field, region.array.shape, region.affine, f"the label layer {region.name!r}")
        return label_points(region.array, region.affine, region.label)

    def thinned(self, fibers: int) -> "Request":
        """Return a request for at most so many fibers: fewer seed points and fewer directions alike."""
        launched = self.directions.per_seed * self.seeds.points
        if launched <= fibers:
            return self
        points = max(1, int(self.seeds.points * (fibers / launched) ** 0.5))
        count = max(1, min(self.directions.count, fibers // points))
        return dataclasses.replace(
            self,
            seeds=dataclasses.replace(self.seeds, points=points),
            directions=dataclasses.replace(self.directions, count=count),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Traced:
    """Result of one run: tensors if they had to be fitted first, and fibers unless it was stopped before."""

    request: Request
    field: TensorField
    fibers: Tractogram | None = None
    lines: Lines | None = None


def traced_steps(request: Request, stop: threading.Event) -> Generator[Step, None, Traced]:
    """Fit if there is only a scan, find the seeds, track; the preview of a step is the fibers so far."""
    field = request.source
    if isinstance(field, DiffusionScan):
        field = yield from fit_steps(field, device=request.device, stop=stop)
        if not field.complete:
            return Traced(request, field)
        for name in ("FA", "DEC"):
            scalar_map(field, name)  # made here, kept with the field, and only shown in the GUI thread
    steps = track_steps(
        field, request.seed_points(field), request.directions, request.settings, device=request.device, stop=stop
    )
    pieces = list[Tractogram]()
    with contextlib.closing(steps):
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                return Traced(request, field, end.value, pack_fibers(end.value, request.paint))
            pieces += step.preview or []
            make = functools.partial(_fibers_so_far, request, field, tuple(pieces)) if pieces else None
            yield dataclasses.replace(step, make_preview=make)


def _fibers_so_far(request: Request, field: TensorField, pieces: tuple[Tractogram, ...]) -> Traced:
    """Some of the fibers that were traced so far, to be looked at while there are more to come."""
    fibers = Tractogram.join(list(pieces))
    if len(fibers) > PREVIEW_FIBERS:
        fibers = fibers.select(np.linspace(0, len(fibers) - 1, PREVIEW_FIBERS).astype(np.int64))
    return Traced(request, field, fibers, pack_fibers(fibers, request.paint))


def pack_fibers(fibers: Tractogram, paint: Paint | None) -> Lines:
    """Bring fibers into the layout of the graphics card; ``paint`` is the layer's, None for a new layer."""
    return pack_lines(
        fibers.points[:, ::-1],
        fibers.offsets,
        per_fiber={n: v for n, v in fibers.per_fiber.items() if n not in NOT_SHOWN and np.ndim(v) == 1},
        per_point={n: v for n, v in fibers.per_point.items() if np.ndim(v) == 1},
        paint=paint or ByDirection(),
    )


def tracking_script(request: Request, layer: Any, labels_path: Path | None) -> str:
    """Return a script that repeats a request; InvalidInput if the tensors do not come from a file.

    ``layer``: the one that the tensors or the scan came with; ``labels_path``: the file of the label region, if any.
    """
    lines = ["from napari_gpubio import tracts", "", *_source_lines(request.source, layer)]
    if request.region is not None:
        lines += [
            f"labels, affine = tracts.io.read_volume({str(labels_path)!r})",
            f"seeds = tracts.seeds.label_points(labels, affine, {request.region.label})",
        ]
    elif request.seeds.points > 1 and request.seeds.radius_mm > 0:
        center = points_text(request.center_mm)[1:-1]
        lines.append(f"seeds = tracts.seeds.ball({center}, {request.seeds.radius_mm!r}, {request.seeds.points})")
    else:
        lines.append(f"seeds = {points_text(request.center_mm)}")
    lines += [
        f"directions = {call_text('tracts', request.directions)}",
        f"settings = {call_text('tracts', request.settings)}",
        f"fibers = tracts.track(field, seeds, directions, settings, device={request.device!r})",
        f"fibers.save({file_name(request.name) + '.trk'!r})",
    ]
    return "\n".join(lines) + "\n"


def _source_lines(source: DiffusionScan | TensorField, layer: Any) -> list[str]:
    """Lines that make ``field`` from the file the layer came from."""
    if source.path is None:
        raise InvalidInput(
            f"the tensors of layer {layer.name!r} do not come from a file, so a script cannot find them; "
            "save the scan or the tensors and open the file"
        )
    recipe = layer.metadata.get(KEY, {}).get("recipe")
    if isinstance(recipe, str):
        raise InvalidInput(recipe)
    if recipe:
        return list(recipe)
    if isinstance(source, DiffusionScan):
        return [f"scan = tracts.io.read_dwi({str(source.path)!r})", "field = tracts.fit_tensors(scan)"]
    return [f"field = tracts.io.read_tensors({str(source.path)!r})"]
