"""Speed and memory of the dose engine, row by row; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/dose_speed.py                     # this machine's CPU
    python benchmarks/dose_speed.py --device cuda:0     # a GPU, with the patent's argument (rows e to g)

A GPU machine needs NumPy, SciPy, Numba and CuPy only.
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common import Row, header, load_average, result_path, save
from dose.argument_rows import copy_rows, stream_rows, texture_rows
from dose.label_rows import big_rows, paint_rows
from dose.plan import Plan
from dose.report import markdown, speed_line
from dose.speed_rows import degenerate_rows, seed_rows, thread_rows
from jobs import Job, measured

from napari_gpubio.core.device import choose_device

PARTS: dict[str, Callable[[Plan], Iterator[Job]]] = {
    "a": seed_rows,
    "b": degenerate_rows,
    "c": big_rows,
    "d": paint_rows,
    "e": copy_rows,
    "f": stream_rows,
    "g": texture_rows,
    "h": thread_rows,
}


def run(letters: str, plan: Plan, path: Path) -> None:
    """Measure parts, and write what there is after each of them."""
    rows: list[Row] = []
    head: dict[str, Any] = header(plan.quick) | {"device": plan.device.describe()}
    for letter in letters:
        for job in PARTS[letter](plan.on_one):
            rows.append(measured(job, time_is_up=plan.time_is_up))
            print(speed_line(rows[-1], rows), flush=True)
            gc.collect()
        head["load_average_end"] = load_average()
        save(path, head | {"rows": rows}, markdown(head, rows))
    print(f"written: {path} and {path.with_suffix('.md').name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, and a big case of 128 x 128 x 100")
    parser.add_argument("--rows", default="".join(PARTS), help="letters of the rows to run, in this order: ace")
    parser.add_argument("--minutes", type=float, help="begin no further row after that many minutes")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    arguments = parser.parse_args()
    ends = time.monotonic() + 60 * arguments.minutes if arguments.minutes else float("inf")
    device = choose_device(arguments.device)
    path = result_path(arguments.json, "dose_speed", time.strftime("%Y-%m-%d"), device)
    run(arguments.rows, Plan(device, arguments.quick, ends=ends), path)


if __name__ == "__main__":
    main()
