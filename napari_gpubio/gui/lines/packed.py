"""Streamlines packed for the GPU: one vertex buffer, one index buffer, and a bounding box for each line."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.jit import kernel
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.gui.lines.paint import DIRECTION, UNIFORM, Paint, mark_ends, unpack_rgb

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Offsets = npt.NDArray[np.int64]
Segments = npt.NDArray[np.uint32]
_THUMBNAIL_POINTS = 4096


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


def thumbnail(lines: "Lines", axes: list[int], shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Picture of evenly spaced points, projected on two layer axes."""
    picture = np.zeros(shape, np.uint8)
    picture[..., 3] = 255
    some = lines.vertices[:: max(1, len(lines.vertices) // _THUMBNAIL_POINTS)]
    if len(some):
        low, high = lines.extent[:, axes]
        scale = (min(shape[:2]) - 1) / max(float((high - low).max()), 1e-6)
        row, column = ((some[:, 2::-1][:, axes] - low) * scale).astype(np.intp).T
        picture[row, column, :3] = unpack_rgb(some[:, 3])
    return picture


@dataclass(frozen=True, eq=False, kw_only=True)
class Lines(ShortRepr):
    """Streamlines packed for the GPU; made by `pack_lines`.

    One object holds everything that must fit together, so that a thread which picks while the lines are replaced
    reads either the old ones or the new ones.

    Parameters
    ----------
    vertices
        Shape (P, 4), float32: x, y, z in data units and the color, 24-bit RGB packed into one number (a float32
        holds 24 bits exactly). Painting changes the colors in place; see `paint.mark_ends` for that of a last point.
    offsets
        Shape (F + 1,), int64; line ``f`` is ``vertices[offsets[f]:offsets[f + 1]]``.
    segments
        Pairs of neighboring vertices of all lines, in order, shape (S, 2), uint32.
    lows, highs
        Corners (x, y, z) of the box around each line, shape (F, 3), float32; reversed infinities if it has no point.
    extent
        Lowest and highest z, y, x, shape (2, 3); NaN if there is no point.
    shown
        Lines that are drawn and can be picked, shape (F,).
    per_fiber, per_point
        Named numbers, shape (F,) and (P,).
    paint
        What the colors mean; None if the lines are not painted yet.
    """

    vertices: Floats
    offsets: Offsets
    segments: Segments
    lows: Floats
    highs: Floats
    extent: npt.NDArray[np.float64]
    shown: npt.NDArray[np.bool_]
    per_fiber: Mapping[str, Array] = field(default_factory=dict)
    per_point: Mapping[str, Array] = field(default_factory=dict)
    paint: Paint | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def points(self) -> Floats:
        """Points in layer axes (z, y, x), shape (P, 3); a view."""
        return self.vertices[:, 2::-1]

    @property
    def counts(self) -> Offsets:
        """Number of points of each line, shape (F,)."""
        return np.diff(self.offsets)

    @property
    def names(self) -> list[str]:
        """Names of all numbers."""
        return [*self.per_fiber, *self.per_point]

    def numbers(self, name: str) -> Array | None:
        """Return the numbers of this name, shape (F,) or (P,), or None if there are none."""
        return self.per_fiber.get(name, self.per_point.get(name))

    def with_shown(self, shown: npt.ArrayLike | None) -> "Lines":
        """Return the same lines, of which only some are shown; None shows all.

        Raises
        ------
        InvalidInput
            If ``shown`` is not one boolean for each line.
        """
        mask = np.ones(len(self), bool) if shown is None else np.array(shown)
        if mask.shape != (len(self),) or mask.dtype != bool:
            raise InvalidInput(
                f"shown has shape {mask.shape} and type {mask.dtype}; give one boolean for each of {len(self)} fibers"
            )
        return dataclasses.replace(self, shown=mask)

    def with_numbers(
        self, per_fiber: Mapping[str, npt.ArrayLike] | None, per_point: Mapping[str, npt.ArrayLike] | None
    ) -> "Lines":
        """Return the same lines with other numbers, to be painted anew; errors as for `pack_lines`."""
        of_fibers = _columns(per_fiber, len(self), "fiber")
        of_points = _columns(per_point, len(self.vertices), "point")
        names = [DIRECTION, UNIFORM, *of_fibers, *of_points]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise InvalidInput(f"the name {twice[0]!r} is taken; give every number of the streamlines its own name")
        return dataclasses.replace(self, paint=None, per_fiber=of_fibers, per_point=of_points)


def pack_lines(
    points: npt.ArrayLike,
    offsets: npt.ArrayLike,
    *,
    per_fiber: Mapping[str, npt.ArrayLike] | None = None,
    per_point: Mapping[str, npt.ArrayLike] | None = None,
    paint: Paint | None = None,
) -> Lines:
    """Check streamlines and bring them into the layout of the graphics card, all shown.

    This is all the work that a streamlines layer has with its lines, and needs no GUI thread: do it in the worker.

    Parameters
    ----------
    points
        Shape (P, 3), layer axes z, y, x.
    offsets
        Shape (F + 1,), from 0 to P, not decreasing.
    per_fiber, per_point
        Named numbers, shape (F,) and (P,), to color by; a name may occur only once.
    paint
        What to color by: the layer's own ``paint``, or ``ByDirection(affine)`` for a new layer. If it is None, or a
        number that these lines do not have, they stay black and the layer paints them.

    Raises
    ------
    InvalidInput
        If the shapes, offsets or names do not fit, or a coordinate is not finite.
    """
    points, offsets = _checked(points, offsets)
    vertices = np.empty((len(points), 4), np.float32)
    if (bad := _pack(points, vertices)) >= 0:
        raise InvalidInput(f"point {bad} of the streamlines is {points[bad].tolist()}; all coordinates must be finite")
    shown, (lows, highs) = np.ones(len(offsets) - 1, bool), _boxes_of(vertices, offsets)
    extent = np.full((2, 3), np.nan)
    if len(points):
        extent[:] = np.stack([lows.min(axis=0), highs.max(axis=0)])[:, ::-1]
    lines = Lines(
        vertices=vertices,
        offsets=offsets,
        segments=_segments_of(offsets, shown),
        lows=lows,
        highs=highs,
        extent=extent,
        shown=shown,
    )
    return painted(lines.with_numbers(per_fiber, per_point), paint)


def painted(lines: Lines, paint: Paint | None) -> Lines:
    """Return lines in these colors, which are written into the given ones; black ones have no such numbers."""
    if paint is None or paint == lines.paint or not paint.fits(lines):
        return lines
    paint.apply(lines)
    mark_ends(lines)
    return dataclasses.replace(lines, paint=paint)


def line_lengths(points: npt.ArrayLike, offsets: npt.ArrayLike) -> Floats:
    """Return the length of each line in the units of its points, shape (F,); 0 if it has less than two points."""
    points, offsets = _checked(points, offsets)
    lengths = np.zeros(len(offsets) - 1, np.float32)
    _lengths(points, offsets, lengths)
    return lengths


def write_segments(lines: Lines, out: Segments) -> Segments:
    """Write the vertex pairs of all shown lines to the front of ``out`` and return that part, a view."""
    return out[: _write_segments(lines.offsets, lines.shown, out)]


def _checked(points: npt.ArrayLike, offsets: npt.ArrayLike) -> tuple[Floats, Offsets]:
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


def _columns(table: Mapping[str, npt.ArrayLike] | None, rows: int, what: str) -> dict[str, Array]:
    """Return named numbers as arrays of shape (rows,), or raise an error that names the one that does not fit."""
    columns = {name: np.asarray(values) for name, values in (table or {}).items()}
    for name, values in columns.items():
        if values.shape != (rows,) or values.dtype.kind not in "biuf":
            raise InvalidInput(
                f"{name!r} has shape {values.shape} and type {values.dtype}; give one number for each {what}, {rows}"
            )
    return columns


def _boxes_of(vertices: Floats, offsets: Offsets) -> tuple[Floats, Floats]:
    lows = np.empty((len(offsets) - 1, 3), np.float32)
    highs = np.empty_like(lows)
    _boxes(vertices, offsets, lows, highs)
    return lows, highs


def _segments_of(offsets: Offsets, shown: npt.NDArray[np.bool_]) -> Segments:
    segments = np.empty((int(np.maximum(np.diff(offsets) - 1, 0).sum()), 2), np.uint32)
    _write_segments(offsets, shown, segments)
    return segments


@kernel
def _pack(points: Floats, vertices: Floats) -> int:
    """Turn z, y, x into x, y, z and a black color; return the first point that is not finite, or -1."""
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


@kernel
def _boxes(vertices: Floats, offsets: Offsets, lows: Floats, highs: Floats) -> None:
    for line in range(len(lows)):
        for axis in range(3):
            low, high = np.float32(np.inf), np.float32(-np.inf)
            for n in range(offsets[line], offsets[line + 1]):
                value = vertices[n, axis]
                low = min(low, value)
                high = max(high, value)
            lows[line, axis] = low
            highs[line, axis] = high


@kernel
def _lengths(points: Floats, offsets: Offsets, lengths: Floats) -> None:
    for line in range(len(lengths)):
        total = 0.0
        for n in range(offsets[line] + 1, offsets[line + 1]):
            dx, dy, dz = (
                points[n, 0] - points[n - 1, 0],
                points[n, 1] - points[n - 1, 1],
                points[n, 2] - points[n - 1, 2],
            )
            total += np.sqrt(dx * dx + dy * dy + dz * dz)
        lengths[line] = total


@kernel
def _write_segments(offsets: Offsets, shown: npt.NDArray[np.bool_], out: Segments) -> int:
    count = 0
    for line in range(len(shown)):
        if shown[line]:
            for n in range(offsets[line], offsets[line + 1] - 1):
                out[count, 0] = n
                out[count, 1] = n + 1
                count += 1
    return count
