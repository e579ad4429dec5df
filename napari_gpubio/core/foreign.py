"""The doors by which readers take files: what a file is, and how large, is looked at before it is read.

Archives and HDF5 have doors of their own, `napari_gpubio.core.archives` and `napari_gpubio.core.hdf5`.
"""

import csv
import io
import json
import mmap
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file

MAX_TEXT = 64 << 20  # bytes of a text that is read whole; tables and descriptions seldom have a hundredth of that
MAX_WHOLE = 512 << 20  # bytes of what may be larger: images, JSON with volumes, a number for each fiber
_MAX_DIGITS = len(str(2**64))


def existing_bytes(path: str | os.PathLike[str], most: int = MAX_TEXT) -> bytes:
    """Return what a file holds.

    Raises
    ------
    InvalidInput
        As `existing_file`, or if it has more than ``most`` bytes, of which none is read then, or may not be read.
    """
    file = existing_file(path)
    if (size := file.stat().st_size) > most:
        raise InvalidInput(
            f"{file.name} has {size:,} bytes, and what is read here has no more than {most:,}; it is damaged or of "
            "another kind: choose another file"
        )
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"{file.name} cannot be read ({error.strerror or error}); check its permissions and its disk"
        ) from error


def existing_map(path: str | os.PathLike[str]) -> mmap.mmap:
    """Return the bytes of a file, of which only those are read that are looked at; errors as `existing_file`."""
    with existing_file(path).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def existing_text(path: str | os.PathLike[str], most: int = MAX_TEXT, *, other: str | None = None) -> str:
    """Return the text of a file.

    Parameters
    ----------
    path
        The file.
    most
        Bytes.
    other
        The encoding of what `text_of` cannot decode.

    Raises
    ------
    InvalidInput
        As `existing_bytes`, or if it cannot be decoded.
    """
    data = existing_bytes(path, most)
    try:
        return text_of(data)
    except UnicodeDecodeError as error:
        if other is not None:
            return data.decode(other, "replace")
        raise InvalidInput(f"{Path(path).name} is not a text in UTF-8; save it as such") from error


def existing_json(path: str | os.PathLike[str], most: int = MAX_TEXT) -> Any:
    """Return what a JSON file says; errors as `existing_text` and `json_of`."""
    return json_of(existing_text(path, most), Path(path).name)


def existing_table(path: str | os.PathLike[str], separator: str = ",") -> tuple[list[str], Iterator[dict[str, str]]]:
    """Return the titles of a table, which its first line has, and its rows; missing cells are empty.

    InvalidInput as `existing_text`, or, also from the rows, if it is no such table.
    """
    name = Path(path).name
    reader = csv.DictReader(io.StringIO(existing_text(path), newline=""), delimiter=separator, restval="")

    def rows() -> Iterator[dict[str, str]]:
        with _table_errors(name):
            yield from reader

    with _table_errors(name):
        return list(reader.fieldnames or ()), rows()


@contextmanager
def _table_errors(name: str) -> Iterator[None]:
    try:
        yield
    except csv.Error as error:
        raise InvalidInput(f"{name} is no table of a line for each row ({error}); save it as text again") from error


def existing_numbers(path: str | os.PathLike[str], most: int = MAX_TEXT) -> npt.NDArray[np.float64]:
    """Return the numbers of a text file, shape (rows, columns); ``#`` begins a comment.

    InvalidInput as `existing_text`, or if there are none, other words, or rows of different lengths.
    """
    name, text = Path(path).name, existing_text(path, most)
    try:
        if re.search(r"^[^\S\n]*[^#\s]", text, re.MULTILINE):
            return np.loadtxt(io.StringIO(text), comments="#", ndmin=2)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{name} is no text file of numbers ({error}); give rows of as many numbers each") from error
    raise InvalidInput(f"{name} has no numbers; give a text file of numbers")


def json_of(text: str | bytes, name: str, *, strict: bool = True) -> Any:
    """Return what a JSON text says.

    Parameters
    ----------
    text
        The text.
    name
        Of its file, for the sentence.
    strict
        False allows line breaks in its texts.

    Returns
    -------
    Any
        As of `json.loads`; integers of more digits than a 64-bit one has are floats, and infinite beyond those.

    Raises
    ------
    InvalidInput
        If it is no JSON, or nested more deeply than Python can follow.
    """
    try:
        return json.loads(text, parse_int=_whole, strict=strict)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{name} is not valid JSON ({error}); it is cut off or damaged: copy or write it again"
        ) from error


def _whole(digits: str) -> float:
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)


def text_of(data: bytes) -> str:
    """Decode a text: UTF-16 where it begins with its mark, as Windows programs save it, else UTF-8."""
    return data.decode("utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
