"""Two stories of what once went wrong in the window: each fault is tried with real events, with what came of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scenes
from person import Person, inside
from qtpy.QtWidgets import QAbstractButton, QApplication, QLineEdit, QMessageBox

from napari_gpubio.core.files import sample_path
from napari_gpubio.core.napari_io import carried
from napari_gpubio.gui.anatomy import orientation_of

CLICK_MM = (0.0, -5.0, 22.0)  # in the corpus callosum of the sample brain
AS_STORED = ("down", "right")  # where rows and columns of a frame go


@dataclass
class Tried:
    """Which faults were tried how, and whether they are gone."""

    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, fault: str, how: str, gone: Callable[[], Any]) -> None:
        """Try one; an error in the try itself is written down, and the story goes on."""
        try:
            found = "yes" if gone() else "NO"
        except Exception as error:  # noqa: BLE001 - the other faults are tried all the same
            found = f"not tried: {type(error).__name__} {error}"
        self.rows.append((fault, how, found.replace("\n", " ")))
        print(f"{found}: {fault}", flush=True)

    def write(self, path: Path) -> None:
        """Write the table."""
        lines = [" | ".join(("", *row, "")).strip() for row in self.rows]
        path.write_text("\n".join(["| fault | tried how | gone? |", "|---|---|---|", *lines, ""]), encoding="utf-8")


def faults_brain(person: Person, folder: Path, _source: Path | None) -> None:
    """Rules, bundles, seeds and scans that once changed unasked, and keys that went astray."""
    ask, viewer, tried = person.ask, person.viewer, Tried()
    scenes._sample(person, "Brain phantom (")
    person.picture("the demo opens")
    tracking = scenes._panel(person, "Fiber tracking")
    ask(lambda: viewer.dims.set_point(range(viewer.dims.ndim - 3, viewer.dims.ndim), CLICK_MM[::-1]))
    at = person.on_canvas(CLICK_MM)
    person.click_at(at)
    person.wait(lambda: not tracking.is_busy and scenes._fibers(person), "fibers", 240)
    person.picture("fibers of a click")
    bundle = ask(lambda: scenes._fibers(person)[0])
    _seed_keys(person, tracking, bundle, tried)
    _wheel_and_clicks(person, tracking, at, tried)
    person.open(sample_path("brain_phantom/bundles.trk"))
    foreign = ask(lambda: scenes._fibers(person)[-1])
    _rules(person, bundle, foreign, tried)
    _fods(person, tracking, tried)
    _connectome(person, foreign, tried)
    _whole_brain(person, tracking, tried)
    _ellipsoids(person)
    _session(person, folder / "brain.zip", tried)
    _glyphs_follow(person, tried)
    tried.write(person.folder / "faults_brain.md")


def _seed_keys(person: Person, tracking: Any, bundle: Any, tried: Tried) -> None:
    """The seed by arrow keys; Escape stops."""
    before = person.ask(lambda: _points(bundle))
    person.key("Right")
    moved = lambda: not (tracking.is_busy or np.array_equal(_points(bundle), before))  # noqa: E731
    tried.add("10: the seed cannot be moved by keys", "Right on the canvas", lambda: person.wait(moved, "fibers", 60))
    person.picture("the seed a voxel to the right by a key")
    after = person.ask(lambda: _points(bundle))
    person.key("ctrl+z")
    tried.add(
        "undo leaves fibers as they are", "Ctrl+Z on the canvas",
        lambda: person.wait(lambda: np.array_equal(_points(bundle), before), "the fibers before", 10),
    )  # fmt: skip
    person.picture("the seed where it was by undo")
    person.key("ctrl+shift+z")
    tried.add(
        "redo does not make them again", "Ctrl+Shift+Z on the canvas",
        lambda: person.wait(lambda: np.array_equal(_points(bundle), after), "the fibers after", 10),
    )  # fmt: skip


def _points(bundle: Any) -> Any:
    """Points of the fibers of a layer."""
    return carried(bundle, "tractogram").points


def _wheel_and_clicks(person: Person, tracking: Any, at: tuple[int, int], tried: Tried) -> None:
    viewer, ask = person.viewer, person.ask
    first = ask(lambda: viewer.dims.current_step)
    person.wheel(at, 2, keys=("ctrl",))
    now = ask(lambda: viewer.dims.current_step)
    tried.add(
        "2: Ctrl+wheel steps the hidden volume axis", "Ctrl and two notches over the canvas",
        lambda: now[:-3] == first[:-3] and now[-3:] != first[-3:],
    )  # fmt: skip
    person.wheel(at, -2, keys=("ctrl",))
    count = len(scenes._fibers(person))
    person.click_at((at[0] + 40, at[1] + 10), keys=("shift",))
    tried.add(
        "2: Shift+click fails", "Shift and a click beside the seed: another bundle",
        lambda: person.wait(lambda: len(scenes._fibers(person)) > count and not tracking.is_busy, "a bundle", 60),
    )  # fmt: skip
    person.picture("another bundle by Shift and a click")
    scan = ask(lambda: next(layer for layer in viewer.layers if layer.ndim == 4 or "phantom" in layer.name))
    person.layer(ask(lambda: scan.name))
    box = ask(lambda: next(box for box in tracking.findChildren(QLineEdit) if box.isVisible() and box.isEnabled()))
    look = lambda: (str(scan.mode), viewer.dims.ndisplay, scan.visible, len(viewer.layers))  # noqa: E731
    before = ask(look)
    person.click(box, "a field")
    person.key("ctrl+a")
    person.type("1234567vgmpcabc")
    tried.add(
        "2: what is typed in a field reaches napari's shortcuts", "every digit and letters of tools in a field",
        lambda: ask(look) == before,
    )  # fmt: skip
    count = len(scenes._fibers(person))
    person.key("ctrl+z")
    tried.add(
        "Ctrl+Z in a field takes a bundle back", "Ctrl+Z behind the digits that were typed",
        lambda: len(scenes._fibers(person)) == count,
    )  # fmt: skip
    person.picture("after letters in a field, and Ctrl+Z")
    person.key("ctrl+a")
    person.type("3")
    person.key("Tab")


def _rules(person: Person, bundle: Any, foreign: Any, tried: Tried) -> None:
    """A rule's sphere, and then its bundle, are deleted."""
    ask, viewer = person.ask, person.viewer
    panel = scenes._panel(person, "Dissect fibers")
    person.choose(panel.fibers_box, ask(lambda: bundle.name))
    person.click(person.button(panel, "Add sphere"), "Add sphere")
    person.wait(lambda: not panel.running, "the rule")
    person.picture("a sphere", settle_s=1.5)
    kept, sphere = ask(lambda: int(bundle.shown.sum())), ask(lambda: panel.rules.rules()[0].layer)
    _delete(person, sphere)
    person.picture("the sphere was deleted", settle_s=1.5)
    tried.add(
        "1: deleting a sphere moves its rule to other points", "the sphere deleted in napari's list",
        lambda: ask(lambda: panel.rules.rules()[0].layer is sphere and int(bundle.shown.sum()) == kept),
    )  # fmt: skip
    all_shown = ask(lambda: int(foreign.shown.sum()))
    _delete(person, bundle)
    person.picture("the bundle was deleted", settle_s=1.5)
    tried.add(
        "1: deleting the bundle moves the rules to a foreign tractogram", "the bundle deleted in napari's list",
        lambda: ask(lambda: panel.fibers_box.layer is not foreign and int(foreign.shown.sum()) == all_shown),
    )  # fmt: skip
    tried.add(
        "1: an input whose layer is gone shows another one", "the same",
        lambda: ask(lambda: panel.fibers_box.currentText().startswith("deleted:")),
    )  # fmt: skip
    ask(lambda: setattr(viewer.layers.selection, "active", foreign))


def _fods(person: Person, tracking: Any, tried: Tried) -> None:
    """A bundle in FODs stays as it is when the FODs go."""
    ask = person.ask
    fods = scenes._panel(person, "Fiber orientations")
    person.picture("fiber orientations before a run")
    person.click(fods.run_button, "Deconvolve")
    person.wait(lambda: not fods.running and fods.fods is not None, "FODs", 300)
    person.picture("FODs", settle_s=2.0)
    person.click(person.button(fods, "Track fibers"), "Track fibers")
    tried.add(
        "7: Track fibers… does not raise its panel", "the button of Fiber orientations",
        lambda: person.wait(lambda: tracking.is_in_front and tracking.isVisible(), "the panel", 5),
    )  # fmt: skip
    chosen = ask(lambda: tracking.source_box.layer)
    tried.add("7: Track fibers… does not hand its layer over", "the same", lambda: "FOD" in ask(lambda: chosen.name))
    known = ask(lambda: list(scenes._fibers(person)))
    x, y, z = CLICK_MM
    person.click_at(person.on_canvas((x - 15.0, y + 20.0, z)), keys=("shift",))
    person.wait(lambda: not tracking.is_busy and len(scenes._fibers(person)) > len(known), "fibers", 120)
    bundle = ask(lambda: next(layer for layer in scenes._fibers(person) if layer not in known))
    person.picture("fibers in FODs")
    lines = ask(lambda: bundle.lines)
    _delete(person, chosen)
    person.picture("the FODs were deleted", settle_s=2.0)
    tried.add(
        "1: deleting FODs traces their bundle anew in tensors", "the FOD layer deleted in napari's list",
        lambda: ask(lambda: bundle.lines is lines and not tracking.is_busy),
    )  # fmt: skip


def _connectome(person: Person, foreign: Any, tried: Tried) -> None:
    """Which fibers are counted, and whose matrix it is."""
    ask, viewer = person.ask, person.viewer
    scenes._sample(person, "Brain phantom regions")
    panel = scenes._panel(person, "Connectome")
    person.choose(panel.fiber_source.box, ask(lambda: foreign.name))
    person.click(panel.run_button, "Count")
    person.wait(lambda: not panel.running and panel.results.table.isVisible(), "the matrix", 120)
    person.picture("connectome")
    atlas = ask(lambda: next(layer for layer in viewer.layers if type(layer).__name__ == "Labels"))
    before = ask(lambda: np.array(panel.matrix()))
    _rename(person, atlas, "my atlas")
    tried.add(
        "1: renaming a layer empties or runs something", "the atlas renamed in napari's list",
        lambda: ask(lambda: np.array_equal(panel.matrix(), before) and not panel.running),
    )  # fmt: skip
    person.picture("the atlas was renamed")
    ask(lambda: setattr(viewer, "theme", "light"))
    person.picture("the light theme while the matrix is open")
    ask(lambda: setattr(viewer, "theme", "dark"))


def _whole_brain(person: Person, tracking: Any, tried: Tried) -> None:
    """What a run of the whole brain says, and what is seen of it."""
    ask, viewer = person.ask, person.viewer
    person.menu("Plugins", scenes.PLUGIN, "Fiber tracking")
    person.wait(lambda: tracking.is_in_front, "the panel")
    scan = ask(lambda: next(layer.name for layer in viewer.layers if layer.name.startswith("brain phantom")))
    person.choose(tracking.source_box, scan)
    person.click(person.button(tracking, "Whole brain"), "Whole brain")
    person.wait(lambda: not tracking.running and "white matter" in viewer.layers, "the white matter", 120)
    launch = person.wait(lambda: tracking.seed_box.launch.text(), "what Track launches", 20)
    person.picture("white matter to seed from")
    tried.add("9: Whole brain does not say how many fibers", "its button", lambda: "launches" in launch)
    person.click(tracking.run_button, "Track")
    person.wait(lambda: tracking.running, "the run")
    person.picture("while it tracks", settle_s=3.0)
    questions: list[str] = []
    cross = ask(lambda: _close_button(tracking))
    person.click_at(ask(lambda: inside(cross, cross.rect())))
    question = person.wait(lambda: next(iter(_questions()), None), "the question", 10)
    questions.append(ask(question.text))
    person.picture("closing asks")
    no = ask(lambda: question.button(QMessageBox.StandardButton.No))
    person.click_at(ask(lambda: inside(no, no.rect())))
    tried.add(
        "3: closing a panel mid-run loses the run", "the cross of its dock", lambda: "run is under way" in questions[0]
    )
    person.click_at(person.on_canvas(CLICK_MM))
    person.key("Escape")
    tried.add(
        "10: Escape does not stop", "Escape on the canvas while it tracks",
        lambda: person.wait(lambda: not tracking.running, "the stop", 60),
    )  # fmt: skip
    person.picture("stopped", settle_s=3.0)
    status = ask(lambda: tracking.status)
    tried.add("8: a stopped run says done", "the status line", lambda: status.startswith("stopped"))


def _ellipsoids(person: Person) -> None:
    """Tensors as ellipsoids, for a session."""
    panel = scenes._panel(person, "Diffusion tensors")
    shows = lambda: next(b for b in panel.findChildren(QAbstractButton) if b.text() == "Show")  # noqa: E731
    person.click(shows, "Show")
    person.wait(lambda: "ellipsoids" in person.viewer.layers, "the ellipsoids", 20)
    person.picture("ellipsoids")


def _session(person: Person, path: Path, tried: Tried, *, embeds: bool = False) -> None:
    """All that is shown is saved, perhaps with the files, napari closed, and the session opened in a new window."""
    ask = person.ask
    panel = scenes._panel(person, "Session")
    before = ask(lambda: _looks(person.viewer))
    if embeds:
        person.click(panel.embed_box, "with the files that were opened")
    person.click(panel.save_button, "Save session…")
    person.name_file(path)
    person.wait(lambda: path.exists() and not panel.running, "the session", 120)
    person.picture("the session is saved")
    person.start_anew()
    panel = scenes._panel(person, "Session")
    person.picture("a new window")
    person.click(panel.open_button, "Open session…")
    person.name_file(path)
    person.wait(lambda: not panel.running and len(person.viewer.layers) > 0, "what was saved", 120)
    person.picture("the session is opened", settle_s=2.0)
    person.click(panel.run_button, "Make results")
    person.wait(lambda: not panel.running and panel.isVisible() and not panel.tree.isVisible(), "the results", 400)
    person.picture("its results are made again", settle_s=2.0)
    after = ask(lambda: _looks(person.viewer))
    for name in before.keys() | after.keys():
        if before.get(name) != after.get(name):
            print(f"{name}: {before.get(name)} -> {after.get(name)}", flush=True)
    tried.add("a session loses layers", "saved, napari closed, opened, results made", lambda: {*before} <= {*after})
    same = "the same: sums of data, to the last digit"
    tried.add("its results are others", same, lambda: all(after.get(name) == one for name, one in before.items()))


def _looks(viewer: Any) -> dict[str, tuple[str, str]]:
    """Type and sum of the data of each layer by its name; not of what panels draw at each opening."""
    found = {}
    for layer in viewer.layers:
        kind, data = type(layer).__name__, getattr(layer, "lines", layer.data)
        if kind in ("Image", "Labels"):
            found[layer.name] = kind, repr(float(np.nansum(np.asarray(data, np.float64))))
        elif kind == "Streamlines":
            found[layer.name] = kind, f"{len(data)} fibers"
        elif kind == "Surface":
            found[layer.name] = kind, f"{len(data[1])} triangles"
    return found


def _glyphs_follow(person: Person, tried: Tried) -> None:
    """Ellipsoids of a session are those of the slice on screen, not a still surface."""
    before = person.ask(lambda: np.array(person.viewer.layers["ellipsoids"].data[0]))
    at = person.on_canvas(CLICK_MM)
    person.wheel(at, 1, keys=("ctrl",))
    moved = lambda: not np.array_equal(person.viewer.layers["ellipsoids"].data[0], before)  # noqa: E731
    tried.add(
        "ellipsoids of a session are a still surface", "Ctrl and a notch over the canvas",
        lambda: person.wait(moved, "other ellipsoids", 20),
    )  # fmt: skip
    person.picture("ellipsoids of the next slice")


def faults_head(person: Person, folder: Path, _source: Path | None) -> None:
    """Sources, properties and results of a head, a plan, and frames of a camera."""
    ask, viewer, tried = person.ask, person.viewer, Tried()
    scenes._sample(person, "Head phantom")
    head = ask(lambda: viewer.layers[-1])
    panel = scenes._panel(person, "Light transport")
    person.picture("the panel before a source")
    person.click_at(person.on_canvas(ask(lambda: scenes._front(person))))
    person.wait(lambda: panel.voxels.view.displayed is not None, "a quick run")
    photons = panel.voxels.run_box.photons.text_box
    _type(person, photons, "200,000")
    person.picture("a source by a click")
    person.click(panel.run_button, "Run")
    person.wait(lambda: panel.running, "the run")
    person.wait(lambda: not panel.running, "the result", 400)
    person.picture("fluence")
    fluence = ask(lambda: next(layer for layer in viewer.layers if layer.name.startswith("fluence")))
    _light_stays(person, panel, fluence, head, tried)
    _plan(person, panel, fluence, tried)
    _session(person, folder / "head.zip", tried)
    _frames(person, tried)
    tried.write(person.folder / "faults_head.md")


def _light_stays(person: Person, panel: Any, fluence: Any, head: Any, tried: Tried) -> None:
    """What is typed and clicked leaves the result alone until Run, and the panel says what is different."""
    ask, viewer, mode = person.ask, person.viewer, panel.voxels
    data = ask(lambda: fluence.data)
    _type(person, mode.run_box.photons.text_box, "400,000")
    tried.add(
        "3: editing Photons throws a finished run away", "400,000 typed in the field",
        lambda: ask(lambda: fluence in viewer.layers and fluence.data is data),
    )  # fmt: skip
    painted, labels = ask(lambda: head.data.copy()), ask(lambda: str(head.mode))
    person.layer(ask(lambda: head.name))
    view = mode.table.view
    person.click(view, "the table")
    person.type("4.5")
    person.key("Return")
    person.picture("4.5 in the table of optical properties")
    person.click_at(person.on_canvas(ask(lambda: scenes._front(person, head))))
    tried.add(
        "2: 4.5 in the table turns to the fill bucket", "4.5 typed in a cell, and a click in the head",
        lambda: ask(lambda: str(head.mode) == labels and np.array_equal(head.data, painted)),
    )  # fmt: skip
    person.picture("after a click in the head", settle_s=2.0)
    person.click(person.button(panel, "quick run"), "quick runs, off")
    x, y, z = ask(lambda: scenes._front(person, head))
    person.click_at(person.on_canvas((-x, y, z)))
    tried.add(
        "3: a result does not say that it was made with another source", "a click elsewhere, without quick runs",
        lambda: person.wait(lambda: panel.stale_line.isVisible() and panel.stale_line.text(), "the line", 20),
    )  # fmt: skip
    person.picture("the line below the result", settle_s=1.0)
    moved, line = ask(lambda: mode.controller.optodes), panel.stale_line
    person.key("ctrl+z")
    tried.add(
        "undo leaves a moved source where it is", "Ctrl+Z on the canvas",
        lambda: person.wait(lambda: mode.controller.optodes != moved, "the source", 10),
    )  # fmt: skip
    tried.add(
        "what a result says of its inputs is not that of undo", "the same",
        lambda: person.wait(lambda: "Position" not in line.text(), "the line", 10),
    )  # fmt: skip
    person.picture("the source where it was by undo")
    person.key("ctrl+shift+z")
    tried.add(
        "redo does not move it again", "Ctrl+Shift+Z on the canvas",
        lambda: person.wait(lambda: mode.controller.optodes == moved and "Position" in line.text(), "the source", 10),
    )  # fmt: skip
    person.click(person.button(panel, "Copy as Python"), "Copy as Python")
    ask(QApplication.processEvents)
    person.picture("the script of the shown result")
    if dialog := ask(
        lambda: next((w for w in QApplication.topLevelWidgets() if w.isVisible() and w.inherits("QFileDialog")), None)
    ):
        person.key("Escape")
        del dialog
    new = ask(lambda: viewer.window._qt_viewer.layerButtons.newLabelsButton)
    person.click_at(ask(lambda: inside(new, new.rect())))
    made = ask(lambda: viewer.layers[-1])
    person.picture("new labels", settle_s=1.5)
    tried.add(
        "1: new labels inherit scalp, skull, CSF", "napari's button for new labels",
        lambda: ask(lambda: panel.voxels.labels_box.layer is head and "napari-gpubio" not in made.metadata),
    )  # fmt: skip
    _delete(person, made)


def _plan(person: Person, light: Any, fluence: Any, tried: Tried) -> None:
    """The dose panel is in front: its clicks move no source."""
    ask, viewer = person.ask, person.viewer
    scenes._sample(person, "Treatment phantom")
    dose = scenes._panel(person, "Dose-volume histogram")
    person.picture("the dose panel before a run")
    optodes, data = ask(lambda: light.voxels.controller.optodes), ask(lambda: fluence.data)
    person.click(dose.run_button, "Run")
    person.wait(lambda: not dose.running and not dose.empty.isVisible(), "the histograms", 120)
    person.picture("histograms")
    plan = ask(lambda: next(layer for layer in reversed(viewer.layers) if "dose" in layer.name.lower()))
    middle = ask(lambda: plan.data_to_world([(size - 1) / 2 for size in plan.data.shape]))
    ask(lambda: viewer.dims.set_point(range(viewer.dims.ndim - 3, viewer.dims.ndim), middle[-3:]))
    person.click_at(person.on_canvas(tuple(float(value) for value in middle[::-1])))
    person.picture("a click with the dose panel in front", settle_s=1.5)
    tried.add(
        "2: a click for the dose panel moves the hidden light panel's source", "a click in the plan",
        lambda: ask(lambda: light.voxels.controller.optodes == optodes and fluence.data is data),
    )  # fmt: skip
    step = ask(lambda: viewer.dims.current_step)
    person.key("Next")
    person.picture("isodoses of the next slice", settle_s=1.5)
    tried.add(
        "10: slices cannot be stepped by keys", "Page down on the canvas",
        lambda: ask(lambda: viewer.dims.current_step != step),
    )  # fmt: skip
    for index in range(ask(dose.tabs.count)):
        person.tab(dose.tabs, index)
        person.picture(f"tab {ask(lambda index=index: dose.tabs.tabText(index))}")
    ask(lambda: setattr(viewer, "theme", "light"))
    person.picture("the light theme while plots are open")
    ask(lambda: setattr(viewer, "theme", "dark"))


def _frames(person: Person, tried: Tried) -> None:
    """Frames of a camera, when the bodies have been closed."""
    ask, viewer = person.ask, person.viewer
    scenes._sample(person, "Flow phantom")
    for layer in ask(lambda: [one for one in viewer.layers if "speckle" not in one.name]):
        _delete(person, layer)
    person.picture("only the frames of a camera are left", settle_s=2.0)
    tried.add(
        "4: letters and flip of a closed scan stay over camera frames", "all other layers deleted",
        lambda: ask(lambda: orientation_of(viewer.camera)[1:] == AS_STORED),
    )  # fmt: skip
    panel = scenes._panel(person, "Laser speckle")
    person.picture("the speckle panel before a run")
    person.click(panel.run_button, "the run button")
    person.wait(lambda: not panel.running, "the map", 120)
    person.picture("speckle contrast", settle_s=2.0)


def _delete(person: Person, layer: Any) -> None:
    """Delete a layer in napari's list."""
    person.layer(person.ask(lambda: layer.name))
    button = person.ask(lambda: person.viewer.window._qt_viewer.layerButtons.deleteButton)
    person.click_at(person.ask(lambda: inside(button, button.rect())))
    person.wait(lambda: layer not in person.viewer.layers, "the end of a layer", 10)


def _rename(person: Person, layer: Any, name: str) -> None:
    """Rename a layer by a double click in napari's list."""
    person.layer(person.ask(lambda: layer.name))
    person.key("F2")
    person.key("ctrl+a")
    person.type(name)
    person.key("Return")


def _type(person: Person, box: Any, text: str) -> None:
    """Type a text into a field, instead of what is there."""
    person.click(box, "a field")
    person.key("ctrl+a")
    person.type(text)
    person.key("Tab")


def _close_button(panel: Any) -> QAbstractButton:
    """The cross of the dock that a panel lies in."""
    dock = panel.parentWidget()
    while not hasattr(dock, "destroyOnClose"):
        dock = dock.parentWidget()
    return dock.titleBarWidget().close_button


def _questions() -> list[QMessageBox]:
    return [one for one in QApplication.topLevelWidgets() if isinstance(one, QMessageBox) and one.isVisible()]
