"""Regions of labels, shapes and points layers."""

import numpy as np
import pytest
from napari.layers import Labels, Points, Shapes

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import IN_MM, volume_layer
from napari_gpubio.diffusion.layer_regions import region_names, region_of

AFFINE = np.array([[0, -2.0, 0, 10], [2.0, 0, 0, -5], [0, 0, 3.0, 2], [0, 0, 0, 1]])


def labels():
    array = np.zeros((7, 6, 5), np.uint8)
    array[1:3, 2, 3], array[5, 5, 1:] = 4, 9
    data, keywords, _ = volume_layer(array, AFFINE, "atlas", kind="labels")
    return array, Labels(data, **keywords, features={"index": [4, 9], "name": ["thalamus", "caudate"]})


def test_each_label_is_a_region():
    array, layer = labels()
    assert region_names(layer) == {4: "thalamus", 9: "caudate"}
    region = region_of(layer, 9)
    assert region.name == "caudate"
    np.testing.assert_array_equal(region.voxels, array == 9)
    np.testing.assert_allclose(region.affine, AFFINE)


def test_a_point_is_a_sphere_of_its_size():
    layer = Points([[3.0, 2.0, 1.0], [0.0, 0.0, 0.0]], size=[8.0, 3.0], name="seed", **IN_MM)
    assert region_names(layer) == {0: "seed 1", 1: "seed 2"}
    sphere = region_of(layer, 0)
    assert (sphere.center_mm, sphere.radius_mm) == ((1.0, 2.0, 3.0), 4.0)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_drawn_shape_is_a_slab_across_its_plane(axis):
    """A rectangle with a rectangular hole's worth cut off: an L of 12 x 10 mm less 6 x 5 mm."""
    flat = np.array([[0, 0], [12, 0], [12, 5], [6, 5], [6, 10], [0, 10.0]]) + 20
    corners = np.insert(flat, axis, 7.0, axis=1)  # z, y, x
    layer = Shapes([corners], shape_type="polygon", name="cut", **IN_MM)
    region = region_of(layer, "cut", thickness_mm=3.0)
    assert region.volume_mm3 == pytest.approx((120 - 30) * 3.0, rel=0.1)
    assert region.center_mm[2 - axis] == pytest.approx(7.0, abs=0.26)
    middle = np.insert([23.0, 22.0], axis, 7.0)[::-1]
    gone = np.insert([30.0, 28.0], axis, 7.0)[::-1]
    assert region.contains([middle, gone]).tolist() == [True, False]


def test_shapes_of_a_name_are_one_region():
    square = np.array([[0, 0, 0], [0, 4, 0], [0, 4, 4], [0, 0, 4.0]])
    layer = Shapes(
        [square, square + np.array([2, 0, 0]), square + 20],
        shape_type="rectangle",
        features={"name": ["a", "a", "b"]},
        **IN_MM,
    )
    assert region_names(layer) == {"a": "a", "b": "b"}
    assert region_of(layer, "a", thickness_mm=2.0).volume_mm3 == pytest.approx(2 * 32.0, rel=0.15)


@pytest.mark.parametrize(
    ("layer", "key"),
    [(labels()[1], 5), (Points(ndim=3), 0), (Shapes(np.zeros((1, 2, 3)), shape_type="line"), "Shapes")],
    ids=["label", "point", "line"],
)
def test_what_a_layer_does_not_hold_is_refused(layer, key):
    with pytest.raises(InvalidInput):
        region_of(layer, key)


def test_colors_and_names_of_shapes_that_napari_has_given_up_are_left_out(monkeypatch):
    """Its table keeps them when all shapes go, and its colors when a polygon is given up while it is drawn."""
    layer = Shapes([np.eye(3)], shape_type="polygon", features={"name": ["here"]})
    colors = np.ones((2, 4))
    monkeypatch.setattr(Shapes, "edge_color", property(lambda _: colors))
    assert region_names(layer) == {"here": "here"}
    layer.data = []
    assert region_names(layer) == {}
