"""The tables of this package: CSV files in ``data``, whose source stands in comment lines at their head."""

import csv
from pathlib import Path

_DATA = Path(__file__).parent / "data"
_COMMENT, _SOURCE = "#", "# source: "


def read_rows(name: str) -> list[dict[str, str]]:
    """Rows of a table, by the names of its columns."""
    return list(csv.DictReader(line for line in _lines(name) if not line.startswith(_COMMENT)))


def read_source(name: str) -> str:
    """Where the numbers of a table come from."""
    return next(line.removeprefix(_SOURCE) for line in _lines(name) if line.startswith(_SOURCE))


def _lines(name: str) -> list[str]:
    return (_DATA / name).read_text(encoding="utf-8").splitlines()
