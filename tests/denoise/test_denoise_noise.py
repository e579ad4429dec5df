"""The noise of a series across its volumes, and noise that one volume alone cannot tell from anatomy."""

import dataclasses

import nibabel as nib
import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.denoise import DenoiseSettings, denoise, noise
from tests.denoise.samples import magnitudes

RICIAN = DenoiseSettings(noise_model="rician", search_radius=2)
SHAPE = (20, 18, 14)


def scan(sigma, volumes=30, shape=SHAPE, seed=0, level=1000.0):
    """A diffusion scan with fibers of all directions: its truth, and its magnitudes."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(volumes, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    fibers = np.stack([gaussian_filter(rng.normal(size=shape), 2) for _ in range(3)], -1)
    fibers /= np.linalg.norm(fibers, axis=-1)[..., None]
    brightness = level * np.clip(1 + gaussian_filter(rng.normal(size=shape), 1), 0.3, 2)
    truth = brightness[..., None] * np.exp(-0.4 - 1.1 * (fibers @ directions.T) ** 2)
    truth[..., 0] = brightness
    return truth, magnitudes(truth, sigma, rng)


@pytest.mark.parametrize("sigma", [30.0, 100.0, 300.0])
def test_it_is_found_in_fine_anatomy_at_any_signal_to_noise(sigma):
    """7 %: signal that leaks in, and noise that signal takes along."""
    found = noise.estimate(scan(sigma)[1])
    assert found.sigma == pytest.approx(sigma, rel=0.07)
    assert found.percentiles[0] < found.sigma < found.percentiles[1]
    assert not found.notes


def test_air_does_not_count_and_neither_does_what_is_cut_away():
    truth, values = scan(50.0, shape=(30, 18, 14))
    values[:10] = 0
    assert noise.estimate(values).sigma == pytest.approx(50, rel=0.05)
    air = magnitudes(np.zeros_like(truth[:10]), 50.0, np.random.default_rng(1))
    assert noise.estimate(np.concatenate([air, values[10:]])).sigma == pytest.approx(50, rel=0.05)
    assert noise.estimate(air).sigma == pytest.approx(50, rel=0.1), "even there the floor is known"


def test_the_same_numbers_every_time_and_in_any_unit():
    values = scan(50.0)[1]
    once, scaled = noise.estimate(values), noise.estimate(2.0**-40 * values)
    assert noise.estimate(values).sigma == once.sigma
    assert scaled.sigma * 2.0**40 == pytest.approx(once.sigma, rel=1e-9)


def test_the_map_follows_noise_that_varies_and_one_number_says_so():
    truth, _ = scan(0.0, shape=(32, 18, 14))
    level = np.where(np.arange(32) < 16, 30.0, 120.0)[:, None, None]
    found = noise.estimate(magnitudes(truth, level[..., None], np.random.default_rng(2)), wants_map=True)
    assert found.map is not None
    assert found.map.shape == (32, 18, 14)
    assert np.median(found.map[:12]) == pytest.approx(30, rel=0.1)
    assert np.median(found.map[20:]) == pytest.approx(120, rel=0.1)
    assert any("not the same everywhere" in note for note in found.notes)


@pytest.mark.parametrize(
    ("shape", "sides"),
    [
        ((96, 96, 60, 33), (5, 5, 5)),
        ((96, 96, 60, 280), (7, 7, 7)),
        ((96, 96, 3, 60), (5, 5, 3)),
        ((5, 5, 5, 280), (5, 5, 5)),
    ],
)
def test_blocks_hold_as_many_voxels_as_there_are_volumes_where_they_can(shape, sides):
    assert noise.block_sides(shape) == sides


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ones(SHAPE), "series"),
        (np.ones((*SHAPE, 9)), "at least 10"),
        (np.ones((*SHAPE, 12)), "no noise"),
        (np.full((*SHAPE, 12), np.nan), "not finite"),
        (np.full((*SHAPE, 12), 1j), "real"),
        (np.zeros((*SHAPE, 12)), "tissue"),
    ],
)
def test_what_cannot_be_used_is_a_sentence(values, words):
    with pytest.raises(InvalidInput, match=words):
        noise.estimate(values)


def test_a_series_has_one_noise_and_keeps_its_means():
    truth, values = scan(60.0, volumes=10, shape=(16, 16, 14))
    result = denoise(values, RICIAN, device="cpu")
    assert result.parameters["noise"] == "estimated across volumes"
    assert np.unique(result.noise).size == 1
    assert result.noise[0, 0, 0, 0] == noise.estimate(values).sigma == pytest.approx(60, rel=0.08)
    alone = np.stack([denoise(values[..., n], RICIAN, device="cpu").image for n in range(10)], -1)
    shifts = [abs(image.mean((0, 1, 2)) / truth.mean((0, 1, 2)) - 1).mean() for image in (result.image, alone)]
    assert shifts[0] < 0.005
    assert shifts[1] > 2 * shifts[0]
    given = denoise(values[..., :2], RICIAN, noise=noise.estimate(values), device="cpu")
    np.testing.assert_array_equal(given.image, result.image[..., :2])
    assert given.notes == result.notes


@pytest.mark.parametrize("model", ["gaussian", "rician-simple"])
def test_other_models_look_at_each_volume_as_before(model):
    values = scan(60.0, volumes=10, shape=(10, 9, 8))[1]
    settings = DenoiseSettings(noise_model=model, search_radius=1)
    result = denoise(values, settings, device="cpu")
    np.testing.assert_array_equal(result.image[..., 3], denoise(values[..., 3], settings, device="cpu").image)
    assert result.parameters["noise"] == "estimated"
    assert not any("too few" in note for note in result.notes)


def test_few_volumes_are_looked_at_alone_which_is_said():
    values = scan(100.0, volumes=3)[1]
    result = denoise(values, RICIAN, device="cpu")
    assert any("3 volumes are too few" in note for note in result.notes)


@pytest.mark.parametrize("model", ["gaussian", "rician"])
def test_anatomy_that_is_not_noise_is_said(model):
    """A smooth wave of a few voxels: no two patches of the volume are alike, but its finest detail is noise."""
    place = np.indices((24, 24, 24)).astype(float)
    wavy = 1000 + 400 * np.prod([np.sin(2.1 * place[axis] ** 1.1 / (axis + 2)) for axis in range(3)], axis=0)
    values = magnitudes(wavy, 5.0, np.random.default_rng(3))
    settings = DenoiseSettings(noise_model=model, search_radius=2)
    (note,) = denoise(values, settings, device="cpu").notes
    assert "its anatomy is fine everywhere" in note
    (note,) = denoise(values, dataclasses.replace(settings, noise_from="patches"), device="cpu").notes
    assert "anatomy was counted as noise" in note
    assert not denoise(values, settings, noise=5.0, device="cpu").notes


@pytest.mark.parametrize("model", ["gaussian", "rician"])
def test_interpolated_noise_is_filtered_and_said(model):
    values = gaussian_filter(magnitudes(np.full((30, 28, 26), 100.0), 5.0, np.random.default_rng(5)), 0.7)
    result = denoise(values, DenoiseSettings(noise_model=model), device="cpu")
    (note,) = result.notes
    assert "the image is interpolated" in note
    assert result.image.std() < 0.75 * values.std()
    assert result.image.mean() == pytest.approx(values.mean(), rel=0.002)


@pytest.mark.parametrize("level", [0.0, 5.0, 20.0, 200.0])
def test_plain_noise_is_not_doubted(level):
    values = magnitudes(np.full((24, 24, 24), level), 5.0, np.random.default_rng(4))
    assert not denoise(values, RICIAN, device="cpu").notes


def test_a_real_scan_shifts_no_mean(shared_data):
    """Each volume of its own would be 4.9 % darker (b = 0) and 3.8 % (b = 1000)."""
    folder = shared_data / "dwi" / "whole_brain_b1000"
    values, brain = (np.asarray(nib.load(folder / name).dataobj) for name in ("dwi.nii.gz", "nodif_brain_mask.nii.gz"))
    found = noise.estimate(values, mask=brain)
    assert found.sigma == pytest.approx(138, abs=3)  # MRtrix 137, DIPY 134
    box = (slice(20, 52), slice(25, 60), slice(28, 46))
    inside = brain[box] != 0
    part = values[box][..., [0, 7]]
    result = denoise(part, DenoiseSettings(noise_model="rician"), mask=inside, noise=found, device="cpu")
    shifts = result.image[inside].mean(0, dtype=float) / part[inside].mean(0, dtype=float) - 1
    assert np.abs(shifts).max() < 0.005
