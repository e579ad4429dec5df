"""A brain mask from a volume without diffusion weighting, good enough to fit and track in."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
_BINS = 512
_STRIPPED = 0.3  # darker over brighter class of the voxels that are not zero; air gives 0.02-0.2, tissue 0.5


def brain_mask(b0: Array) -> Mask:
    """Segment the brain: median filter, Otsu's threshold on the square root, largest piece, closed and filled.

    The square root keeps bright fluid from pulling the threshold up into the tissue. A volume whose skull has been
    taken away already (zeros outside, and no dark class among the rest) keeps every voxel that is not zero.

    Parameters
    ----------
    b0
        Shape (X, Y, Z), signals without diffusion weighting, best the mean of all such volumes.

    Returns
    -------
    ndarray of bool
        Shape (X, Y, Z).

    Raises
    ------
    InvalidInput
        If the array is not a volume or shows nothing.
    """
    from scipy import ndimage

    if b0.ndim != 3 or not b0.size:
        raise InvalidInput(f"a brain mask is made of one volume (x, y, z); this array has shape {b0.shape}")
    signal = np.clip(np.nan_to_num(b0.astype(np.float32), posinf=0.0, neginf=0.0), 0.0, None)
    smooth = ndimage.median_filter(ndimage.median_filter(signal, 3), 3)
    if smooth.min() == smooth.max():
        raise InvalidInput(
            f"the volume has the value {smooth.min():g} nearly everywhere; choose one that shows a brain"
        )
    root = np.sqrt(smooth)
    bright = root > otsu_threshold(root)
    return _one_solid_piece(signal > 0 if _is_stripped(smooth) else bright)


def otsu_threshold(values: Array) -> float:
    """Return the threshold that parts values into two classes with the largest variance between them (Otsu 1979).

    The brightest 0.5 % are counted as one value.
    """
    top = float(np.percentile(values, 99.5))
    flat = np.minimum(values, top if top > values.min() else values.max()).ravel()
    counts, edges = np.histogram(flat, _BINS)
    centers = (edges[1:] + edges[:-1]) / 2
    below = np.cumsum(counts)[:-1]
    sum_below = np.cumsum(counts * centers)[:-1]
    above = counts.sum() - below
    total = (counts * centers).sum()
    between = (total * below / counts.sum() - sum_below) ** 2 / np.maximum(below * above, 1)
    return float(edges[1 + int(np.argmax(between))])


def _is_stripped(smooth: Array) -> bool:
    """Whether the volume is zero outside the head: the voxels that are not zero have no class as dark as air."""
    positive = smooth[smooth > 0]
    if positive.size > 0.9 * smooth.size or positive.min() == positive.max():
        return False
    threshold = otsu_threshold(positive)
    dark, bright = positive[positive <= threshold], positive[positive > threshold]
    return bool(dark.size and bright.size and dark.mean() > _STRIPPED * bright.mean())


def _one_solid_piece(mask: Mask) -> Mask:
    """Largest piece after thin bridges are cut, closed and without holes; the volume's edge counts as open."""
    from scipy import ndimage

    opened = ndimage.binary_opening(mask)
    labels, count = ndimage.label(opened if opened.any() else mask)
    if count == 0:
        raise InvalidInput("no brain was found in the volume; give a mask, or choose another volume")
    piece = labels == 1 + int(np.argmax(np.bincount(labels.ravel())[1:]))
    closed = ndimage.binary_closing(np.pad(piece, 3), iterations=2)
    return np.ascontiguousarray(ndimage.binary_fill_holes(closed)[3:-3, 3:-3, 3:-3])
