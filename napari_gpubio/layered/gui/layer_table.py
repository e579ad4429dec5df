"""The table of layers between two ambient media, and their drawing."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from qtpy.QtCore import QPointF, QRectF, QSignalBlocker, Qt, Signal
from qtpy.QtGui import QColor, QFont, QLinearGradient, QPainter, QPen, QPolygonF
from qtpy.QtWidgets import QHeaderView, QPushButton, QSizePolicy, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui import theme
from napari_gpubio.gui.cell_view import CellView
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.forms import Label, fill_column, row_of, text_button
from napari_gpubio.layered.model import MAX_LAYERS, LayeredMedium
from napari_gpubio.optics.gui.optical_model import NEW_LAYER, LayerModel
from napari_gpubio.optics.gui.optical_rows import LayerRow, PropertyRow
from napari_gpubio.optics.gui.optical_table import SPACING, OpticalTable
from napari_gpubio.optics.pictures import layer_colors

_SIDE, _LETTERS = 4, 11  # pixels
_ROW, _FEWEST, _MOST = 19, 2, 14  # height that a layer adds, and of how many at least and at most
_AMBIENT_HEIGHT = 18
_POWER = 0.4  # a layer a hundred times as thick is drawn about six times as high
_BEAM = QColor(theme.SOURCE)
_LAYER_OPACITY = 175


class StackDrawing(QWidget):
    """Draws rows of the layer table; ``clicked`` carries the layer under the mouse."""

    clicked = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: Sequence[LayerRow] = ()
        self._colors: Sequence[str] = ()
        self._n = (1.0, 1.0)
        self._current: int | None = None
        self._grid_mm: float | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setToolTip(
            "The layers, top first, with heights compressed (thickness to the power 0.4). The dashed line marks "
            "the end of the grid. Click a layer to go to its row"
        )

    def show_stack(self, rows: Sequence[LayerRow], n_above: float, n_below: float, current: int | None) -> None:
        """Draw other layers, with a frame around the current one."""
        self._rows, self._n, self._current = rows, (n_above, n_below), current
        self._colors = layer_colors([row.name for row in rows])
        self.setVisible(bool(rows))
        self.setFixedHeight(2 * _AMBIENT_HEIGHT + _ROW * min(max(len(rows), _FEWEST), _MOST))
        self.update()

    def show_grid(self, depth_mm: float | None) -> None:
        """Mark where the grid ends."""
        self._grid_mm = depth_mm
        self.update()

    def edges(self) -> np.ndarray:
        """Where the layers begin and the last one ends on screen, pixels from the top, shape (L + 1,)."""
        weights = np.array([_weight(row.thickness_mm) for row in self._rows])
        if self._rows and self._rows[-1].thickness_mm == math.inf:
            weights[-1] = 1.2 * max(weights[:-1], default=1.0)
        room = self.height() - 2 * _AMBIENT_HEIGHT
        least = min(_LETTERS + 3.0, room / max(1, len(weights)))
        heights = np.maximum(weights / max(weights.sum(), 1e-9) * room, least)
        spare = heights - least
        heights = least + spare * (room - least * len(heights)) / max(spare.sum(), 1e-9)
        return np.concatenate([[_AMBIENT_HEIGHT], _AMBIENT_HEIGHT + np.cumsum(heights)])

    # -- Qt -------------------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: Any) -> None:
        """Qt: the mouse was pressed on it."""
        index = int(np.searchsorted(self.edges(), event.position().y())) - 1
        if 0 <= index < len(self._rows):
            self.clicked.emit(index)

    def paintEvent(self, _event: Any) -> None:
        """Qt: draw it."""
        if not self._rows:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        edges = self.edges()
        self._paint_ambient(painter, edges)
        for index in range(len(self._rows)):
            self._paint_layer(painter, index, edges[index], edges[index + 1])
        self._paint_grid(painter, edges)
        self._paint_beam(painter, edges[0])
        painter.end()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _paint_ambient(self, painter: QPainter, edges: np.ndarray) -> None:
        painter.setPen(self.palette().windowText().color())
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        above, below = self._n
        painter.drawText(QRectF(_SIDE + 4, 0, self.width(), _AMBIENT_HEIGHT), left, f"n = {above:g}")
        if self._rows[-1].thickness_mm != math.inf:
            painter.drawText(QRectF(_SIDE + 4, edges[-1], self.width(), _AMBIENT_HEIGHT), left, f"n = {below:g}")

    def _paint_layer(self, painter: QPainter, index: int, top: float, bottom: float) -> None:
        row, color = self._rows[index], QColor(self._colors[index])
        color.setAlpha(_LAYER_OPACITY)
        box = QRectF(_SIDE, top, self.width() - 2 * _SIDE, bottom - top)
        fill: Any = color
        if row.thickness_mm == math.inf:
            box.setBottom(bottom + _AMBIENT_HEIGHT)
            fill = QLinearGradient(0, top, 0, box.bottom())
            clear = QColor(color)
            clear.setAlpha(0)
            fill.setColorAt(0.5, color)
            fill.setColorAt(1.0, clear)
        painter.fillRect(box, fill)
        if index == self._current:
            painter.setPen(QPen(QColor(theme.WHITE), 1.5))
            painter.drawRect(box.adjusted(1, 1, -1, -1))
        if bottom - top > _LETTERS:
            self._write(painter, row, QRectF(box.left() + 4, top, box.width() - 8, bottom - top), color)

    def _write(self, painter: QPainter, row: LayerRow, box: QRectF, color: QColor) -> None:
        font = QFont(self.font())
        font.setPixelSize(_LETTERS)
        painter.setFont(font)
        behind = self.palette().window().color().lightnessF()
        light = color.lightnessF() * color.alphaF() + behind * (1 - color.alphaF())
        painter.setPen(QColor(theme.PRINT_TEXT if light > 0.42 else theme.WHITE))
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | middle, row.name)
        painter.drawText(box, Qt.AlignmentFlag.AlignRight | middle, _thickness_text(row))

    def _paint_grid(self, painter: QPainter, edges: np.ndarray) -> None:
        """Dash the depth at which the grid ends, where it ends inside the layers."""
        thicknesses = [t for row in self._rows if isinstance(t := row.thickness_mm, float) and t > 0]
        if self._grid_mm is None or len(thicknesses) < len(self._rows):
            return
        tops = np.concatenate([[0.0], np.cumsum(thicknesses)])
        index = int(np.searchsorted(tops, self._grid_mm)) - 1
        if index >= len(self._rows):
            return
        part = 0.9 if math.isinf(tops[index + 1]) else (self._grid_mm - tops[index]) / (tops[index + 1] - tops[index])
        y = edges[index] + part * (edges[index + 1] - edges[index])
        painter.setPen(QPen(QColor(theme.NOTE), 1.5, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(_SIDE, y), QPointF(self.width() - _SIDE, y))

    def _paint_beam(self, painter: QPainter, surface: float) -> None:
        x = self.width() / 2
        painter.setPen(QPen(_BEAM, 2))
        painter.setBrush(_BEAM)
        painter.drawLine(QPointF(x, 1), QPointF(x, surface - 5))
        painter.drawPolygon(QPolygonF([QPointF(x - 4, surface - 7), QPointF(x + 4, surface - 7), QPointF(x, surface)]))


def _weight(thickness_mm: Any) -> float:
    """Relative height of a layer; one whose thickness is not known yet is drawn thin."""
    known = isinstance(thickness_mm, float) and 0 < thickness_mm < math.inf
    return float(thickness_mm**_POWER) if known else 0.0


def _thickness_text(row: LayerRow) -> str:
    thickness = row.thickness_mm
    if not isinstance(thickness, float) or not thickness > 0:
        return "–"
    if math.isinf(thickness):
        return "∞"
    return f"{1000 * thickness:.4g} µm" if thickness < 0.1 else f"{thickness:.4g} mm"


EMPTY = "No layers. Press Add, or choose a preset above."
_MAX_ROWS, _FEWEST_ROWS = 12, 1


class LayerRowsView(CellView):
    """Shows a `LayerModel`; rows can be dragged by their numbers."""

    cells: LayerModel

    def __init__(self, model: LayerModel) -> None:
        super().__init__(model, _FEWEST_ROWS, _MAX_ROWS)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.horizontalHeader().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)  # names take what is left
        down = self.verticalHeader()
        down.setDefaultAlignment(Qt.AlignmentFlag.AlignCenter)
        down.setSectionsMovable(True)
        down.sectionMoved.connect(self._on_dragged)

    def move_rows(self, step: int) -> None:
        """Move the current row up (-1) or down (1); it stays the current one."""
        index = self.currentIndex()
        if index.isValid() and 0 <= index.row() + step < self.cells.rowCount():
            self.cells.move(index.row(), index.row() + step)
            self.go_to(index.row() + step, index.column())

    def action_of(self, event: Any) -> Callable[[], Any] | None:
        """What a key does here, or None; Alt with an arrow moves the row."""
        steps = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        if event.modifiers() & Qt.KeyboardModifier.AltModifier and event.key() in steps:
            return lambda: self.move_rows(steps[event.key()])
        return super().action_of(event)

    def measure(self) -> None:
        """Give rows and columns the size that their text needs."""
        super().measure()
        self.verticalHeader().setFixedWidth(self.fontMetrics().horizontalAdvance("000") + 4)

    def _on_dragged(self, _section: int, start: int, end: int) -> None:
        """Move the layer whose number was dragged, and leave the header as it was."""
        header = self.verticalHeader()
        with QSignalBlocker(header):
            header.moveSection(end, start)
        self.cells.move(start, end)
        self.go_to(end)


class LayerTable(OpticalTable):
    """Layers between two ambient media; ``changed``: `medium` may be different."""

    model: LayerModel
    view: LayerRowsView

    def __init__(self, parent: QWidget | None = None) -> None:
        model = LayerModel()
        super().__init__(model, LayerRowsView(model), EMPTY, "layer", parent)
        self.drawing = StackDrawing(self)
        self._name = ""
        self._build()
        connect_all(((self.model.changed, self._on_changed), (self.drawing.clicked, self.view.go_to)))
        self.update_state()

    # -- what the panel needs -------------------------------------------------------------------------------------

    def medium(self) -> LayeredMedium:
        """Return the layers; `InvalidInput` with the first problem."""
        n_above, n_below = self.n_above.value(), self.n_below.value()
        return medium_of(self.model.rows, n_above, n_below, self._name, self.model.unit)

    def set_medium(self, medium: LayeredMedium) -> None:
        """Show other layers; ``changed`` is emitted once."""
        with QSignalBlocker(self):
            self._name = medium.name
            self.n_above.show_value(medium.n_above)
            self.n_below.show_value(medium.n_below)
            self.model.set_layers(medium.layers)
            self.update_state()
        self.changed.emit()

    def preset_rows(self, rows: Sequence[int]) -> list[PropertyRow]:
        """Return rows as the dialog of presets takes them, layers counted from 1."""
        return [PropertyRow(label=row + 1, name=self.model.rows[row].name) for row in rows]

    def add(self) -> None:
        """Add a layer below the current one; above a last one without end, below which nothing can be."""
        rows, current = self.model.rows, self.view.currentIndex()
        index = current.row() + 1 if current.isValid() else len(rows)
        if index == len(rows) and rows and rows[-1].thickness_mm == float("inf"):
            index -= 1
        self.model.insert(index, [NEW_LAYER])
        self.view.go_to(index)

    def duplicate(self) -> None:
        """Put a copy below each selected layer."""
        self.model.duplicate(self.view.selected_rows())

    def remove(self) -> None:
        """Remove the selected layers."""
        rows = self.view.selected_rows()
        self.model.remove(rows)
        if self.model.rowCount() and rows:
            self.view.go_to(min(rows[0], self.model.rowCount() - 1))

    # -- the inside -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self.n_above, self.n_below = (self._ambient(where) for where in ("above", "below"))
        self.unit_box.setToolTip("1/mm with thicknesses in mm, or 1/cm with thicknesses in cm, as in MCML's files")
        self._fill_menu()
        add = text_button("Add", "Add a layer below the current one", self, self.add)
        self._duplicate = text_button("Duplicate", "Put a copy below each selected layer", self, self.duplicate)
        self._remove = text_button("Remove", "Remove the selected layers", self, self.remove)
        self._up, self._down = self._arrow("▲", "up", -1), self._arrow("▼", "down", 1)
        buttons = (add, self._duplicate, self._remove, self._up, self._down)
        fill_column(
            self,
            row_of(Label("n above", self), self.n_above, None, Label("Unit", self), self.unit_box),
            self.empty,
            self.view,
            self.message,
            row_of(Label("n below", self), self.n_below, None, *buttons),
            row_of(self.preset_button),
            self.drawing,
            spacing=SPACING,
        )

    def _ambient(self, where: str) -> NumberBox:
        box = NumberBox(1.0, 10.0, 1.0, 6, self, step=0.01, toolTip=f"Refractive index {where} the layers")
        box.setFixedWidth(52)
        box.edited.connect(self._on_changed)
        return box

    def _arrow(self, text: str, way: str, step: int) -> QPushButton:
        tip = f"Move the layer {way} (Alt+{way.title()}), or drag its number"
        button = text_button(text, tip, self, lambda: self.view.move_rows(step))
        button.setFixedWidth(26)
        return button

    def _on_changed(self, *_: Any) -> None:
        self.update_state()
        self.changed.emit()

    def update_state(self, *_: Any) -> None:
        """Show what the model holds: table or hint, drawing, what is wrong, which buttons can be used."""
        super().update_state()
        count, index = self.model.rowCount(), self.view.currentIndex()
        self.empty.setVisible(count == 0)
        self.view.setVisible(count > 0)
        current = index.row() if index.isValid() else None
        self.drawing.show_stack(self.model.rows, self.n_above.value(), self.n_below.value(), current)
        for button in (self._duplicate, self._remove):
            button.setEnabled(bool(self.view.selected_rows()))
        self._up.setEnabled(index.isValid() and index.row() > 0)
        self._down.setEnabled(index.isValid() and index.row() < count - 1)


def medium_of(rows: Sequence[LayerRow], n_above: float, n_below: float, name: str, unit: str = "1/mm") -> LayeredMedium:
    """Return the medium that the rows describe; `InvalidInput` with the first problem, in a unit."""
    if not rows:
        raise InvalidInput("there are no layers; press Add, or choose a preset")
    if len(rows) > MAX_LAYERS:
        raise InvalidInput(f"there are {len(rows)} layers; at most {MAX_LAYERS} are possible: remove some")
    if problem := next((problem for row in rows if (problem := row.first_problem(unit))), ""):
        raise InvalidInput(problem)
    return LayeredMedium(layers=tuple(row.layer() for row in rows), n_above=n_above, n_below=n_below, name=name)
