"""Transforms as files: linear ones of ITK and ANTs (``.tfm``, ``.txt``, ``.mat``, ``.h5``), FLIRT's, and 4 x 4 text.

ITK has patient axes to the left and back (LPS), where this package has right and front (RAS).
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, check_folder
from napari_gpubio.core.foreign import existing_bytes, existing_numbers
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.core.volumes import nifti_affine, open_nifti
from napari_gpubio.registration.model import Transform, sitk

Array = npt.NDArray[Any]
ENDINGS = (".tfm", ".txt")
_LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
_NUMBERS, _OURS = rb"[\s\d.eE+\-]+", "RAS mm, fixed to moving"


def write_transform(transform: Transform, path: str | Path) -> None:
    """Write a transform: ``.tfm`` as ITK and ANTs read it, ``.txt`` as rows of its matrix.

    InvalidInput if the name ends otherwise, or the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in ENDINGS:
        raise InvalidInput(f"{path.name} does not end in {' or '.join(ENDINGS)}; give it one of these endings")
    check_folder(path)
    with atomic_write(path) as part:
        if path.suffix.lower() == ".txt":
            np.savetxt(part, transform.matrix, header=_OURS)
            return
        matrix, affine = _LPS @ transform.matrix @ _LPS, sitk().AffineTransform(3)
        affine.SetMatrix(matrix[:3, :3].ravel().tolist())
        affine.SetTranslation(matrix[:3, 3].tolist())
        sitk().WriteTransform(affine, str(part))


@reads_file
def read_transform(path: str | Path, *, moving: str | Path | None = None, fixed: str | Path | None = None) -> Transform:
    """Read a linear transform, which takes points of the fixed image to the moving one.

    Parameters
    ----------
    path
        ITK's ``.tfm``, ``.txt``, ``.mat`` or ``.h5``; FLIRT's ``.mat``; 4 rows of 4 numbers.
    moving, fixed
        The images that FLIRT was given (``-in`` and ``-ref``), in whose voxels its matrix is; for others not needed.

    Raises
    ------
    InvalidInput
        If the file is no transform, a nonlinear one, or FLIRT's without its images.
    """
    path = Path(path)
    head = existing_bytes(path)
    if not re.fullmatch(_NUMBERS, re.sub(rb"#[^\n]*", b"", head)):
        return Transform(matrix=_LPS @ _of_itk(path) @ _LPS)
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


def _flirt(path: str | Path) -> Array:
    """World mm of an image to FLIRT's: voxels times sizes, x reversed if the determinant is > 0."""
    image = open_nifti(path)
    affine = nifti_affine(image)
    scaled = np.diag([*np.linalg.norm(affine[:3, :3], axis=0), 1.0])
    if np.linalg.det(affine[:3, :3]) > 0:
        scaled = scaled @ np.array([[-1, 0, 0, image.shape[0] - 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    return scaled @ np.linalg.inv(affine)


def _of_itk(path: Path) -> Array:
    """4 x 4 of any linear transform, from where it takes the corners."""
    try:
        read = sitk().ReadTransform(str(path))
    except RuntimeError as error:
        raise InvalidInput("it is no transform of ITK or ANTs, nor a matrix of 4 rows of 4 numbers") from error
    if read.GetDimension() != 3 or not read.IsLinear():
        raise InvalidInput(f"it is a {read.GetName()} of {read.GetDimension()} dimensions; give a linear one of 3")
    corners = np.array([read.TransformPoint(point) for point in ((0.0, 0, 0), (1.0, 0, 0), (0, 1.0, 0), (0, 0, 1.0))])
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = (corners[1:] - corners[0]).T, corners[0]
    return matrix
