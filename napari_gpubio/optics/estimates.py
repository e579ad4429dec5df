"""Numbers with standard errors, units of fluence, and what the results of all photon simulations share."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Gridded, Tabular

Floats = npt.NDArray[np.float64]
MAX_ERROR = 0.5  # relative standard error up to which a number counts as more than noise
UNITS = {
    "1/mm²": "per launched photon",
    "mW/mm²": "fluence rate at the source's power",
    "J/cm²": "fluence of the source's energy",
}


class Estimate(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float

    def z_score(self, reference: float, reference_error: float = 0.0) -> float:
        """Distance to a reference in standard errors of both; 0 where equal numbers are exact, else infinite."""
        difference, error = self.value - reference, float(np.hypot(self.error, reference_error))
        if error == 0.0:
            return float(np.copysign(np.inf, difference)) if difference else 0.0
        return difference / error


@dataclass(frozen=True, eq=False, kw_only=True)
class SimulationResult(Tabular, Gridded):
    """What the results of both engines share.

    Parameters
    ----------
    launched
        Photons done.
    complete
        False if the run was stopped before its end.
    parameters
        Device, seconds, versions and settings, as JSON can hold them.
    state
        The integer tallies, from which a run is resumed and results are merged.
    """

    launched: int
    complete: bool
    parameters: Mapping[str, Any] = field(default_factory=dict)
    state: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class FluenceUnit:
    """A unit of fluence.

    Parameters
    ----------
    name
        One of `napari_gpubio.light.result.UNITS`.
    factor
        What the fluence per launched photon, 1/mm^2, is multiplied with.
    """

    name: str
    factor: float

    def __post_init__(self) -> None:
        if self.name not in UNITS:
            raise InvalidInput(f"the unit is {self.name!r}; choose one of {', '.join(UNITS)}")
        if not (math.isfinite(self.factor) and self.factor > 0):
            raise InvalidInput(f"the factor of {self.name} is {self.factor}; it must be greater than 0")


PER_PHOTON = FluenceUnit("1/mm²", 1.0)


def fluence_units(*, power_mw: float | None = None, energy_j: float | None = None) -> tuple[FluenceUnit, ...]:
    """Return units of fluence: per photon, and by the source's power and energy where known.

    Parameters
    ----------
    power_mw
        Power of a continuous source, mW.
    energy_j
        What it gave in all (power times exposure), J.

    Raises
    ------
    InvalidInput
        If the power or the energy is not greater than 0.
    """
    units = [PER_PHOTON]
    if power_mw is not None:
        units.append(FluenceUnit("mW/mm²", power_mw))
    if energy_j is not None:
        units.append(FluenceUnit("J/cm²", 100.0 * energy_j))
    return tuple(units)


class Estimates(NamedTuple):
    """An array and its standard error, of the same shape."""

    value: Floats
    error: Floats

    @property
    def effective_photons(self) -> Floats:
        """How many photons of equal weight would have this relative error; infinite without one, NaN where unknown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((self.value / self.error) ** 2)

    @property
    def trusted(self) -> npt.NDArray[np.bool_]:
        """Where there is a value and its error is known to be at most half of it.

        Beyond that a place was seen by so few photons that the rare ones which carry most of its light may be missing:
        the value is then too small by more than its error says.
        """
        return np.asarray((self.value != 0) & (self.error <= MAX_ERROR * np.abs(self.value)))
