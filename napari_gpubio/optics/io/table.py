"""Tables of optical properties as CSV or JSON: one row for each label.

A CSV file has a header with the names of the columns, in any order: ``label``, ``mua_per_mm``, ``mus_per_mm``, ``g``,
``n``, and optionally ``name`` and ``source``. Commas, semicolons or tabs separate them; where it is not the comma,
numbers may have a decimal comma. Lines that begin with ``#`` are comments. A JSON file is a list of objects with the
same keys.
"""

import csv
import dataclasses
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.foreign import existing_json, existing_text
from napari_gpubio.core.reading import reads_file
from napari_gpubio.optics.model import Medium

COLUMNS: dict[str, type] = {field.name: type(field.default) for field in dataclasses.fields(Medium)}
OPTIONAL = ("name", "source")
_SEPARATORS = ",;\t"
_MAX_NAMED = 5
_EXAMPLE = "1, 2.5, 0.89 or 1e-3"


@reads_file
def read_table(path: str | Path) -> tuple[Medium, ...]:
    """Read a table of optical properties.

    Parameters
    ----------
    path
        A ``.csv`` or ``.json`` file.

    Raises
    ------
    InvalidInput
        If the file is missing or no table, a column is missing or not known, or a cell is wrong; the sentence names
        the first few of them by line and column.
    """
    path = Path(path)
    rows = _json_rows(path) if _is_json(path) else _csv_rows(path)
    media, problems = _media(rows)
    if problems:
        more = f"\n… and {len(problems) - _MAX_NAMED} more" if len(problems) > _MAX_NAMED else ""
        raise InvalidInput("\n".join(f"{path.name}, {problem}" for problem in problems[:_MAX_NAMED]) + more)
    if not media:
        raise InvalidInput(f"{path.name} has no rows; give one for each label")
    return tuple(media)


def write_table(path: str | Path, media: Iterable[Medium]) -> None:
    """Write a table of optical properties; `read_table` gives the same numbers back.

    Parameters
    ----------
    path
        Ends in ``.csv`` or ``.json``; an older file is replaced only when the new one is complete.
    media
        The rows.

    Raises
    ------
    InvalidInput
        If the ending is another, or the file cannot be written.
    """
    rows = [{name: getattr(medium, name) for name in COLUMNS} for medium in media]
    is_json = _is_json(Path(path))
    text = json.dumps(rows, indent=1, ensure_ascii=False) + "\n" if is_json else _csv_text(rows)
    encoding = "utf-8" if is_json else "utf-8-sig"  # the byte order mark makes spreadsheets read it as UTF-8
    with atomic_write(path) as part:
        part.write_text(text, encoding=encoding, newline="")


def _is_json(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".json"):
        raise InvalidInput(f"{path.name} does not end in .csv or .json; give it one of these endings")
    return suffix == ".json"


# -- CSV --------------------------------------------------------------------------------------------------------------


def _csv_text(rows: list[dict[str, Any]]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _csv_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Where each row is, and its cells by column."""
    text = existing_text(path)
    separator = _separator(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    header: list[str] | None = None
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells) or cells[0].startswith("#"):
                continue
            place = f"line {reader.line_num}"
            if header is None:
                header = _checked_header(cells, path.name)
            else:
                yield place, _named(header, cells, place, path.name, separator)
    except csv.Error as error:
        raise InvalidInput(f"{path.name}, line {reader.line_num}: {error}; save it as CSV again") from error


def _separator(text: str) -> str:
    header = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    return max(_SEPARATORS, key=header.count)


def _checked_header(cells: list[str], file_name: str) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    unknown = [name for name in names if name and name not in COLUMNS]
    missing = [name for name in COLUMNS if name not in names and name not in OPTIONAL]
    twice = [name for name in COLUMNS if names.count(name) > 1]
    for found, what in ((unknown, "not known"), (missing, "missing"), (twice, "given twice")):
        if found:
            raise InvalidInput(
                f"{file_name}: column {', '.join(map(repr, found[:_MAX_NAMED]))} is {what}; the first line must name "
                f"the columns {', '.join(COLUMNS)}"
            )
    return names


def _named(header: list[str], cells: list[str], place: str, file_name: str, separator: str) -> dict[str, Any]:
    if beyond := [cell for cell in cells[len(header) :] if cell.strip()]:
        raise InvalidInput(
            f"{file_name}, {place}: {beyond[0]!r} is beyond the last column; put text with {separator!r} in quotes"
        )
    row = {name: cell.strip() for name, cell in zip(header, cells, strict=False) if name}
    if separator == ",":
        return row
    numbers = {name: row[name].replace(",", ".") for name in row if COLUMNS[name] is not str}
    return {**row, **numbers}


# -- JSON -------------------------------------------------------------------------------------------------------------


def _json_rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    rows = existing_json(path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInput(f"{path.name} is not a list of objects; give [{{{', '.join(map(repr, COLUMNS))}}}, …]")
    for number, row in enumerate(rows, 1):
        if unknown := [key for key in row if key not in COLUMNS]:
            raise InvalidInput(
                f"{path.name}, entry {number}: {unknown[0]!r} is not known; the keys are {', '.join(COLUMNS)}"
            )
        yield f"entry {number}", row


# -- cells ------------------------------------------------------------------------------------------------------------


def _media(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[list[Medium], list[str]]:
    """Return the media of the good rows, and what is wrong with the others."""
    media: list[Medium] = []
    problems: list[str] = []
    places: dict[int, str] = {}
    for place, row in rows:
        values, wrong = _values(row)
        try:
            medium = None if wrong else Medium(**values)
        except InvalidInput as error:
            medium, wrong = None, [str(error)]
        if medium is not None and medium.label in places:
            wrong = [f"label {medium.label} already has a row ({places[medium.label]}); remove one"]
        problems += [f"{place}: {problem}" for problem in wrong]
        if medium is not None and not wrong:
            places[medium.label] = place
            media.append(medium)
    return media, problems


def _values(row: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for column, kind in COLUMNS.items():
        given = row.get(column, "")
        if kind is str:
            values[column] = str(given or "")
        elif given is None or given == "":
            wrong.append(f"{column} has no value; give a number")
        else:
            try:
                values[column] = _number(given, kind)
            except (ValueError, OverflowError):
                what = "an integer" if kind is int else f"a number, like {_EXAMPLE}"
                wrong.append(f"{column} is {given!r}; give {what}")
    return values, wrong


def _number(given: Any, kind: type) -> int | float:
    """A cell as a number of a kind; ValueError if it is none."""
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise ValueError
    number = float(given)
    if kind is float:
        return number
    if number != int(number):
        raise ValueError
    return int(number)
