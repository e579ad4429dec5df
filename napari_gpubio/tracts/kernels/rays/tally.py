"""Results of a backend: finished fibers and their numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
STATS = 7  # numbers of a ray; see `Partial`


@dataclass(frozen=True, eq=False, slots=True)
class Partial:
    """Finished fibers of one chunk.

    Parameters
    ----------
    start
        Global index of the first fiber.
    points
        Shape (P, 3), float32, world mm.
    fa
        FA at each point, shape (P,), float32.
    offsets
        Shape (F + 1,).
    reasons
        Stop reason of each ray, shape (F, 1) or (F, 2): forwards, backwards.
    stats
        Numbers of each ray, shape (F, rays, 7): length (mm), Riemannian length (mm), largest drift, samples, and the
        sums of FA, alignment and FA x alignment over the samples.
    """

    start: int
    points: npt.NDArray[np.float32]
    fa: npt.NDArray[np.float32]
    offsets: npt.NDArray[np.int64]
    reasons: npt.NDArray[np.uint8]
    stats: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1


def no_fibers(both_ways: bool) -> Partial:
    """Return a chunk of no fibers."""
    rays = 2 if both_ways else 1
    return Partial(
        start=0,
        points=np.empty((0, 3), np.float32),
        fa=np.empty(0, np.float32),
        offsets=np.zeros(1, np.int64),
        reasons=np.empty((0, rays), np.uint8),
        stats=np.empty((0, rays, STATS), np.float32),
    )
