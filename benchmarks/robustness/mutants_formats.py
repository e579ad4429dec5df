"""Changes behind the checksums and lengths of archives, DICOM, TIFF and HDF5 files, which changed bytes seldom pass."""

import gzip
import io
import struct
import warnings
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from robustness.mutants_changes import NUMBERS, Mutate, change_bytes, change_json, change_text

if TYPE_CHECKING:
    from collections.abc import Callable

_EXTREMES = (0, 1, -1, 2, 255, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1)


def inside_gzip(change: Mutate) -> Mutate:
    """Four of five changes lie inside of the compressed stream."""

    def mutate(data: bytes, random: Random) -> bytes:
        if random.random() < 0.2:
            return change_bytes(data, random)
        return gzip.compress(change(gzip.decompress(data), random), 1, mtime=0)

    return mutate


# -- zip archives: .npz and .trx --------------------------------------------------------------------------------------


def change_zip(data: bytes, random: Random) -> bytes:
    """A member is changed, left out, doubled or renamed, and all are packed again; a fifth is changed as bytes."""
    if random.random() < 0.2:
        return change_bytes(data, random)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    for _ in range(random.choice((1, 1, 1, 2))):
        at = random.randrange(len(members)) if members else 0
        what = random.randrange(12) if members else 12
        name, content = members[at] if members else ("", b"")
        if what == 0:
            del members[at]
        elif what == 1:
            members.append((name, change_bytes(content, random)))
        elif what == 2:
            members[at] = (
                random.choice((f"{name}x", f"../{name}", f"/{name}", name[1:], name.upper(), "x.npy")),
                content,
            )
        elif what < 12:
            members[at] = name, _change_member(name, content, random)
    return _packed(members, random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED)))


def _change_member(name: str, content: bytes, random: Random) -> bytes:
    if name.endswith(".json"):
        return change_json(content, random)
    if name.endswith(".npy") and random.random() < 0.6:
        return _change_array(content, random)
    return change_bytes(content, random)


def _change_array(content: bytes, random: Random) -> bytes:
    """The header of an array of NumPy as text, or the array with other numbers, type or shape, written again."""
    if random.random() < 0.4:
        length = 10 + int.from_bytes(content[8:10], "little")
        header = change_text(content[10:length], random)[: 2**16 - 1]
        return content[:8] + len(header).to_bytes(2, "little") + header + content[length:]
    array = np.load(io.BytesIO(content), allow_pickle=False)
    what = random.randrange(6)
    with np.errstate(all="ignore"):
        if array.dtype.kind == "U":
            array = np.array(change_json(str(array).encode(), random).decode("utf-8", "replace"))
        elif what == 0:
            array = array.astype(random.choice(("f8", "f2", "i1", "u8", "?", "c8", ">i4", "S3", "U2")))
        elif what == 1:
            array = array.reshape(random.choice(((-1,), (1, *array.shape), (*array.shape, 1), array.shape[::-1])))
        elif what == 2:
            array = array[: random.randrange(len(array) + 1)] if array.ndim else np.stack([array] * 2)
        elif what == 3 and array.dtype.kind in "iuf":
            array = np.full_like(array, random.choice((0, 1, 100)))
        elif array.size and array.dtype.kind == "f":
            array = array.copy()
            array.flat[random.randrange(array.size)] = random.choice((np.nan, np.inf, -1, 0, 1e30))
        elif array.size and array.dtype.kind in "iu":
            array = array.copy()
            limits = np.iinfo(array.dtype)
            array.flat[random.randrange(array.size)] = random.choice((limits.min, limits.max, 0, 1))
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


def _packed(members: list[tuple[str, bytes]], method: int) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", method, compresslevel=1) as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, method)  # of 1980, so that mutants do not know the time
    return stream.getvalue()


def packed_again(path: Path) -> None:
    """Write an archive again without the time, so that the same mutants are made of it tomorrow."""
    with zipfile.ZipFile(path) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    path.write_bytes(_packed(members, zipfile.ZIP_DEFLATED))


# -- DICOM ------------------------------------------------------------------------------------------------------------

_LONG_VR = (b"OB", b"OW", b"OF", b"OD", b"OL", b"SQ", b"UC", b"UN", b"UR", b"UT")
_BINARY = {b"US": "H", b"SS": "h", b"UL": "I", b"SL": "i", b"FL": "f", b"FD": "d"}
_ALL_VR = (*_LONG_VR, *_BINARY, b"DS", b"IS", b"CS", b"LO", b"UI", b"AT", b"PN", b"SH", b"??")
_ITEM = b"\xfe\xff\x00\xe0"
_ENDLESS = 2**32 - 1


@dataclass
class Element:
    """An element of a dataset: its value, or its items, which are lists of elements."""

    tag: bytes
    vr: bytes
    value: bytes = b""
    items: list[list["Element"]] = field(default_factory=list)

    def encoded(self) -> bytes:
        """As a file has it."""
        value = self.value
        for elements in self.items:
            content = b"".join(element.encoded() for element in elements)
            value += _ITEM + len(content).to_bytes(4, "little") + content
        if self.vr in _LONG_VR:
            return self.tag + self.vr + b"\0\0" + len(value).to_bytes(4, "little") + value
        return self.tag + self.vr + min(len(value), 2**16 - 1).to_bytes(2, "little") + value[: 2**16 - 1]


def change_dicom(data: bytes, random: Random) -> bytes:
    """Elements changed, left out, doubled or moved, with right lengths (explicit VR); a third is changed as bytes."""
    if random.random() < 0.3:
        return change_bytes(data, random)
    elements = _elements(data[132:])
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        lists = [elements, *_inner(elements)]
        own = random.choice([some for some in lists if some] or [elements])
        if own:
            _change_element(own, random.randrange(len(own)), random)
    return data[:132] + b"".join(element.encoded() for element in elements)


def _elements(data: bytes) -> list[Element]:
    found, at = [], 0
    while at + 8 <= len(data):
        tag, vr = data[at : at + 4], data[at + 4 : at + 6]
        wide = vr in _LONG_VR
        size = int.from_bytes(data[at + 8 : at + 12] if wide else data[at + 6 : at + 8], "little")
        at += 12 if wide else 8
        if size == _ENDLESS:
            raise ValueError("the samples are written with lengths")
        value, at = data[at : at + size], at + size
        found.append(Element(tag, vr, items=_items(value)) if vr == b"SQ" else Element(tag, vr, value))
    return found


def _items(value: bytes) -> list[list[Element]]:
    found, at = [], 0
    while at < len(value):
        size = int.from_bytes(value[at + 4 : at + 8], "little")
        found.append(_elements(value[at + 8 : at + 8 + size]))
        at += 8 + size
    return found


def _inner(elements: list[Element]) -> list[list[Element]]:
    return [some for element in elements for item in element.items for some in (item, *_inner(item))]


def _change_element(elements: list[Element], at: int, random: Random) -> None:
    element, what = elements[at], random.randrange(10)
    if what == 0:
        del elements[at]
    elif what == 1:
        elements.insert(at, Element(element.tag, element.vr, element.value, element.items))
    elif what == 2:
        element.vr = random.choice(_ALL_VR)
    elif what == 3:
        element.tag = random.choice(elements).tag
    elif element.items:
        element.items *= random.choice((0, 2, 50))
    elif element.vr in _BINARY:
        element.value = _numbers(_BINARY[element.vr], random) * random.choice((1, 1, 0, 2, 7))
    elif len(element.value) > 200 and random.random() < 0.5:
        element.value = change_bytes(element.value, random)
    else:
        element.value = _text_value(element.value, random)


def _numbers(kind: str, random: Random) -> bytes:
    if kind in "fd":
        return struct.pack(f"<{kind}", random.choice((np.nan, np.inf, 0.0, -1.0, 1e30)))
    size = struct.calcsize(kind)
    return (random.choice(_EXTREMES) % 2 ** (8 * size)).to_bytes(size, "little")


def _text_value(value: bytes, random: Random) -> bytes:
    parts = value.rstrip(b" \0").split(b"\\")
    at, what = random.randrange(len(parts)), random.randrange(6)
    if what == 0:
        parts = []
    elif what == 1:
        parts = parts[:at]
    elif what == 2:
        parts.insert(at, parts[at])
    else:
        odd = (
            *NUMBERS,
            "X",
            "1.2.840.10008.1.2",
            "1.2.840.10008.1.2.4.50",
            "1.2.840.10008.1.2.5",
            "GY",
            "RELATIVE",
            "POINT",
        )
        parts[at] = random.choice(odd).encode()
    new = b"\\".join(parts)
    return new + b" " * (len(new) % 2)


# -- TIFF (the smaller kind, little endian) ---------------------------------------------------------------------------


def change_tiff(data: bytes, random: Random) -> bytes:
    """Types, counts and values of tags, and links between pages; a half is changed as bytes."""
    if random.random() < 0.5:
        return change_bytes(data, random)
    entries, links = [], [4]
    while (at := int.from_bytes(data[links[-1] : links[-1] + 4], "little")) and len(links) < 100:
        count = int.from_bytes(data[at : at + 2], "little")
        entries += [at + 2 + 12 * n for n in range(count)]
        links.append(at + 2 + 12 * count)
    for _ in range(random.choice((1, 1, 2, 3))):
        if random.random() < 0.1:
            at, new = random.choice(links), random.choice((0, 8, len(data), 2**32 - 1, random.randrange(len(data))))
            data = data[:at] + new.to_bytes(4, "little") + data[at + 4 :]
            continue
        at = random.choice(entries)
        begin, size = random.choice(((0, 2), (2, 2), (4, 4), (8, 4), (8, 4), (8, 2)))
        value = random.choice((*_EXTREMES, *range(1, 14), 32773, 32946, 34925, 50000)) % 2 ** (8 * size)
        data = data[: at + begin] + value.to_bytes(size, "little") + data[at + begin + size :]
    return data


# -- HDF5 -------------------------------------------------------------------------------------------------------------


def change_hdf5(data: bytes, random: Random) -> bytes:
    """Datasets of other types, shapes and values, links that lead back or away; two thirds are changed as bytes."""
    if random.random() < 0.65:
        return change_bytes(data, random)
    import h5py

    stream = io.BytesIO(data)
    with h5py.File(stream, "r+") as file:
        names: list[str] = []
        file.visit(names.append)
        for _ in range(random.choice((1, 1, 2))):
            with suppress(OSError, KeyError, ValueError):  # by a link that was put in before, to another file
                if (name := random.choice(names)) in file:
                    del file[name]
                    _put_other(file, name, h5py, random)
    return stream.getvalue()


def _put_other(file: Any, name: str, h5py: Any, random: Random) -> None:
    made: tuple[Callable[[], Any], ...] = (
        lambda: None,
        lambda: np.nan,
        lambda: np.full((2, 3), random.choice((np.nan, np.inf, 1e308))),
        lambda: np.zeros((0, 3)),
        lambda: np.zeros((2, 3, 4), np.int8),
        lambda: np.zeros((2, 3), np.complex64),
        lambda: np.zeros(2, [("x", "f4"), ("y", "S3")]),
        lambda: "mm" * random.choice((0, 1, 5000)),
        lambda: ["é", "x" * 999],
        lambda: h5py.Empty("f8"),
        lambda: h5py.SoftLink(random.choice(("/", "/nirs", f"/{name}", "/nowhere"))),
        lambda: h5py.ExternalLink(random.choice(("nowhere.h5", "a.snirf", "/etc/passwd")), "/nirs"),
        lambda: file["/"],
        lambda: np.array([file.ref], dtype=h5py.ref_dtype),
    )
    if random.random() < 0.1:
        file.create_dataset(name, (10**9, 3), "f8", chunks=(1000, 3))  # of which nothing is stored
    elif (value := random.choice(made)()) is not None:
        file[name] = value
