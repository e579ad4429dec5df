"""Fiber directions of FSL's bedpostX: a folder with mean directions and volume fractions of one to several fibers.

For each fiber n from 1 on, ``dyads<n>`` (X, Y, Z, 3) is the mean direction and ``mean_f<n>samples`` (X, Y, Z) its
volume fraction. Where these are missing they are made from the samples ``merged_th<n>samples``,
``merged_ph<n>samples`` and ``merged_f<n>samples`` (X, Y, Z, S): the mean fraction, and as ``make_dyadic_vectors`` does
it the first eigenvector of the mean of d d^T, with d = (sin th cos ph, sin th sin ph, cos th). Directions are in FSL's
axes, those of the bvec file.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.core.space import same_grid
from napari_gpubio.core.tensor_components import matrices
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, one_volume, read_array

Array = npt.NDArray[Any]
Affine = npt.NDArray[np.float64]
_MAX_FIBERS = 9  # the names have one digit
MIN_FRACTION = 0.05  # a fiber with less is left out, as in bedpostX's own dyads2_thr0.05
_FIRST = ("dyads1", "merged_th1samples", "mean_f1samples", "merged_f1samples")  # any of them shows a fiber
_OWN = re.compile(r"(dyads\d|merged_(th|ph|f)\dsamples|mean_f\dsamples)")
_PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


def bedpostx_folder_of(path: Path) -> Path | None:
    """The folder of bedpostX that a path is, or one of whose files of directions or fractions it is, or None."""
    folder = path.parent if path.is_file() and _OWN.match(path.name) else path
    return folder if any(_find(folder, stem) is not None for stem in _FIRST) else None


def read_bedpostx(folder: Path) -> tuple[Array, Array, Affine]:
    """Read the directions and fractions of a folder.

    A fiber whose files are missing, damaged or on another grid than the first one is left out, with a note.

    Returns
    -------
    directions
        FSL's axes, shape (X, Y, Z, n, 3).
    fractions
        Of the volume, shape (X, Y, Z, n); 0 where they are below `MIN_FRACTION`.
    affine
        Voxel to world, mm.

    Raises
    ------
    InvalidInput
        If no fiber can be read.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder.name} is no folder; give the one that bedpostX wrote")
    parts: list[tuple[Array, Array, Affine]] = []
    failure: InvalidInput | None = None
    for n in range(1, _MAX_FIBERS + 1):
        if all(_find(folder, stem.replace("1", str(n))) is None for stem in _FIRST):
            continue
        try:
            part = _fiber(folder, n)
            if parts and not same_grid(parts[0][1].shape, parts[0][2], part[1].shape, part[2]):
                raise InvalidInput(f"fiber {n} of {folder.name} lies on another grid than the first one")
            parts.append(part)
        except InvalidInput as error:
            failure = failure or error
            note(f"fiber {n} was left out: {error}")
    if not parts:
        raise failure or InvalidInput(f"the folder {folder.name} has no {_FIRST[0]}; choose bedpostX's folder")
    fractions = np.stack([part[1] for part in parts], axis=-1)
    if small := int(np.count_nonzero((fractions > 0) & (fractions < MIN_FRACTION))):
        note(f"{small} fibers fill less than {MIN_FRACTION:g} of their voxel; they were left out")
    fractions = np.where(fractions >= MIN_FRACTION, fractions, 0)
    return np.stack([part[0] for part in parts], axis=-2), fractions, parts[0][2]


def _find(folder: Path, stem: str) -> Path | None:
    return next((folder / f"{stem}{end}" for end in NIFTI_SUFFIXES if (folder / f"{stem}{end}").is_file()), None)


def _fiber(folder: Path, n: int) -> tuple[Array, Array, Affine]:
    """Directions, fractions and affine of a fiber."""
    if _find(folder, f"dyads{n}") is None:
        directions, affine = _mean_directions(folder, n)
        note(f"fiber {n} has no dyads{n}; its directions were made from the samples")
    else:
        directions, affine = _series(folder, f"dyads{n}")
    if directions.shape[3] != 3:
        raise InvalidInput(f"dyads{n} has shape {directions.shape}; directions have (X, Y, Z, 3)")
    if (mean_f := _find(folder, f"mean_f{n}samples")) is not None:
        data, own_affine = read_array(mean_f)
        fractions = one_volume(data, mean_f.name).astype(np.float32)
    elif _find(folder, f"merged_f{n}samples") is not None:
        samples, own_affine = _series(folder, f"merged_f{n}samples")
        fractions = samples.mean(axis=3)
    else:
        fractions, own_affine = (directions != 0).any(axis=3).astype(np.float32), affine
        note(
            f"there is neither mean_f{n}samples nor merged_f{n}samples, so what fiber {n} fills of its voxels is not "
            "known; 1 was assumed"
        )
    if not same_grid(fractions.shape, own_affine, directions.shape[:3], affine):
        raise InvalidInput(
            f"the directions of fiber {n} have shape {directions.shape} and its fractions {fractions.shape}, or "
            "another affine; run bedpostX again"
        )
    return directions, fractions, affine


def _series(folder: Path, stem: str) -> tuple[Array, Affine]:
    """An image of four dimensions, in single precision."""
    if (path := _find(folder, stem)) is None:
        raise InvalidInput(f"the folder {folder.name} has no {stem}.nii.gz; copy all of bedpostX's files")
    data, affine = read_array(path)
    if data.ndim != 4:
        raise InvalidInput(f"{path.name} has shape {data.shape}; four dimensions are needed: copy the file again")
    return data.astype(np.float32), affine


def _mean_directions(folder: Path, n: int) -> tuple[Array, Affine]:
    """First eigenvectors (X, Y, Z, 3) of the mean of d d^T over the samples; zero where a sample is not finite."""
    theta, affine = _series(folder, f"merged_th{n}samples")
    phi, _ = _series(folder, f"merged_ph{n}samples")
    if theta.shape != phi.shape:
        raise InvalidInput(
            f"the samples th and ph of fiber {n} have shapes {theta.shape} and {phi.shape}; copy them again"
        )
    mean = np.zeros((*theta.shape[:3], 6))
    for sample in range(theta.shape[3]):
        th, ph = theta[..., sample].astype(np.float64), phi[..., sample].astype(np.float64)
        d = np.sin(th) * np.cos(ph), np.sin(th) * np.sin(ph), np.cos(th)
        for place, (i, j) in enumerate(_PAIRS):
            mean[..., place] += d[i] * d[j]
    finite = np.asarray(np.isfinite(mean).all(axis=3))
    mean[~finite] = 0.0
    vectors = np.linalg.eigh(matrices(mean))[1][..., 2]
    return np.where(finite[..., None], vectors, 0.0).astype(np.float32), affine
