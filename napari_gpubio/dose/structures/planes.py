"""Which planes contours lie in: their common frame, contours that leave it, and copies beside each other."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.space import apply_affine

Array = npt.NDArray[np.float64]
FLAT_MM = 0.05  # how far the points of a contour may lie off its plane, and contours of one plane from each other
_ALIGNED = 1e-6  # sine of the angle below which a normal is taken to be a world axis
_MOST_NORMALS = 32  # of the largest contours, that are tried where contours have several
_COPY_MM, _COPY = 0.15, 0.1  # how far copies of a plane may lie apart: mm, and share of the distance of planes
_MOST_COPIES = 4


def planar_frame(loops: Sequence[Array], flat_mm: float = FLAT_MM) -> tuple[Array, Array]:
    """The frame of the parallel planes that contours lie in, and how far each contour leaves its plane.

    Parameters
    ----------
    loops
        World points (N, 3) in mm, N >= 3; at least one loop.
    flat_mm
        How far points may lie off a plane. Where some lie farther, the frame is that of as much area as possible.

    Returns
    -------
    frame
        To world, 4 x 4, orthonormal: columns x and y in the planes, z along their normal, origin at 0.
    off
        Of each loop from its lowest to its highest point along the normal, mm.
    """
    points, firsts = np.concatenate(loops), _firsts(loops)
    areas = _area_vectors(points, firsts)
    normal = _common_normal(areas)
    if normal is None:  # all of them have no area
        return np.eye(4), np.zeros(len(loops))
    off = _heights(points @ normal, firsts)
    if off.max() > flat_mm and len(loops) > 1:
        normal = _normal_of_most(points, firsts, areas, flat_mm)
    frame = np.eye(4)
    frame[:3, :3] = _axes(normal)
    return frame, _heights(points @ frame[:3, 2], firsts)


def by_plane(
    loops: Sequence[Array], frame: Array, flat_mm: float = FLAT_MM
) -> tuple[list[tuple[float, list[Array]]], float]:
    """Loops of each plane in the frame's x and y, with the plane's position along the normal, ascending, mm.

    Copies of a plane beside each other, which no slices are, become one plane; the second part is how far such copies
    lie apart at most, 0 where there are none.
    """
    if not loops:
        return [], 0.0
    local, firsts = apply_affine(np.linalg.inv(frame), np.concatenate(loops)), _firsts(loops)
    low, high = _ranges(local[:, 2], firsts)
    depths, parts = 0.5 * (low + high), np.split(local[:, :2], firsts[1:])
    order = np.argsort(depths, kind="stable")
    groups = _groups(depths[order], flat_mm)
    if (copies_mm := _copies_mm(np.array([depths[order][group[0]] for group in groups]))) > flat_mm:
        groups = _groups(depths[order], copies_mm)
    ends = [(depths[order][group[0]], depths[order][group[-1]]) for group in groups]
    apart = max(float(last - first) for first, last in ends)
    planes = [
        (float(0.5 * (first + last)), [parts[order[n]] for n in group])
        for (first, last), group in zip(ends, groups, strict=True)
    ]
    return planes, apart if apart > flat_mm else 0.0


def _groups(depths: Array, tolerance: float) -> list[list[int]]:
    """Numbers of ascending depths, those together that are no farther than a tolerance from the first of them."""
    groups: list[list[int]] = []
    for n, depth in enumerate(depths):
        if not groups or depth - depths[groups[-1][0]] > tolerance:
            groups.append([])
        groups[-1].append(n)
    return groups


def _copies_mm(positions: Array) -> float:
    """How far copies of a plane may lie apart, by the distances of all planes; 0 where there are no copies."""
    if positions[-1] - positions[0] <= _COPY_MM:
        return _COPY_MM
    gaps = np.diff(positions)
    wide = gaps[gaps > _COPY_MM]
    if len(wide) * _MOST_COPIES < len(gaps) or not len(wide):
        return 0.0
    return min(_COPY_MM, _COPY * float(np.median(wide)))


def _firsts(loops: Sequence[Array]) -> npt.NDArray[np.int64]:
    """Where each loop begins among the points of all."""
    lengths = np.array([len(loop) for loop in loops])
    return np.cumsum(lengths) - lengths


def _ranges(values: Array, firsts: npt.NDArray[np.int64]) -> tuple[Array, Array]:
    """Least and largest value of each loop."""
    return np.minimum.reduceat(values, firsts), np.maximum.reduceat(values, firsts)


def _heights(values: Array, firsts: npt.NDArray[np.int64]) -> Array:
    low, high = _ranges(values, firsts)
    return high - low


def _area_vectors(points: Array, firsts: npt.NDArray[np.int64]) -> Array:
    """Normals of loops with the lengths of their areas (Newell), shape (loops, 3)."""
    lengths = np.diff(firsts, append=len(points))
    beside = np.arange(1, len(points) + 1)
    beside[firsts + lengths - 1] = firsts  # after the last point comes the first
    local = points - np.repeat(points[firsts], lengths, axis=0)
    return np.asarray(0.5 * np.add.reduceat(np.cross(local, local[beside]), firsts))


def _common_normal(areas: Array) -> Array | None:
    """The unit normal that loops of either direction share, or None if they have no area."""
    largest = areas[(areas**2).sum(axis=1).argmax()]
    total = (np.where(areas @ largest >= 0, 1.0, -1.0)[:, None] * areas).sum(axis=0)
    length = float(np.linalg.norm(total))
    return None if length == 0 else total / length


def _normal_of_most(points: Array, firsts: npt.NDArray[np.int64], areas: Array, flat_mm: float) -> Array:
    """The normal of the parallel planes that hold as much area as possible."""
    sizes = np.linalg.norm(areas, axis=1)
    best, most = areas[sizes.argmax()], 0.0
    for n in np.argsort(-sizes, kind="stable")[:_MOST_NORMALS]:
        if sizes[n] == 0:
            break
        flat = _heights(points @ (areas[n] / sizes[n]), firsts) <= flat_mm
        if (area := float(sizes[flat].sum())) > most:
            best, most = areas[flat], area
    return np.asarray(_common_normal(np.atleast_2d(best)))


def _axes(normal: Array) -> Array:
    """Orthonormal axes as columns, the last one along the normal; world axes where the normal is one of them."""
    main = int(np.abs(normal).argmax())
    normal = normal * np.sign(normal[main])
    if np.abs(np.delete(normal, main)).max() < _ALIGNED:
        normal = np.eye(3)[main]
    across = np.eye(3)[(main + 1) % 3]
    x = across - (across @ normal) * normal
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(normal, x), normal], axis=1)
