"""Diffusion scans, and volumes of the same study: scalar maps, labels and masks, from NIfTI or MRtrix."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import volumes as nifti
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.reading import reads_file
from napari_gpubio.core.space import same_grid
from napari_gpubio.core.volumes import nifti_affine, nifti_array, open_nifti
from napari_gpubio.tracts.io.gradients import read_fsl_gradients, tidy_gradients
from napari_gpubio.tracts.io.mif import MIF_SUFFIXES, read_mif
from napari_gpubio.tracts.model import DiffusionScan

Array = npt.NDArray[Any]
Affine = npt.NDArray[np.float64]


def read_volume(path: str | Path) -> tuple[Array, Affine]:
    """Read one three-dimensional volume and its affine (mm), also from ``.mif`` and ``.mif.gz`` files of MRtrix.

    Otherwise as `napari_gpubio.core.volumes.read_volume`, with the same errors.
    """
    array, affine = read_array(path)
    return nifti.one_volume(array, Path(path).name), affine


def read_array(path: str | Path) -> tuple[Array, Affine]:
    """Read the whole array of an image, of any number of dimensions, and its affine (mm); errors as `read_volume`."""
    if not str(path).lower().endswith(MIF_SUFFIXES):
        return nifti.read_array(path)
    image = read_mif(path)
    return image.data, image.affine


def read_mask(path: str | Path, shape: tuple[int, ...], affine: Affine) -> npt.NDArray[np.bool_]:
    """Read a mask that must lie on a given grid; voxels that are not zero are inside.

    Parameters
    ----------
    path
        As for `read_volume`.
    shape, affine
        Grid of the volume that the mask belongs to (voxel to world, mm).

    Returns
    -------
    ndarray of bool
        Shape ``shape[:3]``.

    Raises
    ------
    InvalidInput
        As `read_volume`, or if the grid differs by more than 1e-3 mm or the mask is empty.
    """
    name = Path(path).name
    array, own_affine = read_volume(path)
    if array.shape != tuple(shape[:3]):
        raise InvalidInput(
            f"the mask {name} has shape {array.shape} and the image {tuple(shape[:3])}; resample it to the image"
        )
    if not same_grid(array.shape, own_affine, shape, affine):
        raise InvalidInput(f"the mask {name} lies elsewhere than the image (other affine); resample it to the image")
    mask = np.nan_to_num(array) != 0
    if not mask.any():
        raise InvalidInput(f"the mask {name} is empty; choose one with voxels that are not zero")
    return np.ascontiguousarray(mask)


@reads_file
def read_dwi(path: str | Path, *, bval: str | Path | None = None, bvec: str | Path | None = None) -> DiffusionScan:
    """Read a diffusion-weighted series with its gradient table.

    Parameters
    ----------
    path
        A ``.nii`` or ``.nii.gz`` file, or a ``.mif``, ``.mif.gz`` or ``.mih`` file that carries its ``dw_scheme``.
    bval, bvec
        FSL's files for a NIfTI image. Without them they are searched for beside the image, for ``dwi.nii.gz`` under
        ``dwi.bval``, ``dwi.bvals``, ``dwi.nii.gz.bval``, ``dwi_bval``, ``bvals``, ``bval``, each also with ``.txt``;
        bvec likewise, and before the names of the folder ``dwi.eddy_rotated_bvecs``. The notes say which were taken.

    Returns
    -------
    DiffusionScan
        Signals as stored (scaled to float32 or float64 where the header requires it); voxels with values
        that are not finite are 0 in all volumes. Directions in world axes.

    Raises
    ------
    InvalidInput
        If a file is missing, damaged, too large for the memory, or the parts do not fit each other.
    """
    path = existing_file(path)
    if path.name.lower().endswith(MIF_SUFFIXES):
        return _read_mif_dwi(path, bval, bvec)
    image = open_nifti(path)
    _check_is_series(path, image.shape)
    affine = nifti_affine(image, path)
    bval_path = Path(bval) if bval is not None else _needed(path, "bval")
    bvec_path = Path(bvec) if bvec is not None else _needed(path, "bvec")
    bvals, directions, notes = read_fsl_gradients(bval_path, bvec_path, image.shape[3], affine)
    if not (int(image.header["sform_code"]) or int(image.header["qform_code"])):
        assumed = "left and right, and the gradient directions, rest on an assumption"
        notes = (*notes, f"the header gives no orientation (sform and qform codes are 0): {assumed}")
    notes = (f"gradient table: {bval_path.name} and {bvec_path.name}", *notes)
    return _scan(nifti_array(image, path), bvals, directions, affine, path, notes)


def find_gradient_files(path: str | Path) -> tuple[Path | None, Path | None]:
    """Return the bval and bvec files that belong to an image by their names, each None if there is none."""
    path = Path(path)
    return _find(path, "bval"), _find(path, "bvec")


def _read_mif_dwi(path: Path, bval: str | Path | None, bvec: str | Path | None) -> DiffusionScan:
    if bval is not None or bvec is not None:
        raise InvalidInput(
            f"{path.name} is an MRtrix image, which carries its own gradient table; leave bval and bvec out, "
            "or put them in with mrconvert -fslgrad"
        )
    image = read_mif(path)
    _check_is_series(path, image.data.shape)
    if image.gradients is None:
        raise InvalidInput(f"{path.name} has no gradient table (dw_scheme); put one in with mrconvert -fslgrad")
    bvals, directions, notes = tidy_gradients(image.gradients[:, 3], image.gradients[:, :3])
    notes = (f"gradient table: dw_scheme of {path.name}", *notes)
    return _scan(image.data, bvals, directions, image.affine, path, notes)


def _scan(
    data: Array, bvals: Affine, directions: Affine, affine: Affine, path: Path, notes: tuple[str, ...]
) -> DiffusionScan:
    """Make the scan; voxels with a signal that is not finite become 0 in all volumes, with a note of how many."""
    if data.dtype.kind == "f" and not np.isfinite(data).all():
        lost = np.asarray(~np.isfinite(data).all(axis=3))
        data = np.where(lost[..., np.newaxis], data.dtype.type(0), data)
        notes = (*notes, f"voxels with signals that are not finite were set to 0 in all volumes: {lost.sum():,}")
    return DiffusionScan(data=data, bvals=bvals, directions=directions, affine=affine, path=path, notes=notes)


def _check_is_series(path: Path, shape: tuple[int, ...]) -> None:
    if len(shape) != 4:
        raise InvalidInput(
            f"{path.name} has shape {tuple(shape)}; a diffusion series has four dimensions (x, y, z, volume)"
        )


def _needed(path: Path, kind: str) -> Path:
    if (found := _find(path, kind)) is not None:
        return found
    tried = ", ".join(p.name for p in _candidates(path, kind)[:3])
    raise InvalidInput(
        f"no {kind} file was found beside {path.name} (tried {tried} and others); put it there or give {kind}="
    )


def _find(path: Path, kind: str) -> Path | None:
    return next((p for p in _candidates(path, kind) if p.is_file()), None)


def _candidates(path: Path, kind: str) -> list[Path]:
    """Names under which programs put the table of an image; first those that carry the image's name."""
    stem = path.name[: -len(".nii.gz")] if path.name.lower().endswith(".nii.gz") else path.stem
    own = [f"{stem}.{kind}", f"{stem}.{kind}s", f"{path.name}.{kind}", f"{path.name}.{kind}s"]
    own += [f"{stem}_{kind}", f"{stem}_{kind}s", f"{stem}_{kind}.txt", f"{stem}_{kind}s.txt"]
    if kind == "bvec":
        own.append(f"{stem}.eddy_rotated_bvecs")
    shared = [f"{kind}s", kind, f"{kind}s.txt", f"{kind}.txt"]
    return [path.parent / name for name in own + shared]
