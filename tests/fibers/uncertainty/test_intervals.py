"""Intervals of numbers that noise shifts: what they contain, how often they hold the truth, and what is reported."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.fibers import Bootstrap
from napari_gpubio.fibers.uncertainty.intervals import SHARE, Repeated, limits_of
from napari_gpubio.fibers.uncertainty.run import _shift_notes
from napari_gpubio.tractograms import Tractogram

TRUTH, DIMENSIONS = 400.0, 16


@pytest.fixture(scope="module")
def squares():
    """Squared lengths of 1500 noisy vectors, each with 100 repeats: noise of unit variance adds 16 on average."""
    rng = np.random.default_rng(3)
    at = np.zeros(DIMENSIONS)
    at[0] = np.sqrt(TRUTH)
    fit = at + rng.normal(size=(1500, DIMENSIONS))
    once = fit + rng.normal(size=(100, 1500, DIMENSIONS))
    twice = once + rng.normal(size=once.shape)
    return Repeated(*((vectors**2).sum(axis=-1) for vectors in (fit, once, twice)))


def share_that_holds(low, high):
    return np.mean((low <= TRUTH) & (high >= TRUTH))


def test_the_bias_is_known_and_taken_out(squares):
    """Standard errors: 0.1 of the mean bias, 1.1 of the mean estimate."""
    estimate, _, _ = squares.interval(0.95)
    assert squares.bias.mean() == pytest.approx(DIMENSIONS, abs=0.5)
    assert estimate.mean() == pytest.approx(TRUTH, abs=4.5)
    assert squares.fit.mean() > TRUTH + 10


def test_intervals_hold_the_truth_as_often_as_they_say(squares):
    """The standard error of a share of 1500 is 0.6 %; percentiles about a bias that is there twice hold 87 %."""
    _, low, high = squares.interval(0.95)
    assert 0.93 <= share_that_holds(low, high) <= 0.975
    _, low, high = squares.interval(0.5)
    assert share_that_holds(low, high) == pytest.approx(0.5, abs=0.06)
    assert share_that_holds(*np.quantile(squares.once, [0.025, 0.975], axis=0)) < 0.9


def test_a_second_draw_makes_the_bias_less_noisy(squares):
    """Of a number that jumps, as where a fiber ends: the error of the fit, undone in its repeats, is no bias."""
    ends = Repeated(*((part > TRUTH).astype(float) for part in squares))
    without = ends._replace(twice=np.empty(0))
    assert ends.bias.std() < 0.5 * without.bias.std()
    assert without.bias.mean() == pytest.approx(ends.bias.mean(), abs=0.03)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), skew=st.floats(0.1, 3.0), level=st.floats(0.01, 0.999))
def test_an_interval_contains_its_estimate_within_what_is_possible(seed, skew, level):
    """Numbers of heavy tails, in any order of fit and repeats, some of which have no fiber."""
    rng = np.random.default_rng(seed)
    fit, once, twice = (np.exp(skew * rng.normal(size=shape)) for shape in (7, (25, 7), (12, 7)))
    once[rng.random(once.shape) < 0.3] = np.nan
    once[0] = fit
    for scale, limits in ((1.0, (0.0, np.inf)), (once[np.isfinite(once)].max() + twice.max() + fit.max(), SHARE)):
        repeated = Repeated(fit / scale, once / scale, twice / scale)
        estimate, low, high = repeated.interval(level, limits)
        assert ((limits[0] <= low) & (low <= estimate) & (estimate <= high) & (high <= limits[1])).all()
        assert limits_of(repeated) == (0.0, np.inf)


def test_numbers_without_spread_are_exact():
    same = Repeated(np.float64(3.0), np.full(5, 3.0), np.full(5, 3.0))
    assert [float(value) for value in same.interval(0.95)] == [3.0, 3.0, 3.0]
    assert limits_of(same._replace(fit=np.float64(-1.0)))[0] == -np.inf


def fibers_of_length(*lengths):
    points = np.concatenate([[(0.0, 0.0, 0.0), (length, 0.0, 0.0)] for length in lengths])
    return Tractogram(
        points=points, offsets=2 * np.arange(len(lengths) + 1), affine=np.eye(4), shape=(9, 9, 9),
        per_fiber={"length_mm": np.array(lengths, np.float32)}, parameters={"launched": len(lengths)},
    )  # fmt: skip


@pytest.fixture
def found():
    """Two fibers of 20 mm; noise makes them 5 mm longer, and loses none."""
    rng, fibers = np.random.default_rng(0), fibers_of_length(20.0, 20.0)
    once = {"length_mm": 25.0 + rng.normal(size=50), "fibers": np.full(50, 2.0)}
    twice = {"length_mm": once["length_mm"] + 5.0, "fibers": np.full(50, 2.0)}
    return Bootstrap(
        fibers=fibers, visits=np.zeros((9, 9, 9), np.int32), repeats=50, numbers=once, kept=fibers, numbers_twice=twice
    )


def test_fit_bias_and_estimate_are_reported(found):
    estimate, low, high = found.interval("length_mm")
    assert found.of_fit("length_mm") == 20.0
    assert found.bias("length_mm") == pytest.approx(5.0)
    assert estimate == pytest.approx(15.0)
    assert low < 15.0 < high < 23.0
    assert tuple(found.interval("fibers")) == (2.0, 2.0, 2.0)
    head, *rows = (row.split(",") for row in found.table().splitlines())
    assert head == ["number", "estimate", "low", "high", "fit", "bias"]
    for _, estimate, low, high, fit, bias in rows:
        assert float(low) <= float(estimate) <= float(high)
        assert float(estimate) + float(bias) == pytest.approx(float(fit))


def test_a_bias_beyond_the_spread_is_noted(found):
    (note,) = _shift_notes(found)
    assert "length_mm by +5 to 20" in note
    unshifted = dataclasses.replace(found, numbers_twice=found.numbers)
    assert _shift_notes(unshifted) == []


def test_what_has_no_interval(found):
    lost = dataclasses.replace(found, numbers={"length_mm": np.full(50, np.nan)}, numbers_twice={})
    assert np.isnan(lost.interval("length_mm")).all()
    for method in (found.interval, found.of_fit, found.bias):
        with pytest.raises(InvalidInput, match="color"):
            method("color")
    with pytest.raises(InvalidInput, match="95"):
        found.interval("length_mm", 95)
