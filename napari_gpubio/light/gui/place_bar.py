"""What a click places: a switch on top of the source and the detectors, with Undo for both."""

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QButtonGroup, QHBoxLayout, QLabel, QPushButton, QWidget

CHOICES = {
    "source": ("Source", "A click on the surface puts the source there; drag its marker to move it"),
    "detector": ("Detector", "A click on the surface adds a detector (as Shift+click always does); drag to move it"),
    "nothing": ("Nothing", "Clicks and drags only move the view"),
}


class PlaceBar(QWidget):
    """Three buttons, one of them down, and one that takes a change back."""

    changed = Signal(str)
    undo_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(3)
        row.addWidget(QLabel("A click places", self))
        self._group = QButtonGroup(self)
        self._buttons: dict[str, QPushButton] = {}
        for name, (text, tip) in CHOICES.items():
            button = self._buttons[name] = QPushButton(text, self)
            button.setCheckable(True)
            button.setToolTip(tip)
            button.toggled.connect(lambda down, name=name: self.changed.emit(name) if down else None)
            self._group.addButton(button)
            row.addWidget(button, 1)
        self._buttons["source"].setChecked(True)
        self._undo = QPushButton("Undo", self)
        self._undo.setToolTip("Take the last change of source and detectors back")
        self._undo.clicked.connect(lambda: self.undo_wanted.emit())
        row.addSpacing(6)
        row.addWidget(self._undo)

    @property
    def choice(self) -> str:
        """``source``, ``detector`` or ``nothing``."""
        return next(name for name, button in self._buttons.items() if button.isChecked())

    def show_undo(self, *, possible: bool) -> None:
        """Say whether there is something to take back."""
        self._undo.setEnabled(possible)

    def choose(self, name: str) -> None:
        """Let a click place something else."""
        self._buttons[name].setChecked(True)
