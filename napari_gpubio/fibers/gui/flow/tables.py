"""Tables of the flow: regions that a source reaches, and routes to one of them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from napari_gpubio.fibers.flow.repeats_model import RankedTarget
from napari_gpubio.fibers.flow.source import Reached, SourceFlow
from napari_gpubio.gui.ranked_table import RankedTable
from napari_gpubio.gui.typed_rows import Column

MAX_ROWS = 50  # of regions: more would hold a drag up
_COMPARED, _SURE = ("other_rank", "other_overlap"), ("ranks", "among_first")


class ReachedTable(RankedTable):
    """Lists the regions that a source reaches, and what another one has to do with them."""

    unscrolled = 8
    columns = (
        Column("rank", "Rank", "1: the region that has most to do with the source"),
        Column("region", "Region", "Click to see the routes to it"),
        Column("overlap", "Overlap", "Of the flows of the source and of the region, over the totals of both"),
        Column("arrivals", "Arrivals (%)", "Share of the mass of the source that enters the region"),
        Column("ranks", "Rank, 95 %", "Interval of the rank over repeats of the residual bootstrap"),
        Column("among_first", "In first 3 (%)", "Share of the repeats in which the region is among the first three"),
        Column("other_rank", "Rank 2", "Rank of the region for the compared source"),
        Column("other_overlap", "Overlap 2", "Overlap with the compared source"),
    )

    def show_flow(
        self, flow: SourceFlow, other: SourceFlow | None, sure: Sequence[RankedTarget], colors: Callable[[int], Any]
    ) -> list[Reached]:
        """Show the regions of a source; returns those that are listed.

        Parameters
        ----------
        flow
            Of the source.
        other
            Of a source to compare with, or None.
        sure
            How sure the ranks are, if that is known.
        colors
            Returns the color of a label.
        """
        listed = [one for one in flow.ranked() if one.rank][:MAX_ROWS]
        others = {} if other is None else {one.label: one for one in other.ranked()}
        surely = {one.label: one for one in sure}
        rows = (_row(one, others.get(one.label), surely.get(one.label)) for one in listed)
        self.show_rows(rows, [colors(one.label) for one in listed])
        beside = other is not None or bool(sure)  # and what counts less would be in the way
        hidden = {"overlap": flow.overlaps is None, "arrivals": beside}
        hidden |= dict.fromkeys(_COMPARED, other is None) | dict.fromkeys(_SURE, not sure)
        for place, column in enumerate(self.columns):
            self.setColumnHidden(place, hidden.get(column.field, False))
        return listed


def _row(one: Reached, other: Reached | None, sure: RankedTarget | None) -> dict[str, Any]:
    row: dict[str, Any] = {**one._asdict(), "arrivals": 100 * one.arrivals}
    row |= {"ranks": "", **dict.fromkeys(("among_first", *_COMPARED), float("nan"))}
    if other is not None:
        row |= {"other_rank": other.rank or float("nan"), "other_overlap": other.overlap}
    if sure is not None:
        row |= {"ranks": f"{sure.rank_low} to {sure.rank_high}", "among_first": 100 * sure.among_first}
    return row


class FlowRouteTable(RankedTable):
    """Lists the routes between a source and a region."""

    unscrolled, is_as_high_as_rows = 4, True
    columns = (
        Column("route", "Route", "Number of the route; click to see it alone"),
        Column("share", "Share, %", "Of the flow between both"),
        Column("weakest_link", "Weakest link", "Largest mean cost per mm of 8 mm; 1: straight along strong fixels"),
        Column("length_mm", "mm", "Length of the line in the middle of the flow"),
        Column("cost_per_mm", "Cost per mm", "Mean; 1: straight along strong fixels"),
        Column("sharpest_turn_deg_per_mm", "Turn (°/mm)", "Sharpest turn over 8 mm"),
        Column("least_strength", "Least fixel", "Strength of the weakest fixel on the way, over the reference"),
    )

    def show_routes(self, rows: Iterable[dict[str, Any]]) -> None:
        """Show routes, as `FlowRoutes.table` gives them."""
        self.show_rows({**row, "share": 100 * row["share"]} for row in rows)
