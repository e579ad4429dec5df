"""Symmetric tensors of a volume: the order of their six components, the axes that these refer to, and where they are.

Tensors have the shape (..., 6) with the components xx, yy, zz, xy, xz, yz, in world axes unless something else is said.
Other programs write them so:

========  =======================  ==================================================  ===================
order     volumes                  programs                                            axes (frame "auto")
========  =======================  ==================================================  ===================
mrtrix    xx yy zz xy xz yz        MRtrix3 ``dwi2tensor``; the order used here         world
fsl       xx xy xz yy yz zz        FSL ``dtifit --save_tensor``                        FSL's
dipy      xx xy yy xz yz zz        DIPY; the lower triangle of NIfTI's intent SYMMATRIX  FSL's
full      3 x 3, row by row        9 volumes, or 5 dimensions (..., 3, 3)              world
========  =======================  ==================================================  ===================
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.space import fsl_axes, rotation_of

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
# For each order, where xx, yy, zz, xy, xz, yz are found in the file.
PLACES = {
    "mrtrix": (0, 1, 2, 3, 4, 5),
    "fsl": (0, 3, 5, 1, 2, 4),
    "dipy": (0, 2, 5, 1, 3, 4),
    "full": (0, 4, 8, 1, 2, 5),
}
FULL = (0, 3, 4, 3, 1, 5, 4, 5, 2)  # our components as a 3 x 3 matrix, row by row
FRAMES = {"mrtrix": "world", "fsl": "fsl", "dipy": "fsl", "full": "world"}  # the programs' conventions
_PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


@runtime_checkable
class TensorVolume(Protocol):
    """Diffusion tensors as layers carry them: shape (X, Y, Z, 6), world axes, zero where there is none."""

    tensors: Array
    affine: npt.NDArray[np.float64]


def tensors_of(layer: Any) -> TensorVolume | None:
    """Return the diffusion tensors that a layer carries, or None."""
    value = carried(layer, "field")
    return value if value is not None and isinstance(value, TensorVolume) else None  # a protocol is slow to look at


def flat_components(data: Array, name: str) -> Array:
    """Return components as an array (X, Y, Z, 6 or 9).

    Raises
    ------
    InvalidInput
        If a tensor image has no such shape.
    """
    shape = data.shape
    fits = len(shape) == 4 and shape[3] in (6, 9)
    if fits or (len(shape) == 5 and shape[3:] in ((1, 6), (1, 9), (3, 3))):
        return data.reshape(*shape[:3], -1)
    raise InvalidInput(
        f"{name} has shape {shape}; a tensor image has 6 or 9 volumes, or 5 dimensions that end in 1, 6 or 3, 3"
        + "; three volumes may be directions, as FSL's dti_V1, which are read as fixels" * (shape[3:] == (3,))
    )


def rotate_tensors(tensors: Array, Q: npt.ArrayLike) -> Array:
    """Turn tensors (..., 6) into other axes, ``D -> Q D Q^T`` for a 3 x 3 matrix Q; the type stays."""
    q = np.asarray(Q, np.float64)
    table = np.empty((6, 6))  # D'_ij = sum over k <= l of (q_ik q_jl + q_il q_jk) D_kl, halved on the diagonal
    for row, (i, j) in enumerate(_PAIRS):
        for column, (k, m) in enumerate(_PAIRS):
            table[row, column] = q[i, k] * q[j, m] + (q[i, m] * q[j, k] if k != m else 0.0)
    return np.asarray(tensors @ table.T.astype(tensors.dtype if tensors.dtype.kind == "f" else np.float64))


def axes_of(frame: str, affine: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Axes of a frame in world axes, as columns: the matrix that takes its components to the world's.

    ``"world"``, ``"voxel"`` (the image's own), or ``"fsl"`` (the same, the first one reversed if the affine has a
    positive determinant).
    """
    if frame == "world":
        return np.eye(3)
    return rotation_of(np.asarray(affine)) if frame == "voxel" else fsl_axes(affine)


def matrices(tensors: Array) -> npt.NDArray[np.float64]:
    """Tensors (..., 6) as symmetric matrices (..., 3, 3)."""
    values = np.asarray(tensors, np.float64)
    return np.take(values, FULL, axis=-1).reshape(*values.shape[:-1], 3, 3)


def components(matrices: Array) -> Array:
    """Symmetric matrices (..., 3, 3) as tensors (..., 6): their upper triangles."""
    return np.stack([matrices[..., i, j] for i, j in _PAIRS], axis=-1)


def positive_definite(tensors: Array) -> Mask:
    """Which tensors, shape (..., 6), are positive definite: all leading minors are positive (Sylvester)."""
    xx, yy, zz, xy, xz, yz = np.moveaxis(np.asarray(tensors, np.float64), -1, 0)
    minor = xx * yy - xy * xy
    determinant = zz * minor - xx * yz * yz - yy * xz * xz + 2 * xy * xz * yz
    return np.asarray((xx > 0) & (minor > 0) & (determinant > 0))


def fractional_anisotropy(eigenvalues: Array) -> Array:
    """FA of eigenvalues of shape (..., 3), 0 to 1 (Basser and Pierpaoli 1996); 0 where all are zero."""
    mean = eigenvalues.mean(axis=-1, keepdims=True)
    spread = ((eigenvalues - mean) ** 2).sum(axis=-1)
    size = (eigenvalues**2).sum(axis=-1)
    return np.asarray(np.sqrt(1.5 * np.divide(spread, size, out=np.zeros_like(size), where=size > 0)).clip(0, 1))
