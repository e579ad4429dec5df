"""Which planes contours lie in: their common frame, contours that leave it, and copies beside each other."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.space import apply_affine

Array = npt.NDArray[np.float64]
FLAT_MM = 0.05  # how far the points of a contour may lie off its plane, and contours of one plane from each other
BENT_MM = 0.25  # how far points may lie off a plane that they are meant to lie in: rounding to 0.1 mm takes 0.17
_AS_STRAIGHT = 2.0  # times as far as along their own normal, points may lie off the planes across a world axis
_SAME_MM = 1e-3  # how far positions may differ that are one
_ALIGNED = 1e-6  # sine of the angle below which a normal is taken to be a world axis
_MAX_NORMALS = 32  # of the largest contours, that are tried where contours have several
_CLOSE_MM, _CLOSE = 1.0, 0.25  # how far apart planes of one slice may lie: mm, and share of the distance of slices
_CLOSEST_SLICE_MM, _MAX_SLICE_MM = 0.6, 10.0  # what is taken for a distance of slices: of a single one, and at most


def planar_frame(loops: Sequence[Array]) -> tuple[Array, Array]:
    """The frame of the parallel planes that contours lie in, and how far each contour leaves its plane.

    Where contours leave them by more than `FLAT_MM`, the frame is that of most of their area, if it has one; else that
    of as much area as possible within `BENT_MM`, by a world axis where it fits about as well.

    Parameters
    ----------
    loops
        World points (N, 3) in mm, N >= 3; at least one loop.

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
    if _heights(points @ normal, firsts).max() > FLAT_MM:
        flat, share = _normal_of_most(points, firsts, areas, FLAT_MM)
        normal = flat if share > 0.5 else _bent_normal(points, firsts, areas)
    frame = np.eye(4)
    frame[:3, :3] = _axes(normal)
    return frame, _heights(points @ frame[:3, 2], firsts)


def by_plane(loops: Sequence[Array], frame: Array, off: Array) -> list[tuple[float, list[Array]]]:
    """Loops of each plane in the frame's x and y, with the plane's position along the normal, ascending, mm.

    Positions are known as well as contours are flat: to the median of ``off``, how far they leave their planes.
    """
    if not loops:
        return []
    local, firsts = apply_affine(np.linalg.inv(frame), np.concatenate(loops)), _firsts(loops)
    low, high = _ranges(local[:, 2], firsts)
    depths, parts = 0.5 * (low + high), np.split(local[:, :2], firsts[1:])
    order = np.argsort(depths, kind="stable")
    known_mm = max(_SAME_MM, float(np.median(off)))
    groups: list[list[int]] = []
    for n in order:
        if not groups or depths[n] - depths[groups[-1][0]] > known_mm:
            groups.append([])
        groups[-1].append(n)
    return [(float(0.5 * (depths[group[0]] + depths[group[-1]])), [parts[n] for n in group]) for group in groups]


def one_slice_each(positions: Array, slice_mm: float | None = None) -> list[list[int]]:
    """Numbers of ascending positions of planes, those of one slice together: far closer to each other than slices are.

    Parameters
    ----------
    positions
        Along the normal, mm.
    slice_mm
        Least distance of slices, where it is known; else it is that of the planes of different slices. 0: each plane
        is one.
    """
    gaps = np.diff(positions)
    close = gaps[gaps <= _CLOSE_MM] if slice_mm != 0 else np.empty(0)
    for closest in np.unique(np.ceil(close / FLAT_MM))[::-1] * FLAT_MM:
        breaks = np.flatnonzero(gaps > closest)
        low, high = positions[np.append(0, breaks + 1)], positions[np.append(breaks, -1)]
        own = float(np.median(np.diff(low))) if len(breaks) else _CLOSEST_SLICE_MM
        usual = own if slice_mm is None else slice_mm
        at_most = min(_CLOSE_MM, _CLOSE * usual) if usual <= _MAX_SLICE_MM else 0.0
        apart, between = high - low, low[1:] - high[:-1]
        is_isolated = (apart[:-1] <= between).all() and (apart[1:] <= between).all()
        if is_isolated and apart.max() <= max(FLAT_MM, at_most):
            return [group.tolist() for group in np.split(np.arange(len(positions)), breaks + 1)]
    return [[n] for n in range(len(positions))]


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


def _normal_of_most(points: Array, firsts: npt.NDArray[np.int64], areas: Array, flat_mm: float) -> tuple[Array, float]:
    """The normal of the parallel planes that hold as much area as possible, and the share of it that they hold."""
    sizes = np.linalg.norm(areas, axis=1)
    best, most = areas[sizes.argmax()], 0.0
    for n in np.argsort(-sizes, kind="stable")[:_MAX_NORMALS]:
        if sizes[n] == 0:
            break
        flat = _heights(points @ (areas[n] / sizes[n]), firsts) <= flat_mm
        if (area := float(sizes[flat].sum())) > most:
            best, most = areas[flat], area
    return np.asarray(_common_normal(np.atleast_2d(best))), most / float(sizes.sum())


def _bent_normal(points: Array, firsts: npt.NDArray[np.int64], areas: Array) -> Array:
    """The normal of the planes that contours lie in nearly; a world axis where they do not lie farther off it."""
    normal, _ = _normal_of_most(points, firsts, areas, BENT_MM)
    axis = np.eye(3)[int(np.abs(normal).argmax())]
    off, straight = (_heights(points @ one, firsts) for one in (normal, axis))
    kept = off <= BENT_MM
    return axis if kept.any() and straight[kept].max() <= _AS_STRAIGHT * off[kept].max() else normal


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
