"""A brain mask from a volume without diffusion weighting, good enough to fit and track in; the scalp stays outside."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Box = tuple[slice, ...]

_BINS = 512
_STRIPPED = 0.3  # darker over brighter class of the voxels that are not zero; air gives 0.02-0.2, tissue 0.5
_TISSUE = 0.5  # the same where nearly no voxel is zero: noise in air may reach 0.4

_SOME_NOISE, _MUCH_NOISE = 0.1, 0.2  # darker over brighter class of a volume with air: SNR of 12 and of 5

# Of an adult head, mm. Layers less than twice as thick as the cut are taken for scalp; the way back is longer than the
# way in, or corners would stay behind.
_CUT, _BACK = 12.0, 14.0
_OPEN, _CLOSE = 3.5, 7.5
_SHARE = 0.3  # of the greatest depth, more than which is never cut: a small head has a thin scalp
_ROUNDING = 1e-6  # relative; a distance that equals a radius must not depend on the order of the axes


def brain_mask(b0: Array, voxel_sizes_mm: npt.ArrayLike) -> Mask:
    """Segment the brain: bright voxels, freed from the scalp by an opening by distance, closed and filled.

    Otsu's threshold on the square root of the median-filtered signal finds what is bright (the square root keeps fluid
    from pulling the threshold up into the tissue). A scalp is bright, too, and may touch the brain, but it is thin:
    the largest piece that is deeper than 12 mm inside the bright voxels is the brain's core, and the brain is what is
    bright within 14 mm of the core, opened by a ball of 3.5 mm, closed by one of 7.5 mm, and filled. Erosion and
    dilation by a ball are thresholds of a Euclidean distance (Maurer et al. 2003, IEEE TPAMI 25:265), so they are exact
    for voxels of any shape, which are taken for right-angled. The volume's faces do not count as surface: a brain that
    they cut is kept up to them. Where no bright voxel is deeper than 40 mm (an animal, a phantom), the lengths shrink
    in proportion.

    A volume whose skull has been taken away already (zeros outside, and no dark class among the rest) keeps every voxel
    that is not zero, and so does a block from within a brain.

    Parameters
    ----------
    b0
        Shape (X, Y, Z), signals without diffusion weighting, best the mean of all such volumes.
    voxel_sizes_mm
        Shape (3,), edge lengths of a voxel along the axes of the array, mm; of an affine, those that
        `napari_gpubio.core.space.voxel_sizes_mm` gives.

    Returns
    -------
    ndarray of bool
        Shape (X, Y, Z).

    Raises
    ------
    InvalidInput
        If the array is not a volume or shows nothing, or the voxel sizes are not three positive lengths.
    """
    if b0.ndim != 3 or not b0.size:
        raise InvalidInput(f"a brain mask is made of one volume (x, y, z); this array has shape {b0.shape}")
    sizes = _checked_sizes(voxel_sizes_mm)
    signal = np.clip(np.nan_to_num(b0.astype(np.float32), posinf=0.0, neginf=0.0), 0.0, None)
    smooth = _smoothed(signal)
    if smooth.min() == smooth.max():
        raise InvalidInput(
            f"the volume has the value {smooth.min():g} nearly everywhere; choose one that shows a brain"
        )
    if _is_stripped(smooth):
        return _one_solid_piece(signal > 0)
    root = np.sqrt(smooth)
    return _opened_by_distance(root > otsu_threshold(root), sizes)


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


def _checked_sizes(voxel_sizes_mm: npt.ArrayLike) -> npt.NDArray[np.float64]:
    sizes = np.asarray(voxel_sizes_mm, np.float64)
    if sizes.shape != (3,) or not np.isfinite(sizes).all() or sizes.min() <= 0:
        raise InvalidInput(f"a voxel has three edges of positive length in mm; these are {sizes.tolist()}")
    return sizes


def _is_stripped(smooth: Array) -> bool:
    """Whether there is nothing but brain and zeros: the voxels that are not zero have no class as dark as air."""
    positive = smooth[smooth > 0]
    if positive.min() == positive.max():
        return False
    return _darkness(positive) > (_STRIPPED if positive.size <= 0.9 * smooth.size else _TISSUE)


def _smoothed(signal: Array) -> Array:
    """Signal through a median filter as strong as its noise needs, shape (X, Y, Z).

    A voxel and its six neighbors keep a dark gap of one voxel between brain and scalp, which a cube of 27 closes.
    """
    from scipy import ndimage

    smooth = ndimage.median_filter(signal, footprint=ndimage.generate_binary_structure(3, 1))
    noise = _darkness(smooth)
    if noise < _SOME_NOISE:
        return smooth
    smooth = ndimage.median_filter(signal, 3)
    return smooth if noise < _MUCH_NOISE else ndimage.median_filter(smooth, 3)


def _darkness(values: Array) -> float:
    """Mean of the darker class over that of the brighter one; 0 if there is one class only."""
    threshold = otsu_threshold(values)
    is_dark = values <= threshold
    dark, bright = values[is_dark], values[~is_dark]
    return float(dark.mean() / bright.mean()) if dark.size and bright.size else 0.0


def _one_solid_piece(mask: Mask) -> Mask:
    """Largest piece after thin bridges are cut, closed and without holes; it may end at the volume's faces."""
    from scipy import ndimage

    opened = ndimage.binary_opening(np.pad(mask, 1, mode="edge"))[1:-1, 1:-1, 1:-1]  # corners of a block stay
    piece = _largest_piece(opened if opened.any() else mask)
    closed = ndimage.binary_closing(np.pad(piece, 3), iterations=2)
    return np.ascontiguousarray(ndimage.binary_fill_holes(closed)[3:-3, 3:-3, 3:-3])


def _opened_by_distance(bright: Mask, sizes: npt.NDArray[np.float64]) -> Mask:
    """Brain among bright voxels (at least one of which is set, and one is not), shape (X, Y, Z)."""
    from scipy import ndimage

    mask = np.zeros(bright.shape, bool)
    box = _box_around(bright, (1, 1, 1))
    bright, found = bright[box], mask[box]  # parts of the volume; what is written into one of the mask is in the mask
    depth = ndimage.distance_transform_edt(bright, sampling=sizes)
    scale = min(1.0, _SHARE * float(depth.max()) / _CUT)
    core = _largest_piece(depth > scale * _CUT)
    box = _box_around(core, np.ceil(scale * _BACK / sizes).astype(int) + 1)
    core, bright, found = core[box], bright[box], found[box]
    near = bright & _dilated(core, scale * _BACK, sizes)
    opened = _dilated(_eroded(near, scale * _OPEN, sizes), scale * _OPEN, sizes)
    found[:] = _closed_and_filled(_largest_piece(opened), scale * _CLOSE, sizes)
    return mask


def _closed_and_filled(mask: Mask, radius_mm: float, sizes: npt.NDArray[np.float64]) -> Mask:
    """Closed by a ball, and without holes; the mask does not stick to the faces of the array, shape (X, Y, Z)."""
    from scipy import ndimage

    margins = [(n, n) for n in np.ceil(radius_mm / sizes).astype(int) + 1]
    closed = _eroded(_dilated(np.pad(mask, margins), radius_mm, sizes), radius_mm, sizes)
    filled = ndimage.binary_fill_holes(closed)
    inner: Mask = filled[tuple(slice(n, -n) for n, _ in margins)]
    return inner


def _eroded(mask: Mask, radius_mm: float, sizes: npt.NDArray[np.float64]) -> Mask:
    """Voxels around which a ball fits into the mask; what is beyond the array does not count."""
    from scipy import ndimage

    if mask.all():  # SciPy's distances would be those to nowhere
        return mask
    far: Mask = ndimage.distance_transform_edt(mask, sampling=sizes) > radius_mm * (1 + _ROUNDING)
    return far


def _dilated(mask: Mask, radius_mm: float, sizes: npt.NDArray[np.float64]) -> Mask:
    """Voxels within a ball around one of the mask's (of which there is one at least)."""
    from scipy import ndimage

    near: Mask = ndimage.distance_transform_edt(~mask, sampling=sizes) <= radius_mm * (1 + _ROUNDING)
    return near


def _largest_piece(mask: Mask) -> Mask:
    """The piece with the most voxels, over shared faces, of a mask that is not empty."""
    from scipy import ndimage

    labels, _ = ndimage.label(mask)
    piece: Mask = labels == 1 + int(np.argmax(np.bincount(labels.ravel())[1:]))
    return piece


def _box_around(mask: Mask, margins: npt.ArrayLike) -> Box:
    """The smallest box that holds a mask, wider by some voxels at both ends of each axis where the array goes on."""
    from scipy import ndimage

    (box,) = ndimage.find_objects(mask.astype(np.uint8), max_label=1)
    return tuple(
        slice(max(0, s.start - int(n)), s.stop + int(n)) for s, n in zip(box, np.asarray(margins), strict=True)
    )


def inliers(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which values, shape (N,), are no outliers: within 1.5 interquartile ranges of the quartiles."""
    low, high = np.percentile(values, [25, 75])
    fence = 1.5 * (high - low)
    return np.asarray((values >= low - fence) & (values <= high + fence))
