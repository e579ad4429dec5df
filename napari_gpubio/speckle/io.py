"""Files of frames, maps and time courses: TIFF, raw files of the Speckle Software of UT Austin, and CSV."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, existing_file
from napari_gpubio.core.reading import reads_file
from napari_gpubio.core.volumes import check_expansion
from napari_gpubio.speckle.model import NAMES, ContrastMaps
from napari_gpubio.speckle.regions import RegionCurve

Array = npt.NDArray[Any]
TIFF_SUFFIXES = (".tif", ".tiff")
_BIG_TIFF = 43  # the number that tells it from the smaller kind
_TAG_BYTES = np.array([1, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 1, 1, 8, 8, 8, 1])  # by type; the last: any other one
_HEADER = np.dtype([("height", "<u2"), ("width", "<u2"), ("frames", "<u2"), ("exposure", "<u2")])


def is_raw(path: str | os.PathLike[str]) -> bool:
    """Whether a file is named like a raw file (``name.00000``)."""
    suffix = Path(path).suffix[1:]
    return len(suffix) == 5 and suffix.isdigit()


@reads_file
def read_frames(path: str | os.PathLike[str]) -> Array:
    """Read a stack of frames, shape (T, Y, X), or a single one (Y, X).

    Parameters
    ----------
    path
        A TIFF file, or a raw file ``name.00000`` of UT Austin's software. Contiguous data are memory-mapped.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or does not hold gray frames.
    """
    file = existing_file(path)
    if is_raw(file):
        return read_raw(file)
    if file.suffix.lower() not in TIFF_SUFFIXES:
        raise InvalidInput(f"{file.name} is neither .tif nor a raw file .00000; save the frames as TIFF")
    return _read_tiff(file)


def _read_tiff(file: Path) -> Array:
    import tifffile

    try:
        check_pages(file)
        with tifffile.TiffFile(file) as tiff:
            if len(tiff.series) != 1:
                raise InvalidInput(f"{file.name} holds {len(tiff.series)} images of different kinds; save one stack")
            series = tiff.series[0]
            if series.dataoffset is not None:
                array = tifffile.memmap(file, mode="r")
            else:
                check_data(file, [page for page in series.pages if page is not None])
                array = series.asarray()
    except InvalidInput:
        raise
    except Exception as error:  # tifffile raises many kinds on damaged files
        raise InvalidInput(
            f"{file.name} cannot be read as TIFF ({str(error) or type(error).__name__}); copy or export it again"
        ) from error
    if array.ndim not in (2, 3) or array.dtype.kind not in "uif":
        raise InvalidInput(f"{file.name} holds {array.dtype} of shape {array.shape}; give gray frames (frames, y, x)")
    return np.asarray(array)


def check_pages(file: Path) -> None:
    """Refuse what tifffile would follow without end or take memory for.

    InvalidInput if the chain of pages comes back to one of them, or a tag states more bytes than the file has.
    """
    size = file.stat().st_size
    with file.open("rb") as stream:
        begin = stream.read(16)
        order: Literal["little", "big"] = "big" if begin.startswith(b"MM") else "little"
        is_big = int.from_bytes(begin[2:4], order) == _BIG_TIFF
        count_bytes, offset_bytes = (8, 8) if is_big else (2, 4)
        tag = np.dtype([("code", "u2"), ("type", "u2"), ("count", f"u{offset_bytes}"), ("value", f"V{offset_bytes}")])
        tag = tag.newbyteorder(order)
        offset, seen = int.from_bytes(begin[8:16] if is_big else begin[4:8], order), set[int]()
        while offset:
            if offset in seen:
                raise InvalidInput(f"{file.name} has {len(seen)} pages, the last of which leads back to an earlier one")
            seen.add(offset)
            stream.seek(min(offset, size))
            entries = int.from_bytes(stream.read(count_bytes), order) * tag.itemsize
            block = stream.read(min(entries, size))
            tags = np.frombuffer(block, tag, len(block) // tag.itemsize)
            stated = tags["count"].astype(np.float64) * _TAG_BYTES[np.minimum(tags["type"], len(_TAG_BYTES) - 1)]
            if (most := stated.max(initial=0.0)) > size:
                raise InvalidInput(
                    f"{file.name} has {size} bytes and a tag of {most:.0f} on page {len(seen)}; it is damaged: copy "
                    "or export it again"
                )
            offset = int.from_bytes(stream.read(offset_bytes), order)  # 0 behind the end of the file


def check_data(file: Path, pages: Sequence[Any]) -> None:
    """Refuse pages of tifffile whose data cannot be in the file, or not in the memory; InvalidInput."""
    size = file.stat().st_size
    if (most := max((count for page in pages for count in page.databytecounts), default=0)) > size:
        raise InvalidInput(
            f"{file.name} has {size} bytes and states {most} of one part of a page; it is damaged: copy or export it "
            "again"
        )
    check_expansion(file, sum(page.nbytes for page in pages))


def read_raw(path: str | os.PathLike[str]) -> Array:
    """Read a raw file of UT Austin's software: a header of four 16-bit words, then frames of 8 or 16 bits.

    The header's number of frames wraps around and its exposure may be invalid, so the number follows from the file's
    size, and the exposure must be given by the user. One byte per pixel is assumed where both would fit.

    Raises
    ------
    InvalidInput
        If the file's size does not fit its header.
    """
    file = existing_file(path)
    if file.stat().st_size <= _HEADER.itemsize:
        raise InvalidInput(f"{file.name} has no frames; copy it again")
    header = np.fromfile(file, _HEADER, 1)[0]
    pixels, size = int(header["height"]) * int(header["width"]), file.stat().st_size - _HEADER.itemsize
    if pixels == 0 or size % pixels:
        raise InvalidInput(
            f"{file.name} has a header of frames of {header['width']} x {header['height']} and {size} bytes, which is "
            "not a whole number of frames; copy it again"
        )
    bytes_each = _bytes_per_sample(size // pixels, int(header["frames"]))
    shape = (size // pixels // bytes_each, int(header["height"]), int(header["width"]))
    return np.memmap(file, f"<u{bytes_each}", "r", _HEADER.itemsize, shape)


def _bytes_per_sample(bytes_per_pixel: int, in_header: int) -> int:
    """Return 1 or 2, from the number of frames in the header, modulo 65,536."""
    wraps = 1 << 16
    if bytes_per_pixel % wraps == in_header % wraps:
        return 1
    return 2 if bytes_per_pixel % 2 == 0 and bytes_per_pixel // 2 % wraps == in_header % wraps else 1


def write_maps(path: str | os.PathLike[str], maps: ContrastMaps, which: str = "contrast") -> None:
    """Write maps as TIFF, readable by ImageJ; their parameters are in its description (JSON).

    Parameters
    ----------
    path
        A ``.tif`` file.
    maps
        Result of a run.
    which
        ``"contrast"``, ``"index"`` (both float32) or ``"mask"`` (uint8).

    Raises
    ------
    InvalidInput
        If the maps have no such part, or the file cannot be written.
    """
    import tifffile

    array: npt.NDArray[Any] | None = getattr(maps, which)
    if array is None:
        raise InvalidInput(f"the maps have no {which}; choose it in the settings")
    if Path(path).suffix.lower() not in TIFF_SUFFIXES:
        raise InvalidInput(f"{Path(path).name} does not end in .tif; give it this ending")
    about = {**maps.parameters, "map": which, "unit": maps.unit if which == "index" else ""}
    if which == "mask":
        about["bits"] = {name: bit for bit, name in NAMES.items()}
    with atomic_write(path) as part:
        tifffile.imwrite(part, array, description=json.dumps(about), metadata=None, photometric="minisblack")


def write_curves_csv(path: Path, curves: Sequence[RegionCurve], seconds: npt.ArrayLike | None = None) -> None:
    """Write time courses of regions, one row per map.

    Parameters
    ----------
    path
        A ``.csv`` file.
    curves
        Time courses from the same maps.
    seconds
        Time of each map; left out if None.

    Raises
    ------
    InvalidInput
        If there is no curve, or curves and times have different lengths.
    """
    lengths = {len(curve.k2) for curve in curves} | ({np.size(seconds)} if seconds is not None else set())
    if not curves or len(lengths) > 1:
        found = "no regions" if not curves else "different numbers of maps, " + " and ".join(map(str, sorted(lengths)))
        raise InvalidInput(f"there is no table of {found}; give curves, and times, of the same maps")
    columns: dict[str, Array] = {"map": np.arange(len(curves[0].k2))}
    if seconds is not None:
        columns["time [s]"] = np.asarray(seconds)
    for curve in curves:
        parts = (("K²", curve.k2), ("SFI [1/s]", curve.sfi), ("pixels", curve.used), ("skipped", curve.skipped))
        columns |= {f"{curve.name} {what}": values for what, values in parts}
    names = ",".join('"' + name.replace('"', '""') + '"' for name in columns)
    rows = (",".join(repr(value.item()) for value in row) for row in zip(*columns.values(), strict=True))
    with atomic_write(path) as part:
        part.write_text("\n".join([names, *rows]) + "\n", encoding="utf-8")
