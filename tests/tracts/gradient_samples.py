"""Every kind of affine that a scan with gradients may have."""

import numpy as np
from scipy.spatial.transform import Rotation


def affine_of(matrix):
    affine = np.eye(4)
    affine[:3, :3] = np.float32(matrix)  # NIfTI holds no more digits
    affine[:3, 3] = (-30.0, 12.5, 7.0)
    return affine


TURN = Rotation.from_euler("xyz", [20, -35, 50], degrees=True).as_matrix()
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
