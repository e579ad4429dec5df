"""The camera's dark level and noise, against frames that have known ones."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import ContrastSettings, NoiseModel, contrast, measure_dark
from tests.speckle.reference import check_close, contrast_of

INNER = (..., slice(2, -2), slice(2, -2))


def light(shape=(12, 90, 90), k=0.1, mean=500.0, seed=0):
    """Gamma-distributed light of known contrast, independent pixels."""
    return np.random.default_rng(seed).gamma(k**-2, mean * k**2, shape)


def test_a_dark_level_is_taken_off_exactly(device):
    frames = np.random.default_rng(1).integers(100, 4096, (3, 40, 41), np.uint16)
    dark = np.random.default_rng(2).integers(0, 16 * 90, (40, 41)) / 16  # in sixteenths, so that nothing is rounded
    maps = contrast(frames, noise=NoiseModel(dark_map=dark), device=device)
    check_close(maps.contrast, contrast_of(frames - dark, 5), 2.5e-7)
    over_time = contrast(
        frames, ContrastSettings(mode="temporal", frames=3), noise=NoiseModel(dark_map=dark), device=device
    )
    check_close(over_time.contrast, contrast_of(frames - dark, 1, 3), 2.5e-7)
    real = contrast(frames.astype(float), noise=NoiseModel(dark_map=dark), device=device)
    check_close(real.contrast, contrast_of(frames - dark, 5), 2.5e-7)


def test_what_lies_below_the_dark_level_is_not_cut(device):
    frames = np.rint(120 + 20 * np.random.default_rng(3).standard_normal((2, 40, 40))).astype(np.uint16)
    dark = NoiseModel(dark_adu=110.0)
    check_close(contrast(frames, noise=dark, device=device).contrast, contrast_of(frames - 110.0, 5), 2.5e-7)


def test_noise_is_subtracted_from_k2(device):
    """K² = K²(raw) - g/I - σ²/I² - 1/(12 I²), pixel by pixel."""
    frame = np.random.default_rng(4).integers(300, 900, (30, 34), np.uint16)
    noise = NoiseModel(gain=0.8, read_noise_adu=3.0, quantization=True)
    raw = contrast_of(frame[None], 5)[0]
    mean = _means(frame)
    expected = raw**2 - 0.8 / mean - 9 / mean**2 - 1 / 12 / mean**2
    found = contrast(frame, ContrastSettings(index="squared"), noise=noise, device=device)
    np.testing.assert_allclose(found.index, expected, rtol=2e-6)
    np.testing.assert_allclose(found.contrast, np.sqrt(expected), rtol=2e-6)
    np.testing.assert_array_equal(found.squared, found.index)


def _means(frame):
    means = np.full(frame.shape, np.nan)
    means[2:-2, 2:-2] = np.lib.stride_tricks.sliding_window_view(frame, (5, 5)).mean((2, 3))
    return means


def test_shot_and_read_noise_of_a_camera_are_found_and_removed():
    """The mean of K² over 12 frames is that of the light, within its standard error."""
    rng, electrons, read, offset, true = np.random.default_rng(5), 2.0, 4.0, 100.0, 0.1**2
    signal = (rng.poisson(light() * electrons) + read * rng.standard_normal((12, 90, 90))) / electrons
    frames = np.rint(signal + offset).astype(np.uint16)
    noise = NoiseModel(dark_adu=offset, gain=1 / electrons, read_noise_adu=read / electrons, quantization=True)
    settings = ContrastSettings(index="squared", window=7)
    each = np.nanmean(contrast(frames, settings, noise=noise, device="cpu").index, axis=(1, 2))
    error = each.std(ddof=1) / np.sqrt(len(each))
    # the ratio of an unbiased variance to the squared mean of 49 samples of a gamma distribution
    expected = true * (1 - 2 * true / 49 + 3 * true / 49)
    assert abs(each.mean() - expected) < 4 * error
    raw = contrast(frames, settings, noise=NoiseModel(dark_adu=offset), device="cpu").index
    assert np.nanmean(raw) > expected + 20 * error


def test_the_dark_is_measured():
    rng = np.random.default_rng(6)
    level = rng.uniform(90, 110, (20, 24))
    dark = np.rint(level + 3.0 * rng.standard_normal((4000, 20, 24))).astype(np.uint16)
    noise = measure_dark(dark, gain=0.5)
    z = (noise.dark_map - level) / (3.0 / np.sqrt(4000))
    assert abs(z.mean()) < 4 / np.sqrt(z.size)
    assert noise.variance_map.mean() == pytest.approx(9 + 1 / 12, rel=4 * np.sqrt(2 / 4000 / z.size))
    assert noise.gain == 0.5
    assert noise.has_dark
    assert noise.has_noise


def test_maps_of_another_camera_region_are_refused():
    noise = NoiseModel(dark_map=np.ones((8, 9)))
    with pytest.raises(InvalidInput, match=r"dark_map has shape \(8, 9\) and the frames \(10, 10\)"):
        contrast(np.ones((10, 10), np.uint8), noise=noise, device="cpu")
    with pytest.raises(InvalidInput, match="give a map"):
        NoiseModel(variance_map=-np.ones((8, 9)))
    with pytest.raises(InvalidInput, match="two or more"):
        measure_dark(np.ones((8, 9)))
    with pytest.raises(InvalidInput, match="gain is -1"):
        NoiseModel(gain=-1.0)
