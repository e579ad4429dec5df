"""Rows of the tables of labels and of layers: what was typed so far, and what is wrong with it."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Protocol, Self

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import ParamInfo, param_info
from napari_gpubio.gui.tables import Cell, shown_number, typed_number
from napari_gpubio.light.layers.model import MOST_LAYERS, Layer, LayeredMedium
from napari_gpubio.light.model import Medium

NUMBERS = ("mua_per_mm", "mus_per_mm", "g", "n")
COEFFICIENTS = ("mua_per_mm", "mus_per_mm", "musp_per_mm")
THICKNESS = "thickness_mm"
UNITS = {"1/mm": "mm", "1/cm": "cm"}  # of coefficients, and of thicknesses with it
TYPED = "typed by the user"
INFINITY = "∞"
_INFINITE_TEXTS = ("inf", "infinity", "infinite", "endless", INFINITY)
_INFO = {field.name: param_info(field) for field in dataclasses.fields(Medium)}
_LAYER_INFO = {field.name: param_info(field) for field in dataclasses.fields(Layer)}
_LAYER_LABELS = {"n": "n", "mua_per_mm": "µa", "mus_per_mm": "µs", "g": "g", THICKNESS: "the thickness"}


class Recipe(Protocol):
    """Where a row's numbers come from, so that they can follow the wavelength."""

    def medium(self, wavelength_nm: float) -> Medium:
        """Return the properties at a wavelength; InvalidInput where they are not known."""
        ...


class OpticalRow:
    """Texts of a row in the unit on screen; a subclass has the fields."""

    __slots__ = ()
    figures: ClassVar[int] = 5
    numbers: ClassVar[tuple[str, ...]] = NUMBERS

    def text(self, field: str, unit: str = "1/mm") -> str:
        """Return a field as the user would type it, with all its digits."""
        value = getattr(self, field)
        if not isinstance(value, float):
            return "" if value is None else str(value)
        return INFINITY if value == math.inf else repr(shown_number(value, unit_factor(field, unit))).removesuffix(".0")

    def short_text(self, field: str, unit: str = "1/mm") -> str:
        """Return a field as it is shown, with few figures."""
        value = getattr(self, field)
        if isinstance(value, float) and math.isfinite(value):
            text = f"{shown_number(value, unit_factor(field, unit)):.{self.figures}g}"
            return text.replace("e-0", "e-").replace("e+0", "e")
        return self.text(field, unit)

    def with_text(self, field: str, text: str, unit: str = "1/mm") -> Self:
        """Return the row after the user typed a text into a field; what has not changed stays as it is."""
        text = text.strip()
        if text == self.text(field, unit):
            return self
        if field not in self.numbers:
            return self.with_value(field, text)
        if field == THICKNESS and text.lower() in _INFINITE_TEXTS:
            return self.with_number(field, math.inf)
        return self.with_number(field, typed_number(text, unit_factor(field, unit)))

    def with_value(self, field: str, value: Any) -> Self:
        """Return the row with another value."""
        changed: Self = dataclasses.replace(self, **{field: value})  # type: ignore[type-var] # subclasses are dataclasses
        return changed

    def with_number(self, field: str, value: Cell) -> Self:
        """Return the row after the user typed a number, or what is none."""
        return self.with_value(field, value)

    def is_missing(self, field: str) -> bool:
        """Whether a number has yet to be given."""
        return field in self.numbers and getattr(self, field) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRow(OpticalRow):
    """Optical properties of one label as they stand in the table, right or wrong.

    A property is a number (1/mm where it has a unit), the typed text if that is not a number, or None. ``recipe`` gives
    the numbers at a wavelength; ``warning`` says why they are not those of the chosen one.
    """

    figures: ClassVar[int] = 4
    label: int
    name: str = ""
    mua_per_mm: Cell = None
    mus_per_mm: Cell = None
    g: Cell = None
    n: Cell = None
    source: str = ""
    recipe: Recipe | None = None
    warning: str = ""

    @classmethod
    def of(cls, medium: Medium, label: int | None = None) -> "PropertyRow":
        """Return the row of a medium, under another label if one is given."""
        values = {field.name: getattr(medium, field.name) for field in dataclasses.fields(medium)}
        return cls(**values | ({} if label is None else {"label": label}))

    @property
    def title(self) -> str:
        """The label and its name, for sentences."""
        return f"label {self.label}" + (f" ({self.name})" if self.name else "")

    @property
    def is_empty(self) -> bool:
        """Whether no property has been given yet."""
        return all(getattr(self, field) is None for field in NUMBERS)

    @property
    def musp_per_mm(self) -> float | None:
        """Reduced scattering coefficient, 1/mm; None while it is not known."""
        if self.problem("mus_per_mm") or self.problem("g"):
            return None
        return float(self.mus_per_mm) * (1.0 - float(self.g))  # type: ignore[arg-type] # numbers: nothing is wrong

    def with_number(self, field: str, value: Cell) -> "PropertyRow":
        """Return the row with a number of the user's, which does not follow the wavelength."""
        row = dataclasses.replace(self.with_value(field, value), recipe=None, warning="")
        return dataclasses.replace(row, source="" if row.is_empty else TYPED)

    def filled(self, recipe: Recipe, wavelength_nm: float) -> "PropertyRow":
        """Return the row with the numbers of a recipe; where it has none, a warning, and the numbers it had."""
        try:
            medium = recipe.medium(wavelength_nm)
        except InvalidInput as error:
            warning = f"{self.title} is not for {wavelength_nm:g} nm: {error}"
            return dataclasses.replace(self, recipe=recipe, warning=warning)
        made = PropertyRow.of(medium, self.label)
        return dataclasses.replace(made, name=self.name or medium.name, recipe=recipe)

    def problem(self, field: str, unit: str = "1/mm") -> str:
        """Return what is wrong with a field, as a sentence for the user, or an empty text."""
        value, info = getattr(self, field), _INFO.get(field)
        if field not in NUMBERS or info is None:
            return ""
        if self.is_empty:
            return f"{self.title} has no optical properties; fill its row or choose a preset"
        if value is None:
            return f"{self.title} has no {info.label}; type it or choose a preset"
        wrong = _wrong_with(value, info, field, unit)
        return f"{self.title}: {info.label} is {self.short_text(field, unit)}{wrong}" if wrong else ""

    def first_problem(self, unit: str = "1/mm") -> str:
        """Return the first thing that is wrong with the row, or an empty text."""
        return next((problem for field in NUMBERS if (problem := self.problem(field, unit))), "")

    def medium(self) -> Medium:
        """Return the row's properties; `InvalidInput` with the first problem."""
        if problem := self.first_problem():
            raise InvalidInput(problem)
        return Medium(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Medium)})


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow(OpticalRow):
    """A layer as it stands in the table, right or wrong (cells as in `PropertyRow`); lengths in mm."""

    numbers: ClassVar[tuple[str, ...]] = ("n", "mua_per_mm", "mus_per_mm", "g", THICKNESS)
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

    def filled(self, recipe: Recipe, wavelength_nm: float) -> "LayerRow":
        """Return the row with the numbers of a recipe; its name and its thickness stay."""
        medium = recipe.medium(wavelength_nm)
        numbers = {field: getattr(medium, field) for field in NUMBERS}
        return dataclasses.replace(self, name=self.name or medium.name, **numbers)

    def problem(self, field: str, unit: str = "1/mm") -> str:
        """Return what is wrong with a field by itself, as the rest of a sentence, or an empty text."""
        if field not in self.numbers:
            return ""
        value, label = getattr(self, field), _LAYER_LABELS[field]
        if value is None:
            return f"{label} is missing; type a number"
        wrong = self._wrong_with(field, value, unit)
        return f"{label} is {self.short_text(field, unit)}{wrong}" if wrong else ""

    def layer(self) -> Layer:
        """Return the layer; every field must be right."""
        return Layer(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Layer)})

    def _wrong_with(self, field: str, value: float | str, unit: str) -> str:
        info = _LAYER_INFO[field]
        if field == THICKNESS and value == math.inf:
            return ""
        if field == THICKNESS and isinstance(value, str):
            return f"{_wrong_with(value, info, field, unit)}, or {INFINITY}"
        if field == THICKNESS and isinstance(value, float) and math.isfinite(value):
            return "" if value > 0 else f" {UNITS[unit]}; it must be greater than 0"
        if field == "g" and value == 1 and isinstance(self.mus_per_mm, float) and self.mus_per_mm > 0:
            return ": nothing would change direction; choose a smaller g, or 0 for µs"
        return _wrong_with(value, info, field, unit)


def unit_text(field: str, unit: str) -> str:
    """Return the unit of a field while coefficients are in ``unit``, or an empty text."""
    return unit if field in COEFFICIENTS else UNITS[unit] if field == THICKNESS else ""


def unit_factor(field: str, unit: str) -> Decimal:
    """Return how many of the unit that is shown make 1/mm or mm."""
    if unit == "1/mm" or not unit_text(field, unit):
        return Decimal(1)
    return Decimal(10) if field in COEFFICIENTS else Decimal("0.1")


def _wrong_with(value: float | str, info: ParamInfo | None, field: str, unit: str) -> str:
    """What is wrong with a value, as the rest of a sentence that begins with it."""
    if isinstance(value, str):
        return ", which is not a number; type one, such as 0.5"
    if not math.isfinite(value):
        return "; type a finite number"
    shown = f" {unit_text(field, unit)}" if unit_text(field, unit) else ""
    if info is not None and info.minimum is not None and value < info.minimum:
        return f"{shown}; it must be at least {info.minimum:g}{shown}"
    if info is not None and info.maximum is not None and value > info.maximum:
        return f"{shown}; it must be at most {info.maximum:g}{shown}"
    return ""


# -- all layers -------------------------------------------------------------------------------------------------------


def layer_title(rows: Sequence[LayerRow], index: int) -> str:
    """The number of a layer and its name, for sentences."""
    return f"layer {index + 1}" + (f" ({rows[index].name})" if rows[index].name else "")


def layer_problem(rows: Sequence[LayerRow], index: int, field: str, unit: str = "1/mm") -> str:
    """Return what is wrong with a cell among all rows, as a sentence, or an empty text."""
    row = rows[index]
    wrong = row.problem(field, unit)
    if not wrong and field == THICKNESS and row.thickness_mm == math.inf:
        if index < len(rows) - 1:
            wrong = "only the last layer can be infinitely thick; type a thickness"
        elif row.mua_per_mm == 0 and row.mus_per_mm == 0:
            wrong = "light would never come to an end in infinitely thick glass; type a thickness"
    return f"{layer_title(rows, index)}: {wrong}" if wrong else ""


def first_layer_problem(rows: Sequence[LayerRow], unit: str = "1/mm") -> tuple[int, str, str] | None:
    """Return index, field and sentence of the first thing that is wrong, or None."""
    for index in range(len(rows)):
        for field in LayerRow.numbers:
            if sentence := layer_problem(rows, index, field, unit):
                return index, field, sentence
    return None


def medium_of(rows: Sequence[LayerRow], n_above: float, n_below: float, name: str, unit: str = "1/mm") -> LayeredMedium:
    """Return the medium that the rows describe; `InvalidInput` with the first problem."""
    if not rows:
        raise InvalidInput("there are no layers; press Add, or choose a preset")
    if len(rows) > MOST_LAYERS:
        raise InvalidInput(f"there are {len(rows)} layers; at most {MOST_LAYERS} are possible: remove some")
    if (problem := first_layer_problem(rows, unit)) is not None:
        raise InvalidInput(problem[2])
    return LayeredMedium(layers=tuple(row.layer() for row in rows), n_above=n_above, n_below=n_below, name=name)
