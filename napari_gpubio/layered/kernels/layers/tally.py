"""The integer tallies of a layered simulation, batch by batch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.layered.kernels.layers.problem import LayeredProblem
from napari_gpubio.optics.batches import BatchPart, Ranges, Tally, Words, joined


@dataclass(eq=False)
class BatchTally(BatchPart, ShortRepr):
    """The tally of a batch, or of some of its photons; the order of its numbers is `LayeredProblem`'s."""

    numbers: Words


@dataclass(eq=False, kw_only=True)
class LayerTally(Tally):
    """Tallies of some photons of a layered simulation, by the batches that have been begun."""

    batches: dict[int, BatchTally] = field(default_factory=dict)

    @classmethod
    def empty(cls, problem: LayeredProblem) -> "LayerTally":
        """Return the tallies of no photons."""
        return cls(batch_size=problem.batch_size, key=problem.key)

    def done(self) -> dict[int, Ranges]:
        """Ranges of photons that are done, for each batch that has been begun."""
        return {batch: part.done for batch, part in self.batches.items()}

    def copy(self) -> "LayerTally":
        """Return a copy that further photons do not change."""
        return LayerTally(batch_size=self.batch_size, key=self.key, batches=dict(self.batches))

    def merge(self, other: "LayerTally", problem: LayeredProblem) -> None:
        """Add the tallies of other photons of the same problem."""
        for batch, part in other.batches.items():
            mine = self.batches.get(batch)
            if mine is None:
                self.batches[batch] = part
            else:
                self.batches[batch] = BatchTally(joined(mine.done + part.done), mine.numbers + part.numbers)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as named arrays, for a file."""
        arrays = super().to_arrays()
        for index, batch in self.batches.items():
            arrays |= {f"done_{index}": np.array(batch.done, np.int64), f"numbers_{index}": batch.numbers}
        return arrays

    @classmethod
    def _fields_of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
        indices = [int(name.removeprefix("done_")) for name in arrays if name.startswith("done_")]
        done = {i: [(a, b) for a, b in arrays[f"done_{i}"].tolist()] for i in indices}
        return {"batches": {i: BatchTally(done[i], arrays[f"numbers_{i}"]) for i in indices}}
