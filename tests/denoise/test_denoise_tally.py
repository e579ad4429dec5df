"""Calibration, Rician correction and wavelet mixing against closed forms, simulated magnitudes and the eight bands."""

import numpy as np
import pytest
from scipy.stats import rice

from napari_gpubio.denoise import DenoiseSettings, denoise
from napari_gpubio.denoise.kernels.anlm import cpu, tally
from napari_gpubio.denoise.kernels.anlm.calibration import (
    calibrate,
    disagreement_of,
    simulate_disagreement,
    simulate_measure,
)
from napari_gpubio.denoise.kernels.anlm.problem import make_windows
from napari_gpubio.denoise.kernels.anlm.tally import koay, koay_table, mean_around, rician_variance, without_bias
from napari_gpubio.denoise.reference import analysis, mix_directly
from napari_gpubio.denoise.samples import noisy_head
from napari_gpubio.denoise.settings import Large, Mixed, Small

SHAPE = (9, 12, 7)


def volume(seed):
    return np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)


def test_the_bank_is_the_published_one_and_orthonormal():
    a, b, c = 0.08838834764832, 0.695879989034, 0.01122679215254  # Abdelnour and Selesnick
    np.testing.assert_array_equal(tally.LOW_PASS, [0, 0, -a, a, b, b, a, -a, c, c])
    np.testing.assert_array_equal(tally.HIGH_PASS, [-c, c, a, a, -b, b, -a, -a, 0, 0])
    for n in (20, 32):
        both = np.concatenate([analysis(n, "L"), analysis(n, "H")])
        np.testing.assert_allclose(both @ both.T, np.eye(n), atol=1e-12)


def test_the_taps_are_the_projection_on_each_half():
    for name, bank in (("L", tally.LOW_PASS), ("H", tally.HIGH_PASS)):
        half = analysis(40, name)
        projection = half.T @ half
        taps = tally.projection_taps(bank)
        for i in (18, 19):
            np.testing.assert_allclose(taps[i % 2], projection[i, i - 9 : i + 10], atol=1e-7)
    whole = tally.projection_taps(tally.LOW_PASS) + tally.projection_taps(tally.HIGH_PASS)
    np.testing.assert_allclose(whole, np.tile(np.arange(19) == 9, (2, 1)), atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_lines_are_filtered_along_any_axis(axis):
    taps = tally.projection_taps()
    moved = np.moveaxis(volume(2), axis, 0).astype(float)
    n = moved.shape[0]
    expected = np.zeros_like(moved)
    for i in range(n):
        for d in range(-9, 10):
            if 0 <= i + d < n:
                expected[i] += taps[i % 2, d + 9] * moved[i + d]
    found = cpu.filter_axis(volume(2), axis, taps)
    np.testing.assert_allclose(np.moveaxis(found, axis, 0), expected, atol=1e-6)


def test_mixing_takes_each_band_from_its_patch():
    small, large = volume(3) + 10, volume(4) + 10
    found = tally.mix(small, large, cpu.filter_axis)
    np.testing.assert_allclose(found, mix_directly(small, large), atol=1e-5)
    assert np.abs(found - small).mean() > 0.2 * np.abs(large - small).mean()
    np.testing.assert_array_equal(tally.mix(small, small, cpu.filter_axis), small)


def test_a_mix_below_zero_gives_way_to_the_small_patch():
    small, large = np.abs(volume(6)) * 0.1, np.abs(volume(7))
    found = tally.mix(small, large, cpu.filter_axis)
    plain = tally.mix(small + 50, large + 50, cpu.filter_axis) - 50
    assert (plain < 0).any()
    assert (found >= 0).all()
    np.testing.assert_array_equal(found[plain < -1e-4], small[plain < -1e-4])


def test_the_small_patch_counts_where_both_differ_by_more_than_noise():
    """In one half of a volume the small patch's image has noise of its own, in the other a grating as well."""
    rng, variance = np.random.default_rng(8), np.float32(4.0)
    large = np.zeros((24, 16, 18), np.float32)
    small = np.sqrt(0.0125 * variance) * rng.standard_normal(large.shape, np.float32)
    small[12:] += 2.0 * (-1.0) ** np.arange(18)
    arguments = np.full(large.shape, variance), 0.0125, tally.Operations(cpu.filter_axis, cpu.interpolate)
    mixed = tally.mix_by_place(small, large, *arguments)
    np.testing.assert_array_equal(mixed[:9], large[:9])
    np.testing.assert_allclose(mixed[15:], small[15:], atol=0.2)
    np.testing.assert_array_equal(tally.mix_by_place(small, small, *arguments), small)


def test_calibration_has_the_measured_values():
    """0.85 and 1.37 with search radius 3; the measure is a least, so it falls with the number of candidates."""
    settings = DenoiseSettings()
    assert calibrate(make_windows(settings), settings) == pytest.approx((0.85, 1.37), abs=0.01)
    wide = DenoiseSettings(search_radius=4)
    assert calibrate(make_windows(wide), wide) < calibrate(make_windows(settings), settings)


@pytest.mark.parametrize(("search_radius", "shape"), [(1, ()), (3, ()), (3, (1, 60, 60))])
def test_simulated_calibration_is_the_measured_one(search_radius, shape):
    settings = DenoiseSettings(search_radius=search_radius)
    windows = make_windows(settings, shape=shape)
    assert simulate_measure(windows, "seed") == pytest.approx(calibrate(windows, settings), rel=0.03)
    assert simulate_disagreement(windows, "seed") == pytest.approx(disagreement_of(windows, settings), rel=0.06)


@pytest.mark.parametrize("options", [{}, {"patches": Small(), "search_radius": 2}, {"preselection": "coupe"}])
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
    variance = rician_variance(*moments, cpu.interpolate)
    assert variance.item() == pytest.approx(sigma**2, rel=3e-4)
    assert without_bias(moments[0], variance).item() == pytest.approx(sigma * theta, rel=1e-3, abs=0.1)


def test_the_table_is_read_as_numpy_reads_it():
    """And is near the closed form: straight lines between 3001 entries."""
    rng = np.random.default_rng(4)
    variance = rng.uniform(0.1, 9.0, (7, 8, 9)).astype(np.float32)
    variance[0, 0, 0] = 0.0
    mean_square = (variance * np.geomspace(1.0, 3000.0, variance.size).reshape(variance.shape)).astype(np.float32)
    found = rician_variance(mean_square, variance, cpu.interpolate)
    assert found[0, 0, 0] == 0.0
    known = variance > 0
    expected = variance[known] * np.interp(mean_square[known] / variance[known], *koay_table())
    np.testing.assert_allclose(found[known], expected, rtol=1e-6)
    theta = np.linspace(0.005, 29.995, 2000)
    ratio = (theta**2 + 2) / koay(theta)
    np.testing.assert_allclose(np.interp(ratio, *koay_table()), 1 / koay(theta), rtol=3e-5)


BOX = np.ones((2, 11), np.float32)


def test_noise_is_smoothed_over_what_is_known():
    variance = np.zeros((13, 12, 14), np.float32)
    variance[6, 6, 7], variance[6, 6, 8] = 2.0, 4.0
    smoothed = mean_around(variance, BOX, cpu.filter_axis)
    assert smoothed[6, 6, 7] == 3.0
    assert smoothed[6, 6, 2] == 2.0
    assert smoothed[6, 6, 13] == 4.0
    assert smoothed[0, 6, 7] == 0.0
    whole = np.random.default_rng(6).uniform(1.0, 2.0, variance.shape).astype(np.float32)
    corner, end = whole[:6, :6, :6].mean(), whole[1:12, 6:, 2:13].mean()
    assert mean_around(whole, BOX, cpu.filter_axis)[0, 0, 0] == pytest.approx(corner, rel=1e-6)
    assert mean_around(whole, BOX, cpu.filter_axis)[6, 11, 7] == pytest.approx(end, rel=1e-6)


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
        (6.0, {"noise": 4.0}, 0.26, 0.045),  # the mean of squares and the root bend it by 4 %
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


@pytest.fixture(scope="module")
def head():
    """A piece of a head with Rician noise: its brain, folds, skull and some air."""
    phantom, piece = noisy_head(), np.s_[30:60, 40:76, 50:86]
    return phantom.noisy[piece], phantom.truth[piece], phantom.noise[piece]


def error_of(head, options, **known):
    noisy, truth, _ = head
    settings = DenoiseSettings(noise_model="rician", **options)
    return np.mean(np.square(denoise(noisy, settings, device="cpu", **known).image - truth))


FOR_MRI = {"cutoff": 3.0, "center": "largest", "patches": Mixed(mixing="mean")}


@pytest.mark.parametrize("options", [{}, {"cutoff": 3.0, "center": "largest"}, FOR_MRI], ids=["seed", "cut", "mean"])
def test_knowing_the_noise_is_better_than_measuring_it(head, options):
    assert error_of(head, options, noise=head[2]) < error_of(head, options)


def test_the_strength_for_a_known_noise_is_near_the_best(head, monkeypatch):
    """Three quarters and one and a half times as much are no better by 4 %, and far more is worse."""
    best = error_of(head, {}, noise=head[2])
    errors = []
    for factor in (0.75, 1.5, 10.0):
        strength = {1: 4.0 * factor, 2: 2.0 * factor}
        monkeypatch.setattr("napari_gpubio.denoise.kernels.anlm.problem.STRENGTH", strength)
        errors.append(error_of(head, {}, noise=head[2]))
    assert best < 1.04 * min(errors)
    assert best < 0.9 * errors[-1]


def test_the_mean_of_both_patches_is_better_than_bands_of_each(head):
    bands, mean, small, large = (
        error_of(head, {"noise_from": "patches", "cutoff": 3.0, "center": "largest", **options})
        for options in ({}, {"patches": Mixed(mixing="mean")}, {"patches": Small()}, {"patches": Large()})
    )
    assert mean < 0.98 * bands
    assert mean < min(small, large)
