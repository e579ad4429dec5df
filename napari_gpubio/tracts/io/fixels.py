"""Fixels, the fiber directions of each voxel, of MRtrix, TractSeg, DIPY, FSL and DSI Studio, in; peaks also out.

==========  ========================================================  ====================  ==============
kind        layout                                                    directions            no fixel
==========  ========================================================  ====================  ==============
mrtrix      folder (`napari_gpubio.tracts.io.fixel_folders`)          world axes            count 0
peaks       X, Y, Z, 3 n; length = amplitude (MRtrix, TractSeg)       world axes            NaN, or zero
dipy        X, Y, Z, n, 3; or X, Y, Z, 3 n                            bvec file's axes      zero
pam5        HDF5 (`napari_gpubio.tracts.io.pam5`)                     bvec file's axes      zero
bedpostx    folder (`napari_gpubio.tracts.io.bedpostx`)               bvec file's axes      f below 0.05
dsi_studio  MATLAB v4 (`napari_gpubio.tracts.io.dsi_studio`)          voxels' axes          fa 0
==========  ========================================================  ====================  ==============
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.reading import reads_file
from napari_gpubio.core.tensor_components import axes_of
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, open_nifti, save_nifti
from napari_gpubio.tracts.fods.frames import checked_frame, frame_note
from napari_gpubio.tracts.fods.model import FixelField
from napari_gpubio.tracts.io.bedpostx import bedpostx_folder_of, read_bedpostx
from napari_gpubio.tracts.io.dsi_studio import DSI_STUDIO_SUFFIXES, read_dsi_studio
from napari_gpubio.tracts.io.dwi import read_array
from napari_gpubio.tracts.io.fixel_folders import fixel_folder_of, read_fixel_folder
from napari_gpubio.tracts.io.mif import MIF_SUFFIXES
from napari_gpubio.tracts.io.mif_writer import MIF_WRITE_SUFFIXES, write_mif
from napari_gpubio.tracts.io.pam5 import PAM5_SUFFIX, read_pam5_peaks

Array = npt.NDArray[Any]
Affine = npt.NDArray[np.float64]
Dense = tuple[Array, Array, Affine, tuple[str, ...]]  # directions, amplitudes, affine, notes


@reads_file
def read_fixels(
    path: str | Path, *, kind: str = "auto", frame: str = "auto", amplitude: str | None = None
) -> FixelField:
    """Read fixels or peaks of another program.

    Parameters
    ----------
    path
        A folder of MRtrix (or its index file) or of bedpostX (or a file of it); a ``.pam5``, ``.fib.gz``, ``.fib`` or
        ``.fz`` file; or an image of peaks.
    kind
        A row of the table above, or ``"auto"``: by the name, and for NIfTI by the number of dimensions.
    frame
        Axes that the directions refer to: ``"world"``, ``"fsl"`` (those of the bvec file), ``"voxel"``, or ``"auto"``:
        the program's convention, which a note names.
    amplitude
        For a folder of MRtrix: which of its files holds the amplitudes; see
        `napari_gpubio.tracts.io.fixel_folders.read_fixel_folder`.

    Returns
    -------
    FixelField
        World axes; in each voxel the largest amplitude comes first.

    Raises
    ------
    InvalidInput
        If a file is missing or damaged, its parts do not fit each other, there is no fixel at all, or a choice is
        unknown.
    """
    if kind not in ("auto", "mrtrix", *_KINDS):
        raise InvalidInput(f"kind is {kind!r}; choose one of 'auto', 'mrtrix', {', '.join(map(repr, _KINDS))}")
    path = Path(path)
    kind = _kind(path) if kind == "auto" else kind
    if kind == "mrtrix":
        return read_fixel_folder(fixel_folder_of(path) or path, frame=frame, amplitude=amplitude)
    if amplitude is not None:
        raise InvalidInput(f"amplitude={amplitude!r} names a file of an MRtrix folder, which {path.name} is not")
    if kind == "bedpostx":
        path = bedpostx_folder_of(path) or path
    read, program, usual = _KINDS[kind]
    own = checked_frame(frame, usual)
    directions, amplitudes, affine, notes = read(path)
    fixels = FixelField.from_dense(
        directions @ axes_of(own, affine).T.astype(directions.dtype),
        amplitudes,
        affine,
        path=path,
        notes=(*notes, frame_note("directions", own, program, source="as requested" if frame != "auto" else "")),
        parameters={"kind": kind, "frame": own},
    )
    if not len(fixels.directions):
        raise InvalidInput(f"{path.name} has no fixel whose direction and amplitude are finite and not 0; check it")
    return fixels


def write_peaks(path: str | Path, fixels: FixelField, *, most: int | None = None, missing: float = np.nan) -> None:
    """Write the largest fixels of each voxel as an image of peaks, in world axes, as MRtrix has them.

    Parameters
    ----------
    path
        Ends in ``.nii``, ``.nii.gz``, ``.mif`` or ``.mif.gz``; an older file is replaced only when the new one is
        complete.
    fixels
        What to write; numbers other than the amplitudes are left out.
    most
        Fixels of a voxel; None for as many as the voxel with the most has.
    missing
        Goes to places without a fixel: NaN for MRtrix, 0 for TractSeg.

    Raises
    ------
    InvalidInput
        If ``most`` is not positive, there is no fixel, the ending is not known or the folder does not exist.
    """
    path = Path(path)
    if most is not None and most < 1:
        raise InvalidInput(f"most is {most}; at least one peak in a voxel is needed")
    if not len(fixels.directions):
        raise InvalidInput("there are no fixels to write; choose others")
    directions, amplitudes = fixels.dense(most)
    peaks = directions * amplitudes[..., None]
    there = np.arange(amplitudes.shape[3]) < fixels.counts[..., None]
    peaks[~there] = missing
    peaks = peaks.reshape(*fixels.shape, -1)
    if path.name.lower().endswith(MIF_WRITE_SUFFIXES):
        write_mif(path, peaks, fixels.affine)
        return
    import nibabel

    save_nifti(path, nibabel.Nifti1Image(peaks, fixels.affine), "peaks, world axes, length = amplitude")


def _kind(path: Path) -> str:
    """The kind of a file or folder, by its name and, for NIfTI, its number of dimensions."""
    name = path.name.lower()
    if fixel_folder_of(path) is not None:
        return "mrtrix"
    if bedpostx_folder_of(path) is not None:
        return "bedpostx"
    if path.is_dir():
        raise InvalidInput(
            f"the folder {path.name} has neither index and directions, as MRtrix's fixels, nor dyads1 or "
            "merged_th1samples, as bedpostX; choose one that has"
        )
    existing_file(path)
    if name.endswith(PAM5_SUFFIX):
        return "pam5"
    if name.endswith(DSI_STUDIO_SUFFIXES):
        return "dsi_studio"
    if name.endswith(NIFTI_SUFFIXES):
        return "dipy" if len(open_nifti(path).shape) == 5 else "peaks"
    if name.endswith(MIF_SUFFIXES):
        return "peaks"
    known = ", ".join((PAM5_SUFFIX, *DSI_STUDIO_SUFFIXES, *NIFTI_SUFFIXES, *MIF_SUFFIXES))
    raise InvalidInput(f"the ending of {path.name} is unknown; fixels are read from folders and {known}")


def _image(path: Path) -> Dense:
    """Peaks of an image; the length of each is its amplitude."""
    data, affine = read_array(path)
    shape = data.shape
    if len(shape) == 4 and shape[3] % 3 == 0:
        data = data.reshape(*shape[:3], -1, 3)
    if data.ndim != 5 or data.shape[4] != 3:
        raise InvalidInput(
            f"{path.name} has shape {shape}; an image of peaks has (X, Y, Z, 3 n) or (X, Y, Z, n, 3), three numbers "
            "for each peak"
        )
    directions = data.astype(np.result_type(data.dtype, np.float32), copy=False)
    amplitudes = np.linalg.norm(directions, axis=-1)
    odd = np.isnan(directions).any(axis=-1) ^ np.isnan(directions).all(axis=-1)
    odd |= np.isinf(directions).any(axis=-1)
    count = int(np.count_nonzero(odd))
    notes = (f"{count} peaks have some values that are not finite; they were left out",) if count else ()
    return directions, amplitudes, affine, notes


def _pam5(path: Path) -> Dense:
    return *read_pam5_peaks(path), ()


class _Kind(NamedTuple):
    """How a kind is read, the program that writes it, and the frame of its directions."""

    read: Callable[[Path], Dense]
    program: str
    frame: str


_KINDS = {
    "peaks": _Kind(_image, "MRtrix", "world"),
    "dipy": _Kind(_image, "DIPY", "fsl"),
    "pam5": _Kind(_pam5, "DIPY", "fsl"),
    "bedpostx": _Kind(read_bedpostx, "FSL", "fsl"),
    "dsi_studio": _Kind(read_dsi_studio, "DSI Studio", "voxel"),
}
