"""Phase functions that are given as a table."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.phase import TabulatedPhaseFunction
from tests.optics.phase_samples import henyey_greenstein


@pytest.mark.parametrize("g", [-0.5, 0.0, 0.6, 0.9])
def test_the_table_of_a_density_has_its_mean_and_its_density(g):
    table = TabulatedPhaseFunction.from_density(henyey_greenstein(g))
    assert table.cosines[[0, -1]].tolist() == [-1.0, 1.0]
    assert table.g == pytest.approx(g, abs=2e-5)
    at = np.linspace(-0.99, 0.9, 50)
    expected = henyey_greenstein(g)(at) / 2  # which is 1 per 4 pi for g = 0
    np.testing.assert_allclose(table.density(at), expected, rtol=0.02)


def test_a_density_that_is_zero_somewhere_leaves_these_angles_out():
    table = TabulatedPhaseFunction.from_density(lambda c: (c > -0.5) & ((c < 0) | (c > 0.5)), points=1001)
    assert table.cosines[0] == pytest.approx(-0.5, abs=1e-4)
    inside = (table.cosines > 1e-4) & (table.cosines < 0.5 - 1e-4)
    assert inside.sum() == 0
    assert table.g == pytest.approx((-0.25 + 0.75) / 2, abs=1e-3)


def test_rayleigh_has_no_preferred_half():
    assert TabulatedPhaseFunction.from_density(lambda c: 1 + c**2).g == pytest.approx(0.0, abs=1e-9)


def test_equal_cosines_are_a_part_that_is_scattered_by_one_angle():
    table = TabulatedPhaseFunction(cosines=[-1.0, 1.0, 1.0])
    assert table.g == pytest.approx(0.5 * 0 + 0.5 * 1)
    assert table.density([0.0, 1.0]).tolist() == [0.25, np.inf]


@pytest.mark.parametrize(
    ("cosines", "sentence"),
    [
        ([0.0], r"shape \(1,\)"),
        ([[0.0, 1.0]], r"shape \(1, 2\)"),
        ([-1.0, 0.5, 0.4, 1.0], r"cosine 3 of the phase function is 0\.4, less than the one before it, 0\.5"),
        ([-1.0, 0.5, 1.5], r"cosine 3 of the phase function is 1\.5"),
        ([-1.0, np.nan, 1.0], "cosine 2 of the phase function is nan"),
        ([-np.inf, 1.0], "cosine 1 of the phase function is -inf"),
    ],
)
def test_tables_that_are_refused(cosines, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        TabulatedPhaseFunction(cosines=cosines)


@pytest.mark.parametrize(
    ("density", "sentence"),
    [
        (lambda c: c, "the density is -1 at the cosine -1"),
        (lambda c: 0 * c, "zero at all cosines"),
        (lambda c: np.where(c > 0.5, np.nan, 1.0), r"the density is nan at the cosine 0\.5"),
        (lambda _: 1.0, r"shape \(\)"),
    ],
)
def test_densities_that_are_refused(density, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        TabulatedPhaseFunction.from_density(density)
    with pytest.raises(InvalidInput, match="points is 1"):
        TabulatedPhaseFunction.from_density(np.ones_like, points=1)
