"""Scalar maps of tensors: FA, MD, AD, RD, principal direction, color, S0."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.tensor_components import fractional_anisotropy
from napari_gpubio.diffusion.model import TensorField

Array = npt.NDArray[Any]


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


def _s0(field: TensorField) -> Array:
    if field.s0 is None:
        raise InvalidInput("these tensors were not fitted here, so there is no S0 map; fit a diffusion scan")
    return np.where(field.mask, field.s0, 0)


SCALARS: dict[str, Callable[[TensorField], Array]] = {
    "FA": fa_map,
    "MD": lambda field: np.where(field.mask, field.eigen.values.mean(axis=-1), 0),
    "AD": lambda field: np.where(field.mask, field.eigen.values[..., 0], 0),
    "RD": lambda field: np.where(field.mask, field.eigen.values[..., 1:].mean(axis=-1), 0),
    "V1": principal_direction,
    "DEC": lambda field: np.abs(principal_direction(field)) * fa_map(field)[..., None],
    "S0": _s0,
}
