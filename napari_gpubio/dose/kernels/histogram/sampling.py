"""A dose at a place, the bin of a dose, and places of samples inside their cells; the counterpart of ``sampling.cuh``.

Order of operations and bits are those of the CUDA code.

Whole multiples of an irrational number, modulo 1, fill the unit interval evenly (Weyl), and several of them the square
or the cube: samples placed that way never line up with a gradient of dose. As 32-bit integers they are the same
everywhere. From sample to sample the numbers are g^-1, g^-2, g^-3 with g^4 = g + 1 (Roberts 2018, "The unreasonable
effectiveness of quasirandom sequences"), from row to row the golden section, sqrt 2 - 1 and sqrt 3 - 1; all times 2^32.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import leaf
from napari_gpubio.dose.kernels.histogram.dose_grid import BinRule

Array = npt.NDArray[Any]
Place = tuple[np.float32, np.float32, np.float32]  # a voxel index of the dose, or a direction there
SAMPLE_X, SAMPLE_Y, SAMPLE_Z = np.uint32(3518319155), np.uint32(2882110345), np.uint32(2360945575)
ROW_X, ROW_Y, ROW_Z = np.uint32(2654435769), np.uint32(1779033703), np.uint32(3144134277)
OUTSIDE = np.float32(-1.0)
_PER_STEP = np.float32(2.0**-24)
_ZERO, _HALF = np.float32(0.0), np.float32(0.5)


class DoseVoxels(NamedTuple):
    """The scaled dose: values in C order, shape (nx * ny * nz,)."""

    values: Array
    nx: int
    ny: int
    nz: int
    whole: np.int32  # 1 if a voxel's value holds in all of it, 0 if values are interpolated between centers


@leaf
def is_within(x: np.float32, n: int) -> Any:
    """Whether an index lies in a row of n voxels, borders included."""
    return x >= -_HALF and x <= np.float32(n) - _HALF


@leaf
def nearest(x: np.float32, n: int) -> Any:
    """The center next to an index in a row of n voxels; half way, the one behind."""
    return np.float32(min(np.int32(x + _HALF), np.int32(n - 1)))


@leaf
def dose_at(volume: DoseVoxels, place: Place) -> np.float32:
    """Value at a voxel index, trilinear or that of the voxel, or `OUTSIDE`.

    A dose voxel reaches half a voxel beyond its center; beyond the outermost centers its value holds.
    """
    v, nx, ny, nz, whole = volume
    x, y, z = place
    if not (is_within(x, nx) and is_within(y, ny) and is_within(z, nz)):
        return OUTSIDE
    if whole:
        x, y, z = nearest(x, nx), nearest(y, ny), nearest(z, nz)
    x = x if x > _ZERO else _ZERO
    y = y if y > _ZERO else _ZERO
    z = z if z > _ZERO else _ZERO
    i, j, k = np.int32(x), np.int32(y), np.int32(z)  # at most nx - 1, ...
    fx, fy, fz = x - np.float32(i), y - np.float32(j), z - np.float32(k)
    at = np.uintp((i * ny + j) * nz + k)  # unsigned, so that Numba does not look for indices from the end
    up_x, up_y = np.uintp((i < nx - 1) * ny * nz), np.uintp((j < ny - 1) * nz)  # 0 at the border
    up_z = np.uintp(k < nz - 1)
    a = v[at] + fz * (v[at + up_z] - v[at])
    b = v[at + up_y] + fz * (v[at + up_y + up_z] - v[at + up_y])
    at += up_x
    c = v[at] + fz * (v[at + up_z] - v[at])
    d = v[at + up_y] + fz * (v[at + up_y + up_z] - v[at + up_y])
    a = a + fy * (b - a)
    c = c + fy * (d - c)
    return a + fx * (c - a)


@leaf
def bin_of(rule: BinRule, value: np.float32) -> Any:
    """Number of the bin of a value; in bins of equal ratio the lowest is that of 0 alone."""
    if rule.logarithmic:
        found = np.int32((np.float32(value).view(np.int32) >> rule.shift) - rule.first)
        found = found if found > 0 or value == _ZERO else np.int32(1)
    else:
        found = np.int32(value * rule.inverse_width)
    found = found if found > 0 else np.int32(0)
    last = np.int32(rule.bins - np.int32(1))
    return np.uintp(found if found < last else last)


@leaf
def multiple(number: int, step: np.uint32) -> np.uint32:
    """``number`` times ``step``, modulo 2^32."""
    return np.uint32((np.uint64(number) * np.uint64(step)) & np.uint64(0xFFFFFFFF))


@leaf
def fraction(word: np.uint32) -> np.float32:
    """The leading 24 bits as a number in [0, 1)."""
    return np.float32(word >> np.uint32(8)) * _PER_STEP


@leaf
def scaled(frame: Array, axis: int, factor: float) -> Any:
    """A direction of a frame (its row 1, 2 or 3) times a length, as float32."""
    return (
        np.float32(frame[axis, 0] * factor),
        np.float32(frame[axis, 1] * factor),
        np.float32(frame[axis, 2] * factor),
    )


@leaf
def origin(frame: Array, x: float, y: float, z: float) -> Any:
    """Dose index of a place in a frame, as float32."""
    return (
        np.float32(frame[0, 0] + x * frame[1, 0] + y * frame[2, 0] + z * frame[3, 0]),
        np.float32(frame[0, 1] + x * frame[1, 1] + y * frame[2, 1] + z * frame[3, 1]),
        np.float32(frame[0, 2] + x * frame[1, 2] + y * frame[2, 2] + z * frame[3, 2]),
    )


@leaf
def shifted(place: Place, amount: np.float32, direction: Place) -> Any:
    """A place moved along a direction."""
    return (
        place[0] + amount * direction[0],
        place[1] + amount * direction[1],
        place[2] + amount * direction[2],
    )
