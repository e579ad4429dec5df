"""The filter as a whole: what must hold whatever the image."""

import threading

import numpy as np
import pytest

from napari_gpubio.denoise import DenoiseSettings, denoise, denoise_steps
from napari_gpubio.denoise.settings import Small
from tests.denoise.samples import steps_and_noise
from tests.runs import check_threads_change_nothing, finished, stopped

QUICK = DenoiseSettings(search_radius=1)
SINGLE = DenoiseSettings(search_radius=2, patches=Small())


@pytest.mark.parametrize(
    ("value", "noise_model"),
    [(7.3, "gaussian"), (1e-16, "gaussian"), (-3.0, "gaussian"), (12345.0, "rician"), (0.7, "rician-simple")],
)
def test_constant_in_constant_out(value, noise_model):
    image = np.full((8, 9, 7), value)
    result = denoise(image, DenoiseSettings(noise_model=noise_model), device="cpu")
    np.testing.assert_allclose(result.image, image, rtol=3e-7)
    assert result.noise.max() < 1e-6 * abs(value)


@pytest.mark.parametrize("factor", [1e-16, 1e-3, 1e4, 2.0**40])
def test_the_scale_of_the_image_does_not_matter(factor):
    image = steps_and_noise((9, 8, 10), seed=1, empty=0.1).astype(np.float32)
    plain, scaled = (denoise(image * np.float32(f), QUICK, device="cpu") for f in (1.0, factor))
    assert scaled.image.dtype == np.float32
    np.testing.assert_allclose(scaled.image, factor * plain.image, rtol=3e-6)
    np.testing.assert_allclose(scaled.noise, factor * plain.noise, rtol=3e-5)
    if factor == 2.0**40:
        np.testing.assert_array_equal(scaled.image, factor * plain.image)


def test_twenty_decades_in_one_volume_stay_finite():
    image = np.exp(-1.2 * np.indices((40, 6, 6))[0]) * (1 + 0.1 * np.random.default_rng(2).normal(size=(40, 6, 6)))
    image[0, 0, 0] = 1e12
    result = denoise(image * 1e-8, QUICK, device="cpu")
    assert np.isfinite(result.image).all()
    assert (result.image > 0).all()


@pytest.mark.parametrize("flipped", [(0,), (1,), (2,), (0, 1, 2)])
def test_flips_commute_for_a_single_radius(flipped):
    image = steps_and_noise((9, 8, 11), seed=3)
    turned = denoise(np.flip(image, flipped), SINGLE, device="cpu").image
    np.testing.assert_allclose(np.flip(turned, flipped), denoise(image, SINGLE, device="cpu").image, rtol=2e-6)


@pytest.mark.parametrize("order", [(1, 2, 0), (2, 1, 0), (0, 2, 1)])
def test_permutations_of_the_axes_commute_for_a_single_radius(order):
    image = steps_and_noise((9, 8, 11), seed=4)
    sizes = np.array([1.0, 2.2, 1.0])
    expected = denoise(image, SINGLE, voxel_size_mm=sizes, device="cpu").image.transpose(order)
    found = denoise(image.transpose(order), SINGLE, voxel_size_mm=sizes[list(order)], device="cpu").image
    np.testing.assert_allclose(found, expected, rtol=2e-6)


@pytest.mark.parametrize("count", [1, 3])
def test_chunks_change_no_bit(count, monkeypatch, in_chunks_of):
    image = steps_and_noise((17, 50, 9), seed=5)
    expected = denoise(image, QUICK, device="cpu")
    monkeypatch.setattr("napari_gpubio.core.chunks.CHUNK_SECONDS", 1e-9)
    in_chunks_of(count)
    steps, found = finished(denoise_steps(image, QUICK, device="cpu"))
    assert len(steps) >= 9 // count
    np.testing.assert_array_equal(found.image, expected.image)
    np.testing.assert_array_equal(found.noise, expected.noise)


def test_threads_change_no_bit(request):
    image = steps_and_noise((17, 25, 9), seed=6)
    check_threads_change_nothing(
        request, lambda: denoise(image, QUICK, device="cpu").image, np.testing.assert_array_equal
    )


def test_a_piece_with_its_halo_is_filtered_as_the_whole():
    image = steps_and_noise((26, 8, 8), seed=7)
    piece = denoise(image[: 9 + 5], SINGLE, device="cpu").image  # search, patch and box: 2 + 1 + 1, and a spare
    np.testing.assert_allclose(piece[:9], denoise(image, SINGLE, device="cpu").image[:9], rtol=2e-6)


def test_a_series_is_denoised_volume_by_volume():
    series = np.stack([steps_and_noise((8, 7, 9), seed=n) * 10.0**n for n in range(3)], axis=-1)
    noise = np.array([4.0, 40.0, 400.0])
    steps = []
    whole = denoise(series, QUICK, noise=noise, device="cpu", progress=steps.append)
    fractions = [step.fraction for step in steps]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    for n in range(3):
        np.testing.assert_array_equal(
            whole.image[..., n], denoise(series[..., n], QUICK, noise=noise[n], device="cpu").image
        )
    assert whole.image.shape == whole.noise.shape == series.shape
    np.testing.assert_array_equal(whole.noise[..., 1], 40.0)
    one_map = denoise(series, QUICK, noise=np.full((8, 7, 9), 4.0), device="cpu")
    np.testing.assert_array_equal(one_map.image[..., 0], whole.image[..., 0])


def test_a_mask_leaves_the_rest_as_it_was():
    image = steps_and_noise((9, 8, 10), seed=8)
    mask = np.zeros(image.shape, bool)
    mask[2:7, 2:6, 3:8] = True
    result = denoise(image, QUICK, mask=mask, device="cpu")
    np.testing.assert_array_equal(result.image[~mask], image[~mask])
    assert (result.image[mask] != image[mask]).all()
    assert not result.noise[~mask].any()
    assert result.parameters["masked"] is True


def test_stopping_keeps_what_was_done(in_chunks_of):
    in_chunks_of(1)
    image, stop = steps_and_noise((25, 13, 9), seed=9), threading.Event()
    result = stopped(denoise_steps(image, SINGLE, device="cpu", stop=stop), stop, after=2)
    whole = denoise(image, SINGLE, device="cpu")
    assert not result.complete
    np.testing.assert_array_equal(result.image[:8], whole.image[:8])
    np.testing.assert_array_equal(result.image[16:], image[16:])
    assert not result.noise[16:].any()


def test_stopping_a_series_keeps_its_first_volumes():
    series, stop = np.stack([steps_and_noise((8, 7, 9), seed=n) for n in range(3)], axis=-1), threading.Event()
    result = stopped(denoise_steps(series, SINGLE, device="cpu", stop=stop), stop, after=1)
    assert not result.complete
    np.testing.assert_array_equal(result.image[..., 0], denoise(series[..., 0], SINGLE, device="cpu").image)
    np.testing.assert_array_equal(result.image[..., 1:], series[..., 1:])


def test_the_result_says_how_it_was_made():
    image = np.arange(8 * 7 * 9).reshape(8, 7, 9)
    result = denoise(image, SINGLE, device="cpu")
    assert result.notes == ("the image's int64 values were converted to float32",)
    assert result.image.dtype == result.noise.dtype == np.float32
    assert result.parameters["denoising"]["search_radius"] == 2
    assert result.parameters["noise"] == "estimated"
    assert denoise(image.astype(float), SINGLE, device="cpu").image.dtype == np.float64


def test_the_input_is_not_touched_and_not_given_back():
    image = steps_and_noise((8, 7, 9))
    before = image.copy()
    stop = threading.Event()
    stop.set()
    _, unbegun = finished(denoise_steps(image, QUICK, device="cpu", stop=stop))
    for result in (denoise(image, QUICK, device="cpu"), unbegun):
        np.testing.assert_array_equal(image, before)
        assert not np.shares_memory(result.image, image)
        assert not np.shares_memory(result.image, result.noise)
    assert not unbegun.complete
    np.testing.assert_array_equal(unbegun.image, image)
    assert not unbegun.noise.any()


def test_zero_voxels_do_not_raise_the_mean():
    """Poisson counts of mean 0.7: with empty voxels in the averages the mean stays, without them it cannot."""
    counts = np.random.default_rng(10).poisson(0.7, (20, 20, 20)).astype(float)
    kept, skipped = (denoise(counts, DenoiseSettings(skip_zeros=s), device="cpu").image for s in (False, True))
    standard_error = counts.std() / np.sqrt(counts.size)
    assert skipped.mean() > counts.mean() + 10 * standard_error
    assert abs(kept.mean() - counts.mean()) < 0.1 * (skipped.mean() - counts.mean())


def test_signal_to_noise():
    result = denoise(100 + 5 * np.random.default_rng(11).normal(size=(16, 16, 16)), device="cpu")
    assert result.signal_to_noise_db == pytest.approx(26.0, abs=0.5)  # 20 log10(100 / 5)
