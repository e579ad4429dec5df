"""Values of an image where fibers are."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import checked_affine

Array = npt.NDArray[Any]
_MIN_POINTS = 20_000  # worth a thread


def values_at(points_mm: Array, image: npt.ArrayLike, affine: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Values of a volume at world points, by trilinear interpolation.

    Parameters
    ----------
    points_mm
        Shape (..., 3), world mm.
    image
        Any real type, shape (X, Y, Z). Voxels that are NaN take no part.
    affine
        Voxel to world, mm: the image's own, however its grid lies to that of the fibers.

    Returns
    -------
    ndarray
        Shape (...,); NaN outside of the image.

    Raises
    ------
    InvalidInput
        If the image is no volume of real numbers, or no point lies where it has a value.
    """
    from napari_gpubio.core.jit import run_blocks
    from napari_gpubio.core.trilinear import sample_points

    volume = np.asarray(image)
    if volume.ndim != 3 or volume.dtype.kind not in "biuf":
        what = f"shape {volume.shape} of {volume.dtype}"
        raise InvalidInput(f"the image has {what}; give one volume (x, y, z) of real numbers")
    matrix = np.ascontiguousarray(np.linalg.inv(checked_affine(affine))[:3])
    points = np.ascontiguousarray(points_mm).reshape(-1, 3)
    values = np.empty(len(points))
    source = np.ascontiguousarray(volume, np.float32)
    run_blocks(sample_points, len(points), source, matrix, points, values, least=_MIN_POINTS)
    if len(points) and np.isnan(values).all():
        raise InvalidInput("no fiber lies where the image has values; give fibers and an image of the same subject")
    return values.reshape(np.shape(points_mm)[:-1])
