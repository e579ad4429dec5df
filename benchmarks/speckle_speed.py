"""Speed of the speckle engine, row by row; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/speckle_speed.py                     # this machine's CPU, beside SciPy and OpenCV
    python benchmarks/speckle_speed.py --device cuda:0     # a GPU, against its memory's bandwidth too (rows e)
    python benchmarks/speckle_speed.py --device cuda:all   # the same, and several GPUs against one (rows d)

A GPU machine needs NumPy, SciPy, Numba and CuPy only; OpenCV takes part where it can be imported (rows a).
"""

from collections.abc import Callable, Iterator
from functools import partial

from common import ends_after
from jobs import Benchmark, Job, rows_of_jobs, speed_parser
from speckle.cpu_rows import beside, versions, windows
from speckle.gpu_rows import bandwidth, camera, stacks
from speckle.plan import Plan
from speckle.report import REPORT

from napari_gpubio.core.device import choose_device

PARTS: dict[str, Callable[[Plan], Iterator[Job]]] = {
    "a": beside,
    "b": windows,
    "c": camera,
    "d": stacks,
    "e": bandwidth,
}
BENCHMARK = Benchmark(
    "speckle_speed", partial(rows_of_jobs, PARTS, on_all="d", gpu_only="e"), REPORT.told, REPORT.markdown
)


def main() -> None:
    arguments = speed_parser(__doc__, PARTS, quick="fewer repeats").parse_args()
    plan = Plan(choose_device(arguments.device), arguments.quick, ends=ends_after(arguments.minutes))
    BENCHMARK.run(arguments.rows, plan, BENCHMARK.path(arguments.json, plan.device), peers=versions())


if __name__ == "__main__":
    main()
