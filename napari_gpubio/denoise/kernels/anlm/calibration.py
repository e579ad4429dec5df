"""What the filter measures in white noise, by which it knows its own: a table, or a simulation for other windows.

The filter measures noise by the least mean squared difference between residual patches (image minus local mean) of a
voxel and its candidates (Manjon et al. 2010). In white noise of variance 1 that is 0.84 for patch radius 1 and 1.37
for radius 2 with search radius 3, and another number for other windows. Where pre-selection leaves few candidates
the least of them is larger: at a signal / noise of 4 that rule makes the measured variance up to 10 % too large. For
magnitudes with less than that, choose no pre-selection, or give the noise.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.denoise.kernels.anlm.problem import NOTHING, Float, NoiseGrid, Problem, Triple, Windows, make_windows
from napari_gpubio.denoise.settings import DenoiseSettings

# By number of axes and patch radius, for search radius 1 to 5: means over at least 200 000 voxels of white noise;
# standard error 0.3 %.
_MEASURED = {
    (3, 1): (1.237, 0.948, 0.844, 0.778, 0.732),
    (3, 2): (1.654, 1.433, 1.366, 1.317, 1.285),
    (2, 1): (1.139, 0.667, 0.531, 0.460, 0.415),
    (2, 2): (1.508, 1.048, 0.927, 0.855, 0.807),
}
# The same for the difference of both estimates where the noise is known, by number of axes.
_DISAGREEMENT = {3: (0.0140, 0.0127, 0.0125, 0.0125, 0.0124), 2: (0.0095, 0.0082, 0.0079, 0.0078, 0.0078)}
_SIDE = 32  # voxels of the volume that is tried for other windows


def make_problem(
    values: npt.NDArray[np.floating],
    settings: DenoiseSettings,
    windows: Windows | None = None,
    *,
    usable: npt.NDArray[np.uint8] | None = None,
    variance: Float | NoiseGrid | None = None,
    calibration: tuple[float, ...] | None = None,
) -> Problem:
    """The problem of a scaled volume: by default with windows for cubic voxels, all of which are filtered."""
    windows = windows or make_windows(settings)
    is_known, is_mixed = variance is not None, len(windows.patches) == 2
    return Problem(
        values=np.ascontiguousarray(values, np.float32),
        usable=np.ones(values.shape, np.uint8) if usable is None else usable,
        windows=windows,
        settings=settings,
        variance=variance,
        calibration=() if is_known else calibration or calibrate(windows, settings),
        disagreement=disagreement_of(windows, settings) if is_known and is_mixed else 0.0,
    )


def calibrate(windows: Windows, settings: DenoiseSettings) -> tuple[float, ...]:
    """Mean of the local measure of noise in white noise of variance 1, for each patch."""
    axes, reach = _tabulated(windows, settings)
    if reach:
        return tuple(_MEASURED[axes, radius][reach - 1] for radius in settings.radii)
    return simulate_measure(windows, settings.preselection)


def disagreement_of(windows: Windows, settings: DenoiseSettings) -> float:
    """Mean square of the difference of both patches' estimates in white noise of known variance 1."""
    axes, reach = _tabulated(windows, settings)
    return _DISAGREEMENT[axes][reach - 1] if reach else simulate_disagreement(windows, settings.preselection)


def _tabulated(windows: Windows, settings: DenoiseSettings) -> tuple[int, int]:
    """Along how many axes windows that are tabulated reach, and how far candidates are searched for; else 0."""
    (axes, reach), *patches = map(_isotropic, (windows.search, *windows.patches))
    is_usual = patches == [(axes, radius) for radius in settings.radii] and settings.preselection != "coupe"
    return (axes, reach) if is_usual and axes in _DISAGREEMENT and reach <= len(_DISAGREEMENT[axes]) else (0, 0)


def _in_order(windows: Windows) -> Windows:
    """The windows with their axes in order of their radii."""
    axes = sorted(range(3), key=lambda axis: [radii[axis] for radii in (windows.search, *windows.patches, windows.box)])

    def ordered(radii: Triple) -> Triple:
        return radii[axes[0]], radii[axes[1]], radii[axes[2]]

    return Windows(tuple(map(ordered, windows.patches)), ordered(windows.search), ordered(windows.box))


def _isotropic(radii: Triple) -> tuple[int, int]:
    """Along how many axes a window reaches, and how far; 0 if not equally far."""
    reached = [radius for radius in radii if radius]
    return len(reached), reached[0] if len(set(reached)) == 1 else 0


@lru_cache(maxsize=64)
def simulate_measure(windows: Windows, preselection: str) -> tuple[float, ...]:
    """Filter white noise of variance 1 and return the mean measure of noise; standard error about 1 %."""
    found, _ = _of_noise(windows, preselection)
    return tuple(float(s[s < NOTHING / 2].mean()) / n for s, n in zip(found, windows.patch_sizes, strict=True))


@lru_cache(maxsize=64)
def simulate_disagreement(windows: Windows, preselection: str) -> float:
    """Filter white noise of variance 1, which is known, and compare both estimates; standard error about 2 %."""
    _, (small, large) = _of_noise(windows, preselection, variance=1.0)
    return float(np.square(large - small).mean())


def _of_noise(windows: Windows, preselection: str, variance: float | None = None) -> tuple[Any, Any]:
    """Sums and estimates of white noise of variance 1, where windows lie inside; the same in whatever order of axes."""
    from napari_gpubio.denoise.kernels.anlm import cpu

    windows = _in_order(windows)
    margins = [search + patch for search, patch in zip(windows.search, windows.largest_patch, strict=True)]
    values = 100.0 + np.random.default_rng(1).standard_normal([_SIDE + 2 * margin for margin in margins])
    problem = Problem(
        values=values.astype(np.float32),
        usable=np.ones(values.shape, np.uint8),
        windows=windows,
        settings=DenoiseSettings(preselection=preselection),
        variance=None if variance is None else np.full(values.shape, variance, np.float32),
    )
    run = cpu.Run(problem)
    run.advance(0, problem.items)
    found, inner = run.snapshot(), tuple(slice(margin, margin + _SIDE) for margin in margins)
    sums, estimates = (array[(slice(None), *inner)].astype(np.float64) for array in (found.sums, found.estimates))
    return sums, estimates
