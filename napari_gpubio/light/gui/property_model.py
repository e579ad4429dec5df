"""The Qt model of the optical property table: rows by label, their text and colors, undo."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from qtpy.QtCore import QModelIndex, Qt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.tables import CellModel, Place, aligned
from napari_gpubio.light.gui.property_columns import COLUMNS, FIELDS, LEFT, Rgba, background, chips, foreground
from napari_gpubio.light.gui.property_rows import NUMBERS, UNITS, WITH_UNIT, PropertyRow, Recipe
from napari_gpubio.light.model import OUTSIDE, Medium

Rows = dict[int, PropertyRow]
NO_LABELS = "choose a Labels layer, or File › Open Sample › napari-gpubio › Head phantom"
_Role = Qt.ItemDataRole


class PropertyModel(CellModel):
    """Rows of optical properties for the labels of a layer, coefficients in 1/mm or in 1/cm.

    A row is kept when its label goes and shown again when it comes back. ``changed`` says that `media` may give
    something else.
    """

    columns, units = COLUMNS, UNITS

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._known: Rows = {}
        self._given: Rows = {}
        self._labels: tuple[int, ...] = ()
        self._chips = chips((), {})
        self._wavelength_nm = 690.0
        self._shows = {
            _Role.DisplayRole: self._shown_text,
            _Role.EditRole: lambda i, field: self.row(i).text(field, self._unit),
            _Role.ToolTipRole: lambda i, field: self._tip(self.row(i), field),
            _Role.DecorationRole: lambda i, field: self._chips.get(self._labels[i]) if field == "label" else None,
            _Role.BackgroundRole: lambda i, field: background(self.row(i), field),
            _Role.ForegroundRole: lambda i, field: foreground(self.row(i), field),
            _Role.TextAlignmentRole: lambda _, field: aligned(left=field in LEFT),
        }

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
        """Return the properties of the labels that are shown.

        Raises
        ------
        InvalidInput
            With the first thing that is wrong, or if there are no labels.
        """
        if not self._labels:
            raise InvalidInput(f"there are no labels; {NO_LABELS}")
        return tuple(row.medium() for row in self.rows)

    def set_media(self, media: Iterable[Medium], recipes: Mapping[int, Recipe] | None = None) -> None:
        """Take properties over; labels that are not among them keep theirs. `reset` comes back to them.

        Parameters
        ----------
        media
            Properties of some labels, shown or not.
        recipes
            What gave the properties of a label, where they shall follow the wavelength.
        """
        recipes = recipes or {}
        self._given = {m.label: _with_recipe(PropertyRow.of(m), recipes.get(m.label)) for m in media}
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

    # -- what is wrong --------------------------------------------------------------------------------------------

    def first_problem(self) -> Place | None:
        """The first cell (row, column) that keeps `media` from being given."""
        cells = ((index, row, field) for index, row in enumerate(self.rows) for field in NUMBERS)
        return next(((index, FIELDS.index(field)) for index, row, field in cells if row.problem(field)), None)

    @property
    def problem_count(self) -> int:
        """How many rows keep `media` from being given."""
        return sum(bool(row.first_problem()) for row in self.rows)

    def problem(self, index: int, column: int) -> str:
        """What is wrong with a cell, as a sentence, or an empty text."""
        return self.row(index).problem(FIELDS[column], self._unit)

    def judge(self, index: int, column: int, text: str) -> str:
        """What would be wrong with a cell if the text were typed into it."""
        field = FIELDS[column]
        return self.row(index).with_text(field, text, self._unit).problem(field, self._unit)

    def is_missing(self, index: int, column: int) -> bool:
        """Whether a cell has yet to be filled."""
        return self.row(index).is_missing(FIELDS[column])

    def warnings(self) -> list[str]:
        """Sentences about rows whose numbers are not those of the wavelength."""
        return [row.warning for row in self.rows if row.warning]

    # -- Qt -------------------------------------------------------------------------------------------------------

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        """Qt: number of rows."""
        return 0 if parent is not None and parent.isValid() else len(self._labels)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _Role.DisplayRole) -> Any:
        """Qt: title and help of a column."""
        if orientation != Qt.Orientation.Horizontal:
            return None
        column = COLUMNS[section]
        if role == _Role.DisplayRole:
            return f"{column.title}\n{self._unit}" if column.field in WITH_UNIT else column.title
        if role == _Role.ToolTipRole:
            return column.help + (f" ({self._unit})" if column.field in WITH_UNIT else "")
        return aligned(left=column.field in LEFT) if role == _Role.TextAlignmentRole else None

    def _shown_text(self, index: int, field: str) -> str:
        row = self.row(index)
        return "–" if row.is_missing(field) else row.short_text(field, self._unit)

    def _tip(self, row: PropertyRow, field: str) -> str:
        if problem := row.problem(field, self._unit):
            return problem
        if field in WITH_UNIT and row.text(field):
            return "\n".join([*(f"{row.text(field, unit)} {unit}" for unit in UNITS), row.source])
        return row.warning or row.source or row.title if field in ("source", *NUMBERS) else row.title

    def _replace(self, rows: Rows) -> None:
        """Take rows over as a step that can be undone; nothing happens where nothing changes."""
        if rows == self._known:
            return
        self._undo.append(self._known)
        self._known = rows
        self._tell_all()

    def _tell_all(self) -> None:
        self._tell()
        self.changed.emit()
        self.judged.emit()


def _with_recipe(row: PropertyRow, recipe: Recipe | None) -> PropertyRow:
    return dataclasses.replace(row, recipe=recipe)
