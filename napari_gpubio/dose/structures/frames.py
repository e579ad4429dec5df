"""The frame of a set of parallel planes: two axes in the plane and the normal."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine
from napari_gpubio.dose.structures.loops import following

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
    normal = _common_normal([_area_vector(loop) for loop in loops])
    if normal is None:  # all of them have no area
        return np.eye(4)
    frame = np.eye(4)
    frame[:3, :3] = _axes(normal)
    for loop in loops:
        depth = loop @ frame[:3, 2]
        if np.ptp(depth) > _FLAT_MM:
            raise InvalidInput(
                f"a contour of {name!r} leaves its plane by {np.ptp(depth):.3g} mm; contours must be planar and "
                "parallel to each other: export the structure in one orientation"
            )
    return frame


def by_plane(loops: Sequence[Array], frame: Array) -> list[tuple[float, list[Array]]]:
    """Loops of each plane in the frame's x and y, with the plane's position along the normal, ascending, mm."""
    into = np.linalg.inv(frame)
    local = [apply_affine(into, loop) for loop in loops]
    depths = [float(0.5 * (points[:, 2].min() + points[:, 2].max())) for points in local]
    planes: list[tuple[float, list[Array]]] = []
    for n in np.argsort(depths, kind="stable"):
        if not planes or depths[n] - planes[-1][0] > _FLAT_MM:
            planes.append((depths[n], []))
        planes[-1][1].append(local[n][:, :2])
    return planes


def _area_vector(loop: Array) -> Array:
    """Normal of a loop with the length of its area (Newell)."""
    x, y, z = (loop - loop[0]).T
    nx, ny, nz = (following(loop) - loop[0]).T
    return 0.5 * np.array([y @ nz - z @ ny, z @ nx - x @ nz, x @ ny - y @ nx])


def _common_normal(areas: list[Array]) -> Array | None:
    largest = max(areas, key=lambda area: float(area @ area))
    total = sum((area if area @ largest >= 0 else -area for area in areas), np.zeros(3))
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
