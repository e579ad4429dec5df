"""Qt models of optical properties: of labels, and of layers."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from qtpy.QtCore import QModelIndex, Qt
from qtpy.QtGui import QColor

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui import theme
from napari_gpubio.gui.tables import CellModel, Column, Place, aligned, missing_color, wrong_color
from napari_gpubio.light.gui.optical_rows import (
    COEFFICIENTS,
    NUMBERS,
    THICKNESS,
    UNITS,
    LayerRow,
    OpticalRow,
    PropertyRow,
    Recipe,
    unit_text,
)
from napari_gpubio.light.layers.model import Layer
from napari_gpubio.light.layers.napari_io import layer_colors
from napari_gpubio.light.model import OUTSIDE, Medium

NO_LABELS = "choose a Labels layer, or File › Open Sample › napari-gpubio › Head phantom"
LABEL_COLUMNS = (
    Column("label", "Label", "The label, in its color in the layer", "Label", editable=False),
    Column("name", "Name", "What the label stands for", "gray matter"),
    Column("mua_per_mm", "µa", "Absorption coefficient, at least 0", "0.0000"),
    Column("mus_per_mm", "µs", "Scattering coefficient, at least 0"),
    Column("g", "g", "Anisotropy: mean cosine of the scattering angle, -1 to 1"),
    Column("n", "n", "Refractive index, at least 1"),
    Column("musp_per_mm", "µs′", "Reduced scattering coefficient, µs (1 - g)", editable=False),
    Column("source", "Source", "Where the numbers come from", "G. Stran…"),
)
LAYER_COLUMNS = (
    Column("name", "Layer", "What the layer is", "papillary d"),
    Column("n", "n", "Refractive index, at least 1", "1.34"),
    Column("mua_per_mm", "µa", "Absorption coefficient, at least 0", "0.015"),
    Column("mus_per_mm", "µs", "Scattering coefficient, at least 0; µa = µs = 0 is clear glass", "70.77"),
    Column("g", "g", "Anisotropy: mean cosine of the scattering angle, -1 to 1", "0.85"),
    Column(THICKNESS, "d", "Thickness; ∞ or inf for a semi-infinite last layer", "0.162"),
)
NEW_LAYER = LayerRow(name="", n=1.4, mua_per_mm=0.1, mus_per_mm=10.0, g=0.9, thickness_mm=1.0)
_LEFT = ("label", "name", "source")  # words are aligned to the left
_Role = Qt.ItemDataRole
Rgba = Sequence[float]
Row = TypeVar("Row", bound=OpticalRow)


class OpticalModel(CellModel, Generic[Row]):
    """Rows of optical properties, coefficients in 1/mm or in 1/cm."""

    units = UNITS

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self.rows: tuple[Row, ...] = ()  # as they stand
        self._shows = {
            _Role.DisplayRole: self._short_text,
            _Role.EditRole: lambda i, field: self.rows[i].text(field, self._unit),
            _Role.ToolTipRole: self.tip,
            _Role.DecorationRole: lambda i, field: self.color(i) if field == self.columns[0].field else None,
            _Role.BackgroundRole: self._background,
            _Role.ForegroundRole: self.foreground,
            _Role.TextAlignmentRole: lambda _, field: aligned(left=field in _LEFT),
        }

    # -- what a subclass gives ------------------------------------------------------------------------------------

    def color(self, index: int) -> QColor | None:
        """The color beside a row's first cell, or None."""
        raise NotImplementedError

    def source(self, _index: int) -> str:
        """Where the numbers of a row come from, or an empty text."""
        return ""

    def warnings(self) -> list[str]:
        """Sentences about rows that are not wrong."""
        return []

    def tip(self, index: int, field: str) -> str:
        """The tool tip of a cell: what is wrong, or which row it is."""
        return self.rows[index].problem(field, self._unit) or self.rows[index].title

    def foreground(self, index: int, field: str) -> QColor | None:
        """The color of a cell's text, or None for the theme's."""
        return missing_color() if self.rows[index].is_missing(field) else None

    def _restore(self, state: Any) -> None:
        """Show the rows of a state from ``self._undo``."""
        raise NotImplementedError

    # -- rows and problems ----------------------------------------------------------------------------------------

    def undo(self) -> None:
        """Take the last change back."""
        if self._undo:
            self._restore(self._undo.pop())

    def problem(self, index: int, column: int) -> str:
        """What is wrong with a cell, as a sentence, or an empty text."""
        return self.rows[index].problem(self.columns[column].field, self._unit)

    def check_text(self, index: int, column: int, text: str) -> str:
        """What would be wrong with a cell if the text were typed into it."""
        field = self.columns[column].field
        return self.rows[index].with_text(field, text, self._unit).problem(field, self._unit)

    def first_problem(self) -> Place | None:
        """The first cell (row, column) with a problem."""
        cells = ((index, row, field) for index, row in enumerate(self.rows) for field in row.numbers)
        return next(((index, self.column_of(field)) for index, row, field in cells if row.problem(field)), None)

    @property
    def problem_count(self) -> int:
        """How many rows have a problem."""
        return sum(bool(row.first_problem()) for row in self.rows)

    def column_of(self, field: str) -> int:
        """The column of a field."""
        return next(number for number, column in enumerate(self.columns) if column.field == field)

    def is_missing(self, index: int, column: int) -> bool:
        """Whether a cell has yet to be filled."""
        return self.rows[index].is_missing(self.columns[column].field)

    # -- Qt -------------------------------------------------------------------------------------------------------

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        """Qt: number of rows."""
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _Role.DisplayRole) -> Any:
        """Qt: title over unit, and help of a column."""
        if orientation != Qt.Orientation.Horizontal:
            return None
        column = self.columns[section]
        unit = unit_text(column.field, self._unit)
        shows = {
            _Role.DisplayRole: f"{column.title}\n{unit}" if unit else column.title,
            _Role.ToolTipRole: column.help + (f" ({unit})" if unit else ""),
            _Role.TextAlignmentRole: aligned(left=column.field in _LEFT),
        }
        return shows.get(role)

    def _short_text(self, index: int, field: str) -> str:
        row = self.rows[index]
        return "–" if row.is_missing(field) else row.short_text(field, self._unit)

    def _background(self, index: int, field: str) -> QColor | None:
        row = self.rows[index]
        return wrong_color() if row.problem(field, self._unit) and not row.is_missing(field) else None

    def _report_change(self) -> None:
        self._redraw()
        self.changed.emit()
        self.validity_changed.emit()


class PropertyModel(OpticalModel[PropertyRow]):
    """Rows for the labels of a layer; a row is kept when its label goes, and comes back with it."""

    columns = LABEL_COLUMNS

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._known: dict[int, PropertyRow] = {}
        self._given: dict[int, PropertyRow] = {}
        self._colors: dict[int, QColor] = {}
        self.labels: tuple[int, ...] = ()  # that have a row, in order
        self.wavelength_nm = 690.0  # of rows with a recipe

    def set_labels(self, labels: Iterable[int], colors: Mapping[int, Rgba | None]) -> None:
        """Show a row for each label but the outside; ``colors`` are RGBA from 0 to 1."""
        new = tuple(sorted({int(label) for label in labels} - {OUTSIDE}))
        drawn = {label: rgba for label in new if (rgba := colors.get(label)) is not None and float(rgba[3]) > 0}
        self._colors = {label: QColor.fromRgbF(*map(float, rgba[:3])) for label, rgba in drawn.items()}
        if new == self.labels:  # only the colors change: an open editor keeps what is typed while the user paints
            if new:
                self.dataChanged.emit(self.index(0, 0), self.index(len(new) - 1, 0), [_Role.DecorationRole.value])
            return
        self.beginResetModel()
        self.labels = new
        self._take(self._known)
        self.endResetModel()
        self._report_change()

    def media(self) -> tuple[Medium, ...]:
        """Return the properties of the labels on show; `InvalidInput` with the first problem."""
        if not self.labels:
            raise InvalidInput(f"there are no labels; {NO_LABELS}")
        return tuple(row.medium() for row in self.rows)

    def set_media(self, media: Iterable[Medium], recipes: Mapping[int, Recipe] | None = None) -> None:
        """Take over properties, which `reset` restores; other labels keep theirs.

        ``recipes`` are those of labels that follow the wavelength.
        """
        recipes = recipes or {}
        self._given = {m.label: dataclasses.replace(PropertyRow.of(m), recipe=recipes.get(m.label)) for m in media}
        self._replace(self._known | self._given)

    def reset(self) -> None:
        """Return to what `set_media` gave last; every other row is emptied."""
        self._replace(self._at_wavelength(self._given))

    def fill(self, indexes: Iterable[int], recipe: Recipe) -> None:
        """Give rows the properties of a recipe at the wavelength."""
        rows = [self.rows[index].filled(recipe, self.wavelength_nm) for index in indexes]
        self._replace(self._known | {row.label: row for row in rows})

    def type_in(self, texts: Mapping[Place, str]) -> None:
        """Put texts into cells (row, column) as if the user had typed them, from left to right, in one step."""
        rows: dict[int, PropertyRow] = {}
        for (index, column), text in sorted(texts.items()):
            if self.columns[column].editable:
                row = rows.get(self.labels[index]) or self.rows[index]
                rows[row.label] = row.with_text(self.columns[column].field, text, self._unit)
        self._replace(self._known | rows)

    def set_wavelength(self, wavelength_nm: float) -> None:
        """Let every row that came from a recipe follow to a wavelength."""
        if wavelength_nm != self.wavelength_nm:
            self.wavelength_nm = float(wavelength_nm)
            self._restore(self._known)

    def source(self, index: int) -> str:
        """Where the numbers of a row come from, or an empty text."""
        return self.rows[index].source

    def warnings(self) -> list[str]:
        """Sentences about rows whose numbers are not those of the wavelength."""
        return [row.warning for row in self.rows if row.warning]

    def color(self, index: int) -> QColor | None:
        """The color of a label in its layer."""
        return self._colors.get(self.labels[index])

    def tip(self, index: int, field: str) -> str:
        """What is wrong, the number in every unit, or where it comes from."""
        row = self.rows[index]
        if problem := row.problem(field, self._unit):
            return problem
        if field in COEFFICIENTS and row.text(field):
            return "\n".join([*(f"{row.text(field, unit)} {unit}" for unit in UNITS), row.source])
        return row.warning or row.source or row.title if field in ("source", *NUMBERS) else row.title

    def foreground(self, index: int, field: str) -> QColor | None:
        """Amber where a number is missing, or for another wavelength."""
        if self.rows[index].warning and field in NUMBERS:
            return missing_color()
        return super().foreground(index, field) or (QColor(theme.MUTED) if field in ("musp_per_mm", "source") else None)

    def _replace(self, rows: dict[int, PropertyRow]) -> None:
        """Take over rows as a step that can be undone; nothing happens where nothing changes."""
        if rows != self._known:
            self._undo.append(self._known)
            self._take(rows)
            self._report_change()

    def _restore(self, state: dict[int, PropertyRow]) -> None:
        self._take(self._at_wavelength(state))
        self._report_change()

    def _take(self, known: dict[int, PropertyRow]) -> None:
        self._known = known
        self.rows = tuple(known.get(label) or PropertyRow(label=label) for label in self.labels)

    def _at_wavelength(self, rows: dict[int, PropertyRow]) -> dict[int, PropertyRow]:
        nm = self.wavelength_nm
        return {label: row if row.recipe is None else row.filled(row.recipe, nm) for label, row in rows.items()}


class LayerModel(OpticalModel[LayerRow]):
    """Layers from the top to the bottom; thicknesses in mm with coefficients in 1/mm, or in cm with 1/cm."""

    columns = LAYER_COLUMNS

    def color(self, index: int) -> QColor:
        """The color of a layer."""
        return QColor(layer_colors([row.name for row in self.rows])[index])

    def begin_with(self, layers: Iterable[Layer]) -> None:
        """Show layers, before which there is nothing to come back to."""
        self.set_layers(layers)
        self._undo.clear()
        self.validity_changed.emit()

    def set_layers(self, layers: Iterable[Layer]) -> None:
        """Show other layers, as a step that can be undone."""
        self._replace(LayerRow.of(layer) for layer in layers)

    def fill(self, indexes: Iterable[int], recipe: Recipe, wavelength_nm: float) -> None:
        """Give rows the properties of a recipe at a wavelength; names and thicknesses stay."""
        filled = set(indexes)
        self._replace(row.filled(recipe, wavelength_nm) if i in filled else row for i, row in enumerate(self.rows))

    def insert(self, index: int, rows: Iterable[LayerRow]) -> None:
        """Insert rows before an index."""
        self._replace((*self.rows[:index], *rows, *self.rows[index:]))

    def remove(self, indexes: Iterable[int]) -> None:
        """Remove rows."""
        gone = set(indexes)
        self._replace(row for index, row in enumerate(self.rows) if index not in gone)

    def duplicate(self, indexes: Iterable[int]) -> None:
        """Put a copy of each of these rows below it."""
        twice = set(indexes)
        self._replace(row for index, row in enumerate(self.rows) for _ in range(2 if index in twice else 1))

    def move(self, index: int, target: int) -> None:
        """Move a row to another place."""
        if 0 <= target < len(self.rows):
            rows = list(self.rows)
            rows.insert(target, rows.pop(index))
            self._replace(rows)

    def type_in(self, texts: Mapping[Place, str]) -> None:
        """Put texts into cells (row, column) as if the user had typed them, in one step; rows are added as needed."""
        rows = list(self.rows)
        for (index, column), text in sorted(texts.items()):
            rows += [LayerRow() for _ in range(index + 1 - len(rows))]
            rows[index] = rows[index].with_text(self.columns[column].field, text, self._unit)
        self._replace(rows)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _Role.DisplayRole) -> Any:
        """Qt: title and help of a column, number of a row."""
        if orientation == Qt.Orientation.Horizontal:
            return super().headerData(section, orientation, role)
        tip = "Drag a number to move the layer"
        return {_Role.DisplayRole: str(section + 1), _Role.ToolTipRole: tip}.get(role)

    def _replace(self, rows: Iterable[LayerRow]) -> None:
        """Take over rows, numbered, as a step that can be undone; nothing happens where nothing changes."""
        new = tuple(rows)
        last = len(new)
        new = tuple(dataclasses.replace(row, number=i, is_last=i == last) for i, row in enumerate(new, start=1))
        if new != self.rows:
            self._undo.append(self.rows)
            self._restore(new)

    def _restore(self, state: tuple[LayerRow, ...]) -> None:
        if len(state) == len(self.rows):
            self.rows = state
        else:
            self.beginResetModel()
            self.rows = state
            self.endResetModel()
        self._report_change()
