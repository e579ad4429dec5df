"""The answer to how two regions are connected: distinct routes, their fibers and numbers."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.fibers.route_table import RouteTable
from napari_gpubio.tractograms.model import StopReason, Tractogram

Array = npt.NDArray[Any]

NEAREST_BINS = 20  # of 1 mm, and one for what is farther
COLUMNS: Mapping[str, str] = {
    "route": "",
    "fibers": "",
    "solved": "",
    "score": "",
    "alignment_fa": "",
    "length_mm": "mm",
    "riemannian_length_mm": "mm",
    "speed": "",
    "weakest_link": "",
    "eudx_distance_mm": "mm",
    "drift": "",
}
"""Columns of the table of routes, with units. All but the first three are those of a route's best fiber."""

# Where rays end, and what to do about it.
_ENDS = {
    StopReason.FA: ("where FA is low", "lower the FA below which fibers end"),
    StopReason.LENGTH: ("at the maximum length", "raise it"),
    StopReason.STEPS: ("at the maximum number of steps", "raise it"),
    StopReason.CURVATURE: ("in a turn", "lower the minimum radius"),
    StopReason.DRIFT: ("by their drift", "lower the step, or raise the drift at which fibers end"),
    StopReason.MASK: ("at the mask's edge", "widen the fan, or check that the mask joins the regions"),
    StopReason.VOLUME: ("at the volume's edge", "widen the fan, or check that the volume holds both regions"),
    StopReason.INVALID: ("at bad tensors", "check the tensors along the way"),
}
_AT_SEED = ("at their seed", "choose a source that reaches into white matter, or lower the FA below which fibers end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Search(ShortRepr):
    """What became of the rays that were launched.

    Parameters
    ----------
    seeds, launched
        Seed points in the mask, and rays.
    near_misses, solved
        Rays that were turned, and those that met the target then.
    sampled
        Rays that the other numbers are of: some of all if none arrived, else 0.
    stops
        Number of rays by the reason of their end, without those that ended at their seed.
    nearest_mm
        How many rays came as near to the target as 0-1, 1-2, ... 19-20 mm, and farther, shape (21,).
    closest_mm
        The least distance of any ray.
    """

    seeds: int = 0
    launched: int = 0
    near_misses: int = 0
    solved: int = 0
    sampled: int = 0
    stops: Mapping[StopReason, int] = dataclasses.field(default_factory=dict)
    nearest_mm: npt.NDArray[np.int64] = dataclasses.field(default_factory=lambda: np.zeros(NEAREST_BINS + 1, np.int64))
    closest_mm: float = np.inf


@dataclass(frozen=True, eq=False, kw_only=True)
class Routes(RouteTable):
    """Distinct routes between two regions, the best first.

    Parameters
    ----------
    source, target
        Names of the regions.
    tractogram
        Fibers from the source to the target; ``per_fiber`` has what tracking gives, and ``route`` (from 1 on),
        ``solved`` (1 where the two-point solver made the connection), ``eudx_distance_mm`` (mean distance from the
        classic streamlines of the same seeds; NaN if none leaves them), and ``score`` (`scores.route_scores`).
    best
        The fiber with the best score of each listed route, shape (R,); routes are in the order of the score.
    counts
        Fibers of each listed route, shape (R,).
    weakest_link
        Largest local cost of the best fiber of each listed route, shape (R,): Riemannian length per mm.
    unlisted
        Routes beyond those listed; their fibers have ``route`` 0.
    search
        What became of the rays.
    complete
        False if the search was stopped.
    notes
        What was left out, and what FODs tell about the way, as sentences.
    """

    column_names: ClassVar[tuple[str, ...]] = tuple(COLUMNS)
    best_by: ClassVar[str] = "score"
    source: str
    target: str
    tractogram: Tractogram
    best: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    weakest_link: npt.NDArray[np.float32]
    unlisted: int
    search: Search
    complete: bool = True
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.best)

    def fibers(self, route: int) -> Tractogram:
        """Fibers of one route, by its number in the table. InvalidInput if there is no such route."""
        if not 1 <= route <= len(self):
            raise InvalidInput(f"route {route} was requested; the table has {len(self)} routes, from 1 on")
        return self.tractogram.select(self.tractogram.per_fiber["route"] == route)

    def columns(self) -> dict[str, Array]:
        """Numbers of the listed routes by the names of `COLUMNS`, each of shape (R,)."""
        per_fiber = self.tractogram.per_fiber
        solved = np.bincount(per_fiber["route"], per_fiber["solved"], minlength=len(self) + 1)[1:]
        own: dict[str, Array] = {
            "route": np.arange(1, len(self) + 1),
            "fibers": self.counts,
            "solved": solved.astype(np.int64),
            "weakest_link": self.weakest_link,
        }
        return {name: own[name] if name in own else per_fiber[name][self.best] for name in COLUMNS}

    @property
    def message(self) -> str:
        """What was found in one or two sentences; if nothing was, why, and what to change."""
        s = self.search
        if len(self):
            more = f", and {self.unlisted} more that are not listed" if self.unlisted else ""
            names = f"{self.source!r} reach {self.target!r}"
            return (
                f"{len(self.tractogram):,} fibers from {names} on {len(self)} routes{more}; "
                f"{int(self.tractogram.per_fiber['solved'].sum()):,} of them by the two-point solver."
            )
        at_once = s.sampled - sum(s.stops.values())
        parts = [(at_once, *_AT_SEED), *((n, *_ENDS[why]) for why, n in s.stops.items())]
        parts = sorted((part for part in parts if part[0] > s.sampled / 200), key=lambda part: -part[0])
        ends = ", ".join(f"{100 * n / s.sampled:.0f} % {where}" for n, where, _ in parts)
        advice = next((to_do for _, _, to_do in parts), "launch more rays")
        near = f"the nearest came within {s.closest_mm:.1f} mm" if np.isfinite(s.closest_mm) else "none came near it"
        return (
            f"None of {s.launched:,} rays from {self.source!r} reaches {self.target!r}: {near}, and they ended {ends}. "
            f"To change that, {advice}."
        )
