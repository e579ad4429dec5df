"""Dissection: a verb."""

import dataclasses
import functools
import operator
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import Operation, Ref, Summary, Words, given
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.operations.regions import parts_of
from napari_gpubio.diffusion.regions import AnyRegion
from napari_gpubio.tractograms import maps
from napari_gpubio.tractograms.bundles import with_clusters
from napari_gpubio.tractograms.bundles.clusters import CLUSTER
from napari_gpubio.tractograms.dissection.conditions import Condition, ends_in, number, through
from napari_gpubio.tractograms.dissection.run import dissect_steps
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.operations.fibers import FiberFile, Fibers, source_of, whole


@dataclass(frozen=True, kw_only=True)
class Range(Settings):
    """A number of the fibers lies between two ends, which belong to the range; None: there is no such end."""

    number: str = param("length_mm", "Number", "Length in mm, or a number that the fibers have.")
    low: float | None = param(None, "From", "Lowest value.")
    high: float | None = param(None, "To", "Highest value.")

    def check(self) -> None:
        """Raise InvalidInput if nothing lies in it."""
        self.condition()

    def condition(self) -> Condition:
        """Return it as a condition."""
        return number(self.number, self.low, self.high)


def _ranges(rows: list[list[str]]) -> tuple[Range, ...]:
    return tuple(Range(number=name, low=_end(low), high=_end(high)) for name, low, high in rows)


def _end(text: str) -> float | None:
    try:
        return None if text == "-" else float(text)
    except ValueError:
        raise InvalidInput(f"the end of a range is {text!r}; give a number, or - for no end") from None


@dataclass(frozen=True, eq=False)
class Dissected:
    """What `Dissect` makes; maps are made when they are looked at.

    Parameters
    ----------
    source
        All fibers.
    kept
        Which of them fit, shape (F,).
    condition
        What was demanded, if anything was.
    grid
        That maps get; None: that of the fibers.
    device
        Maps are made on.
    complete
        Whether all of it was done.
    """

    source: Any
    kept: Any
    condition: Condition | None
    grid: Volume | None
    device: Any
    complete: bool

    @functools.cached_property
    def fibers(self) -> Fibers:
        """Those that fit."""
        about = {} if self.condition is None else {"dissection": self.condition.described()}
        if not isinstance(self.source, Tractogram):
            made: Any = FiberFile(self.source, self.kept, about)
            return made
        kept = self.source.select(self.kept)
        found: Any = dataclasses.replace(kept, parameters={**kept.parameters, **about})
        return found

    def _map(self, kind: str, dtype: Any, name: str) -> Volume:
        blocks: Any = self.fibers.blocks() if isinstance(self.fibers, FiberFile) else [self.fibers]
        total: Any = 0
        affine: Any = None
        for block in blocks:
            shape = block.shape if self.grid is None else self.grid.array.shape[:3]
            affine = block.affine if self.grid is None else self.grid.affine
            total = total + maps.density(block, kind, shape=shape, affine=affine, device=self.device)
        return Volume(array=np.asarray(total).astype(dtype), affine=np.asarray(affine), name=name)

    @functools.cached_property
    def density(self) -> Volume:
        """How many of them pass each voxel."""
        return self._map("count", np.int32, "density of fibers")

    @functools.cached_property
    def lengths(self) -> Volume:
        """Their length in each voxel, mm."""
        return self._map("length_mm", np.float32, "length of fibers, mm")

    @functools.cached_property
    def end_points(self) -> Volume:
        """How many of their ends lie in each voxel."""
        return self._map("ends", np.int32, "ends of fibers")

    @property
    def mask(self) -> Volume:
        """The voxels that they pass."""
        return self.density.like((self.density.array > 0).astype(np.uint8), name="voxels of fibers")


_REGIONS = tuple[Ref[AnyRegion], ...]
_MADE = {"fibers": Fibers, **dict.fromkeys(("density", "lengths", "end_points", "mask"), Volume)}


@dataclass(frozen=True, kw_only=True)
class _OfFibers(Operation):
    """What is dissected."""

    fibers: Ref[Fibers] = given("Fibers", "Tractogram: trk, tck, trx, vtk, tt.gz.")


@dataclass(frozen=True, kw_only=True)
class _Demands(Operation):
    """What is demanded of fibers."""

    words: ClassVar[Any] = {"range": Words(("NUMBER", "LOW", "HIGH"), _ranges)}

    include: _REGIONS = given("Pass", "Fibers pass each of these.", optional=True)
    exclude: _REGIONS = given("Do not pass", "Fibers pass none of these.", optional=True)
    any: _REGIONS = given("Pass any", "Fibers pass at least one of these.", optional=True)
    ends: _REGIONS = given("End in", "Fibers have an end in each of these.", optional=True)
    no_ends: _REGIONS = given("Do not end in", "Fibers have an end in none of these.", optional=True)
    both_ends: _REGIONS = given("Both ends in", "Fibers have both ends in each of these.", optional=True)
    range: tuple[Range, ...] = part(
        "Ranges", "A number of theirs, such as mean_fa, lies between these; - for no end.", default=()
    )

    def condition(self, data: Any) -> Condition | None:
        """Return all that is demanded, or None where that is nothing; ``data``: regions by the names of the fields."""
        parts: list[Condition] = [through(one) for one in data.include]
        parts += [~through(one) for one in data.exclude]
        parts += [ends_in(one) for one in data.ends]
        parts += [~ends_in(one) for one in data.no_ends]
        parts += [ends_in(one, ends="both") for one in data.both_ends]
        if data.any:
            parts.append(functools.reduce(operator.or_, map(through, data.any)))
        parts += [one.condition() for one in self.range]
        return functools.reduce(operator.and_, parts) if parts else None


@dataclass(frozen=True, kw_only=True)
class Rules(_Demands, verb="rules", makes={"condition": Condition}):
    """Demand something of fibers, as an alternative to what a dissection demands; all of it must hold."""

    examples = ("rules left.nii.gz right.nii.gz --range mean_fa 0.3 1 --record rules.json",)

    def check(self) -> None:
        """Raise InvalidInput if nothing is demanded."""
        if not self.range and next(self.inputs(), None) is None:
            raise InvalidInput("nothing is demanded of fibers; give a region or a range")

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, Condition]:
        """Join the rules."""
        yield Step(0, 1, "rules")
        found = self.condition(data)
        assert found is not None
        return found


register_kind(Condition, counts=lambda one: (repr(one.described()), [*map(parts_of, one.regions())]))


@dataclass(frozen=True, kw_only=True)
class Dissect(_Demands, _OfFibers, verb="dissect", makes=_MADE):
    """Choose fibers by regions and numbers, and map them; all conditions must hold.

    A tractogram goes through in blocks, so it may be larger than memory (tck, uncompressed trx). A region is a mask
    (roi.nii.gz), a label of an atlas by its number or name (aparc.nii.gz:17, aparc.nii.gz:Left-Hippocampus),
    sphere:X,Y,Z,RADIUS, or box:X0,Y0,Z0,X1,Y1,Z1, in world mm.
    """

    examples = (
        "dissect brain.trx --include stem.nii.gz --ends aparc.nii.gz:ctx-lh-precentral --out cst.trx",
        "dissect brain.tck --include sphere:0,30,8,6 --range length_mm 40 200 --out genu.trk --density-out genu.nii.gz",
    )
    keeps_parts = "it is not known which of the fibers fit"

    alternatives: tuple[Ref[Condition], ...] = given(
        "Alternatives", "Records of other rules: fibers that fit one of them are kept, too.", optional=True
    )
    grid: Ref[Volume] | None = given(
        "Grid", "Volume whose grid the maps get; else that of the tractogram.", optional=True
    )

    def steps(self, data: Any, *, device: Any, stop: Any) -> Generator[Step, None, Dissected]:
        """Dissect them."""
        source, own = source_of(data.fibers), self.condition(data)
        every = [*([] if own is None else [own]), *data.alternatives]
        condition = functools.reduce(operator.or_, every) if every else None
        kept = yield from dissect_steps(source, condition or number("length_mm"), device=device, stop=stop)
        complete = stop is None or not stop.is_set()
        return Dissected(source, kept, condition, data.grid, device, complete)

    def summary(self, made: Dissected) -> Summary:
        """How many fit."""
        count, total = int(np.count_nonzero(made.kept)), len(made.kept)
        return Summary((f"{count:,} of {total:,} fibers",), {"kept": count, "fibers": total})


@dataclass(frozen=True, kw_only=True)
class FindClusters(_OfFibers, verb="clusters", makes={"fibers": Tractogram}):
    """Group similar fibers; each gets the number of its cluster, the largest cluster being 1."""

    examples = ("clusters bundle.trx --within-mm 10 --out clusters.trx",)

    within_mm: float = param(
        15.0,
        "Within",
        "Fibers of a cluster are at most so far from its middle one; mean distance of points.",
        unit="mm",
        above=0.0,
        maximum=200.0,
    )
    most: int = param(500, "Clusters", "At most so many.", minimum=1, maximum=100_000, advanced=True)

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, Tractogram]:
        """Find them."""
        yield Step(0, 1, "clusters")
        return with_clusters(whole(data.fibers), self.within_mm, most=self.most)

    def summary(self, made: Tractogram) -> Summary:
        """How many there are."""
        count = int(made.per_fiber[CLUSTER].max(initial=0))
        return Summary((f"{count:,} clusters of {len(made):,} fibers",), {"clusters": count, "fibers": len(made)})
