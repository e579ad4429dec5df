"""MCX's shapes voxel by voxel. Numbers given for MCX are what the rasterizer inside pmcx 0.8.1 draws."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.mcx.io.shapes import rasterize

CUBE10 = {"Grid": {"Tag": 1, "Size": [10, 10, 10]}}
PIECES = [
    {"Sphere": {"Tag": 2, "O": [20, 24.5, 11.25], "R": 9.5}},
    {"Box": {"Tag": 3, "O": [3, 4.5, 5], "Size": [10, 8, 6.5]}},
    {"Subgrid": {"Tag": 4, "O": [30, 30, 10], "Size": [5, 6, 7]}},
    {"Cylinder": {"Tag": 5, "C0": [2, 40, 2], "C1": [37, 30, 25], "R": 4.2}},
    {"UpperSpace": {"Tag": 6, "Coef": [1, 1, 2, 115]}},
    {"XSlabs": {"Tag": 7, "Bound": [[2, 4], [38, 50]]}},
    {"YLayers": [[1, 2, 8], [49, 50, 0]]},
    {"ZSlabs": {"Tag": 9, "Bound": [28.6, 29.4]}},
]
GRID = {"Grid": {"Tag": 1, "Size": [40, 50, 30]}}
MOVED = {"Origin": [0.5, -1, 2]}


@pytest.mark.parametrize(
    ("shapes", "from_zero", "counts", "places"),
    [
        ([GRID, *PIECES], False, [2320, 37283, 3300, 504, 319, 2166, 1784, 8004, 2320, 2000],
         [[3780, 3528, 3528], [9763, 9885, 3613], [41524, 71833, 27564]]),
        ([GRID, *PIECES], True, [2320, 37107, 3433, 567, 319, 2146, 1784, 8004, 2320, 2000],
         [[4536, 4536, 4536], [10082, 10204, 3932], [41274, 73822, 28047]]),
        ([GRID, MOVED, *PIECES], True, [2320, 37077, 3466, 567, 314, 2148, 1784, 8004, 2320, 2000],
         [[4536, 5103, 3402], [9617, 10361, 3226], [42067, 75565, 25168]]),
    ],
)  # fmt: skip
def test_all_shapes_as_mcx_draws_them(shapes, from_zero, counts, places):
    labels = rasterize(shapes, None, from_zero=from_zero)
    assert np.bincount(labels.ravel()).tolist() == counts
    assert [np.argwhere(labels == label).sum(axis=0).tolist() for label in (3, 4, 5)] == places


@pytest.mark.parametrize(
    ("shape", "from_zero", "count", "low", "high"),
    [
        ({"Sphere": {"Tag": 2, "O": [5, 5, 5], "R": 2}}, True, 32, [3, 3, 3], [6, 6, 6]),
        ({"Sphere": {"Tag": 2, "O": [5, 5, 5], "R": 2}}, False, 32, [3, 3, 3], [6, 6, 6]),
        ({"Sphere": {"Tag": 2, "O": [5.5, 5.5, 5.5], "R": 3}}, True, 123, [2, 2, 2], [8, 8, 8]),
        ({"Box": {"Tag": 2, "O": [2, 2, 2], "Size": [3, 3, 3]}}, True, 27, [2, 2, 2], [4, 4, 4]),
        ({"Box": {"Tag": 2, "O": [2, 2, 2], "Size": [3, 3, 3]}}, False, 27, [1, 1, 1], [3, 3, 3]),
        ({"Subgrid": {"Tag": 2, "O": [2, 2, 2], "Size": [3, 3, 3]}}, True, 64, [1, 1, 1], [4, 4, 4]),
        ({"Subgrid": {"Tag": 2, "O": [2, 2, 2], "Size": [3, 3, 3]}}, False, 64, [0, 0, 0], [3, 3, 3]),
        ({"Cylinder": {"Tag": 2, "C0": [5, 5, 1], "C1": [5, 5, 6], "R": 2}}, True, 60, [3, 3, 1], [6, 6, 5]),
        ({"Cylinder": {"Tag": 2, "C0": [5, 5, 1], "C1": [5, 5, 6], "R": 2}}, False, 60, [2, 2, 0], [5, 5, 4]),
        ({"UpperSpace": {"Tag": 2, "Coef": [1, 0, 0, 5]}}, False, 500, [5, 0, 0], [9, 9, 9]),
        ({"XSlabs": {"Tag": 2, "Bound": [[2, 4]]}}, True, 300, [1, 0, 0], [3, 9, 9]),
        ({"XSlabs": {"Tag": 2, "Bound": [2.7, 4.9]}}, False, 200, [2, 0, 0], [3, 9, 9]),
        ({"XSlabs": {"Tag": 2, "Bound": [6, 2]}}, True, 300, [2, 0, 0], [4, 9, 9]),
        ({"ZLayers": [[2, 4, 2]]}, False, 300, [0, 0, 1], [9, 9, 3]),
        ({"YLayers": [8, 4, 2]}, True, 300, [0, 4, 0], [9, 6, 9]),
    ],
)
def test_one_shape_as_mcx_draws_it(shape, from_zero, count, low, high):
    labels = rasterize([CUBE10, shape], None, from_zero=from_zero)
    where = np.argwhere(labels == 2)
    assert (len(where), where.min(axis=0).tolist(), where.max(axis=0).tolist()) == (count, low, high)


BALLS = [
    ({"Sphere": {"Tag": 1, "O": list(center), "R": 10.3}}, 4 / 3 * np.pi * 10.3**3, 0.02, center)
    for center in ((20, 20, 20), (19.5, 20, 21.25), (11.3, 25.8, 19.1))
]
SLANTED = {"Cylinder": {"Tag": 1, "C0": [8, 10, 7.5], "C1": [50, 46, 38], "R": 7}}
LENGTH = np.linalg.norm([42, 36, 30.5])


@pytest.mark.parametrize(
    ("shape", "volume", "relative", "center"), [*BALLS, (SLANTED, np.pi * 49 * LENGTH, 0.01, (29, 28, 22.75))]
)
def test_volumes_and_centers(shape, volume, relative, center):
    labels = rasterize([{"Grid": {"Size": [60, 60, 60]}}, shape], None, from_zero=True)
    assert labels.sum() == pytest.approx(volume, rel=relative)
    np.testing.assert_allclose(np.argwhere(labels).mean(axis=0) + 0.5, center, atol=0.05)


def test_later_shapes_cover_earlier_ones_and_a_grid_starts_anew():
    half = {"ZLayers": [[1, 5, 2]]}
    assert np.unique(rasterize([CUBE10, half, {"ZLayers": [[1, 5, 3]]}], None, from_zero=True)).tolist() == [1, 3]
    labels = rasterize([CUBE10, half, {"Grid": {"Tag": 4, "Size": [2, 3, 4]}}], [5, 5, 5], from_zero=True)
    assert labels.shape == (2, 3, 4)
    assert (labels == 4).all()


def test_shapes_may_lie_outside():
    outside = [
        {"Sphere": {"Tag": 2, "O": [-50, 0, 0], "R": 3}},
        {"Subgrid": {"Tag": 2, "O": [-9, 1, 1], "Size": [3, 3, 3]}},
        {"XLayers": [[40, 50, 2]]},
        {"YSlabs": {"Tag": 2, "Bound": [-8, -3]}},
        {"Sphere": {"Tag": 1, "O": [1e300, 0, 0], "R": 1e200}},
        {"Origin": [1e300, 0, 0]},
        {"Subgrid": {"Tag": 2, "O": [1, 1, 1], "Size": [3, 3, 3]}},
        {"Box": {"Tag": 2, "O": [1, 1, 1], "Size": [3, 3, 3]}},
    ]
    labels = rasterize([CUBE10, *outside], None, from_zero=True)
    assert (labels == 1).all()


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ([], "size of the grid is missing"),
        ([{"Sphere": {"Tag": 1, "O": [1, 1, 1], "R": 1}}], "size of the grid is missing"),
        ([CUBE10, {"Torus": {}}], r"Shapes\[1\] is a 'Torus'"),
        ([CUBE10, {"sphere": {"O": [1, 1, 1], "R": 1}}], "'sphere', which is not known"),
        ([CUBE10, {}], r"Shapes\[1\] is \{\}"),
        ([CUBE10, 7], r"Shapes\[1\] is 7"),
        ([CUBE10, {"Sphere": {"O": [1, 1, 1]}}], r"Shapes\[1\].Sphere.R is missing"),
        ([CUBE10, {"Sphere": {"O": [1, 1], "R": 1}}], "list of 3 numbers"),
        ([CUBE10, {"Sphere": {"O": [1, 1, "x"], "R": 1}}], "list of 3 numbers"),
        ([CUBE10, {"Sphere": {"O": [1, 1, 1], "R": 1, "Tag": -1}}], "tag -1"),
        ([CUBE10, {"Sphere": {"O": [1, 1, 1], "R": 1, "Tag": 65536}}], "tag 65536"),
        ([CUBE10, {"Sphere": {"O": [1, 1, 1], "R": 1, "Tag": 1.5}}], "give an integer"),
        ([CUBE10, {"Sphere": [1, 2]}], "an object"),
        ([CUBE10, {"Box": {"O": [1, 1, 1]}}], "Size is missing"),
        ([CUBE10, {"Subgrid": {"O": [1, 1, 1.5], "Size": [1, 1, 1]}}], "integers"),
        ([CUBE10, {"Cylinder": {"C0": [1, 1, 1], "C1": [1, 1, 1], "R": 1}}], "length 0"),
        ([CUBE10, {"UpperSpace": {"Coef": [1, 1, 1]}}], "list of 4 numbers"),
        ([CUBE10, {"ZLayers": [[1, 2]]}], "list of 3 numbers"),
        ([CUBE10, {"ZLayers": "all"}], "list of 3 numbers"),
        ([CUBE10, {"ZSlabs": {"Tag": 1}}], "a slab of .*Bound is absent; give a list of 2"),
        ([CUBE10, {"Origin": [1, 2]}], "list of 3 numbers"),
        ([{"Grid": {"Size": [10, 10]}}], "list of 3 numbers"),
        ([{"Grid": {"Size": [10, 10, 0]}}], "between 1 and 32767"),
        ([{"Grid": {"Size": [40000, 10, 10]}}], "between 1 and 32767"),
        ([{"Grid": {"Size": [30000, 30000, 30000]}}], "MB of memory"),
    ],
)
def test_wrong_shapes(shapes, words):
    with pytest.raises(InvalidInput, match=words):
        rasterize(shapes, None, from_zero=True)
