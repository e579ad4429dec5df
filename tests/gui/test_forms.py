"""Forms made from settings dataclasses."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QLabel
from superqt import QCollapsible

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import check_params, param
from napari_gpubio.core.settings import Settings as Record
from napari_gpubio.core.settings import part
from napari_gpubio.diffusion.tensors.settings import (
    FitSettings,
    OrdinaryLeastSquares,
    Repaired,
    Unrepaired,
    WeightedLeastSquares,
)
from napari_gpubio.fibers.directions import Cone, Isotropic
from napari_gpubio.fibers.metrics import Sharpened
from napari_gpubio.fibers.seeds import SeedSettings
from napari_gpubio.fibers.settings import Hamiltonian, VanAart2011
from napari_gpubio.gui.forms import ParamForm, notes_text


@dataclass(frozen=True, kw_only=True)
class Oven:
    kind: str = param("gas", "Kind", "What it burns.", choices=("gas", "wood"))
    heat: float = param(180.0, "Heat", "How hot.", unit="°C", minimum=20.0, maximum=300.0, step=10.0)
    trays: int = param(2, "Trays", "How many.", minimum=1, maximum=5)
    fan: bool = param(True, "Fan", "Turn it on.")
    leak: float = param(1e-6, "Leak", "How much is lost.", unit="kg/s", above=0.0, maximum=1e-3, advanced=True)
    shelf: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_params(self)


@pytest.fixture
def form_of(qtbot):
    def make(settings, **how):
        form = ParamForm(settings, **how)
        qtbot.addWidget(form)
        form.emitted = []
        form.changed.connect(lambda: form.emitted.append(form.value()))
        return form

    return make


@pytest.fixture
def form(form_of):
    return form_of(Oven())


def is_on_screen(form, name):
    """Whether a row is neither hidden nor folded to no height."""
    return not form.widget(name).native.visibleRegion().isEmpty()


def label_of(form, text):
    return next(label for label in form.findChildren(QLabel) if label.text() == text)


def test_each_parameter_has_a_row_with_its_unit_help_and_limits(form):
    shown = {label.text() for label in form.findChildren(QLabel)}
    assert {"Kind", "Heat (°C)", "Trays", "Fan", "Leak (kg/s)"} <= shown
    for name, text in (("heat", "How hot."), ("leak", "How much is lost.")):
        assert form.widget(name).native.toolTip() == text
    assert label_of(form, "Heat (°C)").toolTip() == "How hot."
    with pytest.raises(KeyError):
        form.widget("shelf")
    for name, limits in (("heat", (20, 300)), ("trays", (1, 5)), ("leak", (0, 1e-3))):
        assert (form.widget(name).min, form.widget(name).max) == limits
    assert form.widget("heat").step == 10
    assert form.widget("kind").choices == ("gas", "wood")


def test_numbers_show_the_digits_that_count_and_arrows_make_the_parameter_s_step(form):
    """As many as they have, without zeros at the end."""
    heat, leak = form.widget("heat").native, form.widget("leak").native
    assert [heat.text(), leak.text()] == ["180", "1e-6"]
    QTest.keyClick(heat, Qt.Key.Key_Up)
    assert (heat.text(), form.value().heat) == ("190", 190.0)
    form.widget("heat").value = 299.5
    QTest.keyClick(heat, Qt.Key.Key_Up)
    assert form.value().heat == 300.0
    form.set_value(Oven(heat=123.456789))
    assert heat.text() == "123.4568"
    assert form.value().heat == 123.456789


def test_fields_without_a_row_keep_their_value(form_of):
    form = form_of(Oven(shelf=(1, 2), trays=3), skip=("trays",))
    form.widget("heat").value = 90.0
    assert form.value() == Oven(shelf=(1, 2), trays=3, heat=90.0)
    with pytest.raises(KeyError):
        form.widget("trays")
    form.set_value(Oven(shelf=(3,), trays=5))
    assert form.value() == Oven(shelf=(3,), trays=5)


def test_what_a_spin_box_lets_through_and_the_settings_refuse_is_a_sentence(form):
    form.changed.disconnect()
    form.widget("leak").value = 0.0
    with pytest.raises(InvalidInput, match=r"leak is 0 kg/s; it must be greater than 0"):
        form.value()


def test_changed_is_emitted_once_for_each_input_and_once_for_all_that_is_set(form):
    form.widget("heat").value = 100.0
    assert form.emitted == [Oven(heat=100.0)]
    form.widget("kind").value = "wood"
    form.widget("fan").value = False
    form.widget("trays").value = 1
    form.widget("leak").value = 2.5e-6
    assert form.emitted[-1] == Oven(heat=100.0, kind="wood", fan=False, trays=1, leak=2.5e-6)
    assert len(form.emitted) == 5
    other = Oven(kind="gas", heat=55.0, trays=5, leak=5e-5)
    form.set_value(other)
    assert form.emitted[5:] == [other]


def test_the_advanced_rows_are_folded_away_and_count_all_the_same(form, form_of):
    folded = form.findChild(QCollapsible)
    assert not folded.isExpanded()
    form.show()
    assert not is_on_screen(form, "leak")
    assert is_on_screen(form, "heat")
    form.widget("leak").value = 3e-4
    assert form.value().leak == 3e-4
    folded.toggleButton().click()
    QApplication.processEvents()
    assert is_on_screen(form, "leak")
    assert form_of(Cone()).findChild(QCollapsible) is None


def test_rows_can_be_hidden_with_their_label(form):
    form.show()
    row = (form.widget("heat").native, label_of(form, "Heat (°C)"))
    for visible in (False, True):
        form.set_row_visible("heat", visible=visible)
        assert [part.isVisible() for part in row] == [visible, visible]
        assert form.widget("trays").native.isVisible()


@pytest.mark.parametrize(
    ("name", "typed"),
    [("max_drift", 0.0005), ("fa_stop", 0.175), ("step_mm", 0.125), ("eigenvalue_floor_mm2_per_s", 2.5e-6)],
)
def test_useful_numbers_can_be_typed(form_of, name, typed):
    form = form_of(Hamiltonian())
    native = form.widget(name).native
    native.selectAll()
    QTest.keyClicks(native, f"{typed:.7f}".rstrip("0"))
    QTest.keyClick(native, Qt.Key.Key_Return)
    assert getattr(form.value(), name) == typed


@pytest.mark.parametrize(
    "settings",
    [
        Hamiltonian(),
        VanAart2011(metric=Sharpened(power=3.5), step_mm=0.55, fa_stop=0.15, max_length_mm=321.0,
            min_length_mm=12.5, min_radius_mm=0.5, max_drift=0.01,
            integrator="euler", eigenvalue_floor_mm2_per_s=5e-5,
            max_steps=123, points_every=3, precision="double"),
        Hamiltonian(eigenvalue_floor_mm2_per_s=1e-6, max_drift=0.001, interpolation="linear"),
        VanAart2011(texture=True),
        Isotropic(count=77, both_ways=False),
        Cone(count=77, half_angle_deg=12.5),
        FitSettings(),
        FitSettings(estimator=OrdinaryLeastSquares(), repair=Repaired(floor_mm2_per_s=1e-5), shells=(0, 1000)),
        FitSettings(estimator=WeightedLeastSquares(iterations=0), repair=Unrepaired()),
        SeedSettings(radius_mm=1.5, points=1),
    ],
    ids=lambda s: type(s).__name__,
)  # fmt: skip
def test_the_form_gives_back_exactly_the_settings_it_was_given(form_of, settings):
    assert form_of(settings).value() == settings
    form = form_of(type(settings)())
    form.set_value(settings)
    assert form.value() == settings


@pytest.mark.parametrize(
    ("notes", "text"),
    [
        (["a.nii: x was left out.", "a.nii: y is assumed"], "a.nii: x was left out. Y is assumed."),
        (["a.nii: x", "b c.trk: y", "b c.trk: z"], "a.nii: x. b c.trk: y. Z."),
        (["sub-1_dwi.nii has no table", "e.g. x"], "sub-1_dwi.nii has no table. e.g. x."),
        (["x", "x", "", "lengths of 1.5 mm: z"], "X. Lengths of 1.5 mm: z."),
    ],
)
def test_notes_are_sentences_that_name_a_file_once(notes, text):
    assert notes_text(notes) == text


@dataclass(frozen=True, kw_only=True)
class Coarse(Record):
    """One way."""

    step: float = param(1.0, "Step", "How far.", unit="mm")


@dataclass(frozen=True, kw_only=True)
class Fine(Coarse):
    """Another way, with what both have."""

    turns: int = param(3, "Turns", "How often.", minimum=0, maximum=9, advanced=True)


@dataclass(frozen=True, kw_only=True)
class Inner(Record):
    """Settings in settings."""

    way: Coarse | Fine = part("Way", "Which way.", default=Coarse())
    wide: bool = param(False, "Wide", "Whether it is.")


@dataclass(frozen=True, kw_only=True)
class Outer(Record):
    """Settings with a part that there is but one class of, and that is called as forms call theirs."""

    settings: Inner = part("Inside", "What lies inside.", default=Inner())
    size: float = param(1.5, "Size", "How large.")


def shown_rows(form):
    return [path[-1] for path, (layout, row) in form._rows.items() if layout.isRowVisible(row)]


def test_parts_have_rows_of_their_own_and_alternatives_those_of_the_chosen_one(qtbot):
    form = ParamForm(Outer())
    qtbot.addWidget(form)
    assert form.value() == Outer()
    assert shown_rows(form) == ["way", "step", "wide", "size"]
    form.widget("way").value = "fine"
    form.widget("step").value = 0.5
    form.widget("turns").value = 7
    assert shown_rows(form) == ["way", "step", "wide", "size", "turns"]
    assert form.value() == Outer(settings=Inner(way=Fine(step=0.5, turns=7)))
    form.widget("way").value = "coarse"
    assert form.value() == Outer(settings=Inner(way=Coarse(step=0.5)))
    form.widget("way").value = "fine"
    assert form.value().settings.way.turns == 7  # which comes back with its row


def test_other_settings_are_shown_and_come_back_exactly(qtbot):
    form = ParamForm(Outer())
    qtbot.addWidget(form)
    other = Outer(settings=Inner(way=Fine(step=0.1 + 0.2, turns=1), wide=True), size=1e-17)
    with qtbot.waitSignal(form.changed):
        form.set_value(other)
    assert form.value() == other
    assert form.widget("way").value == "fine"


@dataclass(frozen=True, kw_only=True)
class Open(Record):
    """Settings that may be left to the program."""

    step: float | None = param(None, "Step", "How far; else half a voxel.", unit="mm", above=0.0, maximum=10.0)
    turns: int | None = param(None, "Turns", "How often; else as often as needed.", minimum=2)
    order: str | None = param(None, "Order", "Which; else what the file says.", choices=("first", "last"))
    is_log: bool | None = param(None, "log10", "Whether; else what the file says.")
    seed: int = param(7, "Seed", "Of random numbers.", minimum=0)


def test_what_is_left_to_the_program_has_a_check_box(qtbot):
    form = ParamForm(Open())
    qtbot.addWidget(form)
    assert shown_rows(form) == ["step", "turns", "order", "is_log", "seed"]
    assert form.value() == Open()
    for name, value in (("step", 0.5), ("turns", 3), ("order", "last"), ("is_log", False)):
        row = form.widget(name)
        assert not row.given.native.isEnabled()
        row.auto.click()
        assert row.given.native.isEnabled()
        with qtbot.waitSignal(form.changed):
            row.given.value = value
        assert getattr(form.value(), name) == value
    exact = Open(step=0.1 + 0.2, is_log=True)
    form.set_value(exact)
    assert form.value() == exact
    with qtbot.waitSignal(form.changed):
        form.widget("step").auto.click()
    assert form.value() == Open(is_log=True)


@dataclass(frozen=True, kw_only=True)
class Still(Record):
    """A third way, which says of itself what others have as a setting."""

    step: ClassVar[float] = 0.0
    turns: ClassVar[int] = 1


@dataclass(frozen=True, kw_only=True)
class Moving(Record):
    """Settings with it."""

    way: Fine | Still = part("Way", "Which way.", default=Fine())


def test_what_a_class_says_of_itself_has_no_row(qtbot):
    form = ParamForm(Moving())
    qtbot.addWidget(form)
    assert shown_rows(form) == ["way", "step", "turns"]
    form.widget("way").value = "still"
    assert shown_rows(form) == ["way"]
    assert form.value() == Moving(way=Still())
