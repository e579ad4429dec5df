"""A form made from a settings dataclass: one row for each `param` field, the advanced ones folded away.

And what other inputs are made of: labels, rows, columns, and buttons.
"""

import dataclasses
import html
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from qtpy.QtCore import QEvent, QSignalBlocker, QSize, Qt, Signal
from qtpy.QtWidgets import (
    QApplication,
    QButtonGroup,
    QFormLayout,
    QHBoxLayout,
    QLabel,  # noqa: TID251 - this is the place
    QLayout,
    QPushButton,
    QVBoxLayout,
    QWidget,
)
from superqt import QCollapsible

from napari_gpubio.core.parameters import ParamInfo, param_info
from napari_gpubio.core.settings import Settings as Record
from napari_gpubio.core.settings import alternatives, field_names, hints, kind_of, part_info
from napari_gpubio.gui import theme
from napari_gpubio.gui.param_inputs import param_input

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Settings = TypeVar("Settings", bound="DataclassInstance")
SPACING = 6  # pixels between widgets side by side
_FOLDED_MARGIN = 3  # pixels
LABEL_WIDTH = 130  # pixels, so that the rows of several forms line up
_ELSEWHERE = object()  # value of a setting of an alternative that is not chosen


Way = tuple[str, ...]  # of fields, to a setting
_Row = tuple[Way, ParamInfo, Any, Any]


class ParamForm(QWidget, Generic[Settings]):
    """Show and edit an instance of a settings dataclass; the fields in ``skip`` are not shown and keep their values.

    A part with settings of its own has rows of its own. One that is one of several classes of settings is a row with
    their names, and the rows of the chosen one. What was set in the others is kept, and comes back with them.

    What a panel hides has the value that the form was given; what was typed there comes back with the row. Widgets only
    show: a number that nobody has edited is not rounded to what a widget can hold.
    """

    changed = Signal()

    def __init__(self, settings: Settings, *, skip: tuple[str, ...] = (), parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self._widgets: dict[Way, Any] = {}  # by the fields that lead to them
        self._shown_values: dict[Way, Any] = {}  # what widgets were given
        self._rows: dict[Way, tuple[QFormLayout, int]] = {}
        self._hidden: set[str] = set()  # by the panel
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        rows = [row for row in self._found(type(settings), settings, ()) if row[0][0] not in skip]
        layout.addWidget(self._rows_of([row for row in rows if not row[1].advanced]))
        if advanced := [row for row in rows if row[1].advanced]:
            folded = Folded("Advanced", self)
            folded.fold(self._rows_of(advanced))
            layout.addWidget(folded)
        self._show_fitting_rows()

    def _found(self, cls: type, record: Any, before: Way) -> Iterator[_Row]:
        """Rows of a class of settings: where they belong, what is known of them, their values and types."""
        for field in dataclasses.fields(cls):
            path, value = (*before, field.name), getattr(record, field.name, field.default)
            if (info := param_info(field)) is not None:
                yield path, info, value, hints(cls)[field.name]
                continue
            classes = alternatives(hints(cls)[field.name])
            part = part_info(field)
            if part is not None and len(classes) > 1:
                choices = tuple(map(kind_of, classes))
                yield path, ParamInfo(label=part.label, help=_told(part.help, classes), choices=choices), value, str
            known = {path}
            for one in classes:
                for row in self._found(one, value if isinstance(value, one) else None, path):
                    if row[0] not in known:  # one of several alternatives that inherit it
                        known.add(row[0])
                        yield row

    def value(self, **beside: Any) -> Settings:
        """Return the settings as the form shows them, with what ``beside`` says of fields that it does not show.

        Raises
        ------
        InvalidInput
            If the dataclass refuses them.
        """
        return dataclasses.replace(self._settings, **beside, **self._values(type(self._settings), self._settings, ()))

    def _values(self, cls: type, record: Any, before: Way) -> dict[str, Any]:
        """Values of the fields of a class that the form shows and the panel does not hide."""
        values = {}
        for field in dataclasses.fields(cls):
            path = (*before, field.name)
            own: Any = getattr(record, field.name, None)
            if path in self._widgets and param_info(field) is not None and field.name not in self._hidden:
                edited = self._edited(path)
                if edited is not None or type(None) in typing.get_args(hints(cls)[field.name]):  # of another class
                    values[field.name] = edited
            elif classes := alternatives(hints(cls)[field.name]):
                one = self._chosen(path, classes)
                own = own if type(own) is one else None
                parts = self._values(one, own, path)
                values[field.name] = one(**parts) if own is None else dataclasses.replace(own, **parts)
        return values

    def _edited(self, path: Way) -> Any:
        """The value of a widget, or what it was given where nobody has changed it."""
        value, (shown, given) = self._widgets[path].value, self._shown_values[path]
        return given if value == shown else value

    def _chosen(self, path: Way, classes: tuple[type, ...]) -> type:
        """The chosen one of some alternatives."""
        if path not in self._widgets:
            return classes[0]
        return next(one for one in classes if kind_of(one) == self._widgets[path].value)

    def set_value(self, settings: Settings) -> None:
        """Show other settings; ``changed`` is emitted once."""
        self._settings = settings
        with QSignalBlocker(self):
            for path in self._widgets:
                value: Any = settings
                for name in path:
                    is_there = dataclasses.is_dataclass(value) and name in field_names(type(value))
                    value = getattr(value, name) if is_there else _ELSEWHERE
                if value is not _ELSEWHERE:
                    self._show_value(path, value)
        self._on_change()

    def widget(self, name: str) -> Any:
        """The input of one field: one of magicgui's, or of `napari_gpubio.gui.param_inputs`."""
        return {path[-1]: widget for path, widget in self._widgets.items()}[name]

    def set_row_visible(self, name: str, *, visible: bool) -> None:
        """Hide one row, or show it again."""
        (self._hidden.discard if visible else self._hidden.add)(name)
        self._show_fitting_rows()

    def _show_fitting_rows(self) -> None:
        for path, (layout, row) in self._rows.items():
            is_hidden = path[0] in self._hidden or path[-1] in self._hidden
            layout.setRowVisible(row, not is_hidden and self._is_of_chosen(path))

    def _is_of_chosen(self, path: Way) -> bool:
        """Whether a row is of the chosen ones among the alternatives that it lies in."""
        cls = type(self._settings)
        for n, name in enumerate(path):
            if name not in field_names(cls):
                return False
            if classes := alternatives(hints(cls)[name]):
                cls = self._chosen(path[: n + 1], classes)
        return True

    def _on_change(self, *_: Any) -> None:
        self._show_fitting_rows()
        self.changed.emit()

    def _rows_of(self, rows: list[_Row]) -> QWidget:
        part = QWidget(self)
        layout = aligned_form(part)
        for row in rows:
            self._add_row(layout, *row)
        return part

    def _add_row(self, layout: QFormLayout, path: Way, info: ParamInfo, value: Any, hint: Any) -> None:
        widget = param_input(kind_of(value) if isinstance(value, Record) else value, info, hint)
        self._widgets[path] = widget
        self._show_value(path, value)
        widget.native.setToolTip(info.help)
        widget.changed.connect(self._on_change)
        label = row_label(f"{info.label} ({info.unit})" if info.unit else info.label, info.help, self)
        self._rows[path] = (layout, layout.rowCount())
        layout.addRow(label, widget.native)

    def _show_value(self, path: Way, value: Any) -> None:
        widget = self._widgets[path]
        widget.value = kind_of(value) if isinstance(value, Record) else value
        self._shown_values[path] = widget.value, value


def _told(text: str, classes: Iterable[Any]) -> str:
    """What is said of a choice, and in a line each what the classes are for, as far as they say it."""
    return "\n".join([text, *(f"{kind_of(one)}: {one.use}" for one in classes if one.use)])


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


class Label(QLabel):
    """A label whose text is shown letter by letter, as it is: names of layers and files may look like markup."""

    def __init__(self, *arguments: Any, **properties: Any) -> None:
        super().__init__(*arguments, **properties)
        self.setTextFormat(Qt.TextFormat.PlainText)


class RichLabel(QLabel):
    """A label of markup: names in it go through `html.escape`."""

    def __init__(self, *arguments: Any, **properties: Any) -> None:
        super().__init__(*arguments, **properties)
        self.setTextFormat(Qt.TextFormat.RichText)


def tip_of(text: str) -> str:
    """Return a tip that shows a text with names letter by letter; Qt has no plain ones, it guesses."""
    return f"<p style='white-space: pre-wrap'>{html.escape(text)}</p>" if Qt.mightBeRichText(text) else text


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
            note = note if "." in note.partition(" ")[0][:-1] else note[:1].upper() + note[1:]  # files keep their names
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


def row_of(*widgets: QWidget | None, stretch: Sequence[int] = ()) -> QHBoxLayout:
    """Return widgets side by side; None is a gap that takes the remaining width, without which the first one does.

    ``stretch``: how they share the width, if otherwise.
    """
    row = QHBoxLayout()
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(SPACING)
    for number, widget in enumerate(widgets):
        if widget is None:
            row.addStretch(1)
        else:
            row.addWidget(widget, stretch[number] if stretch else int(number == 0 and None not in widgets))
    return row


def fill_column(owner: QWidget, *parts: QWidget | QLayout | None, spacing: int = SPACING) -> None:
    """Put widgets and layouts below each other into a widget, without margins; None takes the remaining height."""
    column = QVBoxLayout(owner)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(spacing)
    for part in parts:
        if part is None:
            column.addStretch(1)
        elif isinstance(part, QWidget):
            column.addWidget(part)
        else:
            column.addLayout(part)


def lay_out_around(widget: QWidget) -> None:
    """Give what is around a widget of another size its place now, from inside to outside as Qt does in some turns."""
    around = widget.parentWidget() if widget.isVisible() else None
    while around is not None and not around.isWindow():
        QApplication.sendPostedEvents(around, QEvent.Type.LayoutRequest)
        around = around.parentWidget()


def text_button(text: str, tip: str, parent: QWidget, act: Callable[[], object] | None = None) -> QPushButton:
    """Return a button that calls a function without arguments."""
    button = QPushButton(text, parent, toolTip=tip)
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
