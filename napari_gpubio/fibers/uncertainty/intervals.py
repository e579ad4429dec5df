"""Intervals of numbers that noise shifts: the shift is estimated, taken out, and counted among the errors."""

from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput

Array = npt.NDArray[Any]
Limits = tuple[float, float]
SHARE: Limits = (0.0, 1.0)  # of FA, and of cosines
_OF_SQUARES = 0.5  # of a bias, which need not grow as the noise's variance does, and of what the fit is off
_MIN_SHARE, _ROUNDING = 0.01, 1e-6  # of a number, and of single precision: a smaller bias is not worth a note


class Interval(NamedTuple):
    """A number of the fibers without the bias of noise, and the ends of its interval, which contains it."""

    estimate: float
    low: float
    high: float


class Repeated(NamedTuple):
    """Numbers of a fit and of its repeats; all of them may have further axes, such as the nodes of a profile.

    ``fit``: shape (...); ``once``: of the repeats, which have the scan's noise and that of a draw, shape (R, ...);
    ``twice``: of the first P repeats with a second draw added, shape (P, ...). NaN where a repeat has no fiber.
    """

    fit: Array
    once: Array
    twice: Array

    @property
    def bias(self) -> Array:
        """What noise adds to the numbers of the fit, shape (...).

        Each draw adds as much noise as the scan has (hc3 residuals somewhat more), so to first order in the variance
        it adds the same bias (the bootstrap's estimate of bias, Efron and Tibshirani 1993, chapter 10; extrapolation
        to no noise, Cook and Stefanski 1994). It is taken between one draw and two: the error of the fit, which its
        repeats partly undo, would else count as bias. Without a second draw it is taken between the fit and one.
        """
        first = np.asarray(_mean(self.once) - self.fit)
        if not len(self.twice):
            return first
        second = _mean(self.twice - self.once[: len(self.twice)])
        return np.where(np.isfinite(second), second, first)

    @property
    def spread(self) -> Array:
        """Standard deviation of the repeats, shape (...)."""
        return np.sqrt(_mean((self.once - _mean(self.once)) ** 2) * self._unbiased)

    @property
    def _unbiased(self) -> Array:
        count = np.isfinite(self.once).sum(axis=0)
        return np.asarray(count / np.maximum(count - 1, 1))

    def interval(self, level: float, limits: Limits = (-np.inf, np.inf)) -> tuple[Array, Array, Array]:
        """Return estimate, low and high, each of shape (...); the estimate is the fit's number less its bias.

        The half width is that of a normal distribution whose variance is the sum of three: the repeats'; half the
        square of the bias, which is known roughly; and half the square of what the fit is off the course of its
        repeats, the mean of the repeats less bias and fit. If the fit has no fiber, that course stands for it. These
        halves make intervals of 95 % hold the truth so often on simulated scans (``benchmarks/fibers_intervals.py``).

        Parameters
        ----------
        level
            Share of the intervals that hold the number of a scan without noise.
        limits
            Least and largest possible number; estimate and ends are kept within them.
        """
        check_level(level)
        bias, mean = self.bias, _mean(self.once)
        fit = np.where(np.isfinite(self.fit), self.fit, mean - bias)
        off = mean - fit - bias
        reach = NormalDist().inv_cdf(0.5 + level / 2) * np.sqrt(self.spread**2 + _OF_SQUARES * (bias**2 + off**2))
        estimate = fit - bias
        low, middle, high = (np.clip(value, *limits) for value in (estimate - reach, estimate, estimate + reach))
        return middle, low, high

    @property
    def is_shifted(self) -> Array:
        """Whether noise shifts the numbers by more than they spread, and by more than 1 %, shape (...)."""
        size = np.abs(self.bias)
        return np.asarray(size > np.maximum(self.spread, _MIN_SHARE * np.abs(self.fit) + _ROUNDING))


def limits_of(found: Repeated) -> Limits:
    """Return zero as the least possible number if no number is below it."""
    values = np.concatenate([np.ravel(part) for part in found])
    return (-np.inf if (values < 0).any() else 0.0), np.inf


def check_level(level: float) -> None:
    """Raise InvalidInput if it is not between 0 and 1."""
    if not 0 < level < 1:
        raise InvalidInput(f"the level of the interval is {level}; give a share between 0 and 1, such as 0.95")


def _mean(values: Array) -> Array:
    """Mean of the finite ones over the first axis, NaN where there are none."""
    finite = np.isfinite(values)
    total, count = np.where(finite, values, 0.0).sum(axis=0), finite.sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
