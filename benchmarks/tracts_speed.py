"""Speed of the tracts engine, row by row; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/tracts_speed.py                                  # this machine's CPU, a few minutes
    python benchmarks/tracts_speed.py --device cuda:0 --brain b.npz    # a GPU, the CPU beside it where that is asked
    python benchmarks/tracts_speed.py --export-brain b.npz             # make that file where the data and nibabel are

A GPU machine needs NumPy, SciPy, Numba and CuPy only: without nibabel, or from a tree that is not installed, the
numerics are imported past the readers.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common import Row, compact, header_lines, line, table
from jobs import Benchmark
from speed_report import skipped_line
from tracts.brain import export_brain, load_brain
from tracts.call_rows import gpu_memory, interaction, preparation, tensor_fit
from tracts.peer_rows import peers
from tracts.plan import Plan
from tracts.tracing_rows import corpus_callosum, one_core, seed_benchmark

from napari_gpubio.core.device import choose_device

PARTS: dict[str, Callable[[Plan], Iterator[Row]]] = {
    "a": seed_benchmark,
    "b": corpus_callosum,
    "c": preparation,
    "d": tensor_fit,
    "e": interaction,
    "f": one_core,
    "g": gpu_memory,
    "h": peers,
}
COLUMNS = (
    "row", "device", "threads", "fibers", "mean steps", "seconds", "median", "cpu s", "rate", "per core",
    "target, paper",
)  # fmt: skip


def markdown(head: dict[str, Any], rows: list[Row]) -> str:
    """The results as a table to read."""
    lines = [
        "# Speed of the tracts engine",
        "",
        *header_lines(head),
        "",
        (
            "Best of several runs. *cpu s*: processor time summed over threads; *per core*: the work per such second, "
            "which other people's load spoils least."
        ),
        "",
        *table(COLUMNS, [_line(r) for r in rows]),
    ]
    return "\n".join(lines) + "\n"


def _line(r: Row) -> str:
    if "skipped" in r:
        return skipped_line(r, COLUMNS)
    early = f" ({r['ended_early']} ended early)" if r.get("ended_early") and r["name"].startswith("a") else ""
    notes = [r.get("target") and f"target {r['target']}", r.get("paper")]
    if "bytes_used" in r:
        notes.append(f"{r['bytes_used'] / 1e6:.0f} MB used, {r['bytes_taken_while_preparing'] / 1e6:.0f} MB at most")
    rate = "" if "bytes_used" in r else f"{compact(r['rate'])}{r['unit']}"
    if "fibers_per_second" in r:
        rate += f", {compact(r['fibers_per_second'])}fibers/s"
    per_core = f"{compact(r['rate_per_core'])}{r['unit']}" if r["rate_per_core"] else ""
    busy = "" if r["cpu_seconds"] is None else f"{r['cpu_seconds']:.4g}"
    return line(
        r["name"], r["device"], r.get("threads") or "", r.get("fibers", ""),
        f"{r['mean_steps']:.0f}{early}" if "mean_steps" in r else "", f"{r['seconds']:.4g}",
        f"{r['median_seconds']:.4g}", busy, rate, per_core, "; ".join(n for n in notes if n),
    )  # fmt: skip


BENCHMARK = Benchmark("tracts_speed", lambda letter, plan: PARTS[letter](plan), lambda r, _: _line(r), markdown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--quick", action="store_true", help="less work on the CPU, fewer repeats")
    parser.add_argument("--rows", default="".join(PARTS), help="letters of the rows to run, for instance abf")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    parser.add_argument("--brain", type=Path, metavar="NPZ", help="the real brain, as --export-brain writes it")
    parser.add_argument("--export-brain", type=Path, metavar="NPZ", help="write the real brain and do nothing else")
    arguments = parser.parse_args()
    brain = load_brain(arguments.brain)
    if arguments.export_brain is not None:
        if isinstance(brain, str):
            raise SystemExit(brain)
        export_brain(brain, arguments.export_brain)
        return
    plan = Plan(choose_device(arguments.device), arguments.quick, brain)
    BENCHMARK.run(arguments.rows, plan, BENCHMARK.path(arguments.json, plan.device))


if __name__ == "__main__":
    main()
