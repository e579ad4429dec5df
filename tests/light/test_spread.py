"""The standard error that batches of photons give: right in the mean, also where photons are left over."""

import numpy as np
import pytest

from napari_gpubio.light.batches import mean_error

RANDOM = np.random.default_rng(5)
DRAWS = 20_000
# whole batches, photons of one, photons left over: none, one, a few, nearly a batch, and those of several open batches
CASES = [(16, 100, 0), (16, 100, 1), (64, 187, 32), (3, 50, 49), (2, 40, 100), (5, 30, 75)]


@pytest.mark.parametrize(("batches", "size", "rest"), CASES)
@pytest.mark.parametrize("chance", [0.5, 0.002], ids=["frequent", "rare"])
def test_the_variance_is_right_in_the_mean(batches, size, rest, chance):
    """Of a number that a photon has by chance; its variance is p (1 - p)."""
    whole = RANDOM.binomial(size, chance, (batches, DRAWS)).astype(float)
    left = RANDOM.binomial(rest, chance, DRAWS).astype(float)
    found = mean_error(whole, left, size, rest) ** 2
    expected = chance * (1 - chance) / (batches * size + rest)
    assert abs(found.mean() - expected) < 4 * found.std() / np.sqrt(DRAWS)
    values = (whole.sum(axis=0) + left) / (batches * size + rest)
    assert values.var() == pytest.approx(expected, rel=0.06)  # it is the variance of the mean over all photons


def test_without_photons_left_over_it_is_that_of_equal_batches():
    whole = RANDOM.random((16, 7))
    expected = (whole / 50).std(axis=0, ddof=1) / 4
    np.testing.assert_allclose(mean_error(whole, np.zeros(7), 50, 0), expected, rtol=1e-12)


@pytest.mark.parametrize("where", ["a whole batch", "the rest"])
def test_a_single_photon_has_an_error_of_its_own_size(where):
    """As of one event in Poisson's law; 12,000 photons in 64 batches leave 32 over."""
    whole, rest = np.zeros((64, 1)), np.zeros(1)
    (whole[7] if where == "a whole batch" else rest)[0] = 0.3
    assert mean_error(whole, rest, 187, 32)[0] == pytest.approx(0.3 / 12_000, rel=0.02)


def test_a_photon_left_over_is_no_large_deviation():
    """Where one of a hundred comes by, that the last of 1,000,001 did says next to nothing."""
    whole = RANDOM.binomial(62_500, 0.01, (16, 1)).astype(float)
    without, passing = (mean_error(whole, np.array([last]), 62_500, 1)[0] for last in (0.0, 1.0))
    assert passing == pytest.approx(without, rel=1e-3)
    assert passing == pytest.approx(mean_error(whole, np.zeros(1), 62_500, 0)[0], rel=1e-3)


@pytest.mark.parametrize("batches", [0, 1])
def test_fewer_than_two_whole_batches_have_no_error(batches):
    assert np.isnan(mean_error(np.ones((batches, 3)), np.ones(3), 10, 5)).tolist() == [True] * 3
