"""DICOM files: reading with clear errors, and where the pixels lie. pydicom is imported when it is first needed."""

import mmap
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file, is_stream
from napari_gpubio.core.reading import note, only_of, reads_file
from napari_gpubio.dose.model import PATIENT_KEYS

CLASSES = {
    "CT": "1.2.840.10008.5.1.4.1.1.2",
    "RTDOSE": "1.2.840.10008.5.1.4.1.1.481.2",
    "RTSTRUCT": "1.2.840.10008.5.1.4.1.1.481.3",
    "RTPLAN": "1.2.840.10008.5.1.4.1.1.481.5",
}
_DICOMDIR = "1.2.840.10008.1.3.10"
_SUFFIXES = (".dcm", ".dicom", ".ima")
_FIRST_ELEMENTS = tuple(bytes((element, 0)) for element in (0x00, 0x01, 0x05, 0x06, 0x08, 0x12, 0x13, 0x14, 0x16))
_DEEPEST, _MAX_FILES = 3, 20_000  # levels of folders in a study folder, and files in all of them
Array = npt.NDArray[np.float64]
LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])  # DICOM's patient axes to those of this package
EVEN = 1e-2  # share of the distance of slices by which they may differ
_PIXELS = "PixelData", "FloatPixelData", "DoubleFloatPixelData"
_SQUARE = 1e-4  # cosine of the angle between rows and columns


def pydicom() -> Any:
    """Return the library; InvalidInput if it is not installed."""
    try:
        import pydicom as library
    except ImportError as error:
        raise InvalidInput("DICOM files need pydicom: python -m pip install pydicom") from error
    return library


def _pydicom_errors() -> tuple[type[Exception], ...]:
    """What pydicom raises for damaged files when it reads, decodes or unpacks pixels; found by damaging many files.

    Only calls of pydicom are enclosed, so that errors of ours are not taken for damage.
    """
    errors = pydicom().errors
    own = (errors.BytesLengthException, errors.InvalidDicomError)
    built_in = (AttributeError, EOFError, LookupError, OSError, OverflowError, RuntimeError, TypeError, ValueError)
    return (*own, *built_in, struct.error, zlib.error)


@reads_file
def read_dataset(path: str | Path, modality: str) -> Any:
    """Read a DICOM file, with or without preamble, of one kind (a key of `CLASSES`).

    InvalidInput if it is missing, damaged, no DICOM, or of another kind.
    """
    path, library = existing_file(path), pydicom()
    advice = f"give {'a' if modality == 'CT' else 'an'} {modality} file"
    dataset = _parsed(path, lambda stream: library.dcmread(stream, force=True))
    dataset.filename, dataset.buffer = str(path), None  # as if pydicom had opened it
    if "TransferSyntaxUID" not in (dataset.file_meta if "file_meta" in vars(dataset) else ()):
        _set_syntax(dataset)
    found, kind = text_of(dataset, "Modality", path.name), text_of(dataset, "SOPClassUID", path.name)
    if not found and not kind:
        raise InvalidInput(f"{path.name} is no DICOM file; {advice}")
    if modality not in (found, _name_of(kind)):
        raise InvalidInput(f"{path.name} is a DICOM file of kind {found or kind}; {advice}")
    return dataset


def _set_syntax(dataset: Any) -> None:
    """Let a dataset without file meta information, as old programs write it, have the syntax that it was read by."""
    library, (is_implicit, is_little) = pydicom(), dataset.original_encoding
    names = ("ImplicitVRLittleEndian",) if is_implicit else ("ExplicitVRBigEndian", "ExplicitVRLittleEndian")
    if "file_meta" not in vars(dataset):
        dataset.file_meta = library.dataset.FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = getattr(library.uid, names[-1] if is_little else names[0])
    if "PixelData" in dataset:
        note("it has no transfer syntax (file meta information); its pixels were taken as not compressed")


def is_dicom(path: Path) -> bool:
    """Whether a file begins as DICOM files do, or as their datasets (group 8) where nothing stands before them."""
    try:
        if is_stream(path):
            return False
        with path.open("rb") as file:
            head = file.read(132)
    except OSError:
        return False
    return head[128:] == b"DICM" or (head[:2] == b"\x08\x00" and head[2:4] in _FIRST_ELEMENTS)


@reads_file
def modality_of(path: Path) -> str:
    """What a DICOM file is according to its header, for instance ``"CT"``; its pixels are not read.

    Empty for a file that is not DICOM (`seems_dicom`), and for kinds of files that are no images, such as a DICOMDIR.
    InvalidInput if it seems to be a DICOM file and cannot be read, or ends before its kind.
    """
    if not seems_dicom(path):
        return ""
    library = pydicom()
    keywords = ["Modality", "SOPClassUID"]
    wanted = {"specific_tags": keywords, "stop_before_pixels": True, "force": True}
    dataset = _parsed(path, lambda stream: library.dcmread(stream, **wanted))
    modality, kind = (text_of(dataset, keyword, path.name) for keyword in keywords)
    stored = text_of(getattr(dataset, "file_meta", None) or {}, "MediaStorageSOPClassUID", path.name)
    if modality or _name_of(kind):
        return modality or _name_of(kind)
    if stored == _DICOMDIR or (kind == stored and library.uid.UID(kind).name != kind):  # which have no modality
        return ""
    raise _unreadable(path, "it ends before its kind")


def seems_dicom(path: Path) -> bool:
    """Whether a file begins as DICOM files do, or is named as one."""
    return path.suffix.lower() in _SUFFIXES or is_dicom(path)


def files_under(folder: Path) -> Iterator[Path]:
    """Files of a folder by name, then those of the folders in it, three levels down; of each once, not of hidden ones.

    Links are followed. Pipes and devices, which may have no end, are left out.
    """
    seen = set[str]()
    walk = os.walk(folder, onerror=lambda error: note(f"{error.filename} cannot be read"), followlinks=True)
    for path, folders, names in walk:
        is_again, is_deepest = os.path.realpath(path) in seen, len(Path(path).relative_to(folder).parts) == _DEEPEST
        seen.add(os.path.realpath(path))
        folders[:] = [] if is_again or is_deepest else sorted(name for name in folders if not name.startswith("."))
        files = (Path(path) / name for name in sorted(names) if not (is_again or name.startswith(".")))
        yield from (file for file in files if file.is_file() or not file.exists())


def sorted_by_modality(folder: Path) -> tuple[dict[str, list[Path]], tuple[str, ...]]:
    """Sort the DICOM files under a folder by `modality_of`, each kind by name; the second part names damaged files.

    Of more than 20,000 files the first ones are looked at, with a note; see `files_under`.
    """
    pydicom()  # not file by file, if it is missing
    kinds: dict[str, list[Path]] = {}
    damaged: list[str] = []
    for n, file in enumerate(files_under(folder)):
        if n == _MAX_FILES:
            note(f"{folder.name} holds more than {_MAX_FILES} files; the others were not looked at")
            break
        try:
            kinds.setdefault(modality_of(file), []).append(file)
        except InvalidInput as error:
            damaged.append(str(error))
    kinds.pop("", None)
    return kinds, tuple(damaged)


def only_file(path: Path, modality: str) -> Path:
    """Return a file as it is, and of a folder the only DICOM file of a modality under it.

    Raises
    ------
    InvalidInput
        If the folder has none, or several.
    """
    if not path.is_dir():
        return path
    kinds, damaged = sorted_by_modality(path)
    if (found := only_of(path, kinds.get(modality, []), f"{modality} files")) is None:
        raise InvalidInput(f"{path.name} holds no {modality} file{': ' if damaged else ''}{''.join(damaged[:1])}")
    return found


def _parsed(path: Path, read: Callable[[Any], Any]) -> Any:
    """What pydicom reads of a file in memory, which gives no more bytes than it has, whatever lengths it states."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as stream:
            return read(stream)
    except _pydicom_errors() as error:
        raise _unreadable(path, brief(error)) from error


def _unreadable(path: Path, why: str) -> InvalidInput:
    return InvalidInput(f"{path.name} cannot be read as DICOM ({why}); export it again")


def _name_of(kind: str) -> str:
    return next((name for name, uid in CLASSES.items() if uid == kind), "")


def value_of(dataset: Any, keyword: str, what: str) -> Any:
    """Value of an attribute, or None where it is missing; ``what`` names the file.

    InvalidInput if it cannot be decoded, which pydicom does when a value is first used.
    """
    try:
        return dataset.get(keyword)
    except _pydicom_errors() as error:
        raise InvalidInput(f"{keyword} of {what} cannot be read ({brief(error)}); export it again") from error


def text_of(dataset: Any, keyword: str, what: str) -> str:
    """An attribute as text, empty where it is missing or a sequence; errors as `value_of`."""
    value = value_of(dataset, keyword, what)
    return "" if value is None or isinstance(value, pydicom().Sequence) else str(value)


def items_of(dataset: Any, keyword: str, what: str) -> list[Any]:
    """Items of a sequence, none where it is missing; errors as `value_of`, or if it is no sequence."""
    value = value_of(dataset, keyword, what)
    if value is None:
        return []
    if not isinstance(value, pydicom().Sequence):
        raise InvalidInput(f"{keyword} of {what} is no sequence; export it again")
    return list(value)


def patient_of(dataset: Any, what: str) -> str:
    """Whose a file is, as `napari_gpubio.dose.Dose.patient` has it; empty if it does not say."""
    lines = (re.sub(r"[\s^=]+", " ", text_of(dataset, keyword, what)).strip() for keyword in PATIENT_KEYS)
    return "\n".join(lines).rstrip("\n")


def pixels_of(dataset: Any, what: str) -> npt.NDArray[Any]:
    """Stored pixels of an image, also of floats; errors as `required`."""
    required(dataset, keyword := pixels_keyword(dataset), what)
    if keyword == _PIXELS[0]:
        _use_all_bits(dataset, what)
    try:
        return np.asarray(dataset.pixel_array)
    except _pydicom_errors() as error:
        raise InvalidInput(f"the pixels of {what} cannot be read ({brief(error)}); export it again") from error


def pixels_keyword(dataset: Any) -> str:
    """The attribute that has the pixels of an image."""
    return next((keyword for keyword in _PIXELS if keyword in dataset), _PIXELS[0])


def _use_all_bits(dataset: Any, what: str) -> None:
    """Let pixels have all bits that are allocated where they use more than BitsStored, of which the rest would be cut.

    Not where an overlay lies in the other bits, as in old files, or pixels are compressed.
    """
    bits, stored = (int(number_of(dataset, keyword, what) or 0) for keyword in ("BitsAllocated", "BitsStored"))
    data, is_signed = dataset.PixelData, bool(number_of(dataset, "PixelRepresentation", what))
    has_overlay = any(tag.group & 0xFF00 == 0x6000 and tag.element == 0x0102 for tag in list(dataset.keys()))
    is_plain = isinstance(data, bytes) and not dataset["PixelData"].is_undefined_length  # not compressed
    if not 0 < stored < bits or bits not in (16, 32) or has_overlay or not is_plain:
        return
    order = ">" if getattr(dataset, "original_encoding", (None, True))[1] is False else "<"
    kind = f"{order}{'i' if is_signed else 'u'}{bits // 8}"
    raw = np.frombuffer(data, kind, len(data) // (bits // 8))
    lowest, highest = (int(raw.min()), int(raw.max())) if raw.size else (0, 0)
    largest = 2 ** (stored - is_signed)
    if is_signed and lowest >= 0 and largest <= highest < 2**stored:  # as the standard allows; pydicom reads them so
        note(f"no pixel has more than the {stored} bits of BitsStored; those from {largest} on are negative")
    elif lowest < -largest or highest >= largest:
        note(f"BitsStored is {stored}, and pixels have more bits; all {bits} are read")
        dataset.BitsStored, dataset.HighBit = bits, bits - 1


def required(dataset: Any, keyword: str, what: str) -> Any:
    """Value of an attribute; InvalidInput if it is missing, empty or cannot be read. ``what`` names the file."""
    value = value_of(dataset, keyword, what)
    if value is None or (isinstance(value, (str, list)) and len(value) == 0):
        raise InvalidInput(f"{what} has no {keyword}; export it again")
    return value


def numbers(
    dataset: Any, keyword: str, what: str, count: int | None = None, *, finite: bool = True
) -> npt.NDArray[np.float64]:
    """Numbers of an attribute, so many of them, all finite or not; errors as `required`."""
    value = required(dataset, keyword, what)
    if isinstance(value, bytes):  # a text of more than 64 KiB in files that store its type
        value = value.decode("ascii", "replace").rstrip("\0 ").split("\\")
    parts = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    try:
        array = np.array([_number(part) for part in parts], np.float64)
    except ValueError as error:
        raise InvalidInput(f"{keyword} of {what} holds no numbers ({brief(error)}); export it again") from error
    if (finite and not np.isfinite(array).all()) or (count is not None and len(array) != count):
        raise InvalidInput(f"{keyword} of {what} is {str(value)[:80]}, which cannot be; export it again")
    return array


def number_of(dataset: Any, keyword: str, what: str) -> float | None:
    """One number, or None where the attribute is missing or empty; errors as `numbers`."""
    if value_of(dataset, keyword, what) in (None, ""):
        return None
    return float(numbers(dataset, keyword, what, 1)[0])


def integers_of(items: Iterable[Any], keyword: str, what: str) -> tuple[int, ...]:
    """A number of each item of a sequence that has it; errors as `numbers`."""
    found = (number_of(item, keyword, what) for item in items)
    return tuple(int(number) for number in found if number is not None)


def _number(part: Any) -> float:
    if not isinstance(part, (str, int, float, Decimal)):
        raise ValueError(f"{type(part).__name__} is no number")
    return float(part)


def brief(error: BaseException) -> str:
    """An error in a few words."""
    return (str(error) or type(error).__name__).splitlines()[0][:120]


def plane_axes(dataset: Any, name: str) -> Array:
    """Columns: from a pixel to the next one in its row and in its column, mm, and the unit normal; patient axes, 3 x 3.

    InvalidInput if the orientation or the spacing is missing or cannot be; ``name`` is the file's.
    """
    cosines = numbers(dataset, "ImageOrientationPatient", name, 6)
    along_row, along_column = cosines[:3], cosines[3:]
    lengths = np.linalg.norm([along_row, along_column], axis=1)
    if abs(along_row @ along_column) > _SQUARE or np.abs(lengths - 1).max() > _SQUARE:
        raise InvalidInput(
            f"ImageOrientationPatient of {name} is {cosines.tolist()}, which are no axes; export it again"
        )
    between_rows, between_columns = numbers(dataset, "PixelSpacing", name, 2)
    if min(between_rows, between_columns) <= 0:
        raise InvalidInput(
            f"PixelSpacing of {name} is [{between_rows:g}, {between_columns:g}]; it must be positive: export it again"
        )
    normal = np.cross(along_row, along_column)
    return np.stack([along_row * between_columns, along_column * between_rows, normal], axis=1)


def to_world(axes: Array, slice_mm: float | Array, first: Array) -> Array:
    """Index of column, row, slice to world mm (RAS), 4 x 4.

    ``axes`` are those of `plane_axes`, ``first`` the patient coordinates of the first pixel; slices are ``slice_mm``
    apart along the normal, negative if they run against it, or each that way from the one before (patient axes, mm).
    """
    affine = np.eye(4)
    affine[:3, :2], affine[:3, 2] = axes[:, :2], axes[:, 2] * slice_mm if np.ndim(slice_mm) == 0 else slice_mm
    affine[:3, 3] = first
    return LPS_TO_RAS @ affine
