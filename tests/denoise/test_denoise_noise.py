"""Noise: what is measured, and the bias of magnitude images, against closed forms and simulated magnitudes."""

import numpy as np
import pytest
from scipy.stats import rice

from napari_gpubio.denoise import DenoiseSettings, cpu, denoise
from napari_gpubio.denoise.noise import calibrate, koay, rician_variance, simulate_measure, smooth, without_bias
from napari_gpubio.denoise.windows import make_windows


def test_calibration_has_the_measured_values():
    """0.85 and 1.37 with search radius 3; the measure is a least, so it falls with the number of candidates."""
    settings = DenoiseSettings()
    assert calibrate(make_windows(settings), settings) == pytest.approx((0.85, 1.37), abs=0.01)
    wide = DenoiseSettings(search_radius=4)
    assert calibrate(make_windows(wide), wide) < calibrate(make_windows(settings), settings)


@pytest.mark.parametrize("search_radius", [1, 3])
def test_simulated_calibration_is_the_measured_one(search_radius):
    settings = DenoiseSettings(search_radius=search_radius)
    windows = make_windows(settings)
    assert simulate_measure(windows, "seed") == pytest.approx(calibrate(windows, settings), rel=0.03)


@pytest.mark.parametrize("options", [{}, {"patches": "small", "search_radius": 2}, {"preselection": "coupe"}])
@pytest.mark.parametrize("sigma", [0.5, 20.0])
def test_white_noise_is_measured(options, sigma):
    image = 1000.0 + sigma * np.random.default_rng(3).normal(size=(28, 28, 28))
    noise = denoise(image, DenoiseSettings(**options), device="cpu").noise[6:-6, 6:-6, 6:-6]
    assert np.sqrt(np.mean(noise**2)) == pytest.approx(sigma, rel=0.03)


@pytest.mark.parametrize("theta", [0.0, 0.3, 1.0, 2.5, 8.0, 25.0])
def test_koays_factor_is_the_variance_of_the_rice_distribution(theta):
    assert koay(np.array(theta)) == pytest.approx(rice.var(theta), rel=1e-9)


@pytest.mark.parametrize("theta", [0.0, 0.5, 1.5, 4.0, 20.0])
def test_the_noise_of_magnitudes_is_found_from_their_moments(theta):
    sigma = 3.0
    moments = [np.full((1, 1, 1), m, np.float32) for m in (sigma**2 * (theta**2 + 2), sigma**2 * rice.var(theta))]
    variance = rician_variance(*moments)
    assert variance.item() == pytest.approx(sigma**2, rel=3e-4)
    assert without_bias(moments[0], variance).item() == pytest.approx(sigma * theta, rel=1e-3, abs=0.1)


def test_noise_is_smoothed_over_what_is_known():
    variance = np.zeros((13, 12, 14), np.float32)
    variance[6, 6, 7], variance[6, 6, 8] = 2.0, 4.0
    smoothed = smooth(variance, cpu.filter_axis)
    assert smoothed[6, 6, 7] == 3.0
    assert smoothed[6, 6, 2] == 2.0
    assert smoothed[6, 6, 13] == 4.0
    assert smoothed[0, 6, 7] == 0.0


def filtered_phantom(signal, sigma, **options):
    """Means of a flat phantom's magnitudes and of what the filter makes of them."""
    a, b = np.random.default_rng(5).normal(size=(2, 32, 32, 32)) * sigma
    magnitudes = np.hypot(signal + a, b)
    noise = options.pop("noise", None)
    result = denoise(magnitudes, DenoiseSettings(noise_model="rician", **options), noise=noise, device="cpu")
    inner = (slice(6, -6),) * 3
    return magnitudes[inner].mean(), result.image[inner].mean(), np.median(result.noise[inner])


@pytest.mark.parametrize(
    ("signal", "options", "raw_bias", "tolerance"),
    [
        (60.0, {}, 0.002, 0.002),
        (25.0, {}, 0.013, 0.005),
        (15.0, {"preselection": "none"}, 0.036, 0.01),
        (6.0, {"noise": 4.0}, 0.26, 0.035),  # the mean of squares and the root bend it by 3 %
    ],
)
def test_rician_correction_is_unbiased_on_a_flat_phantom(signal, options, raw_bias, tolerance):
    raw, corrected, sigma = filtered_phantom(signal, 4.0, **options)
    assert raw / signal - 1 == pytest.approx(raw_bias, rel=0.3)
    assert corrected == pytest.approx(signal, rel=tolerance)
    assert sigma == pytest.approx(4.0, rel=0.04)


def test_the_background_of_magnitudes_goes_to_zero():
    raw, corrected, sigma = filtered_phantom(0.0, 4.0, preselection="none")
    assert raw == pytest.approx(4.0 * np.sqrt(np.pi / 2), rel=0.01)
    assert corrected < 0.35 * raw
    assert sigma == pytest.approx(4.0, rel=0.05)
