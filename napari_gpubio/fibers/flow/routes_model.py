"""The routes of the flow between two regions: one line each, and its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.fibers.flow.model import Flow
from napari_gpubio.fibers.route_table import RouteTable
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
COLUMNS: Mapping[str, str] = {
    "route": "",
    "share": "",
    "length_mm": "mm",
    "cost_per_mm": "",
    "weakest_link": "",
    "sharpest_turn_deg_per_mm": "°/mm",
    "least_strength": "",
}
"""Columns of the table of routes, with units."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FlowRoutes(RouteTable):
    """Distinct routes between two regions, the one with the largest share of the flow first.

    Parameters
    ----------
    source, target
        Names of the regions.
    tractogram
        A line for each route, in the middle of the flow, from the source to the target; ``per_fiber`` has the numbers
        of `COLUMNS`: ``share`` of the flow; ``cost_per_mm``, 1 for a straight way along strong fixels;
        ``weakest_link``, the largest mean cost per mm of 8 mm; ``sharpest_turn_deg_per_mm`` over 8 mm;
        ``least_strength``, that of its weakest fixel over the reference.
    widest
        The least that the largest cost per mm of any route can be; infinite if no path joins the regions.
    flow
        The flow from both regions, whose labels are 1 (source) and 2 (target).
    complete
        False if the search was stopped.
    notes
        What was left out, and what to know of the regions, as sentences.
    """

    column_names: ClassVar[tuple[str, ...]] = tuple(COLUMNS)
    best_by: ClassVar[str] = "share"
    source: str
    target: str
    tractogram: Tractogram
    widest: float
    flow: Flow
    complete: bool = True
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.tractogram)

    @property
    def arrivals(self) -> float:
        """Root of the shares of the mass of each region that arrive in the other."""
        return float(self.flow.matrix("arrivals")[0, 1])

    @property
    def density(self) -> npt.NDArray[np.float32]:
        """Density of the routes, the largest 1, on the grid of the field."""
        return self.flow.density(1, 2)

    def columns(self) -> dict[str, Array]:
        """Numbers of the routes by the names of `COLUMNS`, each of shape (R,)."""
        return {name: self.tractogram.per_fiber[name] for name in COLUMNS}

    @property
    def message(self) -> str:
        """What was found in a sentence or two; if nothing was, where the mass ended."""
        if len(self):
            best = self.table()[0]
            routes = "1 route" if len(self) == 1 else f"{len(self)} routes"
            return (
                f"{routes} from {self.source!r} to {self.target!r}; the first takes {100 * best['share']:.0f} % of the "
                f"flow over {best['length_mm']:.0f} mm. {100 * self.arrivals:.2g} % of the mass arrives."
            )
        gates = self.flow.parameters.get("include", ())
        through = f" through {' and '.join(map(repr, gates))}" * bool(gates)
        return (
            f"No path joins {self.source!r} and {self.target!r}{through}. What became of the mass of {self.source!r}: "
            f"{self.flow.endings_text(1)}. Look at the map of losses; a larger angle or a lower least amplitude lets "
            "mass go on."
        )
