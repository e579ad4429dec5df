"""An oblique volume as an array whose axes are the world's, so that napari slices it where it lies.

napari cuts slices along the axes of an array and draws a rotated one displaced in 2-D. A `WorldAligned` is sampled from
the volume when it is read, slice by slice; nothing is stored twice, and what is painted is written to the volume's own
voxels. It is for display only: engines and files take ``source`` and the true affine.
"""

import itertools
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.space import apply_affine, in_grid, slice_steps_mm

Array = npt.NDArray[Any]
_MIN_ROWS_FOR_THREAD = 32


class WorldAligned:
    """A volume on a grid along the world's axes; read and written like an array.

    Parameters
    ----------
    source
        Shape (X, Y, Z), (X, Y, Z, N, ...) of a series, or (X, Y, Z, 3) of colors.
    affine
        Voxel to world, mm, with any rotation and shear.
    linear
        Interpolate; else the nearest voxel's value, as for labels.
    colors
        Whether a fourth axis is one of colors; it then stays last, while those of a series come first, the last of them
        before the others.

    Attributes
    ----------
    shape, dtype, ndim, size
        As of an array: (Z', Y', X'), (..., N, Z', Y', X') or (Z', Y', X', 3).
    scale, translate
        Of the layer, mm, along z, y, x.
    """

    def __init__(self, source: Array, affine: Array, *, linear: bool = True, colors: bool = False) -> None:
        self.source, self.linear, self.colors = source, linear, colors
        corners = np.stack(np.meshgrid(*[(-0.5, n - 0.5) for n in source.shape[:3]], indexing="ij"), -1).reshape(-1, 3)
        world = apply_affine(affine, corners)[:, ::-1]
        self.scale = slice_steps_mm(affine)
        low, high = world.min(axis=0), world.max(axis=0)
        self._grid = grid = tuple(int(n) for n in np.ceil((high - low) / self.scale - 1e-6))
        self.translate = low + self.scale / 2
        to_world = np.eye(4)
        to_world[:3, :3], to_world[:3, 3] = np.diag(self.scale)[::-1], self.translate[::-1]
        self._to_source = np.linalg.inv(np.asarray(affine, np.float64)) @ to_world
        more = source.shape[:2:-1]
        self.shape: tuple[int, ...] = (*grid, *more) if colors else (*more, *grid)
        self.dtype, self.ndim, self.size = source.dtype, len(self.shape), int(np.prod(self.shape))
        self._whole: Array | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:  # noqa: FBT001
        if self._whole is None:
            self._whole = self._sampled((slice(None),) * self.ndim)
        return np.array(self._whole, dtype=dtype, copy=copy)

    def astype(self, dtype: npt.DTypeLike, **_: Any) -> Array:
        """Return the whole as another type."""
        return np.asarray(self).astype(dtype)

    def __getitem__(self, key: Any) -> Any:
        key = self._full_key(key)
        if all(isinstance(part, slice | int | np.integer) for part in key):
            return self._sampled(key)
        return np.asarray(self)[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write the voxels under the given places; only where the value changes, since several places share a voxel."""
        places = [np.arange(n)[part] for n, part in zip(self.shape, self._full_key(key), strict=True)]
        if any(isinstance(part, slice) for part in self._full_key(key)):
            value = np.broadcast_to(value, [place.size for place in places if place.ndim]).ravel()
            places = list(np.meshgrid(*places, indexing="ij"))
        zyx = slice(0, 3) if self.colors else slice(-3, None)
        flat = [np.atleast_1d(place).ravel() for place in np.broadcast_arrays(*places)]
        voxels = np.floor(apply_affine(self._to_source, np.stack(flat[zyx], axis=-1)) + 0.5).astype(np.intp)
        inside = in_grid(voxels, self.source.shape[:3])
        rest = flat[3:] if self.colors else flat[-4::-1]
        target = (*voxels[inside].T, *(index[inside] for index in rest))
        written = np.broadcast_to(value, inside.shape)[inside]
        changed = self.source[target] != written
        self.source[tuple(index[changed] for index in target)] = written[changed]
        self._whole = None

    def source_changed(self) -> None:
        """Note that the source was written to."""
        self._whole = None

    def source_box(self, box: tuple[slice, slice, slice]) -> tuple[slice, slice, slice]:
        """Return the box of voxels (X, Y, Z) around a box of this grid (z, y, x)."""
        ends = [
            (part.start or 0, (n if part.stop is None else part.stop) - 1)
            for part, n in zip(box, self._grid, strict=True)
        ]
        corners = np.stack(np.meshgrid(*ends, indexing="ij"), axis=-1).reshape(-1, 3)
        voxels = np.floor(apply_affine(self._to_source, corners) + 0.5).astype(int)
        first = np.clip(voxels.min(axis=0), 0, self.source.shape[:3])
        last = np.clip(voxels.max(axis=0) + 1, first, self.source.shape[:3])
        i, j, k = (slice(int(a), int(b)) for a, b in zip(first, last, strict=True))
        return i, j, k

    def _full_key(self, key: Any) -> tuple[Any, ...]:
        """A key with one entry for each axis."""
        key = key if isinstance(key, tuple) else (key,)
        given = [part for part in key if part is not Ellipsis]
        rest = [slice(None)] * (self.ndim - len(given))
        if Ellipsis not in [part if part is Ellipsis else None for part in key]:
            return (*given, *rest)
        place = next(index for index, part in enumerate(key) if part is Ellipsis)
        return (*given[:place], *rest, *given[place:])

    def _sampled(self, key: tuple[Any, ...]) -> Array:
        """The values at slices and integers, each axis of the rest by itself."""
        ranges = [
            range(n)[part] if isinstance(part, slice) else [range(n)[int(part)]]
            for n, part in zip(self.shape, key, strict=True)
        ]
        zyx, rest = (ranges[:3], ranges[3:]) if self.colors else (ranges[-3:], ranges[:-3])
        cut = np.stack(
            [self._one(volume, zyx) for volume in _volumes(self.source, rest)], axis=-1 if self.colors else 0
        )
        full = cut.reshape([len(one) for one in ranges])
        return full[tuple(slice(None) if isinstance(part, slice) else 0 for part in key)]

    @cached_property
    def _outside(self) -> float:
        """What is shown beside the volume: nothing around real numbers, the least one around signed ones (CT: air)."""
        if not self.linear or self.dtype.kind not in "fi":
            return 0
        first = _volumes(self.source, [[0]] * (self.source.ndim - 3))[0]
        return np.nan if self.dtype.kind == "f" else min(0, int(first.min()))

    def _one(self, volume: Array, zyx: list[Any]) -> Array:
        from napari_gpubio.core import trilinear  # which imports Numba
        from napari_gpubio.core.jit import run_blocks

        out = np.empty([len(one) for one in zyx], self.dtype)
        if not out.size:
            return out
        first = [one[0] for one in zyx]
        step = [one[1] - one[0] if len(one) > 1 else 1 for one in zyx]
        matrix = self._to_source[:3].copy()
        matrix[:, 3] += matrix[:, :3] @ first
        matrix[:, :3] *= step
        fill = self.dtype.type(self._outside)
        sample = trilinear.sample_linear if self.linear else trilinear.sample_nearest
        run_blocks(sample, out.shape[0] * out.shape[1], volume, matrix, fill, out, least=_MIN_ROWS_FOR_THREAD)
        return out


def _volumes(source: Array, indices: list[Any]) -> list[Array]:
    """The volumes of a source at the indices of its further axes, which begin with the last one."""
    return [source[(..., *index[::-1])] for index in itertools.product(*indices)]
