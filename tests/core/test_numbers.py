"""Numbers as people read them."""

import math

import numpy as np
import pytest

from napari_gpubio.core.numbers import (
    difference_text,
    figures_of,
    memory_text,
    number_text,
    position_text,
    seconds_text,
    short_number,
)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.17691, 0.00041, "0.1769 ± 0.0004"),
        (0.17691, 0.00014, "0.17691 ± 0.00014"),
        (3.21e-05, 4.2e-07, "(3.21 ± 0.04)e-05"),
        (9.8e-05, 6e-07, "(9.80 ± 0.06)e-05"),
        (0.0052392, 9.8e-06, "0.005239 ± 0.000010"),
        (0.0052392, 4e-08, "(5.23920 ± 0.00004)e-03"),
        (2e-07, 3e-07, "(2 ± 3)e-07"),
        (80.13, 1.31, "80.1 ± 1.3"),
        (12345.6, 78.0, "12,346 ± 78"),
        (123456789.0, 2.0e6, "(1.23 ± 0.02)e+08"),
        (0.5, 0.0, "0.5"),
        (0.17691234, math.nan, "0.1769"),
        (3.21e-05, math.nan, "3.21e-05"),
        (1_000_000, math.nan, "1,000,000"),
        (12345.6, math.nan, "12,346"),
        (0.0, math.nan, "0"),
        (math.nan, 1.0, "–"),
        (math.nan, math.nan, "–"),
    ],
)
def test_a_number_is_written_as_far_as_it_is_known(value, error, text):
    assert number_text(value, error) == text


def test_no_number_is_rounded_by_more_than_half_its_error():
    random = np.random.default_rng(1)
    for _ in range(2000):
        value = 10 ** random.uniform(-9, 9)
        error = value * 10 ** random.uniform(-5, 1)
        mantissa, _, power = number_text(value, error).replace(",", "").strip("(").partition(")e")
        shown, shown_error = (float(part) * 10.0 ** int(power or 0) for part in mantissa.split(" ± "))
        assert abs(shown - value) <= 0.5 * error * 1.02
        assert 2 / 3 < shown_error / error < 4 / 3


@pytest.mark.parametrize(
    ("value", "figures", "text"),
    [
        (12889.6, 4, "12,890"),
        (-1234.5, 4, "-1,234"),
        (0.000123456, 4, "0.0001235"),
        (3e9, 4, "3,000,000,000"),
        (3.5e9 + 0.5, 4, "3.5e+09"),
        (999.96, 4, "1,000"),
        (999.6, 3, "1,000"),
        (123.456, 2, "123"),
        (2.5, 4, "2.5"),
        (-0.0, 4, "0"),
        (math.nan, 4, "–"),
        (math.inf, 4, "–"),
    ],
)
def test_a_number_without_an_error_is_short(value, figures, text):
    assert short_number(value, figures) == text


@pytest.mark.parametrize(
    ("change", "ends", "text"),
    [
        (-3.28599, ((16.42994, 4), (13.14395, 4)), "-3.29"),
        (0.5678, ((50.12345, 4), (50.69125, 3)), "+0.6"),
        (0.012, ((50.1, 3), (50.112, 4)), "0"),
        (2.6e-7, ((1.0e-6, 2), (1.26e-6, 3)), "+3e-07"),
        (1200.0, ((0.0, 4), (1200.0, 4)), "+1,200"),
        (0.0, ((0.0, 4), (0.0, 4)), "0"),
        (math.nan, ((math.nan, 4), (1.0, 4)), "–"),
    ],
)
def test_a_difference_ends_where_its_numbers_do(change, ends, text):
    assert difference_text(change, *ends) == text


@pytest.mark.parametrize(("share", "figures"), [(0.0, 4), (1e-9, 4), (1 / 128, 3), (0.02, 2), (0.9, 2)])
def test_figures_follow_the_share_that_is_not_known(share, figures):
    assert figures_of(share) == figures


def test_a_position_has_no_signed_zero_and_no_powers_of_ten():
    assert position_text((-6.49e-6, -0.04, 12.345)) == "(0, 0, 12.3) mm"


def test_times_and_amounts_of_memory():
    assert [seconds_text(s) for s in (0.01234, 1.234, 12.34, 4321.0)] == ["0.012 s", "1.23 s", "12 s", "4,321 s"]
    assert [memory_text(n) for n in (1.0, 3e6, 2.5 * 2**30)] == ["1 MB", "3 MB", "2.5 GB"]
