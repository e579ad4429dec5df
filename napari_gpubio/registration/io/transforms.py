"""Transforms as files: ITK's and ANTs' (``.tfm``, ``.h5``, ``.mat``, NIfTI), FLIRT's ``.mat``, and 4 x 4 text.

ITK has patient axes to the left and back (LPS), where this package has right and front (RAS).
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, check_folder
from napari_gpubio.core.foreign import MAX_WHOLE, existing_bytes, existing_numbers
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, nifti_affine, nifti_array, open_nifti
from napari_gpubio.registration.library import sitk
from napari_gpubio.registration.model import Transform

Array = npt.NDArray[Any]
ENDINGS = (".tfm", ".txt", ".h5")
_LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
_ITK_TEXT, _NUMBERS, _OURS = b"#Insight Transform File", rb"[\s\d.eE+\-]+", "RAS mm, fixed to moving"


def write_transform(transform: Transform, path: str | Path) -> None:
    """Write a transform: ``.tfm`` as ITK and ANTs read it, ``.txt`` as rows of a matrix, ``.h5`` with a displacement.

    Raises
    ------
    InvalidInput
        If the name ends otherwise, the ending cannot hold a displacement, or the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in ENDINGS:
        raise InvalidInput(f"{path.name} does not end in {', '.join(ENDINGS)}; give it one of these endings")
    is_field = transform.displacement is not None
    if is_field and path.suffix.lower() != ".h5":
        raise InvalidInput(f"{path.name} cannot hold a displacement field; give it the ending .h5")
    check_folder(path)
    with atomic_write(path) as part:
        if path.suffix.lower() == ".txt":
            np.savetxt(part, transform.matrix, header=_OURS)
        else:
            sitk().WriteTransform(_as_itk(transform), str(part))


def _as_itk(transform: Transform) -> Any:
    library, matrix = sitk(), _LPS @ transform.matrix @ _LPS
    affine = library.AffineTransform(3)
    affine.SetMatrix(matrix[:3, :3].ravel().tolist())
    affine.SetTranslation(matrix[:3, 3].tolist())
    if transform.displacement is None or transform.grid is None:
        return affine
    grid = _LPS @ transform.grid
    sizes = np.linalg.norm(grid[:3, :3], axis=0)
    vectors = np.ascontiguousarray((transform.displacement * np.diag(_LPS)[:3]).transpose(2, 1, 0, 3), np.float64)
    field = library.GetImageFromArray(vectors, isVector=True)
    field.SetOrigin(grid[:3, 3].tolist())
    field.SetSpacing(sizes.tolist())
    field.SetDirection((grid[:3, :3] / sizes).ravel().tolist())
    return library.CompositeTransform([affine, library.DisplacementFieldTransform(field)])  # the last is done first


@reads_file
def read_transform(path: str | Path, *, moving: str | Path | None = None, fixed: str | Path | None = None) -> Transform:
    """Read a transform, which takes points of the fixed image to the moving one, as ITK, ANTs and this package have it.

    Parameters
    ----------
    path
        ITK's ``.tfm``, ``.txt``, ``.h5``, or ``.mat``; a warp of ANTs (NIfTI); FLIRT's ``.mat``; 4 rows of 4 numbers.
    moving, fixed
        The images that FLIRT was given (``-in`` and ``-ref``), in whose voxels its matrix is; for others not needed.

    Raises
    ------
    InvalidInput
        If the file is no transform, one of a kind that is not read, or FLIRT's without its images.
    """
    path = Path(path)
    if path.name.lower().endswith(NIFTI_SUFFIXES):
        return _of_warp(path)
    head = existing_bytes(path, MAX_WHOLE)
    if head.startswith(_ITK_TEXT) or not re.fullmatch(_NUMBERS, _without_comments(head[:65536])):
        return _of_itk(path)
    numbers = existing_numbers(path)
    if numbers.shape != (4, 4):
        raise InvalidInput(f"it has {numbers.shape} numbers; a matrix has 4 rows of 4")
    if path.suffix.lower() != ".mat":
        if _OURS.encode() not in head:
            note("its matrix was taken to go from the fixed image to the moving one, in mm of their headers (RAS)")
        return Transform(matrix=numbers)
    if moving is None or fixed is None:
        raise InvalidInput("it is FLIRT's, in voxels of its images; give these, too (moving: -in, fixed: -ref)")
    return Transform(matrix=np.linalg.inv(_flirt(moving)) @ np.linalg.inv(numbers) @ _flirt(fixed))


def _without_comments(text: bytes) -> bytes:
    return re.sub(rb"#[^\n]*", b"", text)


def _flirt(path: str | Path) -> Array:
    """World mm of an image to FLIRT's: voxels times sizes, x reversed if the determinant is > 0."""
    image = open_nifti(path)
    affine, shape = nifti_affine(image), image.shape
    scaled = np.diag([*np.linalg.norm(affine[:3, :3], axis=0), 1.0])
    if np.linalg.det(affine[:3, :3]) > 0:
        scaled = scaled @ np.array([[-1, 0, 0, shape[0] - 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    return scaled @ np.linalg.inv(affine)


def _of_warp(path: Path) -> Transform:
    """ANTs' displacement field: vectors along LPS, mm, shape (X, Y, Z, 1, 3)."""
    image = open_nifti(path)
    array = np.squeeze(nifti_array(image, path))
    if array.ndim != 4 or array.shape[3] != 3:
        raise InvalidInput(f"it has shape {image.shape}; a warp of ANTs has 3 numbers for each voxel")
    return Transform(matrix=np.eye(4), displacement=array * np.diag(_LPS)[:3], grid=nifti_affine(image))


def _of_itk(path: Path) -> Transform:
    library = sitk()
    try:
        read = library.ReadTransform(str(path))
    except RuntimeError as error:
        raise InvalidInput("it is no transform of ITK or ANTs, nor a matrix of 4 rows of 4 numbers") from error
    if read.GetDimension() != 3:
        raise InvalidInput(f"it is a transform of {read.GetDimension()} dimensions; give one of 3")
    matrix, displacement, grid, linear = np.eye(4), None, None, False
    for found in reversed(_parts(read)):  # the last is done first
        if isinstance(found, library.DisplacementFieldTransform) and displacement is None and not linear:
            displacement, grid = _field(found.GetDisplacementField())
        elif found.IsLinear():
            matrix, linear = _linear(found) @ matrix, True
        else:
            raise InvalidInput(f"it has a {found.GetName()} that is not read; have its program write a warp (NIfTI)")
    return Transform(matrix=_LPS @ matrix @ _LPS, displacement=displacement, grid=grid)


def _parts(read: Any) -> list[Any]:
    found = read.Downcast() if hasattr(read, "Downcast") else read
    if not isinstance(found, sitk().CompositeTransform):
        return [found]
    return [part for n in range(found.GetNumberOfTransforms()) for part in _parts(found.GetNthTransform(n))]


def _linear(transform: Any) -> Array:
    """4 x 4 of any linear transform, from where it takes the corners."""
    matrix = np.eye(4)
    matrix[:3, 3] = transform.TransformPoint((0.0, 0.0, 0.0))
    for axis in range(3):
        matrix[:3, axis] = np.array(transform.TransformPoint(np.eye(3)[axis].tolist())) - matrix[:3, 3]
    return matrix


def _field(image: Any) -> tuple[Array, Array]:
    grid = np.eye(4)
    grid[:3, :3] = np.reshape(image.GetDirection(), (3, 3)) * image.GetSpacing()
    grid[:3, 3] = image.GetOrigin()
    vectors = sitk().GetArrayFromImage(image).transpose(2, 1, 0, 3)
    return vectors * np.diag(_LPS)[:3], _LPS @ grid
