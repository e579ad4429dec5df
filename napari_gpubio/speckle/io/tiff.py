"""Gray frames from TIFF files of any layout: the file tells what its axes are, and what it lacks is left out.

Read are plain pages, ImageJ stacks, OME-TIFF (also in several files) and BigTIFF. Frames that a header declares and the
file lacks, as after a recording that ended early, are left out and counted.
"""

import html
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.core.volumes import check_expansion
from napari_gpubio.speckle.io.samples import Choice, gray_frames, lost_text

Array = npt.NDArray[Any]
TIFF_SUFFIXES = (".tif", ".tiff")
_BIG_TIFF = 43  # the number that tells it from the smaller kind
_TAG_BYTES = np.array([1, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 1, 1, 8, 8, 8, 1])  # by type; the last: any other one
_MEMBER = re.compile(r"""FileName\s*=\s*["']([^"']*)["']""")  # of an OME-TIFF in several files
_HYPERSTACK = re.compile(r"^(images|frames|slices|channels)=(\d{1,9})\s*$", re.MULTILINE)  # as ImageJ writes it
_SHAPE = re.compile(r'"shape": \[(\d{1,9}(?:, \d{1,9}){0,9})\]')  # as tifffile writes it
_AXES = re.compile(r'"axes": "([A-Z]{1,9})"')
_PIXEL_AXES = "YXS"  # rows, columns, samples of a pixel; all others count frames
_APPENDED = ("shaped", "uniform", "generic", "imagej", "")  # kinds of series that are one stack if they are alike
_WORDS = {"C": "channels", "Z": "planes", "P": "positions", "R": "positions"}
_MOST_LOST = 1_000_000  # frames that may be declared beyond what a file could have
_NO_CODEC = "imagecodecs"  # what tifffile names if it lacks a compression


@dataclass(frozen=True)
class _Stack:
    """Pages of one shape and type, None where one is missing, and the axes along which they are counted."""

    pages: Sequence[Any]
    axes: str
    shape: tuple[int, ...]
    key: Any  # a page that stands for all
    offset: int | None = None  # where the data of all pages follow each other


def read_tiff(file: Path, choice: Choice | None = None, *, colors: bool = True) -> Array:
    """Read gray frames, shape (T, Y, X), or a single one (Y, X).

    Parameters
    ----------
    file
        An existing file. Contiguous frames are memory-mapped.
    choice
        The channel and the plane to take, where the file has several.
    colors
        Whether colors may be turned to gray.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or holds no frame of real numbers.
    """
    import tifffile

    choice = choice or Choice()
    try:
        count, has_end = check_pages(file)
        with tifffile.TiffFile(file, is_uniform=False) as tiff:  # which would look at three pages for all
            _check_members(file, tiff)
            stack = _mapped(file) or _stack(tiff, _pages(tiff))
            if set(stack.key.axes) - set(_PIXEL_AXES):
                raise InvalidInput(f"its pages are volumes (axes {stack.key.axes}); save each frame as a page")
            if (declared := math.prod(stack.shape)) > max(file.stat().st_size, _MOST_LOST):
                raise InvalidInput(f"it declares {declared} frames, more than it has bytes; export it again")
            numbers = _numbers(stack.axes, stack.shape, choice)
            frames, lost = _read_stack(file, tiff, stack, numbers)
            if lost:
                note(lost_text(lost, len(numbers)))
            elif not has_end:
                note(f"the file ends before the page that should follow page {count}; what came then is lost")
            frames = gray_frames(frames, stack.key, choice, is_imagej=tiff.is_imagej, colors=colors)
    except InvalidInput:
        raise
    except Exception as error:  # tifffile raises many kinds on damaged files
        raise InvalidInput(
            f"{file.name} cannot be read as TIFF ({str(error)[:200] or type(error).__name__}); copy or export it again"
        ) from error
    return frames[0] if len(numbers) == 1 else frames


def _check_members(file: Path, tiff: Any) -> None:
    """Check the other files of an OME-TIFF before tifffile opens them."""
    for name in dict.fromkeys(map(html.unescape, _MEMBER.findall(tiff.ome_metadata or ""))):
        if name in ("", ".", "..") or set("/\\:") & set(name):
            raise InvalidInput(f"{file.name} names a part of it {name[:80]!r}; it must be a file in the same folder")
        if (member := file.parent / name).is_file() and name != file.name:
            check_pages(member)


def _damage() -> tuple[type[Exception], ...]:
    """What tifffile raises on damaged files; its own error was no `ValueError` in 2024."""
    import tifffile

    return ValueError, LookupError, TypeError, tifffile.TiffFileError


def _mapped(file: Path) -> _Stack | None:
    """The only stack of a file, if its data follow each other: then only the first of its pages is looked at.

    The file is opened for this alone, since tifffile takes pages for alike after it was asked for series.
    """
    import tifffile

    with suppress(*_damage()), tifffile.TiffFile(file, is_uniform=False) as tiff:
        if len(tiff.pages) > 1 and tiff.pages[1].is_shaped:  # appended
            return None
        (series,) = tiff.series  # raises if there are several
        count = len(series)
        offset = _offset(series, tiff)
        if offset is not None and len(tiff.pages) == count >= math.prod(_described(tiff, [series.keyframe])[1]):
            return _Stack(series, *_axes(series), series.keyframe, offset)
    return None


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


def _stack(tiff: Any, pages: list[Any]) -> _Stack:
    """The pages that are read: those of one shape and type that have the most data."""
    sizes = defaultdict[tuple[Any, ...], int](int)
    for page in pages:
        sizes[_kind(page)] += page.nbytes * is_whole(page)
    kind = max(sizes, key=lambda one: sizes[one])
    every, pages = pages, [page for page in pages if _kind(page) == kind]
    if others := len(every) - len(pages):
        note(
            f"{others} image{'s' * (others > 1)} of another size or type left out; read are those of shape {kind[0]}, "
            f"{kind[1]}"
        )
    alike = [series for series in _every_series(tiff, every) if _kind(series.keyframe) == kind]
    if not alike:
        return _counted(tiff, pages)
    series, *more = alike
    if more and series.kind not in _APPENDED:
        note(f"of its {len(more) + 1} images the first is read; save another one alone to read it")
    elif more or len(pages) > len(series):
        if series.kind not in _APPENDED:
            note(f"its description names {len(series)} of {len(pages)} pages; all are read, in their order")
        return _counted(tiff, pages)
    axes, shape = _axes(series)
    described = _described(tiff, [series.keyframe])
    if math.prod(described[1]) > math.prod(shape) and series.kind in _APPENDED:
        axes, shape = described
    offset = _offset(series, tiff)
    if len(tiff.pages) == 1 and tiff.is_imagej and series.keyframe.is_memmappable:
        offset = series.keyframe.dataoffsets[0]  # all frames follow the only page
    return _Stack(series, axes, shape, series.keyframe, offset)


def _every_series(tiff: Any, pages: list[Any]) -> list[Any]:
    """What tifffile takes for one image each; nothing where its description does not fit, or each page is one."""
    if len(pages) > 1 and all(page.is_shaped for page in pages):  # frames that were appended one by one
        return []
    try:
        return list(tiff.series)
    except _damage():
        return []


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
        return ("TZC", tuple(sizes)) if math.prod(sizes) == count else ("I", (count,))
    texts = [text for page in pages if _SHAPE.search(text := page.description)]
    shapes = [tuple(map(int, found[1].split(","))) for text in texts if (found := _SHAPE.search(text))]
    outer = [shape[: -len(first.shape)] for shape in shapes if shape[-len(first.shape) :] == first.shape]
    if len(outer) != 1:
        return "I", (sum(map(math.prod, outer)),)
    axes = found[1] if (found := _AXES.search(texts[0])) and len(found[1]) == len(shapes[0]) else "I" * len(shapes[0])
    return axes[: len(outer[0])], outer[0]


def _numbers(axes: str, shape: tuple[int, ...], choice: Choice) -> npt.NDArray[np.int64]:
    """The pages that are frames of the chosen channel and plane, in their order."""
    sizes = {axis: size for axis, size in zip(axes, shape, strict=True) if size > 1}
    taken: dict[str, int] = {}
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


def _read_stack(file: Path, tiff: Any, stack: _Stack, numbers: npt.NDArray[np.int64]) -> tuple[Array, list[int]]:
    """The frames of a stack that are in the file, shape (frames, *page), and the places of those that are not."""
    page = stack.key
    if stack.offset is not None:
        end = page.offset if page.offset > stack.offset else file.stat().st_size
        whole = min(max(end - stack.offset, 0) // max(page.nbytes, 1), math.prod(stack.shape))
        lost = np.flatnonzero(numbers >= whole)
        if whole:
            dtype = np.dtype(tiff.byteorder + page.dtype.char)
            mapped = np.memmap(file, dtype, "r", stack.offset, (whole, *page.shape))
            if len(numbers) - len(lost) == whole:
                return np.asarray(mapped), lost.tolist()
            check_expansion(file, len(numbers) * page.nbytes)
            return np.asarray(mapped[numbers[numbers < whole]]), lost.tolist()
        found: list[Array] = []
    else:
        check_expansion(file, len(numbers) * page.nbytes)
        read = [_read_page(stack, number) for number in numbers.tolist()]
        found = [frame for frame in read if frame is not None]
        lost = np.array([place for place, frame in enumerate(read) if frame is None], np.int64)
    if not found:
        raise InvalidInput(f"{file.name} has none of its {len(numbers)} frames whole; copy or export it again")
    return np.stack(found), lost.tolist()


def _read_page(stack: _Stack, number: int) -> Array | None:
    """The pixels of a page, or None if it is missing or damaged."""
    try:
        page = stack.pages[number] if number < len(stack.pages) else None
    except IndexError:  # declared, and not there
        page = None
    if page is None or not is_whole(page):
        return None
    try:
        frame = _unpacked(page) if _is_packed(page) else np.asarray(page.asarray())
    except Exception as error:
        if isinstance(error, ImportError) or _NO_CODEC in str(error):
            name = getattr(page.keyframe.compression, "name", page.keyframe.compression)
            raise InvalidInput(
                f"its frames are compressed by {name}, which needs the package imagecodecs; run: pip install "
                '"napari-gpubio[codecs]"'
            ) from error
        return None
    return frame if frame.shape == stack.key.shape else None


def is_whole(page: Any) -> bool:
    """Whether all data of a page are in its file; parts of no bytes would be filled with zeros."""
    size, parts, key = page.parent.filehandle.size, _parts(page), page.keyframe
    is_plain = key.compression == 1 and not key.is_tiled
    if not is_plain and len(parts) < math.prod(key.chunked):
        return False
    row = -(-key.imagewidth * key.samplesperpixel * key.bitspersample // 8)
    needed = row * key.imagelength if is_plain else 0
    is_there = all(offset > 0 and count > 0 and offset + count <= size for offset, count in parts)
    return bool(parts) and is_there and sum(count for _, count in parts) >= needed


def _is_packed(page: Any) -> bool:
    """Whether integers of 9 to 15 bits follow each other without gaps, and need no codec."""
    page = page.keyframe
    is_plain = page.compression == 1 and not page.is_tiled and (page.samplesperpixel == 1 or page.planarconfig == 1)
    return is_plain and 8 < page.bitspersample < 16


def _unpacked(page: Any) -> Array:
    """Integers of 9 to 15 bits, the highest bit first; a row begins with a byte."""
    key = page.keyframe
    bits, count = key.bitspersample, key.imagewidth * key.samplesperpixel
    with Path(page.parent.filehandle.path).open("rb") as stream:
        data = b"".join((stream.seek(at), stream.read(size))[1] for at, size in _parts(page))
    rows = np.frombuffer(data, np.uint8)[: key.imagelength * -(-count * bits // 8)].reshape(key.imagelength, -1)
    order: Literal["little", "big"] = "little" if key.fillorder == 2 else "big"
    found = np.unpackbits(rows, axis=1, bitorder=order)[:, : count * bits]
    values = np.zeros((key.imagelength, count), np.uint16)
    for bit in range(bits):
        values = values << np.uint16(1) | found[:, bit::bits]
    return values.reshape(key.shape)


def _parts(page: Any) -> list[tuple[int, int]]:
    """Place and length of the parts of a page's data."""
    return list(zip(page.dataoffsets, page.databytecounts, strict=False))


def check_pages(file: Path) -> tuple[int, bool]:
    """Refuse what tifffile would follow without end or take memory for.

    Returns the number of pages, and whether their chain has its end in the file. InvalidInput if it comes back to one
    of them, or a tag states more bytes than the file has.
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
        while 0 < offset < size:
            if offset in seen:
                raise InvalidInput(f"{file.name} has {len(seen)} pages, the last of which leads back to an earlier one")
            seen.add(offset)
            stream.seek(offset)
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
    return len(seen), offset == 0


def check_data(file: Path, pages: Sequence[Any]) -> None:
    """Refuse pages of tifffile whose data cannot be in the file, or not in the memory; InvalidInput."""
    size = file.stat().st_size
    if (most := max((count for page in pages for count in page.databytecounts), default=0)) > size:
        raise InvalidInput(
            f"{file.name} has {size} bytes and states {most} of one part of a page; it is damaged: copy or export it "
            "again"
        )
    check_expansion(file, sum(page.nbytes for page in pages))
