"""Scalar maps of a tensor: FA, MD, AD, RD, the principal direction and the direction-encoded color."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tracts.model import TensorField

Array = npt.NDArray[Any]


def fractional_anisotropy(eigenvalues: Array) -> Array:
    """FA of eigenvalues of shape (..., 3), 0 to 1 (Basser and Pierpaoli 1996); 0 where all are zero."""
    mean = eigenvalues.mean(axis=-1, keepdims=True)
    spread = ((eigenvalues - mean) ** 2).sum(axis=-1)
    size = (eigenvalues**2).sum(axis=-1)
    return np.asarray(np.sqrt(1.5 * np.divide(spread, size, out=np.zeros_like(size), where=size > 0)).clip(0, 1))


def fa_map(field: TensorField) -> Array:
    """Fractional anisotropy, shape (X, Y, Z), 0 outside the mask."""
    return np.where(field.mask, fractional_anisotropy(field.eigen.values), 0)


def principal_direction(field: TensorField) -> Array:
    """Unit eigenvector of the largest eigenvalue, world axes, shape (X, Y, Z, 3), zero outside the mask."""
    return np.where(field.mask[..., None], field.eigen.vectors[..., 0, :], 0)


def scalar_map(field: TensorField, name: str) -> Array:
    """One scalar map by name, float32, shape (X, Y, Z), or (X, Y, Z, 3) for ``"DEC"`` and ``"V1"``.

    Parameters
    ----------
    field
        The tensors.
    name
        ``"FA"``; ``"MD"``, ``"AD"``, ``"RD"`` (mean, axial, radial diffusivity, mm^2/s); ``"V1"`` (principal
        direction, world axes); ``"DEC"`` (``|V1| FA`` as red, green, blue for left-right, front-back, up-down);
        ``"S0"`` (fitted signal at b = 0).

    Raises
    ------
    InvalidInput
        If the name is none of these, or the field has no S0.
    """
    if name not in SCALARS:
        raise InvalidInput(f"{name!r} is not a map of a tensor; choose one of {', '.join(SCALARS)}")
    return np.asarray(field.cache.get(("map", name), lambda: np.asarray(SCALARS[name](field), np.float32)))


def _mean(field: TensorField) -> Array:
    return np.where(field.mask, field.eigen.values.mean(axis=-1), 0)


def _axial(field: TensorField) -> Array:
    return np.where(field.mask, field.eigen.values[..., 0], 0)


def _radial(field: TensorField) -> Array:
    return np.where(field.mask, field.eigen.values[..., 1:].mean(axis=-1), 0)


def _direction_encoded(field: TensorField) -> Array:
    return np.abs(principal_direction(field)) * fa_map(field)[..., None]


def _s0(field: TensorField) -> Array:
    if field.s0 is None:
        raise InvalidInput("these tensors were not fitted here, so there is no S0 map; fit a diffusion scan")
    return np.where(field.mask, field.s0, 0)


SCALARS = {
    "FA": fa_map,
    "MD": _mean,
    "AD": _axial,
    "RD": _radial,
    "V1": principal_direction,
    "DEC": _direction_encoded,
    "S0": _s0,
}
