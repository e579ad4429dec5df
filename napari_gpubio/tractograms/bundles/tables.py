"""Tables of numbers of bundles: rows and named columns, and CSV files of them."""

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Tabular
from napari_gpubio.core.files import write_text


@dataclass(frozen=True, eq=False, slots=True)
class Table(Tabular):
    """Rows of words and numbers.

    Parameters
    ----------
    columns
        Their names; units are part of a name (``length_mm_mean``).
    rows
        Each with a value for every column; NaN where there is none.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> list[Any]:
        """Return the values of a column; InvalidInput if there is none of that name."""
        if name not in self.columns:
            raise InvalidInput(f"the table has no column {name!r}; it has {', '.join(self.columns)}")
        at = self.columns.index(name)
        return [row[at] for row in self.rows]

    def records(self) -> list[dict[str, Any]]:
        """Return the rows, each as values by the names of the columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def csv(self, separator: str = ",") -> str:
        """Return it as text: a line of names, then one for each row; a cell without a value is empty."""
        text = io.StringIO()
        writer = csv.writer(text, delimiter=separator, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([_cell(value) for value in row] for row in self.rows)
        return text.getvalue()

    def write(self, path: str | Path) -> None:
        """Write it as CSV, or with tabs where the name ends in ``.tsv``; InvalidInput if that is not possible."""
        write_text(path, self.csv("\t" if Path(path).suffix.lower() == ".tsv" else ","))

    @staticmethod
    def join(tables: Iterable["Table"]) -> "Table":
        """Put tables with the same columns one below the other; InvalidInput if there are none or columns differ."""
        parts = tuple(tables)
        if len({part.columns for part in parts}) != 1:
            raise InvalidInput(f"{len(parts)} tables cannot be joined; give one or more with the same columns")
        return Table(parts[0].columns, tuple(row for part in parts for row in part.rows))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9g}" if math.isfinite(value) else ""
    return str(value)
