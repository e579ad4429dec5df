"""In what unit fluence is told."""

import math
from dataclasses import dataclass

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.result import UNITS


@dataclass(frozen=True, slots=True)
class FluenceUnit:
    """A unit in which fluence is told.

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
    """Units in which the fluence of a source can be told: per photon, and by its power and its energy where known.

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
