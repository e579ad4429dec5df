"""Rows and Qt model of the layer table: what was typed, and what is wrong with it."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from qtpy.QtCore import QModelIndex, Qt
from qtpy.QtGui import QColor

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param_info
from napari_gpubio.gui.tables import MISSING, WRONG, Cell, CellModel, Column, Place, aligned, shown_number, typed_number
from napari_gpubio.light.layers.model import MOST_LAYERS, Layer, LayeredMedium
from napari_gpubio.light.layers.napari_io import layer_colors

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


COLUMNS = (
    Column("name", "Layer", "What the layer is", "papillary d"),
    Column("n", "n", "Refractive index, at least 1", "1.34"),
    Column("mua_per_mm", "µa", "Absorption coefficient, at least 0", "0.015"),
    Column("mus_per_mm", "µs", "Scattering coefficient, at least 0; 0 with µa = 0 is glass", "70.77"),
    Column("g", "g", "Anisotropy: mean cosine of the scattering angle, -1 to 1", "0.85"),
    Column("thickness_mm", "d", "Thickness; ∞ or inf for a last layer without end", "0.162"),
)
FIELDS = tuple(column.field for column in COLUMNS)
DIM = "color: #9a9da5;"


def heading(column: Column, unit: str) -> str:
    """The title of a column over its unit."""
    if column.field in COEFFICIENTS:
        return f"{column.title}\n{unit}"
    return f"{column.title}\n{UNITS[unit]}" if column.field == "thickness_mm" else column.title


Rows = tuple[LayerRow, ...]
NEW = LayerRow(name="", n=1.4, mua_per_mm=0.1, mus_per_mm=10.0, g=0.9, thickness_mm=1.0)
_Role = Qt.ItemDataRole


class LayerModel(CellModel):
    """Layers from the top to the bottom; coefficients in 1/mm with thicknesses in mm, or in 1/cm and cm."""

    columns, units = COLUMNS, UNITS

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._rows: Rows = ()
        self._shows = {
            _Role.DisplayRole: lambda i, field: self._shown_text(i, field),
            _Role.EditRole: lambda i, field: self._rows[i].text(field, self._unit),
            _Role.ToolTipRole: lambda i, field: self.problem(i, FIELDS.index(field)) or title(self._rows, i),
            _Role.DecorationRole: lambda i, field: QColor(self.colors[i]) if field == "name" else None,
            _Role.BackgroundRole: self._background,
            _Role.ForegroundRole: lambda i, field: MISSING if self.is_missing(i, FIELDS.index(field)) else None,
            _Role.TextAlignmentRole: lambda _, field: aligned(left=field == "name"),
        }

    # -- the layers -----------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Rows:
        """The rows as they stand."""
        return self._rows

    @property
    def colors(self) -> tuple[str, ...]:
        """Colors of the rows."""
        return layer_colors([row.name for row in self._rows])

    def begin_with(self, layers: Iterable[Layer]) -> None:
        """Show layers, before which there is nothing to come back to."""
        self.set_layers(layers)
        self._undo.clear()
        self.judged.emit()

    def set_layers(self, layers: Iterable[Layer]) -> None:
        """Show other layers, as a step that can be undone."""
        self._replace(tuple(LayerRow.of(layer) for layer in layers))

    def insert(self, index: int, rows: Iterable[LayerRow]) -> None:
        """Put rows in before an index."""
        self._replace((*self._rows[:index], *rows, *self._rows[index:]))

    def remove(self, indexes: Iterable[int]) -> None:
        """Take rows out."""
        gone = set(indexes)
        self._replace(tuple(row for index, row in enumerate(self._rows) if index not in gone))

    def duplicate(self, indexes: Iterable[int]) -> None:
        """Put a copy of each of these rows below it."""
        twice = set(indexes)
        self._replace(tuple(row for i, row in enumerate(self._rows) for _ in range(2 if i in twice else 1)))

    def move(self, index: int, target: int) -> None:
        """Move a row to another place."""
        if 0 <= target < len(self._rows):
            rows = list(self._rows)
            rows.insert(target, rows.pop(index))
            self._replace(tuple(rows))

    def type_in(self, texts: Mapping[Place, str]) -> None:
        """Put texts into cells (row, column) as if the user had typed them, in one step; rows are added as needed."""
        rows = list(self._rows)
        for (index, column), text in sorted(texts.items()):
            rows += [LayerRow() for _ in range(index + 1 - len(rows))]
            rows[index] = rows[index].with_text(FIELDS[column], text, self._unit)
        self._replace(tuple(rows))

    def undo(self) -> None:
        """Take the last change back."""
        if self._undo:
            self._show(self._undo.pop())

    # -- what is wrong --------------------------------------------------------------------------------------------

    def problem(self, index: int, column: int) -> str:
        """What is wrong with a cell, as a sentence, or an empty text."""
        return problem_at(self._rows, index, FIELDS[column], self._unit)

    def first_problem(self) -> Place | None:
        """The first cell (row, column) with which something is wrong."""
        found = first_problem(self._rows, self._unit)
        return None if found is None else (found[0], FIELDS.index(found[1]))

    def judge(self, index: int, column: int, text: str) -> str:
        """What would be wrong with a cell if the text were typed into it."""
        field, rows = FIELDS[column], list(self._rows)
        rows[index] = rows[index].with_text(field, text, self._unit)
        return problem_at(rows, index, field, self._unit)

    def is_missing(self, index: int, column: int) -> bool:
        """Whether a cell has yet to be filled."""
        return getattr(self._rows[index], FIELDS[column]) is None

    # -- Qt -------------------------------------------------------------------------------------------------------

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        """Qt: number of rows."""
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _Role.DisplayRole) -> Any:
        """Qt: title and help of a column, number of a row."""
        if orientation != Qt.Orientation.Horizontal:
            tip = "Drag a number to move the layer"
            return {_Role.DisplayRole: str(section + 1), _Role.ToolTipRole: tip}.get(role)
        column = COLUMNS[section]
        shows = {
            _Role.DisplayRole: heading(column, self._unit),
            _Role.ToolTipRole: column.help,
            _Role.TextAlignmentRole: aligned(left=column.field == "name"),
        }
        return shows.get(role)

    def _shown_text(self, index: int, field: str) -> str:
        return "–" if self.is_missing(index, FIELDS.index(field)) else self._rows[index].short_text(field, self._unit)

    def _background(self, index: int, field: str) -> Any:
        column = FIELDS.index(field)
        return WRONG if self.problem(index, column) and not self.is_missing(index, column) else None

    # -- changes --------------------------------------------------------------------------------------------------

    def _replace(self, rows: Rows) -> None:
        """Take rows over as a step that can be undone; nothing happens where nothing changes."""
        if rows != self._rows:
            self._undo.append(self._rows)
            self._show(rows)

    def _show(self, rows: Rows) -> None:
        if len(rows) == len(self._rows):
            self._rows = rows
            self._tell()
        else:
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()
        self.changed.emit()
        self.judged.emit()
