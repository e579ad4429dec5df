"""Rows of the optical property table: what a typed text becomes, and what is wrong with it."""

import dataclasses

import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.gui.optical_rows import NUMBERS, TYPED, PropertyRow
from napari_gpubio.optics.model import Medium
from tests.light.gui.property_samples import Linear
from tests.sentences import says

SKULL = Medium(label=2, name="skull", mua_per_mm=0.0101, mus_per_mm=12.5, g=0.92, n=1.37, source="a book")


@pytest.mark.parametrize(
    ("typed", "per_mm", "per_cm"),
    [
        ("0.019", 0.019, 0.0019),
        ("0.7", 0.7, 0.07),  # not 0.06999999999999999
        ("0.3", 0.3, 0.03),
        ("0,019", 0.019, 0.0019),
        (" 12.5 ", 12.5, 1.25),
        ("1e-3", 0.001, 0.0001),
        ("2.", 2.0, 0.2),
        ("−1", -1.0, -0.1),
        ("0", 0.0, 0.0),
    ],
)
def test_a_typed_number_is_kept_exactly_in_either_unit(typed, per_mm, per_cm):
    row = PropertyRow.of(SKULL)
    assert row.with_text("mua_per_mm", typed).mua_per_mm == per_mm
    assert row.with_text("mus_per_mm", typed, "1/cm").mus_per_mm == per_cm
    assert row.with_text("g", typed, "1/cm").g == per_mm  # has no unit


@pytest.mark.parametrize("typed", ["many", "1.2.3", "1,234.5", "--", "0x10", "1 2", "sNaN", "1e99999999999999999999"])
def test_what_is_no_number_stays_as_it_was_typed(typed):
    row = PropertyRow.of(SKULL).with_text("mua_per_mm", typed, "1/cm")
    assert row.mua_per_mm == typed
    assert row.text("mua_per_mm", "1/mm") == row.short_text("mua_per_mm", "1/cm") == typed
    assert typed in row.problem("mua_per_mm")
    assert "not a number" in row.problem("mua_per_mm")


@pytest.mark.parametrize("value", [0.0159, 1 / 3, 15.625, 1e-7, 0.07, 123456.789, 0.1 + 0.2])
@pytest.mark.parametrize("unit", ["1/mm", "1/cm"])
def test_opening_an_editor_and_closing_it_changes_nothing(value, unit):
    row = PropertyRow.of(dataclasses.replace(SKULL, mua_per_mm=value))
    assert row.with_text("mua_per_mm", row.text("mua_per_mm", unit), unit) is row


def test_texts_and_reduced_scattering():
    row = PropertyRow.of(dataclasses.replace(SKULL, mua_per_mm=0.0101, mus_per_mm=15.625))
    assert (row.text("mua_per_mm"), row.text("mua_per_mm", "1/cm")) == ("0.0101", "0.101")
    assert (row.short_text("mus_per_mm"), row.short_text("mus_per_mm", "1/cm")) == ("15.62", "156.2")
    assert row.short_text("musp_per_mm") == "1.25"
    assert row.text("name") == "skull"
    assert PropertyRow.of(dataclasses.replace(SKULL, mua_per_mm=1e-5)).short_text("mua_per_mm") == "1e-5"
    assert PropertyRow(label=3).text("n") == ""
    assert PropertyRow.of(SKULL).musp_per_mm == pytest.approx(12.5 * (1 - 0.92), rel=1e-15)
    assert row.with_text("g", "1.5").musp_per_mm is None
    assert row.with_text("mus_per_mm", "").musp_per_mm is None
    assert row.with_text("mua_per_mm", "-1").musp_per_mm is not None


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("mua_per_mm", ("0", "1e3"), ("-1e-9", "nan", "inf")),
        ("mus_per_mm", ("0", "100"), ("-0.5", "-inf")),
        ("g", ("-1", "1", "0"), ("1.0001", "-1.1", "nan")),
        ("n", ("1", "1.5"), ("0.999", "0", "11")),
    ],
)
def test_the_limits_are_those_of_a_medium(field, good, bad):
    for text in good:
        row = PropertyRow.of(SKULL).with_text(field, text)
        assert row.problem(field) == row.first_problem() == ""
        assert getattr(row.medium(), field) == float(text)
    for text in bad:
        row = PropertyRow.of(SKULL).with_text(field, text)
        assert row.problem(field) == row.first_problem()
        with pytest.raises(InvalidInput, match=r"label 2 \(skull\): "):
            row.medium()
        with pytest.raises(InvalidInput):
            dataclasses.replace(SKULL, **{field: float(text)})


def test_a_sentence_says_what_is_wrong_in_the_unit_on_screen():
    row = PropertyRow.of(SKULL).with_text("mua_per_mm", "-0.2").with_text("n", "0.5").with_text("g", "2")
    assert says(row.problem("mua_per_mm"), "label 2 (skull)", "µa is -0.2 1/mm", "0 1/mm")
    assert says(row.problem("mua_per_mm", "1/cm"), "label 2 (skull)", "µa is -2 1/cm", "0 1/cm")
    assert says(row.problem("n"), "label 2 (skull)", "n is 0.5", "1")
    assert says(row.problem("g"), "label 2 (skull)", "g is 2", "1")
    assert row.problem("name") == row.problem("musp_per_mm") == row.problem("source") == row.problem("label") == ""


def test_a_row_that_is_not_filled_says_so():
    row = PropertyRow(label=3)
    expected = "label 3 has no optical properties; fill its row or choose a preset"
    assert row.is_empty
    assert {row.problem(field) for field in NUMBERS} == {expected}
    with pytest.raises(InvalidInput, match="label 3 has no optical properties"):
        row.medium()
    started = row.with_text("mua_per_mm", "0.01")
    assert started.first_problem() == "label 3 has no µs; type it or choose a preset"
    assert started.source == TYPED
    assert started.with_text("mua_per_mm", "") == row


def test_a_typed_number_is_the_users_and_a_name_is_not_a_number():
    row = PropertyRow.of(SKULL)
    assert row.with_text("name", "bone") == dataclasses.replace(row, name="bone")
    assert row.with_text("source", "my thesis").source == "my thesis"
    for field in NUMBERS:
        typed = row.filled(Linear(), 700).with_text(field, "1.0")
        assert (typed.source, typed.recipe) == (TYPED, None)


def test_a_recipe_fills_a_row_at_wavelengths_where_it_has_numbers():
    row = PropertyRow(label=7).filled(Linear(), 700)
    assert row.medium() == dataclasses.replace(Linear().medium(700), label=7)
    named = dataclasses.replace(row, name="vein")
    assert named.filled(Linear(), 500).name == "vein"
    stale = named.filled(Linear(), 950)
    assert stale.mua_per_mm == stale.medium().mua_per_mm == 0.7
    assert says(stale.warning, "label 7 (vein)", "950 nm", "900 nm")
    assert stale.filled(Linear(), 800).warning == ""
