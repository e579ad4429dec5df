"""Tensors as ellipsoids: a mesh, and which voxels have one."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.space import apply_affine
from napari_gpubio.core.tensor_components import fractional_anisotropy
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.voxels import voxels_to_draw

Array = npt.NDArray[Any]
MAX_GLYPHS = 4000
_LIGHT = np.array([0.41, -0.41, 0.82])  # from the right, behind and above


def ellipsoids(
    field: TensorField, voxels: npt.ArrayLike, *, size: float = 0.9
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Mesh of the diffusion ellipsoids of some voxels.

    The half axes are proportional to the eigenvalues; each ellipsoid is scaled so that its longest axis spans ``size``
    of the smallest voxel edge, so that shapes compare. Colors encode the principal direction, paler where FA is low.

    Parameters
    ----------
    field
        The tensors.
    voxels
        Voxel indices, shape (G, 3); those outside the mask are left out.
    size
        Length of the longest axis as a share of the smallest voxel edge.

    Returns
    -------
    vertices, faces, colors
        Vertices (V, 3) in world mm, triangles (F, 3), and RGBA (V, 4).

    Raises
    ------
    InvalidInput
        If no voxel lies in the mask, or there are more than 4000.
    """
    at = voxels_to_draw(voxels, field.mask, MAX_GLYPHS, "tensors")
    ball, triangles = icosphere()
    values = field.eigen.values[tuple(at.T)]
    vectors = field.eigen.vectors[tuple(at.T)]
    half_axes = 0.5 * size * field.voxel_sizes_mm.min() * values / values[:, :1]
    local = np.einsum("vi,gi,gik->gvk", ball, half_axes, vectors)
    vertices = local + apply_affine(field.affine, at)[:, None, :]
    faces = triangles[None] + (len(ball) * np.arange(len(at)))[:, None, None]
    fa = fractional_anisotropy(values)[:, None]
    rgb = (np.abs(vectors[:, 0, :]) * fa + 0.6 * (1 - fa))[:, None, :] * _brightness(ball, half_axes, vectors)
    colors = np.concatenate([rgb.clip(0, 1), np.ones((*rgb.shape[:2], 1))], axis=2)
    return (
        vertices.reshape(-1, 3).astype(np.float32),
        faces.reshape(-1, 3).astype(np.int32),
        colors.reshape(-1, 4).astype(np.float32),
    )


def by_depth(vertices: Array, faces: Array, across: int) -> npt.NDArray[np.int32]:
    """Return triangles (F, 3) in the order in which they cover each other, seen from the lit side of a world axis."""
    depth = np.sign(_LIGHT[across]) * vertices[faces, across].sum(axis=1)
    return np.asarray(faces[np.argsort(depth, kind="stable")])


def _brightness(ball: Array, half_axes: Array, vectors: Array) -> Array:
    """Light from a fixed side of the world, shape (glyphs, vertices, 1): a viewer's own light depends on handedness."""
    normals = np.einsum("vi,gi,gik->gvk", ball, 1 / np.maximum(half_axes, 1e-9), vectors)
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    return np.asarray(0.75 + 0.45 * (normals @ _LIGHT)[..., None])


def icosphere() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return a unit ball of 42 vertices and 80 triangles: an icosahedron, each triangle cut into four."""
    golden = (1 + np.sqrt(5)) / 2
    corners = [(-1, golden, 0), (1, golden, 0), (-1, -golden, 0), (1, -golden, 0)]
    vertices = [np.roll(c, shift) for shift in range(3) for c in corners]
    points = np.array(vertices, np.float64) / np.sqrt(1 + golden**2)
    near = np.linalg.norm(points[:, None] - points[None], axis=2) < 1.1
    triples = [
        (i, j, k) if np.linalg.det(points[[i, j, k]]) > 0 else (i, k, j)  # counter-clockwise from outside
        for i in range(12) for j in range(i + 1, 12) for k in range(j + 1, 12)
        if near[i, j] and near[j, k] and near[i, k]
    ]  # fmt: skip
    middles: dict[tuple[int, int], int] = {}
    grown = list(points)

    def middle(a: int, b: int) -> int:
        key = (min(a, b), max(a, b))
        if key not in middles:
            between = grown[a] + grown[b]
            middles[key] = len(grown)
            grown.append(between / np.linalg.norm(between))
        return middles[key]

    faces: list[tuple[int, int, int]] = []
    for a, b, c in triples:
        ab, bc, ca = middle(a, b), middle(b, c), middle(c, a)
        faces += [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
    return np.array(grown), np.array(faces)


def slice_voxels(field: TensorField, axis: int, index: int) -> npt.NDArray[np.int64]:
    """Return the masked voxels of one slice, shape (G, 3), thinned evenly to at most 4000."""
    chosen = [slice(None)] * 3
    chosen[axis] = slice(index, index + 1)
    shift = np.zeros(3, np.int64)
    shift[axis] = index
    voxels = np.argwhere(field.mask[tuple(chosen)]) + shift
    others = [a for a in range(3) if a != axis]
    step, kept = 1, voxels
    while len(kept) > MAX_GLYPHS:
        step += 1
        kept = voxels[(voxels[:, others] % step == 0).all(axis=1)]
    return kept


def nearby_voxels(center: npt.ArrayLike, radius: int) -> npt.NDArray[np.int64]:
    """Voxel indices of the cube around a voxel, shape ((2 radius + 1)^3, 3)."""
    reach = np.arange(-radius, radius + 1)
    cube = np.stack(np.meshgrid(reach, reach, reach, indexing="ij"), -1).reshape(-1, 3)
    return np.asarray(np.round(np.asarray(center)).astype(np.int64) + cube)
