"""Fibers as the same number of points each, evenly spaced along their length."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tracts.model import Tractogram

Array = npt.NDArray[Any]


class _Places(NamedTuple):
    """Where new points lie: the point before each and the share of the way to the next one, both (F, count)."""

    before: npt.NDArray[np.int64]
    share: npt.NDArray[np.float64]


def resample(fibers: Tractogram, count: int) -> npt.NDArray[np.float64]:
    """Points at equal distances along each fiber, the two ends included; linear between the fiber's own points.

    Parameters
    ----------
    fibers
        Each of at least one point.
    count
        Points of each fiber, at least 2.

    Returns
    -------
    ndarray
        Shape (F, count, 3), world mm.

    Raises
    ------
    InvalidInput
        If ``count`` is below 2 or a fiber has no point.
    """
    return _between(fibers.points, _places(fibers, count))


def resample_values(fibers: Tractogram, values: Array, count: int) -> npt.NDArray[np.float64]:
    """Numbers of points, shape (P,) or (P, k), at the places that `resample` gives: shape (F, count) or (F, count, k).

    InvalidInput if there is not one for each point.
    """
    if len(values) != len(fibers.points):
        raise InvalidInput(f"there are {len(values)} values for {len(fibers.points)} points; give one for each")
    return _between(values, _places(fibers, count))


def arc_lengths_mm(fibers: Tractogram) -> npt.NDArray[np.float64]:
    """Length along its fiber at which each point lies, shape (P,)."""
    steps = np.zeros(len(fibers.points))
    steps[1:] = np.linalg.norm(np.diff(fibers.points.astype(np.float64), axis=0), axis=1)
    firsts = fibers.offsets[:-1][fibers.counts > 0]
    steps[firsts] = 0.0
    total = np.cumsum(steps)
    return np.asarray(total - np.repeat(total[firsts], fibers.counts[fibers.counts > 0]))


def _places(fibers: Tractogram, count: int) -> _Places:
    if count < 2:
        raise InvalidInput(f"fibers cannot be resampled to {count} points; give at least 2, one for each end")
    if (fibers.counts == 0).any():
        raise InvalidInput(f"fiber {int(np.argmin(fibers.counts))} has no points; leave it out")
    along, last = arc_lengths_mm(fibers), fibers.offsets[1:] - 1
    room = along[last] + 1.0  # puts the fibers one behind the other on one axis, each with a gap of 1 mm
    begins = np.concatenate([[0.0], np.cumsum(room)[:-1]]) if len(fibers) else np.zeros(0)
    wanted = along[last][:, None] * np.linspace(0.0, 1.0, count)
    axis = along + np.repeat(begins, fibers.counts)
    before = np.searchsorted(axis, wanted + begins[:, None], side="right") - 1
    before = np.clip(before, fibers.offsets[:-1, None], np.maximum(last - 1, fibers.offsets[:-1])[:, None])
    after = np.minimum(before + 1, last[:, None])
    step = along[after] - along[before]
    share = np.divide(wanted - along[before], step, out=np.zeros_like(wanted), where=step > 0)
    return _Places(before, share.clip(0.0, 1.0))


def _between(values: Array, places: _Places) -> npt.NDArray[np.float64]:
    values = values.astype(np.float64)
    share = places.share.reshape(*places.share.shape, *(1,) * (values.ndim - 1))
    after = np.minimum(places.before + 1, max(len(values) - 1, 0))
    return np.asarray((1.0 - share) * values[places.before] + share * values[after])
