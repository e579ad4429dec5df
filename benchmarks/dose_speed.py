"""Speed and memory of the dose engine, row by row; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/dose_speed.py                     # this machine's CPU
    python benchmarks/dose_speed.py --device cuda:0     # a GPU, with the patent's argument (rows e to g)

A GPU machine needs NumPy, SciPy, Numba and CuPy only.
"""

from collections.abc import Callable, Iterator
from functools import partial

from common import ends_after
from dose.argument_rows import copy_rows, stream_rows, texture_rows
from dose.label_rows import big_rows, paint_rows
from dose.plan import Plan
from dose.report import REPORT
from dose.speed_rows import degenerate_rows, seed_rows, thread_rows
from jobs import Benchmark, Job, rows_of_jobs, speed_parser

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
QUICK = "fewer repeats, and a big case of 128 x 128 x 100"
BENCHMARK = Benchmark("dose_speed", partial(rows_of_jobs, PARTS), REPORT.told, REPORT.markdown)


def main() -> None:
    arguments = speed_parser(__doc__, PARTS, device="cpu or cuda:0", quick=QUICK).parse_args()
    plan = Plan(choose_device(arguments.device), arguments.quick, ends=ends_after(arguments.minutes))
    BENCHMARK.run(arguments.rows, plan, BENCHMARK.path(arguments.json, plan.device))


if __name__ == "__main__":
    main()
