"""Scattering tensors as photons meet them: a place for each voxel in a table of Cholesky factors."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.space import rotation_of
from napari_gpubio.core.tensor_components import rotate_tensors
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.scattering_tensors import PRODUCT, extreme_eigenvalues

TENSOR_NUMBERS = 8
# As in ``fibers.cuh``: how light scatters where a voxel has a tensor; 0 without any.
BY_PRODUCT, BY_PHASE_FUNCTION, BY_MIXTURE = range(1, 4)
_SAME_SCATTERING = 1e-6  # relative: up to it, a tensor is what its label has anyway


class TensorTable(NamedTuple):
    """Scattering tensors as photons meet them.

    Parameters
    ----------
    places
        Row of the table of every voxel of the padded grid, flat, int32; 0 where light scatters by the label.
    numbers
        Shape (N + 1, TENSOR_NUMBERS): the columns of L in M = L L^T along the volume's axes, from the diagonal down,
        1/mm^(1/2); then by product the chances of the first column, and of the first and the second, which are their
        squares over the trace of M; else a bound of s.M.s, and its mean over all directions, 1/mm.
    """

    places: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.float32]


def tensor_table(domain: Domain) -> TensorTable | None:
    """Scattering tensors of the voxels that do not scatter by their label alike, or None if all do."""
    given = domain.mus_tensor_per_mm
    if given is None:
        return None
    world = given.reshape(-1, 6)
    voxels = np.flatnonzero(world[:, 0])
    is_reduced = domain.scattering_model == PRODUCT
    coefficients = np.zeros(65536, np.float32)
    for label in domain.labels_present:
        medium = domain.medium(label)
        coefficients[label] = medium.musp_per_mm if is_reduced else medium.mus_per_mm
    own = coefficients[domain.labels.ravel()[voxels]][:, None] * np.array([1, 1, 1, 0, 0, 0], np.float32)
    voxels = voxels[(np.abs(world[voxels] - own) > _SAME_SCATTERING * own[:, :1]).any(axis=1)]
    if not voxels.size:
        return None
    turned = rotate_tensors(world[voxels].astype(np.float64), rotation_of(domain.affine).T)
    numbers = np.zeros((len(voxels) + 1, TENSOR_NUMBERS), np.float32)
    columns = cholesky_columns(turned)
    numbers[1:, :6] = columns.T
    if is_reduced:
        squares = np.add.reduceat(columns**2, (0, 3, 5)).cumsum(axis=0)
        numbers[1:, 6:] = (squares[:2] / squares[2]).T
    else:
        numbers[1:, 6] = extreme_eigenvalues(turned)[1] * (1 + 1e-6)
        numbers[1:, 7] = turned[:, :3].mean(axis=1)
    places = np.zeros(domain.labels.size, np.int32)
    places[voxels] = np.arange(1, len(voxels) + 1)
    return TensorTable(np.pad(places.reshape(domain.shape), 1).ravel(), numbers)


def cholesky_columns(tensors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Columns of L in M = L L^T from the diagonal down, shape (6, N), of tensors (N, 6) that are positive definite.

    Written out: NumPy's factors one matrix after another, which takes as long as the photons of a short run.
    """
    xx, yy, zz, xy, xz, yz = np.ascontiguousarray(tensors.T)
    first = np.sqrt(xx)
    below, lowest = xy / first, xz / first
    second = np.sqrt(yy - below**2)
    beside = (yz - below * lowest) / second
    return np.stack([first, below, lowest, second, beside, np.sqrt(zz - lowest**2 - beside**2)])
