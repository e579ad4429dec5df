"""Responses, fiber orientation distributions and their peaks: verbs."""

import dataclasses
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.kinds import Conversion, MadeOf, register_conversion, register_kind
from napari_gpubio.core.operations.records import File, Operation, Reading, Ref, Summary, given
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.axis_check import check_fods
from napari_gpubio.diffusion.fods.estimate import estimate_response_steps
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.fods.normalize import MIN_VOXELS, normalize_tissues
from napari_gpubio.diffusion.fods.response import TISSUES, Response, check_tissues, read_response, write_response
from napari_gpubio.diffusion.fods.run import deconvolve_steps, find_peaks_steps
from napari_gpubio.diffusion.fods.settings import (
    CsdSettings,
    HighestFa,
    MultiTissueSettings,
    PeakSettings,
    ThreeTissues,
    Tournier,
    TwoTissues,
)
from napari_gpubio.diffusion.fods.tissues import estimate_tissue_responses_steps
from napari_gpubio.diffusion.io.kinds import is_fods
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.operations.scans import mask_of_scan
from napari_gpubio.diffusion.operations.tensors import notes_of_check
from napari_gpubio.diffusion.tensors.gradient_check import check_gradients
from napari_gpubio.diffusion.tensors.run import checked_mask, fit_tensors_steps

Steps = Generator[Step, None, Any]
_NOT_IN_PART = "a response whose search was stopped is of other voxels"


@dataclass(frozen=True, kw_only=True)
class OpenResponse(Reading, verb="open-response", makes={"response": Response}):
    """Open the response of a fiber or a tissue: a text file, as MRtrix has it."""

    file: File = part("File", "Rows of zonal coefficients, one for each shell.")

    def read(self, data: Any) -> Response:
        """Read it."""
        return read_response(data.file)


register_kind(
    Response,
    counts=lambda one: (one.coefficients, one.bvals),
    endings=("",),
    write=lambda response, path, _: write_response(path, response),
    opens=OpenResponse,
)


@dataclass(frozen=True, kw_only=True)
class OfScan(Operation):
    """What all verbs of scans take here, and how their results are checked."""

    scan: Ref[DiffusionScan] = given("Scan", "Diffusion scan: NIfTI with bval and bvec beside it, or .mif.")
    mask: Ref[Volume] | None = given(
        "Mask", "Voxels of the brain: not 0. By default a mask that is made from the b0 volumes.", optional=True
    )

    def _mask(self, data: Any) -> Any:
        return checked_mask(data.scan, None if data.mask is None else mask_of_scan(data.mask, data.scan))

    def _tensors(self, scan: DiffusionScan, mask: Any, run: Any) -> Steps:
        """Tensors of a scan that has b0 volumes, and notes on its gradient table."""
        if not scan.is_b0.any():
            return None, ()
        field = yield from fit_tensors_steps(scan, mask, **run)
        return field, notes_of_check(check_gradients(field))


# -- responses --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class EstimateResponse(OfScan, verb="response", makes={"response": Response}):
    """Estimate the signal of a single fiber from a diffusion scan.

    A text file in MRtrix's format is written. Responses of tissues: tissue-responses.
    """

    examples = ("response dwi.nii.gz --mask brain.nii.gz --out wm.txt",)
    keeps_parts = _NOT_IN_PART

    method: HighestFa | Tournier = part(
        "Method", "From voxels of high FA (fa), or of one dominant peak (tournier).", default=HighestFa()
    )
    shell: int = param(0, "Shell", "b-value; 0 = the largest.", unit="s/mm²", minimum=0, maximum=100_000)

    def steps(self, data: Any, **run: Any) -> Steps:
        """Estimate it."""
        mask = self._mask(data)
        field, notes = yield from self._tensors(data.scan, mask, run)
        found = yield from estimate_response_steps(data.scan, mask, self.method, shell=self.shell, field=field, **run)
        return dataclasses.replace(found, notes=(*found.notes, *notes))

    def summary(self, response: Response) -> Summary:
        """Its voxels and coefficients."""
        return Summary((_text(response),), {"responses": [_numbers(response)]})


@dataclass(frozen=True, eq=False)
class TissueResponses:
    """What `EstimateTissueResponses` makes."""

    responses: tuple[Response, ...]
    notes: tuple[str, ...]

    @property
    def wm(self) -> Response:
        """That of white matter."""
        return self.responses[0]

    @property
    def gm(self) -> Response:
        """That of gray matter; InvalidInput if there are two tissues only."""
        if len(self.responses) < len(TISSUES):
            raise InvalidInput("white matter and CSF have responses, gray matter has none; choose three tissues")
        return self.responses[1]

    @property
    def csf(self) -> Response:
        """That of CSF."""
        return self.responses[-1]

    @property
    def complete(self) -> bool:
        """Whether all of it was done."""
        return all(one.complete for one in self.responses)


@dataclass(frozen=True, kw_only=True)
class EstimateTissueResponses(OfScan, verb="tissue-responses", makes=dict.fromkeys(TISSUES, Response)):
    """Estimate the signals of white matter, gray matter and CSF from a diffusion scan.

    Text files in MRtrix's format are written, with rows for all shells. With one shell: white matter and CSF (two).
    """

    examples = (
        "tissue-responses dwi.nii.gz --out wm.txt --gm-out gm.txt --csf-out csf.txt",
        "tissue-responses dwi.nii.gz --tissues two --out wm.txt --csf-out csf.txt",
    )
    keeps_parts = _NOT_IN_PART

    tissues: ThreeTissues | TwoTissues = part("Tissues", "From b0 and one shell: two.", default=ThreeTissues())

    def has(self, name: str) -> bool:
        """Whether a response of that tissue is estimated."""
        return name != "gm" or isinstance(self.tissues, ThreeTissues)

    def steps(self, data: Any, **run: Any) -> Steps:
        """Estimate them."""
        mask = self._mask(data)
        field, notes = yield from self._tensors(data.scan, mask, run)
        found = yield from estimate_tissue_responses_steps(data.scan, mask, self.tissues, field=field, **run)
        return TissueResponses(found, (*(note for one in found for note in one.notes), *notes))

    def summary(self, made: TissueResponses) -> Summary:
        """Their voxels and coefficients."""
        return Summary(tuple(map(_text, made.responses)), {"responses": [*map(_numbers, made.responses)]})


def _text(response: Response) -> str:
    rows = (" ".join(f"{value:.4g}" for value in row) for row in response.coefficients)
    coefficients = "; ".join(f"b {bval}: {row}" for bval, row in zip(response.bvals, rows, strict=True))
    return f"{len(response.parameters['voxels'])} voxels; {coefficients}"


def _numbers(response: Response) -> dict[str, Any]:
    voxels = len(response.parameters["voxels"])
    return {"voxels": voxels, "bvals_s_per_mm2": response.bvals, "coefficients": response.coefficients}


# -- FODs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Deconvolving(OfScan):
    """How FODs of a scan are made and checked."""

    def _fods(self, data: Any, responses: Any, settings: Any, mask: Any, run: Any) -> Steps:
        """FODs with notes on their axes; None if a run was stopped before there were any."""
        fods = yield from deconvolve_steps(data.scan, responses, mask, settings, **run)
        if not fods.complete:
            done = f"{np.count_nonzero(fods.mask):,} of {np.count_nonzero(mask):,} voxels"
            notes = (f"stopped early: only {done} have FODs",)
            return dataclasses.replace(fods, notes=(*fods.notes, *notes)) if fods.mask.any() else None
        if not fods.mask.any():
            raise InvalidInput("no voxel of the mask has an FOD; check the mask and the scan")
        field, notes = yield from self._tensors(data.scan, fods.mask, run)
        return dataclasses.replace(fods, notes=(*fods.notes, *notes, *_notes_of_axes(fods, field)))

    def summary(self, made: Any) -> Summary:
        """How many there are."""
        fods = made if isinstance(made, FodField) else made.fods
        count = int(fods.mask.sum())
        return Summary((f"{count:,} FODs of order {fods.lmax}",), {"fods": count, "lmax": fods.lmax})


def _notes_of_axes(fods: FodField, field: TensorField | None) -> tuple[str, ...]:
    """Whether FODs have the directions of tensors of the same scan, which have the same gradient table."""
    if field is None:
        return ("the directions were not checked, since the scan has no b0 volume for tensors",)
    if (check := check_fods(fods, field)).ok and check.sure:
        angle = f"median angle {check.median_angle_deg:.1f} degrees"
        return (f"the FODs agree with the tensors ({angle}), which have the same gradient table",)
    return notes_of_check(check)


@dataclass(frozen=True, kw_only=True)
class Deconvolve(_Deconvolving, verb="fod", makes={"fods": FodField}):
    """Estimate fiber orientation distributions (FODs) of a diffusion scan by constrained spherical deconvolution.

    Their directions are checked against the scan's tensors. Ctrl-C ends a run early: what was done is written. Several
    tissues: tissue-fods. Peaks of FODs: peaks.
    """

    examples = ("fod dwi.nii.gz --response wm.txt --out fod.nii.gz",)

    response: Ref[Response] | None = given(
        "Response", "Of a single fiber; by default estimated from the scan.", optional=True
    )
    settings: CsdSettings = part("Deconvolution", "Order and weights.", default=CsdSettings())

    def steps(self, data: Any, **run: Any) -> Steps:
        """Deconvolve the scan."""
        return self._fods(data, data.response, self.settings, self._mask(data), run)


@dataclass(frozen=True, eq=False)
class TissueFods(MadeOf, main="fods"):
    """What `DeconvolveTissues` makes: FODs, and densities of tissues."""

    fods: FodField

    def _density(self, name: str) -> Volume:
        known = {"wm": self.fods.coefficients[..., 0], **self.fods.tissues}
        if name not in known:
            raise InvalidInput(f"there is no density of {name}, whose response was not given")
        return Volume(array=np.ascontiguousarray(known[name]), affine=self.fods.affine, name=f"density of {name}")

    wm = property(lambda self: self._density("wm"))
    gm = property(lambda self: self._density("gm"))
    csf = property(lambda self: self._density("csf"))


@dataclass(frozen=True, kw_only=True)
class DeconvolveTissues(_Deconvolving, verb="tissue-fods", makes={"fods": FodField, **dict.fromkeys(TISSUES, Volume)}):
    """Estimate fiber orientation distributions (FODs) of a diffusion scan with several tissues, and their densities.

    Densities are on MRtrix's scale: 0.282 in a voxel full of one. Ctrl-C ends a run early: what was done is written,
    without normalization.
    """

    examples = (
        "tissue-fods dwi.nii.gz --responses wm.txt gm.txt csf.txt --normalize --out fod.mif --csf-out csf.nii.gz",
    )

    responses: tuple[Ref[Response], ...] = given(
        "Responses", "Of white matter and CSF, or of white matter, gray matter and CSF, in this order."
    )
    normalize: bool = param(False, "Normalize", "Normalize intensities, as mtnormalise does.")
    settings: MultiTissueSettings = part("Deconvolution", "Order and directions.", default=MultiTissueSettings())

    def check(self) -> None:
        """Raise InvalidInput if there is one response, or too many."""
        if len(self.responses) not in (2, len(TISSUES)):
            raise InvalidInput(
                f"there are {len(self.responses)} responses; give those of white matter and CSF, or of white matter, "
                "gray matter and CSF"
            )

    def has(self, name: str) -> bool:
        """Whether there are FODs, or densities of that tissue."""
        return name != "gm" or len(self.responses) == len(TISSUES)

    def steps(self, data: Any, **run: Any) -> Steps:
        """Deconvolve the scan."""
        check_tissues(data.responses)
        mask = self._mask(data)
        if self.normalize and (count := np.count_nonzero(mask)) < MIN_VOXELS:
            raise InvalidInput(f"the mask has {count} voxels, and to normalize takes {MIN_VOXELS}; leave that out")
        fods = yield from self._fods(data, data.responses, self.settings, mask, run)
        if fods is None:
            return None
        return TissueFods(normalize_tissues(fods) if self.normalize and fods.complete else fods)


# -- peaks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Peaks(MadeOf, main="fixels"):
    """What `FindPeaks` makes: the same fixels under two names, for two files."""

    fixels: FixelField

    @property
    def peaks(self) -> FixelField:
        """The same."""
        return self.fixels


@dataclass(frozen=True, kw_only=True)
class FindPeaks(Operation, verb="peaks", makes={"peaks": FixelField, "fixels": FixelField}):
    """Find the peaks of fiber orientation distributions (FODs) of this program, MRtrix or DIPY.

    A file with the ending of an image gets them as MRtrix's image of peaks, any other name is that of a new folder of
    MRtrix's fixels. Ctrl-C ends a run early: what was found is written.
    """

    examples = ("peaks fod.mif --out peaks.nii.gz --fixels-out fixels",)

    fods: Ref[FodField] = given("FODs", "NIfTI, .mif or .pam5.")
    settings: PeakSettings = part("Peaks", "Which maxima are taken.", default=PeakSettings())

    def steps(self, data: Any, **run: Any) -> Steps:
        """Find them."""
        found = yield from find_peaks_steps(data.fods, self.settings, **run)
        if len(found.directions):
            return Peaks(found)
        if found.complete:
            raise InvalidInput("no peak is high enough; lower the thresholds, or check the FODs")
        return None

    def summary(self, made: Peaks) -> Summary:
        """How many there are."""
        return Summary((f"{len(made.fixels.directions):,} peaks",), {"peaks": len(made.fixels.directions)})


register_conversion(Conversion(FindPeaks, "fods", is_fods))
