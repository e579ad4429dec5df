"""Fibers colored by an image: sampled where they run through it, whatever the grid of the image."""

import numpy as np
import pytest
from napari.layers import Image, Labels
from scipy import ndimage

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import volume_layer
from napari_gpubio.core.space import apply_affine
from napari_gpubio.gui.lines.sampling import free_name, title_of
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.gui.streamlines.color_box import ColorByBox
from tests.gui.streamline_samples import colors, cross
from tests.volume_samples import AFFINES

SHAPE = (14, 12, 10)
VOLUME = np.random.default_rng(5).normal(50, 10, SHAPE).astype(np.float32)
GRAY = [128, 128, 128]


def image_of(affine, array=VOLUME, name="T1", **carried):
    data, keywords, _ = volume_layer(array, affine, name, metadata=carried)
    return Image(data, **keywords)


def inside(affine, count=50):
    """World points well inside of the volume, and their voxel coordinates."""
    voxels = np.random.default_rng(1).uniform(0.5, np.array(SHAPE) - 1.5, (count, 3))
    return apply_affine(affine, voxels), voxels


@pytest.mark.parametrize("affine", AFFINES.values(), ids=list(AFFINES))
def test_values_are_those_of_the_image_at_the_points(affine):
    world, voxels = inside(affine)
    layer = Streamlines(world[:, ::-1], [0, 20, 50])
    layer.color_by_image(image_of(affine))
    assert layer.color_by == "T1"
    expected = ndimage.map_coordinates(VOLUME.astype(float), voxels.T, order=1)
    np.testing.assert_allclose(layer.per_point["T1"], expected, atol=0.01)
    assert len(np.unique(colors(layer), axis=0)) > 10


def test_lines_that_lie_elsewhere_in_the_world_are_sampled_there():
    affine = AFFINES["left-handed"]
    world, voxels = inside(affine)
    layer = Streamlines(world[:, ::-1] / 2 + 3, [0, 50], scale=(2, 2, 2), translate=(-6, -6, -6))
    layer.color_by_image(image_of(affine))
    expected = ndimage.map_coordinates(VOLUME.astype(float), voxels.T, order=1)
    np.testing.assert_allclose(layer.per_point["T1"], expected, atol=0.01)
    layer.translate = (1000, 0, 0)
    assert np.isnan(layer.per_point["T1"]).all(), "moved out of the image"
    assert (colors(layer) == GRAY).all()


def test_what_lies_outside_and_what_is_nan_is_gray():
    array = VOLUME.copy()
    array[3, 5, 5] = np.nan
    layer = Streamlines([(5, 5, 3), (5, 5, 6), (5, 5, -20)], [0, 3])
    layer.color_by_image(image_of(np.eye(4), array))
    assert np.isnan(layer.per_point["T1"]).tolist() == [True, False, True]
    assert (colors(layer)[[0, 2]] == GRAY).all()
    assert (colors(layer)[1] != GRAY).any()


def test_new_lines_are_colored_by_the_image_too():
    layer = cross()
    layer.color_by_image(image_of(np.eye(4)))
    before = layer.per_point["T1"].copy()
    layer.set_streamlines(layer.points[::-1], [0, 63])
    assert layer.color_by == "T1"
    np.testing.assert_array_equal(layer.per_point["T1"], before[::-1])
    layer.color_by = "direction"
    layer.set_streamlines(cross().points, cross().offsets)
    assert "T1" not in layer.per_point, "not needed"
    layer.color_by = "T1"
    np.testing.assert_array_equal(layer.per_point["T1"], before)


def test_the_image_of_now_is_taken_when_it_is_chosen_again():
    layer, image = cross(), image_of(np.eye(4))
    layer.color_by_image(image)
    image.data = image.data + 100
    layer.color_by_image(image)
    assert np.nanmin(layer.per_point["T1"]) > 90
    assert layer.color_choices.count("T1") == 1


def test_names_and_units():
    layer = cross()
    layer.color_by_image(image_of(np.eye(4), name="number", unit="mm²/s"))
    assert layer.color_by == "number (image)"
    assert layer.color_title == "number (image) (mm²/s)"
    assert layer.per_fiber["number"].tolist() == [0, 1, 2]
    assert free_name("a", ["a", "a (image)"]) == "a (image 2)"
    assert title_of("length_mm") == "length (mm)"
    assert title_of("study MD (mm²/s)", "mm²/s") == "study MD (mm²/s)"
    assert title_of("mean_fa") == "mean FA"


@pytest.mark.parametrize(
    "layer",
    [
        Image(np.zeros((5, 6)), name="flat"),
        Image(np.zeros((3, 5, 6, 4)), name="series"),
        Image(np.zeros((5, 6, 4, 3), np.uint8), rgb=True, name="colors"),
        Labels(np.zeros((5, 6, 4), int), name="labels"),
    ],
    ids=lambda layer: layer.name,
)
def test_other_layers_cannot_color(layer):
    lines = cross()
    with pytest.raises(InvalidInput, match=rf"'{layer.name}' cannot color fibers"):
        lines.color_by_image(layer)
    assert lines.color_by == "direction"


def test_the_list_offers_numbers_and_images(qtbot):
    layer, images = cross(), [image_of(np.eye(4)), Labels(np.zeros((5, 6, 4), int))]
    box = ColorByBox(lambda: images)
    qtbot.addWidget(box)
    box.set_layer(layer)
    assert [box.itemText(n) for n in range(box.count()) if box.itemText(n)] == [
        "direction", "uniform", "number", "place", "image: T1",
    ]  # fmt: skip
    box.setCurrentIndex(box.count() - 1)
    assert layer.color_by == "T1"
    layer.color_by = "place"
    box.show_choice()
    assert box.currentData() == "place"
    images.append(image_of(np.eye(4), name="T2"))
    box.fill()
    assert [box.itemText(n) for n in range(box.count())][-2:] == ["image: T2", "image: T1"], "the topmost first"
    assert box.currentData() == "place"
    other = Image(VOLUME.T, name="number")
    images.append(other)
    box.fill()
    box.setCurrentIndex(box.findText("image: number"))
    assert layer.color_by == "number (image)", "the fibers have a number of that name"
    box.set_layer(None)
    assert box.count() == 0
