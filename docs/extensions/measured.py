"""Pages of what was measured: the cases of `check`, and the results of benchmarks, each with its command."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
DATED = re.compile(r"(?P<study>.+?)(?P<device>_cpu|_cuda|)_(?P<date>\d{4}-\d\d-\d\d)")
HEADING = re.compile(r"^#+ ", re.MULTILINE)
TITLES = {"validation": "Validation", "performance": "Performance"}
STARTS = {
    "validation": """What is true of the program, beside what: published and closed-form cases, checked on your machine,
then studies with a truth from outside, such as other programs, phantoms, and data of others. Each has its command.""",
    "performance": """How fast it is, and how much memory it takes, beside other programs where they run, also where
they are faster. One machine a table; the newest results of each study.""",
}


class Study(NamedTuple):
    """A row of ``benchmarks/studies.csv``: the name its results begin with, where they are shown, how they are made.

    A study without a title has that of its results.
    """

    results: str
    page: str
    part: str
    command: str
    title: str

    @property
    def in_full(self) -> str:
        """The command as it is given in the repository."""
        return self.command if self.command.startswith("napari-gpubio") else f"python benchmarks/{self.command}"


def studies() -> list[Study]:
    """Read the list of studies."""
    with (ROOT / "benchmarks" / "studies.csv").open(encoding="utf-8", newline="") as file:
        return [Study(**row) for row in csv.DictReader(file)]


def newest(study: str) -> list[Path]:
    """Return the newest results of a study for each kind of device, to read (.md)."""
    found = dict[str, Path]()
    for path in sorted(RESULTS.glob(f"{study}*.md"), key=lambda one: one.stem[-10:]):
        named = DATED.fullmatch(path.stem)
        if named is not None and named["study"] == study:
            found[named["device"]] = path
    return [found[device] for device in sorted(found)]


def pages() -> dict[str, str]:
    """Return the pages Validation and Performance, and one for each study."""
    every = studies()
    made = {f"{one.page}/{one.results}": study_page(one) for one in every}
    titles = [text.splitlines()[0] for text in made.values()]
    if len({*titles}) < len(titles):
        raise ValueError(f"studies share the titles {sorted({one for one in titles if titles.count(one) > 1})}")
    for page, text in STARTS.items():
        lines = [f"# {TITLES[page]}\n\n{text}\n"]
        if page == "validation":
            made["validation/cases"] = "\n".join(cases_page())
            lines.append("```{toctree}\n\ncases\n```\n")
        shown = sorted((one for one in every if one.page == page), key=lambda one: one.part)
        for part, its in itertools.groupby(shown, key=lambda one: one.part):
            names = "\n".join(one.results for one in its)
            lines.append(f"## {part.capitalize()}\n\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n")
        made[f"{page}/index"] = "\n".join(lines)
    return made


def study_page(study: Study) -> str:
    """Return the page of a study: its command, then its newest results on each kind of device."""
    texts = [path.read_text(encoding="utf-8") for path in newest(study.results)]
    if not texts:
        raise ValueError(f"benchmarks/studies.csv names {study.results}, of which there are no results")
    title = study.title or texts[0].splitlines()[0].removeprefix("# ")
    command = f"# {title}\n\n```console\n$ {study.in_full}\n```\n"
    return "\n".join([command, *(deeper(text) for text in texts)])


def deeper(text: str) -> str:
    """Return a text of results as a part of a page: its title becomes its date and machine."""
    title, _, rest = text.partition("\n")
    machine = next((name for name in ("H200", "EPYC", "Xeon") if name in rest[:900]), "")
    date = re.search(r"\d{4}-\d\d-\d\d", rest)
    name = ", ".join(filter(None, [date[0] if date else "", machine])) or title.removeprefix("# ")
    return f"## {name}\n" + HEADING.sub("### ", rest)


# --------------------------------------------------------------------------------------------------------------- cases


def cases_page() -> Iterator[str]:
    """Yield the lines of the page of the cases that ``napari-gpubio check`` runs."""
    yield "# Published and closed-form cases\n"
    yield "`napari-gpubio check` runs all of them on your machine, `napari-gpubio check fibers` those of a part."
    yield "An error that is a z-score is a distance in standard errors.\n"
    for path in newest_checks():
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = found["rows"]
        facts = ", ".join(f"{name} {value}" for name, value in found["machine"].items())
        passed = sum(row["passed"] for row in rows)
        yield f"## On {found['device']}\n\n{path.stem[-10:]}; {facts}. {passed} of {len(rows)} passed.\n"
        for part, its in itertools.groupby(rows, key=lambda row: row["part"]):
            device = " --device cuda:0" if "cuda" in found["device"] else ""
            yield f"### {part.capitalize()}\n\n```console\n$ napari-gpubio check {part}{device}\n```\n"
            yield "| case | source | quantity | reference | result | error | tolerance | |\n" + "|---" * 8 + "|"
            yield from map(case_line, its)
            yield ""


def newest_checks() -> list[Path]:
    """Return the newest files of what ``check`` found, one for each kind of device."""
    every = sorted(RESULTS.glob("check_*.json"), key=lambda one: one.stem[-10:])
    return [*{path.stem[:-11]: path for path in every}.values()]


def case_line(row: dict[str, Any]) -> str:
    """Return a row of a table of cases."""
    words = [str(row[name]).replace("|", "\\|") for name in ("case", "source", "quantity")]
    numbers = [f"{row[name]:.4g}" for name in ("reference", "result", "error", "tolerance")]
    return f"| {' | '.join([*words, *numbers])} | {'passed' if row['passed'] else '**failed**'} |"
