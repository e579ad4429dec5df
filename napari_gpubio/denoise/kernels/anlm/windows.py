"""Radii in voxels along each axis, and the bricks that a volume is worked through in."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from napari_gpubio.denoise.settings import DenoiseSettings

Triple = tuple[int, int, int]
BRICK: Triple = (8, 24, 56)  # voxels of one work item: whole blocks of the kernel, and small enough for a core's cache


@dataclass(frozen=True, slots=True)
class Windows:
    """Radii of the windows along the three axes, in voxels.

    Parameters
    ----------
    patches
        One triple for each patch radius, the small one first; no entry above 2.
    search
        Where candidates are looked for.
    box
        Where local mean, variance and residual are taken.
    """

    patches: tuple[Triple, ...]
    search: Triple
    box: Triple

    @property
    def largest_patch(self) -> Triple:
        """The radii of the last, largest patch."""
        return self.patches[-1]

    @property
    def patch_sizes(self) -> tuple[int, ...]:
        """Voxels in each patch."""
        return tuple(window_size(radii) for radii in self.patches)


def make_windows(settings: DenoiseSettings, voxel_size_mm: Sequence[float] = (1.0, 1.0, 1.0)) -> Windows:
    """Radii for a grid: the settings' along the finest axis, the same length in mm (rounded) along the others."""
    return Windows(
        patches=tuple(_same_length(radius, voxel_size_mm) for radius in settings.radii),
        search=_same_length(settings.search_radius, voxel_size_mm),
        box=_same_length(1, voxel_size_mm),
    )


def _same_length(radius: int, voxel_size_mm: Sequence[float]) -> Triple:
    finest = min(voxel_size_mm)
    x, y, z = (math.floor(radius * finest / size + 0.5) for size in voxel_size_mm)
    return x, y, z


def window_size(radii: Triple) -> int:
    """Voxels in a window of such radii."""
    return math.prod(2 * radius + 1 for radius in radii)


def reach_weights(windows: Windows) -> npt.NDArray[np.float32]:
    """Weights (0 or 1) of the neighbors at distance 1 and 2 in each patch, shape (patches, axes, 2)."""
    radii = np.array(windows.patches)[:, :, None]
    return np.ascontiguousarray(radii >= np.array([1, 2]), np.float32)


def brick_counts(shape: Triple) -> Triple:
    """Number of bricks along each axis of a volume."""
    x, y, z = (-(-n // size) for n, size in zip(shape, BRICK, strict=True))
    return x, y, z


def range_boxes(shape: Triple, start: int, count: int) -> Iterator[tuple[slice, slice, slice]]:
    """Boxes of voxels that the bricks ``start`` to ``start + count - 1`` fill: five at most, however many bricks."""
    _, *across = brick_counts(shape)
    rows = math.prod(across), across[1], 1  # bricks of a whole step along each axis
    here, end = start, start + count
    while here < end:
        axis = next(a for a in range(3) if here % rows[a] == 0 and here + rows[a] <= end)
        steps = (end - here) // rows[axis]
        if axis:  # no further than to the end of the row or the layer
            steps = min(steps, (rows[axis - 1] - here % rows[axis - 1]) // rows[axis])
        yield _box(here, axis, steps, rows)
        here += steps * rows[axis]


def _box(brick: int, axis: int, steps: int, rows: Triple) -> tuple[slice, slice, slice]:
    """So many steps of bricks along an axis, whole along the axes behind it."""
    place = brick // rows[0], brick % rows[0] // rows[1], brick % rows[1]
    lengths = [1 if a < axis else steps if a == axis else None for a in range(3)]
    x, y, z = (
        slice(None) if length is None else slice(at * size, (at + length) * size)
        for at, length, size in zip(place, lengths, BRICK, strict=True)
    )
    return x, y, z


def planes_of(shape: Triple, start: int, count: int) -> tuple[int, int]:
    """First plane along x that the bricks ``start`` to ``start + count - 1`` touch, and the one behind the last."""
    layer = math.prod(brick_counts(shape)[1:])
    return start // layer * BRICK[0], min(-(-(start + count) // layer) * BRICK[0], shape[0])
