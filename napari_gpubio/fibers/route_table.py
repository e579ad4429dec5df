"""The table of routes between two regions, of whichever kind they are."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Tabular
from napari_gpubio.core.files import write_rows

Array = npt.NDArray[Any]


class RouteTable(Tabular):
    """The table of routes; a subclass has the names of its columns, and the one that they are sorted by at first."""

    column_names: ClassVar[tuple[str, ...]]
    best_by: ClassVar[str]

    def columns(self) -> dict[str, Array]:
        """Numbers of the routes by ``column_names``, each of shape (R,)."""
        raise NotImplementedError

    def table(self, sort_by: str = "", *, descending: bool = True) -> list[dict[str, float]]:
        """One row a route, sorted by a column, by default that which tells the best; rows without a number come last.

        InvalidInput if there is no such column.
        """
        names, sort_by = self.column_names, sort_by or self.best_by
        if sort_by not in names:
            raise InvalidInput(f"there is no column {sort_by!r}; choose one of {', '.join(names)}")
        columns = self.columns()
        keys = columns[sort_by].astype(np.float64)
        order = np.argsort(-keys if descending else keys, kind="stable")
        return [{name: values[n].item() for name, values in columns.items()} for n in order]

    def save_csv(self, path: str | Path, sort_by: str = "", *, descending: bool = True) -> None:
        """Write the table as CSV, with a header of names; InvalidInput if it cannot be written."""
        rows = self.table(sort_by, descending=descending)
        write_rows(path, [self.column_names, *([row[name] for name in self.column_names] for row in rows)])
