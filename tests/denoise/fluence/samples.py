"""Fluence whose truth is known, and problems made of it."""

import numpy as np

from napari_gpubio.denoise.fluence import FluenceSettings
from napari_gpubio.denoise.kernels.fluence.problem import FluenceProblem, Guide, limit_of, regions_of

SHORT = FluenceSettings(largest_scale=2.1)  # three scales


def diffuse(shape, k=0.25, distance=6.0, voxel_size_mm=(1, 1, 1)):
    """exp(-k r) / r around a source before the middle of the face z = 0: diffusion in a homogeneous medium."""
    x, y, z = (np.indices(shape) + 0.5) * np.reshape(voxel_size_mm, (3, 1, 1, 1))
    cx, cy = shape[0] * voxel_size_mm[0] / 2, shape[1] * voxel_size_mm[1] / 2
    r = np.sqrt((x - cx) ** 2 + (y - cy) ** 2 + (z + distance) ** 2)
    return np.exp(-k * r) / r


def poisson_halves(truth, counts, seed=0):
    """Two half-buffers with shot noise; ``counts`` in the brightest voxel of each."""
    rng, per_count = np.random.default_rng(seed), truth.max() / counts
    return tuple(rng.poisson(truth / per_count) * per_count for _ in range(2))


def problem_of(
    halves,
    settings=SHORT,
    labels=None,
    mask=None,
    mueff_per_mm=None,
    voxel_size_mm=(1.0, 1.0, 1.0),
    guide=None,
    tissues=None,
):
    """A problem as ``run.py`` makes it."""
    return FluenceProblem(
        halves=halves,
        regions=regions_of(labels, mask),
        is_masked=mask is not None,
        limit=limit_of(mueff_per_mm, settings, halves[0].shape),
        voxel_size_mm=voxel_size_mm,
        settings=settings,
        guide=None if guide is None else Guide(guide, guide.max()),
        tissues=regions_of(tissues, mask),
    )
