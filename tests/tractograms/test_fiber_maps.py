"""Maps of fibers, against what is drawn by hand and the figures of tckmap 3.0.3."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tractograms import Tractogram, maps

SHAPE = (6, 5, 4)
FIBERS = Tractogram(
    points=[(0, 1, 1), (3, 1, 1), (3, 1, 1), (3, 3, 1), (1, 1, 1), (2, 1, 1), (1, 1, 1), (9, 9, 9)],
    offsets=[0, 2, 4, 7, 8],
    affine=np.eye(4),
    shape=SHAPE,
    per_fiber={"mean_fa": np.array([0.25, 0.75, 0.5, 1.0])},
)


def at(volume):
    """What is not zero, by voxel."""
    volume = np.nan_to_num(volume)
    return {tuple(map(int, voxel)): volume[tuple(voxel)].item() for voxel in np.argwhere(volume)}


def test_each_fiber_counts_once_in_a_voxel():
    counts = {(0, 1, 1): 1, (1, 1, 1): 2, (2, 1, 1): 2, (3, 1, 1): 2, (3, 2, 1): 1, (3, 3, 1): 1}
    assert at(maps.density(FIBERS, device="cpu")) == counts
    assert at(maps.mask(FIBERS, least=2, device="cpu")) == {v: True for v, n in counts.items() if n == 2}


def test_lengths_are_those_within_the_voxels():
    lengths = {(0, 1, 1): 0.5, (1, 1, 1): 2.0, (2, 1, 1): 2.0, (3, 1, 1): 1.0, (3, 2, 1): 1.0, (3, 3, 1): 0.5}
    assert at(maps.density(FIBERS, "length_mm", device="cpu")) == pytest.approx(lengths)


def test_ends_are_counted():
    assert at(maps.density(FIBERS, "ends", device="cpu")) == {(0, 1, 1): 1, (3, 1, 1): 2, (3, 3, 1): 1, (1, 1, 1): 2}


@pytest.mark.parametrize("number", ["mean_fa", [0.25, 0.75, 0.5, 1.0]], ids=["name", "values"])
def test_a_number_is_averaged_over_the_fibers_of_a_voxel(number):
    means = maps.density(FIBERS, "mean", number=number, device="cpu")
    found = {(0, 1, 1): 0.25, (1, 1, 1): 0.375, (2, 1, 1): 0.375, (3, 1, 1): 0.5, (3, 2, 1): 0.75, (3, 3, 1): 0.75}
    assert at(means) == pytest.approx(found)
    assert np.isnan(means[5, 4, 3])


def test_the_grid_may_be_another():
    fine = np.diag([0.5, 0.5, 0.5, 1])
    assert maps.density(FIBERS, "length_mm", shape=(12, 12, 12), affine=fine, device="cpu").sum() == pytest.approx(
        6.5, abs=0.51
    )
    assert maps.density(FIBERS, "count", shape=(12, 12, 12), affine=fine, device="cpu")[4, 2, 2] == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sum",), "count"),
        (("mean",), "shape"),
        (("mean", {"number": "mean_md"}), "mean_fa"),
        (("mean", {"number": [1, 2, np.nan, 3]}), "finite"),
    ],
)
def test_nonsense_is_refused(arguments, says):
    kind, *more = arguments
    with pytest.raises(InvalidInput, match=says):
        maps.density(FIBERS, kind, device="cpu", **(more[0] if more else {}))
