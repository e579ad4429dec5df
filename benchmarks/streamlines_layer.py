"""Speed of the streamlines layer, main-thread time in Python, with a shown napari window.

Run under a display::

    xvfb-run -a -s "-screen 0 1600x1000x24" python benchmarks/streamlines_layer.py --out results.json

What the graphics card does is in the ``draw`` figures only, and those mean little with a software renderer.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import napari
import numpy as np
from common import header

from napari_gpubio.core.napari_io import IN_MM
from napari_gpubio.gui.lines import ByDirection, Lines, pack_lines
from napari_gpubio.gui.lines.sampling import LineImage
from napari_gpubio.gui.streamlines import Streamlines

POINTS = 100


def wavy_bundle(fibers: int, points: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Smooth random lines in a 100 mm box."""
    rng = np.random.default_rng(seed)
    start, heading = rng.random((fibers, 1, 3)) * 100, rng.normal(size=(fibers, 1, 3))
    t = np.linspace(0, 1, points)[None, :, None]
    lines = start + 40 * heading * t + 5 * np.sin(9 * t + rng.random((fibers, 1, 3)) * 6)
    return lines.reshape(-1, 3).astype(np.float32), np.arange(fibers + 1) * points


def milliseconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - start)


def best_and_median(work: Callable[[], Any], repeats: int) -> dict[str, float]:
    times = sorted(milliseconds(work) for _ in range(repeats))
    return {"best_ms": round(times[0], 2), "median_ms": round(times[len(times) // 2], 2)}


def measure(viewer: napari.Viewer, fibers: int, canvas: Any) -> dict[str, Any]:
    points, offsets = wavy_bundle(fibers, POINTS)
    rng = np.random.default_rng(1)
    numbers = {"per_fiber": {"length": rng.random(fibers)}, "per_point": {"fa": rng.random(len(points))}}
    packed: list[Lines] = []
    made: list[Streamlines] = []
    figures: dict[str, Any] = {"fibers": fibers, "points": len(points)}
    figures["construct_ms"] = round(milliseconds(lambda: Streamlines(points, offsets, **numbers)), 1)
    pack = partial(pack_lines, points, offsets, **numbers, paint=ByDirection())
    figures["pack_in_worker_ms"] = round(milliseconds(lambda: packed.append(pack())), 1)
    figures["construct_packed_ms"] = round(milliseconds(lambda: made.append(Streamlines(lines=packed[0]))), 1)
    layer = made[0]
    figures["add_ms"] = round(milliseconds(lambda: viewer.add_layer(layer)), 1)
    figures["first_draw_ms"] = round(milliseconds(canvas.grabFramebuffer), 1)

    def filtered(share: float) -> Callable[[], None]:
        masks = [rng.random(fibers) < share for _ in range(2)]

        def work() -> None:
            layer.shown = masks[0]
            masks.reverse()

        return work

    for share in (0.1, 0.5, 1.1):
        figures[f"filter_keep_{min(share, 1):g}"] = best_and_median(filtered(share), 7)
    layer.shown = None
    for choice in ("length", "fa", "uniform", "direction"):
        work = partial(setattr, layer, "color_by", choice)
        figures[f"color_by_{choice}_ms"] = round(milliseconds(work), 1)
    ray = np.array([1.0, 0.3, 0.2])
    figures["pick_3d"] = best_and_median(lambda: layer.pick((50, 50, 50), ray, [0, 1, 2], 0.5), 5)
    figures["pick_3d_everything_in_reach"] = best_and_median(lambda: layer.pick((50, 50, 50), ray, [0, 1, 2], 1e4), 3)
    figures["pick_slice"] = best_and_median(lambda: layer.pick((50, 50, 50), None, [1, 2], 0.5), 5)
    figures["slice_step"] = best_and_median(lambda: viewer.dims.set_point(0, 100 * rng.random()), 5)
    figures["draw_slice_ms"] = round(milliseconds(canvas.grabFramebuffer), 1)
    viewer.dims.ndisplay = 3
    canvas.grabFramebuffer()
    figures["draw_3d_ms"] = round(milliseconds(canvas.grabFramebuffer), 1)
    viewer.dims.ndisplay = 2
    viewer.layers.remove(layer)
    return figures


def measure_shaded(viewer: napari.Viewer, fibers: int, canvas: Any) -> dict[str, Any]:
    """From arrays to the first picture with shading, in 3-D and alone, and a later picture in each style."""
    points, offsets = wavy_bundle(fibers, POINTS)
    made: list[Streamlines] = []
    for other in viewer.layers:
        other.visible = False
    viewer.dims.ndisplay = 3
    canvas.grabFramebuffer()
    figures: dict[str, Any] = {"fibers": fibers, "points": len(points)}
    figures["added_ms"] = round(milliseconds(lambda: made.append(viewer.add_layer(Streamlines(points, offsets)))), 1)
    figures["first_draw_ms"] = round(milliseconds(canvas.grabFramebuffer), 1)
    layer = made[0]
    node = viewer.window._qt_viewer.canvas.layer_to_visual[layer].node
    figures["style"] = node.drawn_style
    for style in ("lines", "lit", "tubes"):
        layer.line_style = style
        canvas.grabFramebuffer()
        figures[f"draw_{style}"] = best_and_median(canvas.grabFramebuffer, 3)
    image = np.random.default_rng(0).random((128, 128, 128), np.float32)
    layer.color_by_image(LineImage(name="image", array=image, affine=np.eye(4)))  # compiles, if it is the first time
    layer.color_by = "direction"
    again = LineImage(name="image", array=image, affine=np.eye(4))
    figures["color_by_image_ms"] = round(milliseconds(lambda: layer.color_by_image(again)), 1)
    viewer.layers.remove(layer)
    viewer.dims.ndisplay = 2
    return figures


def measure_replace(viewer: napari.Viewer, canvas: Any) -> dict[str, Any]:
    """A seed is dragged: 1000 fibers of 300 points each time."""
    bundles = [wavy_bundle(1000, 300, seed) for seed in range(8)]
    layer = Streamlines(*bundles[0])
    viewer.add_layer(layer)
    canvas.grabFramebuffer()
    replace, replace_packed, draw = [], [], []
    for bundle in bundles * 2:
        replace.append(milliseconds(lambda bundle=bundle: layer.set_streamlines(*bundle)))
        draw.append(milliseconds(canvas.grabFramebuffer))
        lines = pack_lines(*bundle, paint=layer.paint)
        replace_packed.append(milliseconds(lambda lines=lines: layer.set_lines(lines)))
    viewer.layers.remove(layer)
    return {
        "fibers": 1000,
        "points": 300_000,
        "replace_ms": round(float(np.median(replace)), 1),
        "replace_worst_ms": round(max(replace), 1),
        "replace_packed_ms": round(float(np.median(replace_packed)), 1),
        "replace_packed_worst_ms": round(max(replace_packed), 1),
        "draw_ms": round(float(np.median(draw)), 1),
    }


def warm_up() -> None:
    """Load or compile the kernels, so that the figures are those of the work."""
    pack_lines(np.zeros((2, 3)), [0, 2], paint=ByDirection())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fibers", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results = header(quick=False) | {"napari": napari.__version__, "kernels_ms": round(milliseconds(warm_up), 1)}
    viewer = napari.Viewer(show=True)
    viewer.add_image(np.zeros((100, 100, 100), np.float32), **IN_MM)
    viewer.add_layer(Streamlines(*wavy_bundle(10, 10)))  # the first layer of a kind starts up parts of napari
    canvas = viewer.window._qt_viewer.canvas.native
    canvas.grabFramebuffer()
    results["replace"] = measure_replace(viewer, canvas)
    results["layers"] = [measure(viewer, fibers, canvas) for fibers in arguments.fibers]
    results["shaded"] = [measure_shaded(viewer, fibers, canvas) for fibers in arguments.fibers]
    viewer.close()
    text = json.dumps(results, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
