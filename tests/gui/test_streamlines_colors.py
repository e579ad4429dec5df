import numpy as np
import pytest

from tests.gui.streamline_samples import BLUE, GREEN, RED, calls, colors, cross


def test_direction_follows_the_transform():
    layer = cross()
    assert (colors(layer)[:21] == RED).all()
    assert (colors(layer)[21:42] == GREEN).all()
    assert (colors(layer)[42:] == BLUE).all()
    turn = np.eye(4)[[2, 1, 0, 3]]  # data x is the world's z
    layer.affine = turn
    assert (colors(layer)[:21] == BLUE).all()
    layer.affine = np.eye(4)
    layer.rotate = turn[:3, :3] @ np.diag([1, -1, 1])
    assert (colors(layer)[42:] == RED).all()


def test_color_choices():
    layer = cross(color="orange", colormap="gray")
    assert layer.color_choices == ["direction", "uniform", "number", "place"]
    layer.color_by = "uniform"
    assert (colors(layer) == [255, 165, 0]).all()
    layer.color = (0, 0, 1)
    assert (colors(layer) == BLUE).all()
    layer.color_by = "number"
    assert colors(layer)[[0, 21, 42], 0].tolist() == [0, 128, 255]
    layer.color_by = "place"
    assert (np.diff(colors(layer)[:21, 0].astype(int)) >= 0).all()
    layer.colormap = "viridis"
    assert colors(layer)[0].tolist() == [68, 1, 84]
    assert layer.track_colors[0] == pytest.approx([68 / 255, 1 / 255, 84 / 255, 1])


def test_contrast_limits_are_remembered_for_each_number():
    layer = cross(color_by="place", contrast_limits=(0, 40), colormap="gray")
    assert layer.contrast_limits == (0, 40)
    assert colors(layer)[20, 0] == 128
    layer.color_by = "number"
    assert layer.contrast_limits == pytest.approx((0.04, 1.96))
    layer.color_by = "place"
    assert layer.contrast_limits == (0, 40)
    layer.contrast_limits = None
    assert layer.contrast_limits == (0, 20)
    assert colors(layer)[20, 0] == 255
    layer.color_by = "direction"
    assert layer.contrast_limits is None


def test_a_color_bar_can_be_drawn_and_hears_of_changes():
    layer = cross(colormap="gray")
    heard = calls(layer.events.coloring)
    assert layer.color_bar_image(10, 2) is None
    assert layer.color_bar_limits is None
    layer.color_by = "place"
    layer.contrast_limits = (0, 5)
    layer.colormap = "viridis"
    layer.colormap = "gray"
    assert len(heard) == 4
    assert layer.color_bar_limits == (0, 5)
    upright, lying = layer.color_bar_image(100, 10), layer.color_bar_image(10, 100)
    assert (upright.shape, lying.shape) == ((100, 10, 4), (10, 100, 4))
    assert (upright[0, :, 0] == 255).all()
    assert (upright[-1, :, 0] == 0).all()
    assert (lying[:, 0, 0] == 0).all()
    assert upright.dtype == np.uint8
