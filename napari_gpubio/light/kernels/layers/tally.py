"""The integer tallies of a layered simulation, batch by batch: what runs hand over, merge, save and resume."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.kernels.layers.problem import LayeredProblem
from napari_gpubio.light.scheduling import Ranges, joined, missing_ranges

Words = npt.NDArray[np.uint64]


@dataclass(eq=False)
class BatchTally:
    """The tally of a batch, or of some of its photons.

    Parameters
    ----------
    done
        Ranges (start, stop) of the photons that are done.
    numbers
        The tally; its order is `LayeredProblem`'s.
    """

    done: Ranges
    numbers: Words

    @property
    def photons(self) -> int:
        """Number of photons done."""
        return sum(stop - start for start, stop in self.done)


@dataclass(eq=False)
class LayeredPartial:
    """Tallies of some photons of a problem.

    Parameters
    ----------
    batch_size, key
        See `LayeredProblem`.
    batches
        Tallies of the batches that have been begun.
    """

    batch_size: int
    key: str
    batches: dict[int, BatchTally] = field(default_factory=dict)

    @classmethod
    def empty(cls, problem: LayeredProblem) -> "LayeredPartial":
        """Return the tallies of no photons."""
        return cls(problem.batch_size, problem.key)

    @property
    def photons(self) -> int:
        """Number of photons done."""
        return sum(batch.photons for batch in self.batches.values())

    @property
    def photons_up_to(self) -> int:
        """One more than the largest index of a photon that is done."""
        return max((batch.done[-1][1] for batch in self.batches.values()), default=0)

    def copy(self) -> "LayeredPartial":
        """Return a copy that further photons do not change."""
        return LayeredPartial(self.batch_size, self.key, dict(self.batches))

    def add(self, other: "LayeredPartial", problem: LayeredProblem) -> None:  # noqa: ARG002 - as every partial
        """Add the tallies of other photons of the same problem."""
        for batch, part in other.batches.items():
            mine = self.batches.get(batch)
            if mine is None:
                self.batches[batch] = part
            else:
                self.batches[batch] = BatchTally(joined(mine.done + part.done), mine.numbers + part.numbers)

    def missing(self, problem: LayeredProblem) -> Ranges:
        """Ranges of photons that are not done, each within one batch, in order."""
        return missing_ranges(problem, {batch: part.done for batch, part in self.batches.items()})

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as named arrays, for a file."""
        arrays: dict[str, npt.NDArray[Any]] = {"batch_size": np.array(self.batch_size), "key": np.array(self.key)}
        for index, batch in self.batches.items():
            arrays |= {f"done_{index}": np.array(batch.done, np.int64), f"numbers_{index}": batch.numbers}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "LayeredPartial":
        """Undo `to_arrays`.

        Raises
        ------
        InvalidInput
            If an array is missing.
        """
        try:
            indices = [int(name.removeprefix("done_")) for name in arrays if name.startswith("done_")]
            done = {i: [(a, b) for a, b in arrays[f"done_{i}"].tolist()] for i in indices}
            batches = {i: BatchTally(done[i], arrays[f"numbers_{i}"]) for i in indices}
            return cls(int(arrays["batch_size"]), str(arrays["key"]), batches)
        except KeyError as error:
            raise InvalidInput(f"the saved state lacks {error}; it was not written by this version") from error
