"""Gain and bias of filters over many independent runs of a domain, by the signal / noise of the raw fluence.

All figures are in dB of 20 log10 of fluence over its standard deviation. Noise is the spread over runs, never a model.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from common import Array, Row, line
from scipy import ndimage

from denoise.domains import Runs, symmetrised, tissue_of
from denoise.filters import Filter

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


FEWEST_RUNS = 2
COLUMNS = (
    "filter", *(f"{low}-{high} dB" for low, high in BINS), "all", "median (> 3 dB)", "seconds a run",
)  # fmt: skip


class Comparison:
    """Filters side by side on the same runs."""

    def __init__(self, filters: Mapping[str, Filter], truth: Array) -> None:
        self._truth = truth
        self._missing = {name: made.missing for name, made in filters.items() if made.missing}
        self._filters = {name: made for name, made in filters.items() if not made.missing}
        self.raw = Tally(truth)
        self._tallies = {name: Tally(truth) for name in self._filters}
        self._seconds: dict[str, list[float]] = {name: [] for name in self._filters}

    def run(self, runs: Runs, domain: str, photons: int, index: int) -> None:
        """Take in a run; a filter that fails is dropped and its error reported."""
        pair, tissue = runs.run(domain, photons, index), tissue_of(domain)
        self.raw.add(pair.whole.astype(np.float64))
        for name in list(self._filters):
            begun = time.perf_counter()
            try:
                found = self._filters[name].apply(pair, tissue)
            except Exception as error:  # noqa: BLE001 - a peer may dislike a volume, and the others go on
                del self._filters[name]
                self._missing[name] = f"failed: {type(error).__name__}: {error}"
                continue
            self._seconds[name].append(time.perf_counter() - begun)
            self._tallies[name].add(np.asarray(found, np.float64))

    def rows(self) -> list[Row]:
        """What each filter does in each bin."""
        ratio = signal_to_noise(self.raw, self._truth)
        untouched = list(by_bin(self.raw, self.raw, self._truth, ratio))
        found: list[Row] = [{"filter": "raw, beside the truth", "bins": untouched}]
        for name in self._filters:
            bins = list(by_bin(self._tallies[name], self.raw, self._truth, ratio))
            found.append({"filter": name, "bins": bins, "seconds": float(np.median(self._seconds[name]))})
        return found + [{"filter": name, "skipped": why} for name, why in self._missing.items()]


def quality_line(row: Row) -> str:
    if "skipped" in row:
        return line(row["filter"], *[""] * (len(COLUMNS) - 2), f"skipped: {row['skipped']}")
    whole = row["bins"][-1]
    medians = f"{whole['median_gain']:.1f} ({whole['median_effective']:.1f})" if "gain" in whole else ""
    seconds = f"{row['seconds']:.3g}" if "seconds" in row else ""
    return line(row["filter"], *map(_cell, row["bins"]), medians, seconds)


def _cell(found: Row) -> str:
    if "gain" not in found:
        return f"({found['voxels']} voxels)"
    return f"{found['gain']:.1f} / {found['bias']:+.2f} / {found['error_gain']:.1f}"


def equivalent_photons(rows: Sequence[Row], photons: int) -> dict[str, float]:
    """Photons that an unfiltered run would need for the same squared error (all bins): its error falls as 1 / N."""
    return {
        row["filter"]: photons * 10 ** (row["bins"][-1]["error_gain"] / 10)
        for row in rows
        if "skipped" not in row and "gain" in row["bins"][-1]
    }
