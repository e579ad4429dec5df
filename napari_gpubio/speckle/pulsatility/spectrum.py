"""Whether a time course beats: its spectrum, and the peak that stands out of the background of other fluctuations."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr

Array = npt.NDArray[Any]
_DRIFT_PERIODS = 0.75  # standard deviation of the Gaussian weights of the drift, in periods of the slowest beat
_KERNEL_REACH_DEVIATIONS = 5
_MAX_MOMENTS_PER_SAMPLE = 50
_OCTAVE = 2.0
_BELOW, _ABOVE = 2.0, 4.0  # the background of a peak is that from half to four times its frequency
_WIDTH_GROWTH = 3  # from one width of a peak to the next
_WIDEST = 0.3  # of the frequency, in which a beat of a varying rate may be spread
_BELOW_NYQUIST = 0.98
SEEN_SHARE = 0.75  # of the frequency that a moving average removes, up to which beats are looked for
_EULER = 0.5772156649  # minus the mean of the logarithm of an exponential variate of mean 1
_MIN_BACKGROUND_BINS = 6
_BOUND = (
    3.0  # of an exponential variate of mean 1: then its mean, minus its slope by the logarithm of the mean, variance
)
_BOUNDED_MEAN = 1.0 - math.exp(-_BOUND)
_BOUNDED_SLOPE = 1.0 - math.exp(-_BOUND) * (1.0 + _BOUND)
_BOUNDED_VARIANCE = 2.0 * _BOUNDED_SLOPE - _BOUNDED_MEAN**2
_HARMONICS = 12  # of a peak that are no background
_CHOSEN = 1.5  # trials for each one: noise passes as often as with narrower peaks and backgrounds, below the limit


@dataclass(frozen=True, eq=False)
class Grid(ShortRepr):
    """Samples at even times; those that are missing are 0.

    Parameters
    ----------
    step_s
        From one moment to the next: the median step of the samples.
    values
        Shape (moments,).
    present
        Where there is a sample.
    place
        Moment of each sample, shape (samples,).
    """

    step_s: float
    values: npt.NDArray[np.float64]
    present: npt.NDArray[np.bool_]
    place: npt.NDArray[np.int64]

    @property
    def missing(self) -> int:
        """Moments between the first and the last sample that have none."""
        return int(np.count_nonzero(~self.present))


def even_grid(times_s: Array, values: Array) -> Grid:
    """Put each sample at the nearest moment of an even grid; samples of one moment are averaged.

    Raises
    ------
    InvalidInput
        If pauses take almost all of the time.
    """
    step = float(np.median(np.diff(times_s)))
    place = np.rint((times_s - times_s[0]) / step).astype(np.int64)
    count = int(place[-1]) + 1
    if count > _MAX_MOMENTS_PER_SAMPLE * len(times_s):
        raise InvalidInput(
            f"the time course has {len(times_s)} samples, {step:.3g} s apart, within {times_s[-1] - times_s[0]:.3g} s; "
            "take a part of it without long pauses"
        )
    total, each = np.bincount(place, values, count), np.bincount(place, minlength=count)
    return Grid(step, np.divide(total, each, out=np.zeros(count), where=each > 0), each > 0, place)


def is_smoothed(window_s: float, step_s: float) -> bool:
    """Whether samples are a moving average: computed over more than the step from one to the next."""
    return window_s > 1.5 * step_s


def slow_drift(grid: Grid, slowest_hz: float) -> npt.NDArray[np.float64]:
    """Return the drift, a local straight line (Cleveland 1979) with Gaussian weights, at every moment of the grid.

    It follows less than 0.01 % of a beat of the slowest frequency, and of one at half of it 6 %.
    """
    sigma = _DRIFT_PERIODS / slowest_hz / grid.step_s
    reach = min(int(np.ceil(_KERNEL_REACH_DEVIATIONS * sigma)), len(grid.values) - 1)
    away = np.arange(-reach, reach + 1)
    weight, here = np.exp(-0.5 * (away / sigma) ** 2), grid.present.astype(np.float64)
    s0, s1, s2 = (_correlate(here, weight * away**power) for power in range(3))
    y0, y1 = (_correlate(here * grid.values, weight * away**power) for power in range(2))
    spread = s0 * s2 - s1 * s1
    is_line = spread > 1e-6 * s0 * s0  # else all weight is on one sample
    mean = np.divide(y0, s0, out=np.zeros(len(here)), where=s0 > 1e-9)
    return np.divide(y0 * s2 - y1 * s1, spread, out=mean, where=is_line)


def _correlate(signal: Array, kernel: Array) -> npt.NDArray[np.float64]:
    """Return sum over k of kernel[k] signal[i + k], k from minus to plus the reach; 0 outside of the signal."""
    reach, size = len(kernel) // 2, len(signal) + len(kernel) - 1
    spectrum = np.fft.rfft(signal, size) * np.fft.rfft(kernel[::-1], size)
    return np.fft.irfft(spectrum, size)[reach : reach + len(signal)]


@dataclass(frozen=True, slots=True)
class Peak:
    """A peak of the spectrum.

    Parameters
    ----------
    frequency_hz
        Center of the power above the background.
    half_width_hz
        Half of its width.
    power
        Power above the background, as a variance.
    false_alarm
        Probability that fluctuations without a beat have such a peak anywhere in the band.
    """

    frequency_hz: float
    half_width_hz: float
    power: float
    false_alarm: float


def find_peak(grid: Grid, band_hz: tuple[float, float], limit: float, *, window_s: float = 0.0) -> Peak | None:
    """Return the largest peak of the band that stands out of the background, or None if there are too few samples.

    The background is log-quadratic in the logarithm of frequency from half to four times that of the peak, fitted by
    maximum likelihood to all bins but those of the peak and of its harmonics, because fluctuations of flow are red
    noise (Vaughan 2005 does so with a power law). The mean over a peak of m bins, divided by the background, is then
    distributed as F(2m, 2/v), v being the variance of the logarithm of the background. Peaks of 1, 3, 9 ... bins are
    tried, since a rate that varies spreads a beat over several; the probability is multiplied by the number of trials
    (Bonferroni). Where no peak is within the limit, the one that stands out most is returned.

    Parameters
    ----------
    grid
        Samples without their drift.
    band_hz
        Slowest and fastest beat.
    limit
        Probability up to which a peak counts.
    window_s
        Duration of the moving average that the samples are, if it is longer than their steps.
    """
    frequency, power = _periodogram(grid)
    inside = (frequency >= band_hz[0]) & (frequency <= min(band_hz[1], _BELOW_NYQUIST * frequency[-1]))
    free = (frequency >= 0.5 * band_hz[0]) & (frequency > 0)
    if is_smoothed(window_s, grid.step_s):  # its spectrum falls to 0, and rises again
        seen = frequency * window_s < SEEN_SHARE
        power = np.where(seen, power / np.sinc(np.where(seen, frequency * window_s, 0.0)) ** 2, power)
        inside, free = inside & seen, free & seen
    band = np.flatnonzero(inside)
    if np.count_nonzero(free) < 2 * _MIN_BACKGROUND_BINS or not len(band):
        return None
    background = _rough_background(frequency, power, free)
    found: list[Peak] = []
    trials, width = 0, 1
    while width * frequency[1] <= max(_WIDEST * band_hz[1], frequency[1]):
        centers = band[(width == 1) | (width * frequency[1] <= _WIDEST * frequency[band])][:: max(1, width // 2)]
        centers = centers[(centers >= width // 2) & (centers + width // 2 < len(frequency)) & free[centers]]
        if not len(centers):
            break
        trials += len(centers)
        ratios, excess = (_sums(part, centers, width) for part in (power / background, power - background))
        tried = {int(centers[np.argmax(part)]) for part in (ratios, excess)}
        found += [peak for center in tried if (peak := _tested(frequency, power, free, center, width)) is not None]
        width *= _WIDTH_GROWTH
    found = [replace(peak, false_alarm=min(1.0, _CHOSEN * trials * peak.false_alarm)) for peak in found]
    return _largest(found, limit)


def _sums(values: Array, centers: Array, width: int) -> Array:
    total = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(total[centers + width // 2 + 1] - total[centers - width // 2])


def _largest(found: list[Peak], limit: float) -> Peak | None:
    """Return the peak of the largest power that counts, in the width in which it stands out most."""
    counting = [peak for peak in found if peak.false_alarm <= limit]
    if not counting:
        return min(found, key=lambda peak: peak.false_alarm, default=None)
    top = max(counting, key=lambda peak: peak.power)
    same = [peak for peak in counting if abs(peak.frequency_hz - top.frequency_hz) <= top.half_width_hz]
    return min(same, key=lambda peak: (peak.false_alarm, peak.half_width_hz))


def _periodogram(grid: Grid) -> tuple[Array, Array]:
    """Return frequencies and power (a variance: the sum over all bins is that of the samples)."""
    n, samples = len(grid.values), int(np.count_nonzero(grid.present))
    power = 2.0 * np.abs(np.fft.rfft(grid.values)) ** 2 / (n * samples)
    return np.fft.rfftfreq(n, grid.step_s), power


def _near_harmonics(frequency: Array, fundamental: float, half_width: float) -> npt.NDArray[np.bool_]:
    order = np.rint(frequency / fundamental).clip(1.0, _HARMONICS)
    return np.asarray(np.abs(frequency - order * fundamental) <= order * half_width + 1.5 * frequency[1])


def _rough_background(frequency: Array, power: Array, free: Array) -> Array:
    """Return the running median over two octaves, as a mean: good enough to choose where to look closely."""
    f, p = frequency[free], power[free]
    centers = np.geomspace(f[0], f[-1], 24)
    edges = np.searchsorted(f, np.stack([centers / _OCTAVE, centers * _OCTAVE]), side="left")
    level = [np.median(p[a:b] if b - a >= _MIN_BACKGROUND_BINS else p) / np.log(2.0) for a, b in edges.T]
    least = np.finfo(np.float64).tiny
    return np.exp(np.interp(np.log(np.maximum(frequency, f[0])), np.log(centers), np.log(np.maximum(level, least))))


def _tested(frequency: Array, power: Array, free: Array, center: int, width: int) -> Peak | None:
    """Return the peak of so many bins at a place, with its probability where nothing else was tried."""
    from scipy.special import fdtrc

    part = slice(center - width // 2, center + width // 2 + 1)
    at, half = float(frequency[center]), 0.5 * width * float(frequency[1])
    around = free & (frequency >= at / _BELOW) & (frequency <= at * _ABOVE)
    around &= ~_near_harmonics(frequency, at, half)
    if np.count_nonzero(around) < _MIN_BACKGROUND_BINS:
        around = free & ~_near_harmonics(frequency, at, half)
    if np.count_nonzero(around) < _MIN_BACKGROUND_BINS:
        return None
    x = np.log(frequency / at, out=np.zeros(len(frequency)), where=frequency > 0)
    found, variance = _background(x[around], power[around])
    background = np.exp(_powers(x[part]) @ found)
    excess = np.maximum(power[part] - background, 0.0)
    if not excess.sum() > 0.0:
        return Peak(at, half, 0.0, 1.0)
    ratio = float(np.mean(power[part] / background))
    center_hz = float(np.average(frequency[part], weights=excess))
    return Peak(center_hz, half, float(excess.sum()), float(fdtrc(2 * width, 2.0 / variance, ratio)))


def _powers(x: Array) -> Array:
    return np.stack([np.ones(len(x)), x, x * x], axis=1)


def _background(x: Array, power: Array) -> tuple[Array, float]:
    """Fit exponential variates of mean exp(a + b x + c x²), as by Fisher's scoring, but with bounded weight of each.

    Other rhythms are no background: a variate counts as at most three times its mean (an M-estimator of Huber's kind,
    consistent for exponential variates). Returns a, b and c, and the variance of a.
    """
    design = _powers(x)
    inverse = np.linalg.pinv(design)
    power = np.maximum(power, 1e-12 * power.mean() + np.finfo(np.float64).tiny)
    found = inverse @ (np.log(power) + _EULER)
    for _ in range(12):
        bounded = np.minimum(power / np.exp(design @ found), _BOUND)
        found = found + inverse @ (bounded - _BOUNDED_MEAN) / _BOUNDED_SLOPE
    variance = _BOUNDED_VARIANCE / _BOUNDED_SLOPE**2
    return found, float(variance * (inverse @ inverse.T)[0, 0])
