"""A form made from a settings dataclass: one row for each `param` field, the advanced ones folded away."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from magicgui.widgets import CheckBox, ComboBox, SpinBox
from qtpy.QtCore import QEvent, QSignalBlocker, QSize, Qt, Signal
from qtpy.QtWidgets import (
    QButtonGroup,
    QFormLayout,
    QHBoxLayout,
    QLayout,
    QPushButton,
    QVBoxLayout,
    QWidget,
)
from superqt import QCollapsible

from napari_gpubio.core.operations.records import alternatives, hints, kind_of, part_info
from napari_gpubio.core.parameters import ParamInfo, param_info, replaced, without_effect
from napari_gpubio.gui import theme
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.labels import Label

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Settings = TypeVar("Settings", bound="DataclassInstance")
SPACING = 6  # pixels between widgets side by side
_FOLDED_MARGIN = 3  # pixels
LABEL_WIDTH = 130  # pixels, so that the rows of several forms line up
_MOST = 2**31 - 1  # that a whole-number input of Qt can hold
_FEWEST_DIGITS = 4  # that a number can be typed with


class ParamForm(QWidget, Generic[Settings]):
    """Show and edit an instance of a settings dataclass; the fields in ``skip`` are not shown and keep their values.

    A part that is one of several classes of settings is a row with their names, and the rows of the chosen one. What
    was set in the others is kept, and comes back with them.

    What is not shown has no say: rows of settings without effect are hidden, and these settings have their defaults;
    those that a panel hides have the values that the form was given. What was typed there comes back with the row.
    """

    changed = Signal()

    def __init__(self, settings: Settings, *, skip: tuple[str, ...] = (), parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self._widgets: dict[str, Any] = {}
        self._rows: dict[str, tuple[QFormLayout, int]] = {}
        self._hidden: set[str] = set()  # by the panel
        self._classes: dict[str, dict[str, type]] = {}  # of parts: their alternatives by the names of these
        self._owners: dict[str, tuple[str, set[str]]] = {}  # of a part's settings: which part, and alternatives
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        rows = [row for field in dataclasses.fields(settings) if field.name not in skip for row in self._found(field)]
        layout.addWidget(self._rows_of([row for row in rows if not row[1].advanced]))
        if advanced := [row for row in rows if row[1].advanced]:
            folded = Folded("Advanced", self)
            folded.fold(self._rows_of(advanced))
            layout.addWidget(folded)
        self._show_fitting_rows()

    def _found(self, field: dataclasses.Field[Any]) -> Iterator[tuple[str, ParamInfo, Any]]:
        """Rows of a field: its name, what is known of it, and its value."""
        value = getattr(self._settings, field.name)
        if (info := param_info(field)) is not None:
            yield field.name, info, value
        if (told := part_info(field)) is None or not (classes := alternatives(hints(type(self._settings))[field.name])):
            return
        self._classes[field.name] = {kind_of(cls): cls for cls in classes}
        choices = tuple(self._classes[field.name])
        yield field.name, ParamInfo(label=told.label, help=told.help, choices=choices), kind_of(value)
        for kind, cls in self._classes[field.name].items():
            for own in dataclasses.fields(cls):
                if (info := param_info(own)) is None:
                    continue
                is_new = own.name not in self._owners
                self._owners.setdefault(own.name, (field.name, set()))[1].add(kind)
                if is_new:
                    yield own.name, info, getattr(value, own.name, own.default)

    def value(self, **beside: Any) -> Settings:
        """Return the settings as the form shows them, with what ``beside`` says of fields that it does not show.

        Raises
        ------
        InvalidInput
            If the dataclass refuses them.
        """
        shown = self._shown()
        idle = without_effect(self._settings, **beside, **shown)
        return replaced(self._settings, **beside, **{name: shown[name] for name in shown if name not in idle})

    def _shown(self) -> dict[str, Any]:
        """Values of the fields that the panel does not hide."""
        values = {name: widget.value for name, widget in self._widgets.items() if name not in self._hidden}
        shown = {name: value for name, value in values.items() if name not in self._owners}
        for part, classes in self._classes.items():
            if part in shown:
                cls = classes[shown[part]]
                names = {field.name for field in dataclasses.fields(cls)}
                shown[part] = cls(**{name: value for name, value in values.items() if name in names & {*self._owners}})
        return shown

    def set_value(self, settings: Settings) -> None:
        """Show other settings; ``changed`` is emitted once."""
        self._settings = settings
        with QSignalBlocker(self):
            for name, widget in self._widgets.items():
                part, _ = self._owners.get(name, ("", set()))
                value = getattr(getattr(settings, part) if part else settings, name, widget.value)
                widget.value = kind_of(value) if name in self._classes else value
        self._on_change()

    def widget(self, name: str) -> Any:
        """The input of one field: one of magicgui's, or a `NumberInput`."""
        return self._widgets[name]

    def set_row_visible(self, name: str, *, visible: bool) -> None:
        """Hide one row, or show it again where its setting has an effect."""
        (self._hidden.discard if visible else self._hidden.add)(name)
        self._show_fitting_rows()

    def _show_fitting_rows(self) -> None:
        hidden = self._hidden.union(without_effect(self._settings, **self._shown()))
        hidden |= {name for name, (part, kinds) in self._owners.items() if self._widgets[part].value not in kinds}
        for name, (layout, row) in self._rows.items():
            layout.setRowVisible(row, name not in hidden)

    def _on_change(self, *_: Any) -> None:
        self._show_fitting_rows()
        self.changed.emit()

    def _rows_of(self, rows: list[tuple[str, ParamInfo, Any]]) -> QWidget:
        part = QWidget(self)
        layout = aligned_form(part)
        for row in rows:
            self._add_row(layout, *row)
        return part

    def _add_row(self, layout: QFormLayout, name: str, info: ParamInfo, value: Any) -> None:
        widget = _input(value, info)
        widget.native.setToolTip(info.help)
        widget.changed.connect(self._on_change)
        self._widgets[name] = widget
        label = row_label(f"{info.label} ({info.unit})" if info.unit else info.label, info.help, self)
        self._rows[name] = (layout, layout.rowCount())
        layout.addRow(label, widget.native)


def aligned_form(owner: QWidget) -> QFormLayout:
    """Return a form layout whose rows line up with those of a `ParamForm`."""
    layout = QFormLayout(owner)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setVerticalSpacing(3)
    layout.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    return layout


def row_label(text: str, tip: str, parent: QWidget) -> "RowLabel":
    """Return the label of a row, as wide as those of a `ParamForm`."""
    label = RowLabel(text, parent)
    label.setToolTip(tip)
    return label


class RowLabel(Label):
    """The name of a row: never narrower than its text, nor than ``least_width`` pixels."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.least_width = LABEL_WIDTH

    def minimumSizeHint(self) -> QSize:
        """Qt: the least room."""
        return super().minimumSizeHint().expandedTo(QSize(self.least_width, 0))

    def sizeHint(self) -> QSize:
        """Qt: the room that it would like to have."""
        return super().sizeHint().expandedTo(QSize(self.least_width, 0))


def muted_label(parent: QWidget, text: str = "") -> Label:
    """Return a label for secondary text of any length."""
    label = WrappedLabel(text, parent)
    label.setStyleSheet(theme.MUTED_STYLE)
    return label


def notes_text(notes: Iterable[str]) -> str:
    """Join notes of readers or runs, each once, as sentences; a file that several are of is named in the first one."""
    sentences, before = [], ""
    for note in dict.fromkeys(notes):
        file, colon, text = note.partition(": ")
        is_named = bool(colon) and Path(file).suffix[1:].isalnum()
        if not is_named or file == before:
            note = text if is_named else note
            note = note[:1].upper() + note[1:]
        before = file if is_named else ""
        if note:
            sentences.append(f"{note.rstrip('.')}.")
    return " ".join(sentences)


class WrappedLabel(Label):
    """A text in as many lines as it needs; layouts inside layouts would give a label of Qt's fewer."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setWordWrap(True)

    def minimumSizeHint(self) -> QSize:
        """Qt: the least room at the width that a layout gave it; at the first 100 pixels it would be far too high."""
        return self._at_its_width(super().minimumSizeHint())

    def sizeHint(self) -> QSize:
        """Qt: forms give no more than this."""
        return self._at_its_width(super().sizeHint())

    def _at_its_width(self, hint: QSize) -> QSize:
        if not self.testAttribute(Qt.WidgetAttribute.WA_Resized):
            return hint
        return QSize(hint.width(), max(hint.height(), self.heightForWidth(self.width())))

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()


def row_of(*widgets: QWidget | None) -> QHBoxLayout:
    """Return widgets side by side; None is a gap that takes the remaining width, without which the first one does."""
    row = QHBoxLayout()
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(SPACING)
    for number, widget in enumerate(widgets):
        if widget is None:
            row.addStretch(1)
        else:
            row.addWidget(widget, int(number == 0 and None not in widgets))
    return row


def fill_column(owner: QWidget, *parts: QWidget | QLayout, spacing: int = SPACING) -> None:
    """Put widgets and layouts below each other into a widget, without margins."""
    column = QVBoxLayout(owner)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(spacing)
    for part in parts:
        if isinstance(part, QWidget):
            column.addWidget(part)
        else:
            column.addLayout(part)


def text_button(text: str, tip: str, parent: QWidget, act: Callable[[], object] | None = None) -> QPushButton:
    """Return a button that calls a function without arguments."""
    button = QPushButton(text, parent)
    button.setToolTip(tip)
    if act is not None:
        button.clicked.connect(lambda *_: act())
    return button


class InputColumn(QWidget):
    """Holds the inputs; ``laid_out`` is emitted when one of them has come, gone or changed its size."""

    laid_out = Signal()

    def event(self, event: Any) -> bool:
        """Qt: any event."""
        is_done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self.laid_out.emit()
        return is_done


class ChoiceButtons(QWidget):
    """Buttons side by side, one of them down; ``changed`` carries its name.

    Parameters
    ----------
    choices
        Text and tool tip by name.
    """

    changed = Signal(str)

    def __init__(self, choices: Mapping[str, tuple[str, str]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._group = QButtonGroup(self)
        self._buttons = {name: text_button(text, tip, self) for name, (text, tip) in choices.items()}
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(_FOLDED_MARGIN)
        for name, button in self._buttons.items():
            button.setCheckable(True)
            button.toggled.connect(lambda down, name=name: self.changed.emit(name) if down else None)
            self._group.addButton(button)
            row.addWidget(button, 1)

    @property
    def choice(self) -> str:
        """The name of the button that is down; empty while none is."""
        return next((name for name, button in self._buttons.items() if button.isChecked()), "")

    def choose(self, name: str) -> None:
        """Press a button down."""
        self._buttons[name].setChecked(True)


class Folded(QCollapsible):
    """A part that is folded away until its title is clicked."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(title, parent, expandedIcon="▾", collapsedIcon="▸")
        self.setDuration(0)
        self.layout().setContentsMargins(0, _FOLDED_MARGIN, 0, _FOLDED_MARGIN)
        self.layout().setSpacing(_FOLDED_MARGIN)

    def fold(self, content: QWidget) -> None:
        """Put something in, folded."""
        self.addWidget(content)
        self.collapse(animate=False)

    def minimumSizeHint(self) -> QSize:
        """Qt: the least room; wide enough for what is folded away, so that the panel need not grow for it."""
        hint = super().minimumSizeHint()
        return QSize(max(hint.width(), self.content().minimumSizeHint().width() + 2 * _FOLDED_MARGIN), hint.height())


def _input(value: Any, info: ParamInfo) -> Any:
    """Make the input that suits a value."""
    if info.choices is not None:
        return ComboBox(value=value, choices=list(info.choices))
    if isinstance(value, bool):
        return CheckBox(value=value, text="")
    low = info.minimum if info.minimum is not None else info.above
    if isinstance(value, int):
        limits = {"min": int(low) if low is not None else -_MOST, "max": min(int(info.maximum or _MOST), _MOST)}
        return SpinBox(value=value, step=int(info.step or 1), **limits)
    return NumberInput(value, low if low is not None else -1e9, info.maximum or 1e9, info.step or _step_for(value))


class NumberInput:
    """A number field with the attributes that magicgui's inputs have; it keeps and shows the digits that count."""

    def __init__(self, value: float, low: float, high: float, step: float) -> None:
        self.min, self.max, self.step = low, high, step
        decimals = max(_digits(step) + 2, _FEWEST_DIGITS)  # finer values than a click on the arrows makes can be typed
        self.native = NumberBox(low, high, value, decimals, step=step, arrows=True)
        self.changed = self.native.edited

    @property
    def value(self) -> float:
        """The number."""
        return float(self.native.value())

    @value.setter
    def value(self, value: float) -> None:
        self.native.setValue(value)


def _digits(value: float) -> int:
    """Digits behind the point."""
    return max(0, -int(Decimal(repr(float(value))).normalize().as_tuple().exponent))


def _step_for(value: float) -> float:
    """A tenth of the value's order of magnitude."""
    return 10.0 ** (int(f"{abs(value) or 1.0:e}".split("e")[1]) - 1)
