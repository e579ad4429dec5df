"""Folders of fixels, as MRtrix has them ("Fixel image (directory) format" in its documentation), in and out.

``index`` (X, Y, Z, 2) holds the number of fixels of each voxel and the place of its first one; ``directions`` (n, 3, 1)
their unit vectors in world axes; every other image (n, 1, 1) a number of each, under its name: ``afd.mif``. All of them
are ``.mif`` or NIfTI; in NIfTI, MRtrix lets the affine tell the order of the axes, so directions come as (n, 1, 3) too.
"""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_folder
from napari_gpubio.core.mif_writer import MIF_WRITE_SUFFIXES, write_mif
from napari_gpubio.core.reading import note
from napari_gpubio.core.tensor_components import axes_of
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, save_nifti
from napari_gpubio.diffusion.fods.frames import checked_frame, frame_note
from napari_gpubio.diffusion.fods.model import FixelField
from napari_gpubio.diffusion.io.dwi import read_array

Array = npt.NDArray[Any]
AMPLITUDES = ("amplitude", "afd", "fd", "fdc", "peak", "peak_amp")  # names of numbers that are sizes of fixels
_INDEX, _DIRECTIONS = "index", "directions"
_ENDINGS = (".mif", ".mif.gz", ".mih", *NIFTI_SUFFIXES)
_LONGEST_NIFTI1 = 32767  # values along an axis
_NAME = re.compile(r"[\w][\w .+-]*")


def fixel_folder_of(path: Path) -> Path | None:
    """The folder of fixels that a path is, or whose index file it is, or None."""
    folder = path.parent if _stem(path) == _INDEX and path.is_file() else path
    return folder if folder.is_dir() and _find(folder, _INDEX) and _find(folder, _DIRECTIONS) else None


def read_fixel_folder(folder: str | Path, *, frame: str = "auto", amplitude: str | None = None) -> FixelField:
    """Read a folder of fixels, for `napari_gpubio.diffusion.io.fixels.read_fixels`.

    Parameters
    ----------
    folder
        Where ``index``, ``directions`` and the numbers are.
    frame
        Axes of the directions; ``"auto"`` for the world's, MRtrix's convention. See
        `napari_gpubio.diffusion.io.fixels.read_fixels`.
    amplitude
        The file, without its ending, that holds the amplitudes. None: the first of `AMPLITUDES` that is there; else
        they are 1.

    Returns
    -------
    FixelField
        World axes; in each voxel the largest amplitude comes first. ``numbers`` has all that are no amplitudes. What
        was left out (directions that are zero or not finite, images that are no numbers of the fixels) is counted in
        the notes.

    Raises
    ------
    InvalidInput
        If index or directions are missing or damaged, the index does not count the directions, each once, or no fixel
        is left.
    """
    folder = Path(folder)
    own = checked_frame(frame, "world")
    index, affine = read_array(_needed(folder, _INDEX))
    directions = _directions(_needed(folder, _DIRECTIONS))
    counts, voxel, rows = _rows(index, np.isfinite(directions[:, 0]), folder.name)
    numbers = _numbers(folder, len(directions))
    amplitudes, chosen, source = _amplitudes(numbers, len(directions), amplitude, folder.name)
    rows = rows[np.lexsort((-amplitudes[rows], voxel))]
    read_in = frame_note("directions", own, "MRtrix has them", source="as requested" if frame != "auto" else "")
    return FixelField(
        counts=counts,
        directions=(directions @ axes_of(own, affine).T)[rows].astype(np.float32),
        amplitudes=amplitudes[rows],
        affine=affine,
        numbers={name: values[rows] for name, values in numbers.items() if name != chosen},
        path=folder,
        notes=(source, read_in),
        parameters={"kind": "mrtrix", "frame": own, "frame_assumed": frame == "auto", "amplitude": chosen},
    )


def write_fixels(folder: str | Path, fixels: FixelField, *, ending: str = ".mif") -> None:
    """Write fixels as a folder that MRtrix opens: index, directions, amplitude, and the numbers under their names.

    Parameters
    ----------
    folder
        Does not exist yet, or is empty; it is there when all of its files are.
    fixels
        What to write.
    ending
        Of the files: ``".mif"``, ``".mif.gz"``, ``".nii"`` or ``".nii.gz"``.

    Raises
    ------
    InvalidInput
        If there is no fixel, the folder holds something, the folder that it is to lie in does not exist, a number's
        name cannot be that of a file, or the disk is full.
    """
    folder = Path(folder)
    if ending not in (*MIF_WRITE_SUFFIXES, *NIFTI_SUFFIXES):
        raise InvalidInput(f"ending is {ending!r}; choose '.mif', '.mif.gz', '.nii' or '.nii.gz'")
    if not len(fixels.directions):
        raise InvalidInput("there are no fixels to write; choose others")
    numbers = {"amplitude": fixels.amplitudes, **fixels.numbers}
    for name in fixels.numbers:
        if not _NAME.fullmatch(name) or name in (_INDEX, _DIRECTIONS, "amplitude"):
            raise InvalidInput(f"the numbers {name[:40]!r} cannot be a file of their name; rename them")
    with atomic_folder(folder) as part:
        index = np.stack([fixels.counts, np.where(fixels.counts > 0, fixels.first, 0)], axis=-1).astype(np.uint32)
        _write(part / f"{_INDEX}{ending}", index, fixels.affine, {"nfixels": str(len(fixels.directions))})
        _write(part / f"{_DIRECTIONS}{ending}", fixels.directions[:, :, None], np.eye(4), {})
        for name, values in numbers.items():
            _write(part / f"{name}{ending}", np.asarray(values).reshape(-1, 1, 1), np.eye(4), {})


def _write(path: Path, data: Array, affine: npt.NDArray[np.float64], header: dict[str, str]) -> None:
    if path.name.endswith(MIF_WRITE_SUFFIXES):
        write_mif(path, data, affine, header=header)
        return
    import nibabel

    kind = nibabel.Nifti2Image if max(data.shape) > _LONGEST_NIFTI1 else nibabel.Nifti1Image
    data = data.astype(np.uint8) if data.dtype == bool else data
    save_nifti(path, kind(data, affine, dtype=data.dtype), "fixels")


def _stem(path: Path) -> str | None:
    """Name of an image without its ending, or None for another file."""
    ending = next((end for end in _ENDINGS[::-1] if path.name.lower().endswith(end)), None)
    return None if ending is None else path.name[: -len(ending)]


def _find(folder: Path, stem: str) -> Path | None:
    return next((folder / f"{stem}{end}" for end in _ENDINGS if (folder / f"{stem}{end}").is_file()), None)


def _needed(folder: Path, stem: str) -> Path:
    if (found := _find(folder, stem)) is None:
        raise InvalidInput(
            f"the folder {folder.name} has no {stem}.mif or {stem}.nii; choose a folder of MRtrix's fixels"
        )
    return found


def _read_list(path: Path, width: int) -> tuple[Array | None, tuple[int, ...]]:
    """The numbers (n, width) of n fixels, or None if an image is no such list, and its shape.

    On reading, MRtrix puts the axes into the order x, y, z and the direction that the affine gives them; on writing
    NIfTI it does the reverse. So a list may lie along any axis, backwards where the affine says so.
    """
    data, affine = read_array(path)
    for axes in itertools.permutations(range(3)):  # as they are first, which decides for three fixels
        shape = [data.shape[axis] for axis in axes if axis < data.ndim]
        if data.size == np.prod(shape) and shape[1:] == [width, 1]:
            backwards = [n for n in range(2) if affine[n, axes[n]] < 0]
            return np.flip(data.reshape(data.shape[:3]).transpose(axes)[..., 0], tuple(backwards)), data.shape
    return None, data.shape


def _directions(path: Path) -> npt.NDArray[np.float64]:
    """Unit vectors (n, 3); NaN where a direction is zero or not finite."""
    data, shape = _read_list(path, 3)
    if data is None:
        raise InvalidInput(f"{path.name} has shape {shape}; directions of fixels have (n, 3, 1)")
    vectors = data.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    usable = np.isfinite(lengths) & (lengths > 0)
    return np.where(usable[:, None], vectors / np.where(usable, lengths, 1.0)[:, None], np.nan)


def _rows(
    index: Array, usable: npt.NDArray[np.bool_], name: str
) -> tuple[Array, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Number of fixels of each voxel (X, Y, Z), and for each fixel, in C order of the voxels, its voxel and its row.

    ``usable``: which directions can be used.
    """
    total = len(usable)
    if index.ndim != 4 or index.shape[3] != 2:
        raise InvalidInput(f"the index of {name} has shape {index.shape}; it has (X, Y, Z, 2): write it again")
    if not ((index >= 0) & (index <= total) & (index == np.floor(index))).all():
        raise InvalidInput(
            f"the index of {name} has counts or places that are no integers from 0 to {total}, the number of "
            "directions; index and directions belong to different fixels, or are damaged"
        )
    counts, first = np.moveaxis(index.astype(np.int64), 3, 0)
    if counts.sum() != total:
        raise InvalidInput(
            f"the index of {name} counts {counts.sum()} fixels and there are {total} directions; "
            "index and directions belong to different fixels"
        )
    each = counts.ravel()
    rows = np.repeat(first.ravel() - (np.cumsum(each) - each), each) + np.arange(total)
    if total and (rows.max() >= total or np.bincount(rows, minlength=total).max() > 1):
        raise InvalidInput(
            f"the index of {name} gives some fixels to two voxels or none; it is damaged: write it again"
        )
    kept = usable[rows]
    if bad := int(np.count_nonzero(~kept)):
        note(f"{bad} of {total} directions are zero or not finite; these fixels were left out")
    if not kept.any():
        raise InvalidInput(f"{name} has no fixel with a direction; choose other fixels")
    voxel = np.repeat(np.arange(len(each)), each)[kept]
    counts = np.bincount(voxel, minlength=len(each)).reshape(counts.shape)
    return counts.astype(np.min_scalar_type(int(counts.max()))), voxel, rows[kept]


def _numbers(folder: Path, total: int) -> dict[str, Array]:
    """Every image (n, 1, 1) of the folder, by its name."""
    numbers, others = {}, []
    for path in sorted(folder.iterdir()):
        stem = _stem(path)
        if stem in (None, _INDEX, _DIRECTIONS) or path.name.startswith(".") or not path.is_file():
            continue
        try:
            data, shape = _read_list(path, 1)
        except InvalidInput as error:
            others.append(f"{path.name} ({error})")
            continue
        if data is not None and len(data) == total:
            numbers[str(stem)] = data[:, 0]
        else:
            others.append(f"{path.name} {shape}")
    if others:
        note(f"{len(others)} files that are no numbers of the {total} fixels were left out: {', '.join(others)}")
    return numbers


def _amplitudes(
    numbers: dict[str, Array], total: int, wanted: str | None, name: str
) -> tuple[npt.NDArray[np.float32], str | None, str]:
    """Amplitudes, where they are from, and a note on it."""
    there = ", ".join(numbers) or "none"
    if wanted is not None and wanted not in numbers:
        raise InvalidInput(f"{name} has no numbers {wanted!r} of its fixels; there are {there}: choose one of them")
    chosen = wanted or next((known for known in AMPLITUDES if known in numbers), None)
    if chosen is None:
        source = f"no file of the folder is known to hold amplitudes (numbers: {there}); all are 1"
        return np.ones(total, np.float32), None, source
    values = numbers[chosen].astype(np.float32)
    lost = int(np.count_nonzero(~np.isfinite(values)))
    source = f"amplitudes are {chosen}" + (f"; {lost} of them are not finite and were set to 0" if lost else "")
    return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0), chosen, source
