"""Diffusion where scattering depends on direction: published values, closed forms, limits, and what is refused."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.anisotropy.theory import (
    anisotropic_boundary_mm,
    diffusion_tensor_mm,
    slab_light,
    uniaxial_diffusion_mm,
    uniaxial_scattering_per_mm,
)
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.theory import SPEED_OF_LIGHT_MM_PER_NS, extrapolated_boundary_mm

TENSOR = 1 / np.array([0.030, 0.010, 0.020])  # 1/mm
N = 1.3
PER_PS = 1e3 * SPEED_OF_LIGHT_MM_PER_NS / N  # mm to um^2/ps
TURN = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]


@pytest.mark.parametrize(
    ("model", "expected"), [("free", (2077.0, 857.44, 1512.65)), ("mixture", (1403.1, 1131.2, 1318.1))]
)
def test_diffusion_tensors_that_are_known(model, expected):
    """Of Pini et al. 2024, Phys. Rev. Research 6:023051, and of a calculation of our own."""
    np.testing.assert_allclose(np.diag(diffusion_tensor_mm(TENSOR, model)) * PER_PS, expected, rtol=5e-5)


def uniaxial_closed_mm(p, along_per_mm, model):
    """D across and along the axis for g = 0 in closed form, for across > along.

    With mu = p (1 - a^2 z^2) and t = artanh(a) / a: <1/mu> = t / p, <z^2/mu> = (t - 1) / (a^2 p),
    <1/mu^2> = (1 / (1 - a^2) + t) / (2 p^2), <z^2/mu^2> = (p^2 <1/mu^2> - t) / (a^2 p^2).
    """
    a = np.sqrt(1 - along_per_mm / p)
    t = np.arctanh(a) / a
    whole, along = t / p, (t - 1) / (a**2 * p)
    if model == "free":
        squared = (1 / (1 - a**2) + t) / (2 * p**2)
        along = (squared * p**2 - t) / (a**2 * p**2)
        whole, along = squared / whole, along / whole
    return (whole - along) / 2, along


@pytest.mark.parametrize("model", ["product", "free"])
@pytest.mark.parametrize("along", [1.57, 0.3, 3.4])
def test_quadrature_agrees_with_the_closed_form(model, along):
    expected = uniaxial_closed_mm(3.52, along, model)
    np.testing.assert_allclose(uniaxial_diffusion_mm(3.52, along, model), expected, rtol=1e-9)
    d = diffusion_tensor_mm([3.52, 3.52, along], model)
    np.testing.assert_allclose(np.diag(d), (expected[0], *expected), rtol=1e-9)


@pytest.mark.parametrize("g", [0.0, 0.5, -0.6, 0.9])
def test_degrees_agree_around_an_axis_and_without(g):
    across, along = uniaxial_diffusion_mm(3.52, 1.57, "free", g)
    np.testing.assert_allclose(np.diag(diffusion_tensor_mm([3.52, 3.52, 1.57], "free", g)), (across, across, along))
    if g == 0.9:  # known from a calculation of our own, with mu_s (1 - g) = 3.52 and 1.57
        np.testing.assert_allclose((across / 10, along / 10), (0.09808, 0.18395), rtol=1e-4)


@pytest.mark.parametrize("model", ["product", "free", "mixture"])
def test_isotropic_limit_and_turned_tensors(model):
    np.testing.assert_allclose(diffusion_tensor_mm(2.0 * np.eye(3), model), np.eye(3) / 6, atol=1e-12)
    turned = diffusion_tensor_mm(TURN @ np.diag(TENSOR) @ TURN.T, model)
    np.testing.assert_allclose(turned, TURN @ diffusion_tensor_mm(TENSOR, model) @ TURN.T, atol=1e-12)


def test_similarity_holds_for_free_scattering_that_is_isotropic():
    np.testing.assert_allclose(diffusion_tensor_mm([20.0] * 3, "free", 0.9), np.eye(3) / 6, atol=1e-10)


@pytest.mark.parametrize(
    ("model", "g", "expected"), [("product", 0.0, (4.729, 0.491)), ("free", 0.9, (36.59, 12.87)), ("free", 0.0, None)]
)
def test_scattering_with_wanted_diffusion(model, g, expected):
    found = uniaxial_scattering_per_mm(3.52, 1.57, model, g)
    if expected:
        np.testing.assert_allclose(found, expected, rtol=1e-3)
    np.testing.assert_allclose(1 / (3 * np.array(uniaxial_diffusion_mm(*found, model, g))), (3.52, 1.57), rtol=1e-9)
    swapped = uniaxial_scattering_per_mm(1.57, 3.52, model, g)  # scattering more along an axis than across
    assert swapped[1] > swapped[0]


def test_the_boundary_and_the_slab_of_pini_2024():
    """They and a quadrature of our own: 29.01 um, R 0.8999, T 0.02214, mean time 94.3 ps; R 0.6844, T 0.3055."""
    assert anisotropic_boundary_mm(TENSOR, N) * 1e3 == pytest.approx(29.0115, rel=1e-5)
    thick = slab_light(1.0, TENSOR, mua_per_mm=0.03, n=N, source_mm=0.02)
    assert thick == pytest.approx((0.899922, 0.022138, 0.094296), rel=3e-5)
    thin = slab_light(0.1, TENSOR, mua_per_mm=0.03, n=N, source_mm=0.02)
    assert thin[:2] == pytest.approx((0.684354, 0.305470), rel=3e-5)


@pytest.mark.parametrize("model", ["product", "free"])
@pytest.mark.parametrize("n", [1.0, 1.37])
def test_the_boundary_of_isotropic_media_is_that_of_isotropic_theory(model, n):
    expected = extrapolated_boundary_mm(Medium(label=1, mus_per_mm=10.0, n=n))
    assert anisotropic_boundary_mm([10.0] * 3, n, model=model) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: diffusion_tensor_mm([1.0, 2.0, 0.0]), "eigenvalue 0"),
        (lambda: diffusion_tensor_mm(np.arange(9.0).reshape(3, 3)), "symmetric"),
        (lambda: diffusion_tensor_mm([1.0, 2.0, 3.0], "other"), "'other'; choose"),
        (lambda: diffusion_tensor_mm([1.0, 2.0, 3.0], "mixture", 0.5), "g = 0.5"),
        (lambda: uniaxial_scattering_per_mm(3.52, 1.57, "mixture"), "no tensor"),
        (lambda: uniaxial_scattering_per_mm(0.0, 1.57), "greater than 0"),
        (lambda: anisotropic_boundary_mm(TENSOR, 1.3, model="mixture"), "no boundary condition"),
        (lambda: uniaxial_scattering_per_mm(3.0, 1.5, "free", 1.0), "g is 1"),
        (lambda: slab_light(1.0, TENSOR, mua_per_mm=0.0, source_mm=0.02), "absorption is 0"),
    ],
)
def test_what_has_no_theory_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
