"""How soon the map and the ranks of a source follow a drag: the panel "Fiber flow" in a shown window, on a real brain.

Run under a display, where the shared data lie beside the repository::

    xvfb-run -a -s "-screen 0 1280x800x24" python benchmarks/flow_panel.py

FODs of a brain at 2.5 mm, and where 72 bundles end as an atlas. Each move puts the source a millimeter farther, and
counts until the map, the table and the picture on screen are those of the new place; a software renderer draws it.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import napari
import numpy as np
from common import header, header_lines, line, load_average, publish, result_path, table
from fibers.flow_brain import end_regions, load_brain
from napari.layers import Layer
from qtpy.QtWidgets import QApplication

from napari_gpubio.core.layer_files import STRUCTURES
from napari_gpubio.core.napari_io import volume_layer
from napari_gpubio.diffusion.fods.napari_io import fod_layer
from napari_gpubio.fibers.gui import FlowPanel

START_MM = (22.0, -10.0, 10.0)  # in the internal capsule


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="of the flows of all regions; a source is moved on the CPU")
    parser.add_argument("--moves", type=int, default=20)
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    options = parser.parse_args()
    results = header(quick=options.moves < 20) | {"napari": napari.__version__, "load": load_average()}
    results |= measure(options.device, options.moves)
    spent = np.array(results["moves_ms"])
    figures = "median", "95 %", "largest"
    values = np.median(spent), np.percentile(spent, 95), spent.max()
    about = f"{results['fixels']:,} fixels, {results['regions']} regions. Ready after {results['ready_s']:.1f} s."
    rows = [line(name, f"{value:.0f}") for name, value in zip(figures, values, strict=True)]
    head = ["# How soon the flow follows a drag", "", *header_lines(results), about, ""]
    text = "\n".join([*head, *table((f"of {len(spent)} moves", "ms"), rows), ""])
    publish(result_path(options.json, "flow_panel", results["date"]), results, text)


def wait(done: Callable[[], bool]) -> None:
    """Run the event loop until something is done."""
    while not done():
        QApplication.processEvents()
        time.sleep(0.001)


def measure(device: str, moves: int) -> dict[str, Any]:
    """Open the panel, place a source, and move it."""
    subject, regions = load_brain(), end_regions()
    labels = np.zeros(subject.fods.shape, np.uint8)
    for number, region in enumerate(regions, 1):
        labels[region.voxels & (labels == 0)] = number
    names = {number: region.name for number, region in enumerate(regions, 1)}
    viewer = napari.Viewer()
    viewer.window._qt_window.setGeometry(0, 0, 1280, 800)
    viewer.add_layer(Layer.create(*fod_layer(subject.fods, "brain")))
    about = {STRUCTURES: names}
    ends = volume_layer(labels, subject.fods.affine, "ends", kind="labels", metadata=about, visible=False)
    viewer.add_layer(Layer.create(*ends))
    panel = FlowPanel(viewer)
    panel.choose_device(device)
    viewer.window.add_dock_widget(panel, name="Fiber flow")
    viewer.dims.set_point(0, START_MM[2])
    wait(lambda: not panel.warmup_process)
    begun = time.perf_counter()
    panel.place(START_MM)
    wait(lambda: panel.found is not None and not panel.is_busy)
    ready, spent, (x, y, z) = time.perf_counter() - begun, [], START_MM
    for number in range(1, moves + 1):
        before, begun = panel.found, time.perf_counter()
        panel.place((x + 0.1 * number, y - number, z))
        wait(lambda before=before: panel.found is not before)
        QApplication.processEvents()  # which draws
        spent.append(1e3 * (time.perf_counter() - begun))
        wait(lambda: not panel.is_busy)
    found = panel.found
    assert found is not None
    flow = found.moved.flow
    panel.teardown()
    viewer.close()
    count = len(flow.ground.fixels.amplitudes)
    return {"moves_ms": spent, "ready_s": ready, "fixels": count, "regions": len(flow.ground.names)}


if __name__ == "__main__":
    main()
