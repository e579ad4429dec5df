"""What an image without a gradient table is: tensors, peaks, FODs, colors, or a series of volumes.

Neither NIfTI nor ``.mif`` says it, but for NIfTI's intent of symmetric matrices, and the number of volumes says nothing
alone: a time series may have 6, 15 or 45. So the numbers themselves must be such as only that kind has.

=======  ==========================  ===================================================================================
kind     volumes                     what the numbers must be like
=======  ==========================  ===================================================================================
tensors  6, 9, or X, Y, Z, 1, 6      in one order of the components, but in no other, most tensors are positive definite
peaks    3 n, or X, Y, Z, n, 3       lengths of 1, or the last three values of a voxel empty together
fods     6, 15, 28, 45, 66, 91, ...  as functions on the sphere they are anisotropic, and nowhere far below 0
colors   3                           bytes from 0 to more than 1
series   any                         all other images
=======  ==========================  ===================================================================================
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import is_dicom
from napari_gpubio.core.foreign import existing_text
from napari_gpubio.core.mif import MIF_SUFFIXES, MifImage, read_mif
from napari_gpubio.core.reading import only_of
from napari_gpubio.core.tensor_components import PLACES, positive_definite
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, open_nifti
from napari_gpubio.diffusion.fods.harmonics import coefficient_count, lmax_of
from napari_gpubio.diffusion.io.dwi import find_gradient_files, has_own_table, read_any_array
from napari_gpubio.diffusion.io.fods import lowest_amplitudes
from napari_gpubio.diffusion.io.orientation_sidecars import basis_in, facts_beside
from napari_gpubio.diffusion.io.tensor_images import LARGEST_TRACE, SYMMATRIX, order_of, symmetric

Array = npt.NDArray[Any]
_TENSORS = (6, 9)  # volumes
_OF_FODS = tuple(coefficient_count(lmax) for lmax in range(2, 22, 2))
_DEEPEST, _LOOKED_AT = 4, 6  # levels of folders in which a scan is looked for, and files, whether they are DICOM
_MAX_VOXELS = 200_000  # that are looked at
_MAX_ROWS = 20_000
_MIN_VOXELS = 8  # for shares of them to mean anything
_NEARLY_ALL = 0.99
_MOSTLY, _RARELY = 0.95, 0.01
_MIN_MIXED = 4  # of the five coefficients of order 2 have both signs, as soon as fibers have several directions
_MIN_FALLING = 0.75  # of neighboring peaks; MRtrix sorts them, but some programs by something else
_MIN_DEFINITE = 0.4  # the noise outside of a head, where no mask was used, gives any tensor
_LARGEST_TRACE = 50.0  # um^2/ms; that of free water is 9
_UNIT = 2e-3  # by which the length of a direction that was stored as float32, or as scaled integers, may differ from 1
_LOWEST = 0.35  # of a FOD, below 0, over its largest amplitude; volumes that are all alike give 0.5
_MIN_ANISOTROPY = 0.3  # power of the orders above 0, square root, over the coefficient of order 0
_LARGEST_LMAX = 20


@dataclass(frozen=True)
class Kind:
    """What an image was taken for.

    Parameters
    ----------
    name
        A row of the table above; ``"volume"`` for a single one.
    note
        By what sign, as `napari_gpubio.core.reading.note` takes it; empty for a volume and a series.
    """

    name: Literal["volume", "series", "tensors", "peaks", "fods", "colors"]
    note: str = ""


def kind_of(array: Array, name: str, *, intent: int = 0) -> Kind:
    """Find what the volumes of an image are.

    Parameters
    ----------
    array
        As the file has it, of three or more dimensions (X, Y, Z, ...); real numbers, or bytes of colors.
    name
        Of the file.
    intent
        The intent code of its NIfTI header.
    """
    if array.ndim <= 3 or array.size == np.prod(array.shape[:3]):
        return Kind("volume")
    if array.ndim == 4 and array.shape[3] == 3 and array.dtype == np.uint8 and array.max() > 1:
        return Kind("colors", "its three volumes of bytes were taken for red, green and blue")
    if array.dtype.kind != "f" and intent != SYMMATRIX:
        return Kind("series")
    rows = _rows(array)
    if note := _tensors(rows, array.shape, name, intent):
        return Kind("tensors", note)
    if note := _peaks(rows, array.shape):
        return Kind("peaks", note)
    if note := _fods(rows, array.shape):
        return Kind("fods", note)
    return Kind("series")


def only_scan(path: Path) -> Path:
    """Return a file as it is, and of a folder the only diffusion scan under it, such as of a subject of BIDS.

    Raises
    ------
    InvalidInput
        If the folder has none, or several.
    """
    if not path.is_dir():
        return path
    files = sorted(one for level in range(_DEEPEST) for one in path.glob("*/" * level + "*") if one.is_file())
    found = [one for one in files if one.name.lower().endswith((*NIFTI_SUFFIXES, *MIF_SUFFIXES)) and _has_table(one)]
    if (scan := only_of(path, found, "diffusion scans")) is not None:
        return scan
    if any(map(is_dicom, files[:_LOOKED_AT])):
        raise InvalidInput(
            f"{path.name} holds DICOM files; convert them with dcm2niix, which writes the gradient table, too, and "
            "give its NIfTI file"
        )
    raise InvalidInput(f"{path.name} holds no image of several volumes with its bval and bvec files; give the scan")


def _has_table(path: Path) -> bool:
    """Whether an image has a gradient table in it, or one beside it for as many volumes as it has."""
    try:
        image: Any = read_mif(path) if path.name.lower().endswith(MIF_SUFFIXES) else open_nifti(path)
    except InvalidInput:  # damaged, and so no scan
        return False
    if getattr(image, "gradients", None) is not None:
        return True
    bval, bvec = find_gradient_files(path)
    shape = image.data.shape if isinstance(image, MifImage) else image.shape
    if bval is None or bvec is None or len(shape) != 4:
        return False
    return bval == bvec or len(existing_text(bval, other="latin-1").split()) == shape[3]


def is_scan(path: Path) -> bool:
    """Whether an image is to be read with a gradient table: not six or nine volumes of tensors beside another's.

    A folder stands for the scan in it.

    Raises
    ------
    InvalidInput
        If it cannot be read.
    """
    if path.is_dir():
        return True
    image: Any = read_mif(path) if path.name.lower().endswith(MIF_SUFFIXES) else open_nifti(path)
    if getattr(image, "gradients", None) is not None:
        return True
    if not all(find_gradient_files(path)):
        return False
    shape = image.data.shape if isinstance(image, MifImage) else image.shape
    if has_own_table(path) or int(np.prod(shape[3:])) not in _TENSORS:
        return True
    return kind_of(read_any_array(path)[0], path.name).name != "tensors"


def is_fods(path: Path) -> bool:
    """Whether an image holds FODs, and no peaks: its JSON file, the number of its volumes, or its numbers say so.

    InvalidInput if it cannot be read.
    """
    if not path.is_file() or not path.name.lower().endswith((*NIFTI_SUFFIXES, *MIF_SUFFIXES)):
        return False
    array = read_any_array(path)[0]
    if array.ndim != 4 or array.shape[3] not in _OF_FODS:
        return False
    if array.shape[3] % 3 or basis_in(facts_beside(path)) is not None:
        return True
    return kind_of(array, path.name).name == "fods"


def _rows(array: Array) -> Array:
    """Values (M, N) of voxels, at most so many, that hold any but zeros and NaN."""
    count = int(np.prod(array.shape[:3]))
    flat = np.arange(0, count, max(1, -(-count // _MAX_VOXELS)))
    rows = array[np.unravel_index(flat, array.shape[:3])].reshape(len(flat), -1)
    rows = rows[((rows != 0) & ~np.isnan(rows)).any(axis=1)]
    return rows[:: max(1, -(-len(rows) // _MAX_ROWS))].astype(np.float64)


def _finite(rows: Array) -> Array:
    return rows[np.isfinite(rows).all(axis=1)]


def _tensors(rows: Array, shape: tuple[int, ...], name: str, intent: int) -> str:
    """A note, if these are diffusion tensors."""
    volumes = shape[3:]
    if volumes not in ((6,), (9,), (1, 6), (1, 9), (3, 3)):
        return ""
    if intent == SYMMATRIX:
        return "it was taken for tensors, as the intent of its header says"
    rows = _finite(rows)
    if len(rows) < _MIN_VOXELS:
        return ""
    try:
        order, _ = order_of("auto", None, symmetric(rows, name), name)
    except InvalidInput:
        return ""
    tensors = np.take(rows, PLACES[order], axis=1)
    share = float(positive_definite(tensors).mean())
    trace = float(np.median(tensors[:, :3].sum(axis=1)))
    both_signs = ((tensors[:, 3:] > 0).mean(axis=0) < _NEARLY_ALL).all()
    if share < _MIN_DEFINITE or not 0 < trace < _LARGEST_TRACE or not both_signs:
        return ""
    return (
        f"it was taken for diffusion tensors in {'um^2/ms' if trace > LARGEST_TRACE else 'mm^2/s'}, since in the order "
        f"{order} {100 * share:.0f} % of them are positive definite; so are covariances, which it may also hold"
    )


def _peaks(rows: Array, shape: tuple[int, ...]) -> str:
    """A note, if these are peaks."""
    if not (len(shape) == 4 and shape[3] % 3 == 0) and not (len(shape) == 5 and shape[4] == 3):
        return ""
    if len(rows) < _MIN_VOXELS:
        return ""
    peaks = rows.reshape(len(rows), -1, 3)
    lengths = np.linalg.norm(np.nan_to_num(peaks), axis=2)
    there = lengths > 0
    if not np.isfinite(lengths).all() or not (peaks[there] < 0).any():
        return ""
    if (np.abs(lengths[there] - 1) < _UNIT).mean() > _NEARLY_ALL:
        return "it was taken for directions of fibers (peaks), since all of them have the length 1"
    empty = (peaks == 0).all(axis=2) | np.isnan(peaks).all(axis=2)
    both = there[:, :-1] & there[:, 1:]
    falls = (lengths[:, :-1] >= lengths[:, 1:])[both].mean() > _MIN_FALLING if both.any() else True
    come_first = (there[:, :-1] >= there[:, 1:]).all()
    is_sorted = peaks.shape[1] > 1 and come_first and empty.any() and falls  # a single vector may be a displacement
    if is_sorted and (there != empty).all() and not np.isnan(peaks[there]).any():
        return (
            f"it was taken for peaks, up to {peaks.shape[1]} in a voxel, since in voxels with fewer the last ones are "
            "empty, all three values of them"
        )
    return ""


def _fods(rows: Array, shape: tuple[int, ...]) -> str:
    """A note, if these are coefficients of functions on the sphere that are nowhere far below zero."""
    try:
        lmax = lmax_of(shape[3])
    except InvalidInput:
        return ""
    rows = _finite(rows)
    if len(shape) != 4 or not 0 < lmax <= _LARGEST_LMAX or len(rows) < _MIN_VOXELS:
        return ""
    below = (rows[:, 1:6] < 0).mean(axis=0)  # of l = 2; all echoes of a scan, the first one the largest, are positive
    if (rows[:, 0] > 0).mean() < _MOSTLY or np.count_nonzero((below > _RARELY) & (below < 1 - _RARELY)) < _MIN_MIXED:
        return ""
    strong = rows[rows[:, 0] >= np.median(rows[:, 0])]
    if np.median(np.linalg.norm(strong[:, 1:], axis=1) / strong[:, 0]) < _MIN_ANISOTROPY:
        return ""
    lowest = min(lowest_amplitudes(rows).values())
    if lowest > _LOWEST:
        return ""
    return (
        f"it was taken for fiber orientation distributions of lmax {lmax}, since its {shape[3]} volumes, as spherical "
        "harmonics, give functions that are nearly nowhere below 0"
    )
