"""The part of the panel that describes the layers: table, ambient media, drawing, what is wrong."""

from collections.abc import Sequence
from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QComboBox, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.light.gui.layers.layer_columns import DIM
from napari_gpubio.light.gui.layers.layer_model import NEW, LayerModel
from napari_gpubio.light.gui.layers.layer_rows import UNITS, medium_of
from napari_gpubio.light.gui.layers.layer_view import LayerView
from napari_gpubio.light.gui.layers.stack_drawing import StackDrawing
from napari_gpubio.light.layers.model import LayeredMedium

EMPTY = "No layers. Press Add, or choose a preset above."
_WRONG, _MISSING = "color: #ff6b5e; font-weight: 600;", "color: #d6942a;"


class LayerTable(QWidget):
    """Layers between two ambient media; ``changed`` says that `medium` may give something else."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = LayerModel(self)
        self.view = LayerView(self.model, self)
        self.drawing = StackDrawing(self)
        self._name = ""
        self._build()
        self._connect()
        self._show_state()

    # -- what the panel needs -------------------------------------------------------------------------------------

    def medium(self) -> LayeredMedium:
        """Return the layers.

        Raises
        ------
        InvalidInput
            With the first thing that is wrong, as a sentence for the user.
        """
        return medium_of(self.model.rows, self.n_above.value(), self.n_below.value(), self._name, self.model.unit)

    def set_medium(self, medium: LayeredMedium, *, undoable: bool = True) -> None:
        """Show other layers; ``changed`` is emitted once."""
        was = self.blockSignals(True)
        self._name = medium.name
        self.n_above.show_value(medium.n_above)
        self.n_below.show_value(medium.n_below)
        (self.model.set_layers if undoable else self.model.begin_with)(medium.layers)
        self._show_state()
        self.blockSignals(was)
        self.changed.emit()

    @property
    def unit(self) -> str:
        """The unit of the coefficients on screen."""
        return self.model.unit

    def set_unit(self, unit: str) -> None:
        """Show coefficients in 1/mm and thicknesses in mm, or in 1/cm and cm; what `medium` gives stays."""
        self._unit.setCurrentText(unit)

    @property
    def message(self) -> str:
        """What is wrong, or an empty text."""
        return "" if self._message.isHidden() else self._message.text()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self.n_above, self.n_below = (self._ambient(where) for where in ("above", "below"))
        self._unit = QComboBox(self)
        self._unit.addItems(list(UNITS))
        self._unit.setToolTip("1/mm with thicknesses in mm, or 1/cm with thicknesses in cm, as in MCML's files")
        self._empty = QLabel(EMPTY, self)
        self._empty.setStyleSheet(f"{DIM} padding: 12px;")
        self._empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._message = QLabel(self)
        self._message.setWordWrap(True)
        self._message.setTextFormat(Qt.TextFormat.PlainText)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(_row(QLabel("n above", self), self.n_above, None, QLabel("Unit", self), self._unit))
        for part in (self._empty, self.view, self._message):
            layout.addWidget(part)
        layout.addLayout(_row(QLabel("n below", self), self.n_below, None, *self._make_buttons()))
        layout.addWidget(self.drawing)

    def _ambient(self, where: str) -> NumberBox:
        box = NumberBox(1.0, 10.0, 1.0, 6, self, step=0.01)
        box.setToolTip(f"Refractive index {where} the layers")
        box.setFixedWidth(52)
        box.edited.connect(lambda _: self._on_changed())
        return box

    def _make_buttons(self) -> Sequence[QWidget]:
        self._add, self._duplicate, self._remove = (QPushButton(self) for _ in range(3))
        self._up, self._down, self._undo = (QPushButton(self) for _ in range(3))
        for button, text, tip, act in (
            (self._add, "Add", "Add a layer below the current one", self.add),
            (self._duplicate, "Duplicate", "Put a copy below each selected layer", self.duplicate),
            (self._remove, "Remove", "Remove the selected layers", self.remove),
            (self._up, "▲", "Move the layer up (Alt+Up), or drag its number", lambda: self.view.move_rows(-1)),
            (self._down, "▼", "Move the layer down (Alt+Down), or drag its number", lambda: self.view.move_rows(1)),
            (self._undo, "↶", "Take the last change of the table back (Ctrl+Z)", self.model.undo),
        ):
            button.setText(text)
            button.setToolTip(tip)
            if len(text) == 1:
                button.setFixedWidth(26)
            button.clicked.connect(lambda _=False, act=act: act())
        return (self._add, self._duplicate, self._remove, self._up, self._down, self._undo)

    def add(self) -> None:
        """Add a layer below the current one; above a last one without end, below which nothing can be."""
        rows, current = self.model.rows, self.view.currentIndex()
        index = current.row() + 1 if current.isValid() else len(rows)
        if index == len(rows) and rows and rows[-1].thickness_mm == float("inf"):
            index -= 1
        self.model.insert(index, [NEW])
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

    def _connect(self) -> None:
        self.model.changed.connect(self._on_changed)
        self.model.judged.connect(self._show_state)
        self._unit.currentTextChanged.connect(self.model.set_unit)
        self.view.selectionModel().selectionChanged.connect(self._show_state)
        self.view.typing.connect(self._on_typing)
        self.view.typed.connect(self._show_state)
        self.drawing.clicked.connect(self.view.go_to)
        self._message.installEventFilter(self)

    def eventFilter(self, watched: Any, event: Any) -> bool:
        """Qt: a click on the sentence leads to the cell that it speaks of."""
        if event.type() == event.Type.MouseButtonRelease and (place := self.model.first_problem()) is not None:
            self.view.go_to(*place)
        return super().eventFilter(watched, event)

    def _on_changed(self) -> None:
        self._show_state()
        self.changed.emit()

    def _on_typing(self, problem: str) -> None:
        if problem:
            self._say(problem, _WRONG)
        else:
            self._show_state()

    def _show_state(self, *_: Any) -> None:
        """Show what the model holds: table or hint, drawing, what is wrong, which buttons can be used."""
        count, index = self.model.rowCount(), self.view.currentIndex()
        self._empty.setVisible(count == 0)
        self.view.setVisible(count > 0)
        self.drawing.show_stack(self.model.rows, self.n_above.value(), self.n_below.value(), self.model.unit)
        self.drawing.show_current(index.row() if index.isValid() else None)
        selected = bool(self.view.selected_rows())
        for button in (self._duplicate, self._remove):
            button.setEnabled(selected)
        self._up.setEnabled(index.isValid() and index.row() > 0)
        self._down.setEnabled(index.isValid() and index.row() < count - 1)
        self._undo.setEnabled(self.model.can_undo)
        self._judge()

    def _judge(self) -> None:
        """Speak of the current cell, or else of the first with which something is wrong."""
        index = self.view.currentIndex()
        current = (index.row(), index.column()) if index.isValid() else None
        place = current if current is not None and self.model.problem(*current) else self.model.first_problem()
        if place is None:
            self._say("", "")
        else:
            self._say(self.model.problem(*place), _MISSING if self.model.is_missing(*place) else _WRONG)

    def _say(self, sentence: str, style: str) -> None:
        self._message.setStyleSheet(style)
        self._message.setText(sentence[:1].upper() + sentence[1:] + "." if sentence else "")
        self._message.setVisible(bool(sentence))


def _row(*parts: QWidget | None) -> QHBoxLayout:
    """Widgets side by side; None is a gap."""
    row = QHBoxLayout()
    row.setSpacing(4)
    for part in parts:
        row.addStretch(1) if part is None else row.addWidget(part)
    return row
