"""Pages of TIFF files: whether they can be there, are whole, and what they hold where no codec is needed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import is_stream
from napari_gpubio.core.volumes import check_expansion

Array = npt.NDArray[Any]
AS_IT_IS = {"is_uniform": False, "is_scanimage": False}  # of tifffile, which would infer all pages from the first ones
_BIG_TIFF = 43  # the number that tells it from the smaller kind
_TAG_BYTES = np.array([1, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 1, 1, 8, 8, 8, 1])  # by type; the last: any other one


@dataclass(frozen=True, kw_only=True)
class TiffLook:
    """What headers tell of a TIFF file.

    Parameters
    ----------
    shape
        Of the frames that are read.
    images, whole
        Images of all channels and planes that are declared, and those of them that are in the file.
    values
        In each of them.
    is_cut
        Whether the file ends before its last page.
    notes
        Those of the reader of frames, as far as headers make them.
    """

    shape: tuple[int, ...]
    images: int
    whole: int
    values: int
    is_cut: bool
    notes: tuple[str, ...] = ()


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


def pixels_of(page: Any) -> Array:
    """The pixels of a page; integers of 9 to 15 bits without gaps need no codec."""
    return _unpacked(page) if _is_packed(page) else np.asarray(page.asarray())


def _is_packed(page: Any) -> bool:
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
    if is_stream(file):
        raise InvalidInput(f"{file.name} is a pipe, a device or a socket; give a file on a disk")
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
