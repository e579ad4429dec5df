"""NumPy's ``.npz`` archives read safely: arrays and texts by name, or one sentence for a file that is damaged.

`numpy.load` believes what an archive says of itself. Here sizes are compared with each other before memory is taken.
"""

import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.reading import reading
from napari_gpubio.core.volumes import check_expansion, damaged

Array = npt.NDArray[Any]
# What zipfile, NumPy and json raise on a damaged archive: a stream that ends early or does not unpack, a member that is
# encrypted or of an unknown kind, the header of an array that is no Python or asks for more than the memory.
# IndentationError is a SyntaxError.
_DAMAGE = (
    OSError, EOFError, ValueError, TypeError, RuntimeError, MemoryError, OverflowError, SyntaxError, KeyError,
    struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tokenize.TokenError, RecursionError,
)  # fmt: skip
_NPY = ".npy"


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
        """Return a member that is no array; nothing if there is none."""
        if name not in self.members:
            return b""
        with _damage_to(self._path):
            return self._archive.read(name)

    def array(self, name: str) -> Array:
        """Return an array; InvalidInput if it is damaged."""
        member = self.members[f"{name}{_NPY}"]
        with _damage_to(self._path):
            with self._archive.open(member) as stream:
                _check_header(stream, member.file_size)
            with self._archive.open(member) as stream:
                array: Array = np.lib.format.read_array(stream, allow_pickle=False)
                stream.read()  # to the end, where the checksum is compared
                return array

    def check_size(self) -> None:
        """Refuse what does not fit into the memory, or grows as only a zip bomb does."""
        check_expansion(self._path, sum(member.file_size for member in self.members.values()))


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
    with _damage_to(path):
        opened = zipfile.ZipFile(path)
    with opened, reading(path):
        yield Archive(opened, path)


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


def _check_header(stream: Any, size: int) -> None:
    """Compare what the header of an array announces with the ``size`` of its member; ValueError if they differ."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects (a pickle), which are never read")
    if math.prod(shape) * dtype.itemsize != size - stream.tell():
        raise ValueError(f"its header announces {shape} numbers of {dtype} and {size - stream.tell()} bytes follow")
