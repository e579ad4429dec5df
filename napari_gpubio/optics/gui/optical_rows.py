"""Rows of the tables of labels and of layers: what was typed so far, and what is wrong with it."""

import dataclasses
import math
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import ClassVar, Protocol

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import ParamInfo, param_info
from napari_gpubio.gui.typed_rows import INFINITY, Cell, Column, TypedRow
from napari_gpubio.optics.model import Layer, Medium

NUMBERS = ("mua_per_mm", "mus_per_mm", "g", "n")
COEFFICIENT = {"1/mm": ("1/mm", Decimal(1)), "1/cm": ("1/cm", Decimal(10))}
LENGTH = {"1/mm": ("mm", Decimal(1)), "1/cm": ("cm", Decimal("0.1"))}
TABLE_UNITS = tuple(COEFFICIENT)
TYPED = "entered by hand"


class OpticalRecipe(Protocol):
    """Where a row's numbers come from, so that they can follow the wavelength."""

    def medium(self, wavelength_nm: float) -> Medium:
        """Return the properties at a wavelength; InvalidInput where they are not known."""
        ...


_number = partial(Column, is_number=True)
_coefficient = partial(_number, units=COEFFICIENT)
LABEL_COLUMNS = (
    Column("label", "Label", "The label, in its color in the layer", "Label", editable=False),
    Column("name", "Name", "What the label stands for", "gray matter"),
    _coefficient("mua_per_mm", "µa", "Absorption coefficient, at least 0", "0.0000"),
    _coefficient("mus_per_mm", "µs", "Scattering coefficient, at least 0"),
    _number("g", "g", "Anisotropy: mean cosine of the scattering angle, -1 to 1"),
    _number("n", "n", "Refractive index, at least 1"),
    _coefficient("musp_per_mm", "µs′", "Reduced scattering coefficient, µs (1 - g)", editable=False),
    Column("source", "Source", "Where the numbers come from", "G. Stran…"),
)
_THICKNESS = ParamInfo(label="the thickness", help="")  # its limits are not those of a number alone
LAYER_COLUMNS = (
    Column("name", "Layer", "What the layer is", "papillary d"),
    _number("n", "n", "Refractive index, at least 1", "1.34"),
    _coefficient("mua_per_mm", "µa", "Absorption coefficient, at least 0", "0.015"),
    _number(
        "mus_per_mm", "µs", "Scattering coefficient, at least 0; µa = µs = 0 is clear glass", "70.77", units=COEFFICIENT
    ),
    _number("g", "g", "Anisotropy: mean cosine of the scattering angle, -1 to 1", "0.85"),
    _number(
        "thickness_mm", "d", "Thickness; ∞ or inf for a semi-infinite last layer", "0.162", units=LENGTH, endless=True
    ),
)


def infos_of(record: type[Medium | Layer]) -> dict[str, ParamInfo]:
    """Return what is known of the parameters of a record, by their names."""
    return {entry.name: info for entry in dataclasses.fields(record) if (info := param_info(entry)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRow(TypedRow):
    """Optical properties of one label as they stand in the table, right or wrong.

    A property is a number (1/mm where it has a unit), the typed text if that is not a number, or None. ``recipe`` gives
    the numbers at a wavelength; ``warning`` says why they are not those of the chosen one.
    """

    figures: ClassVar[int] = 4
    columns: ClassVar[tuple[Column, ...]] = LABEL_COLUMNS
    infos: ClassVar[dict[str, ParamInfo]] = infos_of(Medium)
    label: int
    name: str = ""
    mua_per_mm: Cell = None
    mus_per_mm: Cell = None
    g: Cell = None
    n: Cell = None
    source: str = ""
    recipe: OpticalRecipe | None = None
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

    def filled(self, recipe: OpticalRecipe, wavelength_nm: float) -> "PropertyRow":
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
        return TypedRow._missing_text(self, label)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow(TypedRow):
    """A layer as it stands in the table, right or wrong (cells as in `PropertyRow`); lengths in mm.

    ``number`` counts from 1 at the top; only the last layer may be infinitely thick.
    """

    columns: ClassVar[tuple[Column, ...]] = LAYER_COLUMNS
    infos: ClassVar[dict[str, ParamInfo]] = infos_of(Layer) | {"thickness_mm": _THICKNESS}
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

    def filled(self, recipe: OpticalRecipe, wavelength_nm: float) -> "LayerRow":
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
        wrong = TypedRow._wrong_with(self, name, value, unit)
        if not self.column(name).endless:
            return wrong
        if isinstance(value, str):
            return f"{wrong}, or {INFINITY}"
        if value == math.inf:
            return self._wrong_with_endlessness()
        return wrong or ("" if value > 0 else f" {self.column(name).shown_in(unit)[0]}; it must be greater than 0")

    def _wrong_with_endlessness(self) -> str:
        if not self.is_last:
            return ", and only the last layer can be infinitely thick; type a thickness"
        if self.mua_per_mm == 0 and self.mus_per_mm == 0:
            return ": light would travel forever in infinitely thick glass; type a thickness"
        return ""
