"""Diffusion theory against numbers from elsewhere, and simulations against diffusion theory."""

import numpy as np
import pytest
from scipy.integrate import quad

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import Pencil
from napari_gpubio.optics.theory import (
    diffusion_coefficient_mm,
    effective_attenuation_per_mm,
    effective_reflection,
    extrapolated_boundary_mm,
    fluence_infinite,
    fluence_rate_semi_infinite,
    fluence_semi_infinite,
    fresnel_reflection,
    mean_path_semi_infinite,
    penetration_depth_mm,
    reflectance_semi_infinite,
    transport_mean_free_path_mm,
)
from tests.light.voxel_samples import make_domain, sliced

TISSUE = Medium(mua_per_mm=0.01, mus_per_mm=10.0, g=0.9, n=1.37)  # MCML's manual, chapter 6: mu_a 0.1, mu_s 100 /cm


def over_the_plane(density):
    """Integral of a function of rho over a plane."""
    return quad(lambda rho: 2 * np.pi * rho * float(density(rho)), 0, np.inf, limit=200)[0]


def along(function, place, step=1e-5):
    """Derivative of a function at a place."""
    return (function(place + step) - function(place - step)) / (2 * step)


# -- the medium -------------------------------------------------------------------------------------------------------


def test_lengths_of_the_medium():
    assert transport_mean_free_path_mm(TISSUE) == pytest.approx(1 / 1.01)
    assert diffusion_coefficient_mm(TISSUE) == pytest.approx(1 / 3.03)
    assert penetration_depth_mm(TISSUE) == pytest.approx(5.745, abs=5e-4)  # MCML's manual: 0.5745 cm
    assert effective_attenuation_per_mm(TISSUE) == pytest.approx(np.sqrt(3 * 0.01 * 1.01))
    assert penetration_depth_mm(Medium(mus_per_mm=1.0)) == np.inf


@pytest.mark.parametrize("medium", [Medium(mua_per_mm=0.1), Medium(mus_per_mm=5.0, g=1.0)])
def test_a_medium_that_does_not_scatter_is_refused(medium):
    for function in (diffusion_coefficient_mm, penetration_depth_mm, extrapolated_boundary_mm):
        with pytest.raises(InvalidInput, match=r"label 1 has a reduced scattering of 0 1/mm.*needs a medium"):
            function(medium)


# -- the surface ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "published"), [(1.0, 0.0), (1.33, 0.431), (1.37, 0.468), (1.40, 0.493)])
def test_effective_reflection_is_as_published(n, published):
    assert effective_reflection(n) == pytest.approx(published, abs=5e-4)  # Haskell et al. 1994


def test_fresnel_at_normal_incidence_at_brewsters_angle_and_beyond_the_critical_one():
    assert fresnel_reflection(1.0, 1.5) == pytest.approx(0.04)
    assert fresnel_reflection(1.0, 1.0, 1.5) == pytest.approx(0.04)
    brewster = np.cos(np.arctan(1 / 1.5))  # only the light polarized across is reflected, by cos^2(2 angle)
    assert fresnel_reflection(brewster, 1.5) == pytest.approx(np.cos(2 * np.arctan(1 / 1.5)) ** 2 / 2)
    assert fresnel_reflection(np.cos(np.arcsin(1 / 1.5) + 1e-6), 1.5) == 1.0
    assert fresnel_reflection(0.0, 1.4) == 1.0


def test_light_into_a_denser_medium_is_reflected_less():
    assert 0 < effective_reflection(1.37, 1.5) < 0.1
    assert effective_reflection(1.4, 1.4) == pytest.approx(0.0, abs=1e-12)


def test_the_boundary_without_reflection_is_2_d_away():
    matched = Medium(mua_per_mm=0.01, mus_per_mm=1.0, n=1.0)
    assert extrapolated_boundary_mm(matched) == pytest.approx(2 * diffusion_coefficient_mm(matched))
    assert extrapolated_boundary_mm(TISSUE) / (2 * diffusion_coefficient_mm(TISSUE)) == pytest.approx(
        1.468 / 0.532, rel=2e-3
    )


def test_a_refractive_index_below_1_is_refused():
    with pytest.raises(InvalidInput, match=r"0\.9 outside; both must be at least 1"):
        effective_reflection(1.4, 0.9)


# -- continuous light -------------------------------------------------------------------------------------------------


def test_an_infinite_medium_absorbs_every_photon():
    absorbed, _ = quad(lambda r: 4 * np.pi * r**2 * 0.01 * float(fluence_infinite(r, TISSUE)), 0, np.inf)
    assert absorbed == pytest.approx(1.0)


def test_a_semi_infinite_medium_absorbs_what_does_not_diffuse_out():
    def flux(rho):
        return diffusion_coefficient_mm(TISSUE) * along(lambda z: fluence_semi_infinite(rho, z, TISSUE), 0.0)

    depths = transport_mean_free_path_mm(TISSUE) * np.array([1e-6, 1 - 1e-6, 1 + 1e-6, 60])
    layer = np.vectorize(lambda z: over_the_plane(lambda rho: fluence_semi_infinite(rho, z, TISSUE)))
    absorbed = 0.01 * (quad(layer, *depths[:2])[0] + quad(layer, *depths[2:])[0])
    assert absorbed + over_the_plane(flux) == pytest.approx(1.0, abs=1e-4)


def test_fluence_vanishes_on_the_extrapolated_boundary():
    boundary = extrapolated_boundary_mm(TISSUE)
    np.testing.assert_allclose(fluence_semi_infinite([0.5, 3.0, 20.0], -boundary, TISSUE), 0.0, atol=1e-15)


def test_fluence_inside_is_that_of_mcml():
    """MCML (10^6 photons), fluence of an infinitely wide beam at 5.025 mm; per photon that entered."""
    planar = over_the_plane(lambda rho: fluence_semi_infinite(rho, 5.025, TISSUE))
    assert planar == pytest.approx(2.635 / (1 - 0.0243729), rel=0.02)


@pytest.mark.parametrize(("n", "mcml"), [(1.0, 0.74538), (1.37, 0.61640 / (1 - 0.0243729))])
def test_total_reflectance_is_that_of_mcml(n, mcml):
    medium = Medium(mua_per_mm=0.01, mus_per_mm=10.0, g=0.9, n=n)
    assert over_the_plane(lambda rho: reflectance_semi_infinite(rho, medium)) == pytest.approx(mcml, rel=0.015)


def test_reflectance_is_made_of_fluence_and_flux_as_published():
    """Kienle and Patterson 1997 give 0.118 and 0.306 for n = 1.4."""
    medium = Medium(mua_per_mm=0.01, mus_per_mm=10.0, g=0.9, n=1.4)
    for rho in (2.0, 8.0, 20.0):
        fluence = float(fluence_semi_infinite(rho, 0.0, medium))
        flux = diffusion_coefficient_mm(medium) * along(lambda z, rho=rho: fluence_semi_infinite(rho, z, medium), 0.0)
        assert reflectance_semi_infinite(rho, medium) == pytest.approx(0.118 * fluence + 0.306 * flux, rel=3e-3)


# -- paths and pulses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [1.0, 10.0, 30.0])
def test_the_mean_path_is_the_derivative_by_absorption(rho):
    def logarithm(mua):  # mu_s' falls as mu_a rises, so that D stays
        medium = Medium(mua_per_mm=mua, mus_per_mm=(1.01 - mua) / (1 - 0.9), g=0.9, n=1.37)
        return np.log(fluence_semi_infinite(rho, 4.0, medium))

    assert mean_path_semi_infinite(rho, 4.0, TISSUE) == pytest.approx(-along(logarithm, 0.01, 1e-6), rel=1e-6)


def test_without_absorption_the_mean_path_is_the_limit():
    none, little = (Medium(mua_per_mm=mua, mus_per_mm=10.0, g=0.9, n=1.37) for mua in (0.0, 1e-9))
    limit = mean_path_semi_infinite([2.0, 10.0], 3.0, none)
    np.testing.assert_allclose(limit, mean_path_semi_infinite([2.0, 10.0], 3.0, little), rtol=1e-3)


@pytest.mark.parametrize(("rho", "z"), [(10.0, 5.0), (2.0, 15.0), (20.0, 0.0)])
def test_the_pulse_adds_up_to_continuous_light(rho, z):
    total, _ = quad(lambda t: float(fluence_rate_semi_infinite(rho, z, t, TISSUE)) * 1e-9, 0, 20, limit=200)
    assert total == pytest.approx(float(fluence_semi_infinite(rho, z, TISSUE)), rel=1e-6)


def test_the_mean_time_of_flight_is_the_mean_path():
    def moment(power):
        return quad(lambda t: t**power * float(fluence_rate_semi_infinite(15.0, 2.0, t, TISSUE)), 0, 20, limit=200)[0]

    speed = 299.792458 / 1.37
    assert speed * moment(1) / moment(0) == pytest.approx(float(mean_path_semi_infinite(15.0, 2.0, TISSUE)), rel=1e-5)


def test_there_is_no_light_before_the_pulse():
    np.testing.assert_array_equal(fluence_rate_semi_infinite(1.0, 1.0, [-1.0, 0.0], TISSUE), 0.0)


def test_shapes_broadcast():
    rho, z = np.ones((4, 1)), np.ones(3)
    assert fluence_semi_infinite(rho, z, TISSUE).shape == (4, 3)
    assert mean_path_semi_infinite(rho, z, TISSUE).shape == (4, 3)
    assert fluence_rate_semi_infinite(rho, z, 0.5, TISSUE).shape == (4, 3)
    assert reflectance_semi_infinite(rho, TISSUE).shape == (4, 1)


MEDIUM = Medium(label=1, mua_per_mm=0.005, mus_per_mm=1.0, g=0.01, n=1.37)
RHO_MM, DEPTH_MM = (8.0, 10.0, 12.0, 14.0), (2.0, 6.0, 10.0, 15.0)
TOLERANCE = 0.04


def rings():
    """A cube of 60 mm with a label for each ring around the beam, and the theory's sum over the ring."""
    x, y, z = np.meshgrid(*[np.arange(60) + 0.5] * 3, indexing="ij")
    rho = np.hypot(x - 30.0, y - 30.0)
    ring, depth = np.digitize(rho, RHO_MM), np.digitize(z, DEPTH_MM)
    inside = (ring > 0) & (ring < 4) & (depth > 0) & (depth < 4)
    return np.where(inside, 3 * ring + depth - 1, 1), rho, z


@pytest.mark.parametrize("refraction", [True, False])
def test_fluence_is_that_of_diffusion_theory(device, refraction):
    """8 < rho < 14 mm and 2 < z < 15 mm under a pencil beam: the mean ratio, and each of nine rings."""
    labels, rho, z = rings()
    medium = MEDIUM if refraction else Medium(label=1, mua_per_mm=0.005, mus_per_mm=1.0, g=0.01, n=1.0)
    media = sliced(medium, 11)
    domain = make_domain(labels, *media)
    settings = LightSettings(photons=40_000 if device == "cpu" else 10_000_000, specular=False)
    result = simulate(domain, Pencil(position_mm=(30, 30, 0)), settings, device=device)
    expected = 0.005 * fluence_semi_infinite(rho, z, medium)
    ratios = []
    for label in range(3, 12):
        value, error = result.absorbed[label]
        theory = expected[labels == label].sum()
        ratios.append((value / theory, error / theory))
    ratio, error = np.array(ratios).T
    assert error.max() < 0.04
    assert np.abs(ratio.mean() - 1.0) < TOLERANCE, ratios
    assert (np.abs(ratio - 1.0) < TOLERANCE + 3 * error).all(), ratios


def test_pulses_are_those_of_diffusion_theory(device):
    """Fluence rate of all rings in gates of 0.1 ns, while most of the light is there, known to 2 % in each."""
    labels, rho, z = rings()
    there = labels > 1
    edges = np.arange(17) / 10
    settings = LightSettings(
        photons=80_000 if device == "cpu" else 10_000_000, specular=False, time_gates_ns=tuple(edges)
    )
    source = Pencil(position_mm=(30, 30, 0))
    result = simulate(make_domain(labels, *sliced(MEDIUM, 11)), source, settings, device=device)
    found = result.fluence_rate[there].sum(axis=0)[2:16]
    fine = ((np.arange(160) + 0.5) / 100)[20:]
    rates = [fluence_rate_semi_infinite(rho[there], z[there], t, MEDIUM).sum() for t in fine]
    expected = np.mean(np.reshape(rates, (14, 10)), axis=1)
    ratio = found / expected
    assert abs(ratio[1:].mean() - 1.0) < TOLERANCE, ratio
    assert np.abs(ratio - 1.0).max() < 0.07, ratio
