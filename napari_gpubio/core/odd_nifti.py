"""NIfTI and FreeSurfer files that nibabel does not open as they are meant: misnamed, or with an odd header."""

import gzip
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import nibabel as nib
import numpy as np
from nibabel.fileholders import FileHolder
from nibabel.nifti1 import Nifti1Extensions
from nibabel.spatialimages import HeaderDataError

from napari_gpubio.core.files import is_gzip
from napari_gpubio.core.reading import note

_GZIP_ENDINGS = (".gz", ".mgz")
_MAX_EXTENSION_BYTES = 1 << 26
_LONGEST_QUATERNION = 1.05
_HEADER_KIND_BYTES = 1 << 10


class _Extensions(Nifti1Extensions):
    @classmethod
    def from_fileobj(cls, fileobj: Any, size: float, byteswap: bool) -> Any:  # noqa: FBT001
        """Read them from no more bytes than there are; those that cannot be read are left out."""
        stream = BytesIO(fileobj.read(int(size) if 0 <= size < _MAX_EXTENSION_BYTES else _MAX_EXTENSION_BYTES))
        try:
            return super().from_fileobj(stream, size, byteswap)
        except (HeaderDataError, ValueError):
            note("the extensions of its header are damaged, and were left out")
            return cls()


class _Header:
    """What is changed in nibabel's headers."""

    exts_klass: ClassVar[Any] = _Extensions

    @classmethod
    def from_fileobj(cls, fileobj: Any, endianness: str | None = None, check: bool = True) -> Any:  # noqa: FBT001, FBT002
        """Read a header; axes after the third that have the length 0 have 1, and no number lies in the header."""
        header = super().from_fileobj(fileobj, endianness, check=False)  # type: ignore[misc]
        offset, behind = float(header["vox_offset"]), header.single_vox_offset
        if header.is_single and offset < behind and not header.extensions:
            note(f"its numbers were taken from behind the header, though it puts them inside (vox_offset {offset:g})")
            header["vox_offset"] = behind
        if empty := [axis for axis in range(4, min(int(header["dim"][0]), 7) + 1) if header["dim"][axis] == 0]:
            note(f"axis {', '.join(map(str, empty))} has the length 0, and was taken for 1")
            header["dim"][empty] = 1
        if check:
            header.check_fix()
        return header

    def get_slope_inter(self: Any) -> Any:
        """Slope and intercept; an intercept that is not finite is 0."""
        if np.isfinite(float(self["scl_slope"])) and not np.isfinite(float(self["scl_inter"])):
            note(f"its intercept (scl_inter) is {float(self['scl_inter'])}, and was taken for 0")
            self["scl_inter"] = 0
        return super().get_slope_inter()  # type: ignore[misc]

    def get_qform_quaternion(self: Any) -> Any:
        """The rotation, of length 1 also where b, c and d alone are longer; NaN where they are no rotation."""
        vector = np.array([float(self[f"quatern_{part}"]) for part in "bcd"])
        length = float(np.linalg.norm(vector))
        if length <= 1:
            return super().get_qform_quaternion()  # type: ignore[misc]
        if not length < _LONGEST_QUATERNION:
            return np.full(4, np.nan)
        note(f"the quaternion of its qform has the length {length:.6g}; it was taken for one of length 1")
        return np.array([0.0, *vector / length])


def _own(image: Any) -> Any:
    header = type("Header", (_Header, image.header_class), {})
    return type(image.__name__, (image,), {"header_class": header})


_KINDS = {
    ".nii": (_own(nib.Nifti1Image), _own(nib.Nifti2Image)),
    ".img": (_own(nib.Nifti1Pair), _own(nib.Nifti2Pair)),
    ".mgh": (nib.MGHImage,),
}


def open_odd(path: Path) -> Any:
    """Open an image by its content, or return None if that is none of NIfTI or FreeSurfer; notes say what is odd.

    What is damaged raises as nibabel does.
    """
    ending = ".mgh" if path.suffix.lower() in (".mgh", ".mgz") else ".nii" if ".nii" in path.name.lower() else ".img"
    for kind in _KINDS[ending]:
        files = kind.filespec_to_file_map(path)
        with _opened(Path(files.get("header", files["image"]).filename)) as stream:
            if ending != ".mgh" and not kind.header_class.may_contain_header(stream.read(_HEADER_KIND_BYTES)):
                continue
        return kind.from_file_map({name: _held(holder) for name, holder in files.items()}, mmap=False)
    return None


def _opened(path: Path) -> Any:
    return gzip.open(path, "rb") if is_gzip(path) else path.open("rb")


def _held(holder: Any) -> Any:
    """The holder of a file, open where its name does not say how it is stored."""
    path = Path(holder.filename)
    if is_gzip(path) == (path.suffix.lower() in _GZIP_ENDINGS):
        return holder
    note(f"{path.name} is {'' if is_gzip(path) else 'not '}compressed, whatever its name says")
    return FileHolder(holder.filename, _opened(path))
