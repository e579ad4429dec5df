"""Sources as the backends take them: one, or a table of several with the chances that a photon starts at each."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]


class SourceTable(NamedTuple):
    """One source or several, end to end.

    Parameters
    ----------
    numbers
        `source_numbers` of each, shape (S * SOURCE_NUMBERS,).
    pattern, angles
        Running sums of all patterns, and all tables of launch angles.
    chances
        Running sum of the chances of the sources, the last one 1; shape (S,).
    places
        Of each source its kind, columns of its pattern, and where that begins and ends; shape (S, 4).
    """

    numbers: Floats
    pattern: Floats
    angles: Floats
    chances: Floats
    places: Integers

    @property
    def is_several(self) -> bool:
        """Whether photons start at one of several sources."""
        return len(self.chances) > 1


def running_chances(weights: Sequence[float]) -> Floats:
    """Running sum of the chances of sources with some weights, the last one 1."""
    sums = np.cumsum(np.asarray(weights, np.float64))
    return np.asarray((sums / sums[-1]).astype(np.float32))


def source_table(parts: Sequence[Any]) -> SourceTable:
    """Return the table of some sources from the `VoxelProblem` of each alone."""
    ends = np.cumsum([len(part.pattern) for part in parts])
    starts = ends - [len(part.pattern) for part in parts]
    kinds, columns = [part.kind for part in parts], [part.pattern_columns for part in parts]
    numbers = np.array([part.source_numbers for part in parts])
    angles = [part.angles for part in parts]
    numbers[:, 22] = np.cumsum([0, *map(len, angles)])[:-1]
    return SourceTable(
        numbers=numbers.ravel(),
        pattern=np.concatenate([part.pattern for part in parts]),
        angles=np.concatenate(angles),
        chances=running_chances([part.source.weight for part in parts]),
        places=np.stack([kinds, columns, starts, ends], axis=1).astype(np.int32),
    )
