"""A time course of flow without its drift, within the band of its beats, and what is to be known about it."""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.pulsatility.model import PulsatilitySettings
from napari_gpubio.speckle.pulsatility.phase import Phase, harmonic_design
from napari_gpubio.speckle.pulsatility.spectrum import (
    SEEN_SHARE,
    Grid,
    Peak,
    even_grid,
    find_peak,
    is_smoothed,
    slow_drift,
)

Array = npt.NDArray[Any]
_OTHER_SHARE = 0.1  # of the power of the beat, from which on another rhythm is reported
_MIN_REPORTED_DRIFT = 0.05  # of the mean
_LOSS_SHARE = 0.02  # of the fundamental, lost in the window of a map, from which on it is reported
_UNEVEN_SHARE = 0.1  # of a step, from which on steps count as uneven


class Course:
    """A time course without its drift.

    Parameters
    ----------
    times_s, flow
        Finite samples, in the order of time.
    settings
        Where the beat is looked for.
    window_s
        Duration of the frames that one sample is computed from.

    Raises
    ------
    InvalidInput
        If the samples can show no beat of the band.
    """

    def __init__(self, times_s: Array, flow: Array, settings: PulsatilitySettings, window_s: float) -> None:
        self.times_s, self._settings, self._window_s = times_s, settings, window_s
        self._steps = np.diff(times_s)
        self.mean = float(flow.mean())
        self._flow = flow - self.mean
        grid = even_grid(times_s, self._flow)
        self.grid_step_s, self.rate_hz = grid.step_s, 1.0 / grid.step_s
        self.band_hz = (settings.slowest_bpm / 60.0, settings.fastest_bpm / 60.0)
        self._check_band()
        drift = slow_drift(grid, self.band_hz[0])
        self.grid: Grid = dataclasses.replace(grid, values=np.where(grid.present, grid.values - drift, 0.0))
        self.values = self._without(drift)
        self._drift, self._rest = float(np.ptp(drift[grid.present])), self.grid

    def _check_band(self) -> None:
        """Refuse samples that cannot show a beat of the band, and limit it to those that they can."""
        slowest, self._fastest_bpm = self._settings.slowest_bpm, min(self._settings.fastest_bpm, 30.0 * self.rate_hz)
        if self._fastest_bpm <= slowest:
            raise InvalidInput(
                f"there are {self.rate_hz:.3g} samples per second, and a beat of {slowest:g} /min needs more than "
                f"{slowest / 30:.3g}; give the true frame rate, or take frames faster"
            )
        if is_smoothed(self._window_s, self.grid_step_s):
            self._fastest_bpm = min(self._fastest_bpm, 60.0 * SEEN_SHARE / self._window_s)
        if self._fastest_bpm <= slowest:
            raise InvalidInput(
                f"each map averages {1e3 * self._window_s:.4g} ms, which removes beats faster than "
                f"{self._fastest_bpm:.3g} /min; compute contrast of fewer frames, or in space"
            )

    def find_peak(self) -> Peak | None:
        """Return the peak of the spectrum in the band; see `spectrum.find_peak`."""
        return self._peak_of(self.grid)

    def _peak_of(self, grid: Grid) -> Peak | None:
        return find_peak(grid, self.band_hz, self._settings.false_alarm, window_s=self._window_s)

    def subtract_beat(self, phase: Phase, harmonics: int) -> None:
        """Take the drift of what is not the beat instead, of which the ends of the record have a part."""
        design = harmonic_design(phase.cycles, harmonics)
        found = np.linalg.lstsq(design.T @ design, design.T @ self.values, rcond=1e-10)[0]
        rest = even_grid(self.times_s, self._flow - design[:, 1:] @ found[1:])
        drift = slow_drift(rest, self.band_hz[0])
        self._drift = float(np.ptp(drift[rest.present]))
        self.values = self._without(drift)
        self._rest = dataclasses.replace(rest, values=np.where(rest.present, rest.values - drift, 0.0))

    def _without(self, drift: Array) -> Array:
        moments = self.times_s[0] + self.grid.step_s * np.arange(len(drift))
        return np.asarray(self._flow - np.interp(self.times_s, moments, drift))

    @property
    def notes(self) -> list[str]:
        """What to know before a beat is looked for."""
        notes, step, limit = [], self.grid.step_s, self._fastest_bpm
        if self.grid.missing:
            notes.append(f"{self.grid.missing} of {len(self.grid.values)} samples are missing (dropped frames, pauses)")
        regular = self._steps[self._steps < 1.5 * step]
        if float(np.abs(regular - step).max(initial=0.0)) > _UNEVEN_SHARE * step:
            notes.append(f"samples are {1e3 * self._steps.min():.3g} to {1e3 * self._steps.max():.3g} ms apart; the "
                         "spectrum takes them as even, the averaged beat does not")  # fmt: skip
        if self._settings.fastest_bpm > limit:
            why = "removes a faster one" if is_smoothed(self._window_s, step) else "shows a faster one as a slower one"
            notes.append(f"beats up to {limit:.4g} /min are looked for, since the frame rate, or the window of a map, "
                         f"{why}")  # fmt: skip
        if self._drift > _MIN_REPORTED_DRIFT * abs(self.mean):
            notes.append(f"a slow drift of {100 * self._drift / abs(self.mean):.2g} % of the mean was subtracted")
        return notes

    def why_none(self, peak: Peak | None) -> str:
        """Return why there is no beat."""
        low, high = self._settings.slowest_bpm, self._fastest_bpm
        if peak is None:
            return f"the time course is too short to look for a beat between {low:g} and {high:.4g} /min"
        return (
            f"no beat between {low:g} and {high:.4g} /min: noise has a peak like the largest one, at "
            f"{60 * peak.frequency_hz:.3g} /min, with a probability of {peak.false_alarm:.2g}"
        )

    def notes_on(self, peak: Peak, phase: Phase) -> list[str]:
        """What to know about a beat that was found."""
        notes, rate = [], phase.rate_hz
        loss = 1.0 - float(np.sinc(rate * self._window_s))
        if loss > _LOSS_SHARE:
            notes.append(f"each map averages {1e3 * self._window_s:.3g} ms, {rate * self._window_s:.2g} of a beat; "
                         f"the pulsatility is too small by about {100 * loss:.2g} %")  # fmt: skip
        alias = 60.0 * (self.rate_hz - rate)
        if 30.0 * self.rate_hz < alias <= self._settings.fastest_bpm:
            notes.append(f"it may be a beat of {alias:.4g} /min that the frame rate does not resolve")
        if (order := round(peak.frequency_hz / rate)) > 1:
            notes.append(f"the largest peak, at {60 * peak.frequency_hz:.3g} /min, is harmonic {order} of this beat")
        other = self._peak_of(self._rest)
        if other is not None and other.false_alarm < self._settings.false_alarm and (
            other.power > _OTHER_SHARE * peak.power
        ):  # fmt: skip
            notes.append(f"another rhythm, at {60 * other.frequency_hz:.3g} /min, has {other.power / peak.power:.2g} "
                         "times its power; narrow the range if that is the heart")  # fmt: skip
        return notes
