"""The frame of a set of parallel planes: two axes in the plane and the normal."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine

Array = npt.NDArray[np.float64]
_FLAT_MM = 0.05  # how far the points of a contour may lie off its plane, and contours of one plane from each other
_ALIGNED = 1e-6  # sine of the angle below which a normal is taken to be a world axis


def plane_frame(loops: Sequence[Array], name: str) -> Array:
    """Frame to world, 4 x 4, orthonormal: columns x and y in the planes, z along their normal, origin at 0.

    Parameters
    ----------
    loops
        World points in mm, each of shape (N, 3) with N >= 3.
    name
        Of the structure, for the error.

    Raises
    ------
    InvalidInput
        If the loops do not lie in parallel planes.
    """
    points, firsts = np.concatenate(loops), _firsts(loops)
    normal = _common_normal(_area_vectors(points, firsts))
    if normal is None:  # all of them have no area
        return np.eye(4)
    frame = np.eye(4)
    frame[:3, :3] = _axes(normal)
    low, high = _ranges(points @ frame[:3, 2], firsts)
    if (worst := float((high - low).max())) > _FLAT_MM:
        raise InvalidInput(
            f"a contour of {name!r} leaves its plane by {worst:.3g} mm; contours must be planar and parallel to each "
            "other: export the structure in one orientation"
        )
    return frame


def by_plane(loops: Sequence[Array], frame: Array) -> list[tuple[float, list[Array]]]:
    """Loops of each plane in the frame's x and y, with the plane's position along the normal, ascending, mm."""
    if not loops:
        return []
    local, firsts = apply_affine(np.linalg.inv(frame), np.concatenate(loops)), _firsts(loops)
    low, high = _ranges(local[:, 2], firsts)
    depths, parts = 0.5 * (low + high), np.split(local[:, :2], firsts[1:])
    planes: list[tuple[float, list[Array]]] = []
    for n in np.argsort(depths, kind="stable"):
        if not planes or depths[n] - planes[-1][0] > _FLAT_MM:
            planes.append((float(depths[n]), []))
        planes[-1][1].append(parts[n])
    return planes


def _firsts(loops: Sequence[Array]) -> npt.NDArray[np.int64]:
    """Where each loop begins among the points of all."""
    lengths = np.array([len(loop) for loop in loops])
    return np.cumsum(lengths) - lengths


def _ranges(values: Array, firsts: npt.NDArray[np.int64]) -> tuple[Array, Array]:
    """Least and largest value of each loop."""
    return np.minimum.reduceat(values, firsts), np.maximum.reduceat(values, firsts)


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
