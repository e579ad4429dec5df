"""How sure the flow between regions is: its matrices over repeats of a bootstrap, intervals, and shares of ranks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.archives import opened_npz
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, existing_file, write_rows
from napari_gpubio.core.foreign import json_of
from napari_gpubio.fibers.flow.model import OVERLAP, FlowMatrices, ranks_of
from napari_gpubio.fibers.uncertainty.intervals import Repeated, check_level
from napari_gpubio.tractograms.connectome.model import RegionMatrices

Array = npt.NDArray[Any]
LEVEL, FIRST = 0.95, 3


class RankedTarget(NamedTuple):
    """A region that a source reaches: its number in the flow of the fit, its rank, and how far both may be off.

    ``low``, ``high``: interval of the number; ``rank_low``, ``rank_high``: of the rank; ``among_first``: share of the
    repeats in which the region is among the first ones.
    """

    label: int
    name: str
    value: float
    low: float
    high: float
    rank: int
    rank_low: int
    rank_high: int
    among_first: float


@dataclass(frozen=True, eq=False, kw_only=True)
class FlowRepeats(RegionMatrices):
    """Matrices of the flow between regions, of a fit and of repeats in which its residuals fall otherwise.

    Parameters
    ----------
    fit
        The flow along the FODs of the scan.
    overlaps, arrived
        Of the repeats, as `FlowMatrices` has them, shape (N, R, R), float32.
    complete
        False if it was stopped before its end.
    notes
        What to know of the numbers, as sentences.
    parameters
        How it was made, as JSON can hold it.
    """

    fit: FlowMatrices
    overlaps: npt.NDArray[np.float32]
    arrived: npt.NDArray[np.float32]
    complete: bool = True
    notes: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def repeats(self) -> int:
        """Number of repeats that were done."""
        return len(self.overlaps)

    def repeat(self, number: int) -> FlowMatrices:
        """Return the matrices of a repeat, from 0 on."""
        overlaps, arrived = (one[number].astype(np.float64) for one in (self.overlaps, self.arrived))
        return replace(self.fit, overlaps=overlaps, arrived=arrived, notes=(), parameters={})

    def matrices(self, of: str = OVERLAP) -> npt.NDArray[np.float64]:
        """Return a matrix of every repeat, shape (N, R, R); see `FlowMatrices.matrix`."""
        found = [self.repeat(n).matrix(of) for n in range(self.repeats)]
        return np.array(found).reshape(-1, len(self), len(self))

    def ranks(self, of: str = OVERLAP) -> npt.NDArray[np.int64]:
        """Return the ranks of every repeat, shape (N, R, R); see `FlowMatrices.ranks`."""
        found = [self.repeat(n).ranks(of) for n in range(self.repeats)]
        return np.array(found, np.int64).reshape(-1, len(self), len(self))

    def mean(self, of: str = OVERLAP) -> npt.NDArray[np.float64]:
        """Return the mean of a matrix over the repeats, shape (R, R), NaN if there are none."""
        return np.asarray(self.matrices(of).mean(axis=0)) if self.repeats else np.full((len(self), len(self)), np.nan)

    def interval(self, of: str = OVERLAP, level: float = LEVEL) -> tuple[Array, Array]:
        """Return the ends of the intervals of a matrix, (R, R) each, NaN without repeats.

        Shifts by noise are taken out and count among the errors; see `Repeated.interval`. Still they hold the number
        without noise less often than their level says: on a phantom 69 % of the overlaps and 44 % of the arrivals of
        true pairs at a signal-to-noise ratio of 12, since noise ends mass that no draw brings back. Ranks are surer.
        Arguments are those of `FlowMatrices.matrix`; InvalidInput if the level is not between 0
        and 1.
        """
        _, low, high = Repeated(self.fit.matrix(of), self.matrices(of), np.zeros(0)).interval(level, (0.0, np.inf))
        return low, high

    def rank_interval(
        self, of: str = OVERLAP, level: float = LEVEL
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the ends of the intervals of the ranks, (R, R) each.

        They hold the rank of the fit, and the percentiles of the repeats, both as they are and less the shift by noise,
        which draws add to that of the scan. For scans of 60 directions on a phantom they hold the rank without noise of
        all true partners, and of 95 % or more of the other regions that have a number worth the name; regions with next
        to none stand in any order (``benchmarks/fibers_flow_repeats.py``). Arguments are those of `interval`.
        """
        check_level(level)
        fit, drawn = self.fit.ranks(of), self.matrices(of)
        if not self.repeats:
            return fit, fit
        shift, tail = drawn.mean(axis=0) - self.fit.matrix(of), 50 * (1 - level)
        low, high = fit, fit
        for ranks in (np.array([ranks_of(one - by) for one in drawn]) for by in (0.0, 2 * shift)):
            low = np.minimum(low, np.percentile(ranks, tail, axis=0, method="lower").astype(np.int64))
            high = np.maximum(high, np.percentile(ranks, 100 - tail, axis=0, method="higher").astype(np.int64))
        return low, high

    def among_first(self, count: int = FIRST, of: str = OVERLAP) -> npt.NDArray[np.float64]:
        """Return in which share of the repeats each region is among the first of the row's, (R, R), 0 for itself."""
        ranks = self.ranks(of)
        return np.asarray(((ranks >= 1) & (ranks <= count)).sum(axis=0) / max(self.repeats, 1))

    def ranked(self, label: int, of: str = OVERLAP, *, level: float = LEVEL, first: int = FIRST) -> list[RankedTarget]:
        """Return the regions that a source reaches, the largest number first.

        Parameters
        ----------
        label
            Of the source.
        of
            One of `MATRICES`.
        level
            Of the intervals.
        first
            Among how many first regions a target is looked for in each repeat.

        Raises
        ------
        InvalidInput
            If there is no such label or matrix, or the level is not between 0 and 1.
        """
        place = self.place_of(label)
        low, high = self.interval(of, level)
        rank_low, rank_high = self.rank_interval(of, level)
        ranks, among, places = (
            self.fit.ranks(of),
            self.among_first(first, of),
            {int(n): k for k, n in enumerate(self.labels)},
        )
        rows = []
        for other, name, value in self.fit.ranked(label, of):
            at = place, places[other]
            numbers = value, float(low[at]), float(high[at])
            rows.append(
                RankedTarget(
                    other, name, *numbers, int(ranks[at]), int(rank_low[at]), int(rank_high[at]), float(among[at])
                )
            )
        return rows

    def save_ranked(self, path: str | Path, label: int, of: str = OVERLAP, **how: Any) -> None:
        """Write `ranked` as CSV, with a header of names; InvalidInput if it cannot be written."""
        write_rows(path, [RankedTarget._fields, *self.ranked(label, of, **how)])

    @property
    def message(self) -> str:
        """What was done, in a sentence."""
        return f"Flow of {len(self):,} regions in {self.repeats:,} repeats of the residual bootstrap."

    def save(self, path: str | Path) -> None:
        """Write it as npz, which `load` reads."""
        about = {"names": self.names, "notes": self.notes, "complete": self.complete, "parameters": self.parameters}
        about["fit"] = {"notes": self.fit.notes, "complete": self.fit.complete, "parameters": self.fit.parameters}
        with atomic_write(path) as part, part.open("wb") as file:
            np.savez_compressed(
                file, labels=self.labels, voxels=self.voxels, overlaps=self.overlaps, arrived=self.arrived,
                fit_overlaps=self.fit.overlaps, fit_arrived=self.fit.arrived, about=np.array(json.dumps(about)),
            )  # fmt: skip

    @staticmethod
    def load(path: str | Path) -> "FlowRepeats":
        """Read what `save` wrote; InvalidInput if it is something else."""
        path = existing_file(path)
        try:
            with opened_npz(path) as file:
                file.check_size()
                about = json_of(str(file.array("about")), path.name)
                regions: dict[str, Any] = {name: file.array(name) for name in ("labels", "voxels")}
                regions["names"] = tuple(map(str, about["names"]))
                matrices = {name: file.array(name) for name in ("overlaps", "arrived", "fit_overlaps", "fit_arrived")}
            fit = FlowMatrices(
                **regions, **_told(about["fit"]), overlaps=matrices["fit_overlaps"], arrived=matrices["fit_arrived"]
            )
            found = FlowRepeats(
                **regions, **_told(about), fit=fit, overlaps=matrices["overlaps"], arrived=matrices["arrived"]
            )
        except InvalidInput:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{path.name} holds no repeats of a flow of this program; make them anew") from error
        count = len(found.names)
        shapes = {one.shape for one in (found.overlaps, found.arrived)}
        of_fit = {one.shape for one in (fit.overlaps, fit.arrived)}
        if found.labels.shape != (count,) or shapes != {(found.repeats, count, count)} or of_fit != {(count, count)}:
            raise InvalidInput(f"{path.name}: its matrices do not fit its {count} regions; the file is damaged")
        return found


def _told(about: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "notes": tuple(map(str, about["notes"])),
        "complete": bool(about["complete"]),
        "parameters": dict(about["parameters"]),
    }
