"""Fiber orientation distributions and fixels as values of operations: how they are opened and written."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD, describe
from napari_gpubio.core.mif_writer import MIF_WRITE_SUFFIXES
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import File, Reading, Ref, file, given
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import part
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, stem_of
from napari_gpubio.diffusion.fods.frames import FRAMES
from napari_gpubio.diffusion.fods.harmonics import BASES
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.io.bedpostx import bedpostx_folder_of
from napari_gpubio.diffusion.io.fixel_folders import fixel_folder_of, write_fixels
from napari_gpubio.diffusion.io.fixels import read_fixels, write_peaks
from napari_gpubio.diffusion.io.fods import check_fod_output, read_fods, write_fods
from napari_gpubio.diffusion.model import TensorField

_IMAGES = (*NIFTI_SUFFIXES, *MIF_WRITE_SUFFIXES)
_FRAMES = ("auto", *FRAMES)


@dataclass(frozen=True, kw_only=True)
class OpenFods(Reading, verb="open-fods", makes={"fods": FodField}):
    """Open fiber orientation distributions (FODs) of MRtrix, DIPY or this program."""

    examples = ("open-fods fod.nii.gz --basis descoteaux --out fod.mif",)

    file: File = part("File", "NIfTI, MRtrix image or .pam5 file.")
    basis: str = param("auto", "Basis", "Harmonics of the FODs.", choices=("auto", *BASES))
    frame: str = param("auto", "Axes", "That the FODs refer to.", choices=_FRAMES)
    mask: File | None = part("Mask", "Voxels to use: not 0. By default all that hold an FOD.", default=None)

    def read(self, data: Any) -> FodField:
        """Read them."""
        return read_fods(data.file, basis=self.basis, frame=self.frame, mask=data.mask)


@dataclass(frozen=True, kw_only=True)
class OpenFixels(Reading, verb="open-fixels", makes={"fixels": FixelField}):
    """Open fixels or peaks of MRtrix, TractSeg, DIPY, FSL or DSI Studio: an image, or a folder."""

    file: File = part("File", "Image of peaks, .pam5 or .fib.gz file; of a folder, the file that it is known by.")
    beside: tuple[File, ...] = part("Beside it", "The other files of the folder.", default=())
    frame: str = param("auto", "Axes", "That the directions refer to.", choices=_FRAMES)
    amplitude: str = param("", "Amplitudes", "Which file of an MRtrix folder holds them; found by its name by default.")
    tensors: Ref[TensorField] | None = given(
        "Tensors", "Of the same scan, which tell the axes where the file does not.", optional=True
    )

    @property
    def title(self) -> str:
        """Name of the file or folder."""
        path = Path(self.file.path)
        return path.parent.name if self.beside else stem_of(path)

    @classmethod
    def at(cls, path: str | Path, **options: Any) -> "OpenFixels":
        """Return the operation that opens an image, or a folder with all of its files, as it is now."""
        path = Path(path)
        folder = fixel_folder_of(path) or bedpostx_folder_of(path) or (path if path.is_dir() else None)
        if folder is None:
            return cls(file=file(path), **options)
        files = sorted(
            one for one in folder.iterdir() if one.is_file() and one.name.lower().endswith((*_IMAGES, ".mih"))
        )
        known = [one for one in files if fixel_folder_of(one) or bedpostx_folder_of(one)]
        if not known:
            read_fixels(folder)  # says why not
            raise InvalidInput(f"the folder {folder.name} holds no fixels; choose one of MRtrix or bedpostX")
        rest = tuple(file(one) for one in files if one != known[0])
        return cls(file=file(known[0]), beside=rest, **options)

    def read(self, data: Any) -> FixelField:
        """Read them."""
        return read_fixels(data.file, frame=self.frame, amplitude=self.amplitude or None, tensors=data.tensors)


def _write_fods(fods: FodField, path: Path, record: Mapping[str, Any]) -> None:
    write_fods(path, fods)
    if path.name.lower().endswith(NIFTI_SUFFIXES):
        describe(path, {RECORD: record})


def _write_fixels(fixels: FixelField, path: Path, _: Mapping[str, Any]) -> None:
    """As an image of peaks, or where the name has no such ending, as a folder of MRtrix."""
    if path.name.lower().endswith(_IMAGES):
        write_peaks(path, fixels)
    else:
        write_fixels(path, fixels)


register_kind(
    FodField,
    counts=lambda fods: (fods.coefficients, fods.mask, fods.affine, fods.tissues),
    endings=_IMAGES,
    write=_write_fods,
    beside=lambda path: {"the JSON file": check_fod_output(path)},
    opens=OpenFods,
    shows="napari_gpubio.diffusion.fods.napari_io:layers_of_fods",
)
register_kind(
    FixelField,
    counts=lambda one: (one.counts, one.directions, one.amplitudes, one.affine, one.numbers),
    endings=("",),
    write=_write_fixels,
    opens=OpenFixels,
    shows="napari_gpubio.diffusion.fods.napari_io:layers_of_fixels",
)
