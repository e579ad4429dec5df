"""Names of controls for those who do not see them: the label of the row, else what its tool tip says."""

import re
from collections.abc import Iterator

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QFormLayout,
    QLayoutItem,
    QScrollArea,
    QWidget,
)

_LONGEST = 80  # letters of a tool tip
_MARKUP = re.compile("<[^>]*>")
_PARTS_OF = (QAbstractSpinBox, QComboBox, QAbstractItemView)  # whose own parts are spoken of with them


def name_controls(part: QWidget) -> None:
    """Give every control of a panel that has no name one that a screen reader can say."""
    labels = dict(_labels(part))
    for control in controls_of(part):
        if not name_of_control(control):
            control.setAccessibleName(_found(control, part, labels))


def controls_of(part: QWidget) -> list[QWidget]:
    """Return what the keyboard reaches in a panel, but for parts of controls."""
    return [
        widget
        for widget in part.findChildren(QWidget)
        if widget.focusPolicy() != Qt.FocusPolicy.NoFocus
        and not isinstance(widget, QScrollArea)
        and not _is_inside(widget, part)
    ]


def name_of_control(control: QWidget) -> str:
    """Return what is said of a control: its name, or its text."""
    return control.accessibleName() or (control.text() if isinstance(control, QAbstractButton) else "")


def _is_inside(widget: QWidget, part: QWidget) -> bool:
    around = widget.parentWidget()
    while around is not None and around is not part:
        if isinstance(around, _PARTS_OF):
            return True
        around = around.parentWidget()
    return False


def _labels(part: QWidget) -> Iterator[tuple[QWidget, str]]:
    """What lies in the rows of forms, and the texts beside."""
    for form in part.findChildren(QFormLayout):
        text = ""
        for row in range(form.rowCount()):
            label = form.itemAt(row, QFormLayout.ItemRole.LabelRole)
            if label is not None and hasattr(label.widget(), "text"):
                text = label.widget().text() or text  # a row without one goes on with that above
            for widget in _widgets(form.itemAt(row, QFormLayout.ItemRole.FieldRole)):
                yield widget, text


def _widgets(item: QLayoutItem | None) -> Iterator[QWidget]:
    if item is None:
        return
    if item.widget() is not None:
        yield item.widget()
    elif item.layout() is not None:
        for number in range(item.layout().count()):
            yield from _widgets(item.layout().itemAt(number))


def _found(control: QWidget, part: QWidget, labels: dict[QWidget, str]) -> str:
    around: QWidget | None = control
    while around is not None and around is not part:
        if labels.get(around):
            return labels[around]
        around = around.parentWidget()
    tip = _MARKUP.sub("", control.toolTip()).split("\n")[0]
    return tip[:_LONGEST] or re.sub("(?<=[a-z])(?=[A-Z])", " ", type(control).__name__).lower()
