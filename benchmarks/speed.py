"""What the benchmarks of speed share: parts and their rows, tables to read, the command line."""

import argparse
import dataclasses
import gc
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from common import (
    Row,
    compact,
    ends_after,
    header,
    header_lines,
    line,
    load_average,
    result_path,
    save,
    skipped,
    table,
    written,
)

from napari_gpubio.core.device import Device, choose_device

Cells = Mapping[str, Callable[[Row], str]]  # what is in each column of a table, by its heading


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run, and where."""

    device: Device
    quick: bool = False  # fewer repeats, less work
    ends: float = float("inf")  # when to begin no further row, by `time.monotonic`

    @property
    def repeats(self) -> int:
        """How often each thing is timed."""
        return 2 if self.quick or self.device.is_gpu else 3

    @property
    def time_is_up(self) -> bool:
        """Whether to begin no further row."""
        return time.monotonic() > self.ends

    @property
    def on_one(self) -> "Plan":
        """The same on the first of several GPUs."""
        return dataclasses.replace(self, device=dataclasses.replace(self.device, indices=self.device.indices[:1]))


class Job(NamedTuple):
    """A row that is still to be measured; one that fails keeps its name."""

    name: str
    measure: Callable[[str], Row]  # by the name


class Part(NamedTuple):
    """The rows of one letter."""

    rows: Callable[[Any], Iterator[Job] | Iterator[Row]]  # by a plan
    title: str
    explained: str = ""
    gpu_only: bool = False
    on_all: bool = False  # whether it uses all GPUs; the others use the first
    columns: tuple[str, ...] = ()  # where `line_of` makes lines of its own
    line_of: Callable[[Row], str] | None = None


# ---------------------------------------------------------------------------------------------------------------- cells
def seconds_cells(unit: str = "s") -> Cells:
    """Best, median, and processor seconds."""
    factor = 1.0 if unit == "s" else 1e3

    def cell(key: str, r: Row) -> str:
        return "" if r[key] is None else f"{factor * r[key]:.4g}"

    keys = {"seconds" if unit == "s" else unit: "seconds", "median": "median_seconds", f"cpu {unit}": "cpu_seconds"}
    return {word: partial(cell, key) for word, key in keys.items()}


def rate_cell(r: Row) -> str:
    return compact(r["rate"])


def core_cell(r: Row) -> str:
    return compact(r["rate_per_core"]) if r["rate_per_core"] else ""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A script of speed.

    A row is compared with the one that it names (``compared_with``): so many times as fast, with the efficiency where
    processors are compared. A row that has a ``text`` instead of seconds is that text.
    """

    name: str  # of its result files
    title: str
    explained: str
    parts: Mapping[str, Part]  # by their letters
    cells: Cells
    notes: Callable[[Row], list[str]] = lambda _: []
    by_core: bool = False  # whether rows on a CPU are compared per core, unless processors are

    # ------------------------------------------------------------------------------------------------------------ rows
    def rows(self, letter: str, plan: Any) -> Iterator[Row]:
        """Measure a part; rows that fail, or for which no time is left, are reported as such."""
        part = self.parts[letter]
        if part.gpu_only and not plan.device.is_gpu:
            yield skipped(letter, "needs a GPU: --device cuda:0")
            return
        name = letter
        try:
            for job in part.rows(plan if part.on_all else plan.on_one):
                name = f"{letter} from here on"
                yield job if isinstance(job, dict) else self._measured(job, plan)
                if isinstance(job, dict) and plan.time_is_up:
                    yield skipped(name, "no time left")
                    return
        except Exception as error:  # noqa: BLE001 - a machine is lent for minutes, so the other parts go on
            traceback.print_exc()
            yield skipped(name, f"failed: {type(error).__name__}: {error}")

    def _measured(self, job: Job, plan: Any) -> Row:
        if plan.time_is_up:
            return skipped(job.name, "no time left")
        try:
            return job.measure(job.name)
        except Exception as error:  # noqa: BLE001 - as above: the other rows go on
            traceback.print_exc()
            return skipped(job.name, f"failed: {type(error).__name__}: {error}")

    def run(self, letters: str, plan: Any, path: Path, **facts: Any) -> None:
        """Measure parts, and write what there is after each of them; ``facts`` go into the head."""
        rows: list[Row] = []
        head: dict[str, Any] = header(plan.quick) | {"device": plan.device.describe()} | facts
        for letter in letters:
            for made in self.rows(letter, plan):
                rows.append(made)
                print(self.line(made, rows), flush=True)
                gc.collect()
            head["load_average_end"] = load_average()
            save(path, head | {"rows": rows}, self.markdown(head, rows))
        print(written(path))

    # ---------------------------------------------------------------------------------------------------------- tables
    def markdown(self, head: dict[str, Any], rows: list[Row]) -> str:
        """A table for each part that has rows, and what stands above it."""
        peers = f" Peers: {head['peers']}." if "peers" in head else ""
        ends = f"Device: {head['device']}.{peers} Load average at the end {head['load_average_end']}."
        lines = [f"# {self.title}", "", *header_lines(head), ends, "", self.explained]
        for letter, part in self.parts.items():
            if own := [r for r in rows if r["name"][0] == letter]:
                lines += ["", f"## {letter}. {part.title}", ""]
                lines += [part.explained, ""] if part.explained else []
                lines += table(part.columns or ("row", *self.cells, "notes"), [self.line(r, own) for r in own])
        return "\n".join(lines) + "\n"

    def line(self, r: Row, rows: list[Row]) -> str:
        """A row, beside others that it may be compared with."""
        part = self.parts[r["name"][0]]
        words = len(part.columns or self.cells) - (2 if part.columns else 0)
        if "skipped" in r or "text" in r:
            return line(r["name"], *[""] * words, r.get("text") or f"skipped: {r['skipped']}")
        if part.line_of is not None:
            return part.line_of(r)
        found = [*self._compared(r, rows), *self.notes(r)]
        found += [f"{'paper: ' if what == 'paper' else ''}{r[what]}" for what in ("paper", "target") if r.get(what)]
        found += [f"load {load:g}" for load in r.get("load_average", ())]
        return line(r["name"], *(cell(r) for cell in self.cells.values()), "; ".join(found))

    def _compared(self, r: Row, rows: list[Row]) -> list[str]:
        base = next((b for b in rows if b["name"] == r.get("compared_with") and "rate" in b), None)
        if base is None or base is r:
            return []
        key = "rate_per_core" if self.by_core and r["rate_per_core"] and "processors" not in r else "rate"
        efficiency = f" ({100 * r[key] / base[key] / r['processors']:.0f} %)" if "processors" in r else ""
        return [f"{r[key] / base[key]:.3g} x {base['name'].split(' ', 1)[-1]}{efficiency}"]

    # ---------------------------------------------------------------------------------------------------- command line
    def parser(
        self, description: str | None, *, quick: str = "fewer repeats", device: str = "cpu, cuda:0 or cuda:all"
    ) -> argparse.ArgumentParser:
        """The arguments of every script of speed; ``quick`` and ``device`` are the help of those two."""
        known = "".join(self.parts)
        parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--device", default="cpu", help=device)
        parser.add_argument("--quick", action="store_true", help=quick)
        parser.add_argument(
            "--rows", default=known, type=partial(_letters, known), help="letters of the rows to run, in this order: ba"
        )
        parser.add_argument("--minutes", type=float, help="begin no further row after that many minutes")
        parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
        return parser

    def path(self, options: argparse.Namespace, device: Device) -> Path:
        """Where the results go."""
        return result_path(options.json, self.name, time.strftime("%Y-%m-%d"), device)

    def main(
        self, options: argparse.Namespace, plans: Callable[..., Any] = Plan, facts: Row | None = None, **more: Any
    ) -> None:
        """Do what the command line requests; ``more`` is what a plan of the script's own takes besides."""
        plan = plans(choose_device(options.device), options.quick, ends_after(options.minutes), **more)
        self.run(options.rows, plan, self.path(options, plan.device), **facts or {})


def _letters(known: str, requested: str) -> str:
    if unknown := sorted(set(requested) - set(known)):
        raise argparse.ArgumentTypeError(f"there are no rows {', '.join(unknown)}; choose among {', '.join(known)}")
    return requested
