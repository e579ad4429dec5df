"""How much later napari's window is drawn because the plugin is installed.

::

    xvfb-run -a -s "-screen 0 1600x1000x24" python benchmarks/napari_start.py

Fresh processes that make a viewer and end after the first draw of its canvas, in turn with the plugin and without it
(napari cannot discover it, as if it were not installed). Its dock widgets are in the menu, and none is opened.
"""

import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
from typing import Any

from common import argument_parser, header, header_lines, line, publish, result_path, table

MAX_MS = 100.0
_START = """
import importlib.metadata, json, os, sys, time
discover, hidden = importlib.metadata.distributions, sys.argv[1]
importlib.metadata.distributions = lambda **which: (
    found for found in discover(**which) if not getattr(found, "_path").name.startswith(hidden)
)
begun, used = time.perf_counter(), time.process_time()
import napari
viewer = napari.Viewer()

def on_draw(event):
    times = {"wall_s": time.perf_counter() - begun, "cpu_s": time.process_time() - used}
    manifests = [manifest.name for manifest in napari.plugins._npe2.pm.iter_manifests()]
    modules = sum(name.split(".")[0] == "napari_gpubio" for name in sys.modules)
    print(json.dumps({**times, "discovered": "napari-gpubio" in manifests, "modules": modules}), flush=True)
    os._exit(0)

viewer.window._qt_viewer.canvas._scene_canvas.events.draw.connect(on_draw, position="last")
napari.run()
"""
_KINDS = {"without the plugin": "napari_gpubio-", "with the plugin": "no such package"}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--runs", type=int, default=7, help="of each kind, in turn")
    options = parser.parse_args()
    importlib.metadata.distribution("napari-gpubio")  # else both kinds would be the same
    results = header(quick=options.runs < 7)
    for hidden in _KINDS.values():
        started(hidden)  # the files are in the system's memory then
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in _KINDS}
    for _ in range(options.runs):
        for kind, hidden in _KINDS.items():
            runs[kind].append(started(hidden))
    check(runs)
    results["runs"] = runs
    medians = [[statistics.median(run[what] for run in runs[kind]) for what in ("wall_s", "cpu_s")] for kind in runs]
    differences = [1e3 * (with_it - without) for without, with_it in zip(*medians, strict=True)]
    lines = [line(kind, f"{wall:.3f}", f"{cpu:.3f}") for kind, (wall, cpu) in zip(runs, medians, strict=True)]
    lines.append(line(f"difference (ms; at most {MAX_MS:g})", *(f"{value:.0f}" for value in differences)))
    loaded = max(run["modules"] for run in runs["with the plugin"])
    text = "\n".join(
        [
            "# Start of napari, to the first draw", "", *header_lines(results),
            f"Medians of {options.runs} fresh processes each, in turn; modules of the plugin loaded: {loaded}.", "",
            *table(("napari", "wall time (s)", "processor time (s)"), lines), "",
        ]
    )  # fmt: skip
    publish(result_path(options.json, "napari_start", results["date"]), results, text)


def started(hidden: str) -> dict[str, Any]:
    """Start napari in a process, without distributions whose folder begins with a text."""
    environment = {**os.environ, "NAPARI_CONFIG": ""}  # no settings of the user's
    command = [sys.executable, "-c", _START, hidden]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(runs: dict[str, list[dict[str, Any]]]) -> None:
    """Make sure that napari knew the plugin where it was to know it, and only there."""
    for kind, of_kind in runs.items():
        if {run["discovered"] for run in of_kind} != {kind == "with the plugin"}:
            raise SystemExit(f"napari {kind} is not what was measured; is napari-gpubio installed in this environment?")


if __name__ == "__main__":
    main()
