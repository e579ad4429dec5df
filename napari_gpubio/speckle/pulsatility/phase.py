"""The phase of the heart at every sample, of a rate that may drift or change from beat to beat."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.speckle.pulsatility.spectrum import Grid

Array = npt.NDArray[Any]
_BEATS_APART = (16, 8, 4, 2, 1)  # knots of the phase, beside that of a constant rate
_ROUNDS = 12
_LARGEST_STEP_PERIODS = 0.05  # of a knot in one round
_SETTLED_PERIODS = 1e-5
_COST = 3.0  # of a parameter, in the criterion that chooses the knots
_TEMPLATE_HARMONICS = 4  # below that of the peak and up to its own fourth
_ORDERS = (1, 2, 3)  # harmonics of the beat that the largest peak may be
MAX_HARMONICS = 10
_BELOW_NYQUIST = 0.49  # of the frame rate, up to which harmonics are fitted


@dataclass(frozen=True, eq=False)
class Phase(ShortRepr):
    """The phase at every sample.

    Parameters
    ----------
    cycles
        Phase of each sample, in periods.
    knots_s, knot_cycles
        Times, and phases at them, between which the rate is constant.
    rate_error_hz
        Standard error of the mean rate; see `_Fit.rate_error`.
    noise_samples
        Samples over which the noise is correlated: 1 for white noise.
    """

    cycles: npt.NDArray[np.float64]
    knots_s: npt.NDArray[np.float64]
    knot_cycles: npt.NDArray[np.float64]
    rate_error_hz: float
    noise_samples: float

    @property
    def rate_hz(self) -> float:
        """Mean rate."""
        return float((self.knot_cycles[-1] - self.knot_cycles[0]) / (self.knots_s[-1] - self.knots_s[0]))

    @property
    def rates_hz(self) -> npt.NDArray[np.float64]:
        """Rate between knots."""
        return np.asarray(np.diff(self.knot_cycles) / np.diff(self.knots_s))


def harmonic_design(cycles: Array, harmonics: int) -> npt.NDArray[np.float64]:
    """Return 1, cos 2πhφ and sin 2πhφ for h = 1 to ``harmonics``, shape (samples, 1 + 2 harmonics)."""
    angle = 2.0 * np.pi * np.arange(1, harmonics + 1) * np.asarray(cycles)[:, None]
    return np.concatenate([np.ones((len(angle), 1)), np.cos(angle), np.sin(angle)], axis=1)


def most_harmonics(grid: Grid, rate_hz: float) -> int:
    """Return how many harmonics of a beat lie below half of the frame rate, at most ten."""
    return max(1, min(MAX_HARMONICS, int(_BELOW_NYQUIST / grid.step_s / rate_hz)))


def track_phase(grid: Grid, times_s: Array, values: Array, peak_hz: float, slowest_hz: float) -> Phase:
    """Find the phase by least squares: a waveform of a few harmonics, repeated at a piecewise constant rate.

    Knots between which the rate is constant are 16, 8, 4, 2 or 1 beats apart, or there are two, at both ends; an
    information criterion chooses, whose price of a parameter, 3, lies between that of Akaike (2) and that of Schwarz
    (log n), so that beats are aligned one by one (Woody 1967) only where the noise allows it: aligned noise looks like
    a beat. The same criterion tells whether the peak is the second or third harmonic of the beat. The search begins
    at the complex demodulate of the fundamental, smoothed over the distance of the knots.

    Parameters
    ----------
    grid
        Samples without their drift, at even times.
    times_s, values
        The same samples at their own times.
    peak_hz
        The peak of the spectrum.
    slowest_hz
        Slowest beat.
    """
    fits = []
    for order in _ORDERS:
        rate_hz = peak_hz / order
        beats = rate_hz * (times_s[-1] - times_s[0])
        if order > 1 and rate_hz < slowest_hz:
            continue
        harmonics = min(most_harmonics(grid, rate_hz), order * _TEMPLATE_HARMONICS)
        apart = [beats, *(one for one in _BEATS_APART if one <= beats / 3)]
        fits += [_Fit(grid, times_s, values, rate_hz, one, harmonics) for one in apart]
    least = min(fits, key=lambda fit: fit.squares)
    most = max(1.0, 0.5 / (peak_hz * grid.step_s))  # what lasts longer is no noise: beats are not all alike
    correlated = min(_correlated_samples(grid, least.residual), most)
    best = min(fits, key=lambda fit: fit.criterion(correlated))
    return best.phase(correlated)


class _Fit:
    """A waveform and the phases of knots, in turns: each is a small system of linear equations for the other."""

    def __init__(
        self, grid: Grid, times_s: Array, values: Array, frequency_hz: float, beats_apart: float, harmonics: int
    ) -> None:
        self._frequency, self._harmonics, self._values = frequency_hz, harmonics, values
        start, stop = float(times_s[0]), float(times_s[-1])
        count = max(1, round((stop - start) * frequency_hz / beats_apart))
        self._knots = np.linspace(start, stop, count + 1)
        where = (times_s - start) / (stop - start) * count
        self._left = np.minimum(where.astype(np.int64), count - 1)
        self._share = where - self._left  # of the right knot
        self._even = frequency_hz * (times_s - start)
        self._shift = _demodulated(grid, frequency_hz, beats_apart / frequency_hz, self._knots - start)
        self._run()

    def _run(self) -> None:
        for _ in range(_ROUNDS):
            self._fit_waveform()
            step = self._solve(self._gradient())
            self._shift += np.clip(step, -_LARGEST_STEP_PERIODS, _LARGEST_STEP_PERIODS)
            if np.abs(step).max() < _SETTLED_PERIODS:
                break
        self._fit_waveform()

    @property
    def _cycles(self) -> Array:
        return self._even + (1.0 - self._share) * self._shift[self._left] + self._share * self._shift[self._left + 1]

    def _fit_waveform(self) -> None:
        cycles = self._cycles
        design = harmonic_design(cycles, self._harmonics)
        found = np.linalg.lstsq(design.T @ design, design.T @ self._values, rcond=1e-10)[0]
        self.residual = self._values - design @ found
        self.squares = float(self.residual @ self.residual)
        order = 2.0 * np.pi * np.arange(1, self._harmonics + 1)
        cosines, sines = found[1 : 1 + self._harmonics], found[1 + self._harmonics :]
        self._slope = design[:, 1 : 1 + self._harmonics] @ (order * sines)
        self._slope -= design[:, 1 + self._harmonics :] @ (order * cosines)

    def _gradient(self) -> Array:
        size = len(self._knots)
        pull = self._slope * self.residual
        left = np.bincount(self._left, (1.0 - self._share) * pull, size)
        return left + np.bincount(self._left + 1, self._share * pull, size)

    def _solve(self, right: Array) -> Array:
        """Solve the normal equations of the knots' phases, which are tridiagonal."""
        from scipy.linalg import solveh_banded

        size, steep = len(self._knots), self._slope**2
        bands = np.zeros((2, size))
        bands[1] = np.bincount(self._left, (1.0 - self._share) ** 2 * steep, size)
        bands[1] += np.bincount(self._left + 1, self._share**2 * steep, size)
        bands[0] = np.bincount(self._left + 1, self._share * (1.0 - self._share) * steep, size)
        bands[1] += 1e-6 * bands[1].mean() + np.finfo(np.float64).tiny  # knots in a pause stay where they are
        return np.asarray(solveh_banded(bands, right))

    def criterion(self, correlated: float) -> float:
        """Return the information criterion, if so many samples count as one."""
        independent = len(self._values) / correlated
        free = 2 * self._harmonics + len(self._knots)
        return float(independent * np.log(self.squares / len(self._values)) + _COST * free)

    def phase(self, correlated: float) -> Phase:
        """Return what was found."""
        knot_cycles = self._frequency * (self._knots - self._knots[0]) + self._shift
        return Phase(self._cycles, self._knots, knot_cycles, self.rate_error(knot_cycles, correlated), correlated)

    def rate_error(self, knot_cycles: Array, correlated: float) -> float:
        """Return the standard error of the mean rate, Hz.

        It is that of the phases at both ends, in which noise has a part; where the rate varies by a share s from one
        interval of k beats to the next, it also has the parts of a beat that the ends cut, s beats, and of the phase
        within the intervals, for which the rate is constant. If that is Brownian motion, a line fitted to an interval
        misses its end by a variance of s²k²/9.
        """
        ends = np.zeros(len(self._knots))
        ends[0], ends[-1] = -1.0, 1.0
        variance = correlated * self.squares / max(1.0, len(self._values) - len(self._knots) - 2 * self._harmonics)
        variance = max(0.0, variance * float(ends @ self._solve(ends)))
        intervals = np.diff(knot_cycles)
        if len(intervals) > 1:
            variance += float(np.var(intervals / intervals.mean(), ddof=1)) * (1.0 + 2.0 * intervals.mean() ** 2 / 9.0)
        return float(np.sqrt(variance) / (self._knots[-1] - self._knots[0]))


def _demodulated(grid: Grid, frequency_hz: float, smooth_s: float, at_s: Array) -> Array:
    """Return the phase of the fundamental beyond that of a constant rate, in periods, at times from the start."""
    time = grid.step_s * np.arange(len(grid.values))
    turned = grid.values * np.exp(-2j * np.pi * frequency_hz * time)
    n = 2 * len(time)  # room, so that the end does not run over into the begin
    decay = np.exp(-0.5 * (np.pi * smooth_s * np.fft.fftfreq(n, grid.step_s)) ** 2)  # a Gaussian, half as wide
    smooth = np.fft.ifft(np.fft.fft(turned, n) * decay)[: len(time)]
    return np.interp(at_s, time, np.unwrap(np.angle(smooth)) / (2.0 * np.pi))


def _correlated_samples(grid: Grid, residual: Array) -> float:
    """Return the sum of the autocorrelation of what a fit left over, up to its first zero."""
    total = np.bincount(grid.place, residual, len(grid.values))
    size = 2 * len(total)
    correlation = np.fft.irfft(np.abs(np.fft.rfft(total, size)) ** 2)[: len(total) // 2]
    if not correlation[0] > 0.0:
        return 1.0
    correlation /= correlation[0]
    negative = np.flatnonzero(correlation <= 0.0)
    end = int(negative[0]) if len(negative) else len(correlation)
    return float(1.0 + 2.0 * correlation[1:end].sum())
