"""The one place that knows axes.

* An **array** of a volume is indexed (i, j, k) as nibabel gives it; its **affine** (4 x 4) takes a voxel index to
  **world** millimeters, RAS: x to the right, y to the front, z up.
* The **viewer's** world is (z, y, x) = (S, A, R) in mm: a position of the viewer is a world position read backwards,
  for every layer. A layer holds a volume's array transposed, (k, j, i).
* napari cuts slices along its world's axes only, and draws a rotated layer displaced in 2-D. So an **oblique** or
  sheared volume is shown through a `napari_gpubio.core.world_aligned.WorldAligned`; files, engines and numbers use its
  own voxels and the true affine.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput

Array = npt.NDArray[Any]
_ZYX = np.eye(4)[[2, 1, 0, 3]]
_FLATTEST = 1e-9  # volume of a voxel over that of a box of its edges
_SHORTEST_MM = 1e-12  # edge of a voxel; squares of far smaller numbers are 0
_FARTHEST_MM = 1e9  # from the origin; beyond is damage

_SAME_PLACE_VOXELS = 0.05
_SAME_CORNER_EDGES = 1e-3
_SAME_SIZE_EDGES = 1e-3
_ROUNDING = 4 * float(np.finfo(np.float32).eps)  # of coordinates, which headers have in float32


def checked_affine(affine: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return a 4 x 4 voxel-to-millimeter matrix as float64, after checking it.

    Raises
    ------
    InvalidInput
        If the shape is wrong, a value is not finite, or the matrix cannot be inverted.
    """
    given = np.asarray(affine)
    if given.shape != (4, 4) or given.dtype.kind not in "biuf":
        what = f"shape {given.shape} of {given.dtype}"
        raise InvalidInput(f"the affine has {what}; it must be a 4 x 4 voxel-to-millimeter matrix")
    matrix = given.astype(np.float64)
    if not np.isfinite(matrix).all():
        raise InvalidInput("the affine has values that are not finite; repair the file's header")
    if np.abs(matrix).max() > _FARTHEST_MM:
        raise InvalidInput(f"the affine has values over {_FARTHEST_MM:g} mm; repair the file's header")
    edges = np.linalg.norm(matrix[:3, :3], axis=0)
    if edges.min() < _SHORTEST_MM or not abs(np.linalg.det(matrix[:3, :3])) > _FLATTEST * edges.prod():
        raise InvalidInput("the affine cannot be inverted (a voxel has no volume); repair the file's header")
    return matrix


def is_affine(affine: npt.ArrayLike) -> bool:
    """Return whether `checked_affine` takes a matrix."""
    try:
        checked_affine(affine)
    except InvalidInput:
        return False
    return True


def apply_affine(affine: Array, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Map points, shape (..., 3), through a 4 x 4 matrix."""
    matrix = np.asarray(affine, np.float64)
    return np.asarray(points, np.float64) @ matrix[:3, :3].T + matrix[:3, 3]


def lengths_along(points: Array) -> npt.NDArray[np.float64]:
    """Return how far along a line each of its points, shape (N, D), lies: 0 for the first."""
    return np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])


def nearest_voxels(affine: Array, points_mm: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the voxels, shape (..., 3), in which world points lie; one between two is in the upper one."""
    return np.floor(apply_affine(np.linalg.inv(affine), points_mm) + 0.5).astype(np.int64)


def in_grid(voxels: Array, shape: Sequence[int] | Array) -> npt.NDArray[np.bool_]:
    """Return which voxels, shape (..., 3), a grid has."""
    return np.asarray(((voxels >= 0) & (voxels < shape)).all(axis=-1))


def in_mask(voxels: Array, mask: Array) -> npt.NDArray[np.bool_]:
    """Return which voxels, shape (..., 3), lie in a mask (X, Y, Z); those that its grid lacks do not."""
    inside = in_grid(voxels, mask.shape)
    inside[inside] = mask[tuple(voxels[inside].T)]
    return inside


def voxel_sizes_mm(affine: Array) -> npt.NDArray[np.float64]:
    """Edge lengths of a voxel along i, j, k in mm."""
    return np.asarray(np.linalg.norm(np.asarray(affine)[:3, :3], axis=0))


def voxel_volume_mm3(affine: Array) -> float:
    """Volume of a voxel."""
    return float(abs(np.linalg.det(affine[:3, :3])))


def rotation_of(affine: Array) -> npt.NDArray[np.float64]:
    """Orthonormal directions of the voxel axes in world axes, columns i, j, k (nearest ones under shear).

    The determinant is -1 for a left-handed (radiologically stored) volume.
    """
    u, _, vt = np.linalg.svd(np.asarray(affine)[:3, :3] / voxel_sizes_mm(affine))
    return np.asarray(u @ vt)


def fsl_axes(affine: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return FSL's three axes in world axes, as the columns of an orthonormal 3 x 3 matrix.

    They are the directions of the voxel axes (the nearest orthonormal ones under shear), the first one reversed if
    the determinant of the affine is positive.
    """
    axes = rotation_of(checked_affine(affine)).copy()
    if np.linalg.det(axes) > 0:
        axes[:, 0] *= -1.0
    return axes


def same_grid(shape_a: tuple[int, ...], affine_a: Array, shape_b: tuple[int, ...], affine_b: Array) -> bool:
    """Whether two volumes have the same first three dimensions, and the same affine to 1e-3 voxels at every corner."""
    if tuple(shape_a[:3]) != tuple(shape_b[:3]):
        return False
    indices = np.stack(np.meshgrid(*[(0, n - 1) for n in shape_a[:3]], indexing="ij"), -1).reshape(-1, 3)
    corners, others = apply_affine(affine_a, indices), apply_affine(affine_b, indices)
    most = _SAME_CORNER_EDGES * voxel_sizes_mm(affine_a).min() + _ROUNDING * np.abs(corners).max()
    return bool(np.abs(corners - others).max() < most)


def as_many_voxels(shape_a: tuple[int, ...], affine_a: Array, shape_b: tuple[int, ...], affine_b: Array) -> bool:
    """Whether two volumes have as many voxels of the same sizes along i, j, k, wherever they lie."""
    sizes = voxel_sizes_mm(affine_a), voxel_sizes_mm(affine_b)
    return tuple(shape_a[:3]) == tuple(shape_b[:3]) and np.allclose(*sizes, rtol=_SAME_SIZE_EDGES, atol=0.0)


def same_voxels(shape_a: tuple[int, ...], affine_a: Array, shape_b: tuple[int, ...], affine_b: Array) -> bool:
    """Whether two volumes have their voxels at the same places, though their axes may be in another order, or turned.

    MRtrix turns the axes of a volume round until they follow x, y, z, and writes it so.
    """
    turned = np.linalg.inv(affine_a) @ affine_b
    corners = apply_affine(turned, [np.zeros(3), np.asarray(shape_b[:3]) - 1.0])
    whole = np.abs(turned[:3, :3])
    return bool(
        np.allclose(whole, np.rint(whole), atol=1e-3)
        and np.allclose(corners.min(axis=0), 0.0, atol=_SAME_PLACE_VOXELS)
        and np.allclose(corners.max(axis=0), np.asarray(shape_a[:3]) - 1.0, atol=_SAME_PLACE_VOXELS)
    )


def world_axes_of(affine: Array) -> tuple[int, int, int]:
    """World axis (0 = x, 1 = y, 2 = z) that each voxel axis i, j, k follows most closely; each is taken once."""
    cosines = np.abs(rotation_of(affine))
    axes, free = [0, 0, 0], [0, 1, 2]
    for column in np.argsort(-cosines.max(axis=0)):
        axes[column] = max(free, key=lambda row: cosines[row, column])
        free.remove(axes[column])
    return axes[0], axes[1], axes[2]


def world_order(affine: Array) -> tuple[int, int, int]:
    """Order of the voxel axes in which they follow x, y, z: ``array.transpose(order)``, as for a sagittal scan.

    A layer needs this order, because napari cuts slices along the axes of the array as well as of the world.
    """
    axes = world_axes_of(affine)
    return axes.index(0), axes.index(1), axes.index(2)


def is_oblique(affine: Array) -> bool:
    """Whether the axes of a volume do not follow the world's, because it is rotated or sheared."""
    directions = np.asarray(affine, np.float64)[:3, :3]
    along = np.zeros((3, 3), bool)
    along[world_axes_of(affine), range(3)] = True
    return bool(np.abs(directions[~along]).max() > 1e-3 * voxel_sizes_mm(affine).min())


def tilt_degrees(affine: Array) -> float:
    """Largest angle between an axis of a volume and the axis of the world that it follows most closely."""
    directions = np.asarray(affine, np.float64)[:3, :3] / voxel_sizes_mm(affine)
    cosines = np.abs(directions[world_axes_of(affine), range(3)])
    return float(np.degrees(np.arccos(np.clip(cosines.min(), 0.0, 1.0))))


def to_layer(matrix: Array) -> npt.NDArray[np.float64]:
    """Turn a 4 x 4 matrix over (x, y, z) into the same map over napari's (z, y, x)."""
    return np.asarray(_ZYX @ matrix @ _ZYX)


def slice_steps_mm(affine: Array) -> npt.NDArray[np.float64]:
    """Distance between the slices of a volume along the viewer's axes (z, y, x), mm.

    Points, lines and meshes of a study take it as their step, else a slider of the viewer would stop between slices.
    """
    sizes = np.empty(3)
    sizes[list(world_axes_of(affine))] = voxel_sizes_mm(affine)
    return sizes[::-1]


def layer_matrix(attributes: Mapping[str, Any], ndim: int) -> npt.NDArray[np.float64]:
    """Data-to-world matrix, (ndim + 1) x (ndim + 1), of a napari layer, from what napari hands a writer.

    Parameters
    ----------
    attributes
        The layer's ``scale``, ``rotate``, ``shear``, ``translate`` and ``affine``, as far as they are given.
    ndim
        Dimensions of the layer.
    """
    scale = np.diag(np.asarray(attributes.get("scale", np.ones(ndim)), np.float64))
    rotate = np.asarray(attributes.get("rotate", np.eye(ndim)), np.float64)
    own = np.eye(ndim + 1)
    own[:ndim, :ndim] = rotate @ _shear_matrix(attributes.get("shear"), ndim) @ scale
    own[:ndim, ndim] = attributes.get("translate", np.zeros(ndim))
    return np.asarray(np.asarray(attributes.get("affine", np.eye(ndim + 1)), np.float64) @ own)


def _shear_matrix(values: Any, ndim: int) -> Array:
    shear = np.eye(ndim)
    if values is None:
        return shear
    given = np.asarray(values, np.float64)
    if given.ndim == 2:
        return given
    shear[np.triu_indices(ndim, 1)] = given
    return shear


def viewer_to_world(position: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """World millimeters (x, y, z) of a viewer position (..., z, y, x); axes before the last three are ignored."""
    return np.asarray(position, np.float64)[..., :-4:-1]


def world_to_viewer(points: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Viewer position (z, y, x) of world millimeters (x, y, z)."""
    return np.asarray(points, np.float64)[..., ::-1]
