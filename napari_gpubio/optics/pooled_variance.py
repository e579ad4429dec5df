"""Variances that neighbors help to know, of bins and voxels that few photons have reached.

Most of the light of a dark bin is in rare heavy photons. A bin that has not seen them has too small a value and too
small an error: the spread of its batches knows nothing of what is missing. Its neighbors have seen some. The variance
of a weight over its mean, which is about the weight that one photon brings, changes slowly from bin to bin; so a bin
worth few photons has only half of its variance from its own, and half is that ratio of the bins around it times the
weight that the nearest let expect here. One worth many keeps the more of its own.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_FEW = 100.0  # photons of equal weight that would know as much; a relative error of 10 %
# Weights of five bins in a row whose mean is right where light bends, too: where it falls by half from bin to bin, a
# plain mean of three is a sixth too much along each axis.
_CURVED = np.array([-0.1, 0.4, 0.4, 0.4, -0.1])
_LEAST = 0.5  # of the plain mean of three: a heavy photon in an outer one of the five must not make it small


def pooled_variance(
    value: Floats, variance: Floats, around: tuple[int, ...], inside: npt.NDArray[np.bool_] | None = None
) -> Floats:
    """Variances that neighbors help to know; see the head of this file.

    Parameters
    ----------
    value, variance
        What was estimated in each bin, and the variance that the bin's own photons give; of any shape.
    around
        Bins along each axis whose ratio of variance and value counts.
    inside
        Where there is anything to estimate; None: everywhere.
    """
    from scipy.ndimage import uniform_filter

    over, brought = (uniform_filter(part, around, mode="nearest") for part in (variance, value))
    known = brought > 0
    if inside is not None:
        known &= inside
    shared = np.divide(over * _expected(value, inside), brought, out=np.zeros(value.shape), where=known)
    worth = np.divide(value**2, variance, out=np.full(value.shape, np.inf), where=variance > 0)
    share = 0.5 * np.minimum(1.0, _FEW / np.maximum(worth, _FEW))
    return np.asarray(np.maximum(variance + share * (shared - variance), 0.0))


def _expected(value: Floats, inside: npt.NDArray[np.bool_] | None) -> Any:
    """What the nearest bins let expect in each; where some are outside, their plain mean."""
    from scipy.ndimage import correlate1d, uniform_filter

    plain = uniform_filter(value, 3, mode="nearest")
    curved = value
    for axis in range(value.ndim):
        curved = correlate1d(curved, _CURVED, axis=axis, mode="nearest")
    curved = np.maximum(curved, _LEAST * plain)
    if inside is None:
        return curved
    there = inside.astype(np.float64)
    is_whole = uniform_filter(there, len(_CURVED), mode="nearest") > 1 - 1e-9
    share = uniform_filter(there, 3, mode="nearest")
    return np.where(is_whole, curved, np.divide(plain, share, out=np.zeros(value.shape), where=inside))
