"""Gray frames from TIFF files of any layout: the file tells what its axes are, and what it lacks is left out.

Read are plain pages, ImageJ stacks, OME-TIFF (also in several files) and BigTIFF. Frames that a header declares and the
file lacks, as after a recording that ended early, are left out and counted.
"""

import html
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import TIFF_FRAMES
from napari_gpubio.core.reading import note, reading, reads_file
from napari_gpubio.core.volumes import check_expansion
from napari_gpubio.speckle.io.samples import Choice, calibrated, gray_frames, lost_text
from napari_gpubio.speckle.io.tiff_pages import AS_IT_IS, TiffLook, check_pages, is_whole, pixels_of
from napari_gpubio.speckle.stored import Frames, StoredFrames

Array = npt.NDArray[Any]
TIFF_SUFFIXES = (".tif", ".tiff")  # that are written
READ_TIFF_SUFFIXES = TIFF_FRAMES
_MEMBER = re.compile(r"""FileName\s*=\s*["']([^"']*)["'](?:[^<>]*>\s*([^<>\s]*))?""")  # of several, and its UUID
_OWN_UUID = re.compile(r"""<(?:\w+:)?OME\s[^>]*?\bUUID\s*=\s*["']([^"']*)["']""")
_HYPERSTACK = re.compile(r"^(images|frames|slices|channels)=(\d{1,9})\s*$", re.MULTILINE)  # as ImageJ writes it
_SHAPE = re.compile(r'"shape": \[(\d{1,9}(?:, \d{1,9}){0,9})\]')  # as tifffile writes it
_AXES = re.compile(r'"axes": "([A-Z]{1,9})"')
_PIXEL_AXES = "YXS"  # rows, columns, samples of a pixel; all others count frames
_APPENDED = ("shaped", "uniform", "generic", "imagej", "")  # kinds of series that are one stack if they are alike
_WORDS = {"C": "channels", "Z": "planes", "P": "positions", "R": "positions"}
_MAX_LOST = 1_000_000  # frames that may be declared beyond what a file could have
_CODECS_PACKAGE = "imagecodecs"  # what tifffile names if it lacks a compression


@dataclass(frozen=True)
class _Stack:
    """Pages of one shape and type, None where one is missing, and the axes along which they are counted."""

    pages: Sequence[Any]
    axes: str
    shape: tuple[int, ...]
    key: Any  # a page that stands for all
    offset: int | None = None  # where the data of all pages follow each other


def open_tiff(file: Path, choice: Choice | None = None, *, colors: bool = True, whole: bool = False) -> Frames:
    """Open gray frames, shape (T, Y, X), or a single one (Y, X), which stay in the file: mapped, or read when needed.

    Parameters
    ----------
    file
        An existing file.
    choice
        The channel and the plane to take, where the file has several.
    colors
        Whether colors may be turned to gray.
    whole
        Whether pages that do not follow each other are read at once. Otherwise those that are compressed are all looked
        at here, since damaged ones are left out, and read again when they are needed.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or holds no frame of real numbers.
    """
    choice = choice or Choice()
    with _opened(file, choice) as (tiff, stack, numbers, cut_after):
        frames, lost = _read_stack(file, tiff, stack, numbers, whole=whole)
        _note_lost(lost, len(numbers), cut_after)
        frames = gray_frames(frames, stack.key, choice, is_imagej=tiff.is_imagej, colors=colors)
        frames = calibrated(frames, tiff.pages[0].description) if tiff.is_imagej else frames
        return frames[0] if len(numbers) == 1 else frames


def read_tiff(file: Path, choice: Choice | None = None, *, colors: bool = True) -> Array:
    """Read gray frames, as `open_tiff`; those that follow each other are memory-mapped."""
    return in_memory(file, open_tiff(file, choice, colors=colors, whole=True))


def in_memory(file: Path, frames: Frames) -> Array:
    """Read frames that are stored; InvalidInput if they do not fit in memory. Others stay mapped."""
    if isinstance(frames, StoredFrames):
        check_expansion(file, frames.nbytes)
    return np.asarray(frames)


@reads_file
def look_at_tiff(path: str | os.PathLike[str]) -> TiffLook:
    """Look at the headers of a file that `read_tiff` reads; no frame is read.

    Raises
    ------
    InvalidInput
        As `read_tiff`.
    """
    file = Path(path)
    with _opened(file, Choice()) as (tiff, stack, numbers, cut_after):
        lost, count = _lost(file, stack, numbers), math.prod(stack.shape)
        _note_lost(lost, len(numbers), cut_after)
        if "S" not in stack.key.axes:
            no_frames = np.empty((0, *stack.key.shape), stack.key.dtype)
            gray_frames(no_frames, stack.key, Choice(), is_imagej=tiff.is_imagej, colors=True)
        rows_and_columns = [n for n, axis in zip(stack.key.shape, stack.key.axes, strict=True) if axis in "YX"]
        return TiffLook(
            shape=(*((len(numbers) - len(lost),) if len(numbers) > 1 else ()), *rows_and_columns),
            images=count, whole=count - len(_lost(file, stack, np.arange(count))), values=math.prod(stack.key.shape),
            is_cut=cut_after > 0,
        )  # fmt: skip


@contextmanager
def _opened(file: Path, choice: Choice) -> Iterator[tuple[Any, _Stack, npt.NDArray[np.int64], int]]:
    """Open a file: tifffile's, its stack, the pages that are chosen, and the last page of a file that is cut, or 0."""
    import tifffile

    try:
        count, has_end = check_pages(file)
        with tifffile.TiffFile(file, **AS_IT_IS) as tiff:
            foreign = _foreign_members(file, tiff)
            stack = _mapped(file) or _stack(tiff, _pages(tiff), foreign)
            if set(stack.key.axes) - set(_PIXEL_AXES):
                raise InvalidInput(f"its pages are volumes (axes {stack.key.axes}); save each frame as a page")
            if (declared := math.prod(stack.shape)) > max(file.stat().st_size, _MAX_LOST):
                raise InvalidInput(f"it declares {declared} frames, more than it has bytes; export it again")
            yield tiff, stack, _numbers(stack, choice), 0 if has_end else count
    except InvalidInput:
        raise
    except Exception as error:  # tifffile raises many kinds on damaged files
        raise InvalidInput(
            f"{file.name} cannot be read as TIFF ({str(error)[:200] or type(error).__name__}); copy or export it again"
        ) from error


def _note_lost(lost: list[int], count: int, cut_after: int) -> None:
    if lost:
        note(lost_text(lost, count))
    elif cut_after:
        note(f"the file ends before the page that should follow page {cut_after}; what came then is lost")


def _foreign_members(file: Path, tiff: Any) -> set[str]:
    """Check the files of an OME-TIFF before tifffile opens them; the names of those that are not the ones it means."""
    text = tiff.ome_metadata or ""
    own, foreign = _uuid(text), set[str]()
    for name, uuid in dict.fromkeys((html.unescape(name), uuid.lower()) for name, uuid in _MEMBER.findall(text)):
        if name in ("", ".", "..") or set("/\\:") & set(name):
            raise InvalidInput(f"{file.name} names a part of it {name[:80]!r}; it must be a file in the same folder")
        member, is_this = file.parent / name, name == file.name
        if (uuid and uuid == own) or (is_this and not (uuid and own)):
            continue  # whatever the name of this file is now
        if not member.is_file():
            note(f"a part of it, {name}, is not in its folder")
            continue
        check_pages(member)
        theirs = own if is_this else _uuid(_description(member))
        if not (uuid and theirs):
            note(f"its part {name} is taken by its name, since no UUID tells that it is the right one")
        elif uuid != theirs:
            foreign.add(name)
            note(f"{name} is not the part of it that it names, but a file of another recording (their UUIDs differ)")
    return foreign


def _uuid(text: str) -> str:
    """The UUID of the file that an OME header is in, or nothing."""
    return found[1].lower() if (found := _OWN_UUID.search(text)) else ""


def _description(member: Path) -> str:
    import tifffile

    with suppress(*_damage()), tifffile.TiffFile(member, **AS_IT_IS) as tiff:
        return str(tiff.pages[0].description)
    return ""


def _damage() -> tuple[type[Exception], ...]:
    """What tifffile raises on damaged files; its own error was no `ValueError` in 2024."""
    import tifffile

    return ValueError, LookupError, TypeError, tifffile.TiffFileError


def _mapped(file: Path) -> _Stack | None:
    """The only stack of a file, if its data follow each other: then only the first of its pages is looked at.

    The file is opened for this alone, since tifffile takes pages for alike after it was asked for series.
    """
    import tifffile

    with suppress(*_damage()), tifffile.TiffFile(file, **AS_IT_IS) as tiff:
        first, *second = [tiff.pages[number] for number in range(min(len(tiff.pages), 2))]
        follows = all(page.dataoffsets[0] == first.dataoffsets[0] + first.nbytes for page in second)
        if any(page.is_shaped for page in second) or not (follows or _is_described(tiff)):  # appended, or apart
            return None
        if not _is_described(tiff):
            return _following(_pages(tiff))
        (series,) = tiff.series  # raises if there are several
        count = len(series)
        offset = _offset(series, tiff)
        if offset is not None and len(tiff.pages) == count >= math.prod(_described(tiff, [series.keyframe])[1]):
            return _Stack(series, *_axes(series), series.keyframe, offset)
    return None


def _following(pages: list[Any]) -> _Stack | None:
    """Pages that are alike and follow each other, as tifffile finds them, which compares each page with all others."""
    first, begin = pages[0], pages[0].dataoffsets[0]
    is_one = all(
        _kind(page) == _kind(first) and page.is_memmappable and page.dataoffsets[0] == begin + number * first.nbytes
        for number, page in enumerate(pages)
    )
    return _Stack(pages, "I", (len(pages),), first, begin) if is_one else None


def _offset(series: Any, tiff: Any) -> int | None:
    """Where the data of all pages of a series follow each other in this file."""
    is_here = not series.is_multifile and series.keyframe.parent is tiff
    return series.dataoffset if is_here else None


def _axes(series: Any) -> tuple[str, tuple[int, ...]]:
    """The axes along which a series counts its pages, and their lengths."""
    sizes = [(axis, size) for axis, size in zip(series.axes, series.shape, strict=True) if axis not in _PIXEL_AXES]
    return "".join(axis for axis, _ in sizes), tuple(size for _, size in sizes)


def _pages(tiff: Any) -> list[Any]:
    """The pages up to the first that cannot be read."""
    pages: list[Any] = []
    with suppress(*_damage()):  # IndexError at the end
        while True:
            pages.append(tiff.pages[len(pages)])
    return pages


def _stack(tiff: Any, pages: list[Any], foreign: set[str]) -> _Stack:
    """The pages that are read: those of one shape and type that have the most data, none of a foreign file."""
    sizes = defaultdict[tuple[Any, ...], int](int)
    for page in pages:
        sizes[_kind(page)] += page.nbytes * is_whole(page)
    kind = max(sizes, key=lambda one: sizes[one])
    every, pages = pages, [page for page in pages if _kind(page) == kind]
    # the file itself says of thumbnails and pyramids that they are smaller copies
    if others := sum(_kind(page) != kind and not page.keyframe.is_reduced for page in every):
        note(
            f"{others} image{'s' * (others > 1)} of another size or type left out; read are those of shape {kind[0]}, "
            f"{kind[1]}"
        )
    alike = [series for series in _every_series(tiff, every) if _kind(series.keyframe) == kind]
    if not alike:
        return _counted(tiff, pages)
    series, *more = alike
    axes, shape = _axes(series)
    if more and series.kind not in _APPENDED:
        note(f"of its {len(more) + 1} images the first is read; save another one alone to read it")
    elif more or len(pages) > math.prod(shape):
        if series.kind not in _APPENDED or series.kind == "imagej":
            note(f"its description names {math.prod(shape)} of {len(pages)} pages; all are read, in their order")
        return _counted(tiff, pages)
    described = _described(tiff, [series.keyframe])
    if math.prod(described[1]) > math.prod(shape) and series.kind in _APPENDED:
        axes, shape = described
    offset = _offset(series, tiff)
    if len(tiff.pages) == 1 and tiff.is_imagej and series.keyframe.is_memmappable:
        offset = series.keyframe.dataoffsets[0]  # all frames follow the only page
    found = series if not foreign else [
        page if page is not None and (page.parent is tiff or page.parent.filehandle.name not in foreign) else None
        for page in series
    ]  # fmt: skip
    return _Stack(found, axes, shape, series.keyframe, offset)


def _every_series(tiff: Any, pages: list[Any]) -> list[Any]:
    """What tifffile takes for one image each; nothing where there is no description, or one that does not fit."""
    if len(pages) > 1 and all(page.is_shaped for page in pages):  # frames that were appended one by one
        return []
    if not _is_described(tiff):  # it would compare each page with all others
        return []
    try:
        return list(tiff.series)
    except _damage():
        return []


def _is_described(tiff: Any) -> bool:
    """Whether more than its pages tells what images a file has."""
    return bool(tiff.flags - {"uniform", "bigtiff", "volumetric"})


def _kind(page: Any) -> tuple[Any, ...]:
    return page.shape, page.dtype


def _counted(tiff: Any, pages: list[Any]) -> _Stack:
    """Pages as frames, in the order of the file; where some are missing, as its description lays them out."""
    axes, shape = _described(tiff, pages)
    if math.prod(shape) <= len(pages):
        axes, shape = "I", (len(pages),)
    return _Stack(pages, axes, shape, pages[0])


def _described(tiff: Any, pages: Sequence[Any]) -> tuple[str, tuple[int, ...]]:
    """The axes of pages and their lengths, as ImageJ or tifffile describe them; no page without a description."""
    first = pages[0]
    if tiff.is_imagej and (fields := dict(_HYPERSTACK.findall(first.description))):
        count, *sizes = (int(fields.get(name, 1)) for name in ("images", "frames", "slices", "channels"))
        if math.prod(sizes) == count:
            return "TZC", tuple(sizes)
        note(f"ImageJ's header has {count} images and {sizes} frames, planes and channels; images are taken as frames")
        return "I", (count,)
    texts = [text for page in pages if _SHAPE.search(text := page.description)]
    shapes = [tuple(map(int, found[1].split(","))) for text in texts if (found := _SHAPE.search(text))]
    outer = [shape[: -len(first.shape)] for shape in shapes if shape[-len(first.shape) :] == first.shape]
    if len(outer) != 1:
        return "I", (sum(map(math.prod, outer)),)
    axes = found[1] if (found := _AXES.search(texts[0])) and len(found[1]) == len(shapes[0]) else "I" * len(shapes[0])
    return axes[: len(outer[0])], outer[0]


def _numbers(stack: _Stack, choice: Choice) -> npt.NDArray[np.int64]:
    """The pages that are frames of the chosen channel and plane, in their order."""
    axes, shape = stack.axes, stack.shape
    sizes = {axis: size for axis, size in zip(axes, shape, strict=True) if size > 1}
    taken: dict[str, int] = {}
    if "Z" not in sizes:
        choice.check_only("plane")
    if not {"C", "S"} & {*sizes, *stack.key.axes}:
        choice.check_only("channel")
    if "C" in sizes and (choice.channel is not None or len(sizes) > 1):
        taken["C"] = choice.take("channel", sizes["C"])
    for axis in [axis for axis in sizes if axis not in "CT"]:
        if axis == "Z" and (choice.plane is not None or "T" in sizes):
            taken["Z"] = choice.take("plane", sizes["Z"])
        elif "T" in sizes:
            taken[axis] = 0
            note(f"of its {sizes[axis]} {_WORDS.get(axis, 'parts')} (axis {axis}) the first is taken")
    left = [axis for axis, size in zip(axes, shape, strict=True) if size > 1 and axis not in taken]
    if len(left) > 1:
        note(f"axes {', '.join(left)} of shape {shape} are taken as frames, one after the other")
    elif left and left[0] in "CZ":
        note(f"its {sizes[left[0]]} {_WORDS[left[0]]} (axis {left[0]}) are taken as frames")
    index = tuple(taken.get(axis, slice(None)) if size > 1 else 0 for axis, size in zip(axes, shape, strict=True))
    return np.atleast_1d(np.arange(math.prod(shape)).reshape(shape)[index]).ravel()


def _lost(file: Path, stack: _Stack, numbers: npt.NDArray[np.int64]) -> list[int]:
    """The places of frames that are not in the file, or not as a whole."""
    if stack.offset is not None:
        return np.flatnonzero(numbers >= _mapped_frames(file, stack)).tolist()
    return [place for place, number in enumerate(numbers.tolist()) if _page(stack, number) is None]


def _mapped_frames(file: Path, stack: _Stack) -> int:
    """How many frames that follow each other are in a file."""
    page, begin = stack.key, stack.offset or 0
    end = page.offset if page.offset > begin else file.stat().st_size
    return min(max(end - begin, 0) // max(page.nbytes, 1), math.prod(stack.shape))


def _read_stack(
    file: Path, tiff: Any, stack: _Stack, numbers: npt.NDArray[np.int64], *, whole: bool
) -> tuple[Frames, list[int]]:
    """The frames of a stack that are in the file, shape (frames, *page), and the places of those that are not."""
    page, lost = stack.key, _lost(file, stack, numbers)
    left = np.delete(numbers, lost)
    if stack.offset is not None and len(left):
        dtype = np.dtype(tiff.byteorder + page.dtype.char)
        mapped = np.memmap(file, dtype, "r", stack.offset, (_mapped_frames(file, stack), *page.shape))
        if len(left) == len(mapped):
            return np.asarray(mapped), lost
        return StoredFrames((len(left), *page.shape), dtype, lambda first, end: mapped[left[first:end]]), lost
    found = list[Array]()
    if whole:
        check_expansion(file, len(numbers) * page.nbytes)
    if whole or page.compression != 1:  # what is there of others can be read
        kept = list[int]()
        for number in left.tolist():
            if (frame := _read_page(stack, number)) is not None:
                kept.append(number)
                found += [frame] if whole else []
        lost = np.flatnonzero(~np.isin(numbers, kept)).tolist()
        left = np.array(kept, np.int64)
    if not len(left):
        raise InvalidInput(f"{file.name} has none of its {len(numbers)} frames whole; copy or export it again")
    if whole:
        return np.stack(found), lost

    def read(first: int, end: int) -> Array:
        with reading(file):
            return _read_pages(stack, left[first:end].tolist())

    return StoredFrames((len(left), *page.shape), page.dtype, read), lost


def _read_pages(stack: _Stack, numbers: list[int]) -> Array:
    pages = list[Array]()
    for number in numbers:
        if (page := _read_page(stack, number)) is None:
            raise InvalidInput(f"page {number} could be read when the file was opened and now cannot; check its disk")
        pages.append(page)
    return np.stack(pages)


def _page(stack: _Stack, number: int) -> Any | None:
    """A page, or None if it is missing, not whole, or of another size or type."""
    try:
        page = stack.pages[number] if number < len(stack.pages) else None
    except IndexError:  # declared, and not there
        return None
    return page if page is not None and _kind(page) == _kind(stack.key) and is_whole(page) else None


def _read_page(stack: _Stack, number: int) -> Array | None:
    """The pixels of a page, or None if it is missing or damaged."""
    if (page := _page(stack, number)) is None:
        return None
    try:
        frame = pixels_of(page)
    except Exception as error:
        if isinstance(error, ImportError) or _CODECS_PACKAGE in str(error):
            name = getattr(page.keyframe.compression, "name", page.keyframe.compression)
            raise InvalidInput(
                f"its frames are compressed by {name}, which needs the package imagecodecs; run: pip install "
                '"napari-gpubio[codecs]"'
            ) from error
        return None
    return frame if frame.shape == stack.key.shape else None
