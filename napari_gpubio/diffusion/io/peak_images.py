"""Images of peaks, and what says or shows in which axes they are.

=====================  ========================================  ===================  =========
program                layout                                    axes                 no peak
=====================  ========================================  ===================  =========
MRtrix ``sh2peaks``    X, Y, Z, 3 n; length = amplitude          world                NaN
TractSeg               X, Y, Z, 9; length = amplitude            world                zero
DIPY                   X, Y, Z, n, 3, or X, Y, Z, 3 n; length 1  bvec file's          zero
DIPY ``evecs``         X, Y, Z, 3, 3; directions are columns     bvec file's          zero
scilpy                 X, Y, Z, 3 n; the longest has length 1    bvec file's          zero
FSL ``dti_V1``         X, Y, Z, 3; length 1                      bvec file's          zero
=====================  ========================================  ===================  =========

So neither the number of dimensions nor that of volumes tells the axes. What does is, in this order: a JSON file, what
this package has written together with these numbers, MRtrix's list of the commands that made the image, empty places
that are NaN, DIPY's other files beside the image, and lengths. The name of a program in a header is a hint alone, since
headers are copied: it holds where numbers show nothing. Where they show another program the user is asked, and where
the intent is NIfTI's VECTOR, which ITK's programs write whatever their axes are.
"""

import re
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.mif import MIF_SUFFIXES, read_mif_header
from napari_gpubio.core.reading import note
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, open_nifti, stem_of
from napari_gpubio.diffusion.io.dwi import read_array
from napari_gpubio.diffusion.io.orientation_sidecars import facts_beside, frame_in

_LARGEST_AMPLITUDE = 1000.0

Array = npt.NDArray[Any]
Affine = npt.NDArray[np.float64]
_VECTOR = 1007  # NIfTI's intent
_UNIT = 2e-3  # by which lengths that were stored as float32, or as scaled integers, may differ from 1
_NEARLY_ALL = 0.99
_MAKERS = re.compile(r"\b(sh2peaks|fixel2peaks|tensor2metric)\b")  # commands of MRtrix
_FSL_VERSION = re.compile(r"(FSL)?\d+\.\d+(\.\d+)?(:|$)")


class Convention(NamedTuple):
    """Axes of the directions in a file.

    Parameters
    ----------
    frame
        Of `napari_gpubio.diffusion.fods.frames.FRAMES`; empty where the user has to say it.
    program
        Whose convention that is, or may be; empty where the file says it.
    reason
        What says or shows it, or why nothing does.
    """

    frame: str
    program: str
    reason: str = ""


def own_description(peaks: Array) -> str:
    """What this package writes into the header of peaks (X, Y, Z, 3 n): it holds for these numbers only."""
    return f"peaks, world axes, length = amplitude, {zlib.crc32(peaks.astype('<f4').tobytes()):08x}"


def read_peak_image(path: Path) -> tuple[Array, Array, Affine, Convention]:
    """Read peaks of an image.

    Returns
    -------
    directions
        As the file has them, shape (X, Y, Z, n, 3); zero or NaN where there is none.
    amplitudes
        Shape (X, Y, Z, n): their lengths; where all of these are 1, those of DIPY's ``peaks_values`` if it is there.
    affine
        Voxel to world, mm.
    convention
        Which axes the directions are in, as far as the file and those beside it show it.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or its shape is none of peaks.
    """
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
    if len(shape) == 5 and shape[3] == 3 and _are_orthonormal(directions):
        note(
            "its 3 x 3 matrices are orthonormal, as DIPY's eigenvectors, so their columns were taken for the directions"
        )
        directions = np.swapaxes(directions, 3, 4)
    amplitudes = np.linalg.norm(directions, axis=-1)
    odd = np.isnan(directions).any(axis=-1) ^ np.isnan(directions).all(axis=-1)
    odd |= np.isinf(directions).any(axis=-1)
    if count := int(np.count_nonzero(odd)):
        note(f"{count} peaks have some values that are not finite; they were left out")
    values = _sibling(path, "values", amplitudes.shape)
    convention = _convention(path, directions, amplitudes, five=len(shape) == 5, of_dipy=values is not None)
    if _are_units(amplitudes):
        there = amplitudes > 0
        numbers = there if values is None else read_array(values)[0]
        if np.isfinite(numbers[there]).all() and (numbers[there] > 0).all():
            amplitudes = np.where(there, numbers, 0).astype(np.float32)  # rounding shall not change the order
            if values is not None:
                note(f"the directions have the length 1; amplitudes are those of {values.name}")
    return directions, amplitudes, affine, convention


def _convention(path: Path, directions: Array, amplitudes: Array, *, five: bool, of_dipy: bool) -> Convention:
    """The axes of peaks, by the first sign that there is."""
    facts = facts_beside(path)
    if (said := frame_in(facts)) is not None:
        return Convention(said, "", f"as {stem_of(path)}.json says")
    header, is_vector = _header(path)
    if own_description(directions) in header:
        return Convention("world", "", "as its header says")
    if command := _MAKERS.search(f"{header} {facts.get('command_history', '')}"):
        return Convention("world", "MRtrix", f"whose {command[0]} made the image, as its command_history says")
    if np.isnan(directions).all(axis=-1).any():
        return Convention("world", "MRtrix", "which has NaN where no peak is")
    if of_dipy:
        return Convention("fsl", "DIPY", "whose other files lie beside it")
    differ = Convention("world", "MRtrix or TractSeg", "since lengths differ; nothing else shows it")
    shown = hint = None
    if _are_units(amplitudes):
        shown = Convention("fsl", "DIPY", "since all have the length 1, which amplitudes of MRtrix have not")
    elif _are_units(amplitudes.max(axis=-1)):
        shown = Convention("fsl", "scilpy", "since the longest of each voxel has the length 1")
    elif five:
        shown = Convention("fsl", "DIPY", "the only program that writes five dimensions")
    elif amplitudes.shape[-1] > 1:  # a single one may be FSL's direction times a number
        shown = differ
    if path.name.lower().endswith(MIF_SUFFIXES) or header.startswith("MRtrix") or "mrtrix_version" in facts:
        hint = Convention("world", "MRtrix", "which wrote the file")
    elif _FSL_VERSION.match(header):
        hint = Convention("fsl", "FSL", "which wrote the file")
    if is_vector:
        return Convention("", "FSL", "the intent of its header is VECTOR, which programs of any convention write")
    if shown and hint and shown.frame != hint.frame:
        why = f"{hint.program} wrote the file, or its header was copied, but {shown.program} has such directions"
        return Convention("", shown.program, f"{why}, {shown.reason.partition(';')[0]}")
    return hint or shown or differ


def _are_orthonormal(matrices: Array) -> bool:
    """Whether nearly all matrices that are not zero are orthonormal, as those of three peaks are not."""
    rows = matrices[(matrices != 0).any(axis=(-2, -1))]
    off = np.abs(rows @ np.swapaxes(rows, -2, -1) - np.eye(3)).max(axis=(-2, -1))
    return bool(len(rows)) and float((off < _UNIT).mean()) > _NEARLY_ALL


def _are_units(lengths: Array) -> bool:
    """Whether nearly all lengths that are not zero are 1, but for rounding."""
    there = lengths[lengths > 0]
    return bool(len(there)) and float((np.abs(there - 1) < _UNIT).mean()) > _NEARLY_ALL


def _header(path: Path) -> tuple[str, bool]:
    """What a header says of the program, and whether its intent is that of vectors."""
    if path.name.lower().endswith(MIF_SUFFIXES):
        lines = read_mif_header(path)
        return "\n".join([*lines.get("comments", ()), *lines.get("command_history", ())]), False
    header = open_nifti(path).header
    text = bytes(header["descrip"]).rstrip(b"\0 ").decode("latin-1") if "descrip" in header else ""
    return text, "intent_code" in header and int(header["intent_code"]) == _VECTOR


def _sibling(path: Path, what: str, shape: tuple[int, ...]) -> Path | None:
    """The file of DIPY or scilpy beside an image of peaks that has a number of each, or None."""
    base = re.fullmatch(r"(.*?)(peaks?)?_?(dirs?)?", stem_of(path))
    if base is None or not (base[2] or base[3]):
        return None
    for stem in (f"{base[1]}{word}_{what}" for word in ("peaks", "peak")):
        for beside in (path.with_name(f"{stem}{ending}") for ending in NIFTI_SUFFIXES):
            try:
                if beside.is_file() and tuple(open_nifti(beside).shape) == tuple(shape):
                    return beside
            except InvalidInput:
                note(f"{beside.name} beside it cannot be read; it was left out")
    return None


def note_amplitudes(amplitudes: Array) -> None:
    """Note amplitudes of fiber orientations that are out of all reason; those of FODs are about 1."""
    if count := np.count_nonzero(amplitudes > _LARGEST_AMPLITUDE):
        note(
            f"{count:,} of {amplitudes.size:,} amplitudes exceed {_LARGEST_AMPLITUDE:g} (up to {amplitudes.max():.3g}) "
            "where those of FODs are about 1; check the file, or raise the amplitude at which tracking stops"
        )
