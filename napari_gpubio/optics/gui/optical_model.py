"""Qt models of optical properties: of labels, and of layers."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from qtpy.QtCore import Qt
from qtpy.QtGui import QColor

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui import theme
from napari_gpubio.gui.tables import CellModel, missing_color
from napari_gpubio.gui.typed_rows import Column
from napari_gpubio.optics.gui.optical_rows import (
    LABEL_COLUMNS,
    LAYER_COLUMNS,
    NUMBERS,
    TABLE_UNITS,
    LayerRow,
    OpticalRecipe,
    PropertyRow,
)
from napari_gpubio.optics.model import OUTSIDE, Layer, Medium
from napari_gpubio.optics.pictures import layer_colors

NO_LABELS = "choose a Labels layer, or File › Open Sample › napari-gpubio › Head phantom"
NEW_LAYER = LayerRow(name="", n=1.4, mua_per_mm=0.1, mus_per_mm=10.0, g=0.9, thickness_mm=1.0)
_Role = Qt.ItemDataRole
Rgba = Sequence[float]
Row = TypeVar("Row", PropertyRow, LayerRow)


class OpticalModel(CellModel[Row]):
    """Rows of optical properties, coefficients in 1/mm or in 1/cm."""

    units = TABLE_UNITS
    wavelength_nm = 690.0  # that presets are of

    def fill(self, indexes: Iterable[int], recipe: OpticalRecipe, wavelength_nm: float | None = None) -> None:
        """Give rows the numbers of a recipe at a wavelength, else at that of the table."""
        nm = self.wavelength_nm if wavelength_nm is None else wavelength_nm
        filled = set(indexes)
        rows = [row.filled(recipe, nm) if i in filled else row for i, row in enumerate(self.rows)]
        self._replace(self._state_with(rows))
        self.wavelength_nm = nm


@dataclasses.dataclass(frozen=True, slots=True)
class KeptRows:
    """All that a table of labels shows, while it shows another layer: rows by label, and given ones."""

    rows: dict[int, PropertyRow]
    given: dict[int, PropertyRow]
    labels: tuple[int, ...]
    wavelength_nm: float


class PropertyModel(OpticalModel[PropertyRow]):
    """Rows for the labels of a layer; a row is kept when its label goes, and comes back with it.

    A state has every row that was filled, by its label.
    """

    columns = LABEL_COLUMNS
    kept = ("_given", "labels", "wavelength_nm", "_state")

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._state: dict[int, PropertyRow] = {}
        self._given: dict[int, PropertyRow] = {}
        self._colors: dict[int, QColor] = {}
        self.labels: tuple[int, ...] = ()  # that have a row, in order

    def set_labels(self, labels: Iterable[int], colors: Mapping[int, Rgba | None]) -> None:
        """Show a row for each label but the outside; ``colors`` are RGBA from 0 to 1."""
        new = tuple(sorted({int(label) for label in labels} - {OUTSIDE}))
        drawn = {label: rgba for label in new if (rgba := colors.get(label)) is not None and float(rgba[3]) > 0}
        self._colors = {label: QColor.fromRgbF(*map(float, rgba[:3])) for label, rgba in drawn.items()}
        if new == self.labels:  # only the colors change: an open editor keeps what is typed while the user paints
            if new:
                self.dataChanged.emit(self.index(0, 0), self.index(len(new) - 1, 0), [_Role.DecorationRole.value])
            return
        self.labels = new
        self._take(self._state, resets=True)

    def keep(self) -> "KeptRows":
        """Return all that is shown, for `begin_with`."""
        return KeptRows(self._state, self._given, self.labels, self.wavelength_nm)

    def begin_with(self, kept: "KeptRows | None") -> None:
        """Show the rows of another layer as they were kept, or none."""
        kept = kept or KeptRows({}, {}, (), self.wavelength_nm)
        self._given, self.labels, self.wavelength_nm = kept.given, kept.labels, kept.wavelength_nm
        self._take(kept.rows, resets=True)

    def media(self) -> tuple[Medium, ...]:
        """Return the properties of the labels on show; `InvalidInput` with the first problem."""
        if not self.labels:
            raise InvalidInput(f"there are no labels; {NO_LABELS}")
        return tuple(row.medium() for row in self.rows)

    def complete_media(self) -> list[Medium]:
        """Return the properties of all labels that have them, also of labels that are gone."""
        return [row.medium() for _, row in sorted(self._state.items()) if not row.first_problem()]

    def set_media(self, media: Iterable[Medium], recipes: Mapping[int, OpticalRecipe] | None = None) -> None:
        """Take over properties, which `reset` restores; other labels keep theirs.

        ``recipes`` are those of labels that follow the wavelength.
        """
        recipes = recipes or {}
        self._given = {m.label: dataclasses.replace(PropertyRow.of(m), recipe=recipes.get(m.label)) for m in media}
        self._replace(self._state | self._given)

    def reset(self) -> None:
        """Return to what `set_media` gave last; every other row is emptied."""
        self._replace(self._at_wavelength(self._given))

    @property
    def is_edited(self) -> bool:
        """Whether rows are others than those that `reset` restores."""
        given = self._at_wavelength(self._given)
        return any(row != given.get(label) for label, row in self._state.items())

    def set_wavelength(self, wavelength_nm: float) -> None:
        """Let every row that came from a recipe follow to a wavelength."""
        if wavelength_nm != self.wavelength_nm:
            self.wavelength_nm = float(wavelength_nm)
            self._take(self._at_wavelength(self._state))

    def source(self, index: int) -> str:
        """Where the numbers of a row come from, or an empty text."""
        return self.rows[index].source

    def warnings(self) -> list[str]:
        """Sentences about rows whose numbers are not those of the wavelength."""
        return [row.warning for row in self.rows if row.warning]

    def color(self, index: int) -> QColor | None:
        """The color of a label in its layer."""
        return self._colors.get(self.labels[index])

    def tip(self, index: int, column: Column) -> str:
        """What is wrong, the number in every unit, or where it comes from."""
        row, field = self.rows[index], column.field
        if problem := row.problem(field, self._unit):
            return problem
        if column.units and row.text(field):
            return "\n".join([*(f"{row.text(field, unit)} {unit}" for unit in TABLE_UNITS), row.source])
        return row.warning or row.source or row.title if field in ("source", *NUMBERS) else row.title

    def foreground(self, index: int, column: Column) -> QColor | None:
        """Amber where a number is missing, or for another wavelength."""
        if self.rows[index].warning and column.field in NUMBERS:
            return missing_color()
        muted = column.field in ("musp_per_mm", "source")
        return super().foreground(index, column) or (QColor(theme.MUTED) if muted else None)

    def _state_with(self, rows: Sequence[PropertyRow]) -> dict[int, PropertyRow]:
        changed = {row.label: row for row, old in zip(rows, self.rows, strict=True) if row is not old}
        return self._state | changed

    def _rows_of(self, state: dict[int, PropertyRow]) -> list[PropertyRow]:
        return [state.get(label) or PropertyRow(label=label) for label in self.labels]

    def _at_wavelength(self, rows: dict[int, PropertyRow]) -> dict[int, PropertyRow]:
        nm = self.wavelength_nm
        return {label: row if row.recipe is None else row.filled(row.recipe, nm) for label, row in rows.items()}


class LayerModel(OpticalModel[LayerRow]):
    """Layers from the top to the bottom; thicknesses in mm with coefficients in 1/mm, or in cm with 1/cm."""

    columns = LAYER_COLUMNS
    new_row = LayerRow

    def color(self, index: int) -> QColor:
        """The color of a layer."""
        return QColor(layer_colors([row.name for row in self.rows])[index])

    def set_layers(self, layers: Iterable[Layer]) -> None:
        """Show other layers."""
        self._replace(self._state_with([LayerRow.of(layer) for layer in layers]))

    def insert(self, index: int, rows: Iterable[LayerRow]) -> None:
        """Insert rows before an index."""
        self._replace(self._state_with([*self.rows[:index], *rows, *self.rows[index:]]))

    def remove(self, indexes: Iterable[int]) -> None:
        """Remove rows."""
        gone = set(indexes)
        self._replace(self._state_with([row for index, row in enumerate(self.rows) if index not in gone]))

    def duplicate(self, indexes: Iterable[int]) -> None:
        """Put a copy of each of these rows below it."""
        twice = set(indexes)
        rows = [row for index, row in enumerate(self.rows) for _ in range(2 if index in twice else 1)]
        self._replace(self._state_with(rows))

    def move(self, index: int, target: int) -> None:
        """Move a row to another place."""
        if 0 <= target < len(self.rows):
            rows = list(self.rows)
            rows.insert(target, rows.pop(index))
            self._replace(self._state_with(rows))

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = _Role.DisplayRole) -> Any:
        """Qt: title and help of a column, number of a row."""
        if orientation == Qt.Orientation.Horizontal:
            return super().headerData(section, orientation, role)
        tip = "Drag a number to move the layer"
        return {_Role.DisplayRole: str(section + 1), _Role.ToolTipRole: tip}.get(role)

    def _state_with(self, rows: Sequence[LayerRow]) -> tuple[LayerRow, ...]:
        last = len(rows)
        return tuple(dataclasses.replace(row, number=i, is_last=i == last) for i, row in enumerate(rows, start=1))
