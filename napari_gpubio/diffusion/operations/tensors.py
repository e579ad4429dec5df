"""Tensors as values of operations: how they are opened, fitted and written, with their maps."""

import functools
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.layer_files import RECORD, describe
from napari_gpubio.core.operations.kinds import Conversion, MadeOf, register_conversion, register_kind
from napari_gpubio.core.operations.records import File, Operation, Reading, Ref, Summary, given
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.parameters import param
from napari_gpubio.core.report import WARNING
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.core.tensor_components import FRAMES
from napari_gpubio.core.volumes import NIFTI_SUFFIXES
from napari_gpubio.diffusion.fods.axis_check import AxisCheck
from napari_gpubio.diffusion.io.kinds import is_scan
from napari_gpubio.diffusion.io.tensor_images import read_tensors, write_tensors
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.operations.scans import mask_of_scan
from napari_gpubio.diffusion.tensors.gradient_check import GradientCheck, check_gradients
from napari_gpubio.diffusion.tensors.run import fit_tensors_steps
from napari_gpubio.diffusion.tensors.scalar_maps import scalar_map
from napari_gpubio.diffusion.tensors.settings import FitSettings


@dataclass(frozen=True, eq=False)
class TensorsWithMaps(MadeOf, main="field"):
    """Tensors, and their maps, which are made when they are looked at."""

    field: TensorField

    def _map(self, name: str) -> Volume:
        return Volume(array=scalar_map(self.field, name), affine=self.field.affine, name=name)

    fa = functools.cached_property(lambda self: self._map("FA"))
    md = functools.cached_property(lambda self: self._map("MD"))
    ad = functools.cached_property(lambda self: self._map("AD"))
    rd = functools.cached_property(lambda self: self._map("RD"))
    v1 = functools.cached_property(lambda self: self._map("V1"))
    dec = functools.cached_property(lambda self: self._map("DEC"))
    s0 = functools.cached_property(lambda self: self._map("S0"))


_MAPS = dict.fromkeys(("fa", "md", "ad", "rd", "v1", "dec"), Volume)


@dataclass(frozen=True, kw_only=True)
class OpenTensors(Reading, verb="open-tensors", makes={"field": TensorField, **_MAPS}):
    """Open a tensor image of MRtrix, FSL, DIPY or this program, and make its maps."""

    examples = ("open-tensors tensors.nii.gz --order fsl --fa-out fa.nii.gz",)

    file: File = part("File", "NIfTI or MRtrix image of tensors.")
    order: str = param(
        "auto", "Order", "Of the components of a tensor image.", choices=("auto", "mrtrix", "fsl", "dipy", "full")
    )
    frame: str = param(
        "auto",
        "Axes",
        "That the components of a tensor image refer to.",
        choices=("auto", *dict.fromkeys(FRAMES.values())),
    )
    mask: File | None = part("Mask", "Voxels to use: not 0. By default all that hold a tensor.", default=None)

    def read(self, data: Any) -> TensorsWithMaps:
        """Read it."""
        return TensorsWithMaps(read_tensors(data.file, order=self.order, frame=self.frame, mask=data.mask))


@dataclass(frozen=True, eq=False)
class FittedTensors(TensorsWithMaps):
    """What `FitTensors` makes."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found or changed, and whether the gradient table may be wrong."""
        return (*self.field.notes, *notes_of_check(self._check))

    @functools.cached_property
    def _check(self) -> GradientCheck:
        return check_gradients(self.field)


def notes_of_check(check: GradientCheck | AxisCheck) -> tuple[str, ...]:
    """Return a warning of axes that are wrong, or a note where that could not be decided, or nothing."""
    if not check.ok:
        return (f"{WARNING}{check.message}",)
    return () if check.sure else (f"{check.message[0].lower()}{check.message[1:].partition('. ')[0]}",)


@dataclass(frozen=True, kw_only=True)
class FitTensors(Operation, verb="tensors", makes={"field": TensorField, **_MAPS, "s0": Volume}):
    """Fit diffusion tensors to a scan, and make their maps.

    A wrong gradient table is warned of. Ctrl-C ends a run early: the voxels that were fitted are written.
    """

    examples = (
        "tensors dwi.nii.gz --mask brain.nii.gz --out tensors.nii.gz --fa-out fa.nii.gz --dec-out dec.nii.gz",
        "tensors dwi.nii.gz --shells 1000 --estimator ols --record fit.json",
    )

    scan: Ref[DiffusionScan] = given("Scan", "Diffusion scan: NIfTI with bval and bvec beside it, or .mif.")
    mask: Ref[Volume] | None = given(
        "Mask", "Voxels to fit: not 0. By default a mask that is made from the b0 volumes.", optional=True
    )
    settings: FitSettings = part("Fit", "Estimator, shells, repair.", default=FitSettings())

    def steps(self, data: Any, **run: Any) -> Generator[Step, None, FittedTensors]:
        """Fit them."""
        mask = None if data.mask is None else mask_of_scan(data.mask, data.scan)
        return FittedTensors((yield from fit_tensors_steps(data.scan, mask, self.settings, **run)))

    def summary(self, made: FittedTensors) -> Summary:
        """How many there are."""
        count, repaired = int(made.field.mask.sum()), made.field.repaired_count
        return Summary((f"{count:,} tensors",), {"tensors": count, "repaired": repaired})


def _write(field: TensorField, path: Path, record: Mapping[str, Any]) -> None:
    write_tensors(path, field)
    describe(path, {RECORD: record})


register_kind(
    TensorField,
    counts=lambda field: (field.tensors, field.mask, field.affine, field.s0),
    endings=NIFTI_SUFFIXES,
    write=_write,
    opens=OpenTensors,
    shows="napari_gpubio.diffusion.napari_io:layers_of_tensors",
)
register_conversion(Conversion(FitTensors, "scan", is_scan))
