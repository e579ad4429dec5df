"""Diffusion theory where scattering depends on direction, to lay beside a simulation; see `theory` for isotropic media.

A medium has a scattering tensor M (1/mm): mu(s) = s.M.s along the unit vector s; <> is the mean over all directions.
Its diffusion tensor over the speed of light, in mm, is

* ``product``: D_ij = <s_i s_j / mu>;
* ``free``: D_ij = <s_i s_j / mu^2> / <1 / mu> for g = 0 [1]_. With g, the power of s_i / mu in degree l of the
  spherical harmonics is divided by 1 - g^l, so that mu_s' = mu_s (1 - g) holds in the first degree only [2]_;
* ``mixture``: D_ij = <s_i s_j / mu_t> with the total rate mu_t = (mu + <mu>) / 2, for g = 0.

Reduced coefficients that belong to it are 1 / (3 D). The trace of the first is <1 / mu>.

References
----------
.. [1] E. Pini et al., Phys. Rev. Research 6:023051 (2024): diffusion tensor and slab.
.. [2] E. Pini et al., arXiv:2602.18963 (2026): the degrees decay apart.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.polynomial import legendre

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.scattering_tensors import FREE, MIXTURE, PRODUCT, check_model
from napari_gpubio.optics.theory import SPEED_OF_LIGHT_MM_PER_NS, fresnel_reflection

Floats = npt.NDArray[np.float64]
_NODES, _DEGREES, _IMAGES = 240, 40, 60
_SMALLEST_EIGENVALUE_RATIO = 1e-3


class SlabLight(NamedTuple):
    """Share of a pencil beam that a slab reflects and transmits, and the mean time of the latter, ns."""

    reflected: float
    transmitted: float
    mean_time_ns: float


# -- the medium -------------------------------------------------------------------------------------------------------


def diffusion_tensor_mm(tensor_per_mm: npt.ArrayLike, model: str = PRODUCT, g: float = 0.0) -> Floats:
    """Diffusion tensor over the speed of light, mm, shape (3, 3), by quadrature over all directions.

    Parameters
    ----------
    tensor_per_mm
        M, 1/mm: a symmetric positive matrix (3, 3), or its diagonal (3,).
    model, g
        The scattering model; g counts for ``free`` only, and must be 0 for ``mixture``.

    Raises
    ------
    InvalidInput
        If the matrix is not positive definite, or there is no theory for the model and g.
    """
    values, axes = _eigen(tensor_per_mm)
    if model == FREE and g != 0:
        return axes @ np.diag(_free_by_degrees(values, g)) @ axes.T
    s, weights = _sphere()
    mu = (s**2) @ values
    density = _density(_checked(model, g), weights, mu, values.mean())
    return axes @ np.diag(density @ s**2) @ axes.T


def uniaxial_diffusion_mm(
    across_per_mm: npt.ArrayLike, along_per_mm: npt.ArrayLike, model: str = PRODUCT, g: float = 0.0
) -> tuple[Floats, Floats]:
    """D across and along the axis of a tensor with the eigenvalues across, across, along; see `diffusion_tensor_mm`.

    The arguments are arrays of one shape or numbers.
    """
    across, along = (np.asarray(values, np.float64)[..., None] for values in (across_per_mm, along_per_mm))
    z, weights = _nodes(_NODES)
    mu = across * (1 - z**2) + along * z**2
    if _checked(model, g) == FREE and g != 0:
        return _uniaxial_by_degrees(mu, g)
    density = _density(model, weights, mu, (2 * across + along) / 3)
    return (density * (1 - z**2)).sum(axis=-1) / 2, (density * z**2).sum(axis=-1)


def uniaxial_scattering_per_mm(
    musp_across_per_mm: float, musp_along_per_mm: float, model: str = PRODUCT, g: float = 0.0
) -> tuple[float, float]:
    """Eigenvalues of M across and along fibers whose diffuse light has these reduced coefficients, 1 / (3 D).

    Raises
    ------
    InvalidInput
        If a coefficient is not positive, or no tensor has them under this model.
    """
    if not (musp_across_per_mm > 0 and musp_along_per_mm > 0):
        raise InvalidInput(
            f"the reduced scattering is {musp_across_per_mm:g} across and {musp_along_per_mm:g} along the fibers, "
            "1/mm; both must be greater than 0"
        )
    from scipy.optimize import brentq

    wanted = np.log(musp_across_per_mm / musp_along_per_mm)

    def missed(log_ratio: float) -> float:
        across, along = uniaxial_diffusion_mm(1.0, np.exp(log_ratio), model, g)
        return float(np.log(along / across) - wanted)

    most = -np.log(_SMALLEST_EIGENVALUE_RATIO)
    if missed(-most) * missed(most) > 0:
        raise InvalidInput(
            f"no tensor makes light scatter {musp_across_per_mm:g} across and {musp_along_per_mm:g} along fibers under "
            f"the model {model!r}; give coefficients that are closer to each other"
        )
    ratio = float(np.exp(brentq(missed, -most, most, xtol=1e-12)))
    across = float(uniaxial_diffusion_mm(1.0, ratio, model, g)[0]) * 3 * musp_across_per_mm
    return across, across * ratio


# -- a slab -----------------------------------------------------------------------------------------------------------


def anisotropic_boundary_mm(tensor_per_mm: npt.ArrayLike, n: float, outside_n: float = 1.0, model: str = FREE) -> float:
    """How far outside a surface across z the fluence is set to zero, mm, for g = 0 [1]_.

    ``(C + Y) / (B - X)``: half-sphere means of ``z^2 L / mu`` (C) and ``z L`` (B), and the same times the Fresnel
    reflection (Y, X), where the radiance of equilibrium L is 1 / mu under ``free`` and 1 under ``product``. M is along
    the surface's axes.

    Raises
    ------
    InvalidInput
        If the matrix is not positive definite, or the model another.
    """
    if model not in (FREE, PRODUCT):
        raise InvalidInput(f"there is no boundary condition for the model {model!r}; choose 'free' or 'product'")
    matrix = _matrix(tensor_per_mm)
    _eigen(matrix)
    z, weights = _half_sphere(n, outside_n)
    azimuth = 2 * np.pi * (np.arange(64) + 0.5) / 64
    sine = np.sqrt(1 - z**2)[:, None]
    s = np.stack([sine * np.cos(azimuth), sine * np.sin(azimuth), np.broadcast_to(z[:, None], (z.size, 64))])
    mu = np.einsum("iab,ij,jab->ab", s, matrix, s)
    radiance = 1 / mu if model == FREE else np.ones_like(mu)
    first, second = weights * z * radiance.mean(axis=1), weights * z**2 * (radiance / mu).mean(axis=1)
    reflected = fresnel_reflection(z, n, outside_n)
    return float((second * (1 + reflected)).sum() / (first * (1 - reflected)).sum())


def slab_light(
    length_mm: float,
    tensor_per_mm: npt.ArrayLike,
    *,
    mua_per_mm: float,
    n: float = 1.0,
    outside_n: float = 1.0,
    source_mm: float,
    model: str = FREE,
) -> SlabLight:
    """Light of a pencil beam across a slab whose normal is z, by images of an isotropic source at a depth [1]_.

    Parameters
    ----------
    length_mm
        Thickness of the slab.
    tensor_per_mm
        M along the slab's axes, 1/mm, matrix or diagonal.
    mua_per_mm, n, outside_n
        Absorption, greater than 0, and refractive indices of the slab and outside.
    source_mm
        Depth of the source, a mean free path along z.
    model
        ``free`` or ``product``, with g = 0.

    Raises
    ------
    InvalidInput
        If the matrix is not positive definite, the model another, or nothing absorbs.
    """
    if not mua_per_mm > 0:
        raise InvalidInput(f"the absorption is {mua_per_mm:g} 1/mm; this theory needs some: give more than 0")
    diffusion = float(diffusion_tensor_mm(tensor_per_mm, model)[2, 2])
    beyond = anisotropic_boundary_mm(tensor_per_mm, n, outside_n, model)
    decay = np.sqrt(mua_per_mm / diffusion)
    period = 2 * np.arange(-_IMAGES, _IMAGES + 1) * (length_mm + 2 * beyond)

    def flux(depth: float, power: int = 0) -> float:
        """Sum over the images that belong to a source and its mirror image behind the surface."""
        own, mirrored = depth - source_mm - period, depth + 2 * beyond + source_mm - period
        parts = [np.sign(z) * np.abs(z) ** power * np.exp(-np.abs(z) * decay) for z in (own, mirrored)]
        return float((parts[0] - parts[1]).sum()) / 2

    transmitted = flux(length_mm)
    speed = SPEED_OF_LIGHT_MM_PER_NS / n
    mean_path = flux(length_mm, 1) / (2 * diffusion * decay) / transmitted  # -d ln T / d mu_a
    return SlabLight(-flux(0.0), transmitted, float(mean_path / speed))


# -- parts ------------------------------------------------------------------------------------------------------------


def _density(model: str, weights: Floats, mu: Floats, mean: Floats | np.float64) -> Floats:
    """What directions (..., D) add to D, where they scatter by ``mu``, and by ``mean`` on average."""
    if model == PRODUCT:
        return weights / mu
    if model == MIXTURE:
        return weights / (0.5 * (mu + mean))
    return weights / mu**2 / (weights / mu).sum(axis=-1, keepdims=True)


def _checked(model: str, g: float) -> str:
    check_model(model)
    if not -1.0 < g < 1.0:
        raise InvalidInput(f"g is {g:g}; light that is scattered straight on or back does not diffuse: give -1 < g < 1")
    if model == MIXTURE and g != 0:
        raise InvalidInput(f"there is no diffusion theory for the model 'mixture' with g = {g:g}; it holds for g = 0")
    return model


def _matrix(tensor: npt.ArrayLike) -> Floats:
    given = np.asarray(tensor, np.float64)
    return np.diag(given) if given.shape == (3,) else given


def _eigen(tensor: npt.ArrayLike) -> tuple[Floats, Floats]:
    matrix = _matrix(tensor)
    if matrix.shape != (3, 3) or not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T):
        raise InvalidInput(f"the scattering tensor is {np.asarray(tensor).tolist()}; give a symmetric 3 x 3 matrix")
    values, axes = np.linalg.eigh(matrix)
    if not values[0] > 0:
        raise InvalidInput(f"the scattering tensor has the eigenvalue {values[0]:.4g} 1/mm; all must be greater than 0")
    return values, axes


@cache
def _nodes(count: int) -> tuple[Floats, Floats]:
    """Nodes from -1 to 1 of the quadrature of Gauss and Legendre, and weights whose sum is 1."""
    nodes, weights = legendre.leggauss(count)
    return nodes, weights / 2


def _half_sphere(n: float, outside_n: float) -> tuple[Floats, Floats]:
    """Cosines from 0 to 1 and weights whose sum is 1, close together above the cosine of total reflection."""
    critical = np.sqrt(max(0.0, 1 - (outside_n / n) ** 2))
    steps, weights = _nodes(_NODES)
    t = (steps + 1) / 2
    above = critical + (1 - critical) * t**2
    return np.concatenate([critical * t, above]), np.concatenate([critical * weights, 2 * (1 - critical) * t * weights])


@cache
def _sphere() -> tuple[Floats, Floats]:
    """Directions, shape (N, 3), and their weights, whose sum is 1."""
    z, weights = _nodes(_NODES)
    azimuth = 2 * np.pi * (np.arange(2 * _NODES) + 0.5) / (2 * _NODES)
    z, azimuth = np.meshgrid(z, azimuth, indexing="ij")
    sine = np.sqrt(1 - z**2)
    directions = np.stack([sine * np.cos(azimuth), sine * np.sin(azimuth), z], axis=-1)
    return directions.reshape(-1, 3), np.repeat(weights / (2 * _NODES), 2 * _NODES)


def _free_by_degrees(values: Floats, g: float) -> Floats:
    """Eigenvalues of D under ``free``: the power of each degree, divided by 1 - g^l."""
    from scipy.special import gammaln, lpmv

    s, weights = _sphere()
    over = (s / ((s**2) @ values)[:, None] * weights[:, None]).reshape(_NODES, 2 * _NODES, 3)
    waves = np.fft.rfft(over, axis=1)[:, :_DEGREES]  # cosines and sines of the azimuth, shape (z, order, 3)
    z, found = _nodes(_NODES)[0], np.zeros(3)
    for degree in range(1, _DEGREES, 2):
        for order in range(degree + 1):
            norm = (2 * degree + 1) * np.exp(gammaln(degree - order + 1) - gammaln(degree + order + 1))
            power = np.abs(lpmv(order, degree, z) @ waves[:, order]) ** 2
            found += norm * (2 if order else 1) * power / (1 - g**degree)
    return found / (weights / ((s**2) @ values)).sum()


def _uniaxial_by_degrees(mu: Floats, g: float) -> tuple[Floats, Floats]:
    """The same around an axis; mu at the nodes of z in the last axis."""
    z, weights = _nodes(_NODES)
    across, along = np.zeros(mu.shape[:-1]), np.zeros(mu.shape[:-1])
    for degree in range(1, _DEGREES, 2):
        series = np.eye(degree + 1)[degree]
        on_axis = (weights * z * legendre.legval(z, series) / mu).sum(axis=-1)
        beside = (weights * (1 - z**2) * legendre.legval(z, legendre.legder(series)) / mu).sum(axis=-1)
        along += (2 * degree + 1) * on_axis**2 / (1 - g**degree)
        across += (2 * degree + 1) / (2 * degree * (degree + 1)) * beside**2 / (1 - g**degree)
    whole = (weights / mu).sum(axis=-1)
    return across / whole, along / whole
