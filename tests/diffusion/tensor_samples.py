"""Affines of scans, tensors in many orientations, and a plain fit, written in another way than in the package."""

import numpy as np
from scipy.linalg import polar
from scipy.spatial.transform import Rotation

UPPER = ((0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2))  # xx, yy, zz, xy, xz, yz
TURNS = Rotation.random(500, random_state=1).as_matrix()
TURN = Rotation.from_euler("xyz", [20, -35, 50], degrees=True).as_matrix()


def affine_of(matrix):
    affine = np.eye(4)
    affine[:3, :3] = np.float32(matrix)  # NIfTI holds no more digits
    affine[:3, 3] = (-30.0, 12.5, 7.0)
    return affine


AFFINES = {
    "isotropic": affine_of(np.diag([2.0, 2.0, 2.0])),
    "left-handed": affine_of(np.diag([-2.0, 2.0, 2.0])),
    "anisotropic": affine_of(np.diag([1.0, 2.0, 5.0])),
    "rotated": affine_of(TURN @ np.diag([1.5, 2.0, 3.0])),
    "rotated left-handed": affine_of(TURN @ np.diag([1.5, -2.0, 3.0])),
    "swapped axes": affine_of([[0, 0, 3.0], [-2.0, 0, 0], [0, 1.0, 0]]),
    "sheared": affine_of(TURN @ np.array([[2.0, 0.3, 0], [0, 2.0, 0.2], [0, 0, 2.5]])),
    "sheared left-handed": affine_of(TURN @ np.array([[-2.0, 0.3, 0], [0, 2.0, 0.2], [0, 0, 2.5]])),
}


def axes_of(affine, frame):
    """Axes of a frame (world, voxel or fsl) as columns, by the polar decomposition."""
    if frame == "world":
        return np.eye(3)
    rotation = polar(affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0))[0]
    flip = frame == "fsl" and np.linalg.det(rotation) > 0
    return rotation * [-1 if flip else 1, 1, 1]


def six(matrices):
    """Components of symmetric matrices (..., 3, 3)."""
    return np.asarray(matrices)[(..., *UPPER)]


def matrices(tensors):
    """Symmetric matrices of components (..., 6)."""
    return tensors[..., [[0, 3, 4], [3, 1, 5], [4, 5, 2]]]


def turned(eigenvalues, turns=TURNS):
    """Matrices with given eigenvalues (one triple, or one for each) in many orientations."""
    return (turns * np.asarray(eigenvalues, float)[..., None, :]) @ turns.transpose(0, 2, 1)


def fitted(signals, bvals, directions):
    """Components of tensors by unweighted log-linear least squares."""
    x, y, z = directions.T
    products = np.stack([x * x, y * y, z * z, 2 * x * y, 2 * x * z, 2 * y * z], axis=-1)
    design = np.column_stack([np.ones(len(x)), -bvals[:, None] * products])
    return (np.log(np.maximum(signals, 1).astype(float)) @ np.linalg.pinv(design).T)[..., 1:]


def directions_and_fa(scan, mask):
    """Principal direction and FA of every voxel of a mask, zero elsewhere."""
    values, vectors = np.linalg.eigh(matrices(fitted(scan.data[mask], scan.bvals, scan.directions)))
    spread = ((values - values.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    v1, fa = np.zeros((*mask.shape, 3)), np.zeros(mask.shape)
    v1[mask] = vectors[:, :, 2]
    fa[mask] = np.sqrt(np.minimum(1.5 * spread / np.maximum((values**2).sum(axis=1), 1e-30), 1))
    return v1, fa


def sticks(points_mm, count=50):
    """Principal directions of straight bundles, 6 mm thick, in random directions around the origin; else zero."""
    rng, v1 = np.random.default_rng(0), np.zeros(points_mm.shape)
    for _ in range(count):
        direction = rng.normal(size=3)
        direction /= np.linalg.norm(direction)
        off = points_mm - rng.uniform(-30, 30, 3)
        v1[np.linalg.norm(off - (off @ direction)[..., None] * direction, axis=-1) < 3] = direction
    return v1
