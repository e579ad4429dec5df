"""The verbs of registration: an image onto another one, and labels and maps through the transforms that are found."""

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.kinds import MadeOf, register_kind
from napari_gpubio.core.operations.records import File, Operation, Reading, Ref, Summary, given
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.quantity import Quantity
from napari_gpubio.core.settings import part
from napari_gpubio.core.steps import Step
from napari_gpubio.core.volumes import stem_of
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.operations import OpenAtlas, OpenScan  # noqa: F401 - they open what these verbs take
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.registration.io.transforms import ENDINGS, read_transform, write_transform
from napari_gpubio.registration.model import Transform
from napari_gpubio.registration.resample import checkerboard, resampled
from napari_gpubio.registration.run import register_steps
from napari_gpubio.registration.settings import RegistrationSettings


@dataclass(frozen=True, kw_only=True)
class OpenTransform(Reading, verb="open-transform", makes={"transform": Transform}):
    """Open a transform of ITK or ANTs, linear or a warp, of FSL's FLIRT, or a matrix of 4 rows of 4 numbers."""

    file: File = part("File", "Transform: .tfm, .txt, .mat, .h5, or a warp: .nii.gz.")
    moving: File | None = part("FLIRT's input", "Image that FLIRT was given as -in.", default=None, advanced=True)
    fixed: File | None = part("FLIRT's reference", "Image that FLIRT was given as -ref.", default=None, advanced=True)

    def read(self, data: Any) -> Transform:
        """Read it."""
        return read_transform(data.file, moving=data.moving, fixed=data.fixed)


register_kind(
    Transform,
    counts=lambda one: (one.matrix, *(part for warp in one.warps for part in (warp.displacements, warp.affine))),
    endings=ENDINGS,
    write=lambda one, path, _: write_transform(one, path),
    opens=OpenTransform,
)


@dataclass(frozen=True, kw_only=True)
class _Onto(Operation):
    """What all verbs take: what is carried over, and the image or the scan on whose grid the result lies."""

    moving: Ref[Any] = given("Moving", "What is carried over.")
    onto: Ref[Volume] | None = given("Onto", "Fixed image, such as the mean b = 0 or the FA.", optional=True)
    scan: Ref[DiffusionScan] | None = given("Scan", "Diffusion scan, whose mean b = 0 is taken.", optional=True)

    def check(self) -> None:
        """Raise InvalidInput unless there is one of both."""
        if (self.onto is None) == (self.scan is None):
            raise InvalidInput(
                f"give an image (onto) or a diffusion scan, {'not both' if self.onto else 'one of both'}"
            )


def _fixed(data: Any) -> Volume:
    """The image on whose grid the result lies."""
    found: Volume = data.onto
    if data.scan is not None:
        found = Volume(array=data.scan.b0_mean(), affine=data.scan.affine, name="mean b = 0")
    return found


def _carried(volume: Volume, transforms: tuple[Transform, ...], fixed: Volume, source: str) -> Volume:
    """A volume on the grid of another one, whose numbers mean what they meant."""
    if volume.quantity is not None and volume.quantity.is_log:
        raise InvalidInput(f"{volume.name} holds logarithms, whose means are wrong ones; give the linear values")
    if volume.array.ndim < 3:
        raise InvalidInput(f"{volume.name} is a plane; give a volume")
    values, shape = np.nan_to_num(volume.array), fixed.array.shape
    array = resampled(values, volume.affine, transforms, shape, fixed.affine, linear=True)
    name, unit = (volume.quantity.name, volume.quantity.unit) if volume.quantity else ("signal", "")
    called = f"{stem_of(Path(volume.name))} on {stem_of(Path(fixed.name))}"
    return fixed.like(array, name=called, quantity=Quantity(name, unit, source=source))


@dataclass(frozen=True, eq=False, kw_only=True)
class Registered(MadeOf, main="transform"):
    """What a registration makes.

    Parameters
    ----------
    image
        The moving image on the grid of the fixed one; figures are in its quantity's source.
    transform
        From the points of the fixed image to those of the moving one, with its figures.
    inverse
        The other way, for what is to go from the scan to the T1.
    checkerboard
        Blocks of both images in turn, each from 0 to 1.
    """

    image: Volume
    transform: Transform
    inverse: Transform
    checkerboard: Volume


_MAKES = {"image": Volume, "transform": Transform, "inverse": Transform, "checkerboard": Volume}


@dataclass(frozen=True, kw_only=True)
class Register(_Onto, verb="register", makes=_MAKES):
    """Register a T1, a template, or an atlas' own image to a diffusion scan or another image (needs SimpleITK).

    Mutual information is maximized from coarse to fine; nonlinear bends the images after that, for an image of the same
    contrast such as FA to FA (needs DIPY). Figures tell how well it went, and the checkerboard shows it. Labels are
    carried over with transform-labels.
    """

    examples = (
        "register t1.nii.gz --scan dwi.nii.gz --out t1_on_scan.nii.gz --transform-out t1_to_scan.tfm",
        "register mni.nii.gz --onto t1.nii.gz --method affine --transform-out mni_to_t1.tfm",
        "register fa_template.nii.gz --onto fa.nii.gz --method nonlinear --transform-out template_to_scan.h5",
    )
    keeps_parts = "a registration that was stopped has not found the place"
    moving: Ref[Volume] = given("Moving", "Image that is registered, such as a T1 or a template.")
    settings: RegistrationSettings = part("Settings", "Method and levels.", default=RegistrationSettings())

    def steps(self, data: Any, *, stop: Any = None, **_: Any) -> Generator[Step, None, Registered]:
        """Find the transform, and resample once."""
        fixed, moving = _fixed(data), data.moving
        names = moving.name, fixed.name
        steps = register_steps(
            moving.array, moving.affine, fixed.array, fixed.affine, self.settings, names=names, stop=stop
        )
        found = yield from steps
        image = _carried(moving, (found,), fixed, "; ".join((*found.lines(), *found.notes)))
        board = checkerboard(np.nan_to_num(fixed.array), image.array, fixed.affine, self.settings.blocks_mm)
        shown = fixed.like(board, name=f"checkerboard, {image.name}")
        return Registered(image=image, transform=found, inverse=found.inverse(), checkerboard=shown)

    def summary(self, result: Registered) -> Summary:
        """The figures."""
        return Summary(tuple(result.transform.lines()), dict(result.transform.figures))


@dataclass(frozen=True, kw_only=True)
class _Through(_Onto):
    """What goes through transforms."""

    through: tuple[Ref[Transform], ...] = given(
        "Through", "Transforms in order, from the input's space to the scan's; none: as the headers say.", optional=True
    )


@dataclass(frozen=True, kw_only=True)
class TransformImage(_Through, verb="transform-image", makes={"image": Volume}):
    """Carry an image or a map over, through one transform or several, with one linear interpolation."""

    examples = ("transform-image t1map.nii.gz --through t1_to_scan.tfm --scan dwi.nii.gz --out t1map_on_scan.nii.gz",)
    moving: Ref[Volume] = given("Image", "Image or map, or a series.")

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, Volume]:
        """Resample it."""
        yield Step(0, 1, "resampling")
        return _carried(data.moving, data.through, _fixed(data), f"through {len(self.through)} transforms")


@dataclass(frozen=True, kw_only=True)
class TransformLabels(_Through, verb="transform-labels", makes={"labels": Atlas}):
    """Carry labels over, through one transform or several, by the nearest voxel in one step; names stay."""

    examples = (
        "transform-labels aparc+aseg.nii.gz --through t1_to_scan.tfm --scan dwi.nii.gz --out labels_on_scan.nii.gz",
        "transform-labels atlas.nii.gz --through mni_to_t1.tfm t1_to_scan.tfm --onto fa.nii.gz --out on_scan.nii.gz",
    )
    moving: Ref[Atlas] = given("Labels", "Volume of labels, such as those of FreeSurfer.")

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, Atlas]:
        """Look each voxel up."""
        yield Step(0, 1, "looking labels up")
        atlas, fixed = data.moving, _fixed(data)
        found = resampled(atlas.labels, atlas.affine, data.through, fixed.array.shape, fixed.affine, linear=False)
        there = set(np.unique(found).tolist())
        if there == {0}:
            raise InvalidInput(
                f"no label lies in {fixed.name}: check the order of the transforms, which goes from the labels to it, "
                "and that they are of these images"
            )
        lost = [atlas.name_of(label) for label in atlas.voxel_counts if label not in there]
        notes = (f"{len(lost)} of {len(atlas)} labels have no voxel left: {', '.join(lost[:5])}",) * bool(lost)
        return Atlas(labels=found, affine=fixed.affine, names=atlas.names, notes=notes)

    def summary(self, result: Atlas) -> Summary:
        """Labels that are there."""
        return Summary((f"{len(result)} labels",), {"labels": len(result)})
