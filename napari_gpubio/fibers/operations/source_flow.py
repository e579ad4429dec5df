"""The flow from a source, and fibers along its routes: verbs."""

import functools
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from napari_gpubio.core.operations.kinds import MadeOf
from napari_gpubio.core.operations.records import Operation, Ref, Summary, given
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.regions import AnyRegion, Atlas
from napari_gpubio.fibers.flow.along import AlongSettings, fibers_along_steps
from napari_gpubio.fibers.flow.settings import FlowSettings
from napari_gpubio.fibers.flow.source import Reached, SourceFlow, source_flow_steps
from napari_gpubio.fibers.operations.flow import Flowing, gates_of
from napari_gpubio.fibers.settings import IFOD2, InFods
from napari_gpubio.tractograms.bundles.tables import Table
from napari_gpubio.tractograms.model import Tractogram

_PRINTED = 20  # rows


@dataclass(frozen=True, eq=False)
class MovedFromSource(MadeOf, main="flow"):
    """What `FlowFromSource` makes."""

    flow: SourceFlow

    @functools.cached_property
    def mass(self) -> Volume:
        """Mass that went through each voxel."""
        return Volume(array=self.flow.mass, affine=self.flow.affine, name=f"flow of {self.flow.name}")

    @functools.cached_property
    def losses(self) -> Volume:
        """Mass that ended in steps from each voxel."""
        return Volume(array=self.flow.flow.losses(1), affine=self.flow.affine, name=f"losses of {self.flow.name}")

    @functools.cached_property
    def table(self) -> Table:
        """A row for each region, that with the largest score first."""
        return Table(Reached._fields, tuple(map(tuple, self.flow.ranked())))


@dataclass(frozen=True, kw_only=True)
class FlowFromSource(Flowing, verb="flow-from", makes={"mass": Volume, "losses": Volume, "table": Table}):
    """Let mass flow from a source along all fibers at once, and rank the regions of an atlas by it.

    The table has the overlap of the flows of the source and of each region, which ranks best, and the share of the mass
    of the source that arrives there. Numbers of one source can be compared; no threshold tells regions that are
    connected from those that are not.
    """

    examples = (
        "flow-from peaks.nii.gz --source sphere:22,-8,10,4 --atlas aparc.nii.gz --out mass.nii.gz --table-out to.csv",
    )

    source: Ref[AnyRegion] = given("Source", "Region that mass leaves.")
    atlas: Ref[Atlas] | None = given("Atlas", "Label volume, with a table of names beside it.", optional=True)
    settings: FlowSettings = part("Flow", "How mass moves along fixels.", default=FlowSettings())

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, MovedFromSource]:
        """Move the mass."""
        flow = yield from source_flow_steps(data.fixels, data.source, data.atlas, self.settings, **gates_of(data, run))
        return MovedFromSource(flow)

    def summary(self, made: MovedFromSource) -> Summary:
        """What was reached first."""
        rows = made.flow.ranked()
        shown = [f"{one.rank:4} {one.region:30} {one.overlap:9.4f} {one.arrivals:9.4f}" for one in rows[:_PRINTED]]
        title = [f"{'rank':>4} {'region':30} {'overlap':>9} {'arrivals':>9}"] if rows else []
        return Summary((made.flow.message, *title, *shown), {"reached": [one._asdict() for one in rows]})


@dataclass(frozen=True, kw_only=True)
class TrackAlongRoutes(Operation, verb="track-along", makes={"fibers": Tractogram}):
    """Track fibers in FODs that follow routes: seeded on them, and kept if they keep near from end to end."""

    examples = ("track-along fod.nii.gz --routes routes.trx --method ifod2 --out along.tck",)

    fods: Ref[FodField] = given("FODs", "Image of fiber orientation distributions.")
    routes: Ref[Tractogram] = given("Routes", "A line for each route, as the verb flow-routes finds them.")
    settings: AlongSettings = part("Seeds", "Where fibers start, and which are kept.", default=AlongSettings())
    method: InFods = part("Method", "How fibers are traced.", default=IFOD2())

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, Tractogram]:
        """Trace them."""
        return (yield from fibers_along_steps(data.fods, data.routes, self.settings, self.method, **run))

    def summary(self, fibers: Tractogram) -> Summary:
        """How many there are."""
        return Summary((f"{len(fibers):,} fibers follow the routes",), {"fibers": len(fibers)})
