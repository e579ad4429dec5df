"""Results of a backend: finished fibers and their numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.tractograms.model import StopReason

Array = npt.NDArray[Any]
# The numbers of a ray; see `Partial`. Of the kernels too.
PATH, RIEMANNIAN, DRIFTED, SAMPLES, TOTAL, ALIGNED, BOTH, AT_SEED = range(8)
STATS = 8


@dataclass(frozen=True, eq=False, slots=True)
class Partial(ShortRepr):
    """Finished fibers of one chunk.

    Parameters
    ----------
    start, launched
        Global index of the first fiber that was launched, and how many were.
    which
        Those that were kept, shape (F,), counted from the first.
    points
        Shape (P, 3), float32, world mm.
    values
        A number of each point, such as FA, shape (P,), float32.
    offsets
        Shape (F + 1,).
    reasons
        Stop reason of each ray, shape (F, 1) or (F, 2): forwards, backwards.
    stats
        Numbers of each ray, shape (F, rays, 8): length (mm), Riemannian length (mm), largest drift, samples, the sums
        of the points' number, of alignment, and of their product over the samples, and the number at the seed.
    """

    start: int
    launched: int
    which: npt.NDArray[np.int64]
    points: npt.NDArray[np.float32]
    values: npt.NDArray[np.float32]
    offsets: npt.NDArray[np.int64]
    reasons: npt.NDArray[np.uint8]
    stats: Array


def kept_fibers(
    per_ray: npt.NDArray[np.int64], stats: Array, min_length_mm: float
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Which fibers are long enough, and where their points are packed.

    Parameters
    ----------
    per_ray
        Points of each ray, the seed not counted, shape (F, rays).
    stats
        As in `Partial`.
    min_length_mm
        Of a fiber.

    Returns
    -------
    tuple
        A boolean for each fiber, shape (F,), and offsets, shape (F + 1,), in which the others have no points.
    """
    points = per_ray.sum(axis=1) + 1
    kept = (stats[:, :, 0].sum(axis=1) >= min_length_mm) & (points >= 2)
    return kept, np.concatenate([[0], np.cumsum(np.where(kept, points, 0))])


def left_over(reasons: npt.NDArray[np.uint8], lengths: Array, max_length_mm: float) -> Array:
    """How long rays may be whose other way ended before it used its half of a fiber's length.

    Parameters
    ----------
    reasons, lengths
        Stop reason and length (mm) of each ray, two a fiber, shape (R,).
    max_length_mm
        Of a fiber.

    Returns
    -------
    ndarray
        Maximum lengths (mm), shape (R,); -1 for rays that stay as they are.
    """
    at_limit = reasons.reshape(-1, 2) == StopReason.LENGTH
    goes_on = at_limit & ~at_limit[:, ::-1]
    limits = np.where(goes_on, max_length_mm - lengths.reshape(-1, 2)[:, ::-1], -1.0)
    return limits.ravel().astype(lengths.dtype)


def joined(parts: Sequence[Partial]) -> Partial:
    """Put together what was kept of one chunk, traced in pieces."""
    if len(parts) == 1:
        return parts[0]
    shifts = np.cumsum([0, *(part.offsets[-1] for part in parts[:-1])])
    offsets = [part.offsets[1:] + shift for part, shift in zip(parts, shifts, strict=True)]
    return Partial(
        start=parts[0].start,
        launched=parts[0].launched,
        which=np.concatenate([part.which for part in parts]),
        points=np.concatenate([part.points for part in parts]),
        values=np.concatenate([part.values for part in parts]),
        offsets=np.concatenate([[0], *offsets]),
        reasons=np.concatenate([part.reasons for part in parts]),
        stats=np.concatenate([part.stats for part in parts]),
    )


def arrivals(reasons: npt.NDArray[np.uint8], per_fiber: int) -> npt.NDArray[np.int64]:
    """Which fibers have a ray that reached the target, from the stop reasons of all rays, shape (R,)."""
    return np.flatnonzero((reasons.reshape(-1, per_fiber) == StopReason.TARGET).any(axis=1))


def no_fibers(both_ways: bool) -> Partial:
    """Return a chunk of no fibers."""
    rays = 2 if both_ways else 1
    return Partial(
        start=0,
        launched=0,
        which=np.empty(0, np.int64),
        points=np.empty((0, 3), np.float32),
        values=np.empty(0, np.float32),
        offsets=np.zeros(1, np.int64),
        reasons=np.empty((0, rays), np.uint8),
        stats=np.empty((0, rays, STATS), np.float32),
    )
