"""Units, scales and what a layer says about its numbers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.quantity import (
    Quantity,
    ascii_unit,
    checked_unit,
    halves_of,
    quantity_metadata,
    quantity_of,
    standard_error_of,
    to_linear,
    unit_factor,
)


def layer(**held: Any) -> SimpleNamespace:
    return SimpleNamespace(metadata={KEY: held}, name="layer")


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("1/mm2", "1/mm²"), ("1/mm²", "1/mm²"), ("mm^-2", "1/mm²"), ("mm-2", "1/mm²"), ("mW/mm2", "mW/mm²"),
        (" J/cm^2 ", "J/cm²"), ("Gy", "Gy"), ("cGy", "cGy"), ("%", "%"), ("mm2/s", "mm²/s"), ("um2/ms", "µm²/ms"),
        ("cm-1", "1/cm"), ("HU", "HU"),
    ],
)  # fmt: skip
def test_units_are_known_in_the_ways_people_write_them(typed: str, shown: str) -> None:
    assert checked_unit(typed) == shown == Quantity("x", typed).unit == checked_unit(ascii_unit(shown))


@pytest.mark.parametrize("typed", ["foo", "-3", "gy", "", "  ", "mm2/", "Gy/Gy", "J/cm2; DROP"])
def test_what_is_no_unit_is_refused_with_its_text(typed: str) -> None:
    with pytest.raises(InvalidInput, match="known unit") as error:
        checked_unit(typed)
    assert repr(typed.strip()) in str(error.value)
    assert "Gy" in str(error.value)


def test_units_of_one_kind_are_converted_and_others_refused() -> None:
    assert unit_factor("1/mm2", "1/cm2") == pytest.approx(100.0)
    assert unit_factor("mW/mm2", "W/m2") == pytest.approx(1000.0)
    assert unit_factor("J/cm2", "mJ/mm2") == pytest.approx(10.0)
    assert unit_factor("cGy", "Gy") == pytest.approx(0.01)
    with pytest.raises(InvalidInput, match=r"J/cm².*Gy"):
        unit_factor("J/cm2", "Gy")


def test_a_quantity_survives_plain_data() -> None:
    quantity = Quantity("fluence rate", "mW/mm2", "log10", "head, 1e6 photons")
    assert Quantity.from_data(quantity.to_data()) == quantity
    assert quantity.text == "log10 fluence rate (mW/mm²)"
    assert quantity.is_log


@pytest.mark.parametrize(
    "data",
    [None, "fluence", {"unit": "Gy"}, {"name": "x", "unit": "foo"}, {"name": 3}, {"name": "x", "scale": "ln"},
     {"name": "x", "more": "y"}, {"name": " "}],
)  # fmt: skip
def test_damaged_plain_data_is_refused(data: Any) -> None:
    with pytest.raises(InvalidInput):
        Quantity.from_data(data)


def test_a_layer_says_what_its_numbers_mean() -> None:
    quantity = Quantity("fluence", "1/mm2", "log10")
    assert quantity_of(layer(quantity=quantity)) == quantity
    assert quantity_of(layer(quantity=quantity.to_data())) == quantity
    assert quantity_of(layer(quantity="log10 fluence", unit="1/mm²")) == quantity
    assert quantity_of(layer(quantity="CT")) == Quantity("CT")
    assert quantity_of(layer(quantity="dose", unit="foo")) == Quantity("dose")
    assert quantity_of(layer(quantity={"name": "x", "unit": "foo"})) is None
    assert quantity_of(layer()) is None
    assert quantity_of(SimpleNamespace(metadata={}, name="layer")) is None


def test_error_and_halves_travel_beside_it() -> None:
    error, halves = np.ones((2, 3, 4)), np.ones((2, 2, 3, 4))
    held = layer(**quantity_metadata(Quantity("fluence"), standard_error=error, halves=halves))
    assert standard_error_of(held) is error
    assert halves_of(held) is halves
    alone = layer(**quantity_metadata(Quantity("fluence")))
    assert standard_error_of(alone) is None
    assert halves_of(alone) is None


def test_logarithms_become_linear_and_nothing_becomes_zero() -> None:
    shown = np.array([-2.0, np.nan, 1.0, -np.inf], np.float32)
    found = to_linear(shown, Quantity("fluence", "1/mm2", "log10"))
    np.testing.assert_allclose(found, [0.01, 0.0, 10.0, 0.0], rtol=1e-6)
    assert found.dtype == np.float32
    assert to_linear(shown, Quantity("fluence")) is shown
    assert to_linear(shown, None) is shown
