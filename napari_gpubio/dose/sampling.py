"""Dose at the voxels of structures: what is shown of a histogram in an image."""

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.core.parallel import cpu_threads
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.dose.model import Dose

Array = npt.NDArray[Any]
_jit_parallel = nb.njit(cache=True, nogil=True, error_model="numpy", parallel=True)


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
    matrix = np.linalg.inv(dose.affine) @ np.asarray(to_world, np.float64)
    with cpu_threads():
        _fill(dose.values, matrix, labels, np.asarray(wanted, np.bool_), out)


def thickness_along(affine: npt.ArrayLike, normal: npt.ArrayLike) -> float:
    """Distance of the slices of a grid along the voxel axis nearest to a direction, mm."""
    matrix = np.asarray(affine, np.float64)
    sizes = voxel_sizes_mm(matrix)
    nearest = int(np.abs(np.asarray(normal, np.float64) @ (matrix[:3, :3] / sizes)).argmax())
    return float(sizes[nearest])


@_jit_parallel
def _fill(values: Array, matrix: Array, labels: Array, wanted: Array, out: Array) -> None:
    na, nb_, nc = labels.shape
    nx, ny, nz = values.shape
    for a in nb.prange(na):
        for b in range(nb_):
            for c in range(nc):
                label = labels[a, b, c]
                out[a, b, c] = np.nan
                if label < 0 or label >= len(wanted) or not wanted[label]:
                    continue
                x = matrix[0, 0] * a + matrix[0, 1] * b + matrix[0, 2] * c + matrix[0, 3]
                y = matrix[1, 0] * a + matrix[1, 1] * b + matrix[1, 2] * c + matrix[1, 3]
                z = matrix[2, 0] * a + matrix[2, 1] * b + matrix[2, 2] * c + matrix[2, 3]
                if not (-0.5 <= x <= nx - 0.5 and -0.5 <= y <= ny - 0.5 and -0.5 <= z <= nz - 0.5):
                    continue
                x, y, z = min(max(x, 0.0), nx - 1.0), min(max(y, 0.0), ny - 1.0), min(max(z, 0.0), nz - 1.0)
                i, j, k = int(x), int(y), int(z)
                fx, fy, fz = x - i, y - j, z - k
                i1, j1, k1 = min(i + 1, nx - 1), min(j + 1, ny - 1), min(k + 1, nz - 1)
                low = (1 - fy) * ((1 - fz) * values[i, j, k] + fz * values[i, j, k1]) + fy * (
                    (1 - fz) * values[i, j1, k] + fz * values[i, j1, k1]
                )
                high = (1 - fy) * ((1 - fz) * values[i1, j, k] + fz * values[i1, j, k1]) + fy * (
                    (1 - fz) * values[i1, j1, k] + fz * values[i1, j1, k1]
                )
                out[a, b, c] = (1 - fx) * low + fx * high
