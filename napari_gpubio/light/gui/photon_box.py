"""How many photons: a logarithmic slider and the number itself."""

import math

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QHBoxLayout, QLineEdit, QSlider, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.settings import MOST_PHOTONS

LOWEST, HIGHEST = 4, 9  # powers of ten at the ends of the slider
_TICKS = 10  # per decade
_SUFFIXES = {"k": 1e3, "M": 1e6, "G": 1e9}


class PhotonBox(QWidget):
    """A number of photons; any number can be typed, the slider goes from 1e4 to 1e9."""

    changed = Signal()

    def __init__(self, photons: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._slider = QSlider(Qt.Orientation.Horizontal, self)
        self._slider.setRange(LOWEST * _TICKS, HIGHEST * _TICKS)
        self._slider.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._slider.wheelEvent = lambda event: event.ignore()  # the wheel scrolls the panel
        self._text = QLineEdit(self)
        self._text.setMaximumWidth(104)
        self._text.setAlignment(Qt.AlignmentFlag.AlignRight)
        self._text.setToolTip("Type any number: 2e6, 2,000,000 or 2M. Twice the photons: 1.4 times less noise.")
        self._slider.valueChanged.connect(self._on_slider)
        self._text.editingFinished.connect(self._on_text)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._slider, 1)
        row.addWidget(self._text)
        self.set_value(photons)

    def value(self) -> int:
        """Return the number of photons.

        Raises
        ------
        InvalidInput
            If what was typed is no such number.
        """
        return photons_of(self._text.text())

    def set_value(self, photons: int) -> None:
        """Show another number; ``changed`` is emitted."""
        self._text.setText(f"{photons:,}")
        self._on_text()

    def _on_slider(self, tick: int) -> None:
        self._text.setText(f"{_rounded(10 ** (tick / _TICKS)):,}")
        self.changed.emit()

    def _on_text(self) -> None:
        try:
            photons = self.value()
        except InvalidInput:
            pass  # it stays as it is typed, and the run says what is wrong
        else:
            self._text.setText(f"{photons:,}")
            was = self._slider.blockSignals(True)
            self._slider.setValue(round(math.log10(photons) * _TICKS))
            self._slider.blockSignals(was)
        self.changed.emit()


def photons_of(text: str) -> int:
    """Return the number that a text such as ``2e6``, ``2,000,000`` or ``2M`` means.

    Raises
    ------
    InvalidInput
        If it is no integer from 1 to the most that can be run.
    """
    plain = text.replace(",", "").replace("_", "").replace(" ", "").strip()
    factor = _SUFFIXES.get(plain[-1:], 1.0)
    try:
        number = float(plain[:-1] if factor > 1 else plain) * factor
    except ValueError:
        number = math.nan
    if not (1 <= number <= MOST_PHOTONS):
        raise InvalidInput(f"photons is {text!r}; give a number from 1 to {MOST_PHOTONS:.0e}, such as 1e6 or 2,000,000")
    return round(number)


def _rounded(number: float) -> int:
    """Two figures, as a person would choose."""
    return round(float(f"{number:.1e}"))
