"""Speed and memory of the denoise engine, row by row; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/denoise_speed.py                     # this machine's CPU
    python benchmarks/denoise_speed.py --device cuda:0     # a GPU, with the paper's steps of optimization (rows f)
    python benchmarks/denoise_speed.py --device cuda:all   # the same, and several GPUs against one (rows d)

A GPU machine needs NumPy, SciPy, Numba and CuPy only; DIPY and ANTs take part where they can be imported (rows g).
"""

from collections.abc import Callable, Iterator
from functools import partial

from common import ends_after
from denoise import peers
from denoise.beside_rows import beside, end_to_end, optimization
from denoise.fluence_speed import fluence
from denoise.plan import Plan
from denoise.report import REPORT
from denoise.speed_rows import memory, processors, radii, settings, sizes
from jobs import Benchmark, Job, rows_of_jobs, speed_parser

from napari_gpubio.core.device import choose_device

PARTS: dict[str, Callable[[Plan], Iterator[Job]]] = {
    "a": sizes,
    "b": radii,
    "c": settings,
    "d": processors,
    "e": memory,
    "f": optimization,
    "g": beside,
    "h": end_to_end,
    "i": fluence,
}
BENCHMARK = Benchmark("denoise_speed", partial(rows_of_jobs, PARTS, on_all="d"), REPORT.told, REPORT.markdown)


def main() -> None:
    arguments = speed_parser(__doc__, PARTS, quick="fewer repeats").parse_args()
    plan = Plan(choose_device(arguments.device), arguments.quick, ends=ends_after(arguments.minutes))
    BENCHMARK.run(arguments.rows, plan, BENCHMARK.path(arguments.json, plan.device), peers=peers.versions())


if __name__ == "__main__":
    main()
