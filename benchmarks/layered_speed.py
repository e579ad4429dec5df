"""Speed of light in layers, row by row, and its error maps; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/layered_speed.py                     # this machine's CPU
    python benchmarks/layered_speed.py --device cuda:0     # a GPU
    python benchmarks/layered_speed.py --device cuda:all   # the same, and several GPUs against one (rows e)
    python benchmarks/layered_speed.py --draw maps.npz     # the picture alone, from an earlier run's file

A GPU machine needs NumPy, SciPy, Numba and CuPy only; the picture needs Pillow.
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common import Row, header, load_average, result_path, save, skipped
from jobs import Job, measured
from layered.error_maps import draw_again, error_maps
from layered.plan import REFERENCE, Plan
from layered.report import markdown, told
from layered.speed_rows import by_gpus, by_threads, media
from layered.variant_rows import caches, grids, steps

from napari_gpubio.core.device import choose_device

PARTS: dict[str, Callable[[Plan], Iterator[Job]]] = {
    "a": media,
    "b": steps,
    "c": caches,
    "d": grids,
    "e": by_gpus,
    "f": by_threads,
    "g": error_maps,
}
GPU_ONLY = "bce"


def jobs_of(letter: str, plan: Plan) -> Iterator[Job]:
    """Rows of a part, still to be measured."""
    if letter in GPU_ONLY and not plan.device.is_gpu:
        yield Job(letter, lambda name: skipped(name, "needs a GPU: --device cuda:0"))
    else:
        yield from PARTS[letter](plan if letter == "e" else plan.on_one)


def run(letters: str, plan: Plan, path: Path) -> None:
    """Measure parts, and write what there is after each of them."""
    rows: list[Row] = []
    head: dict[str, Any] = header(plan.quick) | {"device": plan.device.describe()}
    for letter in letters:
        for job in jobs_of(letter, plan):
            rows.append(measured(job, time_is_up=plan.time_is_up))
            print(told(rows[-1], rows), flush=True)
            gc.collect()
        head["load_average_end"] = load_average()
        save(path, head | {"rows": rows}, markdown(head, rows))
    print(f"written: {path} and {path.with_suffix('.md').name}")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu, cuda:0 or cuda:all")
    parser.add_argument("--quick", action="store_true", help="a tenth of the photons, fewer repeats")
    parser.add_argument("--photons", type=int, help="for every case; default: the paper's on a GPU, fewer on a CPU")
    parser.add_argument("--rows", default="".join(PARTS), help="letters of the rows to run, in this order: gab")
    parser.add_argument("--minutes", type=float, help="begin no further row after that many minutes")
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by device and date")
    parser.add_argument(
        "--reference", type=Path, default=REFERENCE, metavar="NPZ", help="A(r, z) of CPU-MCML and 8e8 photons (rows g)"
    )
    parser.add_argument("--draw", type=Path, metavar="NPZ", help="draw the maps of an earlier run and do nothing else")
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    if arguments.draw is not None:
        print(f"written: {draw_again(arguments.draw)}")
        return
    ends = time.monotonic() + 60 * arguments.minutes if arguments.minutes else float("inf")
    device = choose_device(arguments.device)
    path = result_path(arguments.json, "layered_speed", time.strftime("%Y-%m-%d"), device)
    maps = path.with_name(path.stem.replace("speed", "error_maps") + ".npz")
    plan = Plan(device, arguments.quick, arguments.photons, ends, maps, arguments.reference)
    run(arguments.rows, plan, path)


if __name__ == "__main__":
    main()
