"""Diffusion theory of light in a homogeneous medium, to lay beside a simulation.

All fluences are per photon that enters the medium (an engine's result is per launched photon, so it is lower by the
specular loss). The pencil beam of the semi-infinite medium is replaced by an isotropic point source one transport mean
free path under its surface, and the surface by an image source of the opposite sign that makes the fluence vanish on a
plane outside, the extrapolated boundary. That holds more than about a transport mean free path away from source and
surface, where scattering is much stronger than absorption.

Symbols: mu_s' = mu_s (1 - g), D = 1 / (3 (mu_a + mu_s')), mu_eff = sqrt(mu_a / D), c the speed of light in the medium.

References
----------
.. [1] R. C. Haskell et al., J. Opt. Soc. Am. A 11:2727 (1994): boundary conditions.
.. [2] A. Kienle and M. S. Patterson, J. Opt. Soc. Am. A 14:246 (1997): reflectance.
.. [3] M. S. Patterson, B. Chance and B. C. Wilson, Appl. Opt. 28:2331 (1989): time-resolved.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.model import Medium

Floats = npt.NDArray[np.float64]
SPEED_OF_LIGHT_MM_PER_NS = 299.792458  # in vacuum


class _Internal(NamedTuple):
    """Moments of the reflection of light from within, of isotropic fluence and of isotropic flux."""

    fluence: float
    flux: float


class _Geometry(NamedTuple):
    """Depth of the source and of the extrapolated boundary (outside), mm; distances to the source and its image."""

    source_mm: float
    boundary_mm: float
    direct_mm: Floats
    image_mm: Floats


# -- the medium -------------------------------------------------------------------------------------------------------


def diffusion_coefficient_mm(medium: Medium) -> float:
    """D = 1 / (3 (mu_a + mu_s')), mm.

    Raises
    ------
    InvalidInput
        If the medium does not scatter.
    """
    return transport_mean_free_path_mm(medium) / 3.0


def transport_mean_free_path_mm(medium: Medium) -> float:
    """1 / (mu_a + mu_s'), mm: after it, the direction of a photon is forgotten.

    Raises
    ------
    InvalidInput
        If the medium does not scatter.
    """
    if not medium.musp_per_mm > 0:
        raise InvalidInput(
            f"label {medium.label} has a reduced scattering of {medium.musp_per_mm:g} 1/mm; diffusion theory needs a "
            "medium that scatters (mu_s > 0, g < 1)"
        )
    return 1.0 / (medium.mua_per_mm + medium.musp_per_mm)


def effective_attenuation_per_mm(medium: Medium) -> float:
    """mu_eff = sqrt(mu_a / D), 1/mm: the decay of the fluence far from the source.

    Raises
    ------
    InvalidInput
        If the medium does not scatter.
    """
    return float(np.sqrt(medium.mua_per_mm / diffusion_coefficient_mm(medium)))


def penetration_depth_mm(medium: Medium) -> float:
    """1 / mu_eff, mm; infinite without absorption.

    Raises
    ------
    InvalidInput
        If the medium does not scatter.
    """
    attenuation = effective_attenuation_per_mm(medium)
    return 1.0 / attenuation if attenuation > 0 else float("inf")


# -- the surface ------------------------------------------------------------------------------------------------------


def fresnel_reflection(cosine: npt.ArrayLike, n: float, outside_n: float = 1.0) -> npt.NDArray[np.float64]:
    """Share of unpolarized light that a surface reflects back into the medium it comes from (Fresnel).

    Parameters
    ----------
    cosine
        Of the angle of incidence, 0 to 1, of any shape, which is that of the result.
    n, outside_n
        Refractive index of that medium and of the one beyond.
    """
    ahead = np.asarray(cosine, np.float64)
    if n == outside_n:
        return np.zeros_like(ahead)
    squared = 1.0 - (1.0 - ahead**2) * (n / outside_n) ** 2
    beyond = np.sqrt(np.maximum(squared, 0.0))
    with np.errstate(invalid="ignore"):  # along the surface both are 0, and all light is reflected
        across = (n * ahead - outside_n * beyond) / (n * ahead + outside_n * beyond)
        along = (n * beyond - outside_n * ahead) / (n * beyond + outside_n * ahead)
    return np.where(squared > 0.0, (across**2 + along**2) / 2.0, 1.0)


def effective_reflection(n: float, outside_n: float = 1.0) -> float:
    """Share of the diffuse light that the surface reflects, R_eff = (R_phi + R_j) / (2 - R_phi + R_j) [1]_.

    R_phi and R_j are the integrals of the Fresnel reflection over the hemisphere, weighted with 2 cos and 3 cos^2.

    Raises
    ------
    InvalidInput
        If a refractive index is less than 1.
    """
    fluence, flux = _internal_reflection(float(n), float(outside_n))
    return (fluence + flux) / (2.0 - fluence + flux)


def diffuse_transmission(n: float, outside_n: float = 1.0) -> float:
    """Share of diffuse light (isotropic radiance) that crosses a surface, 1 - R_phi of `effective_reflection`.

    Raises
    ------
    InvalidInput
        If a refractive index is less than 1.
    """
    return 1.0 - _internal_reflection(float(n), float(outside_n)).fluence


def extrapolated_boundary_mm(medium: Medium, outside_n: float = 1.0) -> float:
    """How far outside the fluence is set to zero, 2 D (1 + R_eff) / (1 - R_eff), mm [1]_.

    Raises
    ------
    InvalidInput
        If the medium does not scatter, or a refractive index is less than 1.
    """
    reflected = effective_reflection(medium.n, outside_n)
    return 2.0 * diffusion_coefficient_mm(medium) * (1.0 + reflected) / (1.0 - reflected)


# -- continuous light -------------------------------------------------------------------------------------------------


def fluence_infinite(distance_mm: npt.ArrayLike, medium: Medium) -> Floats:
    """Fluence around an isotropic point source in an infinite medium, exp(-mu_eff r) / (4 pi D r), 1/mm^2 per photon.

    Raises
    ------
    InvalidInput
        If the medium does not scatter.
    """
    r = np.asarray(distance_mm, np.float64)
    diffusion, attenuation = diffusion_coefficient_mm(medium), effective_attenuation_per_mm(medium)
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(-attenuation * r) / (4.0 * np.pi * diffusion * r))


def fluence_semi_infinite(rho_mm: npt.ArrayLike, z_mm: npt.ArrayLike, medium: Medium, outside_n: float = 1.0) -> Floats:
    """Fluence of a pencil beam that enters a semi-infinite medium across its surface, 1/mm^2 per photon [1]_.

    ``(exp(-mu_eff r1) / r1 - exp(-mu_eff r2) / r2) / (4 pi D)``, with r1 to the source at the depth 1 / (mu_a + mu_s')
    and r2 to its image.

    Parameters
    ----------
    rho_mm, z_mm
        Distance from the beam's axis and depth under the surface; shapes that broadcast.
    medium
        The medium; its n counts at the surface.
    outside_n
        Refractive index beyond the surface.

    Raises
    ------
    InvalidInput
        If the medium does not scatter, or a refractive index is less than 1.
    """
    place = _geometry(rho_mm, z_mm, medium, outside_n)
    return fluence_infinite(place.direct_mm, medium) - fluence_infinite(place.image_mm, medium)


def reflectance_semi_infinite(rho_mm: npt.ArrayLike, medium: Medium, outside_n: float = 1.0) -> Floats:
    """Diffuse reflectance of a semi-infinite medium beside a pencil beam, 1/mm^2 per photon that entered [2]_.

    The radiance at the surface, from fluence and flux, that Fresnel lets through:
    ``(1 - R_phi) / 4 * fluence + (1 - R_j) / 2 * flux``.

    Raises
    ------
    InvalidInput
        If the medium does not scatter, or a refractive index is less than 1.
    """
    reflected = _internal_reflection(medium.n, float(outside_n))
    fluence = fluence_semi_infinite(rho_mm, 0.0, medium, outside_n)
    flux = _flux_at_surface(rho_mm, medium, outside_n)
    return np.asarray((1.0 - reflected.fluence) / 4.0 * fluence + (1.0 - reflected.flux) / 2.0 * flux)


def mean_path_semi_infinite(
    rho_mm: npt.ArrayLike, z_mm: npt.ArrayLike, medium: Medium, outside_n: float = 1.0
) -> Floats:
    """Mean path, mm, of the light that makes up the fluence at a place: -d ln(fluence) / d mu_a.

    D is held, because absorption does not change the paths of the photons, only their weights.

    Raises
    ------
    InvalidInput
        If the medium does not scatter, or a refractive index is less than 1.
    """
    place = _geometry(rho_mm, z_mm, medium, outside_n)
    diffusion, attenuation = diffusion_coefficient_mm(medium), effective_attenuation_per_mm(medium)
    further = place.image_mm - place.direct_mm
    lost = further if attenuation == 0 else -np.expm1(-attenuation * further) / attenuation
    weakened = np.exp(-attenuation * further)
    return np.asarray(lost / (2.0 * diffusion) / (1.0 / place.direct_mm - weakened / place.image_mm))


# -- pulses -----------------------------------------------------------------------------------------------------------


def fluence_rate_semi_infinite(
    rho_mm: npt.ArrayLike, z_mm: npt.ArrayLike, time_ns: npt.ArrayLike, medium: Medium, outside_n: float = 1.0
) -> Floats:
    """Fluence rate after a short pulse of a pencil beam, 1/(mm^2 s) per photon [3]_.

    ``c (4 pi D c t)^(-3/2) exp(-mu_a c t) (exp(-r1^2 / (4 D c t)) - exp(-r2^2 / (4 D c t)))``; its integral over the
    time is `fluence_semi_infinite`.

    Parameters
    ----------
    rho_mm, z_mm, time_ns
        Distance from the beam's axis, depth, and time after the pulse; shapes that broadcast. 0 before the pulse.
    medium, outside_n
        As in `fluence_semi_infinite`.

    Raises
    ------
    InvalidInput
        If the medium does not scatter, or a refractive index is less than 1.
    """
    place = _geometry(rho_mm, z_mm, medium, outside_n)
    times = np.asarray(time_ns, np.float64)
    speed = SPEED_OF_LIGHT_MM_PER_NS / medium.n
    traveled = np.where(times > 0, speed * times, np.nan)
    spread = 4.0 * diffusion_coefficient_mm(medium) * traveled  # mm^2
    pulse = np.exp(-(place.direct_mm**2) / spread) - np.exp(-(place.image_mm**2) / spread)
    per_ns = speed * (np.pi * spread) ** -1.5 * np.exp(-medium.mua_per_mm * traveled) * pulse
    return np.asarray(np.where(times > 0, per_ns * 1e9, 0.0))


# -- parts ------------------------------------------------------------------------------------------------------------


def _geometry(rho_mm: npt.ArrayLike, z_mm: npt.ArrayLike, medium: Medium, outside_n: float) -> _Geometry:
    rho, z = np.asarray(rho_mm, np.float64), np.asarray(z_mm, np.float64)
    source = transport_mean_free_path_mm(medium)
    boundary = extrapolated_boundary_mm(medium, outside_n)
    return _Geometry(source, boundary, np.hypot(rho, z - source), np.hypot(rho, z + source + 2.0 * boundary))


def _flux_at_surface(rho_mm: npt.ArrayLike, medium: Medium, outside_n: float) -> Floats:
    """D d(fluence)/dz at z = 0: what diffuses toward the surface, 1/mm^2."""
    place = _geometry(rho_mm, 0.0, medium, outside_n)
    attenuation = effective_attenuation_per_mm(medium)

    def flux(depth: float, distance: Floats) -> Floats:
        return depth * (attenuation + 1.0 / distance) * np.exp(-attenuation * distance) / (4.0 * np.pi * distance**2)

    image_depth = place.source_mm + 2.0 * place.boundary_mm
    return flux(place.source_mm, place.direct_mm) + flux(image_depth, place.image_mm)


@lru_cache(maxsize=256)
def _internal_reflection(n: float, outside_n: float) -> _Internal:
    """R_phi and R_j of [1]_: 2 cos and 3 cos^2 times the Fresnel reflection, integrated over the cosine from 0 to 1."""
    from scipy.integrate import quad

    if not (n >= 1.0 and outside_n >= 1.0):
        raise InvalidInput(f"the refractive indices are {n:g} and {outside_n:g} outside; both must be at least 1")
    critical = float(np.sqrt(max(0.0, 1.0 - (outside_n / n) ** 2)))  # cosine of the angle of total reflection

    def moment(power: int) -> float:
        def weighted(cosine: float) -> float:
            return float((power + 1) * cosine**power * fresnel_reflection(cosine, n, outside_n))

        return critical ** (power + 1) + quad(weighted, critical, 1.0)[0]  # total reflection below the critical cosine

    return _Internal(moment(1), moment(2))
