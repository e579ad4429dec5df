"""What a live map costs the window: main-thread time of one update of the panel "Laser speckle", with a shown window.

Run under a display::

    xvfb-run -a -s "-screen 0 1600x1000x24" python benchmarks/speckle_panel.py --save

The simulated camera sends full frames; the panel makes maps of them in its own threads, as it does for a user. What
the graphics card does is in ``drawn_hz`` only, which means little with a software renderer.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import napari
import numpy as np
from common import header, header_lines, line, result_path, save, table
from qtpy.QtWidgets import QApplication

from napari_gpubio.gui.checks import wait_until
from napari_gpubio.speckle.gui import SpecklePanel
from napari_gpubio.speckle.gui.checks import MAX_MS, choose_camera

PIECES = {
    "layer": "map into its layer",
    "update": "whole update, with regions and messages",
    "plot": "time course",
    "readouts": "read-outs",
}
COLUMNS = {
    "calls": "calls",
    "median_ms": "median",
    "p95_ms": "95 %",
    "max_ms": "largest",
    "cpu_median_ms": "median (processor)",
    "cpu_max_ms": "largest (processor)",
}


class Stopwatch:
    """Times every call of some functions: milliseconds by the wall clock, and of the processor."""

    def __init__(self) -> None:
        self.calls: dict[str, list[tuple[float, float]]] = {name: [] for name in PIECES}

    def around(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, with its calls timed."""

        def timed(*arguments: Any) -> Any:
            begun, used = time.perf_counter(), time.thread_time()
            try:
                return work(*arguments)
            finally:
                spent = (time.perf_counter() - begun, time.thread_time() - used)
                self.calls[name].append((1e3 * spent[0], 1e3 * spent[1]))

        return timed

    def forget(self) -> None:
        """Begin anew."""
        for calls in self.calls.values():
            calls.clear()


def spread(calls: list[tuple[float, float]]) -> dict[str, float]:
    """Median, 95th percentile and largest, milliseconds."""
    wall, busy = np.array(calls).T
    figures = {
        "median_ms": np.median(wall), "p95_ms": np.percentile(wall, 95), "max_ms": wall.max(),
        "cpu_median_ms": np.median(busy), "cpu_max_ms": busy.max(),
    }  # fmt: skip
    return {"calls": len(calls), **{name: round(float(value), 2) for name, value in figures.items()}}


def draw_regions(panel: SpecklePanel, size: tuple[int, int], count: int) -> None:
    """Draw squares side by side."""
    panel.regions.start_drawing()
    edge = size[0] // (2 * count + 1)
    corner = np.array([[0, 0], [0, edge], [edge, edge], [edge, 0]])
    squares = [corner + np.array([size[1] // 2, edge * (2 * n + 1)]) for n in range(count)]
    panel.regions.listener.layer.add(squares, shape_type="polygon")


def measure(viewer: napari.Viewer, options: argparse.Namespace) -> dict[str, Any]:
    """Run the live view for some frames, and return the figures."""
    size = tuple(options.size)
    panel, watch = SpecklePanel(viewer), Stopwatch()
    viewer.window.add_dock_widget(panel, name="Laser speckle")
    choose_camera(panel, size, options.rate, options.device)
    layers, box = panel.layers, panel.course_box
    layers.show_map = watch.around("layer", layers.show_map)
    panel.live_box.readout.show_status = watch.around("readouts", panel.live_box.readout.show_status)
    box.plot.draw = watch.around("plot", box.plot.draw)
    panel.runner.map_ready.disconnect()
    panel.runner.map_ready.connect(watch.around("update", panel.controller.show_map))
    panel.live_box.start_button.click()
    wait_until(lambda: len(watch.calls["layer"]) >= 10, "live map")
    draw_regions(panel, size, options.regions)
    wait_until(lambda: len(panel.runner.course) >= 10, "time course")
    watch.forget()
    wait_until(lambda: len(watch.calls["layer"]) >= options.frames, "live map")
    status = panel.runner.loop.status()
    rates = {name: round(getattr(status, name), 1) for name in ("camera_hz", "processed_hz", "drawn_hz", "latency_ms")}
    canvas = viewer.window._qt_viewer.canvas.native
    figures = {
        "size": list(size), "rate_hz": options.rate, "regions": options.regions, "device": panel.device, **rates,
        "dropped": status.dropped, "canvas": [canvas.width(), canvas.height()],
        "pieces": {name: spread(calls) for name, calls in watch.calls.items()},
    }  # fmt: skip
    panel.live_box.start_button.click()
    wait_until(lambda: not panel.runner.is_live, "end of the live maps")
    panel.teardown()
    return figures


def report(results: dict[str, Any]) -> str:
    figures, size = results["live"], results["live"]["size"]
    pieces = figures["pieces"]
    kept = {name: "kept" if pieces["layer"][name] <= MAX_MS else "MISSED" for name in ("median_ms", "p95_ms", "max_ms")}
    lines = [line(PIECES[name], *(figure[column] for column in COLUMNS)) for name, figure in pieces.items()]
    conditions = (
        f"napari {results['napari']}, {size[0]} x {size[1]} pixels at {figures['rate_hz']:g} frames/s on "
        f"{figures['device']}, {figures['regions']} regions, canvas {figures['canvas'][0]} x {figures['canvas'][1]}: "
        f"camera {figures['camera_hz']} /s, processed {figures['processed_hz']} /s, drawn {figures['drawn_hz']} /s, "
        f"{figures['dropped']} dropped."
    )
    meaning = (
        "Milliseconds of the main thread. By the wall clock, in which it may wait for the other threads and for the "
        "other programs of the machine; and of the processor, which is what the update itself costs."
    )
    bar = (
        f"Bar of {MAX_MS:g} ms for the layer, by the wall clock: median {kept['median_ms']}, 95th percentile "
        f"{kept['p95_ms']}, largest {kept['max_ms']}."
    )
    head = ["# Laser speckle: what a live map costs the window", "", *header_lines(results)]
    return "\n".join([*head, "", conditions, "", meaning, "", *table(("piece", *COLUMNS.values()), lines), "", bar, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=300, help="maps that are timed")
    parser.add_argument("--size", type=int, nargs=2, default=(1392, 1040), metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--rate", type=float, default=30.0, help="frames per second of the camera")
    parser.add_argument("--regions", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--save", action="store_true", help="write JSON and tables into results/")
    parser.add_argument("--out", type=Path, help="write them there instead")
    options = parser.parse_args()
    results = header(quick=False) | {"napari": napari.__version__}
    viewer = napari.Viewer(show=True)
    viewer.window._qt_window.resize(1200, 900)
    QApplication.processEvents()
    results["live"] = measure(viewer, options)
    viewer.close()
    text = report(results)
    print(text)
    if options.save or options.out:
        save(result_path(options.out, "speckle_panel", results["date"]), results, text)


if __name__ == "__main__":
    main()
