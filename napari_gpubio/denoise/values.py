"""Values that are logarithms or missing, and halves of photons."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput

Array = npt.NDArray[Any]
_MAX_DECADES = 38


def from_log10(values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return 10 to the power of values, 0 where they are NaN: what is shown as a logarithm is filtered as it is.

    Raises
    ------
    InvalidInput
        If a value is too large to be a logarithm.
    """
    exponents = np.asarray(values, np.float64)
    largest = np.nanmax(exponents, initial=-np.inf)
    if largest > _MAX_DECADES:
        raise InvalidInput(
            f"the largest value is {largest:g}, which is too large for a decimal logarithm (at most {_MAX_DECADES}); "
            "take the image as it is"
        )
    linear = np.zeros(exponents.shape, np.float32)
    there = ~np.isnan(exponents)
    linear[there] = np.power(10.0, exponents[there])
    return linear


def to_log10(values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return decimal logarithms, NaN where a value is not positive: the inverse of `from_log10`."""
    linear = np.asarray(values)
    logarithms = np.full(linear.shape, np.nan, np.float32)
    np.log10(linear, out=logarithms, where=linear > 0, casting="same_kind")
    return logarithms


def without_gaps(image: npt.ArrayLike, mask: npt.ArrayLike | None = None) -> tuple[Array, npt.NDArray[np.bool_] | None]:
    """Return an image with 0 where it was not finite, and a mask that leaves these voxels out.

    Parameters
    ----------
    image
        Shape (X, Y), (X, Y, Z) or (X, Y, Z, N).
    mask
        Voxels to denoise, of the shape of a volume, or None: all of them.

    Returns
    -------
    image
        The array itself, if all of it is finite.
    mask
        Of the same shape; what was given, if all of the image is finite. A voxel is left out if it is not finite in any
        volume of a series.
    """
    array = np.asarray(image)
    given = None if mask is None else np.asarray(mask, bool)
    finite = np.asarray(np.isfinite(array) if array.dtype.kind == "f" else True)
    if finite.all():
        return array, given
    inside = np.asarray(finite.reshape(*array.shape[:3], -1).all(axis=-1))
    return np.where(finite, array, array.dtype.type(0)), inside if given is None else inside & given


def mean_of_halves(first: Array, second: Array) -> Array:
    """Fluence of all photons, from that of both halves, of any type: integers do not overflow."""
    return np.add(first, second, dtype=np.result_type(first, second, np.float32)) / 2


def in_place(before: Array, denoised: Array, volumes: slice | None, *, keeps_gaps: bool) -> Array:
    """Return a whole image with the denoised volumes (None: all of it) in their place, and gaps as they were."""
    whole = before.astype(denoised.dtype)
    where: Any = ... if volumes is None else (..., volumes)
    whole[where] = np.where(np.isfinite(whole[where]), denoised, whole[where]) if keeps_gaps else denoised
    return whole
