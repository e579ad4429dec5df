"""Marchenko-Pastur PCA of a 4-D series, the same for both backends.

The window of a voxel is a matrix X of m volumes and n voxels; r is the smaller of both and q the larger. Of the Gram
matrix of the smaller side (X X^T for m <= n, else X^T X), never divided, both backends find the eigenvalues s in four
steps:

1. Householder reflections take the matrix to a tridiagonal one (Golub and Van Loan, Matrix Computations, section 8.3).
   They are applied to one vector y, too: the signals of the voxel, or for m > n the unit vector of the voxel.
2. Implicit QL rotations take that to a diagonal one (Dubrulle, Martin and Wilkinson 1968). They are applied to y, which
   thus becomes the coefficients of the eigenvectors, and kept.
3. The eigenvalues are split into noise and signal (`split` in ``cpu.py``), and the coefficients of the noise set to 0.
4. The kept rotations and reflections are undone in reverse, which gives the projection of y on the signal.

So eigenvectors are never formed, and eigenvalues that lie close together do no harm.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Problem

Array = npt.NDArray[Any]
FIRST_CHUNK = 1 << 27  # the size of matrices to the third, times their number
SWEEPS = 4  # room for so many QL sweeps an eigenvalue on average, in each of them one rotation an eigenvalue on average


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class PcaProblem(Problem):
    """A series, and the voxels that are denoised in it.

    Parameters
    ----------
    data
        Signals, shape (X, Y, Z, N), float32, finite.
    voxels
        Indices of the voxels, shape (M, 3), int32, ordered by the first index, then by the second.
    window
        Edges of the window in voxels, at most those of the volume.
    exact
        The estimator that corrects for the signal's components (exp2), or the first one (exp1).
    scale
        Of the signals: a power of two that brings the largest near 1, so that squares of squares stay within range.
    real
        Type of the numbers of the matrix, and of the sums that make it tridiagonal: float32 or float64. What is found
        in it is in double precision in any case, since the noise is in its smallest eigenvalues.
    """

    work = "denoising the scan"
    data: npt.NDArray[np.float32]
    voxels: npt.NDArray[np.int32]
    window: tuple[int, int, int]
    exact: bool
    scale: float
    real: type[np.float32] | type[np.float64]

    @property
    def volumes(self) -> int:
        """Number of volumes, m."""
        return int(self.data.shape[3])

    @property
    def window_voxels(self) -> int:
        """Number of voxels of a window, n."""
        return math.prod(self.window)

    @property
    def size(self) -> int:
        """Size of the Gram matrix, r."""
        return min(self.volumes, self.window_voxels)

    @property
    def items(self) -> int:
        """Number of voxels."""
        return len(self.voxels)

    def first_chunk(self, device: Device) -> int:
        """So many voxels that their matrices are small enough together."""
        return max(16, FIRST_CHUNK // self.size**3)

    @property
    def bytes_per_item(self) -> int:
        """Bytes of what is found in a voxel."""
        return 4 * self.volumes + 8


def pca_problem(
    data: npt.NDArray[np.float32], mask: Array, window: tuple[int, int, int], *, exact: bool, double: bool
) -> PcaProblem:
    """Set the problem up for the voxels of a mask (X, Y, Z); the other parameters are those of `PcaProblem`."""
    largest = float(max(data.max(initial=0.0), -data.min(initial=0.0)))
    return PcaProblem(
        data=np.ascontiguousarray(data),
        voxels=np.ascontiguousarray(np.argwhere(mask), np.int32),
        window=window,
        exact=exact,
        scale=2.0 ** -math.frexp(largest)[1],
        real=np.float64 if double else np.float32,
    )


class Denoised(NamedTuple):
    """Voxels ``start`` to ``start + len(sigma) - 1`` of a problem, when they are done.

    Signals (K, N), float32; noise level (K,), float32, in units of the signal; number of signal components (K,),
    uint16. Where the QL rotations did not converge, signals are those of the series, the noise level is NaN and the
    components are 0.
    """

    start: int
    signals: npt.NDArray[np.float32]
    sigma: npt.NDArray[np.float32]
    rank: npt.NDArray[np.uint16]


def rotation_room(size: int) -> int:
    """How many QL rotations there is room for; half of it suffices for all but contrived matrices."""
    return SWEEPS * size * (size + 1) // 2


def sweep_room(size: int) -> int:
    """How many QL sweeps there is room for."""
    return 2 * SWEEPS * size
