"""Qt models of optical properties: what the tables of labels and of layers share, and the one of labels."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from qtpy.QtCore import QModelIndex, Qt
from qtpy.QtGui import QColor

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui import theme
from napari_gpubio.gui.tables import MISSING, WRONG, CellModel, Column, Place, aligned
from napari_gpubio.light.gui.table_rows import (
    COEFFICIENTS,
    NUMBERS,
    UNITS,
    OpticalRow,
    PropertyRow,
    Recipe,
    unit_text,
)
from napari_gpubio.light.model import OUTSIDE, Medium

NO_LABELS = "choose a Labels layer, or File › Open Sample › napari-gpubio › Head phantom"
COLUMNS = (
    Column("label", "Label", "The label, in its color in the layer", "Label", editable=False),
    Column("name", "Name", "What the label stands for", "gray matter"),
    Column("mua_per_mm", "µa", "Absorption coefficient, at least 0", "0.0000"),
    Column("mus_per_mm", "µs", "Scattering coefficient, at least 0"),
    Column("g", "g", "Anisotropy: mean cosine of the scattering angle, -1 to 1"),
    Column("n", "n", "Refractive index, at least 1"),
    Column("musp_per_mm", "µs′", "Reduced scattering coefficient, µs (1 - g)", editable=False),
    Column("source", "Source", "Where the numbers come from", "G. Stran…"),
)
FIELDS = tuple(column.field for column in COLUMNS)
_LEFT = ("label", "name", "source")  # words, which stand to the left
_Role = Qt.ItemDataRole
Rgba = Sequence[float]
Rows = dict[int, PropertyRow]


class OpticalModel(CellModel):
    """Rows of optical properties, coefficients in 1/mm or in 1/cm."""

    units = UNITS

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._shows = {
            _Role.DisplayRole: self._shown_text,
            _Role.EditRole: lambda i, field: self.row(i).text(field, self._unit),
            _Role.ToolTipRole: self.tip,
            _Role.DecorationRole: self.chip,
            _Role.BackgroundRole: self._background,
            _Role.ForegroundRole: self.foreground,
            _Role.TextAlignmentRole: lambda _, field: aligned(left=field in _LEFT),
        }

    def row(self, index: int) -> OpticalRow:
        """The row at an index."""
        raise NotImplementedError

    def first_problem(self) -> Place | None:
        """The first cell (row, column) with which something is wrong."""
        raise NotImplementedError

    def title(self, index: int) -> str:
        """What a row is called in sentences."""
        raise NotImplementedError

    def source(self, _index: int) -> str:
        """Where the numbers of a row come from, or an empty text."""
        return ""

    def warnings(self) -> list[str]:
        """Sentences about rows that are not wrong."""
        return []

    @property
    def problem_count(self) -> int:
        """How many rows have something wrong."""
        columns = range(len(self.columns))
        return sum(any(self.problem(row, column) for column in columns) for row in range(self.rowCount()))

    def chip(self, index: int, field: str) -> Any:
        """The color that is shown beside a cell's text, or None."""
        raise NotImplementedError

    def tip(self, index: int, field: str) -> str:
        """The tool tip of a cell."""
        raise NotImplementedError

    def foreground(self, index: int, field: str) -> QColor | None:
        """The color of a cell's text, or None for the theme's."""
        return MISSING if self.row(index).is_missing(field) else None

    def column_of(self, field: str) -> int:
        """The column of a field."""
        return next(number for number, column in enumerate(self.columns) if column.field == field)

    def is_missing(self, index: int, column: int) -> bool:
        """Whether a cell has yet to be filled."""
        return self.row(index).is_missing(self.columns[column].field)

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

    def _shown_text(self, index: int, field: str) -> str:
        row = self.row(index)
        return "–" if row.is_missing(field) else row.short_text(field, self._unit)

    def _background(self, index: int, field: str) -> QColor | None:
        wrong = self.problem(index, self.column_of(field)) and not self.row(index).is_missing(field)
        return WRONG if wrong else None


class PropertyModel(OpticalModel):
    """Rows for the labels of a layer; a row is kept when its label goes, and comes back with it."""

    columns = COLUMNS

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._known: Rows = {}
        self._given: Rows = {}
        self._labels: tuple[int, ...] = ()
        self._chips = chips((), {})
        self._wavelength_nm = 690.0

    # -- rows -----------------------------------------------------------------------------------------------------

    @property
    def labels(self) -> tuple[int, ...]:
        """The labels that have a row, in order."""
        return self._labels

    @property
    def rows(self) -> tuple[PropertyRow, ...]:
        """The rows as they stand."""
        return tuple(self.row(index) for index in range(len(self._labels)))

    def row(self, index: int) -> PropertyRow:
        """The row at an index."""
        label = self._labels[index]
        return self._known.get(label) or PropertyRow(label=label)

    def set_labels(self, labels: Iterable[int], colors: Mapping[int, Rgba | None]) -> None:
        """Show a row for each label but the outside; ``colors`` are RGBA from 0 to 1."""
        new = tuple(sorted({int(label) for label in labels} - {OUTSIDE}))
        self._chips = chips(new, colors)
        if new == self._labels:  # and nothing but the chips: an open editor keeps what is typed while the user paints
            if new:
                self.dataChanged.emit(self.index(0, 0), self.index(len(new) - 1, 0), [_Role.DecorationRole.value])
            return
        self.beginResetModel()
        self._labels = new
        self.endResetModel()
        self._tell_all()

    def media(self) -> tuple[Medium, ...]:
        """Return the properties of the labels on show; `InvalidInput` with the first problem."""
        if not self._labels:
            raise InvalidInput(f"there are no labels; {NO_LABELS}")
        return tuple(row.medium() for row in self.rows)

    def set_media(self, media: Iterable[Medium], recipes: Mapping[int, Recipe] | None = None) -> None:
        """Take over properties, which `reset` restores; other labels keep theirs.

        ``recipes`` are those of labels that shall follow the wavelength.
        """
        recipes = recipes or {}
        self._given = {m.label: dataclasses.replace(PropertyRow.of(m), recipe=recipes.get(m.label)) for m in media}
        self._replace(self._known | self._given)

    def reset(self) -> None:
        """Come back to what `set_media` gave last; every other row is emptied."""
        self._replace(self._follow_wavelength(self._given))

    def fill(self, indexes: Iterable[int], recipe: Recipe) -> None:
        """Give rows the properties of a recipe at the wavelength."""
        rows = [self.row(index).filled(recipe, self._wavelength_nm) for index in indexes]
        self._replace(self._known | {row.label: row for row in rows})

    def type_in(self, texts: Mapping[Place, str]) -> None:
        """Put texts into cells (row, column) as if the user had typed them, from left to right, in one step."""
        rows: Rows = {}
        for (index, column), text in sorted(texts.items()):
            if COLUMNS[column].editable:
                row = rows.get(self._labels[index]) or self.row(index)
                rows[row.label] = row.with_text(FIELDS[column], text, self._unit)
        self._replace(self._known | rows)

    def undo(self) -> None:
        """Take the last change of the rows back."""
        if self._undo:
            self._known = self._follow_wavelength(self._undo.pop())
            self._tell_all()

    # -- wavelength -----------------------------------------------------------------------------------------------

    @property
    def wavelength_nm(self) -> float:
        """The wavelength that rows with a recipe are for."""
        return self._wavelength_nm

    def set_wavelength(self, wavelength_nm: float) -> None:
        """Let every row that came from a recipe follow to a wavelength."""
        if wavelength_nm != self._wavelength_nm:
            self._wavelength_nm = float(wavelength_nm)
            self._known = self._follow_wavelength(self._known)
            self._tell_all()

    def _follow_wavelength(self, rows: Rows) -> Rows:
        nm = self._wavelength_nm
        return {label: row if row.recipe is None else row.filled(row.recipe, nm) for label, row in rows.items()}

    # -- what is wrong, and how it looks --------------------------------------------------------------------------

    def first_problem(self) -> Place | None:
        """The first cell (row, column) that keeps `media` from being given."""
        cells = ((index, row, field) for index, row in enumerate(self.rows) for field in NUMBERS)
        return next(((index, FIELDS.index(field)) for index, row, field in cells if row.problem(field)), None)

    def problem(self, index: int, column: int) -> str:
        """What is wrong with a cell, as a sentence, or an empty text."""
        return self.row(index).problem(FIELDS[column], self._unit)

    def check_text(self, index: int, column: int, text: str) -> str:
        """What would be wrong with a cell if the text were typed into it."""
        field = FIELDS[column]
        return self.row(index).with_text(field, text, self._unit).problem(field, self._unit)

    def title(self, index: int) -> str:
        """What a row is called in sentences."""
        return self.row(index).title

    def source(self, index: int) -> str:
        """Where the numbers of a row come from, or an empty text."""
        return self.row(index).source

    def warnings(self) -> list[str]:
        """Sentences about rows whose numbers are not those of the wavelength."""
        return [row.warning for row in self.rows if row.warning]

    def chip(self, index: int, field: str) -> Any:
        """The color of a label in its layer."""
        return self._chips.get(self._labels[index]) if field == "label" else None

    def tip(self, index: int, field: str) -> str:
        """What is wrong, the number in every unit, or where it comes from."""
        row = self.row(index)
        if problem := row.problem(field, self._unit):
            return problem
        if field in COEFFICIENTS and row.text(field):
            return "\n".join([*(f"{row.text(field, unit)} {unit}" for unit in UNITS), row.source])
        return row.warning or row.source or row.title if field in ("source", *NUMBERS) else row.title

    def foreground(self, index: int, field: str) -> QColor | None:
        """Amber where a number is missing, or for another wavelength."""
        row = self.row(index)
        if row.is_missing(field) or (row.warning and field in NUMBERS):
            return MISSING
        return QColor(theme.MUTED) if field in ("musp_per_mm", "source") else None

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        """Qt: number of rows."""
        return 0 if parent is not None and parent.isValid() else len(self._labels)

    def _replace(self, rows: Rows) -> None:
        """Take rows over as a step that can be undone; nothing happens where nothing changes."""
        if rows != self._known:
            self._undo.append(self._known)
            self._known = rows
            self._tell_all()

    def _tell_all(self) -> None:
        self._tell()
        self.changed.emit()
        self.validity_changed.emit()


def chips(labels: Iterable[int], colors: Mapping[int, Rgba | None]) -> dict[int, QColor]:
    """Opaque colors of the labels that their layer draws; ``colors`` are RGBA from 0 to 1."""
    drawn = {label: rgba for label in labels if (rgba := colors.get(label)) is not None and float(rgba[3]) > 0}
    return {label: QColor.fromRgbF(*(float(part) for part in rgba[:3])) for label, rgba in drawn.items()}
