"""Results of a bootstrap: where its fibers pass, and how far their numbers spread."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.tracts.model import Tractogram

Array = npt.NDArray[Any]
FILES = ("probability.nii.gz", "fibers.trx", "repeats.trx", "intervals.csv")  # of a bootstrap that is saved


class Interval(NamedTuple):
    """A number of the fibers of the fit, and the percentiles of it over the repeats."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Bootstrap:
    """Fibers of a fit, and what they become where its residuals fall otherwise.

    Parameters
    ----------
    fibers
        Those of the fit.
    visits
        Number of repeats of which at least one fiber passes the voxel, int32, shape (X, Y, Z).
    repeats
        Number of repeats that were done.
    numbers
        Mean of each number over the fibers of each repeat, shape (repeats,), NaN where a repeat has no fiber, and
        ``fibers``, their number.
    kept
        Fibers of the first repeats, with ``repeat`` in ``per_fiber``.
    notes
        What was found about the repeats, in sentences for the user; those about the fit are with its tensors.
    parameters
        How it was made; only what JSON can hold.
    complete
        False if it was stopped before its end.
    """

    fibers: Tractogram
    visits: npt.NDArray[np.int32]
    repeats: int
    numbers: Mapping[str, npt.NDArray[np.float64]]
    kept: Tractogram
    notes: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True

    @property
    def probability(self) -> npt.NDArray[np.float32]:
        """Share of the repeats of which at least one fiber passes the voxel, shape (X, Y, Z)."""
        return (self.visits / max(self.repeats, 1)).astype(np.float32)

    def interval(self, name: str, level: float = 0.95) -> Interval:
        """Return the percentile interval of a number (Efron and Tibshirani 1993, chapter 13).

        Parameters
        ----------
        name
            One of `numbers`: ``"length_mm"``, ``"mean_fa"``, ``"fibers"``, and so on. What varies is its mean over the
            fibers of a repeat; repeats without fibers are left out.
        level
            Share of the repeats within the interval.

        Raises
        ------
        InvalidInput
            If there is no such number or the level is not between 0 and 1.
        """
        if name not in self.numbers:
            raise InvalidInput(f"the repeats have no number {name!r}; they have {', '.join(self.numbers)}")
        check_level(level)
        values, estimate = self.numbers[name], fiber_numbers(self.fibers).get(name, np.nan)
        values = values[np.isfinite(values)]
        if not len(values):
            return Interval(estimate, np.nan, np.nan)
        low, high = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2])
        return Interval(estimate, float(low), float(high))

    def table(self, level: float = 0.95) -> str:
        """Return the intervals of all numbers as comma-separated lines: number, estimate, low, high."""
        rows = [(name, *self.interval(name, level)) for name in self.numbers]
        lines = [f"{name},{estimate:.7g},{low:.7g},{high:.7g}" for name, estimate, low, high in rows]
        return "\n".join(["number,estimate,low,high", *lines]) + "\n"

    def save(self, folder: str | Path) -> None:
        """Write ``probability.nii.gz``, ``fibers.trx`` (of the fit), ``repeats.trx`` and ``intervals.csv`` to a folder.

        InvalidInput if it cannot be made or written to.
        """
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"the folder {folder} cannot be made: {error.strerror}; choose another") from error
        probability, fibers, repeats, intervals = (folder / name for name in FILES)
        write_volume(probability, self.probability, self.fibers.affine)
        self.fibers.save(fibers)
        self.kept.save(repeats)
        with atomic_write(intervals) as part:
            part.write_text(self.table(), encoding="utf-8")


def check_level(level: float) -> None:
    """Raise InvalidInput if it is not between 0 and 1."""
    if not 0 < level < 1:
        raise InvalidInput(f"the level of the interval is {level}; give a share between 0 and 1, such as 0.95")


def fiber_numbers(fibers: Tractogram) -> dict[str, float]:
    """Mean of each number of fibers that is a measurement, NaN if there are none, and how many ``fibers`` there are."""
    found = {"fibers": float(len(fibers))}
    for name, values in fibers.per_fiber.items():
        if np.ndim(values) == 1 and np.asarray(values).dtype.kind == "f":
            found[name] = float(np.mean(values, dtype=np.float64)) if len(fibers) else np.nan
    return found
