"""Beats of a known phase: their average, the indices of it, and the jackknife over beats."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.speckle.pulsatility.course import Course
from napari_gpubio.speckle.pulsatility.model import RegionPulsatility
from napari_gpubio.speckle.pulsatility.phase import Phase, harmonic_design

Array = npt.NDArray[Any]
MIN_BEATS, _FEW_BEATS = 3, 10
_FEW_HARMONICS = 3
_COVERED = 0.7  # of the samples that a beat should have; others are left out
_PRICE = 4.0  # of a harmonic's two coefficients in C_p, in variances
_MIN_SAMPLES_PER_HARMONIC = 6
_CHOICE = 2  # more harmonics for the standard errors, since the choice of their number depends on the noise, too
_COURSE_PHASES = 200
_MAX_BINS = 40


class _Estimates(NamedTuple):
    """What is estimated from all beats, and from all but one."""

    index: Any
    resistivity: Any
    mean: Any
    course: Any


class Beats:
    """Samples by beat: the averaged course, and its jackknife.

    Parameters
    ----------
    phase
        Of every sample.
    course
        The samples.
    most_harmonics
        Of the averaged course.
    """

    def __init__(self, phase: Phase, course: Course, most_harmonics: int) -> None:
        cycles = phase.cycles
        number = np.floor(cycles - cycles[0]).astype(np.int64)  # beats are cut where the record begins
        expected = 1.0 / (course.grid.step_s * phase.rate_hz)
        used = np.bincount(number) >= _COVERED * expected
        kept = used[number]
        self.count = int(np.count_nonzero(used))
        self._phase, self._mean = phase, course.mean
        others = np.count_nonzero(kept) * (1.0 - 1.0 / max(2, self.count))  # samples, without one beat
        self._most = max(1, min(most_harmonics, int(others / _MIN_SAMPLES_PER_HARMONIC)))
        self._cycles, self._values = cycles[kept], course.values[kept]
        self._number = (np.cumsum(used) - 1)[number[kept]]
        self._left_out = len(used) - self.count

    def averaged(self, name: str, flow: str) -> RegionPulsatility:
        """Return the averaged beat."""
        harmonics = self._best_harmonics()
        whole, rest = self._coefficients(harmonics)
        start = _minimum(whole, harmonics)
        at = np.linspace(0.0, 1.0, _COURSE_PHASES, endpoint=False)
        shape = harmonic_design(at + start, harmonics)
        all_beats, without = self._estimates(whole @ shape.T), self._estimates(rest @ shape.T)
        more = min(harmonics + _CHOICE, self._most)
        errors = _jackknife_errors(self._estimates(self._coefficients(more)[1] @ harmonic_design(at + start, more).T))
        rates = 60.0 * self._phase.rates_hz
        folded_phase, folded = self._folded(start)
        return RegionPulsatility(
            name=name, flow=flow, rate_bpm=60.0 * self._phase.rate_hz, rate_error_bpm=60.0 * self._phase.rate_error_hz,
            slowest_bpm=float(rates.min()), fastest_bpm=float(rates.max()),
            index=_corrected(all_beats.index, without.index), index_error=float(errors.index),
            resistivity=_corrected(all_beats.resistivity, without.resistivity),
            resistivity_error=float(errors.resistivity), mean=float(all_beats.mean), beats=self.count,
            harmonics=harmonics, phase=at, course=all_beats.course, course_error=errors.course,
            folded_phase=folded_phase, folded=folded,
        )  # fmt: skip

    @property
    def notes(self) -> list[str]:
        """What to know about the beats."""
        notes = []
        if self._left_out > 1:
            notes.append(f"{self._left_out} beats with missing samples were left out")
        if self.count < _FEW_BEATS:
            notes.append(f"only {self.count} beats were averaged; their standard errors are rough")
        if self._most < _FEW_HARMONICS:
            notes.append(f"the samples resolve the beat up to harmonic {self._most}; sharp features are lost, and the "
                         "pulsatility may be too small")  # fmt: skip
        if len(rates := 60.0 * self._phase.rates_hz) > 1:
            notes.append(f"the rate varies between {rates.min():.3g} and {rates.max():.3g} /min and is followed")
        return notes

    def _best_harmonics(self) -> int:
        """Return the number of harmonics of the least C_p; samples of correlated noise count as fewer."""
        design = harmonic_design(self._cycles, self._most)
        squares, products = design.T @ design, design.T @ self._values
        total, free = float(self._values @ self._values), max(1, len(self._values) - design.shape[1])
        left = []
        for harmonics in range(1, self._most + 1):
            some = [0, *range(1, harmonics + 1), *range(1 + self._most, 1 + self._most + harmonics)]
            part = np.linalg.solve(squares[np.ix_(some, some)], products[some])
            left.append(max(total - float(part @ products[some]), 0.0))
        noise = self._phase.noise_samples * left[-1] / free
        return int(np.argmin(np.asarray(left) + _PRICE * noise * np.arange(1, self._most + 1))) + 1

    def _coefficients(self, harmonics: int) -> tuple[Array, Array]:
        """Return the Fourier coefficients of all beats, and of all but each of them."""
        design = harmonic_design(self._cycles, harmonics)
        squares, products = _sums_by_beat(design, self._values, self._number, self.count)
        square, product = squares.sum(axis=0), products.sum(axis=0)
        without = np.linalg.solve(square - squares, (product - products)[..., None])[..., 0]
        return np.linalg.solve(square, product), without

    def _estimates(self, course: Array) -> _Estimates:
        flow = course + self._mean
        low, high, mean = flow.min(axis=-1), flow.max(axis=-1), flow.mean(axis=-1)
        return _Estimates((high - low) / mean, (high - low) / high, mean, flow)

    def _folded(self, start: float) -> tuple[Array, Array]:
        """Return means of the samples in bins of phase."""
        bins = int(min(_MAX_BINS, max(4.0, len(self._values) / self.count)))
        place = np.floor(np.mod(self._cycles - start, 1.0) * bins).astype(np.int64) % bins
        each = np.bincount(place, minlength=bins)
        total = np.bincount(place, self._values, bins)
        means = np.divide(total, each, out=np.full(bins, np.nan), where=each > 0)
        return (np.arange(bins) + 0.5) / bins, means + self._mean


def _sums_by_beat(design: Array, values: Array, number: Array, count: int) -> tuple[Array, Array]:
    """Return the normal equations of each beat: shapes (beats, n, n) and (beats, n)."""
    starts = np.searchsorted(number, np.arange(count))
    parts = np.split(design, starts[1:])
    right = np.add.reduceat(design * values[:, None], starts)
    return np.stack([part.T @ part for part in parts]), right


def _minimum(coefficients: Array, harmonics: int) -> float:
    fine = np.linspace(0.0, 1.0, 10 * _COURSE_PHASES, endpoint=False)
    return float(fine[np.argmin(harmonic_design(fine, harmonics) @ coefficients)])


def _jackknife_errors(without: _Estimates) -> _Estimates:
    n = len(without.index)
    return _Estimates(*(np.sqrt((n - 1) / n * np.square(one - one.mean(axis=0)).sum(axis=0)) for one in without))


def _corrected(whole: float, without: Array) -> float:
    """Return an estimate without the bias that the jackknife finds."""
    n = len(without)
    return float(n * whole - (n - 1) * without.mean())
