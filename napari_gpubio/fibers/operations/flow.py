"""The flow of fibers between regions, how sure it is, and its routes: verbs."""

import functools
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.kinds import MadeOf, register_kind
from napari_gpubio.core.operations.records import Operation, Ref, Summary, given
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.model import FixelField
from napari_gpubio.diffusion.fods.response import Response
from napari_gpubio.diffusion.fods.run import deconvolve_steps
from napari_gpubio.diffusion.fods.settings import CsdSettings
from napari_gpubio.diffusion.operations.deconvolution import OfScan
from napari_gpubio.diffusion.regions import AnyRegion, Atlas
from napari_gpubio.fibers.flow.between import routes_steps
from napari_gpubio.fibers.flow.model import ARRIVALS, MATRICES, OVERLAP, Flow, FlowMatrices
from napari_gpubio.fibers.flow.repeats import flow_repeats_steps, with_source
from napari_gpubio.fibers.flow.repeats_model import FlowRepeats, RankedTarget
from napari_gpubio.fibers.flow.routes_model import COLUMNS, FlowRoutes
from napari_gpubio.fibers.flow.run import flow_steps
from napari_gpubio.fibers.flow.settings import FlowSettings, RouteSettings
from napari_gpubio.tractograms.bundles.tables import Table
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.operations.connectome import Matrix

_REGIONS = tuple[Ref[AnyRegion], ...]
_PASS, _AVOID = "Fibers pass each of these, at most three; each doubles the time.", "Fibers enter none of these."
_PRINTED = 10  # targets


def gates_of(data: Any, run: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of a run, with the regions that fibers pass and those that they do not enter."""
    return {"include": data.include, "exclude": data.exclude, **run}


@dataclass(frozen=True, kw_only=True)
class Flowing(Operation):
    """Where mass flows, and where not."""

    fixels: Ref[FixelField] = given("Fixels", "Fixels, peaks, or FODs, of which the peaks are taken.")
    include: _REGIONS = given("Pass", _PASS, optional=True)
    exclude: _REGIONS = given("Do not pass", _AVOID, optional=True)


def _write(flow: FlowMatrices | FlowRepeats, path: Path, _: Mapping[str, Any]) -> None:
    flow.save(path)


register_kind(
    FlowMatrices,
    counts=lambda one: (one.labels, one.names, one.voxels, one.overlaps, one.arrived),
    endings=(".npz",),
    write=_write,
)
register_kind(
    FlowRepeats,
    counts=lambda one: (one.labels, one.names, one.fit.overlaps, one.fit.arrived, one.overlaps, one.arrived),
    endings=(".npz",),
    write=_write,
)


@dataclass(frozen=True, eq=False)
class FlowOfAtlas(MadeOf, main="flow"):
    """What `FlowBetweenRegions` makes."""

    flow: Flow
    of: str
    between: tuple[int, int] | None

    @property
    def matrices(self) -> FlowMatrices:
        """All matrices."""
        return self.flow.matrices

    @functools.cached_property
    def matrix(self) -> Matrix:
        """The matrix that was asked for."""
        return Matrix(self.flow.matrices, self.flow.matrix(self.of))

    @functools.cached_property
    def density(self) -> Volume:
        """Density of the routes between two labels; InvalidInput if none were given."""
        if self.between is None:
            raise InvalidInput("no two labels were given that the density of routes lies between; give them (between)")
        one, other = (self.flow.names[self.flow.place_of(label)] for label in self.between)
        array = self.flow.density(*self.between)
        return Volume(array=array, affine=self.flow.affine, name=f"routes {one} - {other}")


@dataclass(frozen=True, kw_only=True)
class FlowBetweenRegions(Flowing, verb="flow", makes={"matrix": Matrix, "matrices": FlowMatrices, "density": Volume}):
    """Let mass flow from each region of an atlas along all fibers at once, through crossings.

    The matrix has the overlap of the flows of each pair, or the share of mass that arrives. Numbers of one row can be
    compared; no threshold tells true pairs from false ones. With --between 17,53 the density of the routes of that pair
    is an image. What is counted passes all regions of --include, and enters none of --exclude.
    """

    examples = (
        "flow fods.nii.gz --atlas aparc+aseg.nii.gz --out overlap.csv",
        "flow peaks.nii.gz --atlas aparc+aseg.nii.gz --between 17,53 --density-out routes.nii.gz --of arrivals",
    )

    atlas: Ref[Atlas] = given("Atlas", "Label volume, with a table of names beside it.")
    settings: FlowSettings = part("Flow", "How mass moves along fixels.", default=FlowSettings())
    of: str = param(
        OVERLAP, "Matrix", "Overlap ranks pairs best; arrivals are shares of mass.", choices=tuple(MATRICES)
    )
    between: str = param(
        "", "Between", "Two labels, numbers or names with a comma between: the density of their routes is made."
    )

    def has(self, name: str) -> bool:
        """Whether there is a density: of two labels."""
        return name != "density" or bool(self.between)

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, FlowOfAtlas]:
        """Move the mass of every region."""
        pair = _two_labels(self.between, data.atlas) if self.between else None
        flow = yield from flow_steps(data.fixels, data.atlas, self.settings, **gates_of(data, run))
        return FlowOfAtlas(flow, self.of, pair)

    def summary(self, made: FlowOfAtlas) -> Summary:
        """What was done, and the matrix."""
        numbers = {"labels": made.flow.labels, "regions": made.flow.names, "of": made.of, "matrix": made.matrix.values}
        numbers |= {"step_mm": made.flow.step_mm, "max_length_mm": made.flow.max_length_mm}
        return Summary((made.flow.message,), numbers)


def _two_labels(text: str, atlas: Atlas) -> tuple[int, int]:
    """Numbers of two labels; InvalidInput if there are not two, or one is not in the atlas."""
    words = [word.strip() for word in text.split(",")]
    if len(words) != 2 or words[0] == words[1]:
        raise InvalidInput(f"the density of routes lies between two labels, and {text!r} was given; write 17,53")
    return _label(words[0], atlas), _label(words[1], atlas)


def _label(word: str, atlas: Atlas) -> int:
    """A label by its number or name; InvalidInput if it is not in the atlas."""
    named = {atlas.name_of(label).casefold(): label for label in atlas.voxel_counts}
    label = int(word) if word.lstrip("-").isdecimal() else named.get(word.casefold())
    if label is None or label not in atlas.voxel_counts:
        raise InvalidInput(f"no voxel of the atlas has label {word!r}")
    return label


@dataclass(frozen=True, eq=False)
class SureFlow(MadeOf, main="repeats"):
    """What `BootstrapFlow` makes."""

    repeats: FlowRepeats
    source: int | None
    of: str

    @functools.cached_property
    def ranked(self) -> Table:
        """The targets of the source, with intervals; InvalidInput if no source was given."""
        if self.source is None:
            raise InvalidInput("no source was given whose targets are ranked; give one")
        return Table(RankedTarget._fields, tuple(self.repeats.ranked(self.source, self.of)))


@dataclass(frozen=True, kw_only=True)
class BootstrapFlow(OfScan, verb="flow-bootstrap", makes={"repeats": FlowRepeats, "ranked": Table}):
    """Tell how sure the flow between regions is: draw the FODs of a scan again and again, and let mass flow in each.

    Of a source, such as aparc.nii.gz:17 or sphere:X,Y,Z,RADIUS, the targets are ranked: number, rank, 95 % intervals,
    and the share of the repeats in which a target is among the first three. Ranks are those of one source; no threshold
    tells true pairs from false ones. Ctrl-C ends a run early: the repeats that were done are written.
    """

    examples = (
        "flow-bootstrap dwi.nii.gz --atlas aparc.nii.gz --source aparc.nii.gz:17 --out sure.npz --ranked-out ranks.csv",
    )

    atlas: Ref[Atlas] = given("Atlas", "Label volume, with a table of names beside it.")
    source: Ref[AnyRegion] | None = given("Source", "Region whose targets are ranked.", optional=True)
    response: Ref[Response] | None = given(
        "Response", "Of a single fiber; by default estimated from the scan.", optional=True
    )
    include: _REGIONS = given("Pass", _PASS, optional=True)
    exclude: _REGIONS = given("Do not pass", _AVOID, optional=True)
    deconvolution: CsdSettings = part("Deconvolution", "Order and weights.", default=CsdSettings())
    settings: FlowSettings = part("Flow", "How mass moves along fixels.", default=FlowSettings())
    repeats: int = param(50, "Repeats", "How often FODs are drawn.", minimum=1, maximum=100_000, step=10)
    random_seed: int = param(0, "Random seed", "The same seed gives the same repeats.", minimum=0, maximum=2**31 - 1)
    of: str = param(OVERLAP, "Rank by", "Overlap ranks pairs best.", choices=(OVERLAP, ARRIVALS))

    def has(self, name: str) -> bool:
        """Whether targets are ranked: of one source."""
        return name != "ranked" or self.source is not None

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, SureFlow | None]:
        """Deconvolve, and repeat the flow."""
        atlas, source, mask = data.atlas, None, self._mask(data)
        if data.source is not None:
            atlas, source = with_source(data.atlas, data.source)
        _, notes = yield from self._tensors(data.scan, mask, run)
        fods = yield from deconvolve_steps(data.scan, data.response, mask, self.deconvolution, **run)
        if not fods.complete:
            return None
        how: dict[str, Any] = {"repeats": self.repeats, "random_seed": self.random_seed, **gates_of(data, run)}
        found = yield from flow_repeats_steps(data.scan, fods, atlas, self.settings, **how)
        return SureFlow(replace(found, notes=(*notes, *fods.notes, *found.notes)), source, self.of)

    def summary(self, made: SureFlow) -> Summary:
        """What was done, and the ranked targets."""
        rows = () if made.source is None else made.ranked.csv().rstrip().splitlines()[: _PRINTED + 1]
        numbers = {"repeats": made.repeats.repeats, "of": made.of}
        numbers |= {} if made.source is None else {"ranked": made.ranked.records()}
        return Summary((made.repeats.message, *rows), numbers)


@dataclass(frozen=True, eq=False)
class FoundRoutes(MadeOf, main="routes"):
    """What `FindRoutes` makes."""

    routes: FlowRoutes

    @property
    def fibers(self) -> Tractogram:
        """A line for each route."""
        return self.routes.tractogram

    @functools.cached_property
    def table(self) -> Table:
        """A row for each route, that with most of the flow first."""
        return Table(tuple(COLUMNS), tuple(tuple(row.values()) for row in self.routes.table()))

    @functools.cached_property
    def density(self) -> Volume:
        """Density of the routes, the largest 1."""
        flow = self.routes.flow
        name = f"routes {self.routes.source} - {self.routes.target}"
        return Volume(array=self.routes.density, affine=flow.affine, name=name)


@dataclass(frozen=True, kw_only=True)
class FindRoutes(Flowing, verb="flow-routes", makes={"fibers": Tractogram, "table": Table, "density": Volume}):
    """Find the routes between two regions along fixels, through crossings, with their shares of the flow.

    A region is a mask (roi.nii.gz), a label of an atlas by its number or name (aparc.nii.gz:17,
    aparc.nii.gz:Brain-Stem), sphere:X,Y,Z,RADIUS, or box:X0,Y0,Z0,X1,Y1,Z1, in world mm.
    """

    examples = (
        "flow-routes peaks.nii.gz --source aparc.nii.gz:17 --target aparc.nii.gz:Brain-Stem --out routes.trx",
        "flow-routes fods.mif --source m1.nii --target stem.nii --include plic.nii --exclude csf.nii --out cst.trx",
    )

    source: Ref[AnyRegion] = given("Source", "Region where routes start.")
    target: Ref[AnyRegion] = given("Target", "Region where they end.")
    settings: RouteSettings = part("Routes", "Flow, and which routes are distinct.", default=RouteSettings())

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, FoundRoutes]:
        """Find them."""
        ends = data.source, data.target
        return FoundRoutes((yield from routes_steps(data.fixels, *ends, self.settings, **gates_of(data, run))))

    def summary(self, made: FoundRoutes) -> Summary:
        """What was found, and the routes."""
        rows = made.table.records()
        lines = ["".join(f"{name:>26}" for name in COLUMNS)[1:]] if rows else []
        lines += [" ".join(f"{row[name]:25.4g}" for name in COLUMNS) for row in rows]
        widest = made.routes.widest
        numbers = {"message": made.routes.message, "routes": rows, "arrivals": made.routes.arrivals}
        return Summary((made.routes.message, *lines), numbers | {"widest": widest if np.isfinite(widest) else None})
