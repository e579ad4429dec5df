"""The rules of a dissection: rows of regions and numbers, joined by "and" and "or"."""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from qtpy.QtCore import QSignalBlocker, Signal
from qtpy.QtWidgets import QGridLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.records import Output
from napari_gpubio.gui.fields import ElidedComboBox, NumberBox
from napari_gpubio.gui.forms import fill_column, row_of, text_button
from napari_gpubio.gui.lines.sampling import title_of
from napari_gpubio.tractograms.dissection import Condition, ends_in, number, through
from napari_gpubio.tractograms.gui.region_box import ChosenRegion, RegionBox
from napari_gpubio.tractograms.gui.region_rows import RegionRows
from napari_gpubio.tractograms.operations.dissection import Dissect, Range, Rules

AND, OR = "and", "or"
NUMBER = "number"
ROLES = {
    "through": "pass through",
    "not_through": "do not pass through",
    "ends": "end in",
    "not_ends": "do not end in",
    "both_ends": "have both ends in",
    NUMBER: "have",
}
_LIMIT = 1e9


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: how it is joined to the one above, what it demands, and of which region or number."""

    joiner: str = AND
    role: str = "through"
    layer: Any | None = None
    key: int | str | None = None
    measure: str = ""
    low: float = 0.0
    high: float = 0.0


def joined(rows: list[tuple[str, Condition]]) -> Condition | None:
    """Return the condition of rows (joiner, condition): "and" binds closer than "or"; None without rows."""
    alternatives: list[Condition] = []
    for joiner, condition in rows:
        if alternatives and joiner == AND:
            alternatives[-1] &= condition
        else:
            alternatives.append(condition)
    return functools.reduce(operator.or_, alternatives) if alternatives else None


Pairs = Sequence[tuple[Rule, ChosenRegion | None]]  # rules, of which some may be equal, with their regions
_FIELDS = {
    "through": "include",
    "not_through": "exclude",
    "ends": "ends",
    "not_ends": "no_ends",
    "both_ends": "both_ends",
    NUMBER: "range",
}


def dissection_of(fibers: Output[Any], rows: Pairs) -> Dissect:
    """Return the operation of rules with their regions: what "or" joins are alternatives."""
    groups: list[dict[str, Any]] = []
    for rule, chosen in rows:
        if not groups or rule.joiner == OR:
            groups.append({})
        low, high = (None if abs(end) >= _LIMIT else end for end in (rule.low, rule.high))  # which is no end
        own: Any = Range(number=rule.measure, low=low, high=high) if chosen is None else chosen.output()
        field = _FIELDS[rule.role]
        groups[-1][field] = (*groups[-1].get(field, ()), own)
    first, *others = groups or [{}]
    return Dissect(fibers=fibers, alternatives=tuple(Rules(**one) for one in others), **first)


def rules_of(operation: Dissect, found: Callable[[Output[Any]], tuple[Any, int | str]]) -> tuple[Rule, ...]:
    """Return the rules of an operation; ``found``: the layer of a region, and which of its regions it is.

    Regions of which any is passed are alternatives, which are all that rows know.
    """
    roles, rules = {field: role for role, field in _FIELDS.items()}, list[Rule]()
    groups: list[Any] = [operation, *(ref.of for name, ref in operation.inputs() if name == "alternatives")]
    for group in groups:
        own = [Rule(AND, roles[name], *found(ref)) for name, ref in group.inputs() if name in roles]
        for one in group.range:
            low, high = (-_LIMIT if one.low is None else one.low, _LIMIT if one.high is None else one.high)
            own.append(Rule(AND, NUMBER, measure=one.number, low=low, high=high))
        either = [[Rule(AND, "through", *found(ref))] for name, ref in group.inputs() if name == "any"]
        for rows in ([*own, *more] for more in either or [[]]):
            first = OR if rules else AND
            rules += [replace(row, joiner=AND if number else first) for number, row in enumerate(rows)]
    return tuple(rules)


class RuleRow(QWidget):
    """One rule that can be edited."""

    changed = Signal()

    def __init__(self, viewer: Any, remove: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._numbers: Mapping[str, Any] = {}
        self.joiner = ElidedComboBox(self, entries={AND: "and", OR: "or"}, tip="“and” binds closer than “or”")
        self.role = ElidedComboBox(self, entries=ROLES, tip="What the fibers do that are kept")
        self.region_box = RegionBox(viewer, parent=self)
        self.measure = ElidedComboBox(self, tip="A number of the fibers")
        self.low, self.high = (NumberBox(-_LIMIT, _LIMIT, 0.0, 3, self) for _ in range(2))
        self._range = QWidget(self)
        self._range.setLayout(row_of(self.measure, self.low, self.high, stretch=(1, 1, 1)))
        button = text_button("Remove", "Remove this rule", self, lambda: remove(self))
        top = row_of(self.joiner, self.role, button, stretch=(0, 1, 0))
        fill_column(self, top, self.region_box, self._range)
        for signal in (self.joiner.currentIndexChanged, self.region_box.changed, self.low.edited, self.high.edited):
            signal.connect(lambda *_: self.changed.emit())
        self.role.currentIndexChanged.connect(self._on_role)
        self.measure.currentIndexChanged.connect(self._on_measure)
        self._show_kind()

    def show_numbers(self, numbers: Mapping[str, Any]) -> None:
        """Offer the numbers of a layer of fibers, arrays (F,) by name."""
        self._numbers, chosen = numbers, self.measure.currentData()
        with QSignalBlocker(self.measure):
            self.measure.clear()
            for name in numbers:
                self.measure.addItem(title_of(name), name)
            self._keep_measure(chosen)
        if self.measure.currentData() != chosen:
            self._show_ends()

    def _keep_measure(self, name: str | None) -> None:
        """Choose a number, also one that these fibers do not have; the first one where there was no choice."""
        if name and self.measure.findData(name) < 0:
            self.measure.addItem(f"{title_of(name)} (these fibers have none)", name)
        self.measure.setCurrentIndex(max(self.measure.findData(name), 0) if self.measure.count() else -1)

    def rule(self) -> Rule:
        """Return the rule as it is shown."""
        if self.role.currentData() == NUMBER:
            name = self.measure.currentData() or ""
            return Rule(self.joiner.currentData(), NUMBER, None, None, name, self.low.value(), self.high.value())
        box = self.region_box
        return Rule(self.joiner.currentData(), self.role.currentData(), box.layer, box.key)

    def show_rule(self, rule: Rule) -> None:
        """Show a rule; ``changed`` is not emitted."""
        with QSignalBlocker(self):
            for box, value in ((self.joiner, rule.joiner), (self.role, rule.role)):
                box.setCurrentIndex(box.findData(value))
            self._keep_measure(rule.measure)
            if rule.layer is not None and rule.key is not None:
                self.region_box.choose(rule.layer, rule.key)
            if rule.measure:
                self.low.show_value(rule.low)
                self.high.show_value(rule.high)
            self._show_kind()

    def condition(self, which: str) -> Condition:
        """Return what the rule demands; ``which``: how it is called in messages. InvalidInput if it lacks something."""
        rule = self.rule()
        if rule.role == NUMBER:
            if not rule.measure:
                raise InvalidInput(f"{which} needs a number, and these fibers have none; remove it")
            return number(rule.measure, rule.low, rule.high)
        region = self.region_box.region(f"the region of {which}")
        if rule.role == "both_ends":
            return ends_in(region, ends="both")
        kept = ends_in(region) if "ends" in rule.role else through(region)
        return ~kept if rule.role.startswith("not_") else kept

    def _on_role(self, *_: Any) -> None:
        self._show_kind()
        self.changed.emit()

    def _on_measure(self, *_: Any) -> None:
        self._show_ends()
        self.changed.emit()

    def _show_kind(self) -> None:
        is_number = self.role.currentData() == NUMBER
        self.region_box.setVisible(not is_number)
        self._range.setVisible(is_number)

    def _show_ends(self) -> None:
        """Show the whole range of the number."""
        values = np.asarray(self._numbers.get(self.measure.currentData(), ()), float)
        values = values[np.isfinite(values)]
        if len(values):
            self.low.show_value(float(np.floor(values.min() * 1000) / 1000))
            self.high.show_value(float(np.ceil(values.max() * 1000) / 1000))


class RuleList(RegionRows[RuleRow]):
    """All rules, in their order; ``changed`` tells that other fibers may be kept."""

    kept = ("kept_rules",)

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(RuleRow, viewer, parent)
        self._numbers: Mapping[str, Any] = {}
        self.buttons = QGridLayout()
        fill_column(self, self._column, self.buttons)

    def rules(self) -> tuple[Rule, ...]:
        """The rules as they are shown."""
        return tuple(row.rule() for row in self._rows)

    @property
    def kept_rules(self) -> tuple[Rule, ...]:
        """The rules as undo keeps them."""
        return self.rules()

    @kept_rules.setter
    def kept_rules(self, rules: tuple[Rule, ...]) -> None:
        self.show_rules(rules)

    def condition(self) -> Condition | None:
        """Return what all rules together demand, or None if there are none; InvalidInput if one lacks something."""
        rows = [(row.rule().joiner, row.condition(f"rule {n}")) for n, row in enumerate(self._rows, 1)]
        return joined(rows)

    def regions(self) -> Pairs:
        """Return the rules, each with its region, None for a number; InvalidInput if one lacks its region."""
        return [
            (row.rule(), None if row.rule().role == NUMBER else row.region_box.chosen(f"the region of rule {n}"))
            for n, row in enumerate(self._rows, 1)
        ]

    def show_numbers(self, numbers: Mapping[str, Any]) -> None:
        """Offer the numbers of a layer of fibers."""
        self._numbers = numbers
        for row in self._rows:
            row.show_numbers(numbers)

    def add(self, rule: Rule) -> RuleRow:
        """Add a rule at the end."""
        row = self._add_row(rule)
        self.changed.emit()
        return row

    def show_rules(self, rules: tuple[Rule, ...]) -> None:
        """Show other rules."""
        self.clear()
        for rule in rules:
            self._add_row(rule)

    def take(self, row: RuleRow) -> None:
        """Take a rule away; the first one is joined to none."""
        super().take(row)
        if self._rows:
            self._rows[0].joiner.hide()

    def _add_row(self, rule: Rule) -> RuleRow:
        row = self.append_row()
        row.joiner.setVisible(len(self._rows) > 1)
        row.show_numbers(self._numbers)
        row.show_rule(rule)
        return row
