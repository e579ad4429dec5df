"""Calibration of the filter's local measure of noise.

The filter measures noise by the least mean squared difference between residual patches (image minus local mean) of a
voxel and its candidates (Manjon et al. 2010). In white noise of variance 1 that is 0.84 for patch radius 1 and 1.37 for
radius 2 with search radius 3, and another number for other windows; `calibrate` returns it. Where pre-selection leaves
few candidates the least of them is larger: at a signal / noise of 4 the seed's rule makes the measured variance up to
10 % too large. For magnitudes with less than that, choose no pre-selection, or give the noise.
"""

import functools

import numpy as np

from napari_gpubio.denoise.kernels.anlm.problem import NOTHING, Problem, Windows
from napari_gpubio.denoise.settings import DenoiseSettings

# By patch radius, for search radius 1 to 5: means over at least 200 000 voxels of white noise; standard error 0.3 %.
_MEASURED = {1: (1.237, 0.948, 0.844, 0.778, 0.732), 2: (1.654, 1.433, 1.366, 1.317, 1.285)}
_SIDE = 32  # voxels of the volume that is tried for other windows


def calibrate(windows: Windows, settings: DenoiseSettings) -> tuple[float, ...]:
    """Mean of the local measure of noise in white noise of variance 1, for each patch."""
    search = windows.search[0]
    is_known = windows.search == (search,) * 3 and search <= 5 and settings.preselection != "coupe"
    if is_known and all(patch == (patch[0],) * 3 for patch in windows.patches):
        return tuple(_MEASURED[patch[0]][search - 1] for patch in windows.patches)
    return simulate_measure(windows, settings.preselection)


@functools.lru_cache(maxsize=64)
def simulate_measure(windows: Windows, preselection: str) -> tuple[float, ...]:
    """Filter white noise of variance 1 and return the mean measure of noise; standard error about 1 %."""
    from napari_gpubio.denoise.kernels.anlm import cpu

    margins = [search + patch for search, patch in zip(windows.search, windows.largest_patch, strict=True)]
    values = 100.0 + np.random.default_rng(1).standard_normal([_SIDE + 2 * margin for margin in margins])
    problem = Problem(
        values=values.astype(np.float32),
        usable=np.ones(values.shape, np.uint8),
        windows=windows,
        settings=DenoiseSettings(preselection=preselection),
        calibration=(1.0,) * len(windows.patches),
    )
    run = cpu.Run(problem)
    run.advance(0, problem.bricks)
    inner = tuple(slice(margin, margin + _SIDE) for margin in margins)
    sums = [s[inner].astype(np.float64) for s in run.snapshot().sums]
    return tuple(float(s[s < NOTHING / 2].mean()) / n for s, n in zip(sums, windows.patch_sizes, strict=True))
