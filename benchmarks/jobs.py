"""What the benchmarks of speed share: rows still to be measured, the loop over their parts, the command line."""

import argparse
import gc
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from common import Row, header, load_average, result_path, save, skipped, written

from napari_gpubio.core.device import Device

NEEDS_GPU = "needs a GPU: --device cuda:0"


class Job(NamedTuple):
    """A row that is still to be measured; one that fails keeps its name.

    Parameters
    ----------
    name
        The row's name.
    measure
        Makes the row of that name.
    """

    name: str
    measure: Callable[[str], Row]


def measured(job: Job, *, time_is_up: bool) -> Row:
    """Measure a row, unless there is no time left; if it fails it says so."""
    if time_is_up:
        return skipped(job.name, "no time left")
    try:
        return job.measure(job.name)
    except Exception as error:  # noqa: BLE001 - a machine is lent for minutes, so the other rows go on
        traceback.print_exc()
        return skipped(job.name, f"failed: {type(error).__name__}: {error}")


def rows_of_jobs(
    parts: Mapping[str, Callable[[Any], Iterator[Job]]], letter: str, plan: Any, *, on_all: str = "", gpu_only: str = ""
) -> Iterator[Row]:
    """Measure the jobs of one part.

    Parameters
    ----------
    parts
        Makes the jobs of each letter's part.
    letter
        The part.
    plan
        What to run, and where, with ``device``, ``on_one`` and ``time_is_up``.
    on_all
        Letters of the parts that use all GPUs; the others use the first.
    gpu_only
        Letters of the parts that a CPU leaves out.
    """
    if letter in gpu_only and not plan.device.is_gpu:
        yield skipped(letter, NEEDS_GPU)
        return
    for job in parts[letter](plan if letter in on_all else plan.on_one):
        yield measured(job, time_is_up=plan.time_is_up)


class Benchmark(NamedTuple):
    """A script of speed: what it measures, a letter for each part, and how that is told.

    Parameters
    ----------
    name
        Of its result files.
    rows_of
        Measures the part of a letter by a plan, row by row.
    told
        Writes one row as a line, beside the rows so far.
    markdown
        Writes the head and all rows as tables to read.
    """

    name: str
    rows_of: Callable[[str, Any], Iterator[Row]]
    told: Callable[[Row, list[Row]], str]
    markdown: Callable[[dict[str, Any], list[Row]], str]

    def path(self, asked: Path | None, device: Device) -> Path:
        """Where the results go."""
        return result_path(asked, self.name, time.strftime("%Y-%m-%d"), device)

    def run(self, letters: Iterable[str], plan: Any, path: Path, **facts: Any) -> None:
        """Measure parts, and write what there is after each of them; ``facts`` go into the head."""
        rows: list[Row] = []
        head: dict[str, Any] = header(plan.quick) | {"device": plan.device.describe()} | facts
        for letter in letters:
            for made in self.rows_of(letter, plan):
                rows.append(made)
                print(self.told(made, rows), flush=True)
                gc.collect()
            head["load_average_end"] = load_average()
            save(path, head | {"rows": rows}, self.markdown(head, rows))
        print(written(path))


def speed_parser(
    description: str | None, letters: Iterable[str], *, quick: str, device: str = "cpu, cuda:0 or cuda:all"
) -> argparse.ArgumentParser:
    """The arguments of every script of speed; ``quick`` and ``device`` are the help of those two."""
    known = "".join(letters)
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help=device)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument(
        "--rows", default=known, type=partial(_letters, known), help="letters of the rows to run, in this order: ba"
    )
    parser.add_argument("--minutes", type=float, help="begin no further row after that many minutes")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    return parser


def _letters(known: str, asked: str) -> str:
    if unknown := sorted(set(asked) - set(known)):
        raise argparse.ArgumentTypeError(f"there are no rows {', '.join(unknown)}; choose among {', '.join(known)}")
    return asked
