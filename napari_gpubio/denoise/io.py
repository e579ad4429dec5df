"""Images in NIfTI files, and values that are logarithms or missing."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, check_folder
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.core.volumes import (
    NIFTI_SUFFIXES,
    lies_on_grid,
    nifti_affine,
    nifti_array,
    one_volume,
    open_nifti,
    read_array,
)

Array = npt.NDArray[Any]
_NO_IMAGES = ("label", "vector", "symmetric matrix", "displacement vector", "general matrix")  # intents of NIfTI


@dataclass(frozen=True, eq=False, kw_only=True)
class NiftiImage:
    """A plane, a volume or a series of volumes, and all that its file says about it.

    Parameters
    ----------
    array
        Shape (X, Y), (X, Y, Z) or (X, Y, Z, N), in the file's own order.
    affine
        Voxel to world, mm.
    header
        The file's header, as nibabel has it.
    path
        The file.
    """

    array: Array
    affine: npt.NDArray[np.float64]
    header: Any
    path: Path

    @property
    def voxel_size_mm(self) -> tuple[float, ...]:
        """Edge lengths of a voxel along the axes of the array."""
        return tuple(map(float, voxel_sizes_mm(self.affine)))


@reads_file
def read_image(path: str | Path) -> NiftiImage:
    """Read an image with its header; further axes of length 1 are dropped.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, of another kind or too large for the memory.
    """
    path = Path(path)
    file = open_nifti(path)
    array = nifti_array(file, path)
    intent = file.header.get_intent()[0] if hasattr(file.header, "get_intent") else ""
    if intent in _NO_IMAGES:
        note(f"its header says that it holds a {intent}, not an image; its values are taken as those of an image")
    if array.ndim > 3:
        array = array.reshape(array.shape[:3] + tuple(n for n in array.shape[3:] if n > 1))
    return NiftiImage(array=array, affine=nifti_affine(file), header=file.header, path=path)


def read_mask(path: str | Path, image: NiftiImage) -> npt.NDArray[np.bool_]:
    """Read a mask on the grid of an image, of the shape of its volume: True where the file is not 0.

    Raises
    ------
    InvalidInput
        As `read_image`; or if it lies on another grid.
    """
    array = read_on_grid(path, image)
    volume = one_volume(array.reshape(_in_space(array.shape)), Path(path).name)
    return np.asarray(volume.reshape(image.array.shape[:3]) != 0)


def read_on_grid(path: str | Path, image: NiftiImage) -> Array:
    """Read a map (or a series of maps) on the grid of an image, such as its noise; errors as `read_mask`."""
    array, affine = read_array(path)
    if not lies_on_grid(path, _in_space(array.shape), affine, _in_space(image.array.shape), image.affine):
        raise InvalidInput(
            f"{Path(path).name} has shape {array.shape[:3]} and {image.path.name} {image.array.shape[:3]}, or it lies "
            "elsewhere; resample it to the image's grid"
        )
    return array


def _in_space(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Of a plane, the shape of a volume of one layer."""
    return shape + (1,) * (3 - len(shape))


def write_image(path: str | Path, array: npt.ArrayLike, like: NiftiImage, description: str = "") -> None:
    """Write an array with the header of another image; an older file is replaced only when the new one is complete.

    The affine and its codes, units, the time step and the intent are kept; the type is that of the array.

    Parameters
    ----------
    path
        Ends in ``.nii`` or ``.nii.gz``.
    array
        Real numbers, shape (X, Y, Z) or (X, Y, Z, N).
    like
        Where the header comes from.
    description
        Goes to the header's ``descrip`` (its first 79 bytes), instead of the one that was there.

    Raises
    ------
    InvalidInput
        If the name ends otherwise, the folder is missing, or the file cannot be written.
    """
    import nibabel as nib

    check_output(Path(path))
    values, affine, header = np.asarray(array), None, like.header.copy()
    if not isinstance(header, nib.Nifti1Header):  # of another format, whose image is in mm here
        affine, header = like.affine, nib.Nifti1Header()
        header.set_xyzt_units("mm")
    header.set_data_dtype(values.dtype)
    if description:
        header["descrip"] = description.encode("ascii", "replace")[:79]
    kind = nib.Nifti2Image if isinstance(header, nib.Nifti2Header) else nib.Nifti1Image
    with atomic_write(path) as part:
        nib.save(kind(values, affine, header), part)


def check_output(path: Path) -> None:
    """Raise InvalidInput if an image cannot be written to a path, by its ending or its folder."""
    if not path.name.lower().endswith(NIFTI_SUFFIXES):
        raise InvalidInput(f"{path.name} does not end in .nii or .nii.gz; give it one of these endings")
    check_folder(path)


_LARGEST = 38  # decades that float32 holds


def from_log10(values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return 10 to the power of values, 0 where they are NaN: what is shown as a logarithm is filtered as it is.

    Raises
    ------
    InvalidInput
        If a value is too large to be a logarithm.
    """
    exponents = np.asarray(values, np.float64)
    largest = np.nanmax(exponents, initial=-np.inf)
    if largest > _LARGEST:
        raise InvalidInput(
            f"the largest value is {largest:g}, which is too large for a decimal logarithm (at most {_LARGEST}); "
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
