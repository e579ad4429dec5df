"""Intensity normalization of the densities of several tissues, so that they can be compared between scans."""

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.tensors.mask import inliers

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
REFERENCE = 1.0 / math.sqrt(4.0 * math.pi)  # sum of the densities of a voxel full of tissue
_ORDER = 3  # of the polynomial
_ROUNDS, _INNER = 15, 7  # at most: of field and factors together, and of factors
_STEADY = 1e-4  # change of the logarithm of the field at which it is done
MIN_VOXELS = 500


def normalize_tissues(fods: FodField, *, balanced: bool = False) -> FodField:
    """Divide all densities by a smooth field, so that their sum is ``1 / sqrt(4 pi)`` where there is tissue.

    The logarithm of the field is a polynomial of third order of the position. It is fitted to the logarithm of the sum
    of the densities, each times a factor of its tissue that makes the sum as even as possible; voxels far from the fit
    are left out, and all is repeated until the field stays (as Raffelt et al. 2017 and Dhollander et al. 2021).

    Parameters
    ----------
    fods
        Of several tissues.
    balanced
        Whether the factors of the tissues also go into the result. Without them the responses keep their meaning.

    Returns
    -------
    FodField
        Coefficients and ``tissues`` divided by the field; ``parameters["normalization"]`` has factors, range of the
        field and share of voxels left out.

    Raises
    ------
    InvalidInput
        If there is one tissue only, or fewer than 500 voxels have a density.
    """
    if not fods.tissues:
        raise InvalidInput(
            "there is one tissue only, whose density is no measure of the intensity; deconvolve with the responses of "
            "white matter and CSF at least"
        )
    names, densities = list(fods.tissues), _densities(fods)
    sums = densities.sum(axis=1)
    usable = np.isfinite(sums) & (sums > 0)
    if (count := np.count_nonzero(usable)) < MIN_VOXELS:
        raise InvalidInput(f"{count} voxels have a density, too few for a smooth field; {MIN_VOXELS} are needed")
    basis = _polynomials(fods)
    log_field, factors, kept = _fitted(densities[usable], basis[usable])
    field = np.exp(basis @ log_field)
    scale = dict(zip(("wm", *names), factors if balanced else np.ones(len(factors)), strict=True))
    low, high = np.percentile(field[usable], [1, 99])
    left_out = 1.0 - float(np.mean(kept))
    facts = {
        "software": f"napari-gpubio {__version__}",
        "reference": REFERENCE,
        "factors": dict(zip(("wm", *names), map(float, factors), strict=True)),
        "balanced": balanced,
        "field_p1_p99": [float(low), float(high)],
        "voxels_left_out": left_out,
    }
    note = (
        f"the densities were divided by a smooth field (1 to 99 %: {low:.3g} to {high:.3g}), after which their sum is "
        f"{REFERENCE:.3f}; {100 * left_out:.1f} % of the voxels were left out of its fit"
    )
    return dataclasses.replace(
        fods,
        coefficients=_divided(fods.coefficients, fods.mask, field / scale["wm"]),
        tissues={name: _divided(fods.tissues[name], fods.mask, field / scale[name]) for name in names},
        notes=(*fods.notes, note),
        parameters={**fods.parameters, "normalization": facts},
        cache=type(fods.cache)(),
    )


def _densities(fods: FodField) -> Floats:
    """Densities of the voxels of the mask, white matter first, shape (M, T)."""
    columns = [fods.coefficients[fods.mask][:, 0], *(volume[fods.mask] for volume in fods.tissues.values())]
    return np.maximum(np.stack(columns, axis=1).astype(np.float64), 0.0)


def _divided(volume: Array, mask: npt.NDArray[np.bool_], field: Floats) -> Array:
    result = volume.copy()
    values = result[mask]
    result[mask] = values / field.reshape(-1, *[1] * (values.ndim - 1)).astype(values.dtype)
    return result


def _polynomials(fods: FodField) -> Floats:
    """Products of powers of x, y, z, from -1 to 1 over the mask, up to the third order, shape (M, 20)."""
    points = apply_affine(fods.affine, np.argwhere(fods.mask))
    low, high = points.min(axis=0), points.max(axis=0)
    x, y, z = (2.0 * (points - low) / np.maximum(high - low, 1e-9) - 1.0).T
    powers = [(i, j, k) for i in range(_ORDER + 1) for j in range(_ORDER + 1 - i) for k in range(_ORDER + 1 - i - j)]
    return np.stack([x**i * y**j * z**k for i, j, k in powers], axis=1)


def _fitted(densities: Floats, basis: Floats) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Coefficients of the logarithm of the field, factors of the tissues, and the voxels of the last fit."""
    factors: Floats = np.ones(densities.shape[1])
    coefficients: Floats = np.zeros(basis.shape[1])
    for _ in range(_ROUNDS):
        before = coefficients
        kept = inliers(np.log(np.maximum(densities @ factors, 1e-30)) - basis @ coefficients)
        for _ in range(_INNER):
            factors = _balanced(densities[kept] / np.exp(basis[kept] @ coefficients)[:, np.newaxis])
            logs = np.log(np.maximum(densities @ factors, 1e-30) / REFERENCE)
            kept = inliers(logs - basis @ coefficients)
        coefficients = np.asarray(np.linalg.lstsq(basis[kept], logs[kept], rcond=None)[0], np.float64)
        if np.abs(basis @ (coefficients - before)).max() < _STEADY:
            break
    return coefficients, factors, kept


def _balanced(densities: Floats) -> Floats:
    """Factors, whose geometric mean is 1, with which the sum of densities is as even as possible."""
    from scipy.optimize import nnls

    gram, right = densities.T @ densities, densities.sum(axis=0)  # normal equations of: sum = 1 everywhere
    factors = nnls(gram, right)[0]
    if not (factors > 0).all():  # a tissue that hardly occurs says nothing
        return np.ones(len(factors))
    return np.asarray(factors / np.exp(np.mean(np.log(factors))))
