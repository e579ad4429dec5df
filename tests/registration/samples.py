"""A head with a T1-like and a b = 0-like contrast, and the same head moved by a known transform."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from scipy.spatial.transform import Rotation

from napari_gpubio.core.space import apply_affine
from napari_gpubio.denoise.samples import noisy_head
from napari_gpubio.registration import Transform, Warp, resampled

NEEDS_SITK = "SimpleITK is not installed: python -m pip install SimpleITK"
STEPS = 8  # of a warp that is made of small ones
SHIFT_MM = (100.0, -60.0, 40.0)


def needs_dipy():
    return pytest.importorskip("dipy", reason="DIPY is not installed: python -m pip install dipy")


def needs_sitk():
    return pytest.importorskip("SimpleITK", reason=NEEDS_SITK)


def turned(degrees, shift=SHIFT_MM, zoom=(1.0, 1.0, 1.0)):
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_euler("xyz", degrees, degrees=True).as_matrix() @ np.diag(zoom)
    matrix[:3, 3] = shift
    return matrix


@functools.cache
def scan():
    """Its b = 0-like image, in voxels of 4 mm, with labels up to 12,000."""
    head = noisy_head()
    t1, affine = head.truth[::2, ::2, ::2], head.affine @ np.diag([2.0, 2, 2, 1])
    inside = t1 > 20
    b0 = np.where(inside, 1000.0 - t1, 0.0).astype(np.float32)
    b0[10:14, 30:36, 20:26] *= 0.4  # on one side only
    labels = np.where(t1 > 600, 12_000, np.where(inside, 17, 0)).astype(np.int32)
    return SimpleNamespace(b0=b0, t1=np.where(b0 > 0, 1000.0 - b0, 0).astype(np.float32), labels=labels, affine=affine)


@functools.cache
def moved(degrees=(12, -8, 15), zoom=(1.0, 1.0, 1.0)):
    """Its T1 in the space of another scanner, on an oblique grid of anisotropic voxels, and where its points lie."""
    head, truth = scan(), turned(degrees, zoom=zoom)
    grid, shape = turned((10, 5, -20), (0, 0, 0)) @ np.diag([3.0, 3.0, 4.5, 1.0]), (68, 80, 48)
    grid[:3, 3] = apply_affine(truth, [0, 0, 0]) - grid[:3, :3] @ ((np.array(shape) - 1) / 2)
    back = (Transform(matrix=np.linalg.inv(truth)),)
    t1 = resampled(head.t1, head.affine, back, shape, grid, linear=True)
    labels = resampled(head.labels, head.affine, back, shape, grid, linear=False)
    return SimpleNamespace(
        t1=t1 + np.random.default_rng(0).normal(0, 15, shape), labels=labels, affine=grid, truth=truth
    )


def largest_error_mm(matrix, truth):
    head = scan()
    points = apply_affine(head.affine, np.argwhere(head.labels)[::50])
    return np.linalg.norm(apply_affine(matrix, points) - apply_affine(truth, points), axis=1).max()


@functools.cache
def bent(largest_mm=12.0):
    """Its T1, with structure, bent by a smooth warp of some mm, an affine transform apart, and where voxels lie."""
    head, shape = scan(), scan().t1.shape
    rng = np.random.default_rng(3)
    structure = gaussian_filter(rng.normal(size=shape), 1.2)
    fixed = (head.t1 * (1 + 0.15 * structure / structure.std())).astype(np.float32)
    velocity = np.stack([gaussian_filter(rng.normal(size=shape), 5.0) for _ in range(3)], -1)
    velocity *= largest_mm / np.linalg.norm(velocity, axis=-1).max() / STEPS
    linear = turned((3, -2, 4), (4.0, -3.0, 2.0), (1.04, 0.97, 1.02))
    there, back = (
        Transform(matrix=matrix, warps=(Warp(displacements=sign * velocity, affine=head.affine),) * STEPS)
        for matrix, sign in ((np.eye(4), 1), (np.eye(4), -1))
    )
    through = (Transform(matrix=np.linalg.inv(linear)), back)[::-1]
    t1 = resampled(fixed, head.affine, through, shape, head.affine, linear=True)
    labels = resampled(head.labels, head.affine, through, shape, head.affine, linear=False)
    centers = apply_affine(head.affine, np.moveaxis(np.indices(shape), 0, -1))
    truth = apply_affine(linear, there.moved(centers))
    t1 += rng.normal(0, 8, shape) * (t1 > 0)
    return SimpleNamespace(
        fixed=fixed, t1=t1, labels=labels, centers=centers[head.labels > 0], truth=truth[head.labels > 0]
    )
