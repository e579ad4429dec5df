"""Routes between two regions: a verb."""

import functools
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from napari_gpubio.core.operations.kinds import MadeOf
from napari_gpubio.core.operations.records import Operation, Ref, Summary, given
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.regions import AnyRegion
from napari_gpubio.fibers.directions import Directions, Usual
from napari_gpubio.fibers.routes.model import COLUMNS, Routes
from napari_gpubio.fibers.routes.run import tensor_routes_steps
from napari_gpubio.fibers.routes.settings import ConnectSettings
from napari_gpubio.fibers.settings import Hamiltonian, InTensors
from napari_gpubio.tractograms.bundles.tables import Table
from napari_gpubio.tractograms.model import Tractogram

_SHOWN = ("route", "fibers", "score", "alignment_fa", "length_mm", "weakest_link", "eudx_distance_mm")
_PRINTED = 10  # rows
FODS_HELP = "FODs of the same brain: tell on which share of the way they have two directions."


@dataclass(frozen=True, eq=False)
class Connections(MadeOf, main="routes"):
    """What `ConnectRegions` makes."""

    routes: Routes
    sort_by: str

    @property
    def fibers(self) -> Tractogram:
        """All of them, with the number of their route."""
        return self.routes.tractogram

    @functools.cached_property
    def table(self) -> Table:
        """A row for each route, the best first."""
        rows = self.routes.table(self.sort_by)
        return Table(tuple(COLUMNS), tuple(tuple(row.values()) for row in rows))


@dataclass(frozen=True, kw_only=True)
class ConnectRegions(Operation, verb="connect", makes={"fibers": Tractogram, "table": Table}):
    """Find the routes between two regions in tensors; in FODs and fixels, through crossings: flow-routes.

    Geodesics are shot from one region, those that reach the other are kept, and their routes ranked. A region is a mask
    (roi.nii.gz), a label of an atlas by its number or name (aparc.nii.gz:17, aparc.nii.gz:Brain-Stem),
    sphere:X,Y,Z,RADIUS, or box:X0,Y0,Z0,X1,Y1,Z1, in world mm.
    """

    examples = (
        "connect dwi.nii.gz --source aparc.nii.gz:ctx-lh-precentral --target aparc.nii.gz:Brain-Stem --out cst.trx",
    )
    needs_no_file = True

    tensors: Ref[TensorField] = given("Tensors", "Diffusion scan, or tensor image.")
    source: Ref[AnyRegion] = given("Source", "Region where fibers start.")
    target: Ref[AnyRegion] = given("Target", "Region where they end.")
    fods: Ref[FodField] | None = given("FODs", FODS_HELP, optional=True)
    settings: ConnectSettings = part("Connections", "Seeds, near misses, routes.", default=ConnectSettings())
    directions: Directions = part("Directions", "The fan at each seed.", default=Usual())
    method: InTensors = part("Method", "How fibers are traced.", default=Hamiltonian())
    sort_by: str = param("score", "Sort by", "Column that ranks the routes.", choices=tuple(COLUMNS), advanced=True)

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, Connections]:
        """Connect them."""
        how = self.settings, self.directions, self.method
        found = yield from tensor_routes_steps(data.tensors, data.source, data.target, *how, fods=data.fods, **run)
        return Connections(found, self.sort_by)

    def summary(self, made: Connections) -> Summary:
        """What was found, and the best routes."""
        rows = made.table.records()
        lines = ["".join(f"{name:>17}" for name in _SHOWN)[1:]] if rows else []
        lines += [" ".join(f"{row[name]:16.5g}" for name in _SHOWN) for row in rows[:_PRINTED]]
        return Summary((made.routes.message, *lines), {"message": made.routes.message, "routes": rows})
