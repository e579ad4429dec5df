"""Result files of both engines: NumPy's ``.npz`` with one text more, ``result.json``, as `numpy.load` opens it too."""

import json
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, free_memory_bytes
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, existing_file
from napari_gpubio.core.volumes import damaged

Array = npt.NDArray[Any]
_TEXT = "result.json"
_FAST = 1  # level of DEFLATE; higher ones take several times as long and gain little on noisy numbers
# What zipfile, numpy, json and our own checks raise on a damaged file.
_READ_ERRORS = (
    OSError, EOFError, ValueError, TypeError, LookupError, AttributeError, NotImplementedError, MemoryError,
    RecursionError, struct.error, zlib.error, zipfile.BadZipFile, RuntimeError,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of result file.

    Parameters
    ----------
    format, version
        What the file says of itself.
    title
        Of what it is a result, in a sentence.
    writer
        Name of the function that writes it.
    """

    format: str
    version: int
    title: str
    writer: str


VOXELS = Kind(format="napari-gpubio light result", version=1, title="light transport", writer="save_result")
LAYERS = Kind(
    format="napari-gpubio layered light result", version=1, title="light in layers", writer="save_layered_result"
)


def write_archive(
    path: str | Path, kind: Kind, header: Mapping[str, Any], arrays: Iterable[tuple[str, Array]], *, compress: bool
) -> None:
    """Write a result file; an older one is replaced only when the new one is complete.

    Parameters
    ----------
    path
        Ends in ``.npz``.
    kind
        Which kind of result it is.
    header
        What the text says, as JSON can hold it.
    arrays
        Names and arrays.
    compress
        Make the file smaller, and the writing slower.

    Raises
    ------
    InvalidInput
        If the name ends otherwise, the folder does not exist or may not be written, or the disk is full.
    """
    if Path(path).suffix.lower() != ".npz":
        raise InvalidInput(f"{Path(path).name} does not end in .npz; give it this ending")
    named = dict(arrays)
    about = {"format": kind.format, "version": kind.version, "arrays": list(named), **header}
    text = json.dumps(about, indent=1, allow_nan=False)
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with (
        atomic_write(path) as part,
        zipfile.ZipFile(part, "w", method, compresslevel=_FAST) as archive,
    ):
        archive.writestr(_TEXT, text)
        for name, array in named.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)


@contextmanager
def opened_archive(path: str | Path, kind: Kind) -> Iterator[tuple[dict[str, Any], dict[str, Array]]]:
    """Read a result file: what its text says, and its arrays by name.

    What is made of them belongs inside the block: what goes wrong there is the file's fault too.

    Raises
    ------
    InvalidInput
        If the file is missing, incomplete, damaged, no such result, of another version, or too large for the memory.
    """
    path = existing_file(path)
    with _blaming(path):
        with zipfile.ZipFile(path) as archive:
            header = _header(archive, path, kind)
            _check_memory(archive, path)
            arrays = {name.removesuffix(".npy"): _array(archive, name) for name in archive.namelist() if name != _TEXT}
        _check_arrays(arrays, header)
        yield header, arrays


def within(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """Return the arrays whose names begin with ``prefix/``, without it."""
    return {name.removeprefix(f"{prefix}/"): a for name, a in arrays.items() if name.startswith(f"{prefix}/")}


@contextmanager
def _blaming(path: Path) -> Iterator[None]:
    """Name the file in what is raised, and say of other errors that it is damaged."""
    try:
        yield
    except InvalidInput as error:
        if path.name in str(error):
            raise
        raise InvalidInput(f"{path.name} cannot be used: {error}") from error
    except _READ_ERRORS as error:
        raise damaged(path, error) from error


def _header(archive: zipfile.ZipFile, path: Path, kind: Kind) -> dict[str, Any]:
    header = json.loads(archive.read(_TEXT)) if _TEXT in archive.namelist() else {}
    own = header.get("format") if isinstance(header, dict) else None
    if own != kind.format:
        others = [f"a result of {other.title}, " for other in (VOXELS, LAYERS) if own == other.format]
        raise InvalidInput(
            f"{path.name} is {''.join(others)}not a result of {kind.title}; give a file that {kind.writer} has written"
        )
    if header.get("version") != kind.version:
        raise InvalidInput(
            f"{path.name} has version {header.get('version')} of its format and only version {kind.version} can be "
            "read here; update napari-gpubio"
        )
    return dict(header)


def _check_memory(archive: zipfile.ZipFile, path: Path) -> None:
    needed, free = sum(member.file_size for member in archive.infolist()), free_memory_bytes(CPU)
    if needed > free:
        raise InvalidInput(
            f"{path.name} needs {needed / 2**20:.0f} MB of memory and {free / 2**20:.0f} MB are free; "
            "close other programs"
        )


def _check_arrays(arrays: Mapping[str, Array], header: Mapping[str, Any]) -> None:
    """Find out that an array is missing; a zip whose table of contents is damaged may hide some without a word."""
    if missing := [name for name in header.get("arrays", ()) if name not in arrays]:  # older files have no list
        raise LookupError(f"{missing[0]} is missing")


def _array(archive: zipfile.ZipFile, name: str) -> Array:
    with archive.open(name) as stream:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read()  # to the end, where the checksum is compared
        return array
