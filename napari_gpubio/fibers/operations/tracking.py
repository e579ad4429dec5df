"""Fiber tracking: the verbs ``track``, ``track-fods`` and ``track-fixels``."""

import dataclasses
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.records import Operation, Ref, Summary, given
from napari_gpubio.core.operations.runs import write_value
from napari_gpubio.core.report import WARNING
from napari_gpubio.core.settings import part
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.axis_check import check_axes, check_fods
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.operations.tensors import notes_of_check
from napari_gpubio.diffusion.regions import AnyRegion
from napari_gpubio.fibers.directions import ChosenDirections, Directions, FromFod, Principal, Usual
from napari_gpubio.fibers.run import track_steps, track_to_file_steps
from napari_gpubio.fibers.seeds import AtPoints, InRegion, InWhiteMatter, InWhiteMatterByFa
from napari_gpubio.fibers.settings import IFOD2, FixelGeodesic, Hamiltonian, InFods, InTensors
from napari_gpubio.tractograms.io.tractograms import STREAMED_SUFFIXES, tractogram_suffix
from napari_gpubio.tractograms.model import Tractogram

_MADE = {"fibers": Tractogram}
_SEEDS = "Where fibers start: at points, in all voxels of a region, or of the white matter."
_DIRECTIONS = "In which directions fibers leave each seed point; usual: those of the method."
_OF_MANY = f"{_DIRECTIONS[:-1]}, but one alone where seeds are many (balls, a region, the white matter)."
_REGION = "To seed from, with the seeds of a region: FILE, FILE:LABEL, sphere:X,Y,Z,RADIUS, or box:X0,Y0,Z0,X1,Y1,Z1."
_CHECKED = "Of the same scan, with which the axes are checked."


@dataclass(frozen=True)
class WrittenFibers:
    """What is known of fibers that went into a file as they came.

    Parameters
    ----------
    count
        How many there are.
    complete
        False if the run was stopped before its end.
    notes
        What was found, in sentences.
    """

    count: int
    complete: bool
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True, kw_only=True)
class _Tracking(Operation):
    """What the verbs share."""

    field: Ref[Any] = given("Field", "What fibers are traced in.")
    region: Ref[AnyRegion] | None = given("Region", _REGION, optional=True)
    seeds: Any = part("Seeds", _SEEDS)
    directions: Directions = part("Directions", _DIRECTIONS, default=Usual())
    method: Any = part("Method", "How fibers are traced.")

    def check(self) -> None:
        """Raise InvalidInput if directions are not those of the method, or a region is of no use."""
        self.method.directions(self.directions)
        if isinstance(self.seeds, InRegion) != (self.region is not None):
            what = "there is no region; give one" if self.region is None else "a region is given; choose its seeds"
            raise InvalidInput(f"seeds are {self.seeds.kind!r}, and {what}, or leave it out")

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, Tractogram]:
        """Trace them."""
        seeds = self.seeds.points_in(data.field, data.region)
        fibers = yield from track_steps(data.field, seeds, self._fan(), self.method, **run)
        notes = (*fibers.notes, *self._notes(data), *self._too_short(fibers, data))
        return dataclasses.replace(fibers, notes=notes)

    def steps_into(
        self, data: Any, files: Mapping[str, Path], **run: Any
    ) -> Generator[Step, None, Tractogram | WrittenFibers]:
        """Trace them into a file as they come, where its format allows that."""
        output = self.output("fibers")
        path = files[output.name]
        if tractogram_suffix(path) not in STREAMED_SUFFIXES:
            fibers = yield from self.steps(data, **run)
            write_value(fibers, path, output)
            return fibers
        seeds, about = self.seeds.points_in(data.field, data.region), {RECORD: record_of_output(output)}
        count = yield from track_to_file_steps(
            str(path), data.field, seeds, self._fan(), self.method, about=about, **run
        )
        written = WrittenFibers(count, complete=run["stop"] is None or not run["stop"].is_set())
        return dataclasses.replace(written, notes=(*self._notes(data), *self._too_short(written, data)))

    def _fan(self) -> Directions:
        return self.directions

    def _notes(self, data: Any) -> tuple[str, ...]:  # noqa: ARG002 - tensors have been checked
        return ()

    def _too_short(self, fibers: Tractogram | WrittenFibers, data: Any) -> tuple[str, ...]:
        if len(fibers) or not fibers.complete:
            return ()
        shortest = self.method.lengths(voxel_sizes_mm(data.field.affine)).min_length_mm
        stop = "fa_stop" if self.method.works_in == "tensors" else "fod_stop"
        return (f"{WARNING}no fiber is as long as {shortest:g} mm; move the seeds, or lower min_length_mm, or {stop}",)

    def summary(self, fibers: Tractogram | WrittenFibers) -> Summary:
        """How many there are."""
        return Summary((f"{len(fibers):,} {'fiber' if len(fibers) == 1 else 'fibers'}",), {"fibers": len(fibers)})


@dataclass(frozen=True, kw_only=True)
class Track(_Tracking, verb="track", makes=_MADE):
    """Track fibers in diffusion tensors, from seeds.

    Of a scan, tensors are fitted first. Geodesics (hamiltonian, vanaart2011) or classic streamlines (eudx). In fiber
    orientation distributions: track-fods; in fixels: track-fixels. Ctrl-C ends a run early: what was traced is written.
    """

    examples = (
        "track dwi.nii.gz --seed 0 -5 22 --radius-mm 3 --points 100 --out callosum.trk",
        "track dwi.nii.gz --seeds white-matter --per-voxel 4 --directions principal --out brain.trx",
        "track tensors.nii.gz --seeds region --region atlas.nii.gz:251 --method eudx --out callosum.tck",
    )

    field: Ref[TensorField] = given("Tensors", "Image of tensors, or diffusion scan.")
    seeds: AtPoints | InRegion | InWhiteMatterByFa = part("Seeds", _SEEDS)
    directions: ChosenDirections = part("Directions", _DIRECTIONS, default=Usual())
    method: InTensors = part("Method", "How fibers are traced.", default=Hamiltonian())


@dataclass(frozen=True, kw_only=True)
class _InAxes(_Tracking):
    """In FODs or fixels, of which the usual directions are many."""

    directions: Directions = part("Directions", _OF_MANY, default=Usual())

    def _fan(self) -> Directions:
        if not isinstance(self.directions, Usual) or self.directions.count is not None:
            return self.directions
        usual = self.method.directions(self.directions)
        if isinstance(self.seeds, AtPoints) and self.seeds.points == 1:
            return usual
        both_ways = usual.both_ways
        return FromFod(count=1, both_ways=both_ways) if isinstance(usual, FromFod) else Principal(both_ways=both_ways)


@dataclass(frozen=True, kw_only=True)
class TrackInFods(_InAxes, verb="track-fods", makes=_MADE):
    """Track fibers in fiber orientation distributions (FODs), from seeds.

    Probabilistic (ifod2, ifod1) or deterministic streamlines (sd_stream), with MRtrix's step and lengths for the size
    of the voxels where none are given; or lifted geodesics.
    """

    examples = (
        "track-fods fod.nii.gz --seed 0 -5 22 --radius-mm 3 --points 20 --out cc.tck",
        "track-fods fod.nii.gz --seeds white-matter --method sd_stream --out brain.trx",
    )

    field: Ref[FodField] = given("FODs", "Image of fiber orientation distributions.")
    seeds: AtPoints | InRegion | InWhiteMatter = part("Seeds", _SEEDS)
    method: InFods = part("Method", "How fibers are traced.", default=IFOD2())
    tensors: Ref[TensorField] | None = given("Tensors", _CHECKED, optional=True)

    def _notes(self, data: Any) -> tuple[str, ...]:
        return () if data.tensors is None else notes_of_check(check_fods(data.field, data.tensors))


@dataclass(frozen=True, kw_only=True)
class TrackInFixels(_InAxes, verb="track-fixels", makes=_MADE):
    """Track geodesics in fixels, from seeds."""

    examples = ("track-fixels fixels --seed 0 -5 22 --out cc.tck",)

    field: Ref[FixelField] = given("Fixels", "Folder of fixels, image of peaks, or FODs, of which the peaks are taken.")
    seeds: AtPoints | InRegion | InWhiteMatter = part("Seeds", _SEEDS)
    method: FixelGeodesic = part("Method", "How fibers are traced.", default=FixelGeodesic())
    tensors: Ref[TensorField] | None = given("Tensors", _CHECKED, optional=True)

    def _notes(self, data: Any) -> tuple[str, ...]:
        return () if data.tensors is None else notes_of_check(check_axes(data.field, data.tensors))
