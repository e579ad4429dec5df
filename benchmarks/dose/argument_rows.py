"""Rows e to g: copies of the sub-histogram, streams, texture; on a GPU."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from common import Row, Timing, row, timed_by_events, timed_on
from speed import Job, Plan

from dose.argument import COPIES, PATENT_COPIES, Points, host_points
from dose.plan import seed_case
from dose.resident import Resident
from dose.speed_rows import repeats
from napari_gpubio.dose.settings import DvhSettings
from napari_gpubio.dose.structures.labels import PointStructure

BASE = f"e near-degenerate, {PATENT_COPIES} copies"
ENGINE = "one pass by the engine (its own bins, sums and extremes)"


def copy_rows(plan: Plan) -> Iterator[Job]:
    """1 to 32 sub-histograms of 100 bins, for the near-degenerate dose, one value, and a spread one."""
    for kind in ("near-degenerate", "one value", "spread"):
        for copies in COPIES:
            yield Job(f"e {kind}, {copies} cop{'y' if copies == 1 else 'ies'}", partial(_copies, kind, copies, plan))


def stream_rows(plan: Plan) -> Iterator[Job]:
    """A launch and a stream for each organ, with the points' upload and without, and one pass over all of them."""
    for streams, words in ((True, "a stream an organ"), (False, "one stream")):
        yield Job(f"f {words}, points resident", partial(_streams, streams, False, plan))
        yield Job(f"f {words}, points from the host", partial(_streams, streams, True, plan))
    yield Job(f"f {ENGINE}, points resident", partial(_one_pass, plan))


def texture_rows(plan: Plan) -> Iterator[Job]:
    """The texture unit against arithmetic, with votes and without, and how far both are apart."""
    for texture, words in ((False, "software"), (True, "texture")):
        yield Job(f"g {words}, doses alone", partial(_doses, texture, plan))
        yield Job(f"g {words}, with votes", partial(_votes, texture, plan))


def _points_row(name: str, timing: Timing, plan: Plan, **more: Any) -> Row:
    return row(name, plan.device, timing, sum(map(len, host_points())), "samples", **more)


def _copies(kind: str, copies: int, plan: Plan, name: str) -> Row:
    points = Points(kind, plan.device)
    timing = timed_on(plan.device, lambda: points.tally(copies=copies), repeats(plan))
    kernels = timed_by_events(plan.device, lambda: points.tally(copies=copies), repeats(plan)).seconds
    return _points_row(name, timing, plan, kernel_seconds=kernels, compared_with=f"e {kind}, {PATENT_COPIES} copies")


def _streams(streams: bool, from_host: bool, plan: Plan, name: str) -> Row:
    points = Points("near-degenerate", plan.device)
    work = points.tally_from_host if from_host else points.tally
    timing = timed_on(plan.device, lambda: work(streams=streams), repeats(plan))
    where = "from the host" if from_host else "resident"
    return _points_row(name, timing, plan, compared_with=f"f one stream, points {where}")


def _one_pass(plan: Plan, name: str) -> Row:
    """The same points, brought to the engine as samples that somebody else has made."""
    dose, structures = seed_case()
    to_world, named = dose.affine, zip(host_points(), structures, strict=True)
    organs = [
        PointStructure(
            name=structure.name,
            points=part.astype(np.float64) @ to_world[:3, :3].T + to_world[:3, 3],
            volume_cc=0.012 * len(part),
        )
        for part, structure in named
    ]
    with Resident(dose, organs, DvhSettings(bins=100), plan.device) as resident:
        timing, kernels = resident.timed("count", repeats(plan)), resident.kernel_seconds(repeats(plan))
    return _points_row(name, timing, plan, kernel_seconds=kernels, compared_with="f one stream, points resident")


def _doses(texture: bool, plan: Plan, name: str) -> Row:
    points = Points("near-degenerate", plan.device)
    timing = timed_on(plan.device, lambda: points.doses(texture=texture), repeats(plan))
    more: dict[str, Any] = {"compared_with": "g software, doses alone"}
    if texture:
        difference = np.abs(points.doses(texture=True).get() - points.doses(texture=False).get())
        more |= {"largest_difference": float(difference.max()), "mean_difference": float(difference.mean())}
    return _points_row(name, timing, plan, **more)


def _votes(texture: bool, plan: Plan, name: str) -> Row:
    points = Points("near-degenerate", plan.device)
    timing = timed_on(plan.device, lambda: points.tally(texture=texture), repeats(plan))
    kernels = timed_by_events(plan.device, lambda: points.tally(texture=texture), repeats(plan)).seconds
    return _points_row(name, timing, plan, kernel_seconds=kernels, compared_with="g software, with votes")
