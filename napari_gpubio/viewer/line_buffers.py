"""Numbers behind the streamlines layer: vertices, colours, index buffers, and the line nearest to a click.

Points come in a layer's axes (z, y, x); vertices are kept as the graphics card wants them, (x, y, z, colour), one
float32 each, where the colour is 24-bit RGB packed into one number (a float32 holds 24 bits exactly). The kernels run
on one thread and release the GIL: they share a process with engines that run Numba's own threads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
NO_VALUE_RGB = (128, 128, 128)  # values that are not finite are drawn grey
_BANDS = 4.0  # lateral distances within a quarter of the tolerance count as equal: the front-most line wins
_SAMPLE = 100_000  # enough values for a percentile


@dataclass(frozen=True, eq=False)
class Lines:
    """Streamlines as the graphics card wants them.

    One object holds everything that must fit together, so that a thread which picks while the lines are replaced
    reads either the old ones or the new ones.

    Parameters
    ----------
    vertices
        Shape (P, 4), float32: x, y, z in data units and the packed colour.
    offsets
        Shape (F + 1,), int64; line ``f`` is ``vertices[offsets[f]:offsets[f + 1]]``.
    lows, highs
        Corners (x, y, z) of the box around each line, shape (F, 3), float32; reversed infinities if it has no point.
    shown
        Lines that are drawn and can be picked, shape (F,).
    """

    vertices: Floats
    offsets: npt.NDArray[np.int64]
    lows: Floats
    highs: Floats
    shown: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def points(self) -> Floats:
        """Points in layer axes (z, y, x), shape (P, 3); a view."""
        return self.vertices[:, 2::-1]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Number of points of each line, shape (F,)."""
        return np.diff(self.offsets)

    @cached_property
    def extent(self) -> npt.NDArray[np.float64]:
        """Lowest and highest z, y, x, shape (2, 3); NaN if there is no point."""
        if not len(self.vertices):
            return np.full((2, 3), np.nan)
        return np.stack([self.lows.min(axis=0), self.highs.max(axis=0)])[:, ::-1].astype(np.float64)


def pack_lines(points: npt.ArrayLike, offsets: npt.ArrayLike) -> Lines:
    """Check streamlines and bring them into the layout of the graphics card, all shown, all black.

    Parameters
    ----------
    points
        Shape (P, 3), layer axes z, y, x.
    offsets
        Shape (F + 1,), from 0 to P, not decreasing.

    Raises
    ------
    InvalidInput
        If the shapes or the offsets do not fit, or a coordinate is not finite.
    """
    points, offsets = _checked(points, offsets)
    vertices = np.empty((len(points), 4), np.float32)
    if (bad := _pack(points, vertices)) >= 0:
        raise InvalidInput(f"point {bad} of the streamlines is {points[bad].tolist()}; all coordinates must be finite")
    lows = np.empty((len(offsets) - 1, 3), np.float32)
    highs = np.empty_like(lows)
    _boxes(vertices, offsets, lows, highs)
    return Lines(vertices, offsets, lows, highs, np.ones(len(lows), bool))


def checked_table(table: Mapping[str, npt.ArrayLike] | None, rows: int, what: str) -> dict[str, Array]:
    """Return named numbers as arrays of shape (rows,), or say which name does not fit.

    Raises
    ------
    InvalidInput
        If a column is not ``rows`` numbers long; ``what`` is what a row stands for.
    """
    columns = {name: np.asarray(values) for name, values in (table or {}).items()}
    for name, values in columns.items():
        if values.shape != (rows,) or values.dtype.kind not in "biuf":
            raise InvalidInput(
                f"{name!r} has shape {values.shape} and type {values.dtype}; give one number for each {what}, {rows}"
            )
    return columns


def segment_buffer(lines: Lines) -> npt.NDArray[np.uint32]:
    """Return memory for the segments of all lines, shape (S, 2)."""
    return np.empty((int(np.maximum(lines.counts - 1, 0).sum()), 2), np.uint32)


def write_segments(lines: Lines, out: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Write the vertex pairs of all shown lines to the front of ``out`` and return that part, a view."""
    return out[: _write_segments(lines.offsets, lines.shown, out)]


def pack_rgb(rgb: npt.ArrayLike) -> Floats:
    """Pack colours (..., 3 or more), 0 to 1, into one float32 each: red * 65536 + green * 256 + blue."""
    whole = np.clip(np.asarray(rgb, np.float64)[..., :3] * 255 + 0.5, 0, 255).astype(np.uint32)
    return (whole[..., 0] * 65536 + whole[..., 1] * 256 + whole[..., 2]).astype(np.float32)


def unpack_rgb(packed: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Undo `pack_rgb`: shape (..., 3), 0 to 255."""
    whole = np.asarray(packed).astype(np.uint32)
    return np.stack([whole >> 16, (whole >> 8) & 255, whole & 255], axis=-1).astype(np.uint8)


def paint_direction(lines: Lines, linear: npt.ArrayLike) -> None:
    """Colour every vertex by the direction of its line in the world: red along x, green along y, blue along z.

    Parameters
    ----------
    lines
        Changed in place.
    linear
        3 x 3 map from data to world, both in layer axes z, y, x.
    """
    _paint_direction(lines.vertices, lines.offsets, np.ascontiguousarray(np.asarray(linear, np.float32)[::-1, ::-1]))


def paint_values(lines: Lines, values: Array, lut: Floats, limits: tuple[float, float]) -> None:
    """Colour by a number of each line or each point.

    Parameters
    ----------
    lines
        Changed in place.
    values
        Shape (F,) or (P,); values that are not finite become grey.
    lut
        Packed colours from the lower to the upper limit, shape (N,).
    limits
        Lower and upper limit, in units of the values.
    """
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    colors = _value_colors(values, lut, float(limits[0]), float(limits[1]), pack_rgb(np.divide(NO_VALUE_RGB, 255)))
    lines.vertices[:, 3] = colors if len(values) == len(lines.vertices) else np.repeat(colors, lines.counts)


def automatic_limits(values: Array) -> tuple[float, float]:
    """2nd and 98th percentile of the finite values (of 100,000 evenly spaced ones if there are more)."""
    some = values[:: max(1, len(values) // _SAMPLE)].astype(np.float64)
    some = some[np.isfinite(some)]
    if not len(some):
        return 0.0, 1.0
    low, high = (float(v) for v in np.percentile(some, (2, 98)))
    return (low, high) if high > low else (low, low + 1.0)


def display_matrix(linear: Array, displayed: list[int]) -> npt.NDArray[np.float64]:
    """Map data (x, y, z) to the local coordinates of napari's layer node, shape (3, 3).

    napari gives the node only the part of the transform that belongs to the displayed axes: it drops what a rotated
    layer's hidden axis adds to the picture. This matrix puts that back, so that node transform times this matrix is
    the true projection of the world on the displayed axes; without rotation it merely selects and orders axes.

    Parameters
    ----------
    linear
        3 x 3 map from data to world, both in layer axes z, y, x.
    displayed
        Layer axes on the canvas, as napari orders them (the last one is drawn from left to right).
    """
    rows = list(displayed)[::-1]
    matrix = np.zeros((3, 3))
    # the pseudo-inverse, because an affine that exchanges axes leaves napari's own part without an inverse
    matrix[: len(rows)] = np.linalg.pinv(linear[np.ix_(rows, rows)]) @ linear[rows][:, ::-1]
    return matrix


def ray_frame(
    linear: Array, translate: Array, position: npt.ArrayLike, direction: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Map data (x, y, z) to a frame on a ray: two distances across it and one along it, shape (3, 4).

    Parameters
    ----------
    linear, translate
        Data to world, layer axes z, y, x.
    position, direction
        A point of the ray and its direction in the world (z, y, x); the direction need not have length 1.
    """
    along = np.asarray(direction, np.float64) / np.linalg.norm(direction)
    across = np.cross(along, np.eye(3)[np.argmin(np.abs(along))])
    across /= np.linalg.norm(across)
    rotation = np.stack([across, np.cross(along, across), along])
    return np.column_stack([rotation @ linear[:, ::-1], rotation @ (translate - np.asarray(position, np.float64))])


def nearest_line(
    lines: Lines, frame: Array, tolerance: float, half_slab: float = np.inf, *, in_slice: bool = False
) -> int | None:
    """Index of the shown line nearest to a ray, or None.

    Of lines whose distances from the ray differ by less than a quarter of the tolerance, the one in front wins; in
    a slice, the one nearest to the slice.

    Parameters
    ----------
    lines
        The lines; hidden ones are passed over.
    frame
        What `ray_frame` gave.
    tolerance
        Largest distance from the ray, world units.
    half_slab
        Only parts within this distance from the slice count, world units.
    in_slice
        The ray is the normal of a slice, and a line may lie on either side of it.
    """
    found = _nearest_line(
        lines.vertices,
        lines.offsets,
        lines.lows,
        lines.highs,
        lines.shown,
        np.ascontiguousarray(frame, np.float32),
        np.array([max(tolerance, 1e-6), half_slab], np.float32),
        in_slice,
    )
    return None if found < 0 else int(found)


def _checked(points: npt.ArrayLike, offsets: npt.ArrayLike) -> tuple[Floats, npt.NDArray[np.int64]]:
    points, offsets = np.asarray(points, np.float32), np.ascontiguousarray(offsets, np.int64)
    if points.ndim != 2 or points.shape[1] != 3:
        raise InvalidInput(f"points have shape (P, 3); this array has shape {points.shape}")
    if len(points) >= 2**32:
        raise InvalidInput(f"there are {len(points)} points; one layer can hold 4294967295")
    if offsets.ndim != 1 or not len(offsets) or offsets[0] != 0 or offsets[-1] != len(points):
        raise InvalidInput(f"offsets must run from 0 to the number of points, {len(points)}")
    if (np.diff(offsets) < 0).any():
        raise InvalidInput("offsets must not decrease")
    return points, offsets


@numba.njit(cache=True, nogil=True)
def _pack(points: Floats, vertices: Floats) -> int:
    """Turn z, y, x into x, y, z and a black colour; return the first point that is not finite, or -1."""
    bad = -1
    for n in range(len(points)):
        z, y, x = points[n, 0], points[n, 1], points[n, 2]
        vertices[n, 0] = x
        vertices[n, 1] = y
        vertices[n, 2] = z
        vertices[n, 3] = 0.0
        if bad < 0 and not np.isfinite(x + y + z):
            bad = n
    return bad


@numba.njit(cache=True, nogil=True)
def _boxes(vertices: Floats, offsets: npt.NDArray[np.int64], lows: Floats, highs: Floats) -> None:
    for line in range(len(lows)):
        for axis in range(3):
            low, high = np.float32(np.inf), np.float32(-np.inf)
            for n in range(offsets[line], offsets[line + 1]):
                value = vertices[n, axis]
                low = min(low, value)
                high = max(high, value)
            lows[line, axis] = low
            highs[line, axis] = high


@numba.njit(cache=True, nogil=True)
def _write_segments(offsets: npt.NDArray[np.int64], shown: npt.NDArray[np.bool_], out: npt.NDArray[np.uint32]) -> int:
    count = 0
    for line in range(len(shown)):
        if shown[line]:
            for n in range(offsets[line], offsets[line + 1] - 1):
                out[count, 0] = n
                out[count, 1] = n + 1
                count += 1
    return count


@numba.njit(cache=True, nogil=True)
def _paint_direction(vertices: Floats, offsets: npt.NDArray[np.int64], linear: Floats) -> None:
    """Pack |tangent| / length, from central differences (one-sided at the ends)."""
    for line in range(len(offsets) - 1):
        start, stop = offsets[line], offsets[line + 1]
        for n in range(start, stop):
            before, after = max(n - 1, start), min(n + 1, stop - 1)
            dx = vertices[after, 0] - vertices[before, 0]
            dy = vertices[after, 1] - vertices[before, 1]
            dz = vertices[after, 2] - vertices[before, 2]
            x = abs(linear[0, 0] * dx + linear[0, 1] * dy + linear[0, 2] * dz)
            y = abs(linear[1, 0] * dx + linear[1, 1] * dy + linear[1, 2] * dz)
            z = abs(linear[2, 0] * dx + linear[2, 1] * dy + linear[2, 2] * dz)
            length = np.sqrt(x * x + y * y + z * z)
            scale = np.float32(255.0) / length if length > 0 else np.float32(0.0)
            red, green = np.floor(x * scale + np.float32(0.5)), np.floor(y * scale + np.float32(0.5))
            blue = np.floor(z * scale + np.float32(0.5))
            vertices[n, 3] = red * np.float32(65536.0) + green * np.float32(256.0) + blue


@numba.njit(cache=True, nogil=True)
def _value_colors(values: Array, lut: Floats, low: float, high: float, no_value: float) -> Floats:
    colors = np.empty(len(values), np.float32)
    top = len(lut) - 1
    scale = top / (high - low)
    for n in range(len(values)):
        if np.isfinite(values[n]):
            colors[n] = lut[int(min(max((values[n] - low) * scale, 0.0), top) + 0.5)]
        else:
            colors[n] = no_value
    return colors


@numba.njit(cache=True, nogil=True)
def _box_reaches(low: Floats, high: Floats, row: Floats, reach: float) -> bool:
    """Whether a box has a part with -reach <= row . (x, y, z, 1) <= reach."""
    centre, half = row[3], np.float32(0.0)
    for axis in range(3):
        centre += row[axis] * np.float32(0.5) * (low[axis] + high[axis])
        half += abs(row[axis]) * np.float32(0.5) * (high[axis] - low[axis])
    return abs(centre) <= half + reach


@numba.njit(cache=True, nogil=True)
def _closest_approach(start: tuple, step: tuple, half_slab: float) -> tuple[float, float]:
    """Squared distance of a segment from the ray, and where along the ray; infinite if it misses the slab."""
    first, last = np.float32(0.0), np.float32(1.0)
    if np.isfinite(half_slab):
        if abs(step[2]) < np.float32(1e-12):
            if abs(start[2]) > half_slab:
                return np.float32(np.inf), np.float32(0.0)
        else:
            a, b = (-half_slab - start[2]) / step[2], (half_slab - start[2]) / step[2]
            first, last = max(first, min(a, b)), min(last, max(a, b))
            if first > last:
                return np.float32(np.inf), np.float32(0.0)
    length = step[0] * step[0] + step[1] * step[1]
    where = -(start[0] * step[0] + start[1] * step[1]) / length if length > 0 else first
    where = min(max(where, first), last)
    u, v = start[0] + where * step[0], start[1] + where * step[1]
    return u * u + v * v, start[2] + where * step[2]


@numba.njit(cache=True, nogil=True)
def _nearest_line(
    vertices: Floats,
    offsets: npt.NDArray[np.int64],
    lows: Floats,
    highs: Floats,
    shown: npt.NDArray[np.bool_],
    frame: Floats,
    reach: Floats,
    in_slice: bool,  # noqa: FBT001 - called by position, from one place
) -> int:
    tolerance, half_slab = reach[0], reach[1]
    best, best_band, best_depth = -1, np.float32(np.inf), np.float32(np.inf)
    for line in range(len(shown)):
        if not shown[line] or not (
            _box_reaches(lows[line], highs[line], frame[0], tolerance)
            and _box_reaches(lows[line], highs[line], frame[1], tolerance)
            and _box_reaches(lows[line], highs[line], frame[2], half_slab)
        ):
            continue
        for n in range(offsets[line], offsets[line + 1] - 1):
            start = _in_frame(vertices[n], frame)
            end = _in_frame(vertices[n + 1], frame)
            if min(start[0], end[0]) > tolerance or max(start[0], end[0]) < -tolerance:
                continue
            if min(start[1], end[1]) > tolerance or max(start[1], end[1]) < -tolerance:
                continue
            step = (end[0] - start[0], end[1] - start[1], end[2] - start[2])
            squared, depth = _closest_approach(start, step, half_slab)
            if squared > tolerance * tolerance:
                continue
            if in_slice:
                depth = abs(depth)
            band = np.floor(np.sqrt(squared) / tolerance * np.float32(_BANDS))
            if band < best_band or (band == best_band and depth < best_depth):
                best, best_band, best_depth = line, band, depth
    return best


@numba.njit(cache=True, nogil=True)
def _in_frame(vertex: Floats, frame: Floats) -> tuple[float, float, float]:
    x, y, z = vertex[0], vertex[1], vertex[2]
    return (
        frame[0, 0] * x + frame[0, 1] * y + frame[0, 2] * z + frame[0, 3],
        frame[1, 0] * x + frame[1, 1] * y + frame[1, 2] * z + frame[1, 3],
        frame[2, 0] * x + frame[2, 1] * y + frame[2, 2] * z + frame[2, 3],
    )
