"""Speed of the speckle engine, row by row; `benchmarks/README.md` describes each row.

Run from anywhere::

    python benchmarks/speckle_speed.py                     # this machine's CPU, beside SciPy and OpenCV
    python benchmarks/speckle_speed.py --device cuda:0     # a GPU, against its memory's bandwidth too (rows e)
    python benchmarks/speckle_speed.py --device cuda:all   # the same, and several GPUs against one (rows d)

A GPU machine needs NumPy, SciPy, Numba and CuPy only; OpenCV takes part where it can be imported (rows a).
"""

from common import Row, versions
from speckle_rows import PACKAGES, Plan, bandwidth, beside, camera, stacks, windows
from speed import Benchmark, Part, rate_cell, seconds_cells

BESIDE = (
    "K and SFI of one frame of 1392 x 1040, 5 x 5, in the host's memory. In single precision the others are wrong by "
    "more than 1e-6 where contrast is low."
)
CAMERA = "From a frame in the host's memory to both maps there. *Paper*: table 1 of Yang et al. 2011."
BANDWIDTH = "By the GPU's clock, data resident. A pixel is 10 bytes: 2 read and 8 written."
PARTS = {
    "a": Part(beside, "Beside others", BESIDE),
    "b": Part(windows, "Windows and modes", "1392 x 1040, K and SFI unless stated otherwise, frames resident."),
    "c": Part(camera, "The seed's table", CAMERA),
    "d": Part(stacks, "Whole stacks", "1392 x 1040 in one call, checks and all transfers included.", on_all=True),
    "e": Part(bandwidth, "Bandwidth", BANDWIDTH, gpu_only=True),
}
CELLS = {
    **seconds_cells("ms"),
    "ns/pixel": lambda r: f"{1e9 * r['seconds'] / r['amount']:.3g}",
    "pixels/s": rate_cell,
}


def notes(r: Row) -> list[str]:
    return [f"{r['bandwidth'] / 1e12:.2f} TB/s"] if "bandwidth" in r else []


EXPLAINED = "Best of many runs. *cpu ms*: processor time summed over threads. *x*: times as fast."
BENCHMARK = Benchmark("speckle_speed", "Speed of the speckle engine", EXPLAINED, PARTS, CELLS, notes)

if __name__ == "__main__":
    BENCHMARK.main(BENCHMARK.parser(__doc__).parse_args(), Plan, facts={"peers": versions(PACKAGES)})
