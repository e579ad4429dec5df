"""Fixels, the fiber directions of each voxel, of MRtrix, TractSeg, DIPY, FSL and DSI Studio, in; peaks also out.

==========  ========================================================  ====================  ==============
kind        layout                                                    directions            no fixel
==========  ========================================================  ====================  ==============
mrtrix      folder (`napari_gpubio.diffusion.io.fixel_folders`)          world axes            count 0
peaks       image of MRtrix, TractSeg                                 world axes            NaN, or zero
dipy        image of DIPY, scilpy, FSL                                bvec file's axes      zero
pam5        HDF5 (`napari_gpubio.diffusion.io.pam5`)                     bvec file's axes      zero
bedpostx    folder (`napari_gpubio.diffusion.io.bedpostx`)               bvec file's axes      f below 0.05
dsi_studio  MATLAB v4 (`napari_gpubio.diffusion.io.dsi_studio`)          voxels' axes          fa 0
==========  ========================================================  ====================  ==============

The images look alike; how they are distinguished: `napari_gpubio.diffusion.io.peak_images`.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.mif import MIF_SUFFIXES
from napari_gpubio.core.mif_writer import MIF_WRITE_SUFFIXES, write_mif
from napari_gpubio.core.reading import reads_file
from napari_gpubio.core.tensor_components import axes_of
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, save_nifti
from napari_gpubio.diffusion.fods.axis_check import Tensors, agreeing, check_axes, tensors_of
from napari_gpubio.diffusion.fods.frames import checked_frame, frame_note
from napari_gpubio.diffusion.fods.model import FixelField
from napari_gpubio.diffusion.io.bedpostx import bedpostx_folder_of, read_bedpostx
from napari_gpubio.diffusion.io.dsi_studio import DSI_STUDIO_SUFFIXES, read_dsi_studio
from napari_gpubio.diffusion.io.fixel_folders import fixel_folder_of, read_fixel_folder
from napari_gpubio.diffusion.io.pam5 import PAM5_SUFFIX, read_pam5_peaks
from napari_gpubio.diffusion.io.peak_images import Convention, note_amplitudes, own_description, read_peak_image

Array = npt.NDArray[Any]
Affine = npt.NDArray[np.float64]


@reads_file
def read_fixels(
    path: str | Path,
    *,
    kind: str = "auto",
    frame: str = "auto",
    amplitude: str | None = None,
    tensors: Tensors = None,
) -> FixelField:
    """Read fixels or peaks of another program.

    Parameters
    ----------
    path
        A folder of MRtrix (or its index file) or of bedpostX (or a file of it); a ``.pam5``, ``.fib.gz``, ``.fib`` or
        ``.fz`` file; or an image of peaks.
    kind
        A row of the table above, or ``"auto"``: by the name, and for images by what the file and its numbers show.
    frame
        Axes that the directions refer to: ``"world"``, ``"fsl"`` (those of the bvec file), ``"voxel"``, or ``"auto"``:
        the program's convention, which a note names, with the sign of the program.
    amplitude
        For a folder of MRtrix: which of its files holds the amplitudes; see
        `napari_gpubio.diffusion.io.fixel_folders.read_fixel_folder`.
    tensors
        Of the same scan, or several, of which those with the same voxels are taken: where the axes are not given and
        the file does not say them, those are taken under which the directions agree with the tensors, if it is clear;
        see `napari_gpubio.diffusion.fods.axis_check.agreeing`.

    Returns
    -------
    FixelField
        World axes; in each voxel the largest amplitude comes first.

    Raises
    ------
    InvalidInput
        If a file is missing or damaged, its parts do not fit each other, there is no fixel at all, or a choice is
        unknown, or the axes are not clear.
    """
    if kind not in ("auto", "mrtrix", *_KINDS):
        raise InvalidInput(f"kind is {kind!r}; choose one of 'auto', 'mrtrix', {', '.join(map(repr, _KINDS))}")
    path = Path(path)
    kind = _kind(path) if kind == "auto" else kind
    if kind == "mrtrix":
        return _checked(read_fixel_folder(fixel_folder_of(path) or path, frame=frame, amplitude=amplitude), tensors)
    if amplitude is not None:
        raise InvalidInput(f"amplitude={amplitude!r} names a file of an MRtrix folder, which {path.name} is not")
    if kind == "bedpostx":
        path = bedpostx_folder_of(path) or path
    directions, amplitudes, affine, convention = _READERS.get(kind, read_peak_image)(path)
    if kind in _IMAGES:
        convention = _IMAGES[kind]
    own = checked_frame(frame, convention.frame or "fsl")
    source = "as requested" if frame != "auto" else "" if convention.program else convention.reason
    why = f"{convention.program} has them" + (f" ({convention.reason})" if convention.reason else "")
    fixels = FixelField.from_dense(
        directions @ axes_of(own, affine).T.astype(directions.dtype),
        amplitudes,
        affine,
        path=path,
        notes=(frame_note("directions", own, why, source=source),),
        parameters={
            "kind": kind if kind != "auto" else "peaks" if convention.frame == "world" else "dipy",
            "frame": own,
            "frame_assumed": not source,
        },
    )
    if not len(fixels.directions):
        raise InvalidInput(f"{path.name} has no fixel whose direction and amplitude are finite and not 0; check it")
    fixels = _checked(fixels, tensors)
    if frame == "auto" and not convention.frame:
        field = tensors_of(fixels, tensors)
        check = None if field is None else check_axes(fixels, field)
        if check is None or not (check.ok and check.sure):
            raise InvalidInput(
                f"the axes of the directions in {path.name} are not clear ({convention.reason}); give frame='world', "
                "'fsl' or 'voxel', or tensors= of the same scan"
            )
    return fixels


def _checked(fixels: FixelField, tensors: Tensors) -> FixelField:
    """Note amplitudes that cannot be, and take the axes under which fixels agree with the tensors of their voxels."""
    note_amplitudes(fixels.amplitudes)
    field = tensors_of(fixels, tensors)
    return fixels if field is None else agreeing(fixels, field)


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
        write_mif(path, peaks, fixels.affine, header={"comments": own_description(peaks)})
        return
    import nibabel

    save_nifti(path, nibabel.Nifti1Image(peaks, fixels.affine), own_description(peaks))


def _kind(path: Path) -> str:
    """The kind of a file or folder by its name, ``"auto"`` for an image."""
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
    if name.endswith((*NIFTI_SUFFIXES, *MIF_SUFFIXES)):
        return "auto"
    known = ", ".join((PAM5_SUFFIX, *DSI_STUDIO_SUFFIXES, *NIFTI_SUFFIXES, *MIF_SUFFIXES))
    raise InvalidInput(f"the ending of {path.name} is unknown; fixels are read from folders and {known}")


def _pam5(path: Path) -> tuple[Array, Array, Affine, Convention]:
    return *read_pam5_peaks(path), Convention("fsl", "DIPY")


def _bedpostx(path: Path) -> tuple[Array, Array, Affine, Convention]:
    return *read_bedpostx(path), Convention("fsl", "FSL")


def _dsi_studio(path: Path) -> tuple[Array, Array, Affine, Convention]:
    return *read_dsi_studio(path), Convention("voxel", "DSI Studio")


_IMAGES = {"peaks": Convention("world", "MRtrix"), "dipy": Convention("fsl", "DIPY")}  # what the caller says they are
_READERS = {"pam5": _pam5, "bedpostx": _bedpostx, "dsi_studio": _dsi_studio}
_KINDS = (*_IMAGES, *_READERS)
