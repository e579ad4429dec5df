"""How far noise moves fibers: verbs."""

import functools
from dataclasses import dataclass
from typing import Any

from napari_gpubio.core.operations.records import Ref, Summary, given
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.settings import part
from napari_gpubio.diffusion.fods.response import Response
from napari_gpubio.diffusion.fods.run import deconvolve_steps
from napari_gpubio.diffusion.fods.settings import CsdSettings
from napari_gpubio.diffusion.operations.deconvolution import OfScan, Steps
from napari_gpubio.diffusion.operations.tensors import notes_of_check
from napari_gpubio.diffusion.tensors.gradient_check import check_gradients
from napari_gpubio.diffusion.tensors.run import fit_tensors_steps
from napari_gpubio.diffusion.tensors.settings import FitSettings
from napari_gpubio.fibers.directions import Directions, Usual
from napari_gpubio.fibers.seeds import AtPoints
from napari_gpubio.fibers.settings import Hamiltonian, InFods, InTensors, SDStream
from napari_gpubio.fibers.uncertainty.model import COLUMNS, Bootstrap
from napari_gpubio.fibers.uncertainty.run import bootstrap_steps
from napari_gpubio.fibers.uncertainty.settings import BootstrapSettings, FodBootstrapSettings
from napari_gpubio.tractograms.bundles.tables import Table
from napari_gpubio.tractograms.model import Tractogram

_LEVEL = 0.95  # of the intervals


@dataclass(frozen=True, eq=False)
class Certainty:
    """What a bootstrap finds.

    Parameters
    ----------
    bootstrap
        All of it.
    notes
        What was found about the fit and the repeats, in sentences.
    """

    bootstrap: Bootstrap
    notes: tuple[str, ...]

    @functools.cached_property
    def probability(self) -> Volume:
        """Share of the repeats of which at least one fiber passes the voxel."""
        found = self.bootstrap
        return Volume(array=found.probability, affine=found.fibers.affine, name="probability")

    @property
    def fibers(self) -> Tractogram:
        """Those of the fit."""
        return self.bootstrap.fibers

    @property
    def repeats(self) -> Tractogram:
        """Those of the first repeats."""
        return self.bootstrap.kept

    @functools.cached_property
    def intervals(self) -> Table:
        """Estimate, ends of the interval, number of the fit, and bias, of each number."""
        return Table(COLUMNS, tuple(self.bootstrap.rows(_LEVEL)))

    @property
    def complete(self) -> bool:
        """Whether all of it was done."""
        return self.bootstrap.complete


_MADE = {"probability": Volume, "fibers": Tractogram, "repeats": Tractogram, "intervals": Table}


@dataclass(frozen=True, kw_only=True)
class _Bootstrapping(OfScan):
    """Where fibers begin, in both verbs."""

    seeds: AtPoints = part("Seeds", "Where fibers start.")

    def summary(self, made: Certainty) -> Summary:
        """The intervals."""
        rows = made.intervals.records()
        lines = (f"{made.bootstrap.repeats} repeats", *made.intervals.csv().rstrip().splitlines())
        intervals = {row.pop("number"): row for row in rows}
        return Summary(lines, {"repeats": made.bootstrap.repeats, "level": _LEVEL, "intervals": intervals})


@dataclass(frozen=True, kw_only=True)
class BootstrapTensors(_Bootstrapping, verb="bootstrap", makes=_MADE):
    """Tell how certain fibers are: draw the tensors of a scan again and again, and track from seeds in each draw.

    Tensors are drawn from the residuals of their fit. Written are where fibers pass, how their numbers spread (95 %
    intervals), and the fibers. Ctrl-C ends a run early: the repeats that were done are written. In FODs:
    bootstrap-fods.
    """

    examples = (
        "bootstrap dwi.nii.gz --seed 0 -5 22 --repeats 1000 --out probability.nii.gz --intervals-out intervals.csv",
    )

    resampling: BootstrapSettings = part("Bootstrap", "How often tensors are drawn.", default=BootstrapSettings())
    fit: FitSettings = part("Fit", "Of the tensors.", default=FitSettings())
    directions: Directions = part("Directions", "The fan at each seed; usual: one fiber a seed.", default=Usual())
    method: InTensors = part("Method", "How fibers are traced.", default=Hamiltonian())

    def steps(self, data: Any, **run: Any) -> Steps:
        """Do the bootstrap."""
        field = yield from fit_tensors_steps(data.scan, self._mask(data), self.fit, **run)
        how = self.directions, self.method, self.resampling
        found = yield from bootstrap_steps(data.scan, self.seeds.points_in(), *how, fit=self.fit, field=field, **run)
        return Certainty(found, (*field.notes, *notes_of_check(check_gradients(field)), *found.notes))


@dataclass(frozen=True, kw_only=True)
class BootstrapFods(_Bootstrapping, verb="bootstrap-fods", makes=_MADE):
    """Tell how certain fibers are: draw the FODs of a scan again and again, and track from seeds in each draw.

    Signals are drawn from the residuals of a fit by spherical harmonics, and deconvolved. Written are where fibers
    pass, how their numbers spread (95 % intervals), and the fibers. Ctrl-C ends a run early: the repeats that were done
    are written. In tensors: bootstrap.
    """

    examples = ("bootstrap-fods dwi.nii.gz --response wm.txt --seed 0 -5 22 --out probability.nii.gz",)

    response: Ref[Response] | None = given(
        "Response", "Of a single fiber; by default estimated from the scan.", optional=True
    )
    resampling: FodBootstrapSettings = part("Bootstrap", "How often FODs are drawn.", default=FodBootstrapSettings())
    deconvolution: CsdSettings = part("Deconvolution", "Order and weights.", default=CsdSettings())
    directions: Directions = part("Directions", "The fan at each seed; usual: one fiber a seed.", default=Usual())
    method: InFods = part("Method", "How fibers are traced.", default=SDStream())

    def steps(self, data: Any, **run: Any) -> Steps:
        """Do the bootstrap."""
        mask = self._mask(data)
        _, notes = yield from self._tensors(data.scan, mask, run)
        fods = yield from deconvolve_steps(data.scan, data.response, mask, self.deconvolution, **run)
        if not fods.complete:
            return None
        how = self.directions, self.method, self.resampling
        found = yield from bootstrap_steps(data.scan, self.seeds.points_in(), *how, field=fods, **run)
        return Certainty(found, (*notes, *fods.notes, *found.notes))
