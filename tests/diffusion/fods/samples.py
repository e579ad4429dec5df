"""Fields of FODs with known fibers."""

import numpy as np

from napari_gpubio.diffusion import FodField
from napari_gpubio.diffusion.fods.harmonics import harmonics


def straight_bundles(directions, shape=(24, 24, 24), radius_mm=4.0, lmax=8, affine=None):
    """Straight bundles through the middle of a volume, one for each direction, of FODs of single fibers."""
    affine = np.eye(4) if affine is None else np.asarray(affine, np.float64)
    at = np.stack(np.indices(shape), axis=-1) @ affine[:3, :3].T + affine[:3, 3]
    middle = affine[:3, :3] @ ((np.array(shape) - 1) / 2) + affine[:3, 3]
    coefficients = np.zeros((*shape, (lmax + 1) * (lmax + 2) // 2), np.float32)
    for direction in np.asarray(directions, np.float64):
        unit = direction / np.linalg.norm(direction)
        away = np.linalg.norm(np.cross(at - middle, unit), axis=-1)
        inside = away <= radius_mm
        coefficients[inside] += harmonics(unit, lmax)[0] / harmonics(unit, lmax)[0].dot(harmonics(unit, lmax)[0])
    return FodField(coefficients=coefficients, mask=(coefficients != 0).any(axis=-1), affine=affine)
