"""Zip archives, NumPy's ``.npz`` among them, and gzip read safely, or one sentence for a file that is damaged.

`zipfile` and `numpy.load` believe what an archive says of itself. Here sizes are compared with each other before
memory is taken.
"""

import io
import lzma
import math
import shutil
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.foreign import MAX_TEXT
from napari_gpubio.core.reading import note, reading
from napari_gpubio.core.volumes import MAX_DEFLATED, check_expansion, damaged

Array = npt.NDArray[Any]
# What zipfile, NumPy and json raise on a damaged archive: a stream that ends early or does not unpack, a member that is
# encrypted or of an unknown kind, the header of an array that is no Python or asks for more than the memory.
# IndentationError is a SyntaxError.
_DAMAGE = (
    OSError, EOFError, ValueError, TypeError, RuntimeError, MemoryError, OverflowError, SyntaxError, KeyError,
    struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tokenize.TokenError, RecursionError,
)  # fmt: skip
_NPY = ".npy"
_MAX_CONTENTS = 16 << 20  # bytes of an archive's list of contents, which takes some ten times as much memory
_GZIP_BITS = 31  # of zlib, for a member of a gzip file
_PIECE, _MAX_ZEROS = 1 << 16, 1 << 20  # bytes, the former of which unpack to 66 MB at most


class Archive:
    """An open archive of ``size`` bytes."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self._archive, self._path = archive, path
        self.members = {member.filename: member for member in archive.infolist()}

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        return [name.removesuffix(_NPY) for name in self.members if name.endswith(_NPY)]

    def text(self, name: str) -> bytes:
        """Return a member that is no array; nothing if there is none, InvalidInput if it is too long for a text."""
        if name not in self.members:
            return b""
        if (size := self.members[name].file_size) > MAX_TEXT:
            raise InvalidInput(f"{name} of {self._path.name} has {size:,} bytes; a text in it has up to {MAX_TEXT:,}")
        with _damage_to(self._path):
            return self._archive.read(name)

    def array(self, name: str) -> Array:
        """Return an array; InvalidInput if there is none, or it is damaged."""
        if (member := self.members.get(f"{name}{_NPY}")) is None:
            raise InvalidInput(f"it has no array {name!r}; it is incomplete or of another kind: give another file")
        with _damage_to(self._path):
            with self._archive.open(member) as stream:
                _check_header(stream, member.file_size)
            with self._archive.open(member) as stream:
                array: Array = np.lib.format.read_array(stream, allow_pickle=False)
                stream.read()  # to the end, where the checksum is compared
                _check_characters(array)
                return array

    def unpack(self, name: str, path: Path) -> None:
        """Write a member to a file; InvalidInput if it is damaged."""
        with _damage_to(self._path), self._archive.open(name) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)

    def check_size(self) -> None:
        """Refuse what does not fit into the memory, or grows more than any honest archive: zeros are let through."""
        check_expansion(self._path, sum(member.file_size for member in self.members.values()), MAX_DEFLATED)


@contextmanager
def opened_npz(path: str | Path) -> Iterator[Archive]:
    """Open an archive of arrays.

    What is made of them belongs inside the block, so that `InvalidInput` names the file.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, or no archive.
    """
    path = existing_file(path)
    with ExitStack() as stack:
        with _damage_to(path):
            opened = stack.enter_context(opened_zip(path))
        stack.enter_context(reading(path))
        yield Archive(opened, path)


@contextmanager
def opened_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive; BadZipFile also for one whose list of contents is larger than any list is."""
    with _Contents(io.FileIO(path)) as stream, zipfile.ZipFile(stream) as opened:
        stream.most = sys.maxsize
        yield opened


class _Contents(io.BufferedReader):
    """A file of which no more than ``most`` bytes are read at once: zipfile reads the list of contents in one go."""

    most = _MAX_CONTENTS

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self.most:
            raise zipfile.BadZipFile(f"its list of contents claims {size:,} bytes")
        return super().read(size)


def read_npy(path: Path) -> Array:
    """Return the array of a ``.npy`` file; InvalidInput if it is missing, damaged, or holds objects."""
    with _damage_to(path), existing_file(path).open("rb") as stream:
        _check_header(stream, path.stat().st_size)
        stream.seek(0)
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        _check_characters(array)
        return array


def unpacked_gzip(path: Path, check: Callable[[int], object]) -> bytearray:
    """Return what a gzip file holds; of one that is cut off what is there, with a note.

    A note also tells of more than 1 MB of zeros, behind which nothing is read. ``check`` is given the number of bytes
    that there are so far, and raises if they are too many. zlib.error if the file is damaged.
    """
    found, data, zeros = bytearray(), b"", 0
    member = zlib.decompressobj(_GZIP_BITS)
    with path.open("rb") as file:
        while data := data or file.read(_PIECE):
            if member.eof and data == bytes(len(data)):  # tapes fill blocks up with zeros
                zeros, data = zeros + len(data), b""
                if zeros <= _MAX_ZEROS:
                    continue
                note("over 1 MB of zeros follow the gzip stream; what may lie behind them was not read")
                break
            data = data.lstrip(b"\0") if member.eof else data
            member = zlib.decompressobj(_GZIP_BITS) if member.eof else member
            found += member.decompress(data)
            data = member.unused_data
            check(len(found))
    if not member.eof:
        note(f"the gzip stream is cut off after {len(found)} unpacked bytes; what they hold was read")
    return found


def array_names(path: str | Path) -> frozenset[str]:
    """Return the names of the arrays in a file; none if it is no archive."""
    try:
        with opened_npz(path) as archive:
            return frozenset(archive.names)
    except InvalidInput:
        return frozenset()


@contextmanager
def _damage_to(path: Path) -> Iterator[None]:
    """Name the file in what a library raises on it."""
    try:
        yield
    except InvalidInput:
        raise
    except _DAMAGE as error:
        raise damaged(path, error) from error


def _check_characters(array: Array) -> None:
    """ValueError for texts of characters that do not exist, of which NumPy makes strings that Python cannot handle."""
    if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        codes = np.ascontiguousarray(array).reshape(-1).view(array.dtype.byteorder.replace("|", "=") + "u4")
        if codes.max() > sys.maxunicode:
            raise ValueError(f"a text has the character {codes.max()}, which does not exist")


def _check_header(stream: Any, size: int) -> None:
    """Compare what the header of an array announces with the ``size`` of its member; ValueError if they differ."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects (a pickle), which are never read")
    if math.prod(shape) * dtype.itemsize != size - stream.tell():
        raise ValueError(f"its header announces {shape} numbers of {dtype} and {size - stream.tell()} bytes follow")


def holds(path: Path, name: str) -> bool:
    """Return whether a file of NumPy arrays (``.npz``) holds one of this name."""
    return path.suffix.lower() == ".npz" and name in array_names(path)
