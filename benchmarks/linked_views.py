"""What one move of the crosshair costs until everything is drawn: the main view alone, and with the linked views.

Run under a display::

    xvfb-run -a -s "-screen 0 1600x1000x24" python benchmarks/linked_views.py --out results.json

An image of 256^3 voxels and fibers of 100 points. On a software renderer only the ratios mean something; what is
measured with all draws of OpenGL left out is about what a move costs where a graphics card draws.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import napari
import numpy as np
from common import header
from qtpy.QtWidgets import QApplication
from streamlines_layer import POINTS, wavy_bundle
from vispy.gloo import gl, glir

from napari_gpubio.core.napari_io import volume_layer
from napari_gpubio.gui.streamlines import Streamlines

SIDE, MOVES = 256, 7
BOX_MM = 128.0


def drawn_ms(go: Callable[[Any], None], place: Any, canvases: list[Any]) -> tuple[float, int]:
    """Milliseconds from a move of the viewer's point until every canvas has drawn it, and how often one drew."""
    drawn = [0] * len(canvases)

    def count(index: int) -> Any:
        def on_draw(_: Any) -> None:
            drawn[index] += 1

        return on_draw

    listeners = [canvas.events.draw.connect(count(index)) for index, canvas in enumerate(canvases)]
    start = time.perf_counter()
    go(place)
    QApplication.processEvents()
    while not all(drawn):
        QApplication.processEvents()
    for canvas in canvases:
        canvas.set_current()
        gl.glFinish()
    spent = 1e3 * (time.perf_counter() - start)
    for canvas, listener in zip(canvases, listeners, strict=True):
        canvas.events.draw.disconnect(listener)
    return spent, sum(drawn)


def settle() -> None:
    """Let the main view arrive where the last series of moves ended."""
    end = time.perf_counter() + 2.0
    while time.perf_counter() < end:
        QApplication.processEvents()


def moves_ms(go: Callable[[Any], None], canvases: list[Any]) -> dict[str, float]:
    settle()
    places = 0.5 * BOX_MM + np.random.default_rng(2).uniform(-20, 20, (MOVES, 3))
    for place in places[:3]:
        drawn_ms(go, place + 1, canvases)
    moves = [drawn_ms(go, place, canvases) for place in places]
    times = sorted(spent for spent, _ in moves)
    return {
        "best_ms": round(times[0], 1),
        "median_ms": round(times[MOVES // 2], 1),
        "draws_of_a_canvas": round(sum(draws for _, draws in moves) / MOVES / len(canvases), 2),
    }


@contextmanager
def without_draws() -> Iterator[None]:
    """Let OpenGL draw nothing; buffers and textures are uploaded."""
    with patch.object(glir.GlirProgram, "draw", lambda *_, **__: None):
        yield


def canvas_of(qt_viewer: Any) -> Any:
    return qt_viewer.canvas._scene_canvas


def measure(viewer: napari.Viewer, fibers: int) -> dict[str, Any]:
    affine = np.diag([BOX_MM / SIDE] * 3 + [1.0])
    data, keywords, _ = volume_layer(np.random.default_rng(0).random((SIDE,) * 3, np.float32), affine, "image")
    viewer.add_image(data, **keywords, contrast_limits=(0, 1))
    main = canvas_of(viewer.window._qt_window._qt_viewer)
    viewer.dims.ndisplay = 2
    move_main = partial(viewer.dims.set_point, range(3))
    figures: dict[str, Any] = {"fibers": fibers, "single_2d_image": moves_ms(move_main, [main])}
    points, offsets = wavy_bundle(fibers, POINTS)
    viewer.add_layer(Streamlines(points[:, ::-1] * 1.28, offsets, name="fibers", units=("mm",) * 3))
    figures["single_2d"] = moves_ms(move_main, [main])
    start = time.perf_counter()
    try:
        _, views = viewer.window.add_plugin_dock_widget("napari-gpubio", "Linked views")
    except (KeyError, ValueError):  # a version without linked views, measured for comparison
        return figures
    while not getattr(views, "is_ready", True):
        QApplication.processEvents()
    figures["open_s"] = round(time.perf_counter() - start, 2)
    panes = [canvas_of(pane.view) for pane in views.panes.values()]
    figures["three_panes"] = moves_ms(views.go, panes)
    figures["three_panes_and_3d"] = moves_ms(views.go, [*panes, main])
    with without_draws():
        figures["three_panes_and_3d_without_draws"] = moves_ms(views.go, [*panes, main])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fibers", type=int, nargs="+", default=[30_000, 100_000])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = []
    for fibers in options.fibers:
        viewer = napari.Viewer(show=True)
        viewer.window._qt_window.resize(1400, 900)
        results.append(measure(viewer, fibers))
        viewer.close()
    report = {**header(quick=False), "figures": results}
    print(json.dumps(report, indent=1))
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
