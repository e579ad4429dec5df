"""What the reports of speed share: a table for each part, lines without figures, and how rows compare."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from common import Row, header_lines, line, table


class SpeedReport(NamedTuple):
    """A table for each part, and what stands above it.

    Parameters
    ----------
    title, explained
        Of the whole, and what the columns mean.
    sections
        For the letter of each part: title, and what a reader must know. A part without rows is left out.
    told
        Writes a row as a line, beside the rows of its part.
    columns, other_columns
        Of the tables, and of the parts that have others.
    names_peers
        Whether versions of what else was measured are told.
    """

    title: str
    explained: str
    sections: Mapping[str, tuple[str, str]]
    told: Callable[[Row, list[Row]], str]
    columns: Sequence[str]
    other_columns: Mapping[str, Sequence[str]] = MappingProxyType({})
    names_peers: bool = False

    def markdown(self, head: dict[str, Any], rows: list[Row]) -> str:
        """Everything as Markdown."""
        peers = f" Peers: {head['peers']}." if self.names_peers else ""
        lines = [
            f"# {self.title}",
            "",
            *header_lines(head),
            f"Device: {head['device']}.{peers} Load average at the end {head['load_average_end']}.",
            "",
            self.explained,
        ]
        for letter, (heading, sentence) in self.sections.items():
            if own := [r for r in rows if r["name"][0] == letter]:
                lines += ["", f"## {letter}. {heading}", "", sentence, "", *self._table(letter, own)]
        return "\n".join(lines) + "\n"

    def _table(self, letter: str, own: list[Row]) -> list[str]:
        return table(self.other_columns.get(letter, self.columns), [self.told(r, own) for r in own])


def remark(name: str, columns: Sequence[str], told: str) -> str:
    """A line without figures: the row's name, and a remark in the last column."""
    return line(name, *[""] * (len(columns) - 2), told)


def skipped_line(r: Row, columns: Sequence[str]) -> str:
    """The line of a row that was not measured: why not."""
    return remark(r["name"], columns, f"skipped: {r['skipped']}")


def compared_with(r: Row, rows: list[Row]) -> Row | None:
    """The row that a row is compared with; None where it is absent, has no rate, or is the row itself."""
    base = next((b for b in rows if b["name"] == r.get("compared_with") and "rate" in b), None)
    return None if base is r else base


def times_told(
    r: Row, rows: list[Row], short: Callable[[str], str], *, key: str = "rate", digits: str = ".3g"
) -> list[str]:
    """``["1.9 x 1 thread (95 %)"]``: how many times as fast, with the efficiency where processors are compared.

    Empty where there is nothing to compare with; ``short`` shortens the other row's name.
    """
    if (base := compared_with(r, rows)) is None:
        return []
    times = r[key] / base[key]
    efficiency = f" ({100 * times / r['processors']:.0f} %)" if "processors" in r else ""
    return [f"{times:{digits}} x {short(base['name'])}{efficiency}"]


def load_told(r: Row) -> list[str]:
    """``["load 1.2"]``, where the load was noted."""
    return [f"load {load:g}" for load in r.get("load_average", ())]
