"""Structures joined, cut and grown, and contours as voxels."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import DvhSettings, LabelStructures, contour_structure, dvh
from napari_gpubio.dose.structures.algebra import (
    Region,
    difference,
    intersection,
    label_region,
    margin,
    regions_on_grid,
    union,
)
from napari_gpubio.dose.structures.raster import inside, label_structures
from tests.dose.samples import PLANES, ROTATION, affine_of, at, circle, linear_dose, square, stack
from tests.dose.test_contours import inside as inside_plane
from tests.dose.test_contours import star


def ball(radius, spacing, half=26.0, center=(0.0, 0.0, 0.0)):
    """Voxels with their center in a ball; edges may differ."""
    sizes = np.broadcast_to(spacing, 3).astype(float)
    axes = [size * (np.arange(2 * int(half / size) + 1) - int(half / size)) for size in sizes]
    x, y, z = np.meshgrid(*axes, indexing="ij", sparse=True)
    mask = (x - center[0]) ** 2 + (y - center[1]) ** 2 + (z - center[2]) ** 2 <= radius**2
    return Region(name="ball", mask=mask, affine=affine_of(sizes, [axis[0] for axis in axes]))


def ball_cc(radius):
    return 4 / 3 * np.pi * radius**3 / 1000


@pytest.mark.parametrize("spacing", [1.0, (0.8, 1.3, 2.0)])
@pytest.mark.parametrize("mm", [5.0, 2.5, -4.0, -7.3])
def test_margins_of_a_ball(spacing, mm):
    radius = np.cbrt(margin(ball(15.0, spacing), mm).volume_cc / ball_cc(1.0))
    assert radius == pytest.approx(15.0 + mm, abs=0.2)


def test_margins_of_a_box_along_each_axis():
    mask = np.zeros((20, 22, 24), bool)
    mask[8:12, 9:13, 10:14] = True
    box = Region(name="box", mask=mask, affine=affine_of((1.0, 2.0, 3.0), axes=ROTATION))
    grown = margin(box, (2.0, 2.0, 0.0))
    lengths = [int(np.ptp(np.flatnonzero(grown.mask.any(axis=others))) + 1) for others in ((1, 2), (0, 2), (0, 1))]
    assert lengths == [8, 6, 4]
    assert grown.name == "box + 2 mm"
    shrunk = margin(box, (-1.0, 0.0, -3.0), "less")
    assert np.argwhere(shrunk.mask).min(axis=0).tolist() == [9, 9, 11]
    assert np.argwhere(shrunk.mask).max(axis=0).tolist() == [10, 12, 12]
    np.testing.assert_array_equal(margin(box, 0.0).mask, mask)


def test_what_grows_out_of_the_grid_is_refused_or_cut_off():
    region = ball(10.0, 1.0, half=12.0)
    with pytest.raises(InvalidInput, match=r"'ball \+ 6 mm' has \d+ voxels outside the grid; give room_mm"):
        margin(region, 6.0)
    assert margin(region, 6.0, clip=True).mask.shape == region.mask.shape
    whole = Region(name="all", mask=np.ones((5, 6, 7), bool), affine=np.eye(4))
    assert margin(whole, -1.0).mask.sum() == 3 * 4 * 5  # what lies beyond the grid is outside
    assert not margin(Region(name="none", mask=~whole.mask, affine=np.eye(4)), 3.0).mask.any()


def test_union_intersection_and_difference():
    a, b = ball(10.0, 0.5, 20.0), ball(10.0, 0.5, 20.0, (8.0, 0.0, 0.0))
    lens = np.pi * (4 * 10 + 8) * (2 * 10 - 8) ** 2 / 12 / 1000  # of two balls, 8 mm apart
    found = intersection(a, b), union(a, b), difference(a, b)
    volumes = lens, 2 * ball_cc(10.0) - lens, ball_cc(10.0) - lens
    assert [one.volume_cc for one in found] == pytest.approx(volumes, rel=5e-3)
    assert [one.name for one in found[1:]] == ["ball + ball", "ball - ball"]
    assert difference(a, b, "rest").name == "rest"
    with pytest.raises(InvalidInput, match="lie on different grids"):
        union(a, ball(10.0, 1.0, 20.0))


def test_a_ring_around_contours_is_counted():
    """The margin of a cylinder less the cylinder, from contours to a histogram."""
    (target,) = regions_on_grid([stack([circle(9.0)], PLANES, "PTV")], resolution_mm=0.5, room_mm=6.0)
    ring = difference(margin(target, (5.0, 5.0, 0.0)), target, "ring")
    found = dvh(linear_dose((0, 0, 1.0)), ring.structure(), DvhSettings(), device="cpu")["ring"]
    assert target.volume_cc == pytest.approx(np.pi * 81 * 14 / 1000, rel=5e-3)
    assert found.volume_cc == pytest.approx(np.pi * (14**2 - 9**2) * 14 / 1000, rel=0.02)
    assert found.mean == pytest.approx(40.0, abs=1e-2)


def test_contours_of_several_structures_share_a_grid():
    a, b = stack([square(5.0)], PLANES, "a"), stack([square(4.0, (12.0, 0.0))], [10.0, 12.0], "b")
    empty = contour_structure("empty", [])
    regions = regions_on_grid([a, empty, b], resolution_mm=1.0)
    assert [region.name for region in regions] == ["a", "empty", "b"]
    assert [round(region.volume_cc, 6) for region in regions] == [1.4, 0.0, 0.256]
    assert union(regions[0], regions[2]).volume_cc == pytest.approx(1.656)
    labels, notes = label_structures([a, empty, b], regions[0].affine, regions[0].mask.shape)
    assert label_region(labels, "b").volume_cc == pytest.approx(0.256)
    assert notes == ()


@pytest.mark.parametrize("axes", [np.eye(3), np.eye(3)[[2, 0, 1]], np.diag([-1.0, 1.0, -1.0]), ROTATION])
def test_voxels_are_those_whose_center_lies_inside(axes):
    """Rows of the grid that run in the planes, either way, and a grid that lies obliquely."""
    loops = [star(2), circle(3.0)]
    structure = stack(loops, PLANES)
    affine = affine_of((1.1, 0.7, 1.3), axes=axes)
    affine[:3, 3] = -affine[:3, :3] @ (11.3, 18.2, 9.4)
    shape = (24, 36, 20)
    found = inside(structure, affine, shape)
    cells = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), -1).reshape(-1, 3)
    world = cells @ affine[:3, :3].T + affine[:3, 3]
    expected = inside_plane(world[:, :2], loops) & (world[:, 2] >= -7) & (world[:, 2] < 7)
    np.testing.assert_array_equal(found.reshape(-1), expected)
    assert expected.sum() > 1000


def test_smaller_structures_are_labeled_over_larger_ones():
    organs = [stack([circle(4.0)], PLANES, "PTV"), stack([circle(9.0)], PLANES, "body")]
    labels, notes = label_structures(organs, affine_of(1.0, (-10, -10, -8)), (21, 21, 17))
    assert labels.names == ("PTV", "body")
    target, body = (labels.labels == value for value in labels.values)
    assert target.sum() == inside(organs[0], labels.affine, target.shape).sum()
    (note,) = notes
    assert note.startswith(f"{target.sum()} of the {target.sum() + body.sum()} voxels of 'body' belong to smaller")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: margin(ball(5.0, 1.0), (1.0, -1.0, 0.0)), "give a length, or three of one sign"),
        (lambda: margin(ball(5.0, 1.0), np.nan), "give a length, or three of one sign"),
        (lambda: margin(ball(5.0, 1.0), (1.0, 2.0)), r"is \(1\.0, 2\.0\) mm; give a length"),
        (lambda: regions_on_grid([contour_structure("a", [])], resolution_mm=1.0), "none of the structures"),
        (lambda: regions_on_grid([stack([square(5)], PLANES)], resolution_mm=0.0), "resolution_mm is 0"),
        (lambda: regions_on_grid([stack([square(5)], PLANES)], resolution_mm=1e-3), "choose a larger resolution_mm"),
        (lambda: regions_on_grid([stack([square(5)], PLANES)], resolution_mm=1, room_mm=-1), "room_mm is -1"),
        (lambda: Region(name="a", mask=np.ones((3, 3)), affine=np.eye(4)), "give bool"),
        (lambda: regions_on_grid([contour_structure("a", [at(square(5), 0)])], resolution_mm=1.0), "single plane"),
        (
            lambda: label_region(LabelStructures(labels=np.ones((2, 2, 2), np.uint8), affine=np.eye(4)), "b"),
            "there is no structure 'b'; there are label 1",
        ),
    ],
)
def test_bad_input_is_a_sentence(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
