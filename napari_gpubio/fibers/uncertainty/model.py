"""Results of a bootstrap: where its fibers pass, and how far their numbers spread."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import write_text
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.text import delimited
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.fibers.uncertainty.intervals import SHARE, Interval, Limits, Repeated, limits_of
from napari_gpubio.tractograms.io.tractograms import write_tractogram
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
COLUMNS = ("number", "estimate", "low", "high", "fit", "bias")
FILES = ("probability.nii.gz", "fibers.trx", "repeats.trx", "intervals.csv")  # of a bootstrap that is saved
_SHARES = ("mean_fa", "alignment", "alignment_fa")  # from 0 to 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Bootstrap(ShortRepr):
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
    numbers_twice, kept_twice
        The same of the first repeats, up to 100, with a second draw of noise added, from which bias is estimated.
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
    numbers_twice: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    kept_twice: Tractogram | None = None

    @property
    def probability(self) -> npt.NDArray[np.float32]:
        """Share of the repeats of which at least one fiber passes the voxel, shape (X, Y, Z)."""
        return (self.visits / max(self.repeats, 1)).astype(np.float32)

    def interval(self, name: str, level: float = 0.95) -> Interval:
        """Return the estimate of a number without the bias of noise, and its interval, which contains the estimate.

        `of_fit` is the number of the fit, `bias` how far they are apart; `Repeated.interval` tells how they are found.

        Parameters
        ----------
        name
            One of `numbers`: ``"length_mm"``, ``"mean_fa"``, ``"fibers"``, and so on. What varies is its mean over the
            fibers of a repeat; repeats without fibers are left out.
        level
            Share of such intervals that hold the number of a scan without noise.

        Returns
        -------
        Interval
            NaN if all repeats have no fiber.

        Raises
        ------
        InvalidInput
            If there is no such number or the level is not between 0 and 1.

        Examples
        --------
        >>> from napari_gpubio import diffusion, fibers
        >>> scan = diffusion.phantom.load_brain_phantom()
        >>> result = fibers.bootstrap(scan, [(0.0, -5.0, 22.0)], resampling=fibers.BootstrapSettings(repeats=20))
        >>> estimate, low, high = result.interval("mean_fa")
        >>> 0 < low < estimate < high < 1
        True
        >>> abs(result.of_fit("mean_fa") - result.bias("mean_fa") - estimate) < 1e-9
        True
        """
        found = self._repeated(name)
        return Interval(*(float(value) for value in found.interval(level, self._limits(name, found))))

    def of_fit(self, name: str) -> float:
        """Return a number of the fibers of the fit, NaN without fibers; InvalidInput as `interval`."""
        return float(self._repeated(name).fit)

    def bias(self, name: str) -> float:
        """Return what noise adds to a number of the fit: that less the estimate; InvalidInput as `interval`."""
        return self.of_fit(name) - self.interval(name).estimate

    def shifted(self) -> tuple[str, ...]:
        """Return the names of numbers whose bias is larger than their spread."""
        return tuple(name for name in self.numbers if self._repeated(name).is_shifted)

    def table(self, level: float = 0.95) -> str:
        """Return all numbers as comma-separated lines: number, estimate, low, high, fit, bias; see `interval`."""
        cells = [[name, *(f"{value:.7g}" for value in values)] for name, *values in self.rows(level)]
        return delimited([COLUMNS, *cells])

    def rows(self, level: float = 0.95) -> list[tuple[str, float, float, float, float, float]]:
        """Return all numbers, each with its values in the order of `COLUMNS`; see `interval`."""
        return [(name, *self.interval(name, level), self.of_fit(name), self.bias(name)) for name in self.numbers]

    def _repeated(self, name: str) -> Repeated:
        if name not in self.numbers:
            raise InvalidInput(f"the repeats have no number {name!r}; they have {', '.join(self.numbers)}")
        fit = np.asarray(fiber_numbers(self.fibers).get(name, np.nan))
        return Repeated(fit, self.numbers[name], np.asarray(self.numbers_twice.get(name, ())))

    def _limits(self, name: str, found: Repeated) -> Limits:
        """Least and largest value that a number can have."""
        if name in _SHARES:
            return SHARE
        most = self.fibers.parameters.get("launched", np.inf) if name == "fibers" else np.inf
        return limits_of(found)[0], float(most)

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
        write_tractogram(fibers, self.fibers)
        write_tractogram(repeats, self.kept)
        self.save_table(intervals)

    def save_table(self, path: str | Path) -> None:
        """Write the intervals as CSV; see `table`."""
        write_text(path, self.table())


def fiber_numbers(fibers: Tractogram) -> dict[str, float]:
    """Mean of each number of fibers that is a measurement, NaN if there are none, and how many ``fibers`` there are."""
    found = {"fibers": float(len(fibers))}
    for name, values in fibers.per_fiber.items():
        if np.ndim(values) == 1 and np.asarray(values).dtype.kind == "f":
            found[name] = float(np.mean(values, dtype=np.float64)) if len(fibers) else np.nan
    return found
