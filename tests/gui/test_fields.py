"""A number that is typed: digits, limits, nonsense, units, languages, steps and the wheel."""

import pytest
from qtpy.QtCore import QLocale, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QHBoxLayout, QWidget

from napari_gpubio.gui.fields import CoordinateBox, ElidedComboBox, NumberBox, SliderRow

THIRD = 1 / 3


@pytest.fixture
def box_of(qtbot):
    def make(*how, **more):
        box = NumberBox(*how, **more)
        qtbot.addWidget(box)
        box.show()
        return box

    return make


@pytest.fixture
def box(box_of):
    return box_of(-1e12, 1e12, 1.0, 4)


def typed(box, text):
    """The number after a text was typed in place of what was there, and Return pressed."""
    box.selectAll()
    QTest.keyClicks(box.lineEdit(), text)
    QTest.keyClick(box, Qt.Key.Key_Return)
    return box.value()


def test_what_rounding_leaves_of_a_coordinate_is_zero(qtbot):
    box = CoordinateBox(-1e5, 1e5, 0.0, 3)
    qtbot.addWidget(box)
    for value, text in ((-6.49e-6, "0"), (0.0123, "0.012"), (-0.5, "-0.5"), (-12.3456, "-12.346"), (0.0, "0")):
        box.setValue(value)
        assert box.text() == text
        assert box.value() == value, "the number keeps its digits"


def recorded(signal):
    values = []
    signal.connect(values.append)
    return values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (-0.0, "0"), (1.0, "1"), (-12.5, "-12.5"), (100.0, "100"), (1e9, "1000000000"),
        (2 / 3e2, "0.006667"), (123.456789, "123.4568"), (THIRD, "0.3333"), (1.2e-4, "0.00012"),
        (1.23456e-7, "1.235e-7"), (5e-20, "0"), (-2e-17, "0"), (-2e-8, "-2e-8"), (3e-12, "3e-12"), (0.99999999, "1"),
    ],
)  # fmt: skip
def test_digits_that_count_are_shown_and_no_zeros_behind_them(box, value, text):
    box.setValue(value)
    assert box.text() == text


@pytest.mark.parametrize("value", [THIRD, 123.456789012345, 1e-9 * THIRD, -1e-300, 0.1 + 0.2])
def test_a_number_that_is_not_typed_keeps_every_digit(box, value):
    box.setValue(value)
    QTest.keyClick(box, Qt.Key.Key_Return)
    assert box.value() == value
    assert typed(box, box.text()) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12.5", 12.5), ("-3", -3.0), (".5", 0.5), ("7.", 7.0), ("+2", 2.0), ("1e-7", 1e-7), ("2.5E3", 2500.0),
        ("1e+2", 100.0), ("0.000123", 0.000123), ("12.345678", 12.3457),
        # keys that make nonsense do nothing; a comma does so where it is not the decimal mark
        ("nan", 5.5), ("inf", 5.5), ("1x2", 12.0), ("1..5", 1.5), ("1_0", 10.0), ("3-4", 34.0), ("1,5", 15.0),
    ],
)  # fmt: skip
def test_numbers_may_be_typed_with_a_point_or_with_a_power_of_ten(box, text, value):
    box.setValue(5.5)
    assert typed(box, text) == value
    assert box.text() == box.textFromValue(value)


@pytest.mark.parametrize("text", ["", "-", ".", "1e", "1e-", "e5"])
def test_what_is_not_yet_a_number_leaves_the_old_one(box, text):
    box.setValue(5.5)
    box.selectAll()
    QTest.keyClick(box.lineEdit(), Qt.Key.Key_Delete)
    assert typed(box, text) == 5.5
    assert box.text() == "5.5"


def test_limits_are_exact_and_the_nearer_one_is_taken(box_of):
    assert typed(box_of(0.0, 1e100, 5.5, 4), "1e999") == 1e99, "the third 9 does nothing"
    box = box_of(1e-9, 300.0, 1.0, 4)
    assert typed(box, "500") == 300.0
    assert typed(box, "0") == 1e-9
    assert box.text() == "1e-9"
    assert typed(box, "-2") == 2.0, "nothing below 0 is allowed, so the sign does nothing"


def test_whole_numbers_have_no_point(box_of):
    box = box_of(1, 100_000, 30, 0)
    assert box.text() == "30"
    assert typed(box, "12.5") == 12.0, "a digit behind the point does nothing"
    assert typed(box, "1e3") == 1000.0
    box.setValue(2.7)
    assert (box.value(), box.text()) == (3.0, "3")


def test_the_unit_stands_behind_the_number_and_need_not_be_typed(box_of):
    box = box_of(0.0, 1e6, 1.5, 4, unit="mm")
    assert box.text() == "1.5 mm"
    assert typed(box, "2.25") == 2.25
    assert box.text() == "2.25 mm"
    assert typed(box, "3 mm") == 3.0


def test_a_word_for_the_lowest_number(box_of):
    box = box_of(0.0, 1e6, 0.0, 4, unit="mW")
    box.setSpecialValueText("not given")
    QTest.keyClick(box, Qt.Key.Key_Return)
    assert (box.value(), box.text()) == (0.0, "not given")
    assert typed(box, "5") == 5.0
    assert typed(box, "0") == 0.0
    assert box.text() == "not given"


@pytest.fixture
def german():
    before = QLocale()
    QLocale.setDefault(QLocale("de_DE"))
    yield
    QLocale.setDefault(before)


@pytest.mark.usefixtures("german")
def test_a_language_with_a_decimal_comma_takes_commas_and_points(box_of):
    box = box_of(0.0, 1e6, 0.5, 4)
    assert box.text() == "0.5"
    QTest.keyClick(box, Qt.Key.Key_Return)
    assert box.value() == 0.5
    assert typed(box, "0,25") == 0.25
    assert typed(box, "0.75") == 0.75


def test_it_emits_once_when_the_user_is_done_and_not_for_the_program(box):
    emitted = recorded(box.edited)
    box.show_value(THIRD)
    assert (box.value(), emitted) == (THIRD, [])
    box.selectAll()
    QTest.keyClicks(box.lineEdit(), "12.5")
    assert emitted == []
    for _ in range(2):
        QTest.keyClick(box, Qt.Key.Key_Return)
        assert emitted == [12.5]


def test_arrow_keys_step_without_dust(box_of):
    box = box_of(0.0, 0.35, 0.1, 4, step=0.1)
    values = []
    for _ in range(3):
        QTest.keyClick(box, Qt.Key.Key_Up)
        values.append(box.value())
    assert values == [0.2, 0.3, 0.35]
    QTest.keyClick(box, Qt.Key.Key_Down)
    assert box.value() == 0.25
    box.selectAll()
    QTest.keyClicks(box.lineEdit(), "0.15")
    QTest.keyClick(box, Qt.Key.Key_Up)
    assert box.value() == 0.25, "a step begins at what was typed"


def test_three_without_arrows_fit_into_a_narrow_row(qtbot):
    row = QWidget()
    qtbot.addWidget(row)
    layout = QHBoxLayout(row)
    boxes = [NumberBox(0.0, 1e9, 1.0, 6, row) for _ in range(3)]
    for box in boxes:
        assert box.buttonSymbols() == NumberBox.ButtonSymbols.NoButtons
        layout.addWidget(box, 1)
    row.resize(200, 40)
    row.show()
    assert row.width() == 200
    assert max(box.width() for box in boxes) < 65
    assert NumberBox(0.0, 1e9, 1.0, 6, row, arrows=True).minimumSizeHint().width() > 65


def test_an_entry_without_room_ends_with_an_ellipsis(qtbot):
    box = ElidedComboBox(characters=5)
    qtbot.addWidget(box)
    box.setPlaceholderText("nothing that could be chosen is there")
    box.addItem("SFI (1/s) of a recording with a long name")
    for index, text in ((0, box.itemText(0)), (-1, box.placeholderText())):
        box.setCurrentIndex(index)
        box.resize(120, 24)
        assert box.displayed_text().endswith("…")
        assert text.startswith(box.displayed_text()[:-1])
        box.resize(600, 24)
        assert box.displayed_text() == text
        assert not box.grab().isNull()


@pytest.mark.parametrize(("logarithmic", "middle"), [(False, 550.0), (True, 316.2)])
def test_a_slider_stands_where_its_number_lies_between_the_ends(qtbot, box_of, logarithmic, middle):
    box = box_of(0.0, 1e6, 1.0, 4)
    row = SliderRow(box, (100.0, 1000.0), logarithmic=logarithmic)
    qtbot.addWidget(row)
    for value, share in ((100.0, 0.0), (middle, 0.5), (1000.0, 1.0), (5e5, 1.0)):
        box.setValue(value)
        assert row.slider.value() == round(share * row.slider.maximum())
    changed = recorded(row.changed)
    row.slider.setValue(row.slider.maximum() // 2)
    assert changed == [middle]
    assert box.value() == middle
