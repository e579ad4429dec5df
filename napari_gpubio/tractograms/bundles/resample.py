"""Fibers as the same number of points each, evenly spaced along their length."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
_MIN_FIBERS = 200  # worth a thread


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
    return resample_values(fibers, fibers.points, count)


def resample_values(fibers: Tractogram, values: Array, count: int) -> npt.NDArray[np.float64]:
    """Numbers of points, shape (P,) or (P, k), at the places that `resample` gives: shape (F, count) or (F, count, k).

    InvalidInput if there is not one for each point, and as `resample`.
    """
    from napari_gpubio.core.jit import read_only, run_blocks
    from napari_gpubio.tractograms.kernels.profiles import interpolate_evenly

    if len(values) != len(fibers.points):
        raise InvalidInput(f"there are {len(values)} values for {len(fibers.points)} points; give one for each")
    if count < 2:
        raise InvalidInput(f"fibers cannot be resampled to {count} points; give at least 2, one for each end")
    if (fibers.counts == 0).any():
        raise InvalidInput(f"fiber {int(np.argmin(fibers.counts))} has no points; leave it out")
    table = np.asarray(values)
    kept = np.float32 if table.dtype == np.float32 else np.float64
    table = np.ascontiguousarray(table[:, None] if table.ndim == 1 else table, kept)
    points = np.ascontiguousarray(fibers.points)
    out = np.empty((len(fibers), count, table.shape[1]))
    offsets = np.ascontiguousarray(fibers.offsets)
    parts = (read_only(points), read_only(offsets), read_only(table), out)
    run_blocks(interpolate_evenly, len(fibers), *parts, least=_MIN_FIBERS)
    return out[..., 0] if np.ndim(values) == 1 else out
