"""What has been counted, in integers, so that parts of it add in any order."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True)
class Tally:
    """Counts of all organs.

    Parameters
    ----------
    counts
        Weight in each bin, shape (organs, bins), int64.
    sums
        Weight times dose in fine steps, shape (organs,), int64.
    outside
        Weight outside the dose, shape (organs,), int64.
    low, high
        Least and largest scaled dose, shape (1, organs), float32. Without samples they are infinite and 0.
    """

    counts: Array
    sums: Array
    outside: Array
    low: Array
    high: Array

    def merge(self, other: "Tally") -> None:
        """Add what another run has counted."""
        for mine, theirs in ((self.counts, other.counts), (self.sums, other.sums), (self.outside, other.outside)):
            mine += theirs
        np.minimum(self.low, other.low, out=self.low)
        np.maximum(self.high, other.high, out=self.high)

    def same_organs(self, other: "Tally") -> Array:
        """Of which organs another run has counted exactly the same, shape (organs,), bool."""
        same = (self.counts == other.counts).all(axis=1) & (self.sums == other.sums) & (self.outside == other.outside)
        return same & (self.low == other.low).all(axis=0) & (self.high == other.high).all(axis=0)
