"""Rows of the layer table: what was typed so far, and what is wrong with it."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param_info
from napari_gpubio.gui.tables import Cell, shown_number, typed_number
from napari_gpubio.light.layers.model import MOST_LAYERS, Layer, LayeredMedium

NUMBERS = ("n", "mua_per_mm", "mus_per_mm", "g", "thickness_mm")
COEFFICIENTS = ("mua_per_mm", "mus_per_mm")
UNITS = {"1/mm": "mm", "1/cm": "cm"}  # of coefficients, and of thicknesses with it
INFINITY = "∞"
_INFINITE_TEXTS = ("inf", "infinity", "infinite", "endless", INFINITY)
_TENFOLD = {("1/cm", True): 10, ("1/cm", False): Decimal("0.1")}  # how many of the unit make ours; is a coefficient
_LABELS = {"n": "n", "mua_per_mm": "µa", "mus_per_mm": "µs", "g": "g", "thickness_mm": "the thickness"}
_INFO = {field.name: param_info(field) for field in dataclasses.fields(Layer)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """A layer as it stands in the table, right or wrong; lengths in mm.

    Parameters
    ----------
    name
        What it is.
    n, mua_per_mm, mus_per_mm, g, thickness_mm
        A number, the text that was typed where that is no number, or None.
    """

    name: str = ""
    n: Cell = None
    mua_per_mm: Cell = None
    mus_per_mm: Cell = None
    g: Cell = None
    thickness_mm: Cell = None

    @classmethod
    def of(cls, layer: Layer) -> "LayerRow":
        """Return the row of a layer."""
        row = cls(**{field.name: getattr(layer, field.name) for field in dataclasses.fields(layer)})
        return dataclasses.replace(row, thickness_mm=math.inf) if layer.is_endless else row

    def text(self, field: str, unit: str = "1/mm") -> str:
        """Return a field as the user would type it, with all its digits."""
        value = getattr(self, field)
        if not isinstance(value, float):
            return "" if value is None else str(value)
        return INFINITY if math.isinf(value) else repr(shown_number(value, _factor(field, unit))).removesuffix(".0")

    def short_text(self, field: str, unit: str = "1/mm") -> str:
        """Return a field as it is shown, with five figures."""
        value = getattr(self, field)
        if isinstance(value, float) and math.isfinite(value):
            return f"{shown_number(value, _factor(field, unit)):.5g}".replace("e-0", "e-").replace("e+0", "e")
        return self.text(field, unit)

    def with_text(self, field: str, text: str, unit: str = "1/mm") -> "LayerRow":
        """Return the row after the user typed a text into a field; what has not changed stays as it is."""
        text = text.strip()
        if text == self.text(field, unit):
            return self
        value = text if field == "name" else _typed(text, field, unit)
        return dataclasses.replace(self, **{field: value})

    def problem(self, field: str, unit: str = "1/mm") -> str:
        """Return what is wrong with a field by itself, as the rest of a sentence, or an empty text."""
        if field not in NUMBERS:
            return ""
        value, label = getattr(self, field), _LABELS[field]
        if value is None:
            return f"{label} is missing; type a number"
        wrong = self._wrong_with(field, value, unit)
        return f"{label} is {self.short_text(field, unit)}{wrong}" if wrong else ""

    def layer(self) -> Layer:
        """Return the layer; every field must be right."""
        return Layer(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Layer)})

    def _wrong_with(self, field: str, value: float | str, unit: str) -> str:
        if isinstance(value, str):
            return ", which is not a number; type one, such as 0.5" + ("" if field != "thickness_mm" else ", or ∞")
        if math.isnan(value) or (math.isinf(value) and field != "thickness_mm"):
            return "; type a finite number"
        if field == "thickness_mm":
            return "" if value > 0 else f" {UNITS[unit]}; it must be greater than 0"
        info, shown = _INFO[field], f" {unit}" if field in COEFFICIENTS else ""
        assert info is not None
        if info.minimum is not None and value < info.minimum:
            return f"{shown}; it must be at least {info.minimum:g}"
        if info.maximum is not None and value > info.maximum:
            return f"{shown}; it must be at most {info.maximum:g}"
        if field == "g" and value == 1 and isinstance(self.mus_per_mm, float) and self.mus_per_mm > 0:
            return ": nothing would change direction; choose a smaller g, or 0 for µs"
        return ""


def problem_at(rows: Sequence[LayerRow], index: int, field: str, unit: str = "1/mm") -> str:
    """Return what is wrong with a cell among all rows, as a sentence, or an empty text."""
    row = rows[index]
    wrong = row.problem(field, unit)
    if not wrong and field == "thickness_mm" and row.thickness_mm == math.inf:
        if index < len(rows) - 1:
            wrong = "only the last layer can be infinitely thick; type a thickness"
        elif row.mua_per_mm == 0 and row.mus_per_mm == 0:
            wrong = "light would never come to an end in infinitely thick glass; type a thickness"
    return f"{title(rows, index)}: {wrong}" if wrong else ""


def first_problem(rows: Sequence[LayerRow], unit: str = "1/mm") -> tuple[int, str, str] | None:
    """Return index, field and sentence of the first thing that is wrong, or None."""
    for index in range(len(rows)):
        for field in NUMBERS:
            if sentence := problem_at(rows, index, field, unit):
                return index, field, sentence
    return None


def medium_of(rows: Sequence[LayerRow], n_above: float, n_below: float, name: str, unit: str = "1/mm") -> LayeredMedium:
    """Return the medium that the rows describe.

    Raises
    ------
    InvalidInput
        With the first thing that is wrong.
    """
    if not rows:
        raise InvalidInput("there are no layers; press Add, or choose a preset")
    if len(rows) > MOST_LAYERS:
        raise InvalidInput(f"there are {len(rows)} layers; at most {MOST_LAYERS} are possible: remove some")
    if (problem := first_problem(rows, unit)) is not None:
        raise InvalidInput(problem[2])
    return LayeredMedium(layers=tuple(row.layer() for row in rows), n_above=n_above, n_below=n_below, name=name)


def title(rows: Sequence[LayerRow], index: int) -> str:
    """The number of a layer and its name, for sentences."""
    return f"layer {index + 1}" + (f" ({rows[index].name})" if rows[index].name else "")


def _factor(field: str, unit: str) -> Decimal:
    """How many of the unit that is shown make ours."""
    if field not in (*COEFFICIENTS, "thickness_mm"):
        return Decimal(1)
    return Decimal(_TENFOLD.get((unit, field in COEFFICIENTS), 1))


def _typed(text: str, field: str, unit: str) -> Cell:
    """What a text stands for, in mm."""
    if field == "thickness_mm" and text.lower() in _INFINITE_TEXTS:
        return math.inf
    return typed_number(text, _factor(field, unit))
