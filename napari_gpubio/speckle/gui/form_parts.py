"""Small parts of forms."""

from typing import Any

from qtpy.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSpinBox, QWidget


def faint(parent: QWidget) -> QLabel:
    """Return a label for what is of less weight."""
    label = QLabel(parent)
    label.setWordWrap(True)
    label.setStyleSheet("color: #9a9a9a;")
    return label


def row_of(*widgets: QWidget) -> QHBoxLayout:
    """Return widgets beside each other; the first one takes the room that is left."""
    row = QHBoxLayout()
    for place, widget in enumerate(widgets):
        row.addWidget(widget, 0 if place else 1)
    return row


def small_button(text: str, tip: str, act: Any, parent: QWidget) -> QPushButton:
    """Return a button for a sign."""
    button = QPushButton(text, parent)
    button.setToolTip(tip)
    button.setFixedWidth(30)
    button.clicked.connect(act)
    return button


def whole_box(value: int, low: int, high: int, parent: QWidget) -> QSpinBox:
    """Return an input of an integer."""
    box = QSpinBox(parent)
    box.setRange(low, high)
    box.setValue(value)
    return box
