"""Three walks of a new user, from the README to a main result: what is read, clicked, and waited for.

Reading is all of the README and of the start page of the site, what the page of the data says of the window, and the
panel's help; a person is taken to read 200 words a minute, and to need 3 s for a click or a name that is typed.
"""

import json
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import data
import scenes
from common import ROOT, header, header_lines, line, table
from person import Person

WORDS_A_MINUTE, SECONDS_A_CLICK, MOST_MINUTES = 200, 3.0, 10.0
HELP = "napari_gpubio/gui/help"
_FIRST = (("README.md", ""), ("docs/index.md", ""))
_UNSEEN = re.compile(r"^---\n.*?\n---\n|^```\{code-cell\}.*?\n:tags: \[remove-(?:input|cell)\].*?^```$", re.M | re.S)
_MARKUP = re.compile(r"<?https?://\S+|^:::.*$|^:\w[\w-]*:.*$|^`{3,}.*$|[|#*`>\[\](){}-]+", re.M)


@dataclass
class Walk:
    """What a walk took so far; ``pages`` are files, each with the heading before which reading ends, or nothing."""

    person: Person
    pages: tuple[tuple[str, str], ...]
    begun: float = field(default_factory=time.perf_counter)
    steps: list[dict[str, Any]] = field(default_factory=list)

    def step(self, name: str, settle_s: float = 0.7) -> None:
        """Note what a step took, and take a picture."""
        person = self.person
        self.steps.append({"step": name, "clicks": person.clicks, "typed": person.typed, "waited_s": person.waited_s})
        person.picture(name, settle_s)

    def end(self) -> None:
        """Write the numbers beside the pictures, and say whether the walk was short enough."""
        person, words = self.person, {page: words_of(page, end) for page, end in (*_FIRST, *self.pages)}
        hands = SECONDS_A_CLICK * (person.clicks + person.typed)
        minutes = sum(words.values()) / WORDS_A_MINUTE + (hands + person.waited_s) / 60
        found = {"walk": person.title, "words": words, "steps": self.steps, "minutes": round(minutes, 1)}
        found |= {"wall_s": round(time.perf_counter() - self.begun), "cores": os.cpu_count(), **header(quick=False)}
        (person.folder / f"{person.title}.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
        text = "\n".join((*header_lines(found), "", *table(COLUMNS, [row_of(found)]), ""))
        (person.folder / f"{person.title}.md").write_text(text, encoding="utf-8")
        print(text)
        if minutes > MOST_MINUTES:
            raise AssertionError(f"{person.title} takes {minutes:.1f} minutes, more than {MOST_MINUTES:g}")


COLUMNS = ("walk", "words", "reading, min", "clicks", "typed", "waited, s", "all, min")


def row_of(found: dict[str, Any]) -> str:
    """A walk as a line of the table."""
    last, words = found["steps"][-1], sum(found["words"].values())
    read, waited = f"{words / WORDS_A_MINUTE:.1f}", f"{last['waited_s']:.0f}"
    return line(found["walk"], words, read, last["clicks"], last["typed"], waited, found["minutes"])


def words_of(page: str, end: str) -> int:
    """Number of words that a reader of a page sees, up to a heading."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if end and f"\n## {end}\n" not in text:
        raise ValueError(f"{page} has no heading {end!r}")
    seen = _UNSEEN.sub("", text.split(f"\n## {end}\n")[0] if end else text)
    return len(_MARKUP.sub(" ", seen).split())


def bids_walk(person: Person, folder: Path, source: Path | None) -> None:
    """A dataset of two subjects: its folder is opened, the second one chosen, and a click shows fibers of it."""
    study, place = data.bids_study(folder, source)
    walk = Walk(person, (("docs/how_to/program/bids.md", "In Python"), (f"{HELP}/fiber_tracking.md", "")))
    person.open(study)
    walk.step("the first subject opens, and a note names the panel for others")
    subjects = scenes._panel(person, "BIDS dataset")
    person.wait(lambda: len(subjects.table.rows) == 2, "both subjects")
    person.click(subjects.search_line, "the line to find a subject")
    person.type("02")
    person.key("Return")
    person.wait(lambda: not subjects.is_busy and "sub-02" in subjects.status, "the second subject", 120)
    walk.step("the second subject in its place")
    panel = scenes._panel(person, "Fiber tracking")
    walk.step("the panel has chosen the scan")
    person.go_to_slice(place)
    person.click_at(person.on_canvas(place))
    person.wait(lambda: not panel.is_busy and scenes._fibers(person), "fibers", 600)
    walk.step("fibers of a click", settle_s=2.0)
    person.click(lambda: panel.help_button if panel.help_button.isVisible() else None, "the help of the panel")
    walk.step("the help of the panel", settle_s=2.0)
    walk.end()


def mcx_walk(person: Person, folder: Path, _source: Path | None) -> None:
    """An input file of MCX: opened, run, and its absorbed share beside that of MCX."""
    case = data.mcx_case(folder)
    walk = Walk(person, (("docs/how_to/light/mcx_inputs.md", "In Python"), (f"{HELP}/light_transport.md", "")))
    person.open(case)
    walk.step("the file opens as labels")
    panel = scenes._panel(person, "Light transport")
    person.wait(lambda: not panel.is_busy and panel.voxels.results.result, "the quick run", 300)
    walk.step("source, detectors and media of the file, and a quick run")
    person.click(panel.run_button, "Run")
    person.wait(lambda: panel.voxels.results.result.launched == data.MCX_PHOTONS and not panel.is_busy, "photons", 600)
    absorbed = person.ask(lambda: panel.voxels.results.result.energy.absorbed.value)
    walk.step(f"fluence of all photons, {absorbed:.4f} absorbed", settle_s=2.0)
    if abs(absorbed - data.MCX_ABSORBED) > data.MCX_TOLERANCE:
        raise AssertionError(f"{absorbed:.4f} of the light is absorbed, in MCX {data.MCX_ABSORBED}")
    walk.end()


def plan_walk(person: Person, folder: Path, source: Path | None) -> None:
    """A folder of DICOM: opened, curves, and constraints with pass and fail."""
    plan = data.dicom_plan(folder, source)
    walk = Walk(person, (("docs/tutorials/plan_to_curves.md", "In a script"), (f"{HELP}/dose_volume_histogram.md", "")))
    person.open(plan)
    walk.step("dose, structures and contours of the folder")
    panel = scenes._panel(person, "Dose-volume histogram")
    walk.step("the panel has chosen a dose, its unit and the contours")
    person.click(panel.run_button, "Run")
    person.wait(lambda: not panel.is_busy and panel.controller.curves, "the curves", 300)
    walk.step("curves")
    names = person.ask(lambda: [one.dvh.name for one in panel.controller.curves])
    person.tab(panel.tabs, 0)
    walk.step("metrics of every structure")
    person.tab(panel.tabs, 1)
    person.click(panel.constraints.text, "the constraints")
    for constraint in (f"{names[0]}: Mean[Gy] < 1000", f"{names[-1]}: Max[Gy] < 0.001"):
        person.type(constraint)
        person.key("Return")
    person.wait(lambda: panel.constraints.table.rowCount() == 2, "the results of the constraints")
    walk.step("constraints that pass and fail", settle_s=1.5)
    results = person.ask(lambda: [panel.constraints.table.item(row, 2).text() for row in range(2)])
    if [text.split()[-1] for text in results] != ["pass", "fail"] or not person.ask(panel.stale_line.isHidden):
        raise AssertionError(f"constraints that pass and fail are said to {results}")
    walk.end()


WALKS = {"bids": bids_walk, "mcx": mcx_walk, "plan": plan_walk}
