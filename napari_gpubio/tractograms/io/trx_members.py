"""What a trx archive or folder holds: arrays whose names tell their columns and types, and a header."""

import os
import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.archives import opened_zip
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import MAX_TEXT, json_of
from napari_gpubio.core.reading import note
from napari_gpubio.core.volumes import check_memory
from napari_gpubio.diffusion.model import GROUP
from napari_gpubio.tractograms.io.parsed import columns_of
from napari_gpubio.tractograms.io.validation import BLOCK, DAMAGED, check_expansion, checked_magic

Array = npt.NDArray[Any]
DAMAGE = (  # beside DAMAGED: no zip file; of a kind that is not read (encrypted, too new); a header without an entry
    *DAMAGED, zipfile.BadZipFile, NotImplementedError, RuntimeError, struct.error, KeyError, OverflowError,
)  # fmt: skip
_LOST: tuple[type[Exception], ...] = (InvalidInput, *DAMAGE)
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")  # of a member of a zip file
DTYPES = {
    f"{kind}int{bits}": np.dtype(f"<{kind[:1] or 'i'}{bits // 8}") for kind in ("", "u") for bits in (8, 16, 32, 64)
}
DTYPES |= {f"float{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)} | {"bit": np.dtype(bool)}
_OTHER_NAMES = {  # of the same types, as NumPy and trx-python have them on all systems of 64 bits but Windows
    "bool": "bit", "byte": "int8", "ubyte": "uint8", "short": "int16", "ushort": "uint16", "intc": "int32",
    "uintc": "uint32", "int": "int64", "uint": "uint64", "long": "int64", "ulong": "uint64", "longlong": "int64",
    "ulonglong": "uint64", "half": "float16", "single": "float32", "float": "float64", "double": "float64",
}  # fmt: skip
DTYPES |= {name: DTYPES[other] for name, other in _OTHER_NAMES.items()}
_TWO_SIZES = ("int", "uint", "long", "ulong", "float")  # of 8 bytes in NumPy, of 4 elsewhere
_MAX_MEMBERS = 100_000  # of a folder; a brain has some hundred groups


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder that holds what a trx archive does, or is named as one."""
    if not os.path.isdir(path):  # noqa: PTH112 - a name that no system allows is none
        return False
    folder = Path(path)
    has_members = (folder / "header.json").is_file() and any(folder.glob("positions.*"))
    return has_members or folder.name.lower().endswith(".trx")


@dataclass(frozen=True)
class _File:
    """A member of an archive or a folder; ``offset``: where its bytes lie in ``path`` as they are, None if packed."""

    name: str
    size: int
    path: Path
    offset: Callable[[], int] | None
    open: Callable[[], IO[bytes]]

    def read(self, *, mapped: bool) -> npt.NDArray[np.uint8]:
        """Return its bytes; InvalidInput if there are fewer than its list of contents tells."""
        if mapped and self.size and self.offset is not None:
            return np.memmap(self.path, np.uint8, "r", self.offset(), (self.size,))
        check_memory(self.path, self.size)
        values, at = np.empty(self.size, np.uint8), 0
        with self.open() as stream:
            while at < self.size and (block := stream.read(min(BLOCK, self.size - at))):
                values[at : at + len(block)] = np.frombuffer(block, np.uint8)
                at += len(block)
        if at != self.size:
            raise InvalidInput(f"{self.name} ends after {at} of {self.size} bytes; copy the file again")
        return values


@contextmanager
def opened(path: Path) -> Iterator[list[_File]]:
    """The members of an archive or of a folder."""
    if path.is_dir():
        found = sorted(p for n in range(1, 4) for p in path.glob("/".join("*" * n)) if p.is_file())
        if len(found) > _MAX_MEMBERS:
            raise InvalidInput(f"the folder has more than {_MAX_MEMBERS} files; is it a tractogram?")
        yield [_loose(p, p.relative_to(path).as_posix()) for p in found]
        return
    with path.open("rb") as stream:
        checked_magic(stream.read(4), b"PK", "trx (zip)")
    with opened_zip(path) as archive:
        infos = {info.filename: info for info in archive.infolist() if not info.filename.endswith("/")}
        check_expansion(sum(info.file_size for info in infos.values()), path.stat().st_size)
        yield [_packed(archive, info, path) for info in infos.values()]


def _loose(path: Path, name: str) -> _File:
    return _File(name, path.stat().st_size, path, lambda: 0, lambda: path.open("rb"))


def _packed(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> _File:
    def stream() -> IO[bytes]:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InvalidInput(f"{info.filename} is compressed in a way that trx does not allow; export it again")
        return archive.open(info)

    def offset() -> int:
        """Where the bytes begin: behind a header of their own, whose length the archive's list does not tell."""
        archive.open(info).close()  # which checks that header
        with path.open("rb") as file:
            file.seek(info.header_offset)
            *_, name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        return int(info.header_offset + _LOCAL_HEADER.size + name_length + extra_length)

    is_as_it_is = info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size
    return _File(info.filename, info.file_size, path, offset if is_as_it_is else None, stream)


class Members:
    """The arrays among files, found by folder and name; ``mapped``: they stay on the disk where they can.

    A name is that of the array, the number of its columns if there are several, and of its type, with dots between.
    """

    def __init__(self, files: list[_File], *, mapped: bool) -> None:
        self._left = {file.name: file for file in files}
        self._mapped = mapped

    def header(self) -> dict[str, Any]:
        """Return the JSON header."""
        if (file := self._left.pop("header.json", None)) is None:
            raise InvalidInput("a trx file holds a header.json, this one does not; is it a tractogram?")
        if file.size > MAX_TEXT:
            raise InvalidInput(f"header.json has {file.size:,} bytes, over {MAX_TEXT:,}; export the file again")
        header = json_of(file.read(mapped=False).tobytes(), "header.json")
        if not isinstance(header, dict):
            raise InvalidInput("header.json is no table of names and values; export the file again")
        return header

    def array(self, name: str, rows: int | None, columns: int = 1) -> Array:
        """Return an array, shape (n, columns), ``rows`` as the header counts them; InvalidInput if there is none.

        It may be missing where the header counts no rows.
        """
        for file, stem, k in self._in(""):
            if stem == name and k == columns:
                return self._values(file, k, rows, exact=False)
        if rows != 0:
            raise InvalidInput(f"there is no array {name!r} with {columns} columns; export the file again")
        return np.empty((0, columns), np.int64)

    def have(self, folder: str, rows: int) -> bool:
        """Whether an array of a folder that was not read yet has so many rows."""
        found = ((file.size, k * DTYPES[file.name.rpartition(".")[2]].itemsize) for file, _, k in self._in(folder))
        return any(size == rows * width for size, width in found)

    def table(self, folder: str, rows: int) -> dict[str, Array]:
        """Return all arrays of a folder, shape (rows,) or (rows, k), by name; a damaged one is left out with a note."""
        return columns_of(list(self._readable(folder, rows, exact=True)))

    def groups(self, fibers: int) -> dict[str, Array]:
        """Return the groups as columns of booleans, shape (fibers,)."""
        columns: dict[str, Array] = {}
        for stem, values in self._readable("groups", None, exact=False):
            if values.dtype.kind not in "iu":
                note(f"group {stem!r} has type {values.dtype}, which names no fibers; it was left out")
                continue
            which = values.reshape(-1).astype(np.int64)
            inside = (which >= 0) & (which < fibers)
            if not inside.all():
                note(f"group {stem!r} names {np.count_nonzero(~inside)} fibers that are not there; they were left out")
            columns[GROUP + stem] = np.zeros(fibers, bool)
            columns[GROUP + stem][which[inside]] = True
        return columns

    def per_group(self) -> dict[str, dict[str, Array]]:
        """Return the numbers of groups, shape (k,), by the group's name and theirs."""
        groups = dict.fromkeys(name.split("/")[1] for name in self._left if re.fullmatch("dpg/[^/]+/[^/]+", name))
        found = {
            group: {name: values.reshape(-1) for name, values in self._readable(f"dpg/{group}", 1, exact=False)}
            for group in groups
        }
        return {group: numbers for group, numbers in found.items() if numbers}

    def note_others(self) -> None:
        """Note the members that were not read."""
        if self._left:
            named = ", ".join(map(repr, list(self._left)[:5]))
            note(f"{len(self._left)} members are no arrays of a tractogram and were left out: {named}")

    def _readable(self, folder: str, rows: int | None, *, exact: bool) -> Iterator[tuple[str, Array]]:
        for file, stem, k in self._in(folder):
            try:
                yield stem, self._values(file, k, rows, exact=exact)
            except _LOST as error:
                note(f"the array {file.name} was left out: {error}")

    def _in(self, folder: str) -> list[tuple[_File, str, int]]:
        """Arrays of a folder: file, name, columns."""
        found = []
        for name, file in self._left.items():
            parent, _, base = name.rpartition("/")
            *stem, ending = base.split(".")
            if parent == folder and stem and ending in DTYPES:
                k = int(stem.pop()) if len(stem) > 1 and re.fullmatch("[0-9]{1,9}", stem[-1]) else 1
                found.append((file, ".".join(stem), k))
        return found

    def _values(self, file: _File, k: int, rows: int | None, *, exact: bool) -> Array:
        """Values, shape (n, k); n must be ``rows`` if ``exact``."""
        self._left.pop(file.name)
        ending = file.name.rpartition(".")[2]
        dtype, size = DTYPES[ending], file.size
        if ending in _TWO_SIZES and rows and size == rows * k * 4:
            dtype = np.dtype(f"<{dtype.kind}4")
            note(f"{file.name} has 4 bytes for each number, as {ending!r} has in C, not the 8 of NumPy")
        whole, rest = divmod(size, max(k, 1) * dtype.itemsize)
        if k < 1 or (exact and (whole, rest) != (rows, 0)):
            raise InvalidInput(f"{file.name} has {size} bytes; {rows} rows of {k} {dtype.name} do not fit that")
        if rest:
            note(f"{file.name} has {size} bytes and ends inside a row of {k} {dtype.name}; {whole} rows were read")
        values = file.read(mapped=self._mapped)[: size - rest]
        if dtype.kind == "b":
            return (values != 0).reshape(-1, k)
        return values.view(dtype).reshape(-1, k)
