"""Speed and memory of the denoise engine, row by row; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/denoise_speed.py                     # this machine's CPU
    python benchmarks/denoise_speed.py --device cuda:0     # a GPU, with the paper's steps of optimization (rows f)
    python benchmarks/denoise_speed.py --device cuda:all   # the same, and several GPUs against one (rows d)

A GPU machine needs NumPy, SciPy, Numba and CuPy only; DIPY and ANTs take part where they can be imported (rows g).
"""

from common import Row, compact, versions
from denoise import peers
from denoise.beside_rows import beside, end_to_end, optimization
from denoise.fluence_speed import fluence
from denoise.speed_rows import memory, processors, radii, settings, sizes
from speed import Benchmark, Part, rate_cell, seconds_cells

STEPS = (
    "Seconds before, in and after the kernels. *Differ*: share of voxels that differ from the engine's by more than "
    "1e-5, and the largest relative difference."
)
CHAIN = (
    "From photons to the denoised volume on the host. *Worth*: photons that an unfiltered run needs for the same "
    "relative squared error where the raw signal / noise is 0 to 30 dB."
)
PARTS = {
    "a": Part(
        sizes, "Sizes",
        "Search radius 3, patch radii 1 and 2, mixing. *Resident*: on buffers made beforehand, without transfers.",
    ),
    "b": Part(radii, "Search radius", "Resident."),
    "c": Part(settings, "Settings", "Resident."),
    "d": Part(processors, "Processors", "In brackets the efficiency.", on_all=True),
    "e": Part(
        memory, "Memory",
        "In volumes of float32: declared by the engine, and the growth of CuPy's pool in a whole call.", gpu_only=True,
    ),
    "f": Part(optimization, "Steps of optimization", STEPS, gpu_only=True),
    "g": Part(beside, "Beside others", "Whole calls in one run. Peers use the CPU."),
    "h": Part(end_to_end, "Monte Carlo and filter", CHAIN),
    "i": Part(
        fluence, "Fluence",
        "The guide's solution, and `denoise_fluence` on halves of B2. *Sweeps alone*: the part spent in them.",
    ),
}  # fmt: skip
EXPLAINED = (
    "Best of several runs. *cpu s*: processor time summed over threads, which other people's load spoils "
    "least. *Load*: processes that needed a core in the minute before, this one included. *x*: times as fast."
)


def notes(r: Row) -> list[str]:
    found = []
    if "parts" in r:
        before, kernels, after = (1e3 * r["parts"][part] for part in ("before", "kernels", "after"))
        found.append(f"{before:.3g} + {kernels:.3g} + {after:.3g} ms")
        found.append(f"differ {100 * r['share_beyond_rounding']:.3g} %, at most {r['largest_difference']:.1g}")
    if "tracing" in r:
        found.append(f"tracing {r['tracing']:.4g} s, filter {r['filtering']:.4g} s")
    if r.get("equivalent_photons"):
        found.append(f"worth {compact(r['equivalent_photons'])}photons")
    return found


BENCHMARK = Benchmark(
    "denoise_speed", "Speed of the denoise engine", EXPLAINED, PARTS, {**seconds_cells(), "voxels/s": rate_cell}, notes
)

if __name__ == "__main__":
    BENCHMARK.main(BENCHMARK.parser(__doc__).parse_args(), facts={"peers": versions(peers.PACKAGES)})
