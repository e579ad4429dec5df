"""A dose at a place and the bin of a dose (Numba), the counterpart of ``interpolate.cuh``: same order of operations."""

from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.kernels.histogram.bins import BinRule

Array = npt.NDArray[Any]
_jit = nb.njit(inline="always")
_F, _I, _P = np.float32, np.int32, np.uintp
_ZERO, _HALF = _F(0.0), _F(0.5)
OUTSIDE = _F(-1.0)


class Volume(NamedTuple):
    """The scaled dose: values in C order, shape (nx * ny * nz,)."""

    values: Array
    nx: int
    ny: int
    nz: int


@_jit
def is_within(x: np.float32, n: int) -> Any:
    """Whether an index lies in a row of n voxels, borders included."""
    return x >= -_HALF and x <= _F(n) - _HALF


@_jit
def dose_at(volume: Volume, x: np.float32, y: np.float32, z: np.float32) -> np.float32:
    """Trilinear value at a voxel index, or `OUTSIDE`.

    A dose voxel reaches half a voxel beyond its center; beyond the outermost centers its value holds.
    """
    v, nx, ny, nz = volume.values, volume.nx, volume.ny, volume.nz
    if not (is_within(x, nx) and is_within(y, ny) and is_within(z, nz)):
        return OUTSIDE
    x, y, z = max(x, _ZERO), max(y, _ZERO), max(z, _ZERO)
    i, j, k = _I(x), _I(y), _I(z)  # at most nx - 1, ...
    fx, fy, fz = x - _F(i), y - _F(j), z - _F(k)
    at = _P((i * ny + j) * nz + k)  # without a sign, lest Numba look for indices from the end
    up_x, up_y, up_z = _P((i < nx - 1) * ny * nz), _P((j < ny - 1) * nz), _P(k < nz - 1)  # 0 at the border
    a = v[at] + fz * (v[at + up_z] - v[at])
    b = v[at + up_y] + fz * (v[at + up_y + up_z] - v[at + up_y])
    at += up_x
    c = v[at] + fz * (v[at + up_z] - v[at])
    d = v[at + up_y] + fz * (v[at + up_y + up_z] - v[at + up_y])
    a = a + fy * (b - a)
    c = c + fy * (d - c)
    return a + fx * (c - a)


@_jit
def bin_of(rule: BinRule, value: np.float32) -> Any:
    """Number of the bin of a value."""
    if rule.logarithmic:
        found = (_F(value).view(np.int32) >> rule.shift) - rule.first
    else:
        found = _I(value * rule.inverse_width)
    return _P(min(max(found, _I(0)), rule.bins - _I(1)))


@_jit
def fine_dose(rule: BinRule, value: np.float32) -> Any:
    """A value in steps of the sums of dose."""
    return np.int64(value * rule.fine)
