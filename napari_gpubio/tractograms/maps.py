"""Fibers as volumes: how many pass each voxel, how long they are in it, where they end, the mean of a number."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.drivers import Runs
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import checked_affine, in_grid, nearest_voxels
from napari_gpubio.tractograms.kernels.traversal.problem import QUANTUM_MM, TraversalProblem, voxel_grid
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.places import check_place

Array = npt.NDArray[Any]
KINDS = ("count", "length_mm", "ends", "mean")
_VALUE_BITS = 30  # of the largest value of a fiber: sums of 8 million of them stay exact


def density(
    fibers: Tractogram,
    kind: str = "count",
    *,
    shape: tuple[int, int, int] | None = None,
    affine: npt.ArrayLike | None = None,
    number: str | npt.ArrayLike | None = None,
    device: str | Device = "auto",
) -> Array:
    """Return a map of fibers (a track-density image, Calamante et al. 2010), shape ``shape``.

    A fiber is in all voxels that its segments pass, not only in those of its points.

    Parameters
    ----------
    fibers
        The fibers; what lies outside of the grid is not counted.
    kind
        ``"count"``: fibers in each voxel, each once (int64). ``"length_mm"``: their length in each voxel, which adds up
        to the length of all of them. ``"ends"``: first and last points in each voxel (int64). ``"mean"``: mean of
        ``number`` over the fibers of a voxel, NaN where there are none.
    shape, affine
        Grid of the map: dimensions, and voxel to world in mm; by default that of the volume the fibers belong to.
    number
        Of each fiber, shape (F,), or the name of one that they have.
    device
        See `napari_gpubio.core.device.choose_device`.

    Raises
    ------
    InvalidInput
        If the kind or the number is unknown, values are not finite, or it is not known how the fibers lie to the grid.
    """
    if kind not in KINDS:
        raise InvalidInput(f"kind is {kind!r}; give one of {', '.join(KINDS)}")
    size = fibers.shape if shape is None else shape
    matrix = fibers.affine if affine is None else checked_affine(affine)
    check_place(fibers, size, matrix, "the volume of the map")
    if kind == "ends":
        return _ends(fibers, size, matrix)
    values = _values(fibers, number) if kind == "mean" else np.zeros(len(fibers))
    quantum = float(np.abs(values).max(initial=0.0)) / 2.0**_VALUE_BITS or 1.0
    quanta = np.rint(values / quantum).astype(np.int64)
    with Runs(TraversalProblem(fibers), choose_device(device).first) as runs:
        counts, lengths, sums = runs.each[0].density(voxel_grid(size, matrix), quanta)
    if kind == "count":
        return np.asarray(counts)
    if kind == "length_mm":
        return np.asarray(lengths * QUANTUM_MM)
    return np.divide(sums * quantum, counts, out=np.full(counts.shape, np.nan), where=counts > 0)


def mask(fibers: Tractogram, *, least: int = 1, **grid: Any) -> npt.NDArray[np.bool_]:
    """Return the voxels that at least so many fibers pass; ``grid``: ``shape`` and ``affine``, see `density`."""
    return np.asarray(density(fibers, "count", **grid) >= least)


def _values(fibers: Tractogram, number: str | npt.ArrayLike | None) -> npt.NDArray[np.float64]:
    if isinstance(number, str):
        known = fibers.per_fiber
        if number not in known and number != "length_mm":
            raise InvalidInput(f"the fibers have no number {number!r}; they have {', '.join(('length_mm', *known))}")
        number = known[number] if number in known else fibers.lengths_mm()
    values = np.asarray(number, np.float64)
    if values.shape != (len(fibers),) or not np.isfinite(values).all():
        raise InvalidInput(f"the number has shape {values.shape} for {len(fibers)} fibers, or is not finite everywhere")
    return values


def _ends(fibers: Tractogram, shape: tuple[int, int, int], affine: Array) -> npt.NDArray[np.int64]:
    filled = fibers.counts > 0
    ends = np.concatenate([fibers.points[fibers.offsets[:-1][filled]], fibers.points[fibers.offsets[1:][filled] - 1]])
    voxels = nearest_voxels(affine, ends)
    flat = np.ravel_multi_index(tuple(voxels[in_grid(voxels, shape)].T), shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
