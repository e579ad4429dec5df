"""What is shown of light in layers: quantities, their units, and their numbers in the bins of r and z."""

import math
from typing import NamedTuple

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.optics.estimates import PER_PHOTON, UNITS, Estimates, FluenceUnit
from napari_gpubio.optics.pictures import fluence_word

QUANTITIES = ("fluence", "absorbed")
_SAME = 1e-6  # relative; a grid that ends at the bottom of the layers may miss it by rounding
# of absorbed energy or power per volume, by the unit of fluence; and how many times its factor is the fluence's
_ABSORBED_UNITS = {
    "1/mm²": ("1/mm³", "1/mm³ per launched photon", 1.0, "absorbed energy density"),
    "mW/mm²": ("mW/mm³", "mW/mm³", 1.0, "absorbed power density"),
    "J/cm²": ("J/cm³", "J/cm³", 10.0, "absorbed energy density"),
}


class QuantityUnit(NamedTuple):
    """Unit of a displayed quantity, the factor from that per photon and in mm, and the quantity's name in it."""

    name: str
    meaning: str
    factor: float
    word: str


def quantity_unit(quantity: str, unit: FluenceUnit) -> QuantityUnit:
    """Unit of fluence or absorbed energy, if that of fluence is ``unit``.

    Raises
    ------
    InvalidInput
        If there is no such quantity.
    """
    if quantity not in QUANTITIES:
        raise InvalidInput(f"the quantity is {quantity!r}; choose one of {', '.join(QUANTITIES)}")
    if quantity == "fluence":
        return QuantityUnit(unit.name, f"{unit.name} {UNITS[unit.name]}".strip(), unit.factor, fluence_word(unit))
    name, meaning, times, word = _ABSORBED_UNITS[unit.name]
    return QuantityUnit(name, meaning, times * unit.factor, word)


def quantity_rz(result: LayeredResult, quantity: str = "fluence", unit: FluenceUnit = PER_PHOTON) -> Estimates:
    """Fluence or absorbed energy in the bins of r and z, shape (radial, depth), in its unit; NaN where unknown.

    Raises
    ------
    InvalidInput
        If there is no such quantity, or the result has no absorption map.
    """
    factor = quantity_unit(quantity, unit).factor
    fluence = result.fluence_rz()  # raises without the map
    found = fluence if quantity == "fluence" or result.A_rz is None else result.A_rz
    known = np.zeros(found.value.shape, bool)
    known[own_bins(result)] = True
    return Estimates(np.where(known, factor * found.value, np.nan), np.where(known, factor * found.error, np.nan))


def own_bins(result: LayeredResult) -> tuple[slice, slice]:
    """The bins of r and z that hold what lies in them and nothing else.

    Not among them are the outermost ones, where they collect all beyond, and those below the layers, into which only
    rounding brings anything.
    """
    s, bottom = result.settings, result.medium.tops_mm[-1] / result.settings.dz_mm
    depth = s.depth_bins
    if s.absorption == "collect" and depth < bottom * (1 - _SAME):
        depth -= 1
    if math.isfinite(bottom):
        depth = min(depth, math.ceil(bottom * (1 - _SAME)))
    return slice(s.radial_bins - (s.absorption == "collect")), slice(depth)
