"""The line nearest to a click: a ray through the world, and the kernels that follow it."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.jit import helper, kernel
from napari_gpubio.core.trilinear import mapped

if TYPE_CHECKING:
    from napari_gpubio.gui.lines.packed import Lines

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
_BANDS = 4.0  # lateral distances within a quarter of the tolerance count as equal: the front-most line wins


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
    lines: "Lines", frame: Array, tolerance: float, half_slab: float = np.inf, *, in_slice: bool = False
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


@helper
def _box_reaches(low: Floats, high: Floats, row: Floats, reach: float) -> bool:
    """Whether a box has a part with -reach <= row . (x, y, z, 1) <= reach."""
    center, half = row[3], np.float32(0.0)
    for axis in range(3):
        center += row[axis] * np.float32(0.5) * (low[axis] + high[axis])
        half += abs(row[axis]) * np.float32(0.5) * (high[axis] - low[axis])
    return abs(center) <= half + reach


@helper
def _closest_approach(start: Any, step: Any, half_slab: Any) -> Any:
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


@kernel
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
    best = -1
    best_band: Any = np.float32(np.inf)
    best_depth: Any = np.float32(np.inf)
    for line in range(len(shown)):
        if not shown[line] or not (
            _box_reaches(lows[line], highs[line], frame[0], tolerance)
            and _box_reaches(lows[line], highs[line], frame[1], tolerance)
            and _box_reaches(lows[line], highs[line], frame[2], half_slab)
        ):
            continue
        for n in range(offsets[line], offsets[line + 1] - 1):
            start = mapped(frame, vertices[n, 0], vertices[n, 1], vertices[n, 2])
            end = mapped(frame, vertices[n + 1, 0], vertices[n + 1, 1], vertices[n + 1, 2])
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
