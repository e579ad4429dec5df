"""Speed of the speckle engine, row by row; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/speckle_speed.py                     # this machine's CPU, beside SciPy and OpenCV
    python benchmarks/speckle_speed.py --device cuda:0     # a GPU, against its memory's bandwidth too (rows e)
    python benchmarks/speckle_speed.py --device cuda:all   # the same, and several GPUs against one (rows d)

A GPU machine needs NumPy, SciPy, Numba and CuPy only; OpenCV takes part where it can be imported (rows a).
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common import Row, header, load_average, result_path, save
from jobs import Job, measured
from speckle import peers
from speckle.bandwidth_rows import bandwidth
from speckle.camera_rows import camera, needs_gpu, stacks
from speckle.cpu_rows import beside, windows
from speckle.plan import Plan
from speckle.report import markdown, told

from napari_gpubio.core.device import choose_device

PARTS: dict[str, Callable[[Plan], Iterator[Job]]] = {
    "a": beside,
    "b": windows,
    "c": camera,
    "d": stacks,
    "e": bandwidth,
}
GPU_ONLY = "e"


def jobs_of(letter: str, plan: Plan) -> Iterator[Job]:
    """Rows of a part, still to be measured."""
    if letter in GPU_ONLY and not plan.device.is_gpu:
        yield from needs_gpu(letter)
    else:
        yield from PARTS[letter](plan if letter == "d" else plan.on_one)


def run(letters: str, plan: Plan, path: Path) -> None:
    """Measure parts, and write what there is after each of them."""
    rows: list[Row] = []
    head: dict[str, Any] = header(plan.quick) | {"device": plan.device.describe(), "peers": peers.versions()}
    for letter in letters:
        for job in jobs_of(letter, plan):
            rows.append(measured(job, time_is_up=plan.time_is_up))
            print(told(rows[-1], rows), flush=True)
            gc.collect()
        head["load_average_end"] = load_average()
        save(path, head | {"rows": rows}, markdown(head, rows))
    print(f"written: {path} and {path.with_suffix('.md').name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu, cuda:0 or cuda:all")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--rows", default="".join(PARTS), help="letters of the rows to run, in this order: ab")
    parser.add_argument("--minutes", type=float, help="begin no further row after that many minutes")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    arguments = parser.parse_args()
    ends = time.monotonic() + 60 * arguments.minutes if arguments.minutes else float("inf")
    device = choose_device(arguments.device)
    path = result_path(arguments.json, "speckle_speed", time.strftime("%Y-%m-%d"), device)
    run(arguments.rows, Plan(device, arguments.quick, ends=ends), path)


if __name__ == "__main__":
    main()
