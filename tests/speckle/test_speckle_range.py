"""Largest sums, windows without contrast, the bits of the mask, and the camera's dark level and noise."""

import numpy as np
import pytest
from scipy import ndimage

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import ContrastSettings, NoiseModel, contrast, measure_dark
from napari_gpubio.speckle import model as validity
from napari_gpubio.speckle.kernels.contrast.problem import ContrastRecipe
from napari_gpubio.speckle.settings import EDGES, DarkNoise, NoIndex, NoMask, Spatial, Squared, Temporal, Validity
from tests.speckle.choices import settings_with
from tests.speckle.reference import check_close, contrast_of

INNER = (slice(2, -2), slice(2, -2))


def recipe(dtype, noise=None, **options):
    return ContrastRecipe(
        settings=settings_with(**options), noise=noise or NoiseModel(), shape=(40, 40), dtype=np.dtype(dtype)
    )


@pytest.mark.parametrize("frames", [46_000, 46_001])
def test_the_largest_sums_are_exact(device, frames):
    """Half of the samples 0 and half the largest number: N Q - S² comes next to what 64 bits hold."""
    stack = np.zeros((frames, 1, 4), np.uint16)
    stack[::2] = 65535
    settings = ContrastSettings(mode=Temporal(frames=10_000))
    object.__setattr__(settings.mode, "frames", frames)  # more than the form allows
    k = contrast(stack, settings, device=device).contrast
    np.testing.assert_allclose(k, contrast_of(stack, 1, frames), rtol=2.5e-7)


def test_doubles_hold_the_sums_of_small_windows_and_integers_those_of_large_ones():
    assert recipe("u2", window=31).work_dtype == np.float64  # 961 samples
    kinds = [recipe("u2", mode="temporal", frames=n).work_dtype for n in (1448, 1449)]
    assert kinds == [np.float64, np.int64]
    assert recipe("u1", mode="temporal", frames=10_000).work_dtype == np.float64
    assert recipe("u2", NoiseModel(dark_adu=1.0), window=9).work_dtype == np.float64
    assert recipe("u2", NoiseModel(dark_adu=1.0), window=11).work_dtype == np.int64


def test_windows_whose_sums_would_not_be_exact_are_refused():
    dark = NoiseModel(dark_adu=100.0)
    recipe("u2", mode="spatio-temporal", window=31, frames=48)  # 46 128
    recipe("f4", mode="spatio-temporal", window=31, frames=49)
    recipe("u2", dark, mode="temporal", frames=2896)
    with pytest.raises(InvalidInput, match=r"47,089 samples; sums of 16-bit frames are exact up to 46,341; choose"):
        recipe("u2", mode="spatio-temporal", window=31, frames=49)
    with pytest.raises(InvalidInput, match=r"exact up to 2,900 with a dark level"):
        recipe("u2", dark, mode="temporal", frames=2901)


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8"])
@pytest.mark.parametrize("level", [1, 77, 255])
def test_a_constant_window_has_exactly_no_contrast(dtype, level, device):
    values = np.full((30, 30), level, dtype) / (3 if dtype[0] == "f" else 1)
    maps = contrast(values.astype(dtype), device=device)
    assert (maps.contrast[INNER] == 0).all()
    assert np.isposinf(maps.index[INNER]).all()
    assert (maps.mask[INNER] == validity.ZERO_VARIANCE).all() or level == 255
    almost = values.astype(dtype)
    almost[15, 15] = np.nextafter(almost[15, 15], almost.dtype.type(0)) if dtype[0] == "f" else level - 1
    assert (contrast(almost, device=device).contrast[13:18, 13:18] > 0).all()


@pytest.mark.parametrize(("policy", "value"), [("inf", np.inf), ("nan", np.nan), ("clip", np.finfo("f4").max)])
@pytest.mark.parametrize("index", ["sfi", "inverse", "ict", "relative"])
def test_the_index_of_a_constant_window(policy, value, index, device):
    settings = settings_with(nonfinite=policy, index=index)
    maps = contrast(np.full((9, 9), 50, np.uint16), settings, baseline=0.1, device=device)
    np.testing.assert_array_equal(maps.index[INNER], np.full((5, 5), value, np.float32))
    assert (maps.contrast[INNER] == 0).all()


@pytest.mark.parametrize("index", ["sfi", "squared", "inverse", "ict", "relative"])
def test_dark_windows_have_no_contrast_and_no_index(index, device):
    maps = contrast(np.zeros((9, 9), np.uint16), settings_with(index=index), baseline=0.1, device=device)
    assert np.isnan(maps.contrast).all()
    assert np.isnan(maps.index).all()
    assert (maps.mask[INNER] == validity.ZERO_MEAN).all()


def test_contrast_is_never_cut_at_one(device):
    frame = np.zeros((9, 9), np.uint8)
    frame[4, 4] = 255
    assert contrast(frame, ContrastSettings(mode=Spatial(window=9)), device=device).contrast[4, 4] == 9


def test_every_bit_of_the_mask(device):
    rng = np.random.default_rng(3)
    frame = rng.integers(500, 1500, (40, 60), np.uint16)
    frame[5:15, 5:15] = 0
    frame[5:15, 25:35] = 700
    frame[25, 10] = 4095
    frame[20:35, 40:55] = rng.integers(10, 60, (15, 15))
    settings = ContrastSettings(mode=Spatial(window=5), mask=Validity(saturation=4095, low_signal=100.0))
    mask = contrast(frame, settings, device=device).mask
    assert mask[10, 10] == validity.ZERO_MEAN | validity.LOW_SIGNAL
    assert mask[10, 30] == validity.ZERO_VARIANCE
    assert mask[28, 48] == validity.LOW_SIGNAL
    saturated = np.zeros(frame.shape, bool)
    saturated[23:28, 8:13] = True
    np.testing.assert_array_equal((mask & validity.SATURATED) != 0, saturated)
    edges = np.ones(frame.shape, bool)
    edges[INNER] = False
    np.testing.assert_array_equal((mask & validity.EDGE) != 0, edges)
    assert validity.is_valid(mask, validity.SATURATED).sum() == frame.size - 25


def test_the_noise_bit(device):
    frame = np.random.default_rng(4).integers(995, 1006, (20, 20), np.uint16)
    maps = contrast(frame, ContrastSettings(index=Squared()), noise=NoiseModel(gain=0.05), device=device)
    assert (maps.mask[INNER] == validity.BELOW_NOISE).all()
    assert (maps.index[INNER] < 0).all()
    assert np.isnan(maps.contrast[INNER]).all()


def test_saturation_is_the_types_largest_level_unless_given(device):
    frame = np.full((9, 9), 200, np.uint8)
    frame[4, 4] = 255
    settings = ContrastSettings(mode=Spatial(window=3))
    assert contrast(frame, settings, device=device).mask[4, 4] == validity.SATURATED
    assert contrast(frame.astype(np.uint16), settings, device=device).mask[4, 4] == 0
    assert contrast(frame.astype(np.float32), settings, device=device).mask[4, 4] == 0


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("mode", ["spatial", "temporal", "spatio-temporal"])
def test_a_level_is_held_against_floating_point_frames_too(mode, edges, device):
    """The marks are those of the same frames in integers; the level is that of the camera, dark level included."""
    frames = np.random.default_rng(5).integers(500, 4096, (3, 20, 24), np.uint16)
    frames[1, 0, 5] = frames[2, 12, 23] = 4096
    settings = settings_with(saturation=4096, mode=mode, frames=2, edges=edges)
    whole, real = (
        contrast(frames.astype(dtype), settings, noise=NoiseModel(dark_adu=100.0), device=device)
        for dtype in (np.uint16, np.float32)
    )
    np.testing.assert_array_equal(real.mask & validity.SATURATED, whole.mask & validity.SATURATED)
    assert (real.mask & validity.SATURATED).any() or edges == "valid"
    assert not real.notes


@pytest.mark.parametrize("edges", ["reflect", "shrink", "zero"])
def test_other_edges_have_values_and_are_marked(edges, device):
    frame = np.random.default_rng(5).integers(1, 999, (12, 13), np.uint16)
    maps = contrast(frame, ContrastSettings(mode=Spatial(edges=edges)), device=device)
    assert np.isfinite(maps.contrast).all()
    assert ((maps.mask == validity.EDGE) == (np.pad(np.zeros((8, 9)), 2, constant_values=1) > 0)).all()


def test_a_result_without_mask_and_index():
    maps = contrast(np.ones((9, 9), np.uint8), ContrastSettings(index=NoIndex(), mask=NoMask()), device="cpu")
    assert maps.mask is None
    assert maps.index is None
    assert maps.valid.sum() == 25


# -- dark level and noise of the camera --------------------------------------------------------------------------------


def light(shape=(12, 90, 90), k=0.1, mean=500.0, seed=0):
    """Gamma-distributed light of known contrast, independent pixels."""
    return np.random.default_rng(seed).gamma(k**-2, mean * k**2, shape)


@pytest.mark.parametrize(("dtype", "depth"), [("u2", 1), ("u2", 3), ("f8", 1)])
def test_a_dark_level_is_taken_off_exactly(dtype, depth, device):
    frames = np.random.default_rng(1).integers(100, 4096, (3, 40, 41), np.uint16)
    dark = np.random.default_rng(2).integers(0, 16 * 90, (40, 41)) / 16  # in sixteenths, so that nothing is rounded
    settings = ContrastSettings(mode=Temporal(frames=3)) if depth > 1 else ContrastSettings()
    maps = contrast(frames.astype(dtype), settings, noise=DarkNoise(dark_map=dark), device=device)
    check_close(maps.contrast, contrast_of(frames - dark, settings.width, depth), 2.5e-7)


def test_what_lies_below_the_dark_level_is_not_cut(device):
    frames = np.rint(120 + 20 * np.random.default_rng(3).standard_normal((2, 40, 40))).astype(np.uint16)
    dark = NoiseModel(dark_adu=110.0)
    check_close(contrast(frames, noise=dark, device=device).contrast, contrast_of(frames - 110.0, 5), 2.5e-7)


def test_noise_is_subtracted_from_k2(device):
    """K² = K²(raw) - g/I - σ²/I² - 1/(12 I²), without the bias of the noise of I, pixel by pixel."""
    frame = np.random.default_rng(4).integers(300, 900, (30, 34), np.uint16)
    noise = NoiseModel(gain=0.8, read_noise_adu=3.0, quantization=True)
    raw, mean = contrast_of(frame[None], 5)[0], ndimage.uniform_filter(frame.astype(float), 5)
    floor = 9 + 1 / 12
    expected = raw**2 - 0.8 / mean - floor / mean**2 - 2 * 0.8 * floor / (25 * mean**3)
    expected /= 1 - 0.8 / (25 * mean) + 3 * floor / (25 * mean**2)
    found = contrast(frame, ContrastSettings(index=Squared()), noise=noise, device=device)
    np.testing.assert_allclose(found.index, expected, rtol=2e-6)
    np.testing.assert_allclose(found.contrast, np.sqrt(expected), rtol=2e-6)
    np.testing.assert_array_equal(found.squared, found.index)


def test_shot_and_read_noise_of_a_camera_are_found_and_removed():
    """The mean of K² over 12 frames is that of the light, within its standard error."""
    rng, electrons, read, offset, true = np.random.default_rng(5), 2.0, 4.0, 100.0, 0.1**2
    signal = (rng.poisson(light() * electrons) + read * rng.standard_normal((12, 90, 90))) / electrons
    frames = np.rint(signal + offset).astype(np.uint16)
    noise = NoiseModel(dark_adu=offset, gain=1 / electrons, read_noise_adu=read / electrons, quantization=True)
    settings = ContrastSettings(mode=Spatial(window=7), index=Squared())
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DarkNoise(dark_map=np.ones((8, 9)), variance_map=-np.ones((8, 9))), "give a map"),
        (lambda: measure_dark(np.ones((8, 9))), "two or more"),
        (lambda: NoiseModel(gain=-1.0), "gain is -1"),
        (lambda: DarkNoise(dark_map=np.ones((8, 9)), gain=-1.0), "gain is -1"),
        (
            lambda: contrast(np.ones((10, 10), np.uint8), noise=DarkNoise(dark_map=np.ones((8, 9))), device="cpu"),
            r"dark_map has shape \(8, 9\) and the frames \(10, 10\)",
        ),
    ],
)
def test_noise_that_cannot_be(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
