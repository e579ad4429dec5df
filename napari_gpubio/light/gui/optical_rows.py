"""Rows of the tables of labels and of layers: what was typed so far, and what is wrong with it."""

import dataclasses
import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Protocol, Self

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import ParamInfo, param_info
from napari_gpubio.gui.tables import Cell, shown_number, typed_number
from napari_gpubio.light.layers.model import Layer
from napari_gpubio.light.model import Medium

NUMBERS = ("mua_per_mm", "mus_per_mm", "g", "n")
COEFFICIENTS = ("mua_per_mm", "mus_per_mm", "musp_per_mm")
THICKNESS = "thickness_mm"
UNITS = {"1/mm": "mm", "1/cm": "cm"}  # of coefficients, and of thicknesses with it
TYPED = "entered by hand"
INFINITY = "∞"
_INFINITE_TEXTS = ("inf", "infinity", "infinite", "endless", INFINITY)
Infos = dict[str, ParamInfo | None]


class Recipe(Protocol):
    """Where a row's numbers come from, so that they can follow the wavelength."""

    def medium(self, wavelength_nm: float) -> Medium:
        """Return the properties at a wavelength; InvalidInput where they are not known."""
        ...


class OpticalRow:
    """Texts of a row in the unit on screen, and what is wrong with it; a subclass has the fields."""

    __slots__ = ()
    figures: ClassVar[int] = 5
    numbers: ClassVar[tuple[str, ...]] = NUMBERS
    infos: ClassVar[Infos]

    @property
    def title(self) -> str:
        """What the row is called in sentences."""
        raise NotImplementedError

    def text(self, name: str, unit: str = "1/mm") -> str:
        """Return a field as the user would type it, with all its digits."""
        value = getattr(self, name)
        if not isinstance(value, float):
            return "" if value is None else str(value)
        return INFINITY if value == math.inf else repr(shown_number(value, unit_factor(name, unit))).removesuffix(".0")

    def short_text(self, name: str, unit: str = "1/mm") -> str:
        """Return a field with few figures."""
        value = getattr(self, name)
        if isinstance(value, float) and math.isfinite(value):
            text = f"{shown_number(value, unit_factor(name, unit)):.{self.figures}g}"
            return text.replace("e-0", "e-").replace("e+0", "e")
        return self.text(name, unit)

    def with_text(self, name: str, text: str, unit: str = "1/mm") -> Self:
        """Return the row after the user typed a text into a field; what has not changed stays as it is."""
        text = text.strip()
        if text == self.text(name, unit):
            return self
        if name not in self.numbers:
            return self.with_value(name, text)
        if name == THICKNESS and text.lower() in _INFINITE_TEXTS:
            return self.with_number(name, math.inf)
        return self.with_number(name, typed_number(text, unit_factor(name, unit)))

    def with_value(self, name: str, value: Any) -> Self:
        """Return the row with another value."""
        changed: Self = dataclasses.replace(self, **{name: value})  # type: ignore[type-var] # subclasses are dataclasses
        return changed

    def with_number(self, name: str, value: Cell) -> Self:
        """Return the row after the user typed a number, or a text that is not one."""
        return self.with_value(name, value)

    def is_missing(self, name: str) -> bool:
        """Whether a number has yet to be given."""
        return name in self.numbers and getattr(self, name) is None

    def problem(self, name: str, unit: str = "1/mm") -> str:
        """Return what is wrong with a field, as a sentence for the user, or an empty text."""
        if name not in self.numbers:
            return ""
        value, info = getattr(self, name), self.infos[name]
        label = "the thickness" if info is None else info.label
        if value is None:
            return self.title + self._missing_text(label)
        wrong = self._wrong_with(name, value, unit)
        return f"{self.title}: {label} is {self.short_text(name, unit)}{wrong}" if wrong else ""

    def first_problem(self, unit: str = "1/mm") -> str:
        """Return the first thing that is wrong with the row, or an empty text."""
        return next((problem for name in self.numbers if (problem := self.problem(name, unit))), "")

    def _missing_text(self, label: str) -> str:
        return f" has no {label}; type it or choose a preset"

    def _wrong_with(self, name: str, value: float | str, unit: str) -> str:
        """What is wrong with a value, as the rest of a sentence that begins with it."""
        if isinstance(value, str):
            return ", which is not a number; type one, such as 0.5"
        if not math.isfinite(value):
            return "; type a finite number"
        info, shown = self.infos[name], f" {unit_text(name, unit)}" if unit_text(name, unit) else ""
        if info is not None and info.minimum is not None and value < info.minimum:
            return f"{shown}; it must be at least {info.minimum:g}{shown}"
        if info is not None and info.maximum is not None and value > info.maximum:
            return f"{shown}; it must be at most {info.maximum:g}{shown}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRow(OpticalRow):
    """Optical properties of one label as they stand in the table, right or wrong.

    A property is a number (1/mm where it has a unit), the typed text if that is not a number, or None. ``recipe`` gives
    the numbers at a wavelength; ``warning`` says why they are not those of the chosen one.
    """

    figures: ClassVar[int] = 4
    infos: ClassVar[Infos] = {entry.name: param_info(entry) for entry in dataclasses.fields(Medium)}
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
        values = {entry.name: getattr(medium, entry.name) for entry in dataclasses.fields(medium)}
        return cls(**values | ({} if label is None else {"label": label}))

    @property
    def title(self) -> str:
        """The label and its name, for sentences."""
        return f"label {self.label}" + (f" ({self.name})" if self.name else "")

    @property
    def is_empty(self) -> bool:
        """Whether no property has been given yet."""
        return all(getattr(self, name) is None for name in NUMBERS)

    @property
    def musp_per_mm(self) -> float | None:
        """Reduced scattering coefficient, 1/mm; None while it is not known."""
        if self.problem("mus_per_mm") or self.problem("g"):
            return None
        return float(self.mus_per_mm) * (1.0 - float(self.g))  # type: ignore[arg-type] # numbers: nothing is wrong

    def with_number(self, name: str, value: Cell) -> "PropertyRow":
        """Return the row with a number of the user's, which does not follow the wavelength."""
        row = dataclasses.replace(self.with_value(name, value), recipe=None, warning="")
        return dataclasses.replace(row, source="" if row.is_empty else TYPED)

    def filled(self, recipe: Recipe, wavelength_nm: float) -> "PropertyRow":
        """Return the row with the numbers of a recipe; where it has none, a warning, and the numbers it had."""
        try:
            medium = recipe.medium(wavelength_nm)
        except InvalidInput as error:
            warning = f"{self.title} was not updated for {wavelength_nm:g} nm: {error}"
            return dataclasses.replace(self, recipe=recipe, warning=warning)
        made = PropertyRow.of(medium, self.label)
        return dataclasses.replace(made, name=self.name or medium.name, recipe=recipe)

    def medium(self) -> Medium:
        """Return the row's properties; `InvalidInput` with the first problem."""
        if problem := self.first_problem():
            raise InvalidInput(problem)
        return Medium(**{entry.name: getattr(self, entry.name) for entry in dataclasses.fields(Medium)})

    def _missing_text(self, label: str) -> str:
        if self.is_empty:
            return " has no optical properties; fill its row or choose a preset"
        return OpticalRow._missing_text(self, label)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow(OpticalRow):
    """A layer as it stands in the table, right or wrong (cells as in `PropertyRow`); lengths in mm.

    ``number`` counts from 1 at the top; only the last layer may be infinitely thick.
    """

    numbers: ClassVar[tuple[str, ...]] = ("n", "mua_per_mm", "mus_per_mm", "g", THICKNESS)
    infos: ClassVar[Infos] = {entry.name: param_info(entry) for entry in dataclasses.fields(Layer)}
    name: str = ""
    n: Cell = None
    mua_per_mm: Cell = None
    mus_per_mm: Cell = None
    g: Cell = None
    thickness_mm: Cell = None
    number: int = field(default=1, compare=False)
    is_last: bool = field(default=True, compare=False)

    @classmethod
    def of(cls, layer: Layer) -> "LayerRow":
        """Return the row of a layer."""
        row = cls(**{entry.name: getattr(layer, entry.name) for entry in dataclasses.fields(layer)})
        return dataclasses.replace(row, thickness_mm=math.inf) if layer.is_endless else row

    @property
    def title(self) -> str:
        """The number and the name of the layer, for sentences."""
        return f"layer {self.number}" + (f" ({self.name})" if self.name else "")

    def filled(self, recipe: Recipe, wavelength_nm: float) -> "LayerRow":
        """Return the row with the numbers of a recipe, or raise its `InvalidInput`; name and thickness stay."""
        medium = recipe.medium(wavelength_nm)
        numbers = {name: getattr(medium, name) for name in NUMBERS}
        return dataclasses.replace(self, name=self.name or medium.name, **numbers)

    def layer(self) -> Layer:
        """Return the layer; `InvalidInput` with the first problem."""
        return Layer(**{entry.name: getattr(self, entry.name) for entry in dataclasses.fields(Layer)})

    def _missing_text(self, label: str) -> str:
        return f": {label} is missing; type a number"

    def _wrong_with(self, name: str, value: float | str, unit: str) -> str:
        if name == "g" and value == 1 and isinstance(self.mus_per_mm, float) and self.mus_per_mm > 0:
            return ": scattering would not change the direction; choose a smaller g, or 0 for µs"
        wrong = OpticalRow._wrong_with(self, name, value, unit)
        if name != THICKNESS:
            return wrong
        if isinstance(value, str):
            return f"{wrong}, or {INFINITY}"
        if value == math.inf:
            return self._wrong_with_endlessness()
        return wrong or ("" if value > 0 else f" {UNITS[unit]}; it must be greater than 0")

    def _wrong_with_endlessness(self) -> str:
        if not self.is_last:
            return ", and only the last layer can be infinitely thick; type a thickness"
        if self.mua_per_mm == 0 and self.mus_per_mm == 0:
            return ": light would travel forever in infinitely thick glass; type a thickness"
        return ""


def unit_text(name: str, unit: str) -> str:
    """Return the unit of a field while coefficients are in ``unit``, or an empty text."""
    return unit if name in COEFFICIENTS else UNITS[unit] if name == THICKNESS else ""


def unit_factor(name: str, unit: str) -> Decimal:
    """Return how many of the unit on screen make 1/mm or mm."""
    if unit == "1/mm" or not unit_text(name, unit):
        return Decimal(1)
    return Decimal(10) if name in COEFFICIENTS else Decimal("0.1")
