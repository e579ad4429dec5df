"""How much the previews of a run slow it down, in a window of napari: light in a head, fibers in a brain.

Run under a display::

    xvfb-run -a -s "-screen 0 1600x1000x24" python benchmarks/panel_previews.py

Each run is made in turn with previews and without any, in the same window with the same layers; the fibers are shown
in 3-D, where drawing takes longest. The median of the paired ratios is what counts: it may be 1.15.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import napari
from common import argument_parser, header, header_lines, line, load_average, publish, result_path, table
from qtpy.QtWidgets import QApplication

from napari_gpubio.gui.progress import PreviewPacer

MOST = 1.15
PATIENCE_S = 300.0


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=5, help="of runs, one with previews and one without")
    parser.add_argument("--photons", type=int, default=2_000_000)
    parser.add_argument("--seeds", type=int, default=20000)
    options = parser.parse_args()
    results = header(quick=options.pairs < 5) | {"napari": napari.__version__, "rows": []}
    for name, open_panel in (("light", open_light), ("fibers", open_fibers)):
        viewer = napari.Viewer()
        viewer.window.resize(1400, 900)
        panel = open_panel(viewer, options)
        results["rows"].append({"case": name, **pairs_of(panel, options.pairs)})
        panel.teardown()
        viewer.close()
    lines = [
        line(r["case"], f"{r['with_s']:.2f}", f"{r['without_s']:.2f}", r["previews"], f"{r['ratio']:.3f}")
        for r in results["rows"]
    ]
    titles = ("run", "with previews (s)", "without (s)", "previews of a run", f"median ratio (at most {MOST})")
    head = ["# What previews cost a run", "", *header_lines(results)]
    text = "\n".join([*head, f"{options.pairs} pairs each.", "", *table(titles, lines), ""])
    publish(result_path(options.json, "panel_previews", results["date"]), results, text)


def open_light(viewer: Any, options: argparse.Namespace) -> Any:
    """The sample head, with a source on it."""
    viewer.open_sample("napari-gpubio", "head_phantom")
    _, panel = viewer.window.add_plugin_dock_widget("napari-gpubio", "Light transport")
    panel.choose_device("cpu")
    panel.voxels.run_box.set_live(False)
    panel.voxels.run_box.photons.set_value(options.photons)
    settle(1.0)
    panel.voxels.place_source((0.0, -5.0, 70.0))
    return panel


def open_fibers(viewer: Any, options: argparse.Namespace) -> Any:
    """The sample brain, with many seed points in the corpus callosum, seen in 3-D."""
    viewer.open_sample("napari-gpubio", "brain_phantom")
    _, panel = viewer.window.add_plugin_dock_widget("napari-gpubio", "Fiber tracking")
    panel.choose_device("cpu")
    panel.place_seed((0.0, -5.0, 22.0))
    until(lambda: not panel.running and not panel.waiting)
    panel.seed_box.form.widget("points").value = options.seeds
    viewer.dims.ndisplay = 3
    settle(1.0)
    return panel


def pairs_of(panel: Any, pairs: int) -> dict[str, Any]:
    """Run in turn with previews and without, after one run that does not count."""
    run_once(panel)
    real, times, counts = PreviewPacer.is_due, [], []
    for _ in range(pairs):
        pair = []
        for is_due in (real, lambda _: False):
            PreviewPacer.is_due = is_due  # type: ignore[method-assign]
            took, count = run_once(panel)
            pair.append(took)
            if is_due is real:
                counts.append(count)
        times.append(pair)
        print(f"{pair[0]:.2f} s with {counts[-1]} previews, {pair[1]:.2f} s without", flush=True)
    PreviewPacer.is_due = real  # type: ignore[method-assign]
    with_s, without_s = (statistics.median(column) for column in zip(*times, strict=True))
    return {
        "with_s": with_s, "without_s": without_s, "previews": statistics.median(counts), "times": times,
        "ratio": statistics.median(shown / hidden for shown, hidden in times), "load_average": load_average()[:1],
    }  # fmt: skip


def run_once(panel: Any) -> tuple[float, int]:
    """Seconds from Run to the result, and how many previews were shown."""
    shown: list[object] = []
    real = panel._pacer.show
    panel._pacer.show = lambda show: (shown.append(show), real(show))
    begun = time.perf_counter()
    panel.run()
    until(lambda: not panel.running and not panel.waiting)
    took = time.perf_counter() - begun
    panel._pacer.show = real
    if panel.message and not shown and took < 0.05:
        raise RuntimeError(panel.message)
    settle(0.5)
    return took, len(shown)


def until(done: Callable[[], bool]) -> None:
    """Run the event loop until something is done."""
    begun = time.monotonic()
    while not done():
        if time.monotonic() - begun > PATIENCE_S:
            raise TimeoutError
        settle(0.005)


def settle(seconds: float) -> None:
    """Run the event loop for some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        QApplication.processEvents()
        time.sleep(0.001)


if __name__ == "__main__":
    main()
