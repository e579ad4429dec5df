"""Volumes in (NIfTI, Analyze, FreeSurfer's mgz) and out (NIfTI), and the size checks that every image reader shares."""

import gzip
import math
import struct
import zlib
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.by_planes import blocks_of
from napari_gpubio.core.device import CPU, free_memory_bytes
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, existing_file, is_gzip
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.core.space import as_many_voxels, checked_affine, is_affine, same_grid, voxel_sizes_mm
from napari_gpubio.core.steps import Step, drive

Array = npt.NDArray[Any]
Affine = npt.NDArray[np.float64]
NIFTI_SUFFIXES = (".nii", ".nii.gz")
VOLUME_SUFFIXES = (*NIFTI_SUFFIXES, ".hdr", ".hdr.gz", ".img", ".img.gz", ".mgz", ".mgh")
_CONVERTERS = {
    **dict.fromkeys((".head", ".brik"), "AFNI's 3dAFNItoNIFTI"),
    **dict.fromkeys((".dcm", ".ima"), "dcm2niix"),
    ".mnc": "mnc2nii",
    **dict.fromkeys((".nrrd", ".nhdr"), "3D Slicer (a scan with DWIConvert)"),
}
_OTHER_UNITS = {1: ("meters", 1e3), 3: ("microns", 1e-3)}  # of NIfTI's xyzt_units; 2 is mm, and 0, unknown, is taken so
_SMALLEST_MM, _UNUSUAL_MM, _LARGEST_MM = 1e-7, 100.0, 1e3  # of a voxel
_NO_ORIENTATION = (
    "the header gives no orientation (its codes of it are 0): which side is left, and the place, are assumed"
)
MAX_DEFLATED = 1100  # DEFLATE codes at most 258 bytes in 2 bits: a factor of 1032
_BLOCK = 16 << 20  # bytes between two steps: half a second where they are compressed
_ALWAYS_UNPACKED_BYTES = 256 * 2**20
MAX_EXPANSION = 250  # volumes that are nearly empty grow so much in most formats
# What gzip and NumPy raise on a damaged file; `_read_errors` adds nibabel's own.
_READ_ERRORS: tuple[type[Exception], ...] = (OSError, EOFError, ValueError, LookupError, ArithmeticError, MemoryError)
_READ_ERRORS += (struct.error, zlib.error)


def read_volume(path: str | Path) -> tuple[Array, Affine]:
    """Read one three-dimensional volume (a scalar map, labels, a mask).

    Parameters
    ----------
    path
        One of `VOLUME_SUFFIXES`. Further axes of length 1 are dropped.

    Returns
    -------
    array
        Shape (X, Y, Z), any real type, in the machine's byte order.
    affine
        Voxel to world, mm; the header's unit of length is applied. What is assumed is noted, see `core.reading`.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, too large for the memory, of another kind, or not three-dimensional.
    """
    array, affine = read_array(path)
    return one_volume(array, Path(path).name), affine


@reads_file
def read_array(path: str | Path) -> tuple[Array, Affine]:
    """Read the whole array of an image, of any number of dimensions, and its affine (mm); errors as `read_volume`."""
    path = Path(path)
    image = open_nifti(path)
    return nifti_array(image, path), nifti_affine(image)


@reads_file
def read_any_array(path: str | Path) -> tuple[Array, Affine]:
    """Read an image to look at it, as `read_array`: it may be complex, and colors are a last axis of 3 or 4 uint8."""
    path = Path(path)
    image = open_nifti(path)
    return nifti_array(image, path, any_type=True), nifti_affine(image)


@reads_file
def has_orientation(path: str | Path) -> bool:
    """Whether the header of an image says which side is left; without that its affine is an assumption.

    Of `VOLUME_SUFFIXES`; files of other kinds do.
    """
    return not str(path).lower().endswith(VOLUME_SUFFIXES) or _is_oriented(open_nifti(path))


def _is_oriented(image: Any) -> bool:
    header = image.header
    if "goodRASFlag" in header:  # which nibabel has set, whatever the file has
        path = Path(image.file_map["image"].filename)
        with gzip.open(path, "rb") if is_gzip(path) else path.open("rb") as stream:
            return bool(stream.read(30)[28:] != b"\0\0")
    return any(int(header[code]) for code in ("sform_code", "qform_code") if code in header)


def lies_on_grid(
    path: str | Path, shape: tuple[int, ...], affine: Affine, other_shape: tuple[int, ...], other_affine: Affine
) -> bool:
    """Return whether the volume of a file, as it was read, lies on another grid; see `fits_grid`."""
    name = Path(path).name
    return fits_grid(name, shape, affine, other_shape, other_affine, is_oriented=lambda: has_orientation(path))


def fits_grid(
    name: str,
    shape: tuple[int, ...],
    affine: Affine,
    other_shape: tuple[int, ...],
    other_affine: Affine,
    *,
    is_oriented: Callable[[], bool],
) -> bool:
    """Return whether a volume with a name lies on another grid; only the first three axes count.

    Where one of both has no orientation, the only way to know where its voxels lie is by their indices: with as many
    voxels it does, and a note says so. ``is_oriented``: whether the first one has one.
    """
    if same_grid(shape, affine, other_shape, other_affine):
        return True
    if not as_many_voxels(shape, affine, other_shape, other_affine):
        return False
    if is_oriented() == _has_place(other_shape, other_affine):
        return False
    note(f"{name} and its image are taken voxel by voxel, since one of them has no orientation")
    return True


def _has_place(shape: tuple[int, ...], affine: Affine) -> bool:
    """Whether an affine is another than the one that is assumed of a file without orientation (nibabel's)."""
    assumed = np.diag([*np.diag(affine)[:3], 1.0])
    assumed[:3, 3] = -assumed[:3, :3] @ ((np.array(shape[:3]) - 1) / 2)
    return affine[0, 0] > 0 or not np.allclose(affine, assumed, atol=1e-3)


def stem_of(path: Path) -> str:
    """Name of an image without its ending."""
    endings = sorted((*VOLUME_SUFFIXES, ".mif.gz"), key=len, reverse=True)
    ending = next((end for end in endings if path.name.lower().endswith(end)), path.suffix)
    return path.name[: len(path.name) - len(ending)]


def one_volume(array: Array, name: str) -> Array:
    """Return an image's array as one volume (X, Y, Z), without further axes of length 1.

    Raises
    ------
    InvalidInput
        If it has fewer than three dimensions or holds several volumes; ``name`` is the file's.
    """
    if array.ndim < 3 or array.size != np.prod(array.shape[:3]):
        raise InvalidInput(f"{name} has shape {array.shape}; one volume (x, y, z) is needed: take one out of a series")
    return array.reshape(array.shape[:3])


def write_volume(path: str | Path, array: Array, affine: npt.ArrayLike, description: str = "") -> None:
    """Write a volume as NIfTI; an older file is replaced only when the new one is complete.

    Parameters
    ----------
    path
        Ends in ``.nii`` or ``.nii.gz``.
    array
        Shape (X, Y, Z), or (X, Y, Z, C) for colors or several maps. Booleans are written as uint8, 64-bit
        integers as int32 where they fit, float16 as float32.
    affine
        Voxel to world, mm.
    description
        Goes to the header's ``descrip`` (its first 79 bytes).

    Raises
    ------
    InvalidInput
        If the array is not a real volume, the name ends otherwise, or the folder does not exist.
    """
    save_nifti(path, volume_image(array, affine), description)


def volume_image(array: Array, affine: npt.ArrayLike) -> Any:
    """Return a volume as nibabel's image; parameters and errors as `write_volume`."""
    array = np.asarray(array)
    if array.ndim not in (3, 4):
        raise InvalidInput(f"a volume has 3 dimensions, or 4 with colors; this array has shape {array.shape}")
    storable = _storable(array)
    import nibabel as nib

    return nib.Nifti1Image(storable, checked_affine(affine), dtype=storable.dtype)


def save_nifti(path: str | Path, image: Any, description: str = "") -> None:
    """Write a nibabel image atomically, in mm and with its affine as both sform and (without shear) qform."""
    if not str(path).lower().endswith(NIFTI_SUFFIXES):
        raise InvalidInput(f"{Path(path).name} does not end in .nii or .nii.gz; give it one of these endings")
    with atomic_write(path) as part:
        drive(nifti_steps(part, Path(path).name, image, description))


def nifti_steps(file: Path, name: str, image: Any, description: str = "") -> Generator[Step, None, None]:
    """Write an image, whose array has the type of its header, to a file with a step every 16 MB, as nibabel would.

    ``name``: that of the file as the user knows it.
    """
    from nibabel.openers import ImageOpener

    image.set_sform(image.affine, code="scanner")
    image.set_qform(image.affine, code="scanner")
    image.header.set_xyzt_units("mm")
    image.header["descrip"] = description.encode("ascii", "replace")[:79]
    image.update_header()
    header, array = image.header.copy(), np.asanyarray(image.dataobj)
    header.set_slope_inter(1.0, 0.0)
    done, total = 0, array.nbytes
    with ImageOpener(file, "wb") as stream:  # of .gz at its fastest level
        header.write_to(stream)
        stream.seek(header.get_data_offset())
        for block in blocks_of(array, "F", _BLOCK // array.itemsize, header.get_data_dtype()):
            stream.write(block)
            done += len(block)
            if done < total:
                yield Step(done >> 20, total >> 20, f"MB of {name} saved")


@reads_file
def open_nifti(path: str | Path) -> Any:
    """Read the header of an image file and check that its data can be there and fit into memory.

    Returns
    -------
    nibabel.spatialimages.SpatialImage
        NIfTI, Analyze, SPM or FreeSurfer's. Nothing but the header has been read.

    Raises
    ------
    InvalidInput
        If the file is missing, of another kind, damaged, shorter than its header declares, or too large.
    """
    import nibabel as nib

    path = existing_file(path)
    if not path.name.lower().endswith(VOLUME_SUFFIXES):
        tool = next((f" with {tool}" for end, tool in _CONVERTERS.items() if end in path.name.lower()), "")
        raise InvalidInput(
            f"{path.name} is not a file that can be read here; convert it{tool} to NIfTI (.nii, .nii.gz)"
        )
    try:
        image: Any = nib.load(path, mmap=False)
    except _read_errors() as error:
        image = _odd_image(path, error)
    in_header = getattr(image.header, "is_single", False) and image.dataobj.offset < image.header.single_vox_offset
    if in_header or min(image.shape[3:], default=1) < 1:
        image = _odd_image(path, InvalidInput("its header does not fit its numbers"))
    if not isinstance(image, (nib.AnalyzeImage, nib.MGHImage)):  # NIfTI's classes derive from Analyze's
        raise InvalidInput(f"{path.name} is not a NIfTI file despite its name; convert it to NIfTI")
    dtype = image.get_data_dtype()
    if dtype.kind not in "iufc" and not _is_color(dtype):
        raise InvalidInput(f"{path.name} holds values of type {dtype}; only numbers can be used: convert it")
    if min(image.shape, default=0) < 1:
        raise InvalidInput(f"{path.name} declares the shape {image.shape}, which holds nothing; write it again")
    values = existing_file(image.file_map["image"].filename)
    check_declared_size(values, int(image.dataobj.offset), math.prod(map(int, image.shape)) * dtype.itemsize)
    return image


def _odd_image(path: Path, error: Exception) -> Any:
    """An image that nibabel does not open, if it can be."""
    from napari_gpubio.core.odd_nifti import open_odd

    try:
        if (image := open_odd(path)) is not None:
            return image
    except _read_errors() as other:
        error = other
    raise damaged(path, error) from error


def _is_color(dtype: np.dtype[Any]) -> bool:
    """Whether values are RGB or RGBA."""
    parts = [dtype[name] for name in dtype.names or ()]
    return len(parts) in (3, 4) and all(part == np.uint8 for part in parts)


def _read_errors() -> tuple[type[Exception], ...]:
    from nibabel.filebasedimages import ImageFileError
    from nibabel.freesurfer.mghformat import MGHError
    from nibabel.spatialimages import HeaderDataError

    return (*_READ_ERRORS, TypeError, ImageFileError, HeaderDataError, MGHError)


def nifti_array(image: Any, path: Path, *, any_type: bool = False) -> Array:
    """Read the data of an `open_nifti` image, scaled (to float32 at least) where the header requires it.

    Where real numbers were fitted to all integers of a type, what rounds to 0 is 0, as the background was.

    Parameters
    ----------
    image, path
        The image, and its file.
    any_type
        Take complex values, too, and colors, which become a last axis of 3 or 4 uint8.

    Raises
    ------
    InvalidInput
        If the file is damaged, or its values are no real numbers and that is not wanted.
    """
    if (dtype := image.get_data_dtype()).kind not in "iuf" and not any_type:
        raise InvalidInput(f"{path.name} holds values of type {dtype}; only real numbers can be used: convert it")
    proxy = image.dataobj
    try:
        data = proxy.get_unscaled()
    except _READ_ERRORS as error:
        raise damaged(path, error) from error
    if data.dtype.names:
        return np.ascontiguousarray(data).view(np.uint8).reshape(*data.shape, len(data.dtype))
    if not (proxy.slope == 1 and proxy.inter == 0):
        is_fitted = proxy.inter != 0 and _uses_all_numbers(data)
        data = data.astype(np.result_type(data.dtype, np.float32))
        with np.errstate(over="ignore", invalid="ignore"):
            data *= data.dtype.type(proxy.slope)
            data += data.dtype.type(proxy.inter)
        if is_fitted:
            data[np.abs(data) <= abs(proxy.slope) / 2] = 0
    widest = np.dtype(np.complex128 if data.dtype.kind == "c" else np.float64)
    kind = widest if data.dtype.itemsize > widest.itemsize else data.dtype.newbyteorder("=")
    return np.asarray(data).astype(kind, copy=False)


def _uses_all_numbers(stored: Array) -> bool:
    """Whether slope and intercept were fitted to an integer type, as nibabel does, which leaves no number for 0."""
    limits = np.iinfo(stored.dtype) if stored.dtype.kind in "iu" else None
    return limits is not None and bool(stored.min() <= limits.min + 1 and stored.max() >= limits.max - 1)


def nifti_affine(image: Any) -> Affine:
    """Return the checked voxel-to-world matrix of an `open_nifti` image, in mm whatever its unit of length is."""
    affine = np.array(image.affine, np.float64)
    unit = int(image.header["xyzt_units"]) & 7 if "xyzt_units" in image.header else 0
    name, factor = _OTHER_UNITS.get(unit, ("mm", 1.0))
    if factor != 1:
        note(f"lengths are in {name} according to the header (xyzt_units), and were turned to mm")
    if not _is_oriented(image):
        note(_NO_ORIENTATION)
    other = _qform(image)
    if other is not None and not np.linalg.det(affine[:3, :3]) * np.linalg.det(other[:3, :3]) > 0:
        if is_affine(affine):
            note("its sform and its qform differ in which side is left; the sform was taken")
        else:
            note("its sform cannot be used; the qform was taken")
            affine = other
    affine[:3] *= factor
    return usable_affine(affine, [float(size) * factor for size in image.header.get_zooms()[:3]])


def _qform(image: Any) -> Affine | None:
    """The other matrix of a NIfTI header that has both."""
    if "qform_code" not in image.header or not int(image.header["sform_code"]) or not int(image.header["qform_code"]):
        return None
    try:
        return np.array(image.get_qform(), np.float64)
    except _read_errors():  # numbers that are no rotation
        return None


def usable_affine(affine: npt.ArrayLike, sizes: Sequence[float]) -> Affine:
    """Return a header's affine (mm), checked; if it cannot be used, one of its voxel sizes alone, with a note."""
    try:
        found = checked_affine(affine)
        if (largest := voxel_sizes_mm(found).max()) > _UNUSUAL_MM:
            note(f"its voxels are up to {largest:.4g} mm long; check its unit of length")
        return found
    except InvalidInput as error:
        edges = np.array([*sizes, *[1.0] * 3][:3])
        if not (np.isfinite(edges) & (edges > _SMALLEST_MM) & (edges < _LARGEST_MM)).all():
            edges = np.ones(3)
        note(f"{error}; voxels of {edges[0]:g} x {edges[1]:g} x {edges[2]:g} mm along the world axes are assumed")
        return np.diag([*edges, 1.0])


def check_declared_size(path: Path, offset: int, count: int) -> None:
    """Check, before anything is allocated, that ``count`` bytes from ``offset`` can be in a file and in memory.

    Raises
    ------
    InvalidInput
        If a plain file is too short, a gzip file could not hold so much at its best, or the memory is too small.
    """
    size = path.stat().st_size
    most = size * MAX_DEFLATED if is_gzip(path) else size
    if offset < 0 or offset + count > most:
        raise InvalidInput(
            f"{path.name} has {size} bytes, but its header declares {count} bytes of data from byte {offset}; "
            "the file is incomplete or damaged: copy or download it again"
        )
    check_memory(path, count)


def check_memory(path: Path, count: int) -> None:
    """Raise InvalidInput if fewer bytes of memory are free than a file needs."""
    if count > (free := free_memory_bytes(CPU)):
        raise InvalidInput(
            f"{path.name} needs {count / 2**20:.0f} MB of memory and {free / 2**20:.0f} MB are free; "
            "close other programs, or crop or resample the image"
        )


def check_expansion(path: Path, unpacked: int, most: int = MAX_EXPANSION) -> None:
    """Refuse a file that does not fit into the memory, or grows to so many bytes as only a zip bomb does.

    Parameters
    ----------
    path, unpacked
        The file, and how many bytes become of it.
    most
        Times its size.

    Raises
    ------
    InvalidInput
        If the bytes are more than are free, or more than 256 MB and so many times those of the file.
    """
    packed = path.stat().st_size
    if unpacked > max(_ALWAYS_UNPACKED_BYTES, most * packed):
        raise InvalidInput(
            f"{path.name} has {packed} bytes and unpacks to {unpacked}, over {most} times its size; if you trust the "
            "file, write it again without compression"
        )
    check_memory(path, unpacked)


def damaged(path: Path, error: Exception) -> InvalidInput:
    """Return the error to raise when a library fails on a file."""
    return InvalidInput(
        f"{path.name} cannot be read ({type(error).__name__}: {str(error)[:200]}); "
        "it is incomplete, damaged or of another kind: copy or download it again"
    )


def _storable(array: Array) -> Array:
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"values of type {array.dtype} cannot be written as NIfTI; convert them to real numbers")
    if array.dtype == bool:
        return array.astype(np.uint8)
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype in (np.int64, np.uint64) and (not array.size or abs(int(array.max())) < 2**31 > -int(array.min())):
        return array.astype(np.int32)
    return array
