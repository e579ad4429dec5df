"""Speed of fiber tracking and of the tensor fit, row by row; `benchmarks/README.md` explains each row.

Run from anywhere::

    python benchmarks/fibers_speed.py                                  # this machine's CPU, a few minutes
    python benchmarks/fibers_speed.py --device cuda:0 --brain b.npz    # a GPU, the CPU beside it on request
    python benchmarks/fibers_speed.py --export-brain b.npz             # make that file where the data and nibabel are

A GPU machine needs NumPy, SciPy, Numba and CuPy only: without nibabel, or from a tree that is not installed, the
numerics are imported past the readers.
"""

from pathlib import Path

from common import Row, compact
from fibers.brain import Plan, export_brain, load_brain
from fibers.call_rows import gpu_memory, interaction, preparation, tensor_fit, to_target
from fibers.peer_rows import peers
from fibers.tracing_rows import corpus_callosum, one_core, seed_benchmark
from speed import Benchmark, Part, seconds_cells

PARTS = {
    "a": Part(seed_benchmark, "The paper's volume"),
    "b": Part(corpus_callosum, "Corpus callosum of a real brain"),
    "c": Part(preparation, "Preparing the field"),
    "d": Part(tensor_fit, "Tensor fit"),
    "e": Part(interaction, "A click"),
    "f": Part(one_core, "One core of the CPU"),
    "g": Part(gpu_memory, "Memory of a GPU", gpu_only=True),
    "h": Part(peers, "Beside DIPY"),
    "i": Part(to_target, "Fibers to a target"),
}


def mean_steps(r: Row) -> str:
    early = f" ({r['ended_early']} ended early)" if r.get("ended_early") and r["name"].startswith("a") else ""
    return f"{r['mean_steps']:.0f}{early}" if "mean_steps" in r else ""


def rate(r: Row) -> str:
    fibers = f", {compact(r['fibers_per_second'])}fibers/s" if "fibers_per_second" in r else ""
    return "" if "bytes_used" in r else f"{compact(r['rate'])}{r['unit']}{fibers}"


def notes(r: Row) -> list[str]:
    if "bytes_used" not in r:
        return []
    return [f"{r['bytes_used'] / 1e6:.0f} MB used, {r['bytes_taken_while_preparing'] / 1e6:.0f} MB at most"]


CELLS = {
    "device": lambda r: r["device"],
    "threads": lambda r: r.get("threads") or "",
    "fibers": lambda r: r.get("fibers", ""),
    "mean steps": mean_steps,
    **seconds_cells(),
    "rate": rate,
    "per core": lambda r: f"{compact(r['rate_per_core'])}{r['unit']}" if r["rate_per_core"] else "",
}
EXPLAINED = (
    "Best of several runs. *cpu s*: processor time summed over threads; *per core*: the work per such second, "
    "which other people's load spoils least."
)
BENCHMARK = Benchmark("fibers_speed", "Speed of fibers", EXPLAINED, PARTS, CELLS, notes)


def main() -> None:
    parser = BENCHMARK.parser(__doc__, quick="less work on the CPU, fewer repeats", device="cpu or cuda:0")
    parser.add_argument("--brain", type=Path, metavar="NPZ", help="the real brain, as --export-brain writes it")
    parser.add_argument("--export-brain", type=Path, metavar="NPZ", help="write the real brain and do nothing else")
    options = parser.parse_args()
    brain = load_brain(options.brain)
    if options.export_brain is None:
        BENCHMARK.main(options, Plan, brain=brain)
    elif isinstance(brain, str):
        raise SystemExit(brain)
    else:
        export_brain(brain, options.export_brain)


if __name__ == "__main__":
    main()
