"""Streamlines as shaded tubes: as wide as they should be, in the right order of depth, and lines where they must be."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.gui.streamlines.tubes import has_geometry_shaders
from tests.gui.streamline_samples import seen

# One fiber along x, red and level on the canvas, and one along y, green and upright.
LEVEL = np.array([(12.0, 10.0, 0.0), (12.0, 10.0, 20.0)])
UPRIGHT = np.array([(8.0, 0.0, 10.0), (8.0, 20.0, 10.0)])


def crossing(**options):
    return Streamlines(np.concatenate([LEVEL, UPRIGHT]), [0, 2, 4], per_fiber={"n": np.array([0.0, 1.0])}, **options)


def in_3d(viewer, layer):
    viewer.add_layer(layer)
    viewer.dims.ndisplay = 3
    viewer.reset_view()
    return seen(viewer).astype(int)


@pytest.mark.parametrize(
    ("version", "there"),
    [
        ("4.5 (Compatibility Profile) Mesa 22.3.6", True),
        ("3.2.0 NVIDIA 550.1", True),
        ("4.6 (Core Profile) Mesa 22.3.6", False),
        ("2.1 INTEL-18.8.4", False),
        ("OpenGL ES 3.2 Mesa", False),
        ("", False),
    ],
)
def test_which_drivers_have_geometry_shaders(version, there):
    assert has_geometry_shaders(version) == there


def test_an_unknown_style_is_refused():
    layer = crossing()
    with pytest.raises(InvalidInput, match="auto, lines, tubes"):
        layer.line_style = "ribbons"
    assert layer.line_style == "auto"
    assert crossing(line_style="tubes").line_style == "tubes"


@pytest.mark.display
@pytest.mark.parametrize(("width", "pixels"), [(1, 3), (8, 8), (15, 15)])
def test_a_tube_is_so_many_pixels_wide_and_has_a_dark_rim(viewer, width, pixels):
    picture = in_3d(viewer, crossing(line_style="tubes", line_width=width, color_by="uniform"))
    light = picture.sum(axis=-1)
    column = light[:, light.shape[1] // 2 + 60]  # across the level fiber, away from the crossing
    lit = np.flatnonzero(column > 20)
    assert abs(len(lit) - pixels) <= 1
    if width > 5:
        assert min(column[lit[0]], column[lit[-1]]) < 0.4 * column[lit].max()


@pytest.mark.display
@pytest.mark.parametrize("style", ["tubes", "lines"])
def test_the_fiber_in_front_hides_the_other(viewer, style):
    picture = in_3d(viewer, crossing(line_style=style, line_width=9))[:, 283:300]
    middle = picture[picture.shape[0] // 2 - 2 : picture.shape[0] // 2 + 3].max(axis=(0, 1))
    direction = np.array(viewer.scene.camera.view_direction)
    assert (middle[0] > 200) == (direction @ LEVEL[0] < direction @ UPRIGHT[0])


@pytest.mark.display
def test_filters_and_colors_apply_to_tubes(viewer):
    layer = crossing(line_style="tubes", line_width=9)
    whole = in_3d(viewer, layer)
    layer.shown = np.array([True, False])
    one = seen(viewer).astype(int)
    assert 0.3 < (one.sum(axis=-1) > 20).sum() / (whole.sum(axis=-1) > 20).sum() < 0.7
    layer.color_by = "uniform"
    gray = seen(viewer).astype(int)
    assert np.ptp(gray[gray.sum(axis=-1) > 300], axis=-1).max() < 10


@pytest.mark.display
def test_slices_and_clipped_layers_are_drawn_with_lines(viewer):
    layer = crossing(line_style="tubes", line_width=1)
    in_3d(viewer, layer)
    node = viewer.window._qt_viewer.canvas.layer_to_visual[layer].node
    assert node.draws_tubes
    layer.experimental_clipping_planes = [{"position": (10, 10, 10), "normal": (0, 1, 0), "enabled": True}]
    seen(viewer)
    assert not node.draws_tubes
    layer.experimental_clipping_planes = []
    viewer.dims.ndisplay = 2
    seen(viewer)
    assert not node.draws_tubes
