"""Transforms as files: ITK's and ANTs' (``.tfm``, ``.txt``, ``.mat``, ``.h5``, warps as NIfTI), FLIRT's, 4 x 4 text.

ITK has patient axes to the left and back (LPS), where this package has right and front (RAS).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, check_folder, existing_file
from napari_gpubio.core.foreign import existing_bytes, existing_numbers
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.core.space import apply_affine, rotation_of, voxel_sizes_mm
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, nifti_affine, nifti_array, open_nifti, save_nifti
from napari_gpubio.registration.model import Transform, Warp, is_sheared, sitk

Array = npt.NDArray[Any]
ENDINGS = (".tfm", ".txt", "warp.nii.gz", ".h5")
_VECTOR = 1007  # intent code of NIfTI
_LPS = np.diag([-1.0, -1.0, 1.0, 1.0])
_NUMBERS, _OURS = rb"[\s\d.eE+\-]+", "RAS mm, fixed to moving"


def write_transform(transform: Transform, path: str | Path) -> None:
    """Write a transform for ITK and ANTs: ``.h5``, ``.tfm`` if linear; ``.txt``: rows of its matrix if linear.

    ``warp.nii.gz``, as in ``t1_warp.nii.gz``: displacements, which go as far as the grid of its first warp.

    InvalidInput if the name ends otherwise, the file cannot hold the transform, or cannot be written.
    """
    path = Path(path)
    name = path.name.lower()
    ending = next((one for one in ENDINGS if name.endswith(one)), None)
    if ending is None:
        raise InvalidInput(f"{path.name} does not end in {' or '.join(ENDINGS)}; give it one of these endings")
    if transform.warps and ending in (".tfm", ".txt"):
        raise InvalidInput(f"{path.name} cannot hold a warp; give a name that ends in warp.nii.gz or .h5")
    if not transform.warps and ending == "warp.nii.gz":
        raise InvalidInput(f"the transform is linear, which {path.name} cannot hold; give it the ending .tfm or .txt")
    check_folder(path)
    if ending == "warp.nii.gz":
        save_nifti(path, _field_image(transform))
        return
    with atomic_write(path) as part:
        if ending == ".txt":
            np.savetxt(part, transform.matrix, header=_OURS)
            return
        parts = [_itk_affine(transform.matrix), *(one for warp in reversed(transform.warps) for one in _itk_warp(warp))]
        whole = sitk().CompositeTransform(parts) if transform.warps else parts[0]  # the last is done first
        sitk().WriteTransform(whole, str(part))


def _itk_affine(matrix: Array) -> Any:
    matrix, affine = _LPS @ matrix @ _LPS, sitk().AffineTransform(3)
    affine.SetMatrix(matrix[:3, :3].ravel().tolist())
    affine.SetTranslation(matrix[:3, 3].tolist())
    return affine


def _itk_warp(warp: Warp) -> Iterator[Any]:
    """A field of displacements; one on a sheared grid, which ITK has not, between matrices."""
    if is_sheared(warp.affine):
        yield _itk_affine(warp.affine)
        yield from _itk_warp(warp.between(warp.affine))
        yield _itk_affine(np.linalg.inv(warp.affine))
        return
    field = np.ascontiguousarray(np.swapaxes(warp.displacements @ _LPS[:3, :3], 0, 2), dtype=float)
    image, affine = sitk().GetImageFromArray(field, isVector=True), _LPS @ warp.affine
    image.SetOrigin(affine[:3, 3].tolist())
    image.SetSpacing(voxel_sizes_mm(affine).tolist())
    image.SetDirection(rotation_of(affine).ravel().tolist())
    yield sitk().DisplacementFieldTransform(image)


def _field_image(transform: Transform) -> Any:
    """NIfTI of where the transform takes the voxels of its first warp's grid, less where they were."""
    import nibabel as nib

    grid = transform.warps[0]
    if is_sheared(grid.affine):
        raise InvalidInput("the grid of the warp is sheared, which ITK's images are never; give the ending .h5")
    points = apply_affine(grid.affine, np.moveaxis(np.indices(grid.displacements.shape[:3]), 0, -1))
    field = (transform.moved(points) - points) @ _LPS[:3, :3]
    image = nib.Nifti1Image(field[:, :, :, None].astype(np.float32), grid.affine)
    image.header.set_intent(_VECTOR)
    return image


@reads_file
def read_transform(path: str | Path, *, moving: str | Path | None = None, fixed: str | Path | None = None) -> Transform:
    """Read a transform, which takes points of the fixed image to the moving one.

    Parameters
    ----------
    path
        ITK's ``.tfm``, ``.txt``, ``.mat`` or ``.h5``, of which the last may have warps; ``1Warp.nii.gz`` and
        ``1InverseWarp.nii.gz`` of ANTs; FLIRT's ``.mat``; 4 rows of 4 numbers.
    moving, fixed
        The images that FLIRT was given (``-in`` and ``-ref``), in whose voxels its matrix is; for others not needed.

    Raises
    ------
    InvalidInput
        If the file is no transform, one of another kind (FNIRT's, B-splines), or FLIRT's without its images.
    """
    path = Path(path)
    if path.name.lower().endswith(NIFTI_SUFFIXES):
        return _of_nifti(path)
    if path.suffix.lower() == ".h5":
        return _of_itk(existing_file(path))
    head = existing_bytes(path)
    if not re.fullmatch(_NUMBERS, re.sub(rb"#[^\n]*", b"", head)):
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


def _flirt(path: str | Path) -> Array:
    """World mm of an image to FLIRT's: voxels times sizes, x reversed if the determinant is > 0."""
    image = open_nifti(path)
    affine = nifti_affine(image)
    scaled = np.diag([*np.linalg.norm(affine[:3, :3], axis=0), 1.0])
    if np.linalg.det(affine[:3, :3]) > 0:
        scaled = scaled @ np.array([[-1, 0, 0, image.shape[0] - 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    return scaled @ np.linalg.inv(affine)


def _of_nifti(path: Path) -> Transform:
    """Displacements as ITK and ANTs write them."""
    image = open_nifti(path)
    if len(image.shape) != 5 or image.shape[3:] != (1, 3):
        raise InvalidInput(
            f"its shape is {image.shape}; a warp of ITK or ANTs has (x, y, z, 1, 3). If it is FNIRT's, convert it: "
            "wb_command -convert-warpfield -from-fnirt WARP IN -to-itk OUT"
        )
    found = nifti_array(image, path)[:, :, :, 0].astype(np.float32) @ _LPS[:3, :3].astype(np.float32)
    return Transform(matrix=np.eye(4), warps=(Warp(displacements=found, affine=nifti_affine(image)),))


def _of_itk(path: Path) -> Transform:
    """Whatever SimpleITK reads."""
    try:
        read = sitk().ReadTransform(str(path))
    except RuntimeError as error:
        raise InvalidInput("it is no transform of ITK or ANTs, nor a matrix of 4 rows of 4 numbers") from error
    return Transform.of_parts(_parts_of_itk(read))


def _parts_of_itk(read: Any) -> Iterator[Array | Warp]:
    """Matrices and warps, in the order in which points go through them."""
    read = read.Downcast()
    if read.GetDimension() != 3:
        raise InvalidInput(f"it is a {read.GetName()} of {read.GetDimension()} dimensions; give one of 3")
    if isinstance(read, sitk().CompositeTransform):
        for n in reversed(range(read.GetNumberOfTransforms())):
            yield from _parts_of_itk(read.GetNthTransform(n))
    elif isinstance(read, sitk().DisplacementFieldTransform):
        yield _warp_of_itk(read.GetDisplacementField())
    elif read.IsLinear():
        yield _LPS @ _matrix_of_itk(read) @ _LPS
    else:
        raise InvalidInput(f"it has a {read.GetName()}; give linear transforms and displacements only")


def _warp_of_itk(image: Any) -> Warp:
    affine = np.eye(4)
    affine[:3, :3] = np.reshape(image.GetDirection(), (3, 3)) * image.GetSpacing()
    affine[:3, 3] = image.GetOrigin()
    field = np.swapaxes(sitk().GetArrayViewFromImage(image), 0, 2) @ _LPS[:3, :3]
    return Warp(displacements=field, affine=_LPS @ affine)


def _matrix_of_itk(read: Any) -> Array:
    """4 x 4 of any linear transform, from where it takes the corners."""
    corners = np.array([read.TransformPoint(point) for point in ((0.0, 0, 0), (1.0, 0, 0), (0, 1.0, 0), (0, 0, 1.0))])
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = (corners[1:] - corners[0]).T, corners[0]
    return matrix
