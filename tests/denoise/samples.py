"""Small volumes to denoise."""

import numpy as np
from scipy.ndimage import gaussian_filter

from napari_gpubio.denoise import DenoiseSettings
from napari_gpubio.denoise.kernels.anlm.calibration import make_problem
from napari_gpubio.denoise.kernels.anlm.problem import make_windows


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


PEAK = 130.0  # brightest tissue of the folds


def folds(shape=(56, 56, 32), width=2.2, seed=3):
    """A head whose gray and white matter are folds of some five voxels, with vessels and a skull, and where it is."""
    rng = np.random.default_rng(seed)
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij")
    depth = np.sqrt((x / 0.92) ** 2 + (y / 0.85) ** 2 + (z / 1.1) ** 2)
    waves = gaussian_filter(rng.normal(size=shape), width)
    tissue = 95 + 30 * np.tanh(6 * (waves / waves.std() + 0.8 * (0.55 - depth)))
    truth = np.select([depth < 0.86, (depth > 0.88) & (depth < 0.95), depth < 1], [tissue, 12.0, 60.0], 0.0)
    for _ in range(10):
        a, b = rng.uniform(-0.6, 0.6, 2)
        truth[(np.hypot(x - a - 0.2 * z, y - b) < 0.035) & (depth < 0.86)] = 190
    return truth * (1 + 0.1 * x), depth < 1


def magnitudes(truth, sigma, rng):
    """Magnitudes with Rician noise."""
    return np.hypot(truth + sigma * rng.normal(size=truth.shape), sigma * rng.normal(size=truth.shape))
