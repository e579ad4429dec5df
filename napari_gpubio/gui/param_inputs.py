"""Inputs for single settings: magicgui's, a number that keeps its digits, and what may be left to the program."""

import typing
from decimal import Decimal
from typing import Any

from magicgui.widgets import CheckBox, ComboBox, SpinBox
from qtpy.QtCore import QObject, QSignalBlocker, Signal
from qtpy.QtWidgets import QCheckBox, QHBoxLayout, QWidget

from napari_gpubio.core.parameters import ParamInfo
from napari_gpubio.core.settings import is_union
from napari_gpubio.gui.fields import NumberBox

_MOST = 2**31 - 1  # that a whole-number input of Qt can hold
_FEWEST_DIGITS = 4  # that a number can be typed with


def param_input(value: Any, info: ParamInfo, hint: Any) -> Any:
    """Make the input that suits a setting, with the attributes that magicgui's inputs have.

    Parameters
    ----------
    value
        To begin with.
    info
        Limits and choices.
    hint
        The type of the setting; where that may be None, the program decides, and the input has a check box for that.
    """
    if is_union(hint) and type(None) in (members := typing.get_args(hint)):
        kind = next(one for one in members if one is not type(None))
        return OptionalInput(value, param_input(_first(kind, info) if value is None else value, info, kind))
    if info.choices is not None:
        return ComboBox(value=value, choices=list(info.choices))
    if isinstance(value, bool):
        return CheckBox(value=value, text="")
    low = info.minimum if info.minimum is not None else info.above
    if isinstance(value, int):
        limits = {"min": int(low) if low is not None else -_MOST, "max": min(int(info.maximum or _MOST), _MOST)}
        return SpinBox(value=value, step=int(info.step or 1), **limits)
    return NumberInput(value, low if low is not None else -1e9, info.maximum or 1e9, info.step or _step_for(value))


def _first(kind: type, info: ParamInfo) -> Any:
    """A value to begin with where nobody has given one."""
    if info.choices is not None:
        return info.choices[0]
    if kind is bool:
        return True
    least = info.minimum if info.minimum is not None else info.above
    return kind(least or 1)


class OptionalInput(QObject):
    """An input beside a check box that leaves the setting to the program: its value is None while that is checked."""

    changed = Signal(object)

    def __init__(self, value: Any, given: Any) -> None:
        super().__init__()
        self.given = given  # the input of a value that is set
        self.native = QWidget()
        self.auto = QCheckBox("auto", self.native)
        row = QHBoxLayout(self.native)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.auto)
        row.addWidget(given.native, 1)
        self.value = value
        self.auto.toggled.connect(lambda *_: self._on_auto())
        given.changed.connect(lambda *_: self.changed.emit(self.value))

    @property
    def value(self) -> Any:
        """The setting, or None."""
        return None if self.auto.isChecked() else self.given.value

    @value.setter
    def value(self, value: Any) -> None:
        with QSignalBlocker(self.auto):
            self.auto.setChecked(value is None)
        self.given.native.setEnabled(value is not None)
        if value is not None:
            self.given.value = value

    def _on_auto(self) -> None:
        self.given.native.setEnabled(not self.auto.isChecked())
        self.changed.emit(self.value)


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
