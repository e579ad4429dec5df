"""What the numbers of a volume mean: quantity, unit and scale, and with what uncertainty they are known.

A layer carries it in its metadata: under ``QUANTITY`` a `Quantity`, and where they are known under ``STANDARD_ERROR``
an array of the volume's stored shape and under ``HALVES`` two of them, both on the linear scale and in the same unit.
Under ``GUIDE`` a fluence has itself without noise, as theory has it: `napari_gpubio.light.guide`.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried

Array = npt.NDArray[Any]
Scale = Literal["linear", "log10"]
QUANTITY, UNIT, STANDARD_ERROR, HALVES, GUIDE = "quantity", "unit", "standard_error", "halves", "guide"
SCALES: tuple[Scale, ...] = ("linear", "log10")
LIGHT_DOSES = ("fluence", "fluence rate", "radiant exposure")  # all of them are light by area
_LOG = "log10"

# Units that can be converted into each other stand in one row, with their size in the unit that has 1.
_UNITS: tuple[dict[str, float], ...] = (
    {"1/mm²": 1.0, "1/cm²": 0.01, "1/m²": 1e-6},
    {"1/mm³": 1.0, "1/cm³": 1e-3},
    {"mW/mm²": 1.0, "W/mm²": 1e3, "µW/mm²": 1e-3, "mW/cm²": 0.01, "W/cm²": 10.0, "W/m²": 1e-3},
    {"mW/mm³": 1.0, "W/cm³": 1.0, "mW/cm³": 1e-3},
    {"J/cm²": 1.0, "mJ/cm²": 1e-3, "J/mm²": 100.0, "mJ/mm²": 0.1, "J/m²": 1e-4},
    {"J/cm³": 1.0, "mJ/mm³": 1.0, "mJ/cm³": 1e-3},
    {"Gy": 1.0, "cGy": 0.01, "mGy": 1e-3, "J/kg": 1.0},
    {"Sv": 1.0, "mSv": 1e-3},
    {"%": 0.01, "1": 1.0},
    {"mm²/s": 1.0, "m²/s": 1e6, "µm²/ms": 1e-3, "10⁻³ mm²/s": 1e-3},
    {"mm": 1.0, "cm": 10.0, "m": 1e3, "µm": 1e-3},
    {"1/mm": 1.0, "1/cm": 0.1},
    {"mm³": 1.0, "cm³": 1e3, "µm³": 1e-9},
    {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9, "ps": 1e-12},
    {"1/s": 1.0, "Hz": 1.0, "kHz": 1e3},
    {"mm/s": 1.0, "µm/s": 1e-3},
    {"K": 1.0, "mK": 1e-3},
    {"°C": 1.0}, {"HU": 1.0}, {"s/mm²": 1.0}, {"counts": 1.0}, {"photons": 1.0}, {"a.u.": 1.0},
    {"rad": 1.0}, {"°": 1.0}, {"ns mm": 1.0}, {"rad mm": 1.0},
)  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_TO_SUPERSCRIPTS = {plain: raised for raised, plain in _SUPERSCRIPTS.items()}
_EXAMPLES = "1/mm2, mW/mm2, J/cm2, Gy, cGy, %, mm2/s"


def _key(unit: str) -> str:
    """A unit as it is looked up: without superscripts, spaces and signs that are written in several ways."""
    plain = unit.translate(_SUPERSCRIPTS).replace("μ", "u").replace("µ", "u")
    plain = re.sub(r"[\s^*·]", "", plain)
    return re.sub(r"^([a-z]+)-([123])$", lambda found: f"1/{found[1]}{found[2].strip('1')}", plain)


_KNOWN = {_key(unit): unit for row in _UNITS for unit in row}
_KNOWN |= {"percent": "%", "cc": "cm³", "deg": "°", "degC": "°C"}


@dataclass(frozen=True, slots=True)
class Quantity:
    """What the numbers of a volume mean.

    Parameters
    ----------
    name
        The field's word: ``"fluence"``, ``"fluence rate"``, ``"radiant exposure"``, ``"absorbed energy"``,
        ``"absorbed dose"``, ``"CT number"``, ``"FA"``.
    unit
        Of the linear values; empty if it is not known or there is none. It is kept as `checked_unit` returns it.
    scale
        ``"log10"`` if the volume holds decimal logarithms of the values in ``unit``.
    source
        Where the numbers came from, for instance a run or a file.

    Raises
    ------
    InvalidInput
        If the name is empty, or the unit or the scale is not known.

    Examples
    --------
    >>> Quantity("fluence", "1/mm2", "log10").text
    'log10 fluence (1/mm²)'
    """

    name: str
    unit: str = ""
    scale: Scale = "linear"
    source: str = ""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise InvalidInput("the quantity has no name; give one, for instance 'fluence' or 'absorbed dose'")
        if self.scale not in SCALES:
            raise InvalidInput(f"the scale of {self.name} is {self.scale!r}; choose 'linear' or 'log10'")
        object.__setattr__(self, "unit", checked_unit(self.unit) if self.unit.strip() else "")

    @property
    def is_log(self) -> bool:
        """Whether the volume holds decimal logarithms."""
        return self.scale == _LOG

    @property
    def text(self) -> str:
        """Scale, name and unit, for people."""
        return f"{'log10 ' if self.is_log else ''}{self.name}{f' ({self.unit})' if self.unit else ''}"

    def to_data(self) -> dict[str, str]:
        """Return it as plain data for files."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Any) -> "Quantity":
        """Return what `to_data` wrote.

        Raises
        ------
        InvalidInput
            If it is not that, or a part cannot be used.
        """
        known = ("name", "unit", "scale", "source")
        is_text = isinstance(data, Mapping) and all(isinstance(value, str) for value in data.values())
        if not is_text or "name" not in data or not set(data) <= set(known):
            raise InvalidInput(f"the quantity is {str(data)[:80]!r}; it has texts for {', '.join(known)} and no others")
        return cls(**data)


def quantity_of(layer: Any) -> Quantity | None:
    """Return what the numbers of a layer mean, or None if the layer does not say so.

    A layer of another program may carry a text, ``"log10 fluence"``, and beside it a unit; a unit that is not known
    is left out.
    """
    held, unit = carried(layer, QUANTITY), carried(layer, UNIT)
    if isinstance(held, Quantity):
        return held
    try:
        if isinstance(held, Mapping):
            return Quantity.from_data(held)
        known = str(unit or "") if is_unit(str(unit or "")) else ""
        scale, name = _scale_and_name(str(held or ""))
        return Quantity(name, known, scale) if name else None
    except InvalidInput:
        return None


def standard_error_of(layer: Any) -> Array | None:
    """Return the standard error of a layer's linear values, in its unit and its stored shape, or None."""
    return _array_of(layer, STANDARD_ERROR)


def halves_of(layer: Any) -> Array | None:
    """Return a layer's linear values by two halves of the data, shape (2, X, Y, Z), in its unit, or None."""
    return _array_of(layer, HALVES)


def guide_of(layer: Any) -> Array | None:
    """Return a layer's linear values without noise, as theory has them, in its unit and its stored shape, or None."""
    return _array_of(layer, GUIDE)


def _array_of(layer: Any, name: str) -> Array | None:
    held = carried(layer, name)
    return None if held is None else np.asarray(held)


def quantity_metadata(
    quantity: Quantity,
    *,
    standard_error: Array | None = None,
    halves: Array | None = None,
    guide: Array | None = None,
) -> dict[str, Any]:
    """Return what a layer carries of a quantity, without what is not known."""
    found = {QUANTITY: quantity, STANDARD_ERROR: standard_error, HALVES: halves, GUIDE: guide}
    return {name: value for name, value in found.items() if value is not None}


def to_linear(values: npt.ArrayLike, quantity: Quantity | None) -> Array:
    """Return values on the linear scale; NaN and -infinity of a logarithm stand for nothing there and become 0.

    Values that are linear already are returned as they are, NaN included.
    """
    array = np.asarray(values)
    if quantity is None or not quantity.is_log:
        return array
    kind = np.float64 if array.dtype == np.float64 else np.float32
    return np.asarray(np.power(kind(10.0), np.nan_to_num(array.astype(kind, copy=False), nan=-np.inf, posinf=np.inf)))


def log10_of(values: Array) -> npt.NDArray[np.float32]:
    """Return the decimal logarithm, float32; NaN where there is nothing."""
    shown = np.full(values.shape, np.nan, np.float32)
    return np.log10(values, out=shown, where=values > 0)


def is_unit(text: str) -> bool:
    """Whether a text is a unit that is known here."""
    return _key(text.strip()) in _KNOWN


def checked_unit(text: str) -> str:
    """Return a unit as it is shown, ``1/mm²`` for ``1/mm2`` or ``mm^-2``.

    Raises
    ------
    InvalidInput
        If it is not known.
    """
    if not is_unit(text):
        raise InvalidInput(f"{text.strip()[:40]!r} is not a known unit; give one, for instance {_EXAMPLES}")
    return _KNOWN[_key(text.strip())]


def ascii_unit(unit: str) -> str:
    """Return a unit for places that hold ASCII only: ``1/mm2`` for ``1/mm²``."""
    return unit.translate(_SUPERSCRIPTS).replace("µ", "u").replace("°", "deg")


def power_of_ten(exponent: int) -> str:
    """Return a power of ten as it is shown: ``10⁻³``."""
    return f"10{str(exponent).translate(_TO_SUPERSCRIPTS)}"


def unit_factor(unit: str, wanted: str) -> float:
    """Return the number that turns values in one unit into values in another.

    Raises
    ------
    InvalidInput
        If a unit is not known, or they measure different things.

    Examples
    --------
    >>> unit_factor("mW/mm2", "mW/cm2")
    100.0
    """
    first, second = checked_unit(unit), checked_unit(wanted)
    row = next(row for row in _UNITS if first in row)
    if second not in row:
        others = ", ".join(other for other in row if other != first)
        raise InvalidInput(
            f"{first} cannot be converted to {second}; "
            + (f"choose one of {others}" if others else "no other unit measures the same")
        )
    return row[first] / row[second]


def _scale_and_name(text: str) -> tuple[Scale, str]:
    """Scale and name of a quantity that is given as a text."""
    text = text.strip()
    if text.startswith(_LOG):
        return "log10", text.removeprefix(_LOG).strip() or "values"
    return "linear", text
