"""Choosing a region of the viewer's layers."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import IN_MM, KEY
from napari_gpubio.tractograms.gui.region_box import RegionBox

pytestmark = pytest.mark.display


@pytest.fixture
def box(viewer, qtbot):
    box = RegionBox(viewer)
    qtbot.addWidget(box)
    box.attach()
    yield box
    box.detach()


def atlas(viewer):
    labels = np.zeros((5, 6, 7), np.uint8)
    labels[1, 2, 3], labels[3] = 4, 9
    features = {"index": [4, 9], "name": ["thalamus", "caudate"]}
    return viewer.add_labels(labels, name="atlas", features=features, **IN_MM)


def names(box):
    return [box.name_box.itemText(n) for n in range(box.name_box.count())]


def test_a_region_is_a_layer_and_one_of_its_labels(viewer, box):
    with pytest.raises(InvalidInput, match="where fibers start"):
        box.region("where fibers start")
    layer = atlas(viewer)
    assert names(box) == ["4: thalamus", "9: caudate"]
    box.choose(layer, 9)
    assert box.region("a region").name == "caudate"
    assert box.region("a region").voxels.sum() == 42


@pytest.mark.parametrize("kind", ["seeds", "optodes", "probe"])
def test_markers_of_this_package_are_no_regions(viewer, box, kind):
    viewer.add_points([[1.0, 2.0, 3.0]], name=kind, metadata={KEY: {kind: True}}, **IN_MM)
    assert box.layer is None
    assert box.layer_box.findText(kind) < 0
    sphere = viewer.add_points([[1.0, 2.0, 3.0]], name="sphere", **IN_MM)
    assert box.layer == sphere


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_an_image_of_labels_is_offered_like_labels(viewer, box, kind):
    noise = np.random.default_rng(0)
    viewer.add_image(noise.integers(0, 99, (5, 6, 7)).astype(np.int16), name="head", **IN_MM)
    viewer.add_image(noise.random((5, 6, 7)), name="FA", **IN_MM)
    assert box.layer is None
    mask = np.zeros((5, 6, 7), kind)
    mask[3] = 1
    viewer.add_image(mask, name="mask", **IN_MM)
    assert box.layer_box.count() == 1
    assert names(box) == ["1"]
    assert box.region("a region").voxels.sum() == 42


def test_what_is_painted_is_listed_and_reported(viewer, box, qtbot):
    layer = atlas(viewer)
    box.choose(layer, 9)
    with qtbot.waitSignal(box.changed):
        layer.data_setitem((np.array([0]), np.array([0]), np.array([0])), 2)
    assert names(box) == ["2", "4: thalamus", "9: caudate"]
    assert box.key == 9


def test_a_drawn_shape_is_as_thick_as_a_slice(viewer, box):
    viewer.add_image(np.zeros((9, 9, 9)), scale=(3, 1, 1), **IN_MM)
    square = np.array([[6, 0, 0], [6, 0, 6], [6, 6, 6], [6, 6, 0.0]])
    viewer.add_shapes([square], shape_type="polygon", name="cut", **IN_MM)
    assert names(box) == ["cut"]
    assert box.region("a region").volume_mm3 == pytest.approx(36 * 3, rel=0.15)


def test_layers_without_a_third_axis_are_listed_with_the_reason(viewer, box):
    viewer.add_points(np.zeros((1, 2)), name="flat")
    with pytest.raises(InvalidInput, match=r"flat.*2-D"):
        box.region("a region")


def test_a_layer_without_regions_says_so(viewer, box):
    viewer.add_labels(np.zeros((3, 3, 3), int), name="blank", **IN_MM)
    assert box.key is None
    with pytest.raises(InvalidInput, match="blank"):
        box.region("a region")


def test_a_sphere_has_the_diameter_that_is_typed_and_follows_a_drag(viewer, box, qtbot):
    layer = viewer.add_points([[1.0, 2.0, 3.0]], size=8.0, name="sphere", **IN_MM)
    assert box.size_box.value() == 8.0
    with qtbot.waitSignal(box.changed):
        box.size_box.setValue(12.0)
    assert box.region("a region").radius_mm == 6.0
    with qtbot.waitSignal(box.changed):
        layer.data = [[1.0, 2.0, 9.0]]
    assert box.region("a region").center_mm == (9.0, 2.0, 1.0)


def test_a_drawn_shape_may_be_thicker_than_a_slice(viewer, box):
    square = np.array([[6, 0, 0], [6, 0, 6], [6, 6, 6], [6, 6, 0.0]])
    viewer.add_shapes([square], shape_type="polygon", name="cut", **IN_MM)
    box.size_box.setValue(10.0)
    assert box.region("a region").volume_mm3 == pytest.approx(36 * 10, rel=0.1)
