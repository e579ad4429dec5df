"""Tables that tell what the labels of a volume are called, as other programs write them.

=================  =====================================================================
FreeSurfer         ``17  Left-Hippocampus  220 216 20 0`` (also MRtrix, Slicer)
ITK-SNAP           ``17  220 216 20  1  1  1  "Left hippocampus"``
BIDS, CSV, AAL     columns of numbers, names and abbreviations, in any order
FSL                XML with ``<label index="17" ...>Left hippocampus</label>``
AAL                XML with ``<label><index>17</index><name>Hippocampus_L</name></label>``
JSON               ``{"17": "Left hippocampus"}``, or ``labels`` of nnU-Net
=================  =====================================================================

A table lies beside the volume, or for BIDS's ``dseg`` in a folder above. FreeSurfer's volumes have none; their names
are in its ``FreeSurferColorLUT.txt``, or in `napari_gpubio.core.freesurfer_labels`. Where a table has several columns
of numbers, or counts from 0, the labels of the volume show what its numbers are.
"""

import csv
import os
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from xml.etree import ElementTree

from napari_gpubio.core.bids import inherited
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import leads_somewhere
from napari_gpubio.core.foreign import existing_text, json_of
from napari_gpubio.core.freesurfer_labels import FREESURFER_NAMES
from napari_gpubio.core.reading import note, reading, reads_file
from napari_gpubio.core.volumes import stem_of

SUFFIXES = (".tsv", ".txt", ".csv", ".xml", ".json", ".lut", ".label", ".ctbl")
_ENDINGS = ("", "_labels", "_lut", "_LUT", "-labels", "-LUT", "_names", "LUT", "ColorLUT")  # between stem and suffix
_INDEX = ("index", "id", "labelid", "label_id", "value", "number", "no", "no.", "label", "key")
_NAME = ("name", "labelname", "label_name", "full name", "fullname", "region", "structure", "abbreviation", "label")
_SUBJECTS = {"participant_id", "participant", "subject", "subject_id", "subjectid", "patient", "patient_id"}
_MIN_NAMED = 0.5  # of the labels, by a table that nobody has given
_BACKGROUND = (
    "background",
    "bg",
    "???",
    "null",
    "unknown",
    "unclassified",
    "clear label",
    "none",
    "outside",
    "exterior",
)
_LARGEST = 2**40
_MAX_BYTES, _MAX_CELLS = 20_000_000, 2_000_000
_MAX_SHOWN = 5
_MOSTLY = 0.8  # rows with a label in the column of labels; others are titles or remarks
_QUOTED = re.compile(r'"([^"]*)"')
_COLORS = re.compile(r"(?<=[^\s\d,])(?:[\s,]+\d+(?:\.\d+)?){3,4}\s*$")  # behind a name
_SIDES = {"l", "r", "left", "right", "lh", "rh", "b", "m", "both", "bilateral", "midline", ""}
_WIDE = re.compile(r"\t+| {2,}")  # between columns, where names may have single spaces
_FREESURFER = re.compile(r"(^|[^a-z])(aparc|aseg|wmparc)", re.IGNORECASE)
_LUT = "FreeSurferColorLUT.txt"
_MIN_KNOWN = 0.9  # of the labels of a volume of FreeSurfer


class _NoLabelError(InvalidInput):
    """A file is read, and rather something else than a table of labels."""


def names_of_labels(path: str | Path, labels: Collection[int], table: str | Path | None = None) -> dict[int, str]:
    """Find the names of the labels of a volume; notes tell where they are from, and what does not fit.

    Parameters
    ----------
    path
        The file of the volume.
    labels
        Those that it has, 0 or not.
    table
        A table of names; None: the one that `find_label_table` finds, or for a volume whose name and labels are those
        of FreeSurfer ``FreeSurferColorLUT.txt`` from its folder, from one of two above it, from ``$FREESURFER_HOME``
        or from ``$SUBJECTS_DIR``, else our own short one.

    Returns
    -------
    names
        By label, also of labels that the volume does not have; empty if there is no table.

    Raises
    ------
    InvalidInput
        If a table that is given cannot be read or names no label.
    """
    path, there = Path(path), {int(label) for label in labels} - {0}
    table = table_of_labels(path, there) if table is None else Path(table)
    if table is None:
        return _freesurfer_names(path, there)
    names = read_label_names(table, there)
    _note_misfits(names, there, table.name)
    return names


def table_of_labels(path: str | Path, labels: Collection[int]) -> Path | None:
    """Return the table that `names_of_labels` takes names of labels from where none is given; None: there is none."""
    path, there = Path(path), set(labels) - {0}
    if (table := find_label_table(path, there)) is not None or not _is_freesurfer(path, there):
        return table
    homes = [Path(home) for name in ("FREESURFER_HOME", "SUBJECTS_DIR") if (home := os.environ.get(name))]
    tables = (folder / _LUT for folder in (*path.resolve().parents[:3], *homes))
    return next((table for table in tables if _names_something(table)), None)


def _is_freesurfer(path: Path, labels: set[int]) -> bool:
    known = len(labels & FREESURFER_NAMES.keys())
    return bool(_FREESURFER.search(path.name)) and known >= _MIN_KNOWN * max(len(labels), 1)


def _freesurfer_names(path: Path, labels: set[int]) -> dict[int, str]:
    if not _is_freesurfer(path, labels):
        return {}
    note("no table of names lies beside it; its labels have the standard names of FreeSurfer")
    _note_misfits({label: name for label, name in FREESURFER_NAMES.items() if label in labels}, labels, "that list")
    return dict(FREESURFER_NAMES)


def _note_misfits(names: dict[int, str], labels: set[int], table: str) -> None:
    nameless, unused = sorted(labels - names.keys()), sorted(names.keys() - labels)
    if nameless:
        note(
            f"{len(nameless)} of {len(labels)} labels have no name in {table} ({_some(nameless)}); they are called by "
            "their numbers"
        )
    if unused and table != _LUT:
        note(f"{table} names {len(unused)} labels that no voxel has ({_some(unused)})")


def _some(labels: Sequence[int]) -> str:
    return ", ".join(map(str, labels[:_MAX_SHOWN])) + (", ..." if len(labels) > _MAX_SHOWN else "")


@reads_file
def read_label_names(path: str | Path, labels: Collection[int] = ()) -> dict[int, str]:
    """Read the names of labels from a table.

    Parameters
    ----------
    path
        A text, TSV, CSV, XML or JSON file in one of the forms above.
    labels
        Those of the volume: they decide between columns of numbers, and whether these count from 0, which is noted.

    Returns
    -------
    names
        By label; background and nameless rows are left out.

    Raises
    ------
    InvalidInput
        If the file cannot be read or names no label.
    """
    names, notes = _names_in(Path(path), set(labels) - {0})
    for text in notes:
        note(text)
    return names


def _names_in(path: Path, labels: set[int]) -> tuple[dict[int, str], list[str]]:
    """Names, and what is to be noted of them."""
    text = existing_text(path, _MAX_BYTES, other="latin-1")
    readers = {".json": _from_json, ".xml": _from_xml, ".tsv": _from_columns, ".csv": _from_columns}
    found = readers.get(path.suffix.lower(), _from_lines)(text, labels)
    rows = [(label, " ".join(name.split())) for label, name in found]
    shift, notes = _shift(rows, labels, is_usual=path.suffix.lower() == ".xml" and "<type>" not in text)
    names: dict[int, str] = {}
    twice = set()
    for label, name in rows:
        key = None if label is None else label + shift
        if key and name and names.setdefault(key, name) != name:
            twice.add(key)
    if not names:
        raise _NoLabelError(f"{path.name} names no label; give a table with a number and a name in each row")
    if twice:
        notes.append(f"{len(twice)} labels are named twice ({_some(sorted(twice))}); their first names were taken")
    return names, notes


def _shift(rows: "_Rows", labels: set[int], *, is_usual: bool) -> tuple[int, list[str]]:
    """Return 1 if numbers that begin with 0, which is background in volumes, are labels minus 1, else 0; and a note.

    The labels of the volume show it; where they do not, it is so if ``is_usual``.
    """
    zero = next((name for label, name in rows if label == 0), "")
    if not zero or zero.casefold() in _BACKGROUND:
        return 0, []
    numbers = {label for label, _ in rows if label is not None}
    as_is, shifted = len(labels & numbers), len(labels & {number + 1 for number in numbers})
    if shifted > as_is or (shifted == as_is and is_usual):
        return 1, ["its numbers begin with 0, which is background in volumes; they were taken to be the labels minus 1"]
    if shifted < as_is or not labels:
        return 0, []
    return 0, [
        f"it calls 0, which is background in volumes, {zero[:40]!r}; if it counts from 0, each name is one too low"
    ]


def find_label_table(path: str | Path, labels: Collection[int] = ()) -> Path | None:
    """Return the table beside a label volume: ``atlas.tsv``, ``atlas_labels.txt``, ... for ``atlas.nii.gz``, or None.

    For ``sub-01_desc-aseg_dseg.nii.gz`` of BIDS also ``desc-aseg_dseg.tsv`` here or in a folder above. A file beside a
    volume is often something else; it counts only if it names labels, and at least half of ``labels`` if there are any.
    What cannot be read is noted, and left aside.
    """
    path = Path(path)
    stem = stem_of(path)
    for ending in _ENDINGS:
        for kind in SUFFIXES:
            table = path.with_name(f"{stem}{ending}{kind}")
            if _names_something(table, labels):
                return table
    tables = inherited(path, ".tsv") if stem.endswith("_dseg") else ()
    return next((table for table in tables if _names_something(table, labels)), None)


def _names_something(path: Path, labels: Collection[int] = ()) -> bool:
    there, names = set(labels) - {0}, dict[int, str]()
    if not leads_somewhere(path):
        return False
    try:
        with reading(path), suppress(_NoLabelError):
            names, _ = _names_in(path, there)
    except InvalidInput as error:
        note(f"{error}; so it is not taken for the names of its labels")
        return False
    if not names or len(there & names.keys()) >= _MIN_NAMED * len(there):
        return bool(names)
    note(
        f"{path.name} names {len(there & names.keys())} of its {len(there)} labels, so it is not taken for their names"
    )
    return False


# -- the forms: rows of labels (None where there is none) and names ---------------------------------------------------

_Rows = list[tuple[int | None, str]]


def _from_lines(text: str, labels: set[int]) -> _Rows:
    """Lines that begin with a number: FreeSurfer, MRtrix, Slicer, ITK-SNAP; or columns."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    lines = [_COLORS.sub("", line) for line in lines]
    if not any(_QUOTED.search(line) for line in lines):
        if "\t" in text or text.count(",") > text.count("\n"):
            with suppress(InvalidInput):
                if rows := _from_columns(text, labels):
                    return rows
        rows = _of_columns([_WIDE.split(line.split("#")[0].strip()) for line in lines], labels)
        if rows and all(label is not None for label, _ in rows):
            return rows
    rows, whole = [], []
    for line in lines:
        quoted = _QUOTED.search(line)
        first, *others = (
            re.split(r"[\s,]+", line.strip()) if quoted else line.split("#")[0].replace(",", " ").split() or [""]
        )
        words = [part for part in others if _number(part) is None]  # the others are another program's codes
        rows.append((_label(first), quoted.group(1) if quoted else " ".join(words)))
        whole.append((_label(first), quoted.group(1) if quoted else " ".join(others)))
    are_distinguished = len({name for _, name in rows}) == len({name for _, name in whole})
    return rows if are_distinguished else whole  # or they distinguish names: Brodmann area 1, 2, ...


def _from_columns(text: str, labels: set[int]) -> _Rows:
    """Columns between tabs, semicolons or commas."""
    separator = "\t" if "\t" in text else ";" if text.count(";") > text.count(",") else ","
    try:
        rows = [row for row in csv.reader(text.splitlines(), delimiter=separator) if row and any(map(str.strip, row))]
    except csv.Error as error:
        raise InvalidInput(f"it is no table of a line for each row ({error}); save it as text again") from error
    return _of_columns([row for row in rows if not row[0].lstrip().startswith("#")], labels)


def _of_columns(rows: Sequence[Sequence[str]], labels: set[int]) -> _Rows:
    """A table with a line of titles or without: the column of numbers, and of several with names the fullest ones."""
    if not rows or len(rows) * max(map(len, rows)) > _MAX_CELLS:
        return []
    titles = [title.strip().casefold() for title in rows[0]]
    if _SUBJECTS & set(titles):
        return []
    index = next((titles.index(title) for title in _INDEX if title in titles), None)
    name = next((titles.index(title) for title in _NAME if title in titles and titles.index(title) != index), None)
    is_titled = index is not None and name is not None
    if is_titled or not any(_label(value) is not None for value in rows[0]):
        rows = [row for row in rows[1:] if not is_titled or len(row) > max(index or 0, name or 0)]
    if not rows:
        return []
    columns = [[value.strip() for value in column] for column in zip_longest(*rows, fillvalue="")]
    numbers, texts = [], []
    for n, column in enumerate(columns):
        if sum(_label(value) is not None for value in column) > _MOSTLY * len(rows):
            numbers.append(n)
        elif sum(any(_number(word) is None for word in value.split()) for value in column) > len(rows) / 2:
            texts.append(n)
    if index is None or name is None:
        if not numbers or not texts:
            return []
        index = 0 if 0 in numbers else max(numbers, key=lambda n: (len(set(columns[n])), -n))  # colors repeat
        named = [n for n in texts if not _is_side(columns[n])] or texts
        name = max(named, key=lambda n: (len(set(columns[n])), sum(map(len, columns[n]))))
    unique = [n for n in numbers if len(set(columns[n])) == len(columns[n])]
    best = max([index, *unique], key=lambda n: len(labels & set(map(_label, columns[n]))))
    return _named(columns, best, name)


def _named(columns: Sequence[Sequence[str]], index: int, name: int) -> _Rows:
    """Rows of a table; names that are there twice get the side, where a column has it."""
    names: Sequence[str] = columns[name]
    if len({value.strip() for value in names}) < len(names):
        sides = [column for n, column in enumerate(columns) if n not in (index, name) and _is_side(column)]
        names = [" ".join(parts) for parts in zip(names, *sides, strict=True)]
    return [(_label(number), text) for number, text in zip(columns[index], names, strict=True)]


def _is_side(column: Sequence[str]) -> bool:
    return {value.strip().casefold() for value in column} <= _SIDES


def _from_xml(text: str, _: set[int]) -> _Rows:
    """FSL's and AAL's atlases; the indices of FSL's probabilistic atlases count volumes from 0, and labels from 1."""
    if "<!ENTITY" in text:
        return []  # nothing that an atlas needs, and much that can be done to a parser
    try:
        root = ElementTree.fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", text))  # it is decoded already
    except (ElementTree.ParseError, ValueError) as error:
        raise InvalidInput(f"it is no XML: {error}") from error
    rows = []
    for label in root.iter("label"):
        index = label.get("index") or label.findtext("index") or ""
        rows.append((_label(index.strip()), label.findtext("name") or label.text or ""))
    shift = 1 if (root.findtext(".//type") or "").strip().casefold().startswith("probab") else 0
    return [(None if index is None else index + shift, name) for index, name in rows]


def _from_json(text: str, _: set[int]) -> _Rows:
    try:
        held = json_of(text, "the table")
    except InvalidInput as error:  # what lies beside a volume is rather its description, whose reader tells that
        raise _NoLabelError(str(error)) from error
    if isinstance(held, dict) and isinstance(labels := held.get("labels"), dict | list):
        held = labels  # as in the datasets of nnU-Net, which have them the other way round
        if isinstance(held, dict) and all(isinstance(value, int) for value in held.values()):
            held = {str(value): key for key, value in held.items()}
    if isinstance(held, dict):
        named = [(key, value.get("name") if isinstance(value, dict) else value) for key, value in held.items()]
    else:
        parts = [part for part in held if isinstance(part, dict)] if isinstance(held, list) else []
        named = [(str(part.get("index", part.get("id"))), part.get("name")) for part in parts]
    return [(_label(label), name) for label, name in named if isinstance(name, str)]


def _label(text: str) -> int | None:
    number = _number(text)
    return int(number) if number is not None and number.is_integer() and abs(number) < _LARGEST else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
