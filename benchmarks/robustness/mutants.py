"""Damaged files for every reader of the package: each is read, or refused in a sentence that names the file.

A mutant is a small valid file with bytes, numbers, words, keys, tags or members changed; the same one for the same
number. What counts is an exception other than InvalidInput, a refusal that does not name the file, more than 5 s or
1 GB, the end of the process, and anything written to the terminal.
"""

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import RESULTS, header, header_lines, line, save, table, written

from robustness.mutants_readers import READERS
from robustness.mutants_worker import MEGABYTES, SECONDS, Campaign, Samples, read

COLUMNS = ("reader", "mutants", "read", "InvalidInput", "others", "slowest [s]", "most memory [MB]", "mutants/s")
HOW_TO_READ = (
    f"*Others*: another exception, a refusal that does not name the file (where a file is given), more than "
    f"{SECONDS:g} s or {MEGABYTES:g} MB, the end of the process, or anything written to the terminal. *Most memory*: "
    "growth of the process over what it had when it had read the valid file. Again, one by one: "
    '`python benchmarks/robustness.py mutants --replay "READER:NUMBER"`.'
)
_POLL_SECONDS = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    parser.add_argument("--count", type=int, default=10_000, help="mutants of each reader")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--workers", type=int, default=2, help="readers at a time")
    parser.add_argument("--readers", nargs="+", choices=READERS, default=list(READERS), metavar="READER")
    parser.add_argument("--again", action="store_true", help="keep what the results have of other readers")
    parser.add_argument("--list", action="store_true", help="print the names of the readers")
    parser.add_argument("--replay", metavar="READER:NUMBER", help="read one mutant, with a traceback")


def run(arguments: argparse.Namespace) -> None:
    if arguments.list:
        print(*READERS, sep="\n")
    elif arguments.replay:
        replay(*arguments.replay.rsplit(":", 1))
    else:
        facts = header(quick=arguments.count < 10_000)
        path = arguments.json or RESULTS / f"robustness_mutants_{facts['date']}.json"
        before = {row["name"]: row for row in json.loads(path.read_text())["rows"]} if arguments.again else {}
        for found in campaign(arguments):
            named = {**before, **{row["name"]: {**row, "commit": facts["commit"]} for row in found}}
            rows = [named[name] for name in READERS if name in named]
            save(path, {**facts, "rows": rows}, report_text(facts, rows))
        print(written(path))


def replay(name: str, number: str) -> None:
    """Read one mutant in this process and say what comes of it."""
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    samples = Samples(name, folder)
    samples.path.write_bytes(samples.mutant(int(number)))
    print(f"the mutant is {samples.path}")
    begun = time.perf_counter()
    refusal, what, example = read(samples.reader, samples.path)
    print(
        what or "as it should be:",
        example or refusal or "it was read",
        f"{time.perf_counter() - begun:.3g} s",
        sep="\n",
    )


def campaign(arguments: argparse.Namespace) -> Iterator[list[dict[str, Any]]]:
    """Rows of the table in the order of the readers, again whenever one is done."""
    waiting, running, rows = list(arguments.readers), [], {}
    while waiting or running:
        while waiting and len(running) < arguments.workers:
            running.append(Campaign(waiting.pop(0), arguments.count, arguments.first))
        for one in [one for one in running if one.poll()]:
            running.remove(one)
            rows[one.name] = one.row()
            print(cells(rows[one.name]), *findings(rows[one.name]), sep="\n", flush=True)
            yield [rows[name] for name in arguments.readers if name in rows]
        time.sleep(_POLL_SECONDS)


def cells(row: dict[str, Any]) -> str:
    return line(
        row["name"], f"{row['mutants']:,}", f"{row['read']:,}", f"{row['refused']:,}", row["others"],
        f"{row['slowest_s']:.2f}", f"{row['most_mb']:.0f}", f"{row['mutants'] / row['seconds']:.0f}",
    )  # fmt: skip


def findings(row: dict[str, Any]) -> list[str]:
    return [f"* {row['name']}:{found['number']} {found['what']} ({found['count']} times)" for found in row["findings"]]


def report_text(facts: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    sums = {key: sum(row[key] for row in rows) for key in ("mutants", "read", "refused", "others", "seconds")}
    worst = {key: max(row[key] for row in rows) for key in ("slowest_s", "most_mb")}
    lines = [*map(cells, rows), cells({"name": f"all {len(rows)}", **sums, **worst})]
    what = [text for row in rows for text in findings(row)]
    commits = Counter(row["commit"] for row in rows)
    run_at = ", ".join(f"{count} readers at commit {name}" for name, count in commits.items())
    title = ["# Mutants of files", "", *header_lines(facts), f"{run_at}.", HOW_TO_READ, ""]
    return "\n".join([*title, *table(COLUMNS, lines), *(["", "Others:", "", *what] if what else [])]) + "\n"
