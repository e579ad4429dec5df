"""Phantoms against their closed forms, and the samples."""

import math

import numpy as np
import pytest
from scipy import ndimage

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.speckle import ContrastSettings, contrast, region_curves, samples
from napari_gpubio.speckle.indices import expected_k2
from napari_gpubio.speckle.samples import (
    Camera,
    SpeckleField,
    flow_frames,
    steps_for,
    tube_map,
    window_share,
)
from napari_gpubio.speckle.settings import Spatial, Squared

# K² of finely stepped exposures, to the digits that the number of steps leaves; and the share of it that windows see,
# 5 x 5 and 7 x 7, by the pupil's radius.
PUBLISHED_K2 = {0.5: 0.7368, 2.0: 0.3805, 10.0: 0.09555, 50.0: 0.01991, 200.0: 0.00501}
PUBLISHED_SHARES = {0.35: (0.958, 0.976), 0.25: (0.895, 0.941), 0.2: (0.833, 0.904)}


@pytest.mark.parametrize(("x", "k2"), PUBLISHED_K2.items())
def test_expected_contrast_is_the_published_one(x, k2):
    assert expected_k2(x, 320 if x < 100 else 800) == pytest.approx(k2, rel=0.02)


@pytest.mark.parametrize(("rho", "k2"), [(0.5, 0.3639), (0.8, 0.1587)])
def test_expected_contrast_with_light_that_rests(rho, k2):
    assert expected_k2(10, 320, rho=rho) == pytest.approx(k2, rel=3e-3)


def test_expected_contrast_is_the_double_sum():
    n, x = 24, 6.0
    lag = np.abs(np.subtract.outer(range(n), range(n)))
    assert expected_k2(x, n) == pytest.approx(np.exp(-2 * x / n * lag).mean(), rel=1e-12)


def test_expected_contrast_tends_to_that_of_the_continuous_process():
    """(exp(-2x) - 1 + 2x) / (2 x²) for fine steps."""
    x = 4.0
    assert expected_k2(x, 100_000) == pytest.approx((np.exp(-2 * x) - 1 + 2 * x) / (2 * x * x), rel=1e-4)


@pytest.mark.parametrize(("cutoff", "shares"), PUBLISHED_SHARES.items())
def test_what_windows_see_is_the_published_share(cutoff, shares):
    for window, share in zip((5, 7), shares, strict=True):
        assert window_share(window, cutoff) == pytest.approx(share, abs=2e-3)


def test_a_field_is_fully_developed():
    field = SpeckleField((128, 128), 0.25, np.random.default_rng(0))
    light = np.stack([np.abs(field.draw()) ** 2 for _ in range(40)])
    k = light.std(axis=(1, 2)) / light.mean(axis=(1, 2))
    assert light.mean() == pytest.approx(1.0, abs=0.02)
    assert abs(k.mean() - 1) < 4 * k.std() / math.sqrt(40) + 2 / (math.pi * 0.0625 * 128**2)


@pytest.mark.parametrize("rho", [1.0, 0.5])
def test_flow_has_the_expected_contrast(rho):
    x, each = 5.0, []
    for seed in range(12):
        light = flow_frames(np.full((96, 96), x), rho=rho, seed=seed)[0].astype(float)
        each.append(light.var() / light.mean() ** 2)
    error = np.std(each, ddof=1) / math.sqrt(12)
    assert abs(np.mean(each) - expected_k2(x, steps_for(x), rho)) < 4 * error


def test_flow_can_change_from_frame_to_frame():
    x = np.repeat([[[2.0]], [[20.0]]], 4, axis=0) * np.ones((8, 64, 64))
    light = flow_frames(x, seed=3)
    k2 = light.var(axis=(1, 2)) / light.mean(axis=(1, 2)) ** 2
    assert k2[:4].mean() / k2[4:].mean() == pytest.approx(expected_k2(2, 80) / expected_k2(20, 80), rel=0.1)


def test_a_camera_counts():
    rng, even = np.random.default_rng(4), np.full((300, 300), 1.0)
    camera = Camera(mean_adu=400.0, electrons_per_adu=4.0, read_noise_electrons=8.0, dark_adu=50.0)
    picture = camera.expose(even, rng).astype(float)
    variance = 400 / 4 + (8 / 4) ** 2 + 1 / 12
    assert abs(picture.mean() - 450) < 4 * math.sqrt(variance) / 300
    assert picture.var() == pytest.approx(variance, rel=4 * math.sqrt(2) / 300)
    assert Camera(top_adu=255).expose(9 * even, rng).max() == 255


def test_phantoms_that_cannot_be():
    with pytest.raises(InvalidInput, match="take 400 steps"):
        flow_frames(np.full((8, 8), 100.0), steps=50)
    with pytest.raises(InvalidInput, match="give positive numbers"):
        flow_frames(np.zeros((8, 8)))
    with pytest.raises(InvalidInput, match=r"cutoff is 0\.7"):
        flow_frames(np.ones((8, 8)), cutoff=0.7)


@pytest.fixture(scope="module")
def phantom():
    """The sample of three tubes, which takes a second or so."""
    return samples.tube_phantom()


def test_the_sample_of_three_tubes(phantom):
    assert (phantom.frames.dtype, phantom.frames.nbytes) == (np.uint16, 2 * 8 * 224 * 256)
    assert set(np.unique(phantom.x)) == {samples.BACKGROUND, *samples.TUBES}
    np.testing.assert_array_equal(phantom.x, tube_map(phantom.x.shape, samples.BACKGROUND, samples.TUBES))
    assert phantom.k2[phantom.x == 10][0] == expected_k2(10, 160)


def test_the_sample_with_a_step_of_flow():
    made = samples.flow_step()
    tube = made.x[0] == made.x[0].max()
    tube = ndimage.binary_erosion(tube, iterations=4)
    settings = ContrastSettings(mode=Spatial(window=7), index=Squared())
    maps = contrast(made.frames, settings, noise=samples.noise_model(), device="cpu")
    (curve,) = region_curves(maps, {"tube": tube})
    relative = curve.relative(slice(0, samples.STEP_AT))
    exact = float(made.k2[0][tube].mean() / made.k2[-1][tube].mean())
    after = relative[samples.STEP_AT :]
    assert abs(after.mean() - exact) < 4 * math.hypot(1, exact) * after.std() / math.sqrt(len(after)) + 0.01 * exact
    assert relative[: samples.STEP_AT].mean() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("layers", [samples.phantom_layers, samples.step_layers])
def test_samples_are_layers(layers, phantom, monkeypatch):
    monkeypatch.setattr(samples, "tube_phantom", lambda: phantom)
    (truth, truth_words, kind), (frames, words, _) = layers()
    assert kind == "image"
    assert (frames.ndim, frames.dtype, truth.dtype) == (3, np.uint16, np.float32)
    assert words["metadata"][KEY]["exposure_ms"] == samples.EXPOSURE_MS
    assert not truth_words["visible"]
