"""Copy as Python of connected regions: the tensors, the regions, and the routes as they are on screen."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from napari_gpubio.gui.script import call_text
from napari_gpubio.tracts.directions import Directions
from napari_gpubio.tracts.fods.model import FodField
from napari_gpubio.tracts.gui.region_script import ChosenRegion, region_code
from napari_gpubio.tracts.gui.script import Recipe, checked, script_text
from napari_gpubio.tracts.gui.source import Source
from napari_gpubio.tracts.routes import ConnectSettings
from napari_gpubio.tracts.settings import InTensors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Connection:
    """Everything that one run needs, read from the panel in the GUI thread.

    ``study``: name of the layer that the tensors are of; ``recipe``: see `napari_gpubio.tracts.gui.script`; ``fods``:
    those that are open, which tell about the way.
    """

    source: Source
    study: str
    recipe: Recipe
    start: ChosenRegion
    end: ChosenRegion
    settings: ConnectSettings
    directions: Directions
    tracking: InTensors
    device: str
    fods: FodField | None = None

    @property
    def name(self) -> str:
        """Name of the layer of its fibers."""
        return f"{self.start.region.name} → {self.end.region.name}"


def connect_script(connection: Connection, route: int, saved: Mapping[str, Path]) -> str:
    """Return a script that connects the regions and shows all routes, or the one with a number.

    ``saved``: files of regions that were written for it, by names of layers.
    """
    c = connection
    lines = [
        *checked(c.recipe),
        "",
        f"start = {region_code(c.start, saved)}",
        f"end = {region_code(c.end, saved)}",
        f"settings = {call_text('tracts', c.settings)}",
        f"directions = {call_text('tracts', c.directions)}",
        f"tracking = {call_text('tracts', c.tracking)}",
        f"routes = tracts.connect(field, start, end, settings, directions, tracking, device={c.device!r})",
        "print(routes.message)",
        f"layer = tracts.show(viewer, routes.tractogram, {c.name!r}, color_by='score')",
    ]
    if route:
        lines.append(f"layer.shown = routes.tractogram.per_fiber['route'] == {route}")
    return script_text(lines, {})
