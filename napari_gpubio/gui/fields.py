"""Input fields: numbers that keep all digits, several side by side or with a slider; a list with elided text."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from qtpy.QtCore import QSignalBlocker, QSize, Qt, Signal
from qtpy.QtGui import QPalette, QValidator
from qtpy.QtWidgets import (
    QComboBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QSizePolicy,
    QSlider,
    QStyle,
    QStyleOptionComboBox,
    QStylePainter,
    QWidget,
)

_ROUNDING = 1e-15
_ALL_DIGITS = 323  # behind the point, the most that Qt knows: no double is rounded
_BESIDE_NUMBER = 20  # pixels of the padding between it and the buttons
_BEGUN = re.compile(r"[+-]?(\d+\.?\d*|\.?\d*)(e[+-]?\d*)?", re.IGNORECASE)  # a number, or what may become one


class NumberBox(QDoubleSpinBox):
    """A number field that emits ``edited`` after editing.

    A number that the program sets keeps all its digits until another one is typed. What is typed is rounded to what is
    then shown, brought between the limits, and may be written as ``1e-7``; the decimal mark is the point, and what the
    user's language has for it.

    Parameters
    ----------
    low, high
        Limits.
    value
        The number to begin with.
    decimals
        Digits that are shown behind the point; of a number below 1 as many that count, so that 0.000123 does not
        become 0. With 0, numbers are whole.
    step
        What the arrow keys add.
    unit
        Shown behind the number.
    arrows
        Whether it has buttons. Without, it is as narrow as its row has room for.
    **properties
        Of Qt, such as ``toolTip``.
    """

    edited = Signal(float)
    shows_tiny = True

    def __init__(
        self,
        low: float,
        high: float,
        value: float,
        decimals: int,
        parent: QWidget | None = None,
        *,
        step: float = 1.0,
        unit: str = "",
        arrows: bool = False,
        **properties: Any,
    ) -> None:
        super().__init__(parent, **properties)
        self._shown_decimals, self._exact = decimals, value
        self.setDecimals(_ALL_DIGITS if decimals else 0)
        self.setRange(low, high)
        self.setSingleStep(step)
        self.setValue(value)
        self.setSuffix(f" {unit}" if unit else "")
        self.setKeyboardTracking(False)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        if not arrows:
            self.setButtonSymbols(QDoubleSpinBox.ButtonSymbols.NoButtons)
            share_width(self)
        self.valueChanged.connect(self.edited)

    def show_value(self, value: float) -> None:
        """Set the number without emitting a signal."""
        with QSignalBlocker(self):
            self.setValue(value)

    def setValue(self, value: float) -> None:
        """Qt: set the number."""
        self._exact = value
        super().setValue(value)

    def minimumSizeHint(self) -> QSize:
        """Qt: the least room; between the buttons of napari's style it holds the number and its unit."""
        hint = super().minimumSizeHint()
        if self.buttonSymbols() == QDoubleSpinBox.ButtonSymbols.NoButtons:
            return hint
        text = self.fontMetrics().horizontalAdvance(f"{self.text()}0")
        return hint.expandedTo(QSize(text + 2 * self.fontMetrics().height() + _BESIDE_NUMBER, 0))

    def stepBy(self, steps: int) -> None:
        """Qt: an arrow was pressed, or the wheel turned."""
        self.interpretText()
        self.setValue(self._rounded(self.value() + steps * self.singleStep()))
        self.selectAll()

    def textFromValue(self, value: float) -> str:
        """Qt: the text of a number, without zeros at its end; what rounding leaves of a zero is shown as 0."""
        if abs(value) < _ROUNDING:
            value = 0.0
        if 0 < abs(value) < 1 and self._shown_decimals and self.shows_tiny:
            return re.sub(r"e-0*", "e-", f"{value:.{self._shown_decimals}g}")
        text = f"{value:.{self._shown_decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text == "-0" else text

    def valueFromText(self, text: str) -> float:
        """Qt: the number of a text that `validate` accepts."""
        if self._is_special(text):
            return self.minimum()
        bare = self._bare(text)
        return self._exact if bare == self.textFromValue(self._exact) else self._rounded(float(bare))

    def validate(self, text: str, position: int) -> tuple[QValidator.State, str, int]:
        """Qt: whether a text is a number, may become one, or is nonsense."""
        return self._state(text), text, position

    def _state(self, text: str) -> QValidator.State:
        bare = self._bare(text)
        if self._is_special(text):
            return QValidator.State.Acceptable
        if not _BEGUN.fullmatch(bare) or (bare.startswith("-") and self.minimum() >= 0):
            return QValidator.State.Invalid
        try:
            value = float(bare)
        except ValueError:
            return QValidator.State.Intermediate
        is_known = math.isfinite(value) and (self._shown_decimals > 0 or value.is_integer())
        return QValidator.State.Acceptable if is_known else QValidator.State.Invalid

    def _is_special(self, text: str) -> bool:
        return bool(text) and text == self.specialValueText()

    def _bare(self, text: str) -> str:
        """A text without the unit, with a point."""
        return text.removesuffix(self.suffix()).strip().replace(self.locale().decimalPoint(), ".")

    def _rounded(self, value: float) -> float:
        return float(self.textFromValue(value))


class CoordinateBox(NumberBox):
    """A number field that shows what is smaller than its decimals as 0: what rounding leaves of a click at 0 mm."""

    shows_tiny = False


def share_width(widget: QWidget) -> None:
    """Let an input be as narrow as its row has room for, instead of as wide as napari's style makes it."""
    widget.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    widget.setStyleSheet("min-width: 36px; padding: 1px 5px;")


class NumberRow(QWidget):
    """Three numbers x, y, z."""

    edited = Signal(object)

    def __init__(self, step: float, decimals: int, tips: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(3)
        self.boxes = [CoordinateBox(-1e5, 1e5, 0.0, decimals, self, step=step, toolTip=tip) for tip in tips]
        for box in self.boxes:
            box.edited.connect(self._on_edited)
            row.addWidget(box, 1)

    def show_values(self, values: Sequence[float]) -> None:
        """Set the numbers without emitting a signal; what is not edited keeps all its digits."""
        for box, value in zip(self.boxes, values, strict=True):
            box.show_value(value)

    def _on_edited(self, _: float) -> None:
        self.edited.emit(tuple(box.value() for box in self.boxes))


_MIN_ENTRY_CHARACTERS = 11


class ElidedComboBox(QComboBox):
    """A list that may be as narrow as some characters; a longer current entry ends with an ellipsis.

    The entries are whole where the list is open. ``entries``: texts by what they stand for, the data of the entries;
    or texts that stand for themselves.
    """

    def __init__(
        self,
        parent: QWidget | None = None,
        *,
        characters: int = _MIN_ENTRY_CHARACTERS,
        entries: Mapping[Any, str] | Sequence[str] = (),
        tip: str = "",
    ) -> None:
        super().__init__(parent)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(characters)
        self.setToolTip(tip)
        for data, text in entries.items() if isinstance(entries, Mapping) else zip(entries, entries, strict=True):
            self.addItem(text, data)

    def displayed_text(self) -> str:
        """Return the current entry, or the placeholder, as there is room for it."""
        return str(self._option().currentText)

    def minimumSizeHint(self) -> QSize:
        """Qt: the least room; of the placeholder no more is needed than of an entry."""
        hint, metrics = super().minimumSizeHint(), self.fontMetrics()
        entries = [metrics.horizontalAdvance(self.itemText(index)) for index in range(self.count())]
        text = min(metrics.horizontalAdvance("x") * self.minimumContentsLength(), max(entries, default=hint.width()))
        return QSize(min(hint.width(), text + 2 * hint.height()), hint.height())

    def showPopup(self) -> None:
        """Qt: open the list, as wide as its entries are."""
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0))
        super().showPopup()

    def paintEvent(self, _event: Any) -> None:
        """Qt: draw; with a style sheet Qt cuts the text off instead of eliding it."""
        option, painter = self._option(), QStylePainter(self)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()  # before Qt shows what was drawn, whoever may hold this frame

    def _option(self) -> Any:
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        text = option.currentText
        if self.currentIndex() < 0:
            text = self.placeholderText()
            option.palette.setBrush(QPalette.ColorRole.ButtonText, option.palette.placeholderText())
        part = QStyle.SubControl.SC_ComboBoxEditField
        room = self.style().subControlRect(QStyle.ComplexControl.CC_ComboBox, option, part, self).width() - _TEXT_MARGIN
        option.currentText = self.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, room)
        return option


_SLIDER_STEPS = 1000
_TEXT_MARGIN = 4  # pixels beside the text of a list


class SliderRow(QWidget):
    """A number field with a slider, whose range the number may leave; ``changed`` is emitted at every move."""

    changed = Signal(float)

    def __init__(
        self, box: NumberBox, ends: tuple[float, float], *, logarithmic: bool = False, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.box, self._ends, self._logarithmic = box, ends, logarithmic
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setRange(0, _SLIDER_STEPS)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(box, 2)
        row.addWidget(self.slider, 3)
        self.slider.valueChanged.connect(self._on_slider)
        box.valueChanged.connect(self._on_box)
        self._show_slider()

    def set_ends(self, low: float, high: float) -> None:
        """Give the slider another range."""
        self._ends = low, high
        self._show_slider()

    def _on_slider(self, step: int) -> None:
        low, high = (math.log(end) if self._logarithmic else end for end in self._ends)
        value = low + (high - low) * step / _SLIDER_STEPS
        self.box.show_value(float(f"{math.exp(value) if self._logarithmic else value:.4g}"))
        self.changed.emit(self.box.value())

    def _on_box(self, value: float) -> None:
        self._show_slider()
        self.changed.emit(value)

    def _show_slider(self) -> None:
        low, high, value = *self._ends, self.box.value()
        if self._logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(max(value, 1e-300))
        share = (value - low) / (high - low) if high > low else 0.0
        with QSignalBlocker(self.slider):
            self.slider.setValue(round(_SLIDER_STEPS * min(max(share, 0.0), 1.0)))
