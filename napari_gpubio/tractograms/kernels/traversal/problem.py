"""What fibers are asked: regions as words of bits on a grid, spheres and boxes, and the grid of a density."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Problem
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.space import same_grid
from napari_gpubio.diffusion.regions import AnyRegion, Box, Region, Sphere
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
BITS = 64  # regions that are answered at once
SPHERE, BOX = 0, 1  # the same numbers in traversal.cu
LARGEST = 3e38  # of coordinates
QUANTUM_MM = 2.0**-24  # of lengths, which are added as whole numbers, so that their order does not matter


@dataclass(frozen=True, eq=False, slots=True)
class TraversalProblem(Problem):
    """Fibers that are asked which regions they pass, and where they are dense."""

    work = "the dissection of these fibers"
    fibers: Tractogram

    def memory(self, device: Device) -> Memory:
        """The fibers."""
        return Memory(inputs=self.fibers.points.nbytes + self.fibers.offsets.nbytes)


class Lines(NamedTuple):
    """Fibers: points (P, 3) float32, world mm, and offsets (F + 1,)."""

    points: Any
    offsets: Any


class VoxelGrid(NamedTuple):
    """World mm to voxels, twelve numbers (three rows of four), and the number of voxels along each axis."""

    to_voxel: tuple[float, ...]
    shape: tuple[int, int, int]


class Words(NamedTuple):
    """Regions of a grid, with a border of one voxel: the bits of each voxel, and those of it and its neighbors."""

    here: Any
    near: Any


class Answers(NamedTuple):
    """Bits of the regions that each fiber passes, and of those that its first and last points lie in, (F,) uint64."""

    passed: Any
    first: Any
    last: Any


class Group(NamedTuple):
    """Regions of one grid that are answered at once: their places in the list that was given, and their words."""

    places: tuple[int, ...]
    grid: VoxelGrid
    words: Words


def voxel_grid(shape: tuple[int, ...], affine: Array) -> VoxelGrid:
    """Return the grid of a volume."""
    rows = np.linalg.inv(affine)[:3].ravel()
    nx, ny, nz = (int(n) for n in shape[:3])
    return VoxelGrid(tuple(float(value) for value in rows), (nx, ny, nz))


def groups(regions: Sequence[AnyRegion]) -> list[Group]:
    """Return the regions of voxels among these, those of one grid together, at most `BITS` at once."""
    found: list[list[int]] = []
    for place, region in enumerate(regions):
        if not isinstance(region, Region):
            continue
        for places in found:
            other = regions[places[0]]
            assert isinstance(other, Region)
            on_grid = same_grid(region.voxels.shape, region.affine, other.voxels.shape, other.affine)
            if on_grid and len(places) < BITS:
                places.append(place)
                break
        else:
            found.append([place])
    return [_group(places, [regions[place] for place in places]) for places in found]


def _group(places: Sequence[int], regions: Sequence[Any]) -> Group:
    here = np.zeros(np.array(regions[0].voxels.shape) + 2, np.uint64)
    for bit, region in enumerate(regions):
        here[1:-1, 1:-1, 1:-1] |= region.voxels.astype(np.uint64) << np.uint64(bit)
    near = here.copy()
    for axis in range(3):
        ahead, behind = (tuple(s if a == axis else slice(None) for a in range(3)) for s in (slice(1, None), slice(-1)))
        grown = near.copy()
        grown[behind] |= near[ahead]
        grown[ahead] |= near[behind]
        near = grown
    return Group(tuple(places), voxel_grid(regions[0].voxels.shape, regions[0].affine), Words(here, near))


def solid_of(region: Sphere | Box) -> tuple[int, npt.NDArray[np.float64]]:
    """Return the kind of a sphere or box, and its numbers: center and radius, or two corners, six in all."""
    if isinstance(region, Sphere):
        return SPHERE, np.array([*region.center_mm, region.radius_mm, 0.0, 0.0])
    return BOX, np.array([*region.low_mm, *region.high_mm])
