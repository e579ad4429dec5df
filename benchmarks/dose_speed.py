"""Speed and memory of the dose engine, row by row; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/dose_speed.py                     # this machine's CPU
    python benchmarks/dose_speed.py --device cuda:0     # a GPU, with the patent's argument (rows e to g)

A GPU machine needs NumPy, SciPy, Numba and CuPy only.
"""

from common import Row
from dose.argument_rows import copy_rows, stream_rows, texture_rows
from dose.label_rows import big_rows, paint_rows
from dose.speed_rows import degenerate_rows, seed_rows, thread_rows
from speed import Benchmark, Part, rate_cell, seconds_cells

SEED = (
    "Skin, two lungs and target of 262 contours, a dose of 116 x 60 x 84 voxels. *Contours to curves*: points of "
    "contours and an array of doses in, curves out. *Resident*: structures are laid out and there."
)
BIG = (
    "Labels of 30 organs and a dose, 1 mm each. *From memory to counts*: both uploaded, counted, integers fetched; "
    "arrays were checked before. *Whole call*: with checks of the arrays. *Memory*: beyond the inputs."
)
COPIES = "Points of a host, 100 bins, software interpolation; a launch for each organ."
TEXTURE = "The same points, 8 copies. *Apart*: doses of the texture unit from those of arithmetic, Gy."
PARTS = {
    "a": Part(seed_rows, "The seed case", SEED),
    "b": Part(
        degenerate_rows, "Degenerate doses",
        "Counting on data that are resident; labels: 128 x 128 x 100 voxels of 30 organs.",
    ),
    "c": Part(big_rows, "The big case", BIG),
    "d": Part(paint_rows, "Painting", "Labels and dose resident; from a stroke to the curves of 30 organs."),
    "e": Part(copy_rows, "Copies of the sub-histogram", COPIES, gpu_only=True),
    "f": Part(stream_rows, "Streams", "The same points.", gpu_only=True),
    "g": Part(texture_rows, "Texture", TEXTURE, gpu_only=True),
    "h": Part(thread_rows, "Threads", "Counting on data that are resident. In brackets the efficiency."),
}  # fmt: skip
EXPLAINED = (
    "Best of several runs after a warm-up. *cpu ms*: processor time summed over threads, which other people's "
    "load spoils least. *Kernels*: by CUDA events. *Load*: processes that wanted a core in the minute before."
)


def rate(r: Row) -> str:
    return f"{rate_cell(r)}{r['unit'].removesuffix('/s')}"


def notes(r: Row) -> list[str]:
    found = []
    if r.get("kernel_seconds"):
        found.append(f"kernels {1e3 * r['kernel_seconds']:.4g} ms")
    if "inside" in r:
        found.append(f"{100 * r['inside']:.0f} % inside")
    if "largest_difference" in r:
        found.append(f"apart {r['mean_difference']:.2g} in the mean, {r['largest_difference']:.2g} at most")
    return found


CELLS = {**seconds_cells("ms"), "per second": rate}
BENCHMARK = Benchmark("dose_speed", "Speed of the dose engine", EXPLAINED, PARTS, CELLS, notes)

if __name__ == "__main__":
    quick = "fewer repeats, and a big case of 128 x 128 x 100"
    BENCHMARK.main(BENCHMARK.parser(__doc__, quick=quick, device="cpu or cuda:0").parse_args())
