"""Rows of the optical property table: what was typed so far, and what is wrong with it."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Protocol

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import ParamInfo, param_info
from napari_gpubio.gui.tables import Cell, shown_number, typed_number
from napari_gpubio.light.model import Medium

UNITS = {"1/mm": 1, "1/cm": 10}  # how many of the unit make 1/mm
NUMBERS = ("mua_per_mm", "mus_per_mm", "g", "n")
WITH_UNIT = ("mua_per_mm", "mus_per_mm", "musp_per_mm")
TYPED = "typed by the user"
_INFO = {field.name: param_info(field) for field in dataclasses.fields(Medium)}


class Recipe(Protocol):
    """Where a row's numbers come from, so that they can follow the wavelength."""

    def medium(self, wavelength_nm: float) -> Medium:
        """Return the properties at a wavelength; InvalidInput where they are not known."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRow:
    """Optical properties of one label as they stand in the table, right or wrong.

    Parameters
    ----------
    label
        The voxels' value.
    name, source
        As in `Medium`.
    mua_per_mm, mus_per_mm, g, n
        A number (1/mm where it has a unit), the text that was typed where that is no number, or None.
    recipe
        What gives the numbers at a wavelength, or None.
    warning
        Why the numbers are not those of the chosen wavelength, or an empty text.
    """

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

    def text(self, field: str, unit: str = "1/mm") -> str:
        """Return a field as the user would type it, with all its digits."""
        value = getattr(self, field)
        if isinstance(value, float):
            return _digits(shown_number(value, _factor(field, unit)))
        return "" if value is None else str(value)

    def short_text(self, field: str, unit: str = "1/mm") -> str:
        """Return a field as it is shown, with four figures."""
        value = getattr(self, field)
        if isinstance(value, float):
            return f"{shown_number(value, _factor(field, unit)):.4g}".replace("e-0", "e-")
        return self.text(field, unit)

    def with_text(self, field: str, text: str, unit: str = "1/mm") -> "PropertyRow":
        """Return the row after the user typed a text into a field; what has not changed stays as it is."""
        text = text.strip()
        if text == self.text(field, unit):
            return self
        if field not in NUMBERS:
            return self._with(field, text)
        row = dataclasses.replace(self._with(field, typed_number(text, _factor(field, unit))), recipe=None, warning="")
        return dataclasses.replace(row, source="" if row.is_empty else TYPED)

    def _with(self, field: str, value: Any) -> "PropertyRow":
        return dataclasses.replace(self, **{field: value})

    def filled(self, recipe: Recipe, wavelength_nm: float) -> "PropertyRow":
        """Return the row with the numbers of a recipe; where it has none, a warning, and the numbers it had."""
        try:
            medium = recipe.medium(wavelength_nm)
        except InvalidInput as error:
            warning = f"{self.title} is not for {wavelength_nm:g} nm: {error}"
            return dataclasses.replace(self, recipe=recipe, warning=warning)
        made = PropertyRow.of(medium, self.label)
        return dataclasses.replace(made, name=self.name or medium.name, recipe=recipe)

    def is_missing(self, field: str) -> bool:
        """Whether a property has yet to be given."""
        return field in NUMBERS and getattr(self, field) is None

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
        """Return the row's properties.

        Raises
        ------
        InvalidInput
            With the first thing that is wrong.
        """
        if problem := self.first_problem():
            raise InvalidInput(problem)
        return Medium(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Medium)})


def _wrong_with(value: float | str, info: ParamInfo, field: str, unit: str) -> str:
    """What is wrong with a value, as the rest of a sentence that begins with it."""
    shown = f" {unit}" if field in WITH_UNIT else ""
    if isinstance(value, str):
        return ", which is not a number; type one, such as 0.5"
    if not math.isfinite(value):
        return "; type a finite number"
    if info.minimum is not None and value < info.minimum:
        return f"{shown}; it must be at least {info.minimum:g}{shown}"
    if info.maximum is not None and value > info.maximum:
        return f"{shown}; it must be at most {info.maximum:g}{shown}"
    return ""


def _factor(field: str, unit: str) -> int:
    """How many of the unit that is shown make ours."""
    return UNITS[unit] if field in WITH_UNIT else 1


def _digits(value: float) -> str:
    """The shortest text that is the number."""
    return repr(value).removesuffix(".0")
