"""The filter against a slow reference in float64, for every option."""

import numpy as np
import pytest

from napari_gpubio.denoise import DenoiseSettings, denoise
from napari_gpubio.denoise.kernels.anlm.problem import calibrate, make_windows
from tests.denoise.reference import Reference
from tests.denoise.samples import steps_and_noise

SHAPE = (5, 9, 7)
OPTIONS = {
    "small": {"patches": "small"},
    "large": {"patches": "large", "search_radius": 1},
    "mixed": {"search_radius": 1},
    "mean of both": {"search_radius": 1, "mixing": "mean"},
    "wide search": {"patches": "small", "search_radius": 3},
    "coupe": {"patches": "small", "preselection": "coupe"},
    "itk": {"patches": "small", "preselection": "itk"},
    "no pre-selection": {"patches": "small", "preselection": "none"},
    "largest center": {"patches": "small", "center": "largest"},
    "cut-off": {"patches": "small", "cutoff": 1.5, "center": "largest"},
    "skip zeros": {"patches": "small", "skip_zeros": True},
    "rician": {"search_radius": 1, "noise_model": "rician"},
    "rician-simple": {"search_radius": 1, "noise_model": "rician-simple"},
    "rician, skip zeros": {"patches": "small", "noise_model": "rician", "skip_zeros": True, "center": "largest"},
}


def check(values, options, *, mask=None, sigma=None, voxel_size_mm=(1, 1, 1), device="cpu"):
    settings = DenoiseSettings(**{"search_radius": 2, **options})
    windows = make_windows(settings, voxel_size_mm)
    reference = Reference(values, settings, windows, calibrate(windows, settings), mask, sigma)
    image, noise = reference.run()
    found = denoise(values, settings, mask=mask, noise=sigma, voxel_size_mm=voxel_size_mm, device=device)
    assert found.complete
    assert np.abs(image - values).max() > 1  # something was done
    np.testing.assert_allclose(found.image, image, rtol=1e-5, atol=1e-5)
    expected = noise if sigma is None else np.where(reference.usable, sigma, 0)
    np.testing.assert_allclose(found.noise, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_option_is_the_reference(options):
    check(steps_and_noise(SHAPE, seed=1, empty=0.05), options)


@pytest.mark.parametrize("shape", [(3, 4, 14), (13, 3, 5), (4, 14, 3)])
def test_awkward_shapes(shape):
    check(steps_and_noise(shape, seed=2), {"patches": "small"})


def test_bricks_join_without_a_seam():
    check(steps_and_noise((9, 13, 5), seed=3), {"patches": "small", "search_radius": 1})
    check(steps_and_noise((3, 3, 58), seed=4), {"patches": "small", "search_radius": 1})


@pytest.mark.parametrize("voxel_size_mm", [(1, 1, 2.2), (3, 1, 1)])
def test_anisotropic_voxels(voxel_size_mm):
    check(steps_and_noise((5, 6, 7), seed=5), {}, voxel_size_mm=voxel_size_mm)


def test_a_mask_keeps_the_rest_out():
    mask = np.random.default_rng(6).random(SHAPE) < 0.7
    check(steps_and_noise(SHAPE, seed=6), {"search_radius": 1}, mask=mask)
    check(steps_and_noise(SHAPE, seed=6), {"patches": "small", "noise_model": "rician"}, mask=mask)


@pytest.mark.parametrize("noise_model", ["gaussian", "rician", "rician-simple"])
def test_a_known_noise_map(noise_model):
    sigma = 2.0 + 3.0 * np.random.default_rng(7).random(SHAPE)
    check(steps_and_noise(SHAPE, seed=7), {"search_radius": 1, "noise_model": noise_model}, sigma=sigma)


def test_negative_values_are_kept_in_gaussian_noise():
    check(steps_and_noise(SHAPE, seed=8) - 118.0, {"patches": "small"})
