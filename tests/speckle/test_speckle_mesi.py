"""Multi-exposure contrast: closed forms against the integral, and recovery of what was put in."""

import threading

import numpy as np
import pytest
from scipy import integrate

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.checks import EXPOSURES_MS
from napari_gpubio.speckle.kernels.mesi import fill_averages
from napari_gpubio.speckle.mesi import (
    GivenBeta,
    MesiRecipe,
    MesiSettings,
    exposure_contrast,
    fit_mesi,
    fit_mesi_steps,
    squared_contrast,
    static_fraction,
)
from napari_gpubio.speckle.mesi.model import BLOCKS, CYCLES, MODELS, parse_exposures
from napari_gpubio.speckle.model import BELOW_NOISE, SATURATED, ContrastMaps
from napari_gpubio.speckle.settings import ContrastSettings, Squared
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
    fill_averages(0, y.size, y, power, b, c)
    low, middle, high = b.reshape(-1, 3).T
    np.testing.assert_allclose((high - low) / 2e-5, 2 * (c[1::3] - middle), rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("model", MODELS)
def test_without_noise_everything_is_recovered(model):
    truth = [(rho, tau, nu) for rho in (1.0, 0.9, 0.6) for tau in (0.1, 0.5, 3.0) for nu in (0.0, 2e-3)]
    k2 = [squared_contrast(EXPOSURES_MS, t, power=MODELS[model], beta=0.25, rho=r, noise=n) for r, t, n in truth]
    settings = MesiSettings(model=model, beta=GivenBeta(static_k2=0.25), fit_noise=True)
    found = fit_mesi(np.sqrt(np.stack(k2, 1)), EXPOSURES_MS, settings)
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
        found = fit_mesi(np.sqrt(noisy), EXPOSURES_MS, MesiSettings(model=model, beta=GivenBeta(static_k2=0.25)))
        assert np.median(found.tau_ms) == pytest.approx(tau, rel=0.05)
        assert np.median(found.rho) == pytest.approx(rho, abs=0.05)
        assert found.tau_ms.std() / tau < 0.08


@pytest.mark.parametrize("model", MODELS)
def test_beta_is_fitted_unless_it_is_given(model):
    truth = [(beta, rho, tau) for beta in (0.1, 0.5) for rho in (0.9, 0.6) for tau in (0.2, 2.0)]
    k2 = [squared_contrast(EXPOSURES_MS, t, power=MODELS[model], beta=b, rho=r) for b, r, t in truth]
    found = fit_mesi(np.sqrt(np.stack(k2, 1)), EXPOSURES_MS, MesiSettings(model=model))
    for part, want in zip(("beta", "rho", "tau_ms"), np.array(truth).T, strict=True):
        np.testing.assert_allclose(getattr(found, part), want, rtol=1e-5)
    assert not found.mask.any()
    assert not found.notes


def test_beta_can_be_fitted_where_nothing_rests():
    k2 = squared_contrast(EXPOSURES_MS, 0.7, beta=0.31)
    found = fit_mesi(np.sqrt(k2)[:, None], EXPOSURES_MS, MesiSettings(fit_rho=False))
    assert found.beta[0] == pytest.approx(0.31, rel=1e-5)
    assert found.tau_ms[0] == pytest.approx(0.7, rel=1e-5)
    assert found.rho[0] == 1
    assert found.rho_error[0] == found.noise_error[0] == 0, "they are not fitted"


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


@pytest.mark.parametrize(
    ("maps", "exposures", "words"),
    [
        (3, [1.0, 2.0, 3.0], "3 different exposures cannot determine 3 parameters"),
        (4, [1.0, 2.0, 3.0, 0.0], "give positive times"),
        (5, [1.0, 2.0, 3.0, 4.0], "give a map for each"),
    ],
)
def test_maps_that_cannot_be_fitted(maps, exposures, words):
    with pytest.raises(InvalidInput, match=words):
        fit_mesi(np.ones((maps, 4)), exposures)


# -- exposures of a stack ---------------------------------------------------------------------------------------------


def recipe(order, exposures=(1.0, 2.0)):
    settings = MesiSettings(fit_rho=False, beta=GivenBeta())
    return MesiRecipe(exposures_ms=exposures, order=order, settings=settings)


def test_exposures_are_read_as_they_are_typed():
    assert parse_exposures("0.5 1; 2, 4,8 16") == (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there are no exposures"),
        ("1, two, 5", "exposure 2 is 'two'; give numbers in ms"),
        ("0, 1, 2, 4, 8, 16", "exposure 1 is 0 ms; it must be greater than 0 ms"),
        ("1, 2, -4, 8", "exposure 3 is -4 ms; it must be greater than 0 ms"),
        ("1, 2, inf, 8", r"exposures_ms\[2\] is inf"),
        ("1, 2, nan, 8", r"exposures_ms\[2\] is nan"),
        ("1, 2, 2, 4", "exposure 3 is 2 ms and the one before it 2 ms; they must increase"),
        ("1, 4, 2, 8", "exposure 3 is 2 ms and the one before it 4 ms; they must increase"),
        ("1, 2, 4", "3 different exposures cannot determine 3 parameters"),
        ("1, 2, 4, 8", "there are 4 exposures and 18 frames; give one exposure for each frame"),
        (" ".join(map(str, range(1, 21))), "20 exposures and 18 frames"),
    ],
)
def test_exposures_that_make_no_sense(text, words):
    with pytest.raises(InvalidInput, match=words):
        MesiRecipe(exposures_ms=parse_exposures(text)).repeats(18)


def test_orders_and_numbers_of_exposures():
    with pytest.raises(InvalidInput, match="order is 'cycles'; choose one of 'in turn', 'one after another'"):
        recipe("cycles").repeats(18)
    with pytest.raises(InvalidInput, match="1 different exposures cannot determine 1 parameters"):
        recipe(CYCLES, (1.0,)).repeats(4)


def maps_of(k2, mask=None):
    k2 = np.array(k2, np.float32)[:, None, None]
    return ContrastMaps(signed=np.sqrt(np.abs(k2)), index=k2, mask=mask, settings=ContrastSettings(index=Squared()))


@pytest.mark.parametrize(("order", "k2"), [(CYCLES, [2.0, 3.0]), (BLOCKS, [1.5, 3.5])])
def test_k2_is_averaged_over_the_frames_of_an_exposure(order, k2):
    found = exposure_contrast(maps_of([1, 2, 3, 4]), recipe(order))
    np.testing.assert_allclose(found[:, 0, 0], np.sqrt(k2))


def test_saturated_frames_are_left_out_and_those_below_the_noise_are_not():
    mask = np.array([0, 0, SATURATED, BELOW_NOISE], np.uint8)[:, None, None]
    maps = maps_of([0.5, 0.2, 0.9, -0.1], mask)
    found = exposure_contrast(maps, recipe(CYCLES))
    np.testing.assert_allclose(found[:, 0, 0], np.sqrt([0.5, (0.2 - 0.1) / 2]), rtol=1e-6)
    mask[0] = SATURATED
    assert np.isnan(exposure_contrast(maps, recipe(CYCLES))[0, 0, 0])


# -- the static fraction ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_the_static_fraction_of_frames(share):
    """|√ρ E + √(1-ρ) E_s|² with a new E in every frame."""
    rng, shape = np.random.default_rng(2), (60, 80, 80)

    def field(*size):
        return (rng.standard_normal(size) + 1j * rng.standard_normal(size)) / np.sqrt(2)

    frames = np.abs(np.sqrt(1 - share) * field(*shape) + np.sqrt(share) * field(*shape[1:])) ** 2
    found = static_fraction(frames, window=31)[15:-15, 15:-15]
    assert np.sqrt(np.mean(found**2)) == pytest.approx(share, abs=0.04)


def test_static_fractions_that_cannot_be():
    with pytest.raises(InvalidInput, match="two frames"):
        static_fraction(np.ones((9, 9)))
    frames = np.random.default_rng(0).integers(1, 99, (3, 20, 22), np.uint8)
    for window in (0, 4, 21):
        with pytest.raises(InvalidInput, match=f"window is {window} pixels"):
            static_fraction(frames, window=window)
    assert static_fraction(frames, window=19).shape == (20, 22)
