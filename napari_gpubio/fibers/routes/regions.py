"""The two regions on the grid of the tensors: seeds of the one, distances from the other."""

import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.regions import AnyRegion, Region, voxels_on
from napari_gpubio.fibers.routes.solver import Aims
from napari_gpubio.fibers.seeds import label_points
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.places import check_place

Array = npt.NDArray[Any]


class Misses(NamedTuple):
    """Rays that miss the target: as first guesses of the solver, their seeds (N,), and how near they came, mm, (N,)."""

    aims: Aims
    seeds: npt.NDArray[np.int64]
    misses_mm: Array

    @classmethod
    def none(cls) -> "Misses":
        """No rays."""
        return cls(Aims(*(np.zeros((0, 3)),) * 2, np.zeros(0), np.zeros((0, 3))), np.zeros(0, np.int64), np.zeros(0))

    def nearest_of_each_seed(self, count: int) -> "Misses":
        """At most so many of each seed."""
        order = np.lexsort((self.misses_mm, self.seeds))
        seeds = self.seeds[order]
        rank = np.arange(len(seeds)) - np.searchsorted(seeds, seeds)
        kept = np.sort(order[rank < count])
        return Misses(self.aims.of(kept), self.seeds[kept], self.misses_mm[kept])


class Goal(NamedTuple):
    """Distance of every voxel from the target, mm, and the target's voxel that is nearest to it, (X, Y, Z, 3)."""

    distances_mm: npt.NDArray[np.float32]
    nearest: npt.NDArray[np.int32]
    to_voxel: Array
    affine: Array

    def within(self, distance_mm: float) -> Region:
        """The voxels that are no farther from the target."""
        return Region(name="near the target", voxels=self.distances_mm <= distance_mm, affine=self.affine)

    def misses(self, fibers: Tractogram) -> Misses:
        """Where fibers come nearest to the target."""
        if not len(fibers):
            return Misses.none()
        distances, centers = self.look_up(fibers.points)
        nearest = np.minimum.reduceat(distances, fibers.offsets[:-1])
        firsts = fibers.offsets[:-1]
        at = np.array([f + np.argmin(distances[f:e]) for f, e in itertools.pairwise(fibers.offsets.tolist())])
        starts = fibers.points[firsts].astype(np.float64)
        ahead = fibers.points[firsts + 1] - starts
        ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
        aims = Aims(starts, ahead, (at - firsts).astype(np.float64), centers[at])
        return Misses(aims, fibers.per_fiber["seed"], nearest)

    def look_up(self, points_mm: Array) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
        """Distances of the voxels of world points from the target (N,), and its nearest centers (N, 3), world mm."""
        voxel = np.floor(apply_affine(self.to_voxel, points_mm) + 0.5).astype(np.int64)
        at = tuple(np.clip(voxel, 0, np.array(self.distances_mm.shape) - 1).T)
        return self.distances_mm[at], apply_affine(self.affine, self.nearest[at])


class Ends(NamedTuple):
    """Seed points in the source, world mm, (S, 3), where the target is, and what was left out, as sentences."""

    seeds_mm: npt.NDArray[np.float64]
    target: Region
    goal: Goal
    notes: tuple[str, ...]


def ends_of(field: TensorField, source: AnyRegion, target: AnyRegion, per_voxel: int) -> Ends:
    """Put two regions on the grid of the tensors; what both hold belongs to neither.

    InvalidInput if a region has no voxel in the mask, or none that the other does not hold.
    """
    start, end = (_in_mask(field, region, what) for region, what in ((source, "source"), (target, "target")))
    shared = start & end
    start, end = start & ~shared, end & ~shared
    names = f"the source {source.name!r} and the target {target.name!r}"
    if not start.any() and not end.any():
        raise InvalidInput(f"{names} are the same; choose two regions")
    for voxels, inner, outer in ((start, source, target), (end, target, source)):
        if not voxels.any():
            raise InvalidInput(f"the region {inner.name!r} lies inside of {outer.name!r}; choose two that are apart")
    count = int(np.count_nonzero(shared))
    notes = (f"{count:,} voxels of both regions are left out.",) if count else ()
    seeds = label_points(start.astype(np.uint8), field.affine, 1, per_voxel=per_voxel)
    return Ends(seeds, Region(name=target.name, voxels=end, affine=field.affine), _goal(field, end), notes)


def _in_mask(field: TensorField, region: AnyRegion, what: str) -> npt.NDArray[np.bool_]:
    """Voxels of a region that hold tensors; of one that only touches them, those within a voxel of the mask's edge."""
    from scipy import ndimage

    if isinstance(region, Region):
        name, is_oriented = f"the {what} {region.name!r}", region.is_oriented
        check_place(field, region.voxels.shape, region.affine, name, is_oriented=is_oriented)
    voxels = voxels_on(region, field.shape, field.affine)
    if not voxels.any():
        raise InvalidInput(f"the {what} {region.name!r} lies outside the volume; choose a region in the brain")
    inside = voxels & field.mask
    if not inside.any() and what == "target":
        inside = voxels & ndimage.binary_dilation(field.mask, np.ones((3, 3, 3)))
    if not inside.any():
        raise InvalidInput(f"the {what} {region.name!r} lies in the background, where there are no tensors; move it")
    return inside


def _goal(field: TensorField, target: npt.NDArray[np.bool_]) -> Goal:
    from scipy import ndimage

    distances, nearest = ndimage.distance_transform_edt(~target, sampling=field.voxel_sizes_mm, return_indices=True)
    to_voxel = np.linalg.inv(field.affine)
    return Goal(distances.astype(np.float32), np.moveaxis(nearest, 0, -1).astype(np.int32), to_voxel, field.affine)
