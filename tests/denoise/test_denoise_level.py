"""The noise of one volume from its finest detail: right in noise alone, and hardly raised by anatomy."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from napari_gpubio.denoise.level import find_level
from napari_gpubio.denoise.samples import fluence_pair
from tests.denoise.samples import folds, magnitudes


def level_of(values, *, is_rician=False, usable=None):
    everywhere = np.ones(values.shape, np.uint8)
    return find_level(values.astype(np.float32), everywhere if usable is None else usable, is_rician=is_rician)


def white(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("shape", [(24, 24, 24), (60, 50, 40), (1, 90, 70), (90, 70, 1), (40, 1, 60), (50, 40, 3)])
@pytest.mark.parametrize("scale", [1.0, 2.0**-60])
def test_white_noise_of_any_shape_and_scale(shape, scale):
    found = level_of(scale * (100 + 3 * white(shape)))
    assert found.sigma.shape == shape
    assert np.median(found.sigma) / scale == pytest.approx(3, rel=0.12)
    assert not found.note(1.0)


@pytest.mark.parametrize(("signal", "tolerance"), [(0.0, 0.06), (10.0, 0.08), (50.0, 0.08)])
def test_magnitudes_have_the_noise_of_their_channels(signal, tolerance):
    values = magnitudes(np.full((40, 40, 40), signal), 2.0, np.random.default_rng(1))
    assert np.median(level_of(values, is_rician=True).sigma) == pytest.approx(2, rel=tolerance)


@pytest.mark.parametrize("sigma", [13.0, 6.5, 3.25])
def test_folds_of_five_voxels_hardly_raise_it(sigma):
    truth, head = folds()
    found = level_of(truth + sigma * white(truth.shape))
    assert 0.9 < np.median(found.sigma[head]) / sigma < 1.4
    assert "so that anatomy is not counted as noise" in found.note(1.0)


def test_noise_that_doubles_across_the_volume():
    sigma = np.linspace(3, 6, 60)[:, None, None] * np.ones((60, 40, 40))
    found = level_of(100 + sigma * white(sigma.shape))
    assert np.abs(found.sigma / sigma - 1).max() < 0.2


def test_a_background_that_was_cut_away_and_a_mask_do_not_count():
    values = 100 + 3 * white((48, 40, 40))
    values[:20] = 0
    assert np.median(level_of(values).sigma) == pytest.approx(3, rel=0.1)
    values[:20], usable = 500 * white((20, 40, 40)), np.ones(values.shape, np.uint8)
    usable[:20] = 0
    assert np.median(level_of(values, usable=usable).sigma) == pytest.approx(3, rel=0.1)


def test_the_noise_of_fluence_is_measured_by_patches():
    pair = fluence_pair()
    whole = pair.half_a + pair.half_b
    depth = np.exp(-0.15 * np.indices((40, 40, 40))[2])
    counts = np.random.default_rng(2).poisson(500 * depth)
    for fluence in (whole, whole[:, :, 16:], pair.half_a[:20, :20, :20], counts):
        found = level_of(fluence)
        assert found.sigma is None
        assert not found.is_doubtful


@pytest.mark.parametrize("width", [0.5, 0.7, (0.0, 0.0, 0.9)])
def test_correlated_noise_is_not_missed_and_said(width):
    noise = gaussian_filter(white((40, 40, 40)), width)
    found = level_of(100 + noise)
    assert 0.45 < np.median(found.sigma) / noise.std() < 1.3
    assert "the image is interpolated" in found.note(1.0)


@pytest.mark.parametrize("values", [np.zeros((20, 20, 20)), np.full((20, 20, 20), 7.0), 9 + white((9, 9, 9))])
def test_where_there_is_nothing_to_be_seen(values):
    assert level_of(values).sigma is None
