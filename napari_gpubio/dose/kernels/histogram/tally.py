"""What has been counted, in integers, so that parts of it add in any order; and the curves made of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.dose.kernels.histogram.dose_grid import FINE_STEPS
from napari_gpubio.dose.kernels.histogram.problem import Organ, Problem
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.dose.model import MM3_PER_CC
from napari_gpubio.dose.settings import DvhSettings

Array = npt.NDArray[Any]
_ADDED = "counts", "sums", "rests", "outside"


@dataclass(frozen=True, eq=False, slots=True)
class Tally(ShortRepr):
    """Counts of all organs."""

    counts: Array  # weight in each bin, shape (organs, bins), int64
    sums: Array  # weight times dose in fine steps, shape (organs,), int64
    rests: Array  # what of it is below a step, in parts of one, shape (organs,), int64
    outside: Array  # weight outside the dose, shape (organs,), int64
    low: Array  # least and largest scaled dose, shape (1, organs), float32. Without samples they are infinite and 0
    high: Array

    def merge(self, other: "Tally", problem: Problem) -> None:
        """Add what another run has counted."""
        for name in _ADDED:
            getattr(self, name)[:] += getattr(other, name)
        np.minimum(self.low, other.low, out=self.low)
        np.maximum(self.high, other.high, out=self.high)

    def same_organs(self, other: "Tally") -> Array:
        """Of which organs another run has counted exactly the same, shape (organs,), bool."""
        same = (self.counts == other.counts).all(axis=1)
        for name in _ADDED[1:]:
            same &= getattr(self, name) == getattr(other, name)
        return same & (self.low == other.low).all(axis=0) & (self.high == other.high).all(axis=0)


def make_dvhs(
    problem: Problem,
    tally: Tally,
    settings: DvhSettings,
    unit: str,
    *,
    before: tuple[Tally, tuple[Dvh, ...]] | None = None,
) -> tuple[Dvh, ...]:
    """Curves of all organs; ``unit`` is that of the dose.

    What has been made ``before`` of the same problem is taken over where nothing else was counted. InvalidInput if a
    structure leaves the dose grid and the settings refuse that.
    """
    same = tally.same_organs(before[0]) if before else ()
    return tuple(
        before[1][n] if before and same[n] else _Counts(problem, tally, n).dvh(settings, unit)
        for n in range(len(problem.organs))
    )


class _Counts:
    """What was counted of one organ, in cc and units of the dose."""

    def __init__(self, problem: Problem, tally: Tally, number: int) -> None:
        self.organ: Organ = problem.organs[number]
        self.unit_cc = self.organ.unit_mm3 / MM3_PER_CC
        self.edges = problem.bins.edges
        self.counts = tally.counts[number]
        self.weight = int(self.counts.sum())
        self.outside_cc = int(tally.outside[number]) * self.unit_cc
        grid, bins = problem.grid, problem.bins
        self.low = grid.least + grid.scale * float(tally.low[:, number].min())
        self.high = grid.least + grid.scale * float(tally.high[:, number].max())
        self.is_logarithmic = bool(bins.rule.logarithmic)
        self.zeros = int(self.counts[0]) if self.is_logarithmic else 0
        if self.weight:
            half = 0.5 * (self.weight - self.zeros)  # because steps are counted rounded down
            steps = int(tally.sums[number]) + (int(tally.rests[number]) + half) / FINE_STEPS
            self.mean = min(max(bins.least + bins.fine_step * steps / self.weight, self.low), self.high)

    def dvh(self, settings: DvhSettings, unit: str) -> Dvh:
        doses, volumes, mean = self._inside()
        if self.outside_cc > 0:
            if settings.outside == "refuse":
                raise InvalidInput(
                    f"{short_number(self.outside_cc)} cc of {self.organ.name!r} lie outside the dose grid; give a "
                    "larger dose, or choose outside='zero' or outside='exclude'"
                )
            if settings.outside == "zero":
                doses, volumes, mean = self._with_zero_dose(doses, volumes, mean)
        for array in (doses, volumes):  # a histogram that does not change is handed out again
            array.setflags(write=False)
        return Dvh(
            name=self.organ.name,
            unit=unit,
            doses=doses,
            volumes_cc=volumes,
            mean=mean,
            outside_cc=self.outside_cc,
            outside=settings.outside,
            color=self.organ.color,
            spacing_mm=self.organ.spacing_mm,
            resolution_cc=self.unit_cc,
            zero_cc=self.zeros * self.unit_cc if self.is_logarithmic else None,
            notes=self._notes(settings),
        )

    def _inside(self) -> tuple[Array, Array, float]:
        """The curve of what lies in the dose: from the least dose over the edges between to the largest."""
        if not self.weight:
            return np.empty(0), np.empty(0), float("nan")
        first, end = np.searchsorted(self.edges, self.low, side="right"), np.searchsorted(self.edges, self.high)
        above = np.cumsum(self.counts[::-1])[::-1][first:end]  # at each edge between
        doses = np.concatenate([[self.low], self.edges[first:end], [self.high]])
        volumes = np.concatenate([[self.weight], above, [0]]) * self.unit_cc
        if self.zeros:  # as a step: there is nothing between 0 and the least bin with something in it
            doses = np.insert(doses, 1, 0.0)
            volumes = np.insert(volumes, 1, (self.weight - self.zeros) * self.unit_cc)
        needed = _no_flats(volumes)
        return doses[needed], volumes[needed], self.mean

    def _with_zero_dose(self, doses: Array, volumes: Array, mean: float) -> tuple[Array, Array, float]:
        """The curve with the volume outside the grid at dose 0."""
        inside = volumes[0] if len(volumes) else 0.0
        total = inside + self.outside_cc
        at = int(np.searchsorted(doses, 0.0))
        raised = volumes[:at] + self.outside_cc
        new_doses = np.concatenate([doses[:at], [0.0, 0.0], doses[at:]])
        step = volumes[at] if at < len(doses) and doses[at] == 0 else np.interp(0.0, doses, volumes) if inside else 0.0
        new_volumes = np.concatenate([raised, [step + self.outside_cc, step], volumes[at:]])
        return new_doses, new_volumes, (mean * inside / total if inside else 0.0)

    def _notes(self, settings: DvhSettings) -> tuple[str, ...]:
        notes = list(self.organ.notes)
        if self.outside_cc > 0:
            how = "counted with no dose" if settings.outside == "zero" else "left out"
            notes.append(
                f"{short_number(self.outside_cc)} cc of {self.organ.name!r} lie outside the dose grid and are {how}"
            )
        if not self.weight and not self.outside_cc:
            notes.append(f"{self.organ.name!r} is empty")
        return tuple(notes)


def _no_flats(volumes: Array) -> npt.NDArray[np.bool_]:
    """Which points of a curve do not lie inside a stretch of constant volume."""
    changes = volumes[:-1] != volumes[1:]
    needed = np.ones(len(volumes), bool)
    needed[1:-1] = changes[:-1] | changes[1:]
    return needed
