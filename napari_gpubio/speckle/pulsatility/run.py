"""Pulsatility of flow: the rate of the beat, the beat-averaged course, its indices with standard errors."""

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.settings import kind_of
from napari_gpubio.speckle.pulsatility.beats import MIN_BEATS, Beats
from napari_gpubio.speckle.pulsatility.course import Course
from napari_gpubio.speckle.pulsatility.model import PulsatilitySettings, RegionPulsatility, no_beat
from napari_gpubio.speckle.pulsatility.phase import most_harmonics, track_phase
from napari_gpubio.speckle.regions import RegionCurve

Array = npt.NDArray[Any]
NO_FLOW = "there is no beat in a flow of mean {:.3g} and range {:.3g} /s"
_MIN_SAMPLES = 16


def region_pulsatility(
    curve: RegionCurve, rate_hz: float, settings: PulsatilitySettings | None = None
) -> RegionPulsatility:
    """Return the pulsatility of flow in a region.

    Flow, not K, pulsates: SFI = 1/(2T<K²>) or 1/τ, of the mean of K² over the region. Noise of that mean raises flow by
    the same share at every phase, which cancels in the indices.

    Parameters
    ----------
    curve
        Time course of a region; see `napari_gpubio.speckle.region_curves`.
    rate_hz
        Frames per second of the camera; maps of blocks of frames are as much fewer.
    settings
        Where the beat is looked for.

    Raises
    ------
    InvalidInput
        As `flow_pulsatility`.
    """
    if not (math.isfinite(rate_hz) and rate_hz > 0):
        raise InvalidInput(f"the frame rate is {rate_hz:g} frames/s; give a number above 0")
    return flow_pulsatility(
        curve.times_s(rate_hz), curve.flow, settings, name=curve.name, window_s=curve.frames / rate_hz,
        index="sfi" if curve.index is None else kind_of(curve.index),
    )  # fmt: skip


def flow_pulsatility(
    times_s: npt.ArrayLike,
    flow: npt.ArrayLike,
    settings: PulsatilitySettings | None = None,
    *,
    name: str = "",
    window_s: float = 0.0,
    index: str = "sfi",
) -> RegionPulsatility:
    """Return the pulsatility of a time course of flow, at even or uneven times.

    1. A slow drift, which no beat of the band has a part in, is subtracted; the mean stays.
    2. The beat is the peak of the spectrum, within the band, that stands out most of the background; if fluctuations
       without a beat would have such a peak more often than the settings allow, the result is NaN (`find_peak`).
    3. Its phase is followed as far as the noise allows (`track_phase`).
    4. The beat-averaged course is a Fourier series of that phase, fitted to all samples of beats that are covered; the
       number of harmonics is that of the least Mallows' C_p (1973): fewer would flatten the course, more would follow
       the noise.
    5. Pulsatility index (max - min) / mean (Gosling and King 1974), resistivity index (max - min) / max (Pourcelot
       1974). The extrema of a noisy course lie too far apart: the jackknife over beats (Quenouille 1956; Tukey 1958)
       subtracts this bias. It gives the standard errors, too, of a course of two more harmonics, which makes up for
       the choice of their number.

    Parameters
    ----------
    times_s
        Time of each sample, increasing; those without a value may be left out.
    flow
        Index of flow, shape (samples,). Samples that are not finite are left out.
    settings
        Where the beat is looked for.
    name
        Name of the region.
    window_s
        Duration of the frames that one sample is computed from, which smooths the beat; 0: not known.
    index
        What flow was computed by: a key of `FLOWS`.

    Raises
    ------
    InvalidInput
        If times and flow do not fit together, or the frame rate is too low for all of the band.
    """
    chosen = settings or PulsatilitySettings()
    times, values = _checked(times_s, flow)
    good = np.isfinite(values)
    notes = [] if good.all() else [f"{np.count_nonzero(~good)} of {len(values)} samples have no flow and are left out"]
    times, values = times[good], values[good]
    if len(values) < _MIN_SAMPLES:
        text = f"a beat cannot be found in {len(values)} samples; at least {_MIN_SAMPLES} are needed"
        return no_beat(name, index, math.nan, text, *notes)
    if not values.mean() > 0.0 or not np.ptp(values) > 0.0:
        return no_beat(name, index, math.nan, NO_FLOW.format(values.mean(), np.ptp(values)), *notes)
    course = Course(times, values, chosen, window_s)
    peak = course.find_peak()
    if peak is None or peak.false_alarm > chosen.false_alarm:
        chance = math.nan if peak is None else peak.false_alarm
        return no_beat(name, index, chance, course.why_none(peak), *notes, *course.notes)
    phase = track_phase(course.grid, times, course.values, peak.frequency_hz, course.band_hz[0])
    most = most_harmonics(course.grid, phase.rate_hz)
    course.subtract_beat(phase, most)
    notes += course.notes
    beats = Beats(phase, course, most)
    if beats.count < MIN_BEATS:
        text = f"{beats.count} whole beats were recorded; at least {MIN_BEATS} are needed"
        return no_beat(name, index, peak.false_alarm, text, *notes)
    notes += [*beats.notes, *course.notes_on(peak, phase)]
    return dataclasses.replace(beats.averaged(name, index), false_alarm=peak.false_alarm, notes=tuple(notes))


def _checked(times_s: npt.ArrayLike, flow: npt.ArrayLike) -> tuple[Array, Array]:
    times, values = np.asarray(times_s, np.float64), np.asarray(flow, np.float64)
    if times.ndim != 1 or times.shape != values.shape:
        raise InvalidInput(f"times have shape {times.shape} and flow {values.shape}; give one time for each sample")
    if not np.isfinite(times).all() or (np.diff(times) <= 0).any():
        raise InvalidInput("the times of the samples do not increase everywhere; sort them, and give each sample once")
    return times, values
