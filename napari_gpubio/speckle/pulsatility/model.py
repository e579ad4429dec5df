"""Settings and results of pulsatility."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings
from napari_gpubio.core.short_repr import ShortRepr

Array = npt.NDArray[np.float64]
FLOWS = {"sfi": "speckle flow index SFI = 1/(2TK²)", "ict": "inverse correlation time 1/τ"}


@dataclass(frozen=True, kw_only=True)
class PulsatilitySettings(Settings):
    """Where a beat is looked for.

    Raises
    ------
    InvalidInput
        If a number is out of range.
    """

    slowest_bpm: float = param(
        40.0, "Slowest", "Slowest beat that is looked for. Humans: 40 to 200, rats: 200 to 500, mice: 300 to 800.",
        unit="/min", above=0.0, maximum=6000.0, step=10.0,
    )  # fmt: skip
    fastest_bpm: float = param(
        800.0, "Fastest", "Fastest beat that is looked for.", unit="/min", above=0.0, maximum=6000.0, step=10.0
    )
    false_alarm: float = param(
        0.01, "False alarms", "Share of regions without a beat in which one is found.", above=0.0, maximum=0.5,
        step=0.01, advanced=True,
    )  # fmt: skip

    def check(self) -> None:
        """Raise InvalidInput if the band is empty."""
        if self.slowest_bpm >= self.fastest_bpm:
            raise InvalidInput(
                f"the slowest beat is {self.slowest_bpm:g} /min and the fastest {self.fastest_bpm:g} /min; the fastest "
                "must be larger"
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class RegionPulsatility(ShortRepr):
    """The beat of flow in a region; numbers are NaN, and the course is empty, where no beat was found.

    Parameters
    ----------
    name
        Name of the region.
    flow
        Index of flow that it is of, a key of `FLOWS`.
    rate_bpm, rate_error_bpm
        Mean rate of the beat and its standard error, 1/min; if beats vary, it is as well that of the whole beats.
    slowest_bpm, fastest_bpm
        Range of the rate within the time course, as far as it can be distinguished from noise.
    false_alarm
        Probability that a region without a beat shows such a peak.
    index, index_error
        Pulsatility index (max - min) / mean of the beat-averaged course (Gosling and King 1974), and standard error.
    resistivity, resistivity_error
        Resistivity index (max - min) / max (Pourcelot 1974), and standard error.
    mean
        Mean of the beat-averaged course, 1/s.
    beats
        Number of beats that were averaged.
    harmonics
        Of the course.
    phase
        Phases of the course from 0, its minimum, up to 1, shape (phases,).
    course, course_error
        Beat-averaged course of flow and its standard error, 1/s, at these phases.
    folded_phase, folded
        Means of the samples themselves in bins of phase, shape (bins,), with the same zero.
    notes
        What to know about these numbers.
    """

    name: str
    flow: str
    rate_bpm: float = math.nan
    rate_error_bpm: float = math.nan
    slowest_bpm: float = math.nan
    fastest_bpm: float = math.nan
    false_alarm: float = math.nan
    index: float = math.nan
    index_error: float = math.nan
    resistivity: float = math.nan
    resistivity_error: float = math.nan
    mean: float = math.nan
    beats: int = 0
    harmonics: int = 0
    phase: Array
    course: Array
    course_error: Array
    folded_phase: Array
    folded: Array
    notes: tuple[str, ...] = ()

    @property
    def has_beat(self) -> bool:
        """Whether a beat was found and averaged."""
        return math.isfinite(self.index)

    @property
    def summary(self) -> str:
        """One line about it: rate, indices, number of beats, or why there is none."""
        if not self.has_beat:
            return f"{self.name}: {self.notes[0]}"
        return (
            f"{self.name}: {with_error(self.rate_bpm, self.rate_error_bpm)} beats/min, pulsatility index "
            f"{with_error(self.index, self.index_error)}, resistivity index "
            f"{with_error(self.resistivity, self.resistivity_error)} ({self.beats} beats)"
        )


def with_error(value: float, error: float) -> str:
    """Return a number and its standard error, both to the second digit of the error."""
    digits = 1 - math.floor(math.log10(error)) if error > 0 else 4
    digits = min(max(digits, 0), 6)
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def no_beat(name: str, flow: str, false_alarm: float, *notes: str) -> RegionPulsatility:
    """Return the result of a region without a beat."""
    empty: npt.NDArray[np.float64] = np.empty(0)
    return RegionPulsatility(
        name=name, flow=flow, false_alarm=false_alarm, phase=empty, course=empty, course_error=empty,
        folded_phase=empty, folded=empty, notes=notes,
    )  # fmt: skip
