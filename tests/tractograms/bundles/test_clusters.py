"""Resampled fibers, and clusters of them."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tractograms.bundles import cluster, resample, resample_values
from napari_gpubio.tractograms.model import Tractogram


def packed(lines: list[np.ndarray]) -> Tractogram:
    offsets = np.concatenate([[0], np.cumsum([len(line) for line in lines])])
    points = np.concatenate([np.zeros((0, 3)), *lines])
    return Tractogram(points=points, offsets=offsets, affine=np.eye(4), shape=(8, 8, 8))


@pytest.fixture(scope="module")
def three_bundles() -> Tractogram:
    """Thirty, twenty and ten noisy arcs, every other one reversed, of 20 to 60 points."""
    rng, lines = np.random.default_rng(1), []
    for size, height in ((30, 0.0), (20, 15.0), (10, 30.0)):
        for _ in range(size):
            t = np.sort(rng.uniform(0, np.pi, rng.integers(20, 60)))[:, None]
            t[0], t[-1] = 0.0, np.pi
            arc = np.hstack([20 * np.cos(t), 20 * np.sin(t), 0 * t + height]) + rng.normal(0, 0.4, 3)
            lines.append(arc[:: rng.choice([-1, 1])])
    return packed(lines)


def test_points_of_a_resampled_line_are_evenly_spaced():
    uneven = np.array([[0, 0, 0], [1, 0, 0], [1.5, 0, 0], [9, 0, 0], [12, 0, 0]], float)
    even = resample(packed([uneven, np.add(uneven[::-1], [0, 5, 0])]), 7)
    np.testing.assert_allclose(even[0], np.linspace([0, 0, 0], [12, 0, 0], 7), atol=1e-12)
    np.testing.assert_allclose(even[1], np.linspace([12, 5, 0], [0, 5, 0], 7), atol=1e-12)


def test_values_are_taken_where_the_points_are(three_bundles):
    values = resample_values(three_bundles, three_bundles.points[:, 0] * 2.0, 9)
    np.testing.assert_allclose(values, 2.0 * resample(three_bundles, 9)[..., 0], atol=1e-12)


def test_fibers_of_one_point_and_of_no_length_stay_where_they_are():
    still = packed([np.ones((1, 3)), np.full((4, 3), 2.0)])
    assert (resample(still, 3) == np.array([1.0, 2.0])[:, None, None]).all()
    assert resample(packed([]), 5).shape == (0, 5, 3)


@pytest.mark.parametrize("count", [1, 0, -3])
def test_fewer_than_two_points_are_refused(count, three_bundles):
    with pytest.raises(InvalidInput, match="at least 2"):
        resample(three_bundles, count)


def test_bundles_are_found_largest_first(three_bundles):
    found = cluster(three_bundles, 5.0)
    assert found.counts.tolist() == [30, 20, 10]
    assert (found.labels == np.repeat([0, 1, 2], [30, 20, 10])).all()
    assert found.distances_mm.max() <= 5.0
    assert (found.labels[found.leaders] == [0, 1, 2]).all()


def test_order_and_direction_of_the_fibers_do_not_matter(three_bundles):
    order = np.random.default_rng(2).permutation(len(three_bundles))
    lines = [three_bundles[f][::-1] for f in order]
    found, again = cluster(three_bundles, 1.0), cluster(packed(lines), 1.0)
    assert len(found) > 3
    assert (np.sort(order[again.leaders]) == np.sort(found.leaders)).all()
    assert (order[again.leaders][again.labels] == found.leaders[found.labels][order]).all()


def test_directed_fibers_are_not_reversed(three_bundles):
    assert len(cluster(three_bundles, 5.0, directed=True)) == 6


def test_at_most_so_many_clusters(three_bundles):
    found = cluster(three_bundles, 0.1, most=4)
    assert len(found) == 4
    assert found.counts.sum() == len(three_bundles)
    assert len(cluster(packed([]), 5.0)) == 0


@pytest.mark.parametrize("choice", [{"threshold_mm": 0.0}, {"threshold_mm": np.nan}, {"threshold_mm": 1.0, "most": 0}])
def test_impossible_choices_are_refused(choice, three_bundles):
    with pytest.raises(InvalidInput):
        cluster(three_bundles, **choice)
