"""Speed of light in layers, row by row, and its error maps; `benchmarks/README.md` says what each row means.

Run from anywhere::

    python benchmarks/layered_speed.py                     # this machine's CPU
    python benchmarks/layered_speed.py --device cuda:0     # a GPU
    python benchmarks/layered_speed.py --device cuda:all   # the same, and several GPUs against one (rows e)
    python benchmarks/layered_speed.py --draw maps.npz     # the picture alone, from an earlier run's file

A GPU machine needs NumPy, SciPy, Numba and CuPy only; the picture needs Pillow.
"""

from pathlib import Path

from common import Row
from layered.error_maps import COLUMNS, KNOWN, draw_again, error_maps, map_line
from layered.plan import REFERENCE, Plan
from layered.speed_rows import by_gpus, by_threads, media
from layered.variant_rows import caches, grids, steps
from speed import Benchmark, Part, core_cell, rate_cell, seconds_cells

from napari_gpubio.core.device import choose_device

MEDIA = (
    "*Tracing*: on buffers made beforehand, in chunks as in a real run; *one launch*: without a pause; *whole "
    "call*: from arguments to result on the host."
)
STEPS = "Tracing. Paper: a GTX 480 (2010) and 1e8 photons, from the text and from what its authors' result files say."
CACHE = "Tracing, no pilot in it. *Cached*: what part of the absorbed light lies in the cache, by the pilot's photons."
THREADS = "Tracing, as many photons for each thread; in brackets the efficiency. *Per core*: the target."
MAPS = (
    f"A(r, z) of the first and the second, in bins whose standard error is below {100 * KNOWN:g} % in both. "
    "Normal errors: 68.3, 95.4 and 99.7 % within 1, 2 and 3 (known from batches: a little less)."
)
PARTS = {
    "a": Part(media, "Skin and intralipid", MEDIA),
    "b": Part(steps, "Steps of optimization, skin", STEPS, gpu_only=True),
    "c": Part(caches, "Size and shape of the cache, skin", CACHE, gpu_only=True),
    "d": Part(
        grids, "Four grids over 1 cm x 1 cm, intralipid",
        "Tracing. Paper: a GTX 480 and 1e7 photons, from its authors' result files.",
    ),
    "e": Part(by_gpus, "Number of GPUs, skin", "Tracing; in brackets the efficiency.", gpu_only=True, on_all=True),
    "f": Part(by_threads, "The CPU, skin", THREADS),
    "g": Part(error_maps, "Differences between maps, skin", MAPS, columns=COLUMNS, line_of=map_line),
}  # fmt: skip
EXPLAINED = (
    "Best of several runs. *cpu s*: processor time summed over threads; *per core*: photons per such second, "
    "which other people's load spoils least. *Load*: processes that wanted a core in the minute before, this "
    "one included. *Rd*: diffuse reflectance, which must not depend on how a row was made fast. *x*: times as "
    "fast, on a CPU per core unless threads are compared."
)
CELLS = {
    "threads": lambda r: r.get("threads", ""),
    "photons": lambda r: f"{r['amount']:,}",
    **seconds_cells(),
    "photons/s": rate_cell,
    "per core": core_cell,
    "Rd": lambda r: f"{r['reflectance']:.5f} ± {r['reflectance_error']:.5f}",
}


def notes(r: Row) -> list[str]:
    found = []
    if "times_gpu_mcml" in r:
        found.append(f"{r['times_gpu_mcml']:.2f} x GPU-MCML")
    if "cache_shape" in r:
        radial, depth = r["cache_shape"]
        found.append(f"{radial} x {depth} bins in r and z, cached {100 * r['cached_share']:.1f} %")
    return found


BENCHMARK = Benchmark("layered_speed", "Speed of light in layers", EXPLAINED, PARTS, CELLS, notes, by_core=True)


def main() -> None:
    parser = BENCHMARK.parser(__doc__, quick="a tenth of the photons, fewer repeats")
    parser.add_argument("--photons", type=int, help="for every case; default: the paper's on a GPU, fewer on a CPU")
    parser.add_argument(
        "--reference", type=Path, default=REFERENCE, metavar="NPZ", help="A(r, z) of CPU-MCML and 8e8 photons (rows g)"
    )
    parser.add_argument("--draw", type=Path, metavar="NPZ", help="draw the maps of an earlier run and do nothing else")
    options = parser.parse_args()
    if options.draw is not None:
        print(f"written: {draw_again(options.draw)}")
        return
    path = BENCHMARK.path(options, choose_device(options.device))
    maps = path.with_name(path.stem.replace("speed", "error_maps") + ".npz")
    BENCHMARK.main(options, Plan, photons=options.photons, maps=maps, reference=options.reference)


if __name__ == "__main__":
    main()
