"""The flow of fibers: a source that is dragged, the regions that it reaches, its routes, and how sure that is."""

from pathlib import Path
from typing import Any

import data
import faults
import scenes
from person import Person

from napari_gpubio.gui.forms import Folded

SOURCE_MM = (22.0, -10.0, 10.0)  # in the internal capsule of a head in the space of a template
REPEATS = 6


def flow_scene(person: Person, folder: Path, source: Path | None) -> None:
    """FODs of a scan, a source that is dragged, ranked regions, routes, fibers along them, repeats, a session."""
    files, ask, viewer = data.brain(folder, source), person.ask, person.viewer
    person.open(files.scan)
    atlas = files.atlas
    if source is not None:
        atlas = data.atlas_of_endings(files.scan, folder, data.all_endings(files.scan))
    fods = scenes._panel(person, "Fiber orientations")
    person.click(fods.run_button, "Deconvolve")
    person.wait(lambda: not fods.running and fods.fods is not None, "FODs", 300)
    person.picture("FODs of the scan", settle_s=2.0)
    ask(lambda: setattr(viewer.layers["FOD glyphs"], "visible", False))
    person.open(atlas)
    ask(lambda: setattr(viewer.layers[atlas.name.split(".")[0]], "opacity", 0.2))
    panel = scenes._panel(person, "Fiber flow")
    person.picture("the panel before a click")
    place = files.click_mm if source is None else SOURCE_MM
    ask(lambda: viewer.dims.set_point(range(viewer.dims.ndim - 3, viewer.dims.ndim), place[::-1]))
    at = person.on_canvas(place)
    person.click_at(at)
    _settled(person, panel, "the flow of a click", 240)
    person.picture("a click: the map of its mass, and the regions that it reaches", settle_s=2.0)
    person.drag(at, (at[0] + 24, at[1] - 14))
    _settled(person, panel, "the flow of the drag", 60)
    person.picture("dragged: map and ranks follow", settle_s=1.0)
    person.click_at(ask(lambda: scenes._row(panel.table, 0)))
    _settled(person, panel, "the routes", 240)
    person.picture("a click on a region: its routes by share and weakest link", settle_s=2.0)
    person.click_at(ask(lambda: scenes._row(panel.route_table, 0)))
    person.picture("the first route alone", settle_s=1.0)
    person.click(person.button(panel, "Fibers along…"), "Fibers along…")
    _settled(person, panel, "the fibers", 240)
    ask(lambda: setattr(viewer.dims, "ndisplay", 3))
    person.picture("fibers that follow the routes, in space", settle_s=3.0)
    ask(lambda: setattr(viewer.dims, "ndisplay", 2))
    _is_sure(person, panel)
    faults._session(person, folder / "flow.zip", faults.Tried(), embeds=True)


def _is_sure(person: Person, panel: Any) -> None:
    """How sure the ranks are: a part that is unfolded, a number that is typed, and a run."""
    part = next(one for one in person.ask(lambda: panel.findChildren(Folded)) if one.text() == "How sure")
    person.click(person.ask(part.toggleButton), "How sure")
    person.ask(lambda: setattr(panel.sure_box.form.widget("repeats"), "value", REPEATS))
    person.picture("how sure: before the run", settle_s=1.0)
    person.click(person.button(panel, "How sure…"), "How sure…")
    _settled(person, panel, "the repeats", 900)
    person.picture("intervals of the ranks over repeats of the bootstrap", settle_s=1.0)


def _settled(person: Person, panel: Any, what: str, seconds: float) -> None:
    """Wait until the panel does nothing any more."""
    person.wait(lambda: not panel.is_busy and panel.found is not None, what, seconds)
