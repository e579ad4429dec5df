"""Frames from files: TIFF, folders of it, videos, and raw files of the Speckle Software of UT Austin."""

import os
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.reading import members, note, reads_file, without_notes
from napari_gpubio.core.volumes import check_memory
from napari_gpubio.speckle.io.samples import Choice
from napari_gpubio.speckle.io.tiff import READ_TIFF_SUFFIXES, in_memory, open_tiff, read_tiff
from napari_gpubio.speckle.io.video import VIDEO_SUFFIXES, open_video
from napari_gpubio.speckle.stored import Frames, StoredFrames

Array = npt.NDArray[Any]
_HEADER = np.dtype([("height", "<u2"), ("width", "<u2"), ("frames", "<u2"), ("exposure", "<u2")])
_WRAPS = 1 << 16  # the number of frames in the header
_MAX_NAMED = 4


def is_raw(path: str | os.PathLike[str]) -> bool:
    """Whether a file is named like a raw file (``name.00000``)."""
    suffix = Path(path).suffix[1:]
    return len(suffix) == 5 and suffix.isdigit()


@reads_file
def read_frames(path: str | os.PathLike[str], *, channel: int | None = None, plane: int | None = None) -> Array:
    """Read a stack of frames, shape (T, Y, X), or a single one (Y, X).

    Frames that the file declares and lacks are left out; a note counts and names them.

    Parameters
    ----------
    path
        A TIFF file, a folder of TIFF files of one frame each, a video (``.avi``, ``.mp4``, ``.mov``, ``.mkv``), or a
        raw file ``name.00000`` of UT Austin's software. Contiguous data are memory-mapped.
    channel
        Which one of several channels or colors to take, from 0; by default the first channel or the brightest color.
    plane
        Which one of several planes in depth, from 0; by default the first, or all as frames where there are no others.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or does not hold frames of intensities.
    """
    return in_memory(Path(path), _opened(Path(path), Choice(channel=channel, plane=plane), whole=True))


@reads_file
def open_frames(path: str | os.PathLike[str], *, channel: int | None = None, plane: int | None = None) -> Frames:
    """Open a stack of frames of any length, as `read_frames`, which stay in their file until they are needed.

    What `read_frames` would have in memory is looked through here, since what is damaged is left out, and is read once
    more later: frames that are compressed, videos, folders.

    Returns
    -------
    A memory map, or `napari_gpubio.speckle.stored.StoredFrames`, which `napari_gpubio.speckle.contrast_steps` takes.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio import speckle
    >>> maps = speckle.contrast(np.random.default_rng(0).integers(1, 255, (9, 32, 32), np.uint8), device="cpu")
    >>> speckle.io.write_maps("k.tif", maps)
    >>> speckle.io.open_frames("k.tif").shape
    (9, 32, 32)
    """
    return _opened(Path(path), Choice(channel=channel, plane=plane), whole=False)


def _opened(path: Path, choice: Choice, *, whole: bool) -> Frames:
    """Open frames; ``whole``: what is not mapped is read at once."""
    if path.is_dir():
        return _open_folder(path, choice, whole=whole)
    file = existing_file(path)
    if is_raw(file):
        choice.check_only("channel", "plane")
        return read_raw(file)
    if file.suffix.lower() in VIDEO_SUFFIXES:
        return open_video(file, choice, whole=whole)
    if file.suffix.lower() not in READ_TIFF_SUFFIXES:
        raise InvalidInput(
            f"{file.name} is neither .tif, nor a video ({', '.join(VIDEO_SUFFIXES)}), nor a raw file .00000; save the "
            "frames as TIFF"
        )
    return open_tiff(file, choice, whole=whole)


def _open_folder(folder: Path, choice: Choice, *, whole: bool) -> Frames:
    """The frames of TIFF files of one frame each, in the natural order of their names."""
    files = [file for file in folder.iterdir() if file.suffix.lower() in READ_TIFF_SUFFIXES and file.name[0] != "."]
    files.sort(key=lambda file: natural_order(file.name))
    kinds: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
    found: dict[str, Array] = {}
    with members({file.name for file in files}):
        for file in files:
            try:
                frame = _read_member(file, choice)
            except InvalidInput as error:
                note(str(error))
                continue
            if frame.ndim != 2:
                raise InvalidInput(f"{file.name} in it has {len(frame)} frames; give it, or a folder of single frames")
            if whole:
                if not found:
                    check_memory(folder, frame.nbytes * len(files))
                found[file.name] = np.array(frame)  # a file stays open as long as it is mapped
            kinds[file.name] = frame.shape, frame.dtype
    if not kinds:
        raise InvalidInput(f"it is a folder in which no TIFF file can be read ({len(files)} are there); give frames")
    kind, _ = Counter(kinds.values()).most_common(1)[0]
    names = [name for name, one in kinds.items() if one == kind]
    if lost := [file.name for file in files if kinds.get(file.name) != kind]:
        named = ", ".join(lost[:_MAX_NAMED]) + (", …" if len(lost) > _MAX_NAMED else "")
        note(f"{len(lost)} of {len(files)} files ({named}) are damaged, or of another size or type; they are left out")
    note(f"{len(names)} files are taken as frames in the natural order of their names, {names[0]} to {names[-1]}")
    if len(names) > 1 and not _count_evenly(names):
        note("no number in their names goes up evenly; frames may be missing, of several channels or in another order")
    if whole:
        return np.stack([found[name] for name in names])

    def read(first: int, end: int) -> Array:
        with without_notes():
            return np.stack([_read_member(folder / name, choice) for name in names[first:end]])

    return StoredFrames((len(names), *kind[0]), kind[1], read)


def _count_evenly(names: list[str]) -> bool:
    """Whether one of the numbers in names of files goes up from each to the next by the same."""
    columns = zip(*(map(int, re.findall(r"[0-9]{1,15}", name)) for name in names), strict=False)
    return any(len(steps := {b - a for a, b in pairwise(numbers)}) == 1 and min(steps) > 0 for numbers in columns)


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key by which ``frame_2`` comes before ``frame_10``."""
    parts = re.split(r"([0-9]+)", name.lower())
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


_read_member = reads_file(read_tiff)


@reads_file
def read_raw(path: str | os.PathLike[str]) -> Array:
    """Read a raw file of UT Austin's software: a header of four 16-bit words, then frames of 8 or 16 bits.

    The header's number of frames wraps around and its exposure may be invalid, so the number follows from the file's
    size, and the exposure must be given by the user. One byte per pixel is taken where both would fit. Of a file that
    was cut, whole frames are read.

    Raises
    ------
    InvalidInput
        If the file has no whole frame.
    """
    file = existing_file(path)
    if file.stat().st_size <= _HEADER.itemsize:
        raise InvalidInput(f"{file.name} has no frames; copy it again")
    header = np.fromfile(file, _HEADER, 1)[0]
    pixels, size = int(header["height"]) * int(header["width"]), file.stat().st_size - _HEADER.itemsize
    bits = _bits(pixels, size, int(header["frames"]))
    count, rest = divmod(size * 8, max(pixels * bits, 1))
    if pixels == 0 or count == 0:
        raise InvalidInput(
            f"{file.name} has a header of frames of {header['width']} x {header['height']} and {size} bytes, which is "
            "not one whole frame; copy it again"
        )
    if rest or count % _WRAPS != header["frames"]:
        declared = f"its header declares {header['frames']} frames (modulo {_WRAPS})"
        end = ", and the last one, which is cut, is left out" if rest else ""
        if size * 2 == int(header["frames"]) * pixels * 3:
            end += "; its size is just that of all of them in 12 bits without gaps, which are not read from raw files"
        note(f"{declared}; {count} whole ones of {bits} bits per pixel are read{end}")
    shape = (count, int(header["height"]), int(header["width"]))
    return np.memmap(file, f"<u{bits // 8}", "r", _HEADER.itemsize, shape)


def _bits(pixels: int, size: int, in_header: int) -> int:
    """Bits per pixel, from the number of frames in the header, modulo 65,536; of a cut file by what it has at least."""
    for bits in (8, 16):
        count, rest = divmod(size * 8, max(pixels * bits, 1))
        if not rest and count and count % _WRAPS == in_header:
            return bits
    return 16 if size > in_header * pixels else 8
