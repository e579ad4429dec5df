"""Gain and bias of a filter over independent runs, by the signal / noise of the raw fluence.

All figures are in dB of 20 log10 of fluence over its standard deviation. Noise is the spread over runs, never a model.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from common import Array, Row
from scipy import ndimage

BINS = ((0, 10), (10, 20), (20, 30), (30, 60))  # dB of the raw fluence
WHOLE = (0, 60)
FEWEST_VOXELS = 200  # a bin with fewer is left empty
EFFECTIVE_DB = 3.0  # the paper's "effective region": voxels whose gain is larger
_SMOOTHING = 1.5  # voxels; a variance over few runs says little by itself


class Tally:
    """Mean, variance and squared error of a volume over runs."""

    def __init__(self, truth: Array) -> None:
        self.count = 0
        self.mean, self._squares, self._errors = (np.zeros(truth.shape) for _ in range(3))
        self.always_positive = np.ones(truth.shape, bool)
        self._truth = truth

    def add(self, volume: Array) -> None:
        """Take in a run (Welford's update, so that nothing cancels)."""
        self.count += 1
        deviation = volume - self.mean
        self.mean += deviation / self.count
        self._squares += deviation * (volume - self.mean)
        self._errors += (volume - self._truth) ** 2
        self.always_positive &= volume > 0

    @property
    def variance(self) -> Array:
        """Unbiased variance over the runs; at least two are needed."""
        return self._squares / (self.count - 1)

    @property
    def mean_square_error(self) -> Array:
        """Mean squared distance from the truth."""
        return self._errors / self.count


class Figures(NamedTuple):
    """What a filter does in one bin; dB."""

    voxels: int  # how many there are
    gain: float  # of signal / noise, from relative variances pooled over the bin
    bias: float  # 20 log10 of the mean ratio to the truth
    error_gain: float  # of the relative mean squared error, which sees variance and bias together
    median_gain: float  # median over voxels of their own gains, as in the paper
    median_effective: float  # the same over voxels that gain more than 3 dB


def symmetrised(volume: Array) -> Array:
    """Mean over the eight mirrorings and swaps of the first two axes, under which the domains do not change."""
    volume = (volume + volume[::-1]) / 2
    volume = (volume + volume[:, ::-1]) / 2
    return (volume + np.swapaxes(volume, 0, 1)) / 2


def signal_to_noise(raw: Tally, truth: Array) -> Array:
    """Signal / noise of the raw runs in dB, smoothed; -99 where a run has no light, or the truth is not known."""
    known = raw.always_positive & (truth > 0)
    known = symmetrised(known.astype(float)) > 0.99
    relative = symmetrised(raw.variance) / np.where(known, truth, 1.0) ** 2
    logarithm = np.where(known, np.log10(np.where(known & (relative > 0), relative, 1.0)), 0.0)
    weight = ndimage.gaussian_filter(known.astype(float), _SMOOTHING)
    smooth = ndimage.gaussian_filter(logarithm, _SMOOTHING) / np.maximum(weight, 1e-6)
    return np.where(known, -10.0 * smooth, -99.0)


def figures_of(filtered: Tally, raw: Tally, truth: Array, where: Array) -> Figures:
    """Figures in some voxels."""
    t = truth[where]
    with np.errstate(divide="ignore", invalid="ignore"):
        gains = 10 * np.log10(
            (filtered.mean[where] ** 2 / filtered.variance[where]) / (raw.mean[where] ** 2 / raw.variance[where])
        )
        gain = _db(raw.variance[where] / t**2, filtered.variance[where] / t**2)
        error_gain = _db(raw.mean_square_error[where] / t**2, filtered.mean_square_error[where] / t**2)
        bias = 20 * np.log10(np.mean(filtered.mean[where] / t))
    gains = gains[np.isfinite(gains)]
    effective = gains[gains > EFFECTIVE_DB]
    return Figures(
        int(where.sum()), gain, float(bias), error_gain,
        float(np.median(gains)) if gains.size else np.nan,
        float(np.median(effective)) if effective.size else np.nan,
    )  # fmt: skip


def _db(before: Array, after: Array) -> float:
    return float(10 * np.log10(before.mean() / after.mean()))


def by_bin(filtered: Tally, raw: Tally, truth: Array, ratio_db: Array) -> Iterator[Row]:
    """Figures of every bin and of all of them together."""
    for low, high in (*BINS, WHOLE):
        where = (ratio_db >= low) & (ratio_db < high)
        row: dict[str, Any] = {"bin": [low, high], "voxels": int(where.sum())}
        if row["voxels"] >= FEWEST_VOXELS:
            row |= figures_of(filtered, raw, truth, where)._asdict()
        yield row
