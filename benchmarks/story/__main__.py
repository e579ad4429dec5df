"""The recorded story: a person works in napari with real mouse, wheel and keys, and pictures show what is seen.

Run under a display of its own, where xdotool is installed::

    xvfb-run -a -s "-screen 0 1280x800x24" python benchmarks/story --out pictures [--parts brain dose] [--data FOLDER]

brain: a scan and images on a tilted grid, fibers by a click and a drag, colored by FA of the other grid, linked views.
connections: an atlas, the routes between two regions, a profile, a connectome and the fibers of a cell.
crossing: a raw scan, its noise taken out, FODs, and both bundles of a click where they cross.
flow: FODs, a source that is dragged, the regions that it reaches, routes to one, fibers along them, how sure that is.
certainty: fibers of a click, a bootstrap of them, and their intervals.
light: a source on the sample head, a run, Clean, Dose by region. dose: contours, plan and histograms.
bids, mcx, plan: walks of a new user with own data, from the README to a main result, and how long they take.
faults_brain, faults_head: what once went wrong in a brain; in a head, a plan and frames of a camera; with a table.
The pictures are numbered, and say what was clicked; napari's settings are those of a first start.
"""

import argparse
import faulthandler
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this working tree, installed or not
sys.path.append(str(Path(__file__).resolve().parents[1]))  # what benchmarks share

import faults
import first_hour
import flow
import scenes
from person import Person, new_window

SCENES: Mapping[str, Callable[[Person, Path, Path | None], None]] = {
    "brain": scenes.brain_scene, "connections": scenes.connections_scene,
    "certainty": scenes.certainty_scene, "crossing": scenes.crossing_scene,
    "flow": flow.flow_scene, "light": scenes.light_scene,
    "dose": scenes.dose_scene,
    **first_hour.WALKS,
    "faults_brain": faults.faults_brain, "faults_head": faults.faults_head,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    parser.add_argument("--parts", nargs="+", choices=list(SCENES), default=list(SCENES))
    parser.add_argument("--data", type=Path, help="folder with a diffusion scan; default: the sample brain")
    parser.add_argument("--theme", default="dark", choices=["dark", "light"])
    options = parser.parse_args()
    faulthandler.enable()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NAPARI_CONFIG"] = str(Path(folder) / "settings.yaml")  # as on the first day
        return max(play(part, options, Path(folder)) for part in options.parts)


def play(part: str, options: argparse.Namespace, folder: Path) -> int:
    """Play one part in a window of its own; returns the exit status."""
    import napari
    from qtpy.QtCore import QTimer

    viewer = new_window(napari.Viewer(), options.theme)
    person, failed = Person(viewer, options.out.resolve(), part), []

    def act() -> None:
        try:
            SCENES[part](person, folder, options.data.resolve() if options.data else None)
        except Exception:  # noqa: BLE001 - printed, and the window is closed
            failed.append(part)
            traceback.print_exc()
        person.ask(lambda: person.viewer.window._qt_window.close())

    story = threading.Thread(target=act, daemon=True)
    QTimer.singleShot(1500, story.start)
    napari.run()
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
