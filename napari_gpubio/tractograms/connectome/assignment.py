"""Which regions of an atlas fibers connect, for a block of fibers."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.tractograms.connectome.settings import AllVoxels, Backwards, ConnectomeSettings, EndVoxels, Radial
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.places import check_place

Array = npt.NDArray[Any]
Pairs = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]
_LEAST = 1024  # points worth a call


class Assigner:
    """Finds the pairs of regions of fibers; it holds what that needs of the atlas.

    ``labels``: of the regions, shape (R,); a pair holds places in it.
    """

    def __init__(self, atlas: Atlas, settings: ConnectomeSettings) -> None:
        self.settings = settings
        self.labels = np.array(list(atlas.voxel_counts), np.int64)
        self._nodes = np.empty(atlas.labels.shape, np.int32)
        for nodes, labels in zip(self._nodes, atlas.labels, strict=True):  # by planes, for places take twice as much
            nodes[...] = np.where(labels != 0, np.searchsorted(self.labels, labels) + 1, 0)
        self._affine, self._is_oriented = atlas.affine, atlas.is_oriented
        self._place = atlas.labels.shape, atlas.affine, "the atlas" if atlas.path is None else atlas.path.name
        self._to_voxel = tuple(np.linalg.inv(atlas.affine)[:3].ravel().tolist())

    def pairs(self, fibers: Tractogram) -> Pairs:
        """Return the pairs of places in ``labels``, (P, 2), -1 for none, and the fiber of each, (P,).

        InvalidInput if it is not known how the atlas lies to the fibers.
        """
        check_place(fibers, *self._place, is_oriented=self._is_oriented)
        way = self.settings.assignment
        if isinstance(way, AllVoxels):
            return self._all(fibers)
        has_points = np.flatnonzero(fibers.counts > 0)
        found = np.full((len(fibers), 2), -1, np.int32)
        if len(has_points):
            some = fibers if len(has_points) == len(fibers) else fibers.select(has_points)
            found[has_points] = np.sort(self._found(some, way) - 1, axis=1)
        return found, np.arange(len(fibers))

    def nearest(self, points_mm: Array, radius_mm: float, *, but: int) -> Array:
        """Return the place in ``labels`` of the voxel nearest to each point (N, 3), -1 if none is within the radius.

        ``but``: a place that does not count.
        """
        nodes = np.where(self._nodes == but + 1, 0, self._nodes)
        return self._near(np.ascontiguousarray(points_mm, np.float32), nodes, radius_mm) - 1

    def _found(self, fibers: Tractogram, way: Radial | EndVoxels | Backwards) -> Array:
        """Nodes of both ends of each fiber, (N, 2)."""
        if isinstance(way, Backwards):
            return self._backwards(fibers, way.backwards_mm)
        ends = np.ascontiguousarray(_ends(fibers))
        nodes = self._near(ends, self._nodes, way.radius_mm) if isinstance(way, Radial) else self._at(ends)
        return nodes.reshape(-1, 2)

    def _near(self, points: Array, nodes: Array, radius: float) -> Array:
        from napari_gpubio.core.jit import run_blocks
        from napari_gpubio.tractograms.kernels.nodes import find_nearest

        sizes = voxel_sizes_mm(self._affine)
        linear = self._affine[:3, :3]
        corners = np.stack(np.meshgrid(*[(-0.5, 0.5)] * 3, indexing="ij"), -1).reshape(-1, 3) @ linear.T
        reach = float(np.linalg.norm(corners, axis=1).max())
        across = np.linalg.norm(np.linalg.inv(linear), axis=1)  # voxels per mm, along each axis
        most = np.ceil((radius + reach) * np.maximum(across, 1.0 / sizes)).astype(int)
        shifts = np.stack(np.meshgrid(*(np.arange(-n, n + 1) for n in most), indexing="ij"), -1).reshape(-1, 3)
        distances = np.linalg.norm(shifts @ linear.T, axis=1)
        order = np.argsort(distances, kind="stable")
        order = order[distances[order] < radius + reach]
        found = np.empty(len(points), np.int32)
        transforms = self._to_voxel, tuple(self._affine[:3].ravel().tolist())
        around, limits = (shifts[order], distances[order]), (float(radius), reach)
        run_blocks(find_nearest, len(points), points, nodes, transforms, around, limits, found, least=_LEAST)
        return found

    def _backwards(self, fibers: Tractogram, way_mm: float) -> Array:
        from napari_gpubio.core.jit import read_only, run_blocks
        from napari_gpubio.tractograms.kernels.nodes import find_backwards

        found = np.empty((len(fibers), 2), np.int32)
        run_blocks(
            find_backwards, len(fibers), read_only(np.ascontiguousarray(fibers.points)), read_only(fibers.offsets),
            self._nodes, self._to_voxel, float(way_mm), found, least=_LEAST,
        )  # fmt: skip
        return found

    def _all(self, fibers: Tractogram) -> Pairs:
        """All pairs of the regions that a fiber has points in, each with itself, too; none of a single region."""
        nodes, fiber = self._at(np.ascontiguousarray(fibers.points)), fibers.fiber_of_point()
        visits = np.unique(np.stack([fiber, nodes], axis=1)[nodes > 0], axis=0)
        firsts = np.flatnonzero(np.diff(visits[:, 0], prepend=-1))
        pairs, owners = [np.zeros((0, 2), np.int32)], [np.zeros(0, np.int64)]
        for one in np.split(visits, firsts[1:]):
            if len(one) > 1:
                a, b = np.triu_indices(len(one))
                pairs.append(np.stack([one[a, 1], one[b, 1]], axis=1).astype(np.int32) - 1)
                owners.append(np.full(len(a), one[0, 0]))
        return np.concatenate(pairs), np.concatenate(owners)

    def _at(self, points: Array) -> Array:
        from napari_gpubio.core.jit import read_only, run_blocks
        from napari_gpubio.tractograms.kernels.nodes import find_at_points

        found = np.empty(len(points), np.int32)
        run_blocks(find_at_points, len(points), read_only(points), self._nodes, self._to_voxel, found, least=_LEAST)
        return found


def _ends(fibers: Tractogram) -> Array:
    """First and last point of each fiber, shape (2 F, 3)."""
    at = np.stack([fibers.offsets[:-1], fibers.offsets[1:] - 1], axis=1).ravel()
    return np.asarray(fibers.points[at])
