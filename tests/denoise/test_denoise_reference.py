"""The filter against a slow reference in float64, for every option."""

import numpy as np
import pytest

from napari_gpubio.denoise import DenoiseSettings, denoise
from napari_gpubio.denoise.kernels.anlm.calibration import calibrate, disagreement_of
from napari_gpubio.denoise.kernels.anlm.problem import make_windows
from napari_gpubio.denoise.settings import Large, Mixed, Small
from tests.denoise.reference import Reference
from tests.denoise.samples import steps_and_noise

SHAPE = (5, 9, 7)
OPTIONS = {
    "small": {"patches": Small()},
    "large": {"patches": Large(), "search_radius": 1},
    "mixed": {"search_radius": 1},
    "mean of both": {"search_radius": 1, "patches": Mixed(mixing="mean")},
    "wide search": {"patches": Small(), "search_radius": 3},
    "coupe": {"patches": Small(), "preselection": "coupe"},
    "itk": {"patches": Small(), "preselection": "itk"},
    "no pre-selection": {"patches": Small(), "preselection": "none"},
    "largest center": {"patches": Small(), "center": "largest"},
    "cut-off": {"patches": Small(), "cutoff": 1.5, "center": "largest"},
    "skip zeros": {"patches": Small(), "skip_zeros": True},
    "rician": {"search_radius": 1, "noise_model": "rician"},
    "rician-simple": {"search_radius": 1, "noise_model": "rician-simple"},
    "rician, skip zeros": {"patches": Small(), "noise_model": "rician", "skip_zeros": True, "center": "largest"},
}


def check(values, options, *, mask=None, sigma=None, voxel_size_mm=(1, 1, 1), device="cpu"):
    settings = DenoiseSettings(**{"search_radius": 2, **options})
    windows = make_windows(settings, voxel_size_mm)
    calibration, is_mixed = calibrate(windows, settings), len(windows.patches) == 2
    disagreement = disagreement_of(windows, settings) if is_mixed else 0.0
    reference = Reference(values, settings, windows, calibration, mask, sigma, disagreement)
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


SMALL, NEAR = {"patches": Small()}, {"search_radius": 1}
MASK = np.random.default_rng(6).random(SHAPE) < 0.7
SIGMA = 2.0 + 3.0 * np.random.default_rng(7).random(SHAPE)
INPUTS = {
    "short lines along x and y": ((3, 4, 14), 0, SMALL, {}),
    "short lines along y and z": ((13, 3, 5), 0, SMALL, {}),
    "short lines along x and z": ((4, 14, 3), 0, SMALL, {}),
    "bricks side by side": ((9, 13, 5), 0, SMALL | NEAR, {}),
    "bricks along lines": ((3, 3, 58), 0, SMALL | NEAR, {}),
    "long voxels": ((5, 6, 7), 0, {}, {"voxel_size_mm": (1, 1, 2.2)}),
    "one fine axis": ((5, 6, 7), 0, {}, {"voxel_size_mm": (3, 1, 1)}),
    "a mask": (SHAPE, 0, NEAR, {"mask": MASK}),
    "a mask, rician": (SHAPE, 0, SMALL | {"noise_model": "rician"}, {"mask": MASK}),
    **{
        f"known noise, {model}": (SHAPE, 0, NEAR | {"noise_model": model}, {"sigma": SIGMA})
        for model in ("gaussian", "rician", "rician-simple")
    },
    "negative values": (SHAPE, -118.0, SMALL, {}),
}


@pytest.mark.parametrize(("shape", "offset", "options", "known"), INPUTS.values(), ids=INPUTS)
def test_every_input_is_the_reference(shape, offset, options, known):
    check(steps_and_noise(shape, seed=5) + offset, options, **known)
