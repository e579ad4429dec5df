"""Inputs of the filter, checked; every error is a sentence."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.denoise.kernels.anlm.problem import Windows
from napari_gpubio.denoise.settings import DenoiseSettings

Array = npt.NDArray[Any]
AXES = "xyz"
SKIP_GAPS = 'check "skip voxels that are NaN or infinite" (skip_gaps=True in Python, --skip-gaps in the shell)'


def checked_image(image: npt.ArrayLike, settings: DenoiseSettings) -> tuple[Array, tuple[str, ...]]:
    """The image as float32 or float64, and what was changed, in sentences.

    Raises
    ------
    InvalidInput
        If it is not a plane, a volume or a series of volumes of finite real numbers, or not what the noise model
        allows.
    """
    _check_dimensions(np.shape(image))
    array, notes = checked_reals(image, "image")
    volumes = as_series(array)
    _check_values(array, volumes.min(axis=(0, 1, 2)), volumes.max(axis=(0, 1, 2)), settings)
    return array, notes


def as_series(array: Array) -> Array:
    """An image as a series of volumes: of one, and a plane (X, Y) as a volume (1, X, Y), which is the faster way."""
    return array.reshape((1, *array.shape, 1) if array.ndim == 2 else (*array.shape[:3], -1))


def checked_reals(values: npt.ArrayLike, name: str) -> tuple[Array, tuple[str, ...]]:
    """Real numbers as float32 or float64, and what was changed, in sentences, or InvalidInput."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"the {name} holds {array.dtype} values; give real numbers")
    notes = () if array.dtype.kind == "f" else (f"the {name}'s {array.dtype} values were converted to float32",)
    return array.astype(np.float64 if array.dtype == np.float64 else np.float32, copy=False), notes


def _check_values(array: Array, least: Array, most: Array, settings: DenoiseSettings) -> None:
    """Check the least and the largest value of each volume; both are NaN where one voxel is."""
    if not (np.isfinite(least) & np.isfinite(most)).all():
        bad = int(array.size - np.count_nonzero(np.isfinite(array)))
        raise InvalidInput(f"{bad} of the image's {array.size} voxels are not finite; {SKIP_GAPS}")
    if settings.is_rician and least.min() < 0:
        raise InvalidInput(
            f"the image has negative values (the least is {least.min():g}), which magnitudes with Rician noise cannot "
            "have; choose noise_model='gaussian', or give magnitudes"
        )
    if (empty := np.flatnonzero((least == 0) & (most == 0))).size:
        which = "the image" if len(least) == 1 else f"volume {empty[0]} of the image"
        raise InvalidInput(f"{which} is zero everywhere; give one that holds data")


def _check_dimensions(shape: tuple[int, ...]) -> None:
    if len(shape) not in (2, 3, 4):
        raise InvalidInput(
            f"the image has shape {shape}; give a plane (x, y), a volume (x, y, z) or a series of volumes (x, y, z, n)"
        )
    if 0 in shape:
        raise InvalidInput(f"the image has shape {shape} and no voxels; give a volume")
    if shape[:3].count(1) > len(shape[:3]) - 2:
        raise InvalidInput(f"the image has shape {shape}, a line of voxels; give a plane or a volume")


def check_windows(windows: Windows, shape: Sequence[int], axes: str = AXES) -> None:
    """Raise InvalidInput unless the windows fit in a volume, whose axes have such names."""
    for axis, length, patch, search, box in zip(
        axes, shape, windows.largest_patch, windows.search, windows.box, strict=True
    ):
        least = 2 * max(patch, box) + 1
        if length < least:
            raise InvalidInput(
                f"the image has {length} voxels along {axis} and a patch {least}; give a larger volume"
                + ("" if patch < 2 else ", or choose patches=Small()")
            )
        if search >= length:
            raise InvalidInput(
                f"search_radius is {search} voxels along {axis}, where the image has {length}; "
                f"it must be at most {length - 1}"
            )


def checked_voxel_size(voxel_size_mm: Sequence[float], ndim: int = 3) -> tuple[float, float, float]:
    """Edge lengths of a voxel, or InvalidInput; of a plane two are enough, and it is given a first axis."""
    sizes = np.asarray(voxel_size_mm)
    if ndim == 2 and sizes.shape in ((2,), (3,)):
        sizes = sizes[[0, 0, 1]]
    if sizes.dtype.kind not in "iuf" or sizes.shape != (3,) or not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise InvalidInput(f"voxel_size_mm is {voxel_size_mm!r}; give three positive lengths in mm")
    x, y, z = map(float, sizes)
    return x, y, z


def checked_mask(mask: npt.ArrayLike | None, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Voxels to filter (all of them if there is no mask), of the shape of a volume, or InvalidInput."""
    if mask is None:
        return np.ones(shape, np.uint8)
    inside = np.asarray(mask)
    if inside.shape != shape:
        raise InvalidInput(
            f"the mask has shape {inside.shape} and a volume of the image {shape}; use a mask drawn on this image"
        )
    if inside.dtype.kind not in "biuf":
        raise InvalidInput(f"the mask holds {inside.dtype} values; give booleans or numbers")
    if not inside.any():
        raise InvalidInput("the mask is empty; mark at least one voxel")
    return np.ascontiguousarray(inside != 0, np.uint8)


def checked_noise(noise: npt.ArrayLike | None, shape: tuple[int, ...]) -> Array | None:
    """Standard deviation of the noise for every voxel of the image, or None if it is not known, or InvalidInput.

    It is given as one number, one for each volume of a series, a map (X, Y, Z), or a map of the image's shape.
    """
    if noise is None:
        return None
    sigma = np.asarray(noise)
    if sigma.dtype.kind not in "biuf":
        raise InvalidInput(f"the noise map holds {sigma.dtype} values; give real numbers")
    if sigma.shape not in ((), shape[:3], shape[3:], shape):
        raise InvalidInput(
            f"the noise has shape {sigma.shape} and the image {shape}; give one number, one for each volume, "
            "or a map of the image's shape"
        )
    if not np.isfinite(sigma).all() or (sigma < 0).any():
        raise InvalidInput("the noise has values that are negative or not finite; give standard deviations")
    if not sigma.any():
        raise InvalidInput("the noise is zero everywhere; give noise=None to have it estimated")
    if sigma.shape == shape[:3]:
        sigma = sigma.reshape(sigma.shape + (1,) * (len(shape) - 3))
    return np.broadcast_to(sigma.astype(np.float64), shape)
