"""Tables beside a label volume that tell what its labels are called, as other programs write them.

=================  ===============================================================
FreeSurfer         ``17  Left-Hippocampus  220 216 20 0`` (also MRtrix, Slicer)
ITK-SNAP           ``17  220 216 20  1  1  1  "Left hippocampus"``
BIDS, CSV          columns ``index`` (or id, label, value) and ``name`` (or label)
FSL                XML with ``<label index="17" ...>Left hippocampus</label>``
JSON               ``{"17": "Left hippocampus"}``
=================  ===============================================================
"""

import csv
import json
import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import reads_file
from napari_gpubio.core.volumes import NIFTI_SUFFIXES

SUFFIXES = (".tsv", ".txt", ".csv", ".xml", ".json", ".lut", ".label", ".ctbl")
_ENDINGS = ("", "_labels", "_lut", "_LUT", "-labels", "-LUT", "_names", "LUT", "ColorLUT")  # between stem and suffix
_INDEX = ("index", "id", "labelid", "label_id", "value", "number", "no", "no.", "label", "key")
_NAME = ("name", "labelname", "label_name", "region", "structure", "abbreviation", "label")
_LARGEST = 2**40
_MOST_BYTES = 20_000_000
_QUOTED = re.compile(r'"([^"]*)"')


@reads_file
def read_label_names(path: str | Path) -> dict[int, str]:
    """Read the names of labels from a table.

    Parameters
    ----------
    path
        A text, TSV, CSV, XML or JSON file in one of the forms above.

    Returns
    -------
    names
        By label; background and nameless rows are left out.

    Raises
    ------
    InvalidInput
        If the file cannot be read or names no label.
    """
    path = Path(path)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidInput(f"{path.name} has {path.stat().st_size:,} bytes, too many for a table of labels")
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise InvalidInput(f"{path.name} cannot be read: {error.strerror or error}") from error
    readers = {".json": _from_json, ".xml": _from_xml, ".tsv": _from_columns, ".csv": _from_columns}
    names = readers.get(path.suffix.lower(), _from_lines)(text)
    if not names:
        raise InvalidInput(f"{path.name} names no label; give a table with a number and a name in each row")
    return names


def find_label_table(path: str | Path) -> Path | None:
    """Return the table beside a label volume: ``atlas.tsv``, ``atlas_labels.txt``, ... for ``atlas.nii.gz``, or None.

    A JSON or XML file beside a volume is often something else; it counts only if it names labels.
    """
    path = Path(path)
    suffix = next((s for s in reversed(NIFTI_SUFFIXES) if path.name.lower().endswith(s)), path.suffix)
    stem = path.name[: len(path.name) - len(suffix)]
    for ending in _ENDINGS:
        for kind in SUFFIXES:
            table = path.with_name(f"{stem}{ending}{kind}")
            if table.is_file() and _names_something(table):
                return table
    return None


def _names_something(path: Path) -> bool:
    try:
        return bool(read_label_names(path))
    except InvalidInput:
        return False


# -- the forms --------------------------------------------------------------------------------------------------------


def _from_lines(text: str) -> dict[int, str]:
    """Lines that begin with a number: FreeSurfer, MRtrix, Slicer, ITK-SNAP; or lines with separators."""
    if "\t" in text or text.count(",") > text.count("\n"):
        first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
        if _label(re.split(r"[\t,]", first)[0]) is None and (columns := _from_columns(text)):
            return columns
    rows = []
    for line in text.splitlines():
        quoted = _QUOTED.search(line)
        first, *others = line.split() if quoted else line.split("#")[0].replace(",", " ").split() or [""]
        words = [part for part in others if _number(part) is None]  # the others are colors, or another program's codes
        rows.append((_label(first), quoted.group(1) if quoted else " ".join(words)))
    return _named(rows)


def _from_columns(text: str) -> dict[int, str]:
    """A table with a line of titles, or with numbers in the first column and names in the second."""
    separator = "\t" if "\t" in text else ";" if text.count(";") > text.count(",") else ","
    rows = [row for row in csv.reader(text.splitlines(), delimiter=separator) if row and not row[0].startswith("#")]
    if not rows:
        return {}
    titles = [title.strip().casefold() for title in rows[0]]
    if _label(rows[0][0]) is not None:
        return _named((_label(row[0]), row[1] if len(row) > 1 else "") for row in rows)
    index = next((titles.index(title) for title in _INDEX if title in titles), None)
    name = next((titles.index(title) for title in _NAME if title in titles and titles.index(title) != index), None)
    if index is None or name is None:
        return {}
    return _named((_label(row[index]), row[name]) for row in rows[1:] if len(row) > max(index, name))


def _from_xml(text: str) -> dict[int, str]:
    """FSL's atlases: indices of a probabilistic atlas count its volumes from 0, where the label volume has 1."""
    if "<!ENTITY" in text:
        return {}  # nothing that an atlas needs, and much that can be done to a parser
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InvalidInput(f"it is no XML: {error}") from error
    shift = 1 if (root.findtext(".//type") or "").strip().casefold().startswith("probab") else 0
    found = [(_label(label.get("index", "")), label.text or "") for label in root.iter("label")]
    return _named((None if index is None else index + shift, name) for index, name in found)


def _from_json(text: str) -> dict[int, str]:
    try:
        held = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"it is no JSON: {error}") from error
    if isinstance(held, dict):
        return _named((_label(key), name) for key, name in held.items() if isinstance(name, str))
    rows = [row for row in held if isinstance(row, dict)] if isinstance(held, list) else []
    return _named((_label(str(row.get("index"))), row["name"]) for row in rows if isinstance(row.get("name"), str))


def _named(rows: Iterable[tuple[int | None, str]]) -> dict[int, str]:
    return {label: name.strip() for label, name in rows if label and name.strip()}


def _label(text: str) -> int | None:
    number = _number(text)
    return int(number) if number is not None and number.is_integer() and abs(number) < _LARGEST else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
