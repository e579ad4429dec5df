"""Speed and memory of the denoise engine, row by row; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/denoise_speed.py                     # this machine's CPU
    python benchmarks/denoise_speed.py --device cuda:0     # a GPU, with the paper's steps of optimisation (rows f)
    python benchmarks/denoise_speed.py --device cuda:all   # the same, and several GPUs against one (rows d)

A GPU machine needs NumPy, SciPy, Numba and CuPy only; DIPY and ANTs take part where they can be imported (rows g).
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common import Row, header, load_average, result_path, save
from denoise import peers
from denoise.beside_rows import beside, end_to_end, optimisation
from denoise.fluence_speed import fluence
from denoise.plan import Plan
from denoise.report import markdown, speed_line
from denoise.speed_rows import memory, processors, radii, settings, sizes
from jobs import Job, measured

from napari_gpubio.core.device import choose_device

PARTS: dict[str, Callable[[Plan], Iterator[Job]]] = {
    "a": sizes,
    "b": radii,
    "c": settings,
    "d": processors,
    "e": memory,
    "f": optimisation,
    "g": beside,
    "h": end_to_end,
    "i": fluence,
}


def run(letters: str, plan: Plan, path: Path) -> None:
    """Measure parts, and write what there is after each of them."""
    rows: list[Row] = []
    head: dict[str, Any] = header(plan.quick) | {"device": plan.device.describe(), "peers": peers.versions()}
    for letter in letters:
        for job in PARTS[letter](plan if letter == "d" else plan.on_one):
            rows.append(measured(job, time_is_up=plan.time_is_up))
            print(speed_line(rows[-1], rows), flush=True)
            gc.collect()
        head["load_average_end"] = load_average()
        save(path, head | {"rows": rows}, markdown(head, rows))
    print(f"written: {path} and {path.with_suffix('.md').name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu, cuda:0 or cuda:all")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--rows", default="".join(PARTS), help="letters of the rows to run, in this order: afg")
    parser.add_argument("--minutes", type=float, help="begin no further row after that many minutes")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    arguments = parser.parse_args()
    ends = time.monotonic() + 60 * arguments.minutes if arguments.minutes else float("inf")
    device = choose_device(arguments.device)
    path = result_path(arguments.json, "denoise_speed", time.strftime("%Y-%m-%d"), device)
    run(arguments.rows, Plan(device, arguments.quick, ends=ends), path)


if __name__ == "__main__":
    main()
