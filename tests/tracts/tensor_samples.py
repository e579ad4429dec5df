"""Tensors in many orientations, as matrices and as six components."""

import numpy as np
from scipy.spatial.transform import Rotation

UPPER = ((0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2))  # xx, yy, zz, xy, xz, yz
TURNS = Rotation.random(500, random_state=1).as_matrix()


def six(matrices):
    """Components of symmetric matrices (..., 3, 3)."""
    return np.asarray(matrices)[(..., *UPPER)]


def matrices(tensors):
    """Symmetric matrices of components (..., 6)."""
    return tensors[..., [[0, 3, 4], [3, 1, 5], [4, 5, 2]]]


def turned(eigenvalues, turns=TURNS):
    """Matrices with given eigenvalues in many orientations."""
    return (turns * np.asarray(eigenvalues, float)) @ turns.transpose(0, 2, 1)
