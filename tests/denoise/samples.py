"""Small volumes to denoise."""

import numpy as np

from napari_gpubio.denoise import DenoiseSettings
from napari_gpubio.denoise.kernels.anlm.problem import make_problem, make_windows


def steps_and_noise(shape, seed=0, sigma=4.0, empty=0.0):
    """Two flat halves (100 and 140), a slow wave, white noise, and a share of empty voxels."""
    rng = np.random.default_rng(seed)
    x, y, z = np.indices(shape)
    truth = np.where(x + y > sum(shape[:2]) / 2, 140.0, 100.0) + 5 * np.sin(0.7 * z)
    noisy = np.abs(truth + sigma * rng.normal(size=shape))
    return np.where(rng.random(shape) < empty, 0.0, noisy)


def problem_of(values, settings=None, usable=None, variance=None, voxel_size_mm=(1, 1, 1), **more):
    """A problem with values as they are."""
    settings = settings or DenoiseSettings()
    windows, usable = make_windows(settings, voxel_size_mm), None if usable is None else usable.astype(np.uint8)
    return make_problem(values, settings, windows, usable=usable, variance=variance, **more)
