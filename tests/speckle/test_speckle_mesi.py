"""Multi-exposure contrast: closed forms against the integral, and recovery of what was put in."""

import threading

import numpy as np
import pytest
from scipy import integrate

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.checks import EXPOSURES_MS
from napari_gpubio.speckle.kernels.mesi import cpu
from napari_gpubio.speckle.mesi import MesiSettings, fit_mesi, fit_mesi_steps, squared_contrast, static_fraction
from napari_gpubio.speckle.mesi.settings import MODELS
from tests.runs import stopped

POWERS = tuple(MODELS.values())


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("x", [1e-3, 0.05, 0.31, 1.0, 4.0, 60.0])
@pytest.mark.parametrize("rho", [1.0, 0.7])
def test_closed_forms_are_the_integral(x, power, rho):
    def integrand(v):  # u = v², since the correlation of n = 1/2 is steep at 0
        u = v * v
        return 2 * (1 - u) * (rho * np.exp(-((x * u) ** power)) + 1 - rho) ** 2 * 2 * v

    integral, _ = integrate.quad(integrand, 0, 1, epsabs=1e-14, epsrel=1e-13, limit=500)
    found = squared_contrast([x], 1.0, power=power, beta=0.4, rho=rho, noise=0.01)[0]
    assert found == pytest.approx(0.4 * integral + 0.01, rel=1e-11)


@pytest.mark.parametrize("power", POWERS)
def test_the_change_with_ln_y_is_twice_c_less_b(power):
    y = np.multiply.outer([0.01, 0.2, 1.0, 9.0], np.exp([-1e-5, 0, 1e-5])).ravel()
    b, c = np.empty_like(y), np.empty_like(y)
    cpu.fill_averages(0, y.size, y, power, b, c)
    low, middle, high = b.reshape(-1, 3).T
    np.testing.assert_allclose((high - low) / 2e-5, 2 * (c[1::3] - middle), rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("model", MODELS)
def test_without_noise_everything_is_recovered(model):
    truth = [(rho, tau, nu) for rho in (1.0, 0.9, 0.6) for tau in (0.1, 0.5, 3.0) for nu in (0.0, 2e-3)]
    k2 = [squared_contrast(EXPOSURES_MS, t, power=MODELS[model], beta=0.25, rho=r, noise=n) for r, t, n in truth]
    found = fit_mesi(np.sqrt(np.stack(k2, 1)), EXPOSURES_MS, MesiSettings(model=model, beta=0.25))
    rho, tau, nu = np.array(truth).T
    np.testing.assert_allclose(found.tau_ms, tau, rtol=1e-5)
    np.testing.assert_allclose(found.rho, rho, atol=1e-5)
    np.testing.assert_allclose(found.noise, nu, atol=1e-6)
    np.testing.assert_allclose(found.ict, 1e3 / tau, rtol=1e-5)
    assert (found.beta == np.float32(0.25)).all()
    assert found.residual.max() < 1e-7


@pytest.mark.parametrize("model", MODELS)
def test_with_noise_it_is_recovered_on_average(model):
    rng = np.random.default_rng(1)
    for rho, tau in ((1.0, 0.5), (0.9, 0.5), (0.6, 3.0), (0.9, 0.1)):
        k2 = squared_contrast(EXPOSURES_MS, tau, power=MODELS[model], beta=0.25, rho=rho)
        noisy = k2[:, None] * (1 + 0.02 * rng.standard_normal((15, 400)))
        found = fit_mesi(np.sqrt(noisy), EXPOSURES_MS, MesiSettings(model=model, beta=0.25))
        assert np.median(found.tau_ms) == pytest.approx(tau, rel=0.05)
        assert np.median(found.rho) == pytest.approx(rho, abs=0.05)
        assert found.tau_ms.std() / tau < 0.08


def test_beta_can_be_fitted_where_nothing_rests():
    k2 = squared_contrast(EXPOSURES_MS, 0.7, beta=0.31)
    settings = MesiSettings(fit_beta=True, fit_rho=False, fit_noise=False, beta=0.9)
    found = fit_mesi(np.sqrt(k2)[:, None], EXPOSURES_MS, settings)
    assert found.beta[0] == pytest.approx(0.31, rel=1e-5)
    assert found.tau_ms[0] == pytest.approx(0.7, rel=1e-5)
    assert found.rho[0] == 1


def test_pixels_without_contrast_stay_nan():
    k = np.ones((15, 2, 2)) * 0.2
    k[3, 0, 0], k[4, 1, 1] = np.nan, 0.0
    found = fit_mesi(k, EXPOSURES_MS)
    np.testing.assert_array_equal(np.isnan(found.tau_ms), [[True, False], [False, True]])


def test_a_fit_can_be_stopped():
    stop = threading.Event()
    k = np.repeat(np.sqrt(squared_contrast(EXPOSURES_MS, 0.5))[:, None], 5000, axis=1)
    found = stopped(fit_mesi_steps(k, EXPOSURES_MS, stop=stop), stop, after=1)
    assert not found.complete
    assert 0 < np.isfinite(found.tau_ms).sum() < 5000


def test_exposures_that_do_not_fit():
    with pytest.raises(InvalidInput, match="3 different exposures cannot determine 3 parameters"):
        fit_mesi(np.ones((3, 4)), [1.0, 2.0, 3.0])
    with pytest.raises(InvalidInput, match="give positive times"):
        fit_mesi(np.ones((4, 4)), [1.0, 2.0, 3.0, 0.0])
    with pytest.raises(InvalidInput, match="give a map for each"):
        fit_mesi(np.ones((5, 4)), [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_the_static_fraction_of_frames(share):
    """|√ρ E + √(1-ρ) E_s|² with a new E in every frame."""
    rng, shape = np.random.default_rng(2), (60, 80, 80)

    def field(*size):
        return (rng.standard_normal(size) + 1j * rng.standard_normal(size)) / np.sqrt(2)

    frames = np.abs(np.sqrt(1 - share) * field(*shape) + np.sqrt(share) * field(*shape[1:])) ** 2
    found = static_fraction(frames, window=31)[15:-15, 15:-15]
    assert np.sqrt(np.mean(found**2)) == pytest.approx(share, abs=0.04)


def test_a_single_frame_has_no_static_fraction():
    with pytest.raises(InvalidInput, match="two frames"):
        static_fraction(np.ones((9, 9)))
