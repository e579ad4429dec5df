"""The parts of the story."""

from pathlib import Path
from typing import Any

import data
import numpy as np
from person import Person, inside
from qtpy.QtCore import QPointF

from napari_gpubio.core.files import sample_path
from napari_gpubio.gui.streamlines.color_box import ColorByBox
from napari_gpubio.gui.views import camera_of

PLUGIN = "napari-gpubio"


def _panel(person: Person, title: str) -> Any:
    """Open a panel from the menu."""
    person.menu("Plugins", PLUGIN, title)
    return person.wait(lambda: _shown_panel(person, title), title)


def _shown_panel(person: Person, title: str) -> Any:
    docks = person.viewer.window.dock_widgets
    return next((panel for name, panel in docks.items() if name.startswith(title)), None)


def _sample(person: Person, title: str) -> None:
    person.menu("File", "Open Sample", PLUGIN, title)
    person.wait(lambda: len(person.viewer.layers) > 0, title)


def _fibers(person: Person) -> list[Any]:
    return [layer for layer in person.viewer.layers if type(layer).__name__ == "Streamlines"]


def brain_scene(person: Person, folder: Path, source: Path | None) -> None:
    """A scan, images on a tilted grid, fibers by a click and a drag, their colors, linked views."""
    files = data.brain(folder, source)
    person.open(files.scan)
    person.picture("a scan opens on its b = 0 mean")
    person.open(files.t1)
    person.ask(
        lambda: person.viewer.dims.set_point(
            range(person.viewer.dims.ndim - 3, person.viewer.dims.ndim), files.click_mm[::-1]
        )
    )
    person.picture("an image on a tilted grid lies in register")
    panel = _panel(person, "Fiber tracking")
    person.picture("the panel before the first click")
    at = person.on_canvas(files.click_mm)
    person.click_at(at)
    person.wait(lambda: not panel.running and _fibers(person), "fibers", 240)
    person.picture("fibers of a click")
    person.drag(at, (at[0] + 30, at[1] - 8))
    person.wait(lambda: not panel.running, "fibers of the drag")
    person.picture("fibers after a drag")
    person.open(files.fa)
    person.picture("FA of the tilted grid")
    person.layer(_fibers(person)[0].name)
    person.choose(person.wait(lambda: person.seen(ColorByBox), "the list of colors"), f"image: {files.fa.stem}")
    person.picture("fibers colored by FA of the tilted grid")
    views = _panel(person, "Linked views")
    person.picture("three linked views")
    coronal = views.panes["coronal"].view
    x, y, z = files.click_mm
    person.click_at(person.on_canvas((x + 20, y, z + 10), coronal))
    person.picture("all views after a click in the coronal one")


def connections_scene(person: Person, _folder: Path, _source: Path | None) -> None:
    """An atlas, two regions, their routes by score, a profile, a connectome and the fibers of a cell."""
    _sample(person, "Brain phantom")
    _sample(person, "Brain phantom regions")
    person.picture("regions of an atlas")
    panel = _panel(person, "Connect regions")
    person.picture("the panel before a run")
    person.click(panel.run_button, "Connect")
    person.wait(lambda: not panel.running and panel.table.rowCount(), "routes", 240)
    person.picture("routes by score")
    for row in range(3):
        person.click_at(person.ask(lambda row=row: _row(panel.table, row)))
        person.picture(f"route {row + 1} alone")
    person.click(person.button(panel, "All routes"), "All routes")
    profiles = _panel(person, "Bundle profiles")
    person.click(profiles.run_button, "Measure")
    person.wait(lambda: not profiles.running and profiles.table.rowCount(), "the profile", 120)
    person.picture("profile of FA along the routes")
    person.open(sample_path("brain_phantom/bundles.trk"))
    person.picture("bundles of a file")
    connectome = _panel(person, "Connectome")
    person.click(connectome.run_button, "Count")
    person.wait(lambda: not connectome.running and connectome.results.table.isVisible(), "the matrix", 120)
    person.picture("connectome")
    person.click_at(person.ask(lambda: _cell(connectome)))
    person.picture("fibers of the largest cell")
    person.choose(connectome.kind, "new geodesics")
    person.click(connectome.run_button, "Count")
    person.wait(lambda: connectome.running, "the run")
    person.wait(lambda: not connectome.running, "geodesics between all regions", 400)
    person.click_at(person.ask(lambda: _cell(connectome)))
    person.picture("best geodesics of the largest cell")


def certainty_scene(person: Person, _folder: Path, _source: Path | None) -> None:
    """Fibers of a click, and how certain they are."""
    _sample(person, "Brain phantom")
    tracking, seed = _panel(person, "Fiber tracking"), (0.0, -5.0, 22.0)
    dims = person.viewer.dims
    person.ask(lambda: dims.set_point(range(dims.ndim - 3, dims.ndim), seed[::-1]))
    person.click_at(person.on_canvas(seed))
    person.wait(lambda: not tracking.running and _fibers(person), "fibers", 240)
    panel = _panel(person, "Fiber uncertainty")
    person.picture("the panel before a run")
    person.click(panel.run_button, "Bootstrap")
    person.wait(lambda: panel.running, "the run")
    person.picture("while it runs", settle_s=5.0)
    person.wait(lambda: not panel.running, "the intervals", 560)
    person.picture("where fibers pass how often, and intervals")


def crossing_scene(person: Person, folder: Path, source: Path | None) -> None:
    """A raw scan, its noise taken out, FODs where bundles cross, a click there, and both bundles to a region."""
    files = data.brain(folder, source)
    person.open(files.scan)
    person.picture("a raw scan")
    tensors = _panel(person, "Diffusion tensors")
    person.click(person.button(tensors, "Denoise"), "Denoise")
    layers = person.viewer.layers
    person.wait(lambda: not tensors.running and any("denoised" in layer.name for layer in layers), "denoised", 300)
    person.picture("the scan without its noise")
    person.click(person.button(tensors, "Residual / σ…"), "the histogram")
    person.picture("what was taken away, over the noise level")
    person.ask(tensors.noise_box.plot.detach)
    fods = _panel(person, "Fiber orientations")
    person.picture("the panel before a run")
    person.click(fods.run_button, "Deconvolve")
    person.wait(lambda: not fods.running and fods.fods is not None, "FODs", 300)
    person.ask(lambda: _look_at(person, files.crossing_mm, zoom=12.0))
    person.wait(lambda: not fods.is_busy, "glyphs")
    person.picture("glyphs where bundles cross", settle_s=2.0)
    tracking = _panel(person, "Fiber tracking")
    person.choose(tracking.source_box, fods.fod_box.currentText())
    person.click_at(person.on_canvas(files.crossing_mm))
    person.wait(lambda: not tracking.running and _fibers(person), "fibers", 240)
    person.ask(lambda: _look_at(person, files.crossing_mm, zoom=4.0))
    person.picture("both bundles of a click", settle_s=2.0)
    person.ask(lambda: setattr(person.viewer.dims, "ndisplay", 3))
    person.picture("both bundles in space", settle_s=2.0)
    _from_region_to_region(person, tracking, files.atlas)


def _from_region_to_region(person: Person, tracking: Any, atlas: Path) -> None:
    """Fibers of all white matter, and those of them that connect two regions."""
    person.click(person.button(tracking, "Whole brain"), "Whole brain")
    person.wait(lambda: not tracking.running and "white matter" in person.viewer.layers, "the white matter")
    person.picture("white matter to seed from")
    person.ask(lambda: setattr(tracking.directions_form.widget("count"), "value", 1))
    person.click(tracking.run_button, "Track")
    person.wait(lambda: tracking.running, "the run")
    person.wait(lambda: not tracking.running, "all fibers", 400)
    for name in ("white matter", "bundle 1"):
        person.ask(lambda name=name: setattr(person.viewer.layers[name], "visible", False))
    person.picture("fibers of the white matter", settle_s=4.0)
    person.ask(lambda: setattr(person.viewer.dims, "ndisplay", 2))
    person.open(atlas)
    connectome = _panel(person, "Connectome")
    person.choose(connectome.fiber_source.box, "white matter 1")
    person.click(connectome.run_button, "Count")
    person.wait(lambda: not connectome.running and connectome.results.table.isVisible(), "the matrix", 240)
    person.picture("how many fibers connect each two regions")
    person.click_at(person.ask(lambda: _cell(connectome)))
    person.picture("fibers of the largest cell", settle_s=3.0)
    person.ask(lambda: setattr(person.viewer.dims, "ndisplay", 3))
    person.picture("these fibers in space", settle_s=3.0)


def _look_at(person: Person, point_mm: tuple[float, float, float], zoom: float) -> None:
    """Show the coronal slice of a point, enlarged."""
    viewer = person.viewer
    first = viewer.dims.ndim - 3
    viewer.dims.order = (*range(first), first + 1, first, first + 2)
    viewer.dims.set_point(range(first, viewer.dims.ndim), point_mm[::-1])
    camera = camera_of(viewer)
    camera.center, camera.zoom = (0.0, point_mm[2], point_mm[0]), zoom


def _row(table: Any, row: int) -> tuple[int, int]:
    """Where a row of a table is on the screen."""
    return inside(table.viewport(), table.visualItemRect(table.item(row, 1)))


def _cell(panel: Any) -> tuple[int, int]:
    """Where the largest cell of a matrix is on the screen."""
    matrix = np.nan_to_num(panel.matrix())
    row, column = np.unravel_index(int(np.argmax(matrix)), matrix.shape)
    at = panel.plot.mapFromScene(panel.plot.plotItem.vb.mapViewToScene(QPointF(float(column), float(row))))
    on_screen = panel.plot.mapToGlobal(at)
    return on_screen.x(), on_screen.y()


def light_scene(person: Person, _folder: Path, _source: Path | None) -> None:
    """A source on the sample head, a run, Clean, Dose by region."""
    _sample(person, "Head phantom")
    person.picture("the sample head")
    panel = _panel(person, "Light transport")
    person.picture("the panel before a source")
    person.click_at(person.on_canvas(person.ask(lambda: _front(person))))
    person.picture("a source by a click")
    person.click(panel.run_button, "Run")
    person.wait(lambda: panel.running, "the run")
    person.picture("while it runs", settle_s=3.0)
    person.wait(lambda: not panel.running, "the result", 400)
    person.picture("fluence")
    person.click(person.button(panel, "Clean"), "Clean")
    layers = person.viewer.layers
    person.wait(lambda: any(layer.name.startswith("cleaned") for layer in layers), "the cleaned fluence", 400)
    person.picture("cleaned")
    person.click(person.button(panel, "Dose by region"), "Dose by region")
    dose = person.wait(lambda: _shown_panel(person, "Dose"), "the dose panel")
    person.wait(lambda: not dose.running and not dose.empty.isVisible(), "the histograms", 120)
    person.picture("dose by region")
    person.tab(dose.tabs, 0)
    person.picture("dose by region, numbers")


def _front(person: Person, labels: Any = None) -> tuple[float, ...]:
    """A point at the front of a head (by default the topmost layer), left of the middle, in the slice on screen."""
    labels, point = labels or person.viewer.layers[-1], person.viewer.dims.point
    index = round(labels.world_to_data(point)[0])
    plane = np.asarray(labels.data[index])
    column = round(0.35 * plane.shape[1])
    rows = np.flatnonzero(plane[:, column])
    front = max((labels.data_to_world((index, row, column)) for row in rows[[0, -1]]), key=lambda zyx: zyx[1])
    return tuple(float(value) for value in front[::-1])


def dose_scene(person: Person, _folder: Path, _source: Path | None) -> None:
    """Contours, plan and histograms of the sample treatment."""
    _sample(person, "Treatment phantom")
    person.picture("dose and contours")
    panel = _panel(person, "Dose-volume histogram")
    person.picture("the panel before a run")
    person.click(panel.run_button, "Run")
    person.wait(lambda: not panel.running and not panel.empty.isVisible(), "the histograms", 120)
    person.picture("histograms")
    for index in range(person.ask(panel.tabs.count)):
        person.tab(panel.tabs, index)
        person.picture(f"tab {person.ask(lambda index=index: panel.tabs.tabText(index))}")
