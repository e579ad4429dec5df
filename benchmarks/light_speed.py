"""Speed and memory of the voxel light engine, row by row; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/light_speed.py                     # this machine's CPU
    python benchmarks/light_speed.py --device cuda:0     # a GPU; beside pmcx and pmcxcl where they are importable
    python benchmarks/light_speed.py --device cuda:all   # the same, and several GPUs against one (rows b)

A GPU machine needs NumPy, SciPy, Numba and CuPy only.
"""

import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from common import Row, compact, ends_after, header_lines, line, skipped, table
from jobs import Benchmark, speed_parser
from light.cost_rows import extras, memory
from light.peer_rows import COLUMNS as PEER_COLUMNS
from light.peer_rows import beside, peer_line
from light.plan import Plan
from light.speed_rows import by_photons, by_processors, every_case
from speed_report import load_told, remark, skipped_line

from napari_gpubio.core.device import choose_device

PARTS: dict[str, Callable[[Plan], Iterator[Row]]] = {
    "a": every_case,
    "b": by_processors,
    "c": by_photons,
    "d": extras,
    "e": memory,
    "f": partial(beside, "pmcx"),
    "g": partial(beside, "pmcxcl"),
}
COLUMNS = ("row", "threads", "photons", "seconds", "median", "cpu s", "photons/s", "per core", "notes")


def is_comparison(r: Row) -> bool:
    """Whether a row belongs to the table of comparisons with MCX."""
    return r["name"][0] in "fg"


def speed_line(r: Row) -> str:
    """One line of the main table."""
    if "skipped" in r:
        return skipped_line(r, COLUMNS)
    if "bytes_declared" in r:
        return remark(r["name"], COLUMNS, memory_told(r))
    busy = "" if r["cpu_seconds"] is None else f"{r['cpu_seconds']:.4g}"
    return line(
        r["name"], r.get("threads", ""), f"{r['amount']:,}", f"{r['seconds']:.4g}", f"{r['median_seconds']:.4g}", busy,
        compact(r["rate"]), compact(r["rate_per_core"]) if r["rate_per_core"] else "", notes_told(r),
    )  # fmt: skip


def told(r: Row, _: list[Row]) -> str:
    """One line of either table."""
    return peer_line(r) if is_comparison(r) else speed_line(r)


def notes_told(r: Row) -> str:
    """Target, speed-up, cost and truncated share of a row, where it has them."""
    notes = [
        r.get("target") and f"target {r['target']}",
        "speed_up" in r and f"{r['speed_up']:.2f} x one",
        "relative_to_plain" in r and f"{r['relative_to_plain']:.2f} x plain",
        *load_told(r),
        "absorbed" in r and f"absorbed {r['absorbed']:.4f} ± {r['absorbed_error']:.4f}",
    ]
    return "; ".join(note for note in notes if note)


def memory_told(r: Row) -> str:
    """Bytes of a row, in MB."""
    told = [
        f"{r[key] / 1e6:.0f} MB {what}"
        for key, what in (("bytes_declared", "declared"), ("bytes_used", "resident"), ("bytes_at_most", "at most"))
        if key in r
    ]
    return "; ".join([*told, *([f"target {r['target']}"] if r["target"] else [])])


def markdown(head: dict[str, Any], rows: list[Row]) -> str:
    """The results as tables to read."""
    ordered = sorted(rows, key=lambda r: r["name"][0])  # whatever the order in which they were run
    own, compared = [r for r in ordered if not is_comparison(r)], [r for r in ordered if is_comparison(r)]
    lines = [
        "# Speed of the light engine",
        "",
        *header_lines(head),
        f"Device: {head['device']}. Load average at the end {head['load_average_end']}.",
        "",
        (
            "Best of several runs. *cpu s*: processor time summed over threads; *per core*: photons per such second, "
            "which other people's load spoils least. *Load*: processes that wanted a core in the minute before, this "
            "one included. *Tracing*: on buffers made beforehand, in chunks as in a real run, with the folding of "
            "batches; *whole call*: from arguments to result on the host."
        ),
        "",
        *table(COLUMNS, [speed_line(r) for r in own]),
    ]
    if compared:
        lines += [
            "",
            "## Beside MCX",
            "",
            (
                "In one process, in turn; photons per second, MCX's by the kernel time that it prints, ours by the "
                "tracing. MCX has no roulette unless told. Ratios: how many times faster ours is; *ours / MCX* is each "
                "as it is by default."
            ),
            "",
            *table(PEER_COLUMNS, [peer_line(r) for r in compared]),
        ]
    return "\n".join(lines) + "\n"


def rows_of(letter: str, plan: Plan) -> Iterator[Row]:
    """Rows of one part, as far as the time allows; a part that fails says so, and the next one goes on."""
    if plan.time_is_up:
        yield skipped(letter, "no time left")
        return
    try:
        for made in PARTS[letter](plan if letter == "b" else plan.on_one):
            yield made
            if plan.time_is_up:
                yield skipped(f"{letter} from here on", "no time left")
                return
    except Exception as error:  # noqa: BLE001 - a machine is lent for minutes, so the other parts go on
        traceback.print_exc()
        yield skipped(f"{letter} from here on", f"failed: {type(error).__name__}: {error}")


BENCHMARK = Benchmark("light_speed", rows_of, told, markdown)


def main() -> None:
    parser = speed_parser(__doc__, PARTS, quick="a tenth of the photons, fewer repeats")
    parser.add_argument("--photons", type=int, help="for every case; default: 1e8 on a GPU, about a second's on a CPU")
    arguments = parser.parse_args()
    device, ends = choose_device(arguments.device), ends_after(arguments.minutes)
    plan = Plan(device, arguments.quick, arguments.photons, ends)
    BENCHMARK.run(arguments.rows, plan, BENCHMARK.path(arguments.json, device))


if __name__ == "__main__":
    main()
