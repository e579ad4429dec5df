"""The one place that knows axes.

* An **array** of a volume is indexed (i, j, k) as nibabel gives it; its **affine** (4 x 4) takes a voxel index to
  **world** millimeters, RAS: x to the right, y to the front, z up.
* A napari **layer** holds the same array transposed, (k, j, i), and its world is (z, y, x) = (S, A, R) in mm. A
  position of the viewer is a world position read backwards.
* napari shows 2-D slices along its world axes only, so an **oblique** or sheared volume is shown straightened:
  `display_affine` keeps voxel sizes, axis order and directions, and the center, and drops the small rotation and the
  shear. Every layer of one volume uses the same display affine, so that what belongs together lies together; files
  and numbers always use the true affine.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput

Array = npt.NDArray[Any]
_ZYX = np.eye(4)[[2, 1, 0, 3]]


def checked_affine(affine: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return a 4 x 4 voxel-to-millimeter matrix as float64, after checking it.

    Raises
    ------
    InvalidInput
        If the shape is wrong, a value is not finite, or the matrix cannot be inverted.
    """
    matrix = np.asarray(affine, np.float64)
    if matrix.shape != (4, 4):
        raise InvalidInput(f"the affine has shape {matrix.shape}; it must be a 4 x 4 voxel-to-millimeter matrix")
    if not np.isfinite(matrix).all():
        raise InvalidInput("the affine has values that are not finite; repair the file's header")
    if abs(np.linalg.det(matrix[:3, :3])) < 1e-12:
        raise InvalidInput("the affine cannot be inverted (a voxel has no volume); repair the file's header")
    return matrix


def apply_affine(affine: Array, points: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Map points, shape (..., 3), through a 4 x 4 matrix."""
    matrix = np.asarray(affine, np.float64)
    return np.asarray(points, np.float64) @ matrix[:3, :3].T + matrix[:3, 3]


def voxel_sizes_mm(affine: Array) -> npt.NDArray[np.float64]:
    """Edge lengths of a voxel along i, j, k in mm."""
    return np.asarray(np.linalg.norm(np.asarray(affine)[:3, :3], axis=0))


def rotation_of(affine: Array) -> npt.NDArray[np.float64]:
    """Orthonormal directions of the voxel axes in world axes, columns i, j, k (nearest ones under shear).

    The determinant is -1 for a left-handed (radiologically stored) volume.
    """
    u, _, vt = np.linalg.svd(np.asarray(affine)[:3, :3] / voxel_sizes_mm(affine))
    return np.asarray(u @ vt)


def same_grid(shape_a: tuple[int, ...], affine_a: Array, shape_b: tuple[int, ...], affine_b: Array) -> bool:
    """Whether two volumes have the same first three dimensions and the same affine to 1e-3 mm at every corner."""
    if tuple(shape_a[:3]) != tuple(shape_b[:3]):
        return False
    corners = np.stack(np.meshgrid(*[(0, n - 1) for n in shape_a[:3]], indexing="ij"), -1).reshape(-1, 3)
    return bool(np.abs(apply_affine(affine_a, corners) - apply_affine(affine_b, corners)).max() < 1e-3)


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


def display_affine(affine: Array, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return the voxel-to-display matrix, mm: the affine itself where its axes follow the world's, else straightened.

    Parameters
    ----------
    affine
        Voxel to world, mm.
    shape
        Dimensions of the volume; its center stays where it is.
    """
    affine = np.asarray(affine, np.float64)
    sizes = voxel_sizes_mm(affine)
    nearest = np.zeros((3, 3))
    for column, row in enumerate(world_axes_of(affine)):
        nearest[row, column] = np.sign(affine[row, column])
    straight = np.eye(4)
    straight[:3, :3] = nearest * sizes
    if np.allclose(affine[:3, :3], straight[:3, :3], atol=1e-3 * sizes.min()):
        return affine
    center = (np.asarray(shape[:3]) - 1) / 2
    straight[:3, 3] = apply_affine(affine, center) - straight[:3, :3] @ center
    return straight


def is_straightened(affine: Array, shape: tuple[int, ...]) -> bool:
    """Whether napari shows this volume straightened, because it is oblique or sheared."""
    return not np.array_equal(display_affine(affine, shape), np.asarray(affine, np.float64))


def to_layer(matrix: Array) -> npt.NDArray[np.float64]:
    """Turn a 4 x 4 matrix over (x, y, z) into the same map over napari's (z, y, x)."""
    return np.asarray(_ZYX @ matrix @ _ZYX)


def volume_layer_affine(affine: Array, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return the ``affine`` of a napari layer that holds ``array.T`` of a volume."""
    return to_layer(display_affine(affine, shape))


def world_layer_affine(affine: Array, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return the ``affine`` of a napari layer whose data are world millimeters (z, y, x) of the volume's study."""
    return to_layer(display_affine(affine, shape) @ np.linalg.inv(affine))


def slice_steps_mm(affine: Array, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Distance between the slices of a volume along the viewer's axes (z, y, x), mm.

    Points, lines and meshes of a study take it as their step, else a slider of the viewer would stop between slices.
    """
    displayed = display_affine(affine, shape)[:3, :3]
    return np.asarray(np.abs(displayed).max(axis=1)[::-1])


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


def viewer_to_world(position: npt.ArrayLike, affine: Array, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """World millimeters (x, y, z) of a viewer position (..., z, y, x); axes before the last three are ignored."""
    zyx = np.asarray(position, np.float64)[..., -3:]
    shown_to_world = np.asarray(affine) @ np.linalg.inv(display_affine(affine, shape))
    return apply_affine(shown_to_world, zyx[..., ::-1])


def world_to_viewer(points: npt.ArrayLike, affine: Array, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Viewer position (z, y, x) of world millimeters (x, y, z)."""
    return apply_affine(display_affine(affine, shape) @ np.linalg.inv(affine), points)[..., ::-1]
