"""Largest sums, windows without contrast, and the bits of the mask."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import ContrastSettings, NoiseModel, contrast
from napari_gpubio.speckle import model as validity
from napari_gpubio.speckle.kernels.contrast.problem import Recipe
from napari_gpubio.speckle.settings import EDGES
from tests.speckle.reference import contrast_of

INNER = (slice(2, -2), slice(2, -2))


def recipe(dtype, noise=None, **options):
    return Recipe(
        settings=ContrastSettings(**options), noise=noise or NoiseModel(), shape=(40, 40), dtype=np.dtype(dtype)
    )


def test_the_largest_sums_are_exact(device):
    """Half of the samples 0 and half the largest number: N Q - S² comes next to what 64 bits hold."""
    for frames in (46_000, 46_001):
        stack = np.zeros((frames, 1, 4), np.uint16)
        stack[::2] = 65535
        settings = ContrastSettings(mode="temporal", frames=10_000)
        object.__setattr__(settings, "frames", frames)  # more than the form allows
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
    recipe("u2", mode="spatio-temporal", window=31, frames=48)  # 46 128
    with pytest.raises(InvalidInput, match=r"47,089 samples; sums of 16-bit frames are exact up to 46,341; choose"):
        recipe("u2", mode="spatio-temporal", window=31, frames=49)
    dark = NoiseModel(dark_adu=100.0)
    recipe("u2", dark, mode="temporal", frames=2896)
    with pytest.raises(InvalidInput, match=r"exact up to 2,900 with a dark level"):
        recipe("u2", dark, mode="temporal", frames=2901)
    recipe("f4", mode="spatio-temporal", window=31, frames=49)


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
    settings = ContrastSettings(nonfinite=policy, index=index)
    maps = contrast(np.full((9, 9), 50, np.uint16), settings, baseline=0.1, device=device)
    np.testing.assert_array_equal(maps.index[INNER], np.full((5, 5), value, np.float32))
    assert (maps.contrast[INNER] == 0).all()


@pytest.mark.parametrize("index", ["sfi", "squared", "inverse", "ict", "relative"])
def test_dark_windows_have_no_contrast_and_no_index(index, device):
    maps = contrast(np.zeros((9, 9), np.uint16), ContrastSettings(index=index), baseline=0.1, device=device)
    assert np.isnan(maps.contrast).all()
    assert np.isnan(maps.index).all()
    assert (maps.mask[INNER] == validity.ZERO_MEAN).all()


def test_contrast_is_never_cut_at_one(device):
    frame = np.zeros((9, 9), np.uint8)
    frame[4, 4] = 255
    assert contrast(frame, ContrastSettings(window=9), device=device).contrast[4, 4] == 9


def test_every_bit_of_the_mask(device):
    rng = np.random.default_rng(3)
    frame = rng.integers(500, 1500, (40, 60), np.uint16)
    frame[5:15, 5:15] = 0
    frame[5:15, 25:35] = 700
    frame[25, 10] = 4095
    frame[20:35, 40:55] = rng.integers(10, 60, (15, 15))
    settings = ContrastSettings(window=5, saturation=4095, low_signal=100.0)
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
    assert validity.count_bits(mask)["edge"] == edges.sum()
    assert validity.is_valid(mask, validity.SATURATED).sum() == frame.size - 25


def test_the_noise_bit(device):
    frame = np.random.default_rng(4).integers(995, 1006, (20, 20), np.uint16)
    maps = contrast(frame, ContrastSettings(index="squared"), noise=NoiseModel(gain=0.05), device=device)
    assert (maps.mask[INNER] == validity.BELOW_NOISE).all()
    assert (maps.index[INNER] < 0).all()
    assert np.isnan(maps.contrast[INNER]).all()


def test_saturation_is_the_types_largest_level_unless_given(device):
    frame = np.full((9, 9), 200, np.uint8)
    frame[4, 4] = 255
    settings = ContrastSettings(window=3)
    assert contrast(frame, settings, device=device).mask[4, 4] == validity.SATURATED
    assert contrast(frame.astype(np.uint16), settings, device=device).mask[4, 4] == 0
    assert contrast(frame.astype(np.float32), settings, device=device).mask[4, 4] == 0


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("mode", ["spatial", "temporal", "spatio-temporal"])
def test_a_level_is_held_against_floating_point_frames_too(mode, edges, device):
    """The marks are those of the same frames in integers; the level is that of the camera, dark level included."""
    frames = np.random.default_rng(5).integers(500, 4096, (3, 20, 24), np.uint16)
    frames[1, 0, 5] = frames[2, 12, 23] = 4096
    settings = ContrastSettings(mode=mode, frames=2, edges=edges, saturation=4096)
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
    maps = contrast(frame, ContrastSettings(edges=edges), device=device)
    assert np.isfinite(maps.contrast).all()
    assert ((maps.mask == validity.EDGE) == (np.pad(np.zeros((8, 9)), 2, constant_values=1) > 0)).all()


def test_a_result_without_mask_and_index():
    maps = contrast(np.ones((9, 9), np.uint8), ContrastSettings(mask=False, index="none"), device="cpu")
    assert maps.mask is None
    assert maps.index is None
    assert maps.valid.sum() == 25
