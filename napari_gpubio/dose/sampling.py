"""Dose at the voxels of structures: what is shown of a histogram in an image."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import run_blocks
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.dose.kernels import read_only
from napari_gpubio.dose.model import Dose

Array = npt.NDArray[Any]
_LEAST_VOXELS = 1 << 15  # worth a call of their own


def dose_at_voxels(dose: Dose, labels: Array, to_world: npt.ArrayLike, wanted: npt.ArrayLike, out: Array) -> None:
    """Fill ``out`` with the dose at the centers of voxels that have a wanted label, and with NaN elsewhere.

    The dose is interpolated linearly, as for histograms; outside its grid it is NaN.

    Parameters
    ----------
    dose
        On a grid of its own.
    labels
        Integers from 0, shape (A, B, C).
    to_world
        Index of ``labels`` to world mm, 4 x 4.
    wanted
        Of each label whether it is wanted, shape (L,); larger labels are not.
    out
        Shape (A, B, C), float32.
    """
    from napari_gpubio.dose.kernels.geometry import fill_doses

    chosen, given = np.asarray(wanted, np.bool_), labels
    if given.dtype not in (np.uint8, np.uint16):
        beyond = (given < 0) | (given >= len(chosen))
        given = (chosen[np.where(beyond, 0, given)] & ~beyond).astype(np.uint8)
        chosen = np.array([False, True])
    values = dose.values if dose.values.dtype in (np.float32, np.float64) else dose.values.astype(np.float64)
    matrix = np.linalg.inv(dose.affine) @ np.asarray(to_world, np.float64)
    least = max(1, _LEAST_VOXELS // max(out[0].size, 1))
    run_blocks(fill_doses, len(out), read_only(values), matrix, read_only(given), chosen, out, least=least)


def thickness_along(affine: npt.ArrayLike, normal: npt.ArrayLike) -> float:
    """Distance of the slices of a grid along the voxel axis nearest to a direction, mm."""
    matrix = np.asarray(affine, np.float64)
    sizes = voxel_sizes_mm(matrix)
    nearest = int(np.abs(np.asarray(normal, np.float64) @ (matrix[:3, :3] / sizes)).argmax())
    return float(sizes[nearest])
