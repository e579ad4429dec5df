"""How long the CPU backends compile: processor seconds and functions of each engine's warm-ups on an empty cache.

::

    python benchmarks/cold_start.py

Each engine is warmed in a fresh process with one thread, twice: first with an empty cache, then with a full one. The
difference is what compiling costs; what a first use of the engine's panel waits for is the first of its warm-ups.
"""

import importlib
import os
import resource
import subprocess
import sys
import tempfile

from common import argument_parser, header, header_lines, line, publish, result_path, table

from napari_gpubio import ENGINES

_ONE_WARMUP = """
import sys
from napari_gpubio.core import jit
from napari_gpubio.core.warmup import warmups
for one in warmups(sys.argv[1])[: int(sys.argv[2])]:
    one.run()
print(jit.compiled_functions())
"""


def main() -> None:
    options = argument_parser(__doc__).parse_args()
    results = header(quick=False)
    results["rows"] = [row for engine in (*ENGINES, "gui") for row in measure(engine)]
    lines = [
        line(r["engine"], r["warmups"], r["functions"], f"{r['cold_s']:.1f}", f"{r['warm_s']:.2f}")
        for r in results["rows"]
    ]
    head = ["# Compiling the CPU backends", "", *header_lines(results)]
    columns = ("engine", "warm-ups", "functions", "processor seconds, empty cache", "full cache")
    text = "\n".join([*head, "", *table(columns, lines), ""])
    publish(result_path(options.json, "cold_start_cpu", results["date"]), results, text)


def measure(engine: str) -> list[dict[str, object]]:
    """Warm an engine by its first warm-ups, one more each time."""
    listed = importlib.import_module(f"napari_gpubio.{engine}.checks").WARMUPS
    rows = []
    for count in range(1, len(listed) + 1):
        with tempfile.TemporaryDirectory() as cache:
            functions, cold = warmed(engine, count, cache)
            _, warm = warmed(engine, count, cache)
        name = ", ".join(one.name for one in listed[:count])
        rows.append({"engine": engine, "warmups": name, "functions": functions, "cold_s": cold, "warm_s": warm})
    return rows


def warmed(engine: str, count: int, cache: str) -> tuple[int, float]:
    """Run the first warm-ups of an engine in a process; returns compiled functions and processor seconds."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "NUMBA_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", _ONE_WARMUP, engine, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int(done.stdout), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
