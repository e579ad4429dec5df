"""What readers do with files that are odd in one way: rows that are run as tests and make up a table of the docs.

A row makes such a file in an empty folder, reads it, checks the numbers that come out, and returns them. What the
reader did is reported by notes and refusals, not by the row: a row that claims another behavior fails.

``python -m tests.conformance`` writes the table, ``docs/reference/formats.md``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import NOTES, noted
from tests.sentences import says


class Did(StrEnum):
    """What a reader did with a trait of a file."""

    READ = "read"
    ASSUMED = "assumed, with a note"
    LEFT_OUT = "left out and counted"
    REFUSED = "refused"


@dataclass(frozen=True)
class Row:
    """One trait of files, and what is done with it.

    Parameters
    ----------
    reader
        As a user calls it: ``read_dwi``, ``File > Open``.
    trait
        What is odd about the file, in a few words.
    did
        The behavior.
    facts
        Words and numbers that the note or the refusal must tell.
    run
        Makes the file in a folder, reads it, asserts what must be true of the result, and returns the result.
    """

    reader: str
    trait: str
    did: Did
    facts: tuple[str, ...]
    run: Callable[[Path], Any]

    @property
    def name(self) -> str:
        """For pytest."""
        return f"{self.reader}: {self.trait}"

    def tells(self, text: str) -> bool:
        """Whether a text tells all facts."""
        return all(says(text, fact) for fact in self.facts)

    def check(self, folder: Path) -> None:
        """Run the row and fail if something else is done, or a note or refusal does not tell the facts."""
        result, refusal = None, ""
        with noted() as notes:
            try:
                result = self.run(folder)
            except InvalidInput as error:
                refusal = str(error)
        if self.did is Did.REFUSED:
            assert refusal, f"it was not refused; notes: {notes}"
            assert self.tells(refusal), f"the refusal does not tell {self.facts}: {refusal}"
            return
        assert not refusal, f"it was refused: {refusal}"
        reported = [*notes, *getattr(result, NOTES, ())]
        if self.did is Did.READ and not self.facts:
            assert not reported, f"it was read with notes: {reported}"
            return
        assert reported, "nothing was said"
        assert self.tells("\n".join(reported)), f"no note tells {self.facts}: {reported}"
        assert self.did is not Did.LEFT_OUT or any(map(str.isdigit, "".join(reported))), f"no number: {reported}"


class Rows(list[Row]):
    """Rows of one kind of files, in the order of the table."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title

    def row(
        self, reader: str, trait: str, did: Did, *facts: str
    ) -> Callable[[Callable[[Path], Any]], Callable[[Path], Any]]:
        """Add a function as a row."""

        def add(run: Callable[[Path], Any]) -> Callable[[Path], Any]:
            self.append(Row(reader, trait, did, facts, run))
            return run

        return add


def table(kinds: Iterable[Rows], dangerous: Mapping[str, Sequence[str]]) -> str:
    """The page of the docs; ``dangerous``: traits of rows, by their readers, that are listed first, too."""
    kinds = list(kinds)
    found = {(row.reader, row.trait): row for rows in kinds for row in rows}
    first = Rows("Inputs whose numbers look right and are not")
    first += [found[reader, trait] for reader, traits in dangerous.items() for trait in traits]
    lines = [
        "# What readers do with odd files",
        "",
        "A reader separates what is needed to look at the data from what an engine needs of them. Files are refused",
        "only where there are no numbers to show. Anything else is read, assumed (a note says what, and goes with the",
        "layer and with the result), or left out and counted; an engine that needs what is missing says so. Each row",
        f"is a test ({sum(map(len, kinds))} rows); `python -m tests.conformance` writes this page from them.",
    ]
    for rows in (first, *kinds):
        lines += ["", f"## {rows.title}", "", "| Reader | Trait of the file | What is done |", "|---|---|---|"]
        lines += [f"| `{row.reader}` | {row.trait} | {row.did} |".replace("<", "&lt;") for row in rows]
    return "\n".join(lines) + "\n"
