"""Which stretches of the GUI thread are longer than 50 ms, and who spends them: this package, napari, vispy, Qt.

Run under a display::

    xvfb-run -a -s "-screen 0 1280x800x24" python benchmarks/stretches.py [--only undo glyphs]

What is long at a time is done in a window with all panels: undo and redo of all layers at once, glyphs of FODs, a
denoised volume, a session, profiles along a million fibers, linked views of three volumes. The stack of the GUI thread
is looked at every 5 ms while its event loop is late, as `walk` does it. A stretch counts as ours as far as a function
of this package is on the stack, whoever is called by it; what is drawn, in software here, is apart. On a busy machine
what counts is how long the thread computed, not the clock, and of that what our own functions did ("own"), with what
they called in the standard library and in Qt.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import napari
import numpy as np
from common import argument_parser, header, header_lines, line, publish, result_path, table
from qtpy.QtWidgets import QApplication

sys.path[:0] = [str(Path(__file__).parent / "walk"), str(Path(__file__).parent / "story")]

from rules import Ledger  # noqa: E402
from scene import open_panels, open_samples  # noqa: E402
from streamlines_layer import wavy_bundle  # noqa: E402
from watch import Watch  # noqa: E402

from napari_gpubio.core.napari_io import volume_layer  # noqa: E402
from napari_gpubio.gui.history import history_of  # noqa: E402
from napari_gpubio.gui.switcher import open_panel  # noqa: E402
from napari_gpubio.tractograms import Tractogram  # noqa: E402
from napari_gpubio.tractograms.gui.fibers import fiber_layer  # noqa: E402

FIBERS, POINTS, SIDE = 1_000_000, 20, 256
QUIET_S, AT_MOST_S = 1.0, 120.0
LONG_S = 0.05
Step = tuple[str, Callable[[], Any]]


class Window:
    """A napari window, as `story.person.Person` asks it, without a person."""

    def __init__(self) -> None:
        self.viewer = napari.Viewer()
        window = self.viewer.window._qt_window
        window.setGeometry(window.screen().geometry())
        self.ledger, self.watch = Ledger(self.viewer), Watch()

    def ask(self, act: Callable[[], Any]) -> Any:
        """Do something, and let the window follow."""
        found = act()
        self.settle()
        return found

    def settle(self) -> None:
        """Wait until no panel is busy for a while."""
        end, quiet = time.monotonic() + AT_MOST_S, time.monotonic() + QUIET_S
        while time.monotonic() < min(end, quiet):
            QApplication.processEvents()
            if self.ledger.busy():
                quiet = time.monotonic() + QUIET_S
            time.sleep(0.002)

    def close(self) -> None:
        """Close the window without a word."""
        self.watch.end()
        self.viewer.close()
        QApplication.processEvents()


def undo(window: Window) -> Iterator[Step]:
    """Delete all layers of a brain and its results at once, and take that back."""
    open_samples(window, is_brain=True)
    open_panels(window)
    for name in ("Diffusion tensors", "Fiber orientations"):
        window.ask(open_panel(window.viewer, name).run)
    history, layers = history_of(window.viewer), window.viewer.layers
    history.note_act()
    window.ask(layers.clear)
    yield "undo: all layers come back", history.undo
    print(len(layers), "layers")
    yield "redo: all layers go", history.redo
    yield "undo again", history.undo


def glyphs(window: Window) -> Iterator[Step]:
    """Move over the slices of a brain with glyphs of FODs."""
    open_samples(window, is_brain=True)
    panel = open_panel(window.viewer, "Fiber orientations")
    yield "FODs are run", panel.run
    for by in (1, 2, 3):
        point = [value + 2.0 * by for value in window.viewer.dims.point]
        yield f"glyphs of slice {by}", lambda point=point: window.viewer.dims.set_point(range(len(point)), point)


def denoise(window: Window) -> Iterator[Step]:
    """Denoise a head, twice."""
    open_samples(window, is_brain=False)
    open_panels(window)
    panel = open_panel(window.viewer, "Denoise")
    window.settle()
    yield "a first result of the denoiser", panel.run
    yield "the same again", panel.run


def session(window: Window) -> Iterator[Step]:
    """Save a brain with its results, and open it."""
    open_samples(window, is_brain=True)
    open_panels(window)
    window.ask(open_panel(window.viewer, "Diffusion tensors").run)
    panel = open_panel(window.viewer, "Session")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.zip"
        yield "a session is saved", lambda: panel.save(path)
        window.ask(window.viewer.layers.clear)
        yield "a session is opened", lambda: panel.open(path)
        yield "its results are made", panel.run


def profiles(window: Window) -> Iterator[Step]:
    """Measure along many fibers."""
    points, offsets = wavy_bundle(FIBERS, POINTS)
    affine = np.diag([1.0, 1.0, 1.0, 1.0])
    fibers = Tractogram(points=points, offsets=offsets, affine=affine, shape=(120, 120, 120))
    data, keywords, _ = volume_layer(np.random.default_rng(0).random((120,) * 3, np.float32), affine, "image")
    window.viewer.add_image(data, **keywords)
    window.viewer.add_layer(fiber_layer(fibers, "fibers", beside=window.viewer.layers))
    window.settle()
    yield "Bundle profiles is opened", lambda: open_panel(window.viewer, "Bundle profiles")
    panel = open_panel(window.viewer, "Bundle profiles")
    yield f"profiles of {FIBERS:,} fibers", panel.run
    yield "and again", panel.run


def linked(window: Window) -> Iterator[Step]:
    """Open the linked views of three volumes, and move."""
    for number in range(3):
        array = np.random.default_rng(number).random((SIDE,) * 3, np.float32)
        data, keywords, _ = volume_layer(array, np.diag([0.5, 0.5, 0.5, 1.0]), f"image {number}")
        window.viewer.add_image(data, **keywords)
    window.settle()
    yield f"linked views of three {SIDE}³ images are opened", lambda: open_panel(window.viewer, "Linked views")
    views = open_panel(window.viewer, "Linked views")
    yield "the crosshair moves", lambda: views.go((40.0, 40.0, 40.0))


SCENES = {scene.__name__: scene for scene in (undo, glyphs, denoise, session, profiles, linked)}


def measured(name: str) -> list[dict[str, Any]]:
    """Do what a scene has; returns a row for each stretch."""
    window, rows = Window(), []
    for what, act in SCENES[name](window):
        window.watch.blocked.clear()
        window.ask(act)
        for one in window.watch.blocked:
            if one.ours > LONG_S:
                rows.append({"scene": name, "what": what, **vars(one)})
        print(f"{what}: {[round(1000 * row['ours']) for row in rows if row['what'] == what]} ms", flush=True)
    window.close()
    return rows


def lines_of(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each thing that was done: its stretches, and who spent the longest."""
    for what in dict.fromkeys(row["what"] for row in rows):
        own = sorted((row for row in rows if row["what"] == what), key=lambda row: -row["cpu_seconds"])
        cpu, ours = own[0]["cpu_seconds"], max(row["ours"] for row in own)
        share = ", ".join(f"{name} {1000 * s:.0f}" for name, s in own[0]["packages"].items() if s > 0.1 * cpu)
        computing = sum(row["cpu_seconds"] > LONG_S for row in own)
        most = max(row["packages"].get("own", 0.0) for row in own)
        counts = f"{computing} of {len(own)}"
        yield line(
            what, counts, f"{1000 * ours:.0f}", f"{1000 * cpu:.0f}", share, f"{1000 * most:.0f}", own[0]["where"]
        )  # fmt: skip


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=SCENES, default=list(SCENES))
    options = parser.parse_args()
    results = header(quick=False) | {"napari": napari.__version__, "rows": []}
    for name in options.only:
        results["rows"] += measured(name)
    titles = (
        "what",
        "> 50 ms computing",
        "longest [ms]",
        "computing [ms]",
        "of that in [ms]",
        "most of ours [ms]",
        "GUI thread in",
    )
    text = ["# Stretches of the GUI thread", "", *header_lines(results), ""]
    text += [*table(titles, [*lines_of(results["rows"])]), ""]
    publish(result_path(options.json, "stretches", results["date"]), results, "\n".join(text))


if __name__ == "__main__":
    main()
