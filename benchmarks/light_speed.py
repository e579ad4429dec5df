"""Speed and memory of the voxel light engine, row by row; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/light_speed.py                     # this machine's CPU
    python benchmarks/light_speed.py --device cuda:0     # a GPU; beside pmcx and pmcxcl where they are importable
    python benchmarks/light_speed.py --device cuda:all   # the same, and several GPUs against one (rows b)

A GPU machine needs NumPy, SciPy, Numba and CuPy only.
"""

from functools import partial

from common import Row
from light.peers import COLUMNS, beside, peer_line
from light.plan import Plan
from light.speed_rows import by_photons, by_processors, every_case, extras, memory
from speed import Benchmark, Part, core_cell, rate_cell, seconds_cells

MCX = (
    "In one process, in turn; photons per second, MCX's by the kernel time that it prints, ours by the tracing. MCX "
    "has no roulette unless requested. Ratios: how many times faster ours is; *ours / MCX* is each as it is by default."
)
PARTS = {
    "a": Part(every_case, "Cases"),
    "b": Part(by_processors, "Threads or GPUs", "In brackets the efficiency.", on_all=True),
    "c": Part(by_photons, "Whole calls by the number of photons"),
    "d": Part(extras, "Extras", "In turn; on a CPU by processor seconds."),
    "e": Part(memory, "Memory"),
    "f": Part(partial(beside, "pmcx"), "Beside MCX (CUDA)", MCX, columns=COLUMNS, line_of=peer_line),
    "g": Part(partial(beside, "pmcxcl"), "Beside MCX (OpenCL)", MCX, columns=COLUMNS, line_of=peer_line),
}
EXPLAINED = (
    "Best of several runs. *cpu s*: processor time summed over threads; *per core*: photons per such second, "
    "which other people's load spoils least. *Load*: processes that were ready to run in the minute before, this "
    "one included. *Tracing*: on buffers made beforehand, in chunks as in a real run, with the folding of "
    "batches; *whole call*: from arguments to result on the host."
)
CELLS = {
    "threads": lambda r: r.get("threads", ""),
    "photons": lambda r: f"{r['amount']:,}",
    **seconds_cells(),
    "photons/s": rate_cell,
    "per core": core_cell,
}


def notes(r: Row) -> list[str]:
    return [f"absorbed {r['absorbed']:.4f} ± {r['absorbed_error']:.4f}"] if "absorbed" in r else []


BENCHMARK = Benchmark("light_speed", "Speed of the light engine", EXPLAINED, PARTS, CELLS, notes, by_core=True)

if __name__ == "__main__":
    parser = BENCHMARK.parser(__doc__, quick="a tenth of the photons, fewer repeats")
    parser.add_argument("--photons", type=int, help="for every case; default: 1e8 on a GPU, about a second's on a CPU")
    arguments = parser.parse_args()
    BENCHMARK.main(arguments, Plan, photons=arguments.photons)
