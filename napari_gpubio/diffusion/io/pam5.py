"""Peaks and harmonics of DIPY: ``.pam5`` files (HDF5), as ``dipy.io.peaks.save_pam`` writes them.

The group ``pam`` holds ``affine`` (4, 4), ``peak_dirs`` (X, Y, Z, n, 3), ``peak_values`` (X, Y, Z, n), and where they
were asked for ``shm_coeff`` (X, Y, Z, N), ``sphere_vertices`` (V, 3), and ``B`` (N, V), which takes harmonics to
amplitudes at the vertices. Where there is no peak, value and direction are 0 (and ``peak_indices``, which says nothing
else, -1). Directions are in the axes of the bvec file, since DIPY does not know of others.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.hdf5 import DAMAGE, opened_hdf5, read_hdf5
from napari_gpubio.core.reading import note
from napari_gpubio.core.space import checked_affine
from napari_gpubio.core.volumes import check_expansion, damaged
from napari_gpubio.diffusion.fods.harmonics import BASES, harmonics, lmax_of

Array = npt.NDArray[Any]
Affine = npt.NDArray[np.float64]
PAM5_SUFFIX = ".pam5"
_CLOSE = 1e-3  # of harmonics, which are of the order of 1, to those of a basis


def read_pam5_peaks(path: Path) -> tuple[Array, Array, Affine]:
    """Read the peaks of a file.

    Returns
    -------
    directions
        Of any length, in the axes of the bvec file, shape (X, Y, Z, n, 3); zero where there is none.
    values
        Shape (X, Y, Z, n).
    affine
        Voxel to world, mm.

    Raises
    ------
    InvalidInput
        If h5py is not installed, the file is damaged, too large for the memory, or its parts do not fit each other.
    """
    found = _read(path, ("peak_dirs",), ("affine", "peak_values"))
    directions = found["peak_dirs"]
    if "peak_values" in found or not directions.ndim:
        values = found.get("peak_values", directions)
    else:
        note("it has no peak_values; amplitudes are the lengths of its directions")
        values = np.linalg.norm(directions, axis=-1)
    if directions.ndim != 5 or directions.shape[4] != 3 or values.shape != directions.shape[:4]:
        raise InvalidInput(
            f"{path.name} has peak_dirs of shape {directions.shape} and peak_values of shape {values.shape}; they "
            "have (X, Y, Z, n, 3) and (X, Y, Z, n): save the peaks of a whole volume"
        )
    return directions, values, _affine(found)


def read_pam5_harmonics(path: Path) -> tuple[Array, Affine, str | None]:
    """Read the harmonics of a file.

    Returns
    -------
    coefficients
        Shape (X, Y, Z, N).
    affine
        Voxel to world, mm.
    basis
        A name of `napari_gpubio.diffusion.fods.harmonics.BASES`; None if the file has no ``B``, which shows it.

    Raises
    ------
    InvalidInput
        As `read_pam5_peaks`, or if there are no harmonics (``return_sh=True`` of ``peaks_from_model`` makes them), or
        ``B`` is of no known basis.
    """
    found = _read(path, ("shm_coeff",), ("affine", "B", "sphere_vertices"))
    coefficients = found["shm_coeff"]
    if coefficients.ndim != 4:
        raise InvalidInput(f"{path.name} has shm_coeff of shape {coefficients.shape}; four dimensions are needed")
    affine = _affine(found)
    if "B" not in found or "sphere_vertices" not in found:
        return coefficients, affine, None
    return coefficients, affine, _basis(found["B"], found["sphere_vertices"], coefficients.shape[3], path.name)


def _affine(found: dict[str, Array]) -> Affine:
    """Voxel to world; DIPY leaves it out where it was not given."""
    if "affine" in found:
        return checked_affine(found["affine"])
    note("it has no affine; voxels of 1 mm along the world axes were assumed, so place and directions may be wrong")
    return np.eye(4)


def _basis(matrix: Array, vertices: Array, count: int, name: str) -> str:
    """The basis whose harmonics at the vertices are the rows of a matrix."""
    if vertices.ndim == 2 and vertices.shape[1] == 3 and matrix.shape == (count, len(vertices)):
        lmax = lmax_of(count)
        for basis in BASES:
            if np.abs(harmonics(vertices, lmax, basis).T - matrix).max(initial=0.0) < _CLOSE:
                return basis
    raise InvalidInput(
        f"the matrix B of {name}, of shape {matrix.shape}, is that of none of the bases {', '.join(BASES)} at its "
        f"{len(vertices)} vertices; save the file again with DIPY, or save the harmonics as NIfTI and give their basis"
    )


def _read(path: Path, needed: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Array]:
    """Read datasets of the group ``pam``: real numbers, all those needed and what there is of the others."""
    content = read_hdf5(path, ["pam", *(f"pam/{name}" for name in (*needed, *optional))])
    if "/pam" not in content.groups:
        raise InvalidInput(f"{path.name} has no group 'pam', so it is no file of DIPY's save_pam; choose one")
    found = {}
    for name in (*needed, *optional):
        place = f"/pam/{name}"
        if place in content.arrays or place in content.sizes:
            found[name] = content.arrays[place] if place in content.arrays else _large(path, place)
            if found[name].dtype.kind not in "iuf":
                raise InvalidInput(f"{path.name} has {name} of type {found[name].dtype}; real numbers are needed")
        elif name in needed:
            raise InvalidInput(f"{path.name} has no {name}; save it again with DIPY, with this part")
    return found


def _large(path: Path, place: str) -> Array:
    """Read a dataset that is too large for `read_hdf5`, which has looked through the file, in this process."""
    try:
        with opened_hdf5(path) as find:
            dataset = find(place)
            check_expansion(path, dataset.size * dataset.dtype.itemsize)
            return np.asarray(dataset[()])
    except DAMAGE as error:
        if isinstance(error, InvalidInput):
            raise
        raise damaged(path, error) from error
