"""Speed of light in layers, row by row, and its error maps; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/layered_speed.py                     # this machine's CPU
    python benchmarks/layered_speed.py --device cuda:0     # a GPU
    python benchmarks/layered_speed.py --device cuda:all   # the same, and several GPUs against one (rows e)
    python benchmarks/layered_speed.py --draw maps.npz     # the picture alone, from an earlier run's file

A GPU machine needs NumPy, SciPy, Numba and CuPy only; the picture needs Pillow.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from common import ends_after
from jobs import Benchmark, Job, rows_of_jobs, speed_parser
from layered.error_maps import draw_again, error_maps
from layered.plan import REFERENCE, Plan
from layered.report import REPORT
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
BENCHMARK = Benchmark(
    "layered_speed", partial(rows_of_jobs, PARTS, on_all="e", gpu_only="bce"), REPORT.told, REPORT.markdown
)


def parsed() -> argparse.Namespace:
    parser = speed_parser(__doc__, PARTS, quick="a tenth of the photons, fewer repeats")
    parser.add_argument("--photons", type=int, help="for every case; default: the paper's on a GPU, fewer on a CPU")
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
    device = choose_device(arguments.device)
    path = BENCHMARK.path(arguments.json, device)
    maps = path.with_name(path.stem.replace("speed", "error_maps") + ".npz")
    ends = ends_after(arguments.minutes)
    plan = Plan(device, arguments.quick, arguments.photons, ends, maps, arguments.reference)
    BENCHMARK.run(arguments.rows, plan, path)


if __name__ == "__main__":
    main()
